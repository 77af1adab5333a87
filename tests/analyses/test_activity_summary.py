import pytest
from recordings import copy, kernel, row, summary, trace

from gpuprof.analyses.activity_summary import activity_summary


def _rows(profile):
    return activity_summary(profile).to_pylist()


def test_an_empty_recording_has_no_activities():
    assert _rows(trace(kernels=[], memcpys=[], memsets=[])) == []


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


def test_bytes_are_unknown_when_one_call_s_are():
    profile = trace(memcpys=[copy("HtoD", 0, 1, bytes=8), copy("HtoD", 1, 2)])

    assert _rows(profile)[0]["bytes"] is None


def test_bytes_add_up():
    profile = trace(memcpys=[copy("HtoD", 0, 1, bytes=8), copy("HtoD", 1, 2, bytes=3)])

    assert _rows(profile)[0]["bytes"] == 11


def test_what_a_tool_summed_up_is_passed_on():
    profile = summary(row("a", 2, 10), row("HtoD", 1, 3))

    listed = profile.table("activity_summary")
    assert activity_summary(profile).drop_columns("short_name") == listed
