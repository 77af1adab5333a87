"""Why devices paused: recordings drawn so that the cause of each pause is known."""

import itertools
from pathlib import Path

import pytest
from drawing import draw

from gpuprof.analyses.breakdown import breakdown
from gpuprof.analyses.pauses import pauses
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
US = 1_000
NUMBERS = itertools.count(1)


def work(launch, start, end, *, returned=None, call="cudaLaunchKernel", **columns):
    """A kernel with the call that launched it; times in us."""
    number = next(NUMBERS)
    returned = launch + 2 if returned is None else returned
    return (
        (start * US, end * US, {"correlation_id": number, **columns}),
        (launch * US, returned * US, {"correlation_id": number, "name": call}),
    )


def recorded(*works, calls=(), **tables):
    kernels, launches = zip(*works, strict=True)
    return draw(kernels=[*kernels], api_calls=[*launches, *calls], **tables)


def told(profile, device=0):
    """Cause and detail to us, and the number of pauses."""
    return {
        (row["cause"], row["detail"]): (row["total_ns"] / US, row["pauses"])
        for row in pauses(profile).to_pylist()
        if row["device_id"] == device
    }


# From 0 to 100 µs the device works, then it pauses until 200 µs.
FIRST = work(-5, 0, 100)


def call(start, end, name, thread=1):
    return start * US, end * US, {"name": name, "thread_id": thread}


def library(start, end, library, name, thread=1):
    place = {"process_id": 100, "thread_id": thread}
    return start * US, end * US, {"library": library, "name": name, **place}


def within(start, end, text, **columns):
    return start * US, end * US, {"text": text, **columns}


LAUNCH = ("launch", "cudaLaunchKernel")


@pytest.mark.parametrize(
    ("tables", "late"),
    [
        pytest.param({}, {("host_late", None): 96}, id="nothing-recorded"),
        pytest.param(
            {"calls": [call(50, 150, "cudaStreamSynchronize")]},
            {("synchronising_call", "cudaStreamSynchronize"): 50, ("host_late", None): 46},
            id="synchronising-call",
        ),
        pytest.param(
            {"calls": [call(110, 150, "cudaMalloc"), call(110, 150, "cudaFree", thread=2)]},
            {("cuda_call", "cudaMalloc"): 40, ("host_late", None): 56},
            id="another-thread-is-not-asked",
        ),
        pytest.param(
            {
                "host_calls": [library(110, 190, "mpi", "MPI_Sendrecv")],
                "calls": [call(120, 150, "cuStreamSynchronize")],
            },
            {("mpi_call", "MPI_Sendrecv"): 80, ("host_late", None): 16},
            id="mpi-around-cuda",
        ),
        pytest.param(
            {
                "host_calls": [
                    library(110, 130, "os", "ioctl"),
                    library(150, 160, "os", "read"),
                    library(170, 180, "ucx", "ucp_put_nbx"),
                ],
                "calls": [call(100, 140, "cudaMalloc")],
            },
            {
                ("cuda_call", "cudaMalloc"): 40,
                ("os_call", "read"): 10,
                ("ucx_call", "ucp_put_nbx"): 10,
                ("host_late", None): 36,
            },
            id="cuda-around-the-operating-system",
        ),
        pytest.param(
            {
                "nvtx_ranges": [
                    within(90, 190, "ncclAllReduce", domain="NCCL"),
                    within(0, 300, "step 1"),
                ],
                "calls": [call(120, 150, "cudaMalloc")],
            },
            {("nccl_call", "ncclAllReduce"): 90, ("range", "step 1"): 6},
            id="nccl-around-cuda",
        ),
        pytest.param(
            {
                "nvtx_ranges": [
                    within(90, 300, "forward"),
                    within(90, 120, "load"),
                    within(130, 160, "aten::linear", range_kind="operation"),
                    within(140, 150, "aten::addmm", range_kind="operation"),
                ],
            },
            {("range", "load"): 20, ("operation", "aten::linear"): 30, ("range", "forward"): 46},
            id="outermost-operation-and-innermost-range",
        ),
        pytest.param(
            {
                "nvtx_ranges": [
                    within(90, 180, "enumerate(DataLoader)#__next__", range_kind="annotation"),
                    within(110, 170, "aten::stack", range_kind="operation"),
                ],
            },
            {("range", "enumerate(DataLoader)#__next__"): 80, ("host_late", None): 16},
            id="operations-within-a-loader-are-its-own",
        ),
        pytest.param(
            {"nvtx_ranges": [within(90, 300, "aten::add, seq = 4, op_id = 9")]},
            {("operation", "aten::add"): 96},
            id="operation-of-emit-nvtx",
        ),
        pytest.param(
            {"nvtx_ranges": [within(90, 300, "job", range_kind="start_end", thread_id=9)]},
            {("range", "job"): 96},
            id="range-of-the-process",
        ),
        pytest.param(
            {
                "host_calls": [
                    library(-900, 900, "python", "train.py(9): <module>"),
                    library(110, 150, "python", "models/net.py(30): forward"),
                    library(120, 130, "python", "typing.py(771): __subclasscheck__"),
                    library(125, 128, "python", "<built-in function isinstance>"),
                    library(140, 145, "python", "site-packages/torch/nn/conv.py(4): forward"),
                    library(150, 190, "python", "other.py(1): of another thread", thread=2),
                ],
                "nvtx_ranges": [within(180, 196, "load")],
            },
            {
                ("python_function", "models/net.py(30): forward"): 40,
                ("python_function", "train.py(9): <module>"): 40,
                ("range", "load"): 16,
            },
            id="nearest-function-of-the-program",
        ),
        pytest.param(
            {
                "host_calls": [
                    library(90, 196, "python", "threading.py(9): run"),
                    library(110, 150, "python", "<built-in method f of type object at 0x7f07>"),
                ],
            },
            {
                ("python_function", "threading.py(9): run"): 56,
                ("python_function", "<built-in method f>"): 40,
            },
            id="functions-of-python-itself",
        ),
        pytest.param(
            {"nvtx_ranges": [within(90, 300, "ProfilerStep#3")]},
            {("host_late", None): 96},
            id="the-profiler-s-step-says-nothing",
        ),
    ],
)
def test_before_the_launch_the_host_was_late_in_what_its_thread_did(tables, late):
    profile = recorded(FIRST, work(196, 200, 300), **tables)

    assert told(profile) == {k: (us, 1) for k, us in (late | {LAUNCH: 4}).items()}


