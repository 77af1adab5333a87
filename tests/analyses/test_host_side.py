"""Utilisation, pauses, launches and waits: the devices and what the host did meanwhile."""

import pytest
from drawing import draw

from gpuprof.analyses.gaps import gaps
from gpuprof.analyses.launch_latency import launch_latency
from gpuprof.analyses.synchronising_calls import synchronising_calls
from gpuprof.analyses.utilisation import utilisation, utilisation_over_time
from gpuprof.model.selection import Selection

ON_1 = {"device_id": 1}


def first(table):
    return table.to_pylist()[0]


@pytest.mark.parametrize(
    ("kernels", "enough"), [([(0, 90), (99, 100)], True), ([(0, 88), (99, 100)], False)]
)
def test_ninety_percent_is_enough(kernels, enough):
    row = first(utilisation(draw(kernels=kernels)))

    assert row["is_enough"] is enough
    assert row["kernel_share"] == pytest.approx(sum(e - s for s, e in kernels) / 100)


def test_concurrent_kernels_are_busy_once():
    assert first(utilisation(draw(kernels=[(0, 50), (0, 50), (90, 100)])))["kernel_ns"] == 60


CALLS = [
    (0, 5, {"name": "cudaLaunchKernel", "correlation_id": 1}),
    (20, 50, {"name": "cudaDeviceSynchronize", "correlation_id": 2}),
    (50, 60, {"name": "cudaLaunchKernel", "correlation_id": 3}),
]


def test_idle_time_is_split_by_what_the_host_did():
    # The device idles from 10 to 80, but for a copy from 70 to 75.
    profile = draw(
        kernels=[(5, 10, {"correlation_id": 1}), (80, 90, {"correlation_id": 3})],
        memcpys=[(70, 75)],
        api_calls=CALLS,
    )
    row = first(utilisation(profile))

    idle = ("idle_waiting_ns", "idle_launching_ns", "idle_host_ns", "exposed_transfer_ns")
    assert [row[name] for name in idle] == [30, 10, 25, 5]
    assert (row["biggest_reason"], row["biggest_reason_ns"]) == ("synchronisation", 30)


def test_without_api_calls_the_cause_of_idle_time_is_unknown():
    row = first(utilisation(draw(kernels=[(0, 10), (90, 100)])))

    assert (row["biggest_reason"], row["idle_waiting_ns"]) == ("idle", None)


def test_clocks_that_disagree_tell_nothing_of_the_host():
    # Kernels that start before their launch: the times of host and device cannot be compared.
    profile = draw(
        kernels=[(0, 10, {"correlation_id": 1}), (90, 100, {"correlation_id": 3})],
        api_calls=[(s + 1000, e + 1000, c) for s, e, c in CALLS],
    )

    assert first(utilisation(profile))["idle_waiting_ns"] is None
    assert first(gaps(profile))["host_call"] is None
    row = first(launch_latency(profile))
    assert (row["calls"], row["early_calls"], row["median_ns"]) == (2, 2, None)


def test_time_is_cut_into_twenty_slices_for_all_devices():
    profile = draw(kernels=[(0, 100), (50, 200, ON_1)], memcpys=[(150, 200)])
    found = utilisation_over_time(profile).to_pylist()

    assert len(found) == 40
    assert sum(row["kernel_ns"] for row in found) == 250
    assert [row["kernel_share"] for row in found if row["device_id"] == 0][:11] == [1.0] * 10 + [0]
    assert sum(row["exposed_transfer_ns"] for row in found) == 50


def test_longest_pauses_come_first_with_what_ended_them():
    profile = draw(
        kernels=[(0, 10), (30, 40, {"name": "late"}), (45, 50)],
        memcpys=[(20, 25, {"memcpy_kind": "DtoH"})],
    )

    found = [(r["start_ns"], r["gap_ns"], r["ended_by"]) for r in gaps(profile).to_pylist()]
    assert found == [
        (10, 10, "[CUDA memcpy DtoH]"),
        (25, 5, "late"),
        (40, 5, "matmul"),
    ]


def test_a_pause_names_the_call_that_ended_it_and_what_the_host_did():
    profile = draw(
        kernels=[(5, 10, {"correlation_id": 1}), (80, 90, {"correlation_id": 3})],
        api_calls=CALLS,
        nvtx_ranges=[(0, 100, {"text": "step"}), (40, 70, {"text": "optimizer"})],
    )
    row = first(gaps(profile))

    names = ("launch_ns", "launch_latency_ns", "host_call", "host_call_ns", "nvtx_range")
    assert [row[name] for name in names] == [50, 30, "cudaDeviceSynchronize", 30, "optimizer"]


def test_a_peer_copy_ends_the_pause_of_either_end():
    pushed = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "path": "direct"}
    profile = draw(kernels=[(0, 10, ON_1)], memcpys=[(30, 40, pushed)])

    row = first(gaps(profile))
    assert (row["device_id"], row["ended_by"]) == (1, "[CUDA memcpy PtoP]")


def test_a_staged_half_ends_the_pause_of_its_own_device_alone():
    half = {"src_device_id": 0, "dst_device_id": 1, "path": "staged", "memcpy_kind": "DtoH"}
    profile = draw(kernels=[(0, 10, ON_1), (30, 40, ON_1)], memcpys=[(0, 1), (30, 40, half)])

    found = {row["device_id"]: row["ended_by"] for row in gaps(profile).to_pylist()}
    assert found == {0: "[CUDA memcpy DtoH]", 1: "matmul"}
    alone = draw(memsets=[(0, 10, ON_1), (30, 40, ON_1)], memcpys=[(0, 1), (30, 40, half)])
    found = {row["device_id"]: row["ended_by"] for row in gaps(alone).to_pylist()}
    assert found == {0: "[CUDA memcpy DtoH]", 1: "[CUDA memset]"}


