"""What each end of a transfer waits for it, and links slower than others of their kind."""

import pytest
from drawing import draw

from gpuprof.analyses.peer_matrix import peer_matrix, slow_links
from gpuprof.analyses.transfers import transfers
from gpuprof.model.table import Selection

PUSHED = {
    "memcpy_kind": "PtoP",
    "src_device_id": 0,
    "dst_device_id": 1,
    "path": "direct",
    "bytes": 8,
}
ON_1 = {"device_id": 1}


def rows(profile, names):
    return [tuple(row[n] for n in names.split()) for row in peer_matrix(profile).to_pylist()]


def exposed(profile):
    return rows(profile, "src dst src_exposed_ns dst_exposed_ns")


def test_each_pair_has_a_row_and_the_host_is_one():
    copies = [
        (0, 10, {"memcpy_kind": "HtoD", "device_id": 1, "bytes": 100}),
        (0, 5, {"memcpy_kind": "DtoH", "device_id": 0, "bytes": 10}),
        (20, 24, PUSHED),
        (30, 33, PUSHED),
        (40, 41, PUSHED | {"src_device_id": 1, "dst_device_id": 0}),
        (50, 90, {"memcpy_kind": "DtoD"}),
    ]

    assert rows(
        draw(memcpys=copies), "src dst src_device_id dst_device_id calls total_ns bytes"
    ) == [
        ("host", "device 1", None, 1, 1, 10, 100),
        ("device 0", "device 1", 0, 1, 2, 7, 16),
        ("device 0", "host", 0, None, 1, 5, 10),
        ("device 1", "device 0", 1, 0, 1, 1, 8),
    ]


@pytest.mark.parametrize("runs_on", [0, 1], ids=["pushed", "pulled"])
def test_copy_may_be_hidden_on_one_end_and_exposed_on_the_other(runs_on):
    profile = draw(
        kernels=[(0, 10), (0, 6, ON_1)], memcpys=[(4, 9, PUSHED | {"device_id": runs_on})]
    )

    assert exposed(profile) == [("device 0", "device 1", 0, 3)]


def test_host_end_has_nothing_to_be_exposed():
    profile = draw(kernels=[(0, 5)], memcpys=[(3, 9)])

    assert exposed(profile) == [("host", "device 0", None, 4)]


def test_staged_halves_are_charged_to_the_device_they_run_on():
    half = PUSHED | {"path": "staged", "correlation_id": 5}
    profile = draw(
        kernels=[(0, 2), (0, 2, ON_1), (9, 12, ON_1)],
        memcpys=[
            (1, 6, half | {"memcpy_kind": "DtoH"}),
            (6, 10, half | {"memcpy_kind": "HtoD", "device_id": 1}),
        ],
    )

    assert rows(profile, "path calls total_ns bytes") == [("staged", 1, 9, 8)]
    assert exposed(profile) == [("device 0", "device 1", 4, 3)]


def test_overlapping_copies_of_a_pair_expose_an_instant_once():
    profile = draw(memcpys=[(0, 10, PUSHED), (5, 15, PUSHED)])

    assert rows(profile, "total_ns src_busy_ns src_exposed_ns") == [(20, 15, 15)]


def test_communication_kernels_hide_a_copy_too():
    profile = draw(kernels=[(0, 7, {"name": "ncclKernel_SendRecv"})], memcpys=[(5, 9, PUSHED)])

    assert exposed(profile) == [("device 0", "device 1", 2, 4)]


def test_unknown_ends_are_not_the_host():
    profile = draw(memcpys=[(0, 4, {"memcpy_kind": "PtoP"})])

    assert exposed(profile) == [("unknown", "unknown", None, None)]


def test_kernels_behind_a_window_hide_a_copy_that_started_in_it():
    profile = draw(kernels=[(0, 20)], memcpys=[(5, 15, PUSHED), (12, 18, PUSHED)])

    assert exposed(profile.restricted(Selection(((0, 10),)))) == [("device 0", "device 1", 0, 10)]


def test_a_staged_copy_across_a_border_counts_in_the_window_where_it_starts():
    half = PUSHED | {"path": "staged", "correlation_id": 5}
    profile = draw(
        memcpys=[
            (0, 4, half | {"memcpy_kind": "DtoH"}),
            (6, 11, half | ON_1 | {"memcpy_kind": "HtoD"}),
        ]
    )
    before, behind = (profile.restricted(Selection((window,))) for window in ((0, 5), (5, 20)))

    assert rows(before, "calls total_ns bytes") == [(1, 4, 8)]
    assert rows(behind, "calls total_ns bytes bytes_per_s") == [(0, 5, 0, 0.0)]
    assert transfers(behind).select(["calls", "mean_ns", "bytes"]).to_pylist() == [
        {"calls": 0, "mean_ns": None, "bytes": 0}
    ]


SIZE = 1_000_000


def _from_host(durations_ns, size=SIZE):
    return [
        (
            0,
            ns,
            {"memcpy_kind": "HtoD", "bytes": size, "device_id": device, "dst_device_id": device},
        )
        for device, ns in enumerate(durations_ns)
    ]


def test_the_slow_one_of_alike_links_is_named_with_what_it_loses():
    (row,) = slow_links(draw(memcpys=_from_host([100, 100, 105, 200, 100]))).to_pylist()

    assert (row["src"], row["dst"], row["routes"]) == ("host", "device 3", 5)
    assert row["rate_ratio"] == 0.5
    assert row["lost_ns"] == 100


def test_a_link_that_is_a_little_slower_is_not_named():
    assert slow_links(draw(memcpys=_from_host([100, 100, 105, 120, 100]))).num_rows == 0


def test_few_links_have_no_outlier():
    assert slow_links(draw(memcpys=_from_host([100, 100, 200]))).num_rows == 0


def test_small_copies_are_not_compared_with_large_ones():
    small = [(0, 200, {**row[2], "bytes": SIZE // 10}) for row in _from_host([1])]
    small = [(start, end, row | {"device_id": 9, "dst_device_id": 9}) for start, end, row in small]

    assert slow_links(draw(memcpys=[*_from_host([100] * 5), *small])).num_rows == 0
