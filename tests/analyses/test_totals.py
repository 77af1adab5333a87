import pytest
from recordings import (
    DUAL,
    PUBLISHED_EXAGGERATED,
    PUBLISHED_SINGLE,
    SINGLE,
    copy,
    kernel,
    row,
    summary,
    trace,
)

from gpuprof.analyses.totals import totals


def _groups(profile):
    return {found["activity_group"]: found for found in totals(profile).to_pylist()}


def _times(profile):
    return {name: (found["calls"], found["total_ns"]) for name, found in _groups(profile).items()}


def test_nothing_that_happened_is_zero_where_it_would_have_been_recorded():
    times = _times(trace(kernels=[], memcpys=[], memsets=[]))

    assert times["gpu_activities"] == (0, 0)
    assert times["peer_transfers"] == (0, 0)
    assert times["api_calls"] == (None, None)


def test_a_table_that_was_not_recorded_is_unknown_not_zero():
    times = _times(trace(kernels=[kernel("a", 0, 5)]))

    assert times["kernels"] == (1, 5)
    assert times["transfers"] == (None, None)
    assert times["memsets"] == (None, None)
    assert times["gpu_activities"] == (None, None)


def test_api_calls_are_no_part_of_gpu_activities():
    call = {"activity_kind": "api", "name": "cudaMalloc", "calls": 2, "total_ns": 70, "mean_ns": 35}
    times = _times(summary(row("conv", 4, 30, 1.0), call))

    assert times["gpu_activities"] == (4, 30)
    assert times["api_calls"] == (2, 70)


def test_groups_of_a_whole_summary_add_up():
    times = _times(summary(*DUAL))

    assert times == {
        "kernels": (535_711, 37_230_000_000),
        "communication_kernels": (0, 0),
        "transfers": (128_458, 10_648_000_000),
        "HtoD": (37_361, 430_000_000),
        "DtoH": (12_805, 120_000_000),
        "peer_transfers": (78_292, 10_098_000_000),
        "PtoP": (78_292, 10_098_000_000),
        "local_copies": (29_100, 2_320_000_000),
        "DtoD": (29_100, 2_320_000_000),
        "memsets": (24_744, 96_000_000),
        "gpu_activities": (718_013, 50_294_000_000),
        "api_calls": (None, None),
    }


def test_a_whole_summary_without_peer_rows_had_no_peer_transfers():
    groups = _groups(summary(*SINGLE))

    assert (groups["peer_transfers"]["calls"], groups["peer_transfers"]["share"]) == (0, 0.0)


def test_shares_are_of_times_not_of_what_was_printed():
    groups = _groups(summary(row("a", 1, 30, 0.5), row("HtoD", 1, 70, 0.5)))

    assert groups["kernels"]["share"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("rows", "implied_ns"),
    [
        pytest.param(PUBLISHED_EXAGGERATED, 53_280_065_226, id="one-row"),
        pytest.param(PUBLISHED_SINGLE, 39_458_893_957, id="a-kernel"),
        pytest.param((row("a", 1, 60, 0.6), row("b", 1, 30, 0.3)), 100, id="the-largest-share"),
    ],
)
def test_an_excerpt_implies_its_total(rows, implied_ns):
    everything = _groups(summary(*rows))["gpu_activities"]

    assert everything["total_ns"] is None
    assert everything["listed_ns"] == sum(r["total_ns"] for r in rows)
    assert everything["implied_ns"] == implied_ns


def test_an_excerpt_tells_only_the_kinds_that_it_lists():
    groups = _groups(summary(*PUBLISHED_EXAGGERATED))

    assert groups["peer_transfers"]["total_ns"] == 13_069_600_000
    assert groups["peer_transfers"]["share"] == pytest.approx(0.2453)
    assert groups["kernels"]["total_ns"] is None
    assert groups["transfers"]["total_ns"] is None
    assert groups["transfers"]["listed_ns"] == 13_069_600_000
    assert groups["memsets"]["total_ns"] is None


def test_an_excerpt_without_a_peer_row_may_have_had_peer_transfers():
    assert _groups(summary(*PUBLISHED_SINGLE))["peer_transfers"]["total_ns"] is None


