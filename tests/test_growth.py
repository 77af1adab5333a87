"""What a report does grows with what was recorded, not with its square.

Counted are the calls of gpuprof's own functions, and each turn of its generators and loops over
them, in all threads: no clock, so that a busy machine changes nothing.
"""

import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from recordings import copy, kernel, trace

import gpuprof
from gpuprof.analyses.reports import report
from gpuprof.readers.merged_ranks import joined

PACKAGE = str(Path(gpuprof.__file__).parent)
US = 1_000
FACTOR = 4
# What is added in proportion is FACTOR times as much at the second step, by the square FACTOR ** 2.
MOST = 2 * FACTOR
# Of what takes hardly any work of its own, so much is chance.
LITTLE = 400
TABLES = ("findings", "bottom_line", "breakdown", "kernel_summary", "pauses", "gaps", "steps")


def drawn(  # noqa: PLR0913 - what can be many
    *, kernels=48, streams=2, names=3, devices=1, threads=1, steps=4, ranges=1, depth=1
):
    """A recording of as many kernels, launched in steps, with ranges around their launches.

    Args:
        kernels: Of each step.
        streams: Among which they take turns.
        names: As streams.
        devices: As streams.
        threads: As streams, of those that launch them.
        steps: Each marked with a range.
        ranges: Names of ranges around launches, which take turns.
        depth: Ranges around each launch.
    """
    rows = {"kernels": [], "memcpys": [], "api_calls": [], "nvtx_ranges": []}
    marks = {"process_id": 1, "range_kind": "push_pop", "domain": ""}
    for step in range(steps):
        begin = step * (kernels + 20) * 10 * US
        span = {"start_ns": begin, "end_ns": begin + (kernels + 5) * 10 * US}
        rows["nvtx_ranges"].append(marks | span | {"text": f"step {step}", "thread_id": 1})
        pageable = {"src_memory_kind": "pageable", "bytes": 4096, "process_id": 1}
        of_step = {"device_id": step % devices, "stream_id": 7 + step % streams} | pageable
        rows["memcpys"].append(copy("HtoD", begin, begin + 5 * US, **of_step))
        for number in range(kernels):
            at, thread = begin + (number + 1) * 10 * US, 1 + number % threads
            place = {"process_id": 1, "correlation_id": step * kernels + number + 1}
            called = {"start_ns": at, "end_ns": at + 2 * US, "thread_id": thread}
            call = {"name": "cudaLaunchKernel", "api": "runtime"}
            rows["api_calls"].append(place | called | call)
            rows["nvtx_ranges"] += [
                marks
                | {"start_ns": at - depth + level, "end_ns": at + 3 * US - level}
                | {"text": f"layer {number % ranges}, {level}", "thread_id": thread}
                for level in range(depth)
            ]
            place |= {"stream_id": 7 + number % streams, "device_id": number % devices}
            name, start = f"kernel_{number % names}", at + 4 * US
            if number % 6 == 0:
                name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
            rows["kernels"].append(kernel(name, start, start + 5 * US, **place))
    return trace(**rows)


def work_of(profile):
    """How often functions of the package are entered or go on, to make some tables."""
    entered = Counter()

    def counting(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered[threading.get_ident()] += 1

    threading.setprofile(counting)
    sys.setprofile(counting)
    try:
        tables = report(profile, TABLES).tables
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert [name for name in TABLES if tables[name] is None] == []
    return entered.total()


def growth(size, draw):
    """The work that four times as much adds, and what sixteen times as much adds to that."""
    work = [work_of(draw(size * times)) for times in (1, FACTOR, FACTOR**2)]
    return work[1] - work[0], work[2] - work[1]


@pytest.mark.parametrize(
    ("kind", "size", "more"),
    [
        pytest.param("streams", 15, {"kernels": 480}, id="streams"),
        pytest.param("names", 15, {"kernels": 240}, id="names-of-kernels"),
        pytest.param("devices", 3, {"kernels": 48}, id="devices"),
        pytest.param("threads", 15, {"kernels": 240}, id="threads"),
        pytest.param("ranges", 15, {"kernels": 240}, id="names-of-ranges"),
        pytest.param("depth", 2, {"kernels": 24}, id="depth-of-ranges"),
        pytest.param("steps", 4, {}, id="steps"),
        pytest.param("kernels", 24, {}, id="kernels"),
    ],
)
def test_what_is_many_is_looked_at_in_proportion(kind, size, more):
    first, second = growth(size, lambda many: drawn(**more | {kind: many}))

    assert second < MOST * max(first, LITTLE)


def test_ranks_that_are_many_are_looked_at_in_proportion():
    first, second = growth(2, lambda many: joined([drawn(kernels=8) for _ in range(many)]))

    assert second < MOST * first
