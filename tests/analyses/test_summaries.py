"""Activities, kernels and sizes by name, and the costliest of them."""

import pytest
from drawing import draw
from recordings import DUAL, PUBLISHED_EXAGGERATED, copy, kernel, row, summary, trace

from gpuprof.analyses.activity_summary import activity_summary, kernel_summary, size_summary
from gpuprof.analyses.totals import top_activities


def test_kernels_of_one_name_are_one_row():
    profile = draw(
        kernels=[
            (0, 4, {"name": "b"}),
            (9, 10, {"name": "a"}),
            (0, 8, {"name": "b"}),
            (5, 8, {"name": "b", "device_id": 1}),
        ]
    )

    found = [tuple(row.values()) for row in kernel_summary(profile).to_pylist()]
    assert [row[:6] + row[7:] for row in found] == [
        (3, 15, 5.0, 4.0, 3, 8, "b", "b"),
        (1, 1, 1.0, 1.0, 1, 1, "a", "a"),
    ]
    assert found[1][6] is None


def test_each_kind_has_its_sizes_the_largest_total_first():
    copies = [copy("HtoD", 0, 1, bytes=size) for size in (10, 20, 60)]
    profile = trace(
        memcpys=[copy("DtoH", 0, 1, bytes=4), *copies], memsets=[{"bytes": 7}, {"bytes": 9}]
    )

    first, *others = size_summary(profile).to_pylist()

    assert first == {
        "name": "HtoD",
        "calls": 3,
        "bytes": 90,
        "mean_bytes": 30.0,
        "median_bytes": 20.0,
        "min_bytes": 10,
        "max_bytes": 60,
        "stddev_bytes": pytest.approx(700**0.5),
    }
    assert [(row["name"], row["calls"], row["bytes"]) for row in others] == [
        ("memset", 2, 16),
        ("DtoH", 1, 4),
    ]
    assert others[-1]["stddev_bytes"] is None


def test_one_unknown_size_leaves_the_sum_unknown():
    profile = trace(memcpys=[copy("HtoD", 0, 1, bytes=5), copy("HtoD", 1, 2, bytes=None)])

    (row,) = size_summary(profile).to_pylist()

    assert (row["calls"], row["bytes"], row["mean_bytes"]) == (2, None, 5.0)


def _rows(profile):
    return activity_summary(profile).to_pylist()


def test_calls_of_one_kernel_are_one_row():
    (found,) = _rows(trace(kernels=[kernel("a", 0, 10), kernel("a", 5, 25), kernel("a", 40, 43)]))

    assert found == {
        "run_id": None,
        "activity_kind": "kernel",
        "name": "a",
        "short_name": "a",
        "calls": 3,
        "total_ns": 33,
        "min_ns": 3,
        "max_ns": 20,
        "mean_ns": 11.0,
        "median_ns": 10.0,
        "stddev_ns": pytest.approx(((1 + 81 + 64) / 2) ** 0.5),
        "bytes": None,
        "printed_share": None,
        "section": "kernel",
    }


def test_one_call_has_no_deviation():
    assert _rows(trace(kernels=[kernel("a", 0, 10)]))[0]["stddev_ns"] is None


def test_kinds_are_in_order_and_the_costliest_first():
    profile = trace(
        memsets=[{"bytes": 4}],
        memcpys=[copy("HtoD", 0, 9, bytes=1), copy("DtoH", 0, 10, bytes=2)],
        kernels=[kernel("a", 0, 1), kernel("b", 0, 2)],
        api_calls=[{"name": "cudaMalloc"}],
    )

    assert [(r["activity_kind"], r["name"]) for r in _rows(profile)] == [
        ("kernel", "b"),
        ("kernel", "a"),
        ("memcpy", "DtoH"),
        ("memcpy", "HtoD"),
        ("memset", "memset"),
        ("api", "cudaMalloc"),
    ]


@pytest.mark.parametrize(("size", "both"), [(3, 11), (None, None)])
def test_bytes_add_up_where_all_are_known(size, both):
    profile = trace(memcpys=[copy("HtoD", 0, 1, bytes=8), copy("HtoD", 1, 2, bytes=size)])

    assert _rows(profile)[0]["bytes"] == both


def test_what_a_tool_summed_up_is_passed_on():
    profile = summary(row("a", 2, 10), row("HtoD", 1, 3))

    listed = profile.table("activity_summary")
    assert activity_summary(profile).drop_columns("short_name") == listed


def test_the_costliest_are_first():
    found = top_activities(summary(*DUAL)).to_pylist()

    assert [(r["rank"], r["name"]) for r in found][:3] == [(1, "conv"), (2, "PtoP"), (3, "DtoD")]


def test_at_most_ten_are_named():
    rows = [row(f"kernel{number}", 1, 100 + number) for number in range(20)]

    found = top_activities(summary(*rows)).to_pylist()

    assert [r["total_ns"] for r in found] == list(range(119, 109, -1))


def test_the_costliest_of_each_kind_is_among_them():
    kernels = [row(f"kernel{number}", 1, 100 + number) for number in range(20)]
    others = [row("HtoD", 1, 9), row("DtoH", 1, 8), row("memset", 1, 7)]

    found = top_activities(summary(*kernels, *others)).to_pylist()

    assert [r["total_ns"] for r in found] == [*range(119, 111, -1), 9, 7]
    assert [r["rank"] for r in found] == [*range(1, 11)]


def test_api_calls_are_no_gpu_activities():
    profile = summary(row("a", 1, 1), row("b", 1, 9, activity_kind="api"))

    assert [r["name"] for r in top_activities(profile).to_pylist()] == ["a"]


def test_an_excerpt_s_shares_are_of_the_implied_total():
    (found,) = top_activities(summary(*PUBLISHED_EXAGGERATED)).to_pylist()

    assert round(found["share"], 4) == 0.2453


def test_a_kernel_of_two_processes_is_one_row():
    first = row("a", 2, 10, run_id=0, min_ns=1, max_ns=9)
    second = row("a", 3, 20, run_id=1, min_ns=2, max_ns=12)

    (found,) = top_activities(summary(first, second)).to_pylist()

    assert (found["calls"], found["total_ns"], found["mean_ns"]) == (5, 30, 6.0)
    assert (found["min_ns"], found["max_ns"]) == (1, 12)


def test_an_activity_of_unknown_time_has_no_share():
    unprinted = row("UVM_DtoD", 3, 0, activity_kind="memcpy") | {"total_ns": None}

    found = top_activities(summary(row("a", 1, 90, 1.0), unprinted)).to_pylist()

    assert [(r["name"], r["total_ns"], r["share"]) for r in found] == [
        ("a", 90, None),
        ("UVM_DtoD", None, None),
    ]