def test_functions_of_python_are_not_read_for_little_time():
    functions = {"host_calls": [library(0, 3000, "python", "train.py(9): <module>")]}
    profile = recorded(FIRST, work(196, 200, 3000), **functions)

    assert told(profile) == {("host_late", None): (96, 1), LAUNCH: (4, 1)}


@pytest.mark.parametrize(
    ("ender", "expected"),
    [
        pytest.param(
            work(50, 200, 300), {("waits_for_unknown", None): 100}, id="launched-before-the-pause"
        ),
        pytest.param(
            work(110, 200, 300),
            {("host_late", None): 10, ("waits_for_unknown", None): 90},
            id="launched-within-it",
        ),
        pytest.param(work(90, 200, 300, returned=180), {LAUNCH: 100}, id="the-call-took-as-long"),
        pytest.param(
            work(90, 200, 300, returned=179),
            {("waits_for_unknown", None): 100},
            id="the-call-returned-long-before",
        ),
        pytest.param(work(96, 114, 300), {("launch", None): 14}, id="returned-just-before-it"),
        pytest.param(work(220, 200, 300), {("host_late", None): 100}, id="late-by-its-clock"),
    ],
)
def test_from_the_launch_on_the_device_waited(ender, expected):
    # Of so many a single one may begin before its call without doubts about the clocks.
    busy = [work(-9, at, at + 1) for at in range(100)]

    assert told(recorded(*busy, ender)) == {cause: (us, 1) for cause, us in expected.items()}


def test_a_launch_that_seems_later_than_its_work_takes_nothing_of_the_next_pause():
    busy = [work(-9, at, at + 1) for at in range(100)]

    profile = recorded(*busy, work(260, 200, 210), work(296, 300, 310))

    assert told(profile) == {
        ("host_late", None): (100 + 84, 2),
        ("cuda_call", "cudaLaunchKernel"): (2, 1),
        LAUNCH: (4, 1),
    }


def other(end, **columns):
    return work(-50, end - 20, end, **{"device_id": 1, "stream_id": 9} | columns)


@pytest.mark.parametrize(
    ("others", "cause"),
    [
        pytest.param([other(195)], ("waits_for_device", "device 1"), id="another-device"),
        pytest.param(
            [other(195), other(199, device_id=2)],
            ("waits_for_device", "device 2"),
            id="the-last-to-end",
        ),
        pytest.param([other(179)], ("waits_for_unknown", None), id="ended-too-long-before"),
        pytest.param([other(201)], ("waits_for_unknown", None), id="ended-later"),
    ],
)
def test_what_ended_just_before_is_what_the_device_waited_for(others, cause):
    profile = recorded(FIRST, work(50, 200, 300), *others)

    assert told(profile) == {cause: (100, 1)}