def test_rounded_shares_do_not_make_an_excerpt():
    thirds = [row(name, 1, 1000, 0.333) for name in "abc"]

    assert _times(summary(*thirds))["gpu_activities"] == (3, 3000)


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((0.69, 0.18, 0.09, 0.02), id="rounded-to-98"),
        pytest.param((0.69, 0.18, 0.09, 0.03), id="rounded-to-99"),
        pytest.param((0.69, 0.17, 0.09, 0.01), id="cut-off-to-96"),
    ],
)
def test_whole_percentages_do_not_make_an_excerpt(shares):
    times = (6931, 1798, 975, 296)
    names = ("conv", "HtoD", "DtoH", "memset")
    rows = [row(n, 1, ns, share) for n, ns, share in zip(names, times, shares, strict=True)]

    groups = _groups(summary(*rows))

    assert groups["gpu_activities"]["total_ns"] == 10_000
    assert groups["gpu_activities"]["implied_ns"] is None
    assert (groups["transfers"]["calls"], groups["transfers"]["total_ns"]) == (2, 2773)
    assert groups["kernels"]["share"] == pytest.approx(0.6931)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([("a", 690, 0.69), ("b", 180, 0.18)], id="of-large-rows"),
        pytest.param([(f"kernel {n}", 30, 0.03) for n in range(18)], id="of-small-rows"),
        pytest.param([("a", 240, 0.24)], id="of-one-row"),
        pytest.param([("a", 9943, 0.9943)], id="of-two-digits"),
    ],
)
def test_an_excerpt_of_whole_percentages_is_one_still(rows):
    profile = summary(*(row(name, 1, ns, share) for name, ns, share in rows))

    assert _groups(profile)["gpu_activities"]["total_ns"] is None


def test_kernels_and_copies_printed_in_two_tables_are_two_wholes():
    profile = summary(
        row("a", 1, 900, 1.0, section="kernel"),
        row("HtoD", 1, 75, 0.75, section="memory"),
        row("memset", 1, 25, 0.25, section="memory"),
    )

    assert _times(profile)["gpu_activities"] == (3, 1000)


def test_a_table_of_kernels_alone_says_nothing_of_copies():
    times = _times(summary(row("a", 1, 900, 1.0, section="kernel")))

    assert times["kernels"] == (1, 900)
    assert times["peer_transfers"] == (None, None)
    assert times["gpu_activities"] == (None, None)


def test_processes_of_one_file_add_up():
    profile = summary(row("a", 1, 10, 1.0, run_id=0), row("a", 2, 30, 1.0, run_id=1))

    assert _times(profile)["gpu_activities"] == (3, 40)


def test_an_excerpt_of_one_process_leaves_the_sum_unknown():
    profile = summary(row("PtoP", 1, 10, 0.1, run_id=0), row("PtoP", 1, 30, 1.0, run_id=1))
    groups = _groups(profile)

    assert groups["gpu_activities"]["implied_ns"] == 130
    assert groups["peer_transfers"]["total_ns"] == 40


def test_device_copies_between_two_devices_are_peer_transfers():
    profile = trace(
        memcpys=[
            copy("DtoD", 0, 5, bytes=10, src_device_id=0, dst_device_id=1),
            copy("DtoD", 0, 7, bytes=20, src_device_id=1, dst_device_id=1),
            copy("DtoD", 0, 9, bytes=40),
        ]
    )
    groups = _groups(profile)

    assert (groups["DtoD_peer"]["total_ns"], groups["DtoD_peer"]["bytes"]) == (5, 10)
    assert (groups["local_copies"]["total_ns"], groups["local_copies"]["bytes"]) == (16, 60)


def test_the_two_halves_of_a_staged_copy_are_one_call_and_both_times():
    pair = {"path": "staged", "correlation_id": 7, "bytes": 65_536}
    profile = trace(memcpys=[copy("DtoH", 0, 8, **pair), copy("HtoD", 9, 15, **pair)])
    groups = _groups(profile)

    staged = groups["PtoP_staged"]
    assert (staged["calls"], staged["total_ns"], staged["bytes"]) == (1, 14, 65_536)
    assert groups["peer_transfers"]["total_ns"] == 14
    assert groups["HtoD"]["calls"] == 0


def test_managed_memory_s_migrations_are_transfers():
    profile = trace(memcpys=[copy("UVM_HtoD", 0, 5, bytes=4096)], kernels=[], memsets=[])

    assert _times(profile)["transfers"] == (1, 5)


def test_copies_of_an_unknown_kind_are_shown():
    times = _times(trace(memcpys=[copy("unknown", 0, 5)], kernels=[], memsets=[]))

    assert times["unknown_copies"] == (1, 5)
    assert times["gpu_activities"] == (1, 5)


def test_kernels_that_communicate_are_named_and_stay_kernels():
    times = _times(trace(kernels=[kernel("ncclKernel_AllReduce", 0, 5), kernel("a", 0, 2)]))

    assert (times["kernels"], times["communication_kernels"]) == ((2, 7), (1, 5))


def test_bytes_per_second_of_copies():
    profile = trace(memcpys=[copy("HtoD", 0, 500, bytes=1000)])

    assert _groups(profile)["HtoD"]["bytes_per_s"] == pytest.approx(2e9)


def test_a_time_that_the_tool_did_not_print_leaves_the_sum_unknown():
    unprinted = row("UVM_DtoD", 3, 0, activity_kind="memcpy") | {"total_ns": None}
    groups = _groups(summary(row("a", 1, 90, 1.0), unprinted))

    assert groups["kernels"]["total_ns"] == 90
    assert groups["transfers"]["total_ns"] is None
    assert groups["gpu_activities"]["total_ns"] is None
    assert groups["gpu_activities"]["calls"] == 4
    assert groups["gpu_activities"]["listed_ns"] == 90