def test_a_pause_ends_with_what_starts_at_its_end_and_nothing_else():
    profile = draw(
        kernels=[(0, 10)],
        memcpys=[(10, 12), (60, 70), (40, 41, ON_1)],
        memsets=[(40, 50)],
    )

    found = {(r["device_id"], r["start_ns"]): r["ended_by"] for r in gaps(profile).to_pylist()}
    assert found == {(0, 12): "[CUDA memset]", (0, 50): "[CUDA memcpy HtoD]"}


def test_a_pause_counts_calls_of_its_own_process_and_time():
    other = {"process_id": 200}
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[
            (0, 5, {"name": "cudaMalloc"}),
            (20, 30, {"name": "cudaMalloc"}),
            (80, 95, {"name": "cudaMalloc"}),
            (12, 58, {"name": "cudaHostAlloc"} | other),
            (2, 4, {"correlation_id": 5} | other),
            (55, 56, {"correlation_id": 5}),
        ],
        nvtx_ranges=[(55, 60, {"text": "opens with the call"})],
    )
    row = first(gaps(profile))

    names = ("launch_ns", "host_call", "host_call_ns", "nvtx_range")
    assert [row[n] for n in names] == [55, "cudaMalloc", 10, "opens with the call"]


def test_a_pause_names_the_shortest_range_that_fills_half_of_it_on_whatever_thread():
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[
            (0, 90, {"text": "step"}),
            (12, 37, {"text": "next batch", "thread_id": 2}),
            (12, 36, {"text": "too short"}),
            (12, 50, {"text": "of another process", "process_id": 200}),
            (54, 60, {"text": "forward"}),
        ],
    )

    row = first(gaps(profile))
    assert (row["host_range"], row["nvtx_range"]) == ("next batch", "forward")


def test_threads_that_wait_at_once_wait_no_longer_than_the_pause():
    waits = {"name": "cudaStreamSynchronize"}
    profile = draw(
        kernels=[(0, 10), (60, 70)],
        api_calls=[(12, 50, waits | {"thread_id": 1}), (12, 58, waits | {"thread_id": 2})],
    )

    row = first(gaps(profile))
    assert (row["host_call"], row["host_call_ns"]) == ("cudaStreamSynchronize", 46)


def test_of_ranges_that_open_at_once_the_shorter_is_the_inner_one():
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[(50, 80, {"text": "outer"}), (50, 58, {"text": "inner"})],
    )

    assert first(gaps(profile))["nvtx_range"] == "inner"


def test_a_pause_names_the_operation_that_ended_it_beside_the_annotation():
    operation = {"range_kind": "operation"}
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[
            (0, 90, {"text": "forward", "range_kind": "annotation"}),
            (50, 80, {"text": "aten::linear"} | operation),
            (52, 58, {"text": "aten::addmm"} | operation),
        ],
    )

    row = first(gaps(profile))
    assert (row["nvtx_range"], row["operation"]) == ("forward", "aten::linear")


def test_the_range_of_a_pause_is_of_the_thread_that_launched_what_ended_it():
    strangers = [{"thread_id": 2}, {"process_id": 200}]
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[
            (50, 60, {"text": "own"}),
            *((52, 60, {"text": "stranger"} | other) for other in strangers),
        ],
    )

    assert first(gaps(profile))["nvtx_range"] == "own"


def test_a_range_of_the_whole_process_is_around_the_calls_of_all_its_threads():
    whole = {"text": "epoch", "range_kind": "start_end", "thread_id": 2}
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[(50, 90, whole), (52, 60, {"text": "stranger", "thread_id": 2})],
    )

    assert first(gaps(profile))["nvtx_range"] == "epoch"


def test_pauses_of_a_window_are_cut_at_its_borders():
    profile = draw(kernels=[(0, 10), (50, 60)])

    found = gaps(profile.restricted(Selection(((20, 55),)))).to_pylist()
    assert [(row["start_ns"], row["gap_ns"], row["ended_by"]) for row in found] == [
        (20, 30, "matmul")
    ]


def test_latency_is_from_the_call_of_the_same_process():
    profile = draw(
        kernels=[
            (10, 11, {"correlation_id": 1}),
            (30, 31, {"correlation_id": 1, "process_id": 200}),
            (40, 41, {"correlation_id": 9}),
        ],
        api_calls=[
            (5, 6, {"correlation_id": 1}),
            (6, 7, {"correlation_id": 1}),
            (28, 29, {"correlation_id": 1, "process_id": 200}),
        ],
    )
    row = first(launch_latency(profile))

    assert (row["calls"], row["mean_ns"], row["max_ns"]) == (2, 3.5, 5)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("cudaDeviceSynchronize", True),
        ("cudaStreamSynchronize", True),
        ("cuStreamSynchronize", True),
        ("cudaEventSynchronize", True),
        ("cudaMemcpy", True),
        ("cuMemcpyHtoD_v2", True),
        ("cudaFree", True),
        ("cudaMemcpyAsync", False),
        ("cuMemcpyDtoDAsync_v2", False),
        ("cudaLaunchKernel", False),
        ("cudaStreamWaitEvent", False),
        ("cudaFreeHost", False),
    ],
)
def test_calls_that_wait_are_told_from_those_that_do_not(name, waits):
    found = synchronising_calls(draw(api_calls=[(0, 7, {"name": name}), (9, 10, {"name": name})]))

    assert [(r["name"], r["calls"], r["total_ns"]) for r in found.to_pylist()] == (
        [(name, 2, 8)] if waits else []
    )