def test_work_of_another_process_is_not_waited_for():
    (kernel, launch) = other(195)
    elsewhere = {"process_id": 200}
    profile = recorded(
        FIRST, work(50, 200, 300), ((*kernel[:2], kernel[2] | elsewhere),
                                    (*launch[:2], launch[2] | elsewhere))
    )  # fmt: skip

    assert told(profile) == {("waits_for_unknown", None): (100, 1)}


def test_another_stream_of_the_device_is_waited_for_where_it_ended_just_before():
    profile = recorded(FIRST, work(50, 115, 300, stream_id=8))
    same = recorded(FIRST, work(50, 115, 300))

    assert told(profile) == {("waits_for_stream", "stream 7"): (15, 1)}
    assert told(same) == {("waits_for_unknown", None): (15, 1)}


WAIT = {"sync_kind": "stream_wait", "src_device_id": 1, "src_stream_id": 9}


@pytest.mark.parametrize(
    ("waits", "cause"),
    [
        pytest.param([], ("waits_for_device", "device 2"), id="none-recorded"),
        pytest.param([(40, WAIT)], ("waits_for_device", "device 1"), id="recorded"),
        pytest.param(
            [(-6, WAIT)], ("waits_for_device", "device 2"), id="of-the-launch-before"
        ),
        pytest.param([(60, WAIT)], ("waits_for_device", "device 2"), id="after-the-launch"),
        pytest.param(
            [(40, WAIT | {"stream_id": 8})], ("waits_for_device", "device 2"), id="other-stream"
        ),
        pytest.param(
            [(40, WAIT | {"src_stream_id": 8})], ("waits_for_unknown", None), id="not-ended"
        ),
        pytest.param(
            [(40, WAIT | {"sync_kind": "event"})], ("waits_for_device", "device 2"), id="host"
        ),
    ],
)  # fmt: skip
def test_a_recorded_wait_names_the_stream(waits, cause):
    rows = [(at * US, at * US + 9, columns) for at, columns in waits]
    profile = recorded(
        FIRST,
        work(50, 200, 300),
        other(195),
        other(199, device_id=2),
        synchronizations=rows,
    )

    assert told(profile) == {cause: (100, 1)}


@pytest.mark.parametrize(
    ("start", "stream", "others", "cause"),
    [
        pytest.param(200, 9, [other(195)], ("waits_for_device", "device 1"), id="its-device"),
        pytest.param(115, 7, [], ("waits_for_stream", "stream 7"), id="streams-of-one-number"),
    ],
)
def test_a_copy_that_another_device_runs_waits_for_work_of_that_device(
    start, stream, others, cause
):
    launch = {"correlation_id": next(NUMBERS)}
    ends = {"src_device_id": 0, "dst_device_id": 1, "device_id": 1, "stream_id": stream}
    peer = {"memcpy_kind": "PtoP", "path": "direct"} | launch | ends
    profile = recorded(
        FIRST,
        *others,
        memcpys=[(start * US, 300 * US, peer)],
        calls=[(50 * US, 52 * US, launch | {"name": "cudaMemcpyPeerAsync"})],
    )

    assert told(profile) == {cause: (start - 100, 1)}


def test_short_pauses_have_a_row_of_their_own():
    profile = recorded(FIRST, work(105, 110, 120), work(121, 130, 139), work(50, 150, 160))

    rows = pauses(profile).to_pylist()

    assert rows[1]["cause"] == "waits_for_unknown"
    assert rows[0] == {
        "device_id": 0,
        "cause": "short",
        "detail": None,
        "pauses": 2,
        "total_ns": 20 * US,
        "longest_ns": 10 * US,
        "longest_start_ns": 100 * US,
        "span_share": 20 / 160,
    }


def test_a_cause_has_its_count_its_longest_and_its_share():
    works = [work(at - 4, at, at + 10) for at in (50, 150, 210)]
    profile = recorded(work(-5, 0, 10), *works)

    late, launch = pauses(profile).to_pylist()

    assert late == {
        "device_id": 0,
        "cause": "host_late",
        "detail": None,
        "pauses": 3,
        "total_ns": (36 + 86 + 46) * US,
        "longest_ns": 86 * US,
        "longest_start_ns": 60 * US,
        "span_share": 168 / 220,
    }
    assert (launch["cause"], launch["total_ns"], launch["pauses"]) == ("launch", 12 * US, 3)


def test_each_device_has_the_causes_of_its_own_pauses():
    profile = recorded(
        FIRST,
        work(196, 200, 300),
        work(-4, 0, 100, device_id=1),
        work(190, 210, 300, device_id=1, call="cudaGraphLaunch"),
        calls=[call(100, 180, "cudaMalloc")],
    )

    assert told(profile, 0)["cuda_call", "cudaMalloc"] == (80, 1)
    assert told(profile, 1)["cuda_call", "cudaMalloc"] == (80, 1)
    assert told(profile, 1)["launch", "cudaGraphLaunch"] == (20, 1)
    assert told(profile, 0)["cuda_call", "cudaGraphLaunch"] == (2, 1)


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([(200 * US, 300 * US, {"correlation_id": None})], id="no-call"),
        pytest.param(
            [(200 * US, 300 * US, {"correlation_id": 0})], id="a-call-that-is-not-recorded"
        ),
    ],
)
def test_without_the_launch_the_cause_is_unknown(kernels):
    profile = draw(kernels=[FIRST[0], *kernels], api_calls=[FIRST[1]])

    assert told(profile) == {("unknown", None): (100, 1)}


def test_a_device_that_others_copy_to_has_no_known_cause():
    number, again = next(NUMBERS), next(NUMBERS)
    ends = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1}
    profile = recorded(
        work(-5, 0, 300),
        memcpys=[
            (10 * US, 20 * US, ends | {"correlation_id": number}),
            (200 * US, 300 * US, ends | {"correlation_id": again}),
        ],
        calls=[
            (9 * US, 9 * US, {"correlation_id": number}),
            (190 * US, 199 * US, {"correlation_id": again}),
        ],
    )  # fmt: skip

    assert told(profile, 1) == {("unknown", None): (180, 1)}


def test_many_names_that_differ_in_numbers_are_one():
    works = [work(at + 96, at + 100, at + 110) for at in range(0, 2400, 200)]
    ranges = [within(at, at + 98, f"step {at}") for at in range(0, 2400, 200)]

    profile = recorded(work(-5, 0, 1), *works, nvtx_ranges=ranges)

    assert ("range", "step *") in told(profile)
    assert len({k for k in told(profile) if k[0] == "range"}) == 1


def test_the_longest_details_of_a_cause_are_told_and_the_others_together():
    works = [work(at + 96, at + 100, at + 110) for at in range(0, 2600, 200)]
    calls = [call(at + 20, at + 50 + n, "cuda" + "ABCDEFGHIJKLM"[n])
             for n, at in enumerate(range(0, 2600, 200))]  # fmt: skip

    found = told(recorded(work(-5, 0, 1), *works, calls=calls))

    assert sum(cause == "cuda_call" for cause, _ in found) == 11
    assert found["cuda_call", "3 others"] == (30 + 31 + 32, 3)
    assert found["cuda_call", "cudaM"] == (42, 1)


@pytest.mark.parametrize(
    "windows", [((150 * US, 1000 * US),), ((0, 120 * US), (130 * US, 300 * US))]
)
def test_a_part_has_its_share_of_each_cause(windows):
    profile = recorded(FIRST, work(196, 200, 300), calls=[call(110, 160, "cudaMalloc")])
    part = profile.restricted(Selection(windows=windows))

    idle = breakdown(part).to_pylist()[0]["idle_ns"]

    assert sum(row["total_ns"] for row in pauses(part).to_pylist()) == idle
    us, _ = told(part)["cuda_call", "cudaMalloc"]
    assert us == (10 if len(windows) == 1 else 10 + 30)


REAL = [
    "nsys-sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite",
    "nsys-rep/openhackathons__gpubootcamp__report1.qdrep",
    "nvprof-sqlite/UCBerkeley-Spr__blinkplus-nccl-base__output.nvvp",
    "kineto/hta_negative_queue_length_values_check__rank0.json.gz",
]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_the_causes_of_a_device_add_up_to_its_idle_time(name):
    profile = read_profile(CORPUS / name)

    totals = {row["device_id"]: 0 for row in breakdown(profile).to_pylist()}
    for row in pauses(profile).to_pylist():
        totals[row["device_id"]] += row["total_ns"]

    assert totals == {row["device_id"]: row["idle_ns"] for row in breakdown(profile).to_pylist()}
    assert any(totals.values())
