"""What a report does grows with what was recorded, not with its square.

Counted is what gpuprof's own functions call and make, in all threads: no clock, so that a busy
machine changes nothing.
"""

import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
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
# Methods of lists that look at one element after another, and what may have many elements.
SEARCHES = {"index", "count", "remove", "insert"}
MANY = (list, tuple, dict, set, frozenset, np.ndarray)
# Compares the first 2,048 calls with one another; counts latencies of each file in a million bins.
BOUNDED = ("collective_parts.py: _apart", "build.py: _Latencies.usual")
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
    """How much each function of the package does to make some tables, by its name.

    Each time that one is entered or goes on counts, each call of one of Python's own functions in
    it, what lists look through in such a call, and what it makes: an array for each of many things
    is as many elements as a loop over them has turns.
    """
    # What was made stays, so that nothing else is of the same id.
    done, made = Counter(), {}

    def counting(frame, event, about):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return
        work = event in {"call", "c_call"}
        if event == "c_call" and about.__name__ in SEARCHES and isinstance(about.__self__, list):
            work += len(about.__self__)
        if event == "return" and isinstance(about, MANY) and id(about) not in made:
            made[id(about)] = about
            work += len(about)
        done[threading.get_ident(), frame.f_code] += work

    threading.setprofile(counting)
    sys.setprofile(counting)
    try:
        tables = report(profile, TABLES).tables
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert [name for name in TABLES if tables[name] is None] == []
    by_name = Counter()
    for (_, code), work in done.items():
        by_name[f"{Path(code.co_filename).name}: {code.co_qualname}"] += work
    return by_name


def added(size, draw):
    """The work that four times as much adds, and what sixteen times as much adds to that."""
    few, more, many = (work_of(draw(size * times)) for times in (1, FACTOR, FACTOR**2))
    return {name: (more[name] - few[name], many[name] - more[name]) for name in many}


@pytest.mark.parametrize(
    ("kinds", "size", "more"),
    [
        pytest.param(["streams"], 15, {"kernels": 480}, id="streams"),
        pytest.param(["names"], 15, {"kernels": 240}, id="names-of-kernels"),
        pytest.param(["devices"], 3, {"kernels": 48}, id="devices"),
        pytest.param(["devices", "names", "ranges"], 3, {"kernels": 48}, id="all-names-of-devices"),
        pytest.param(["threads"], 15, {"kernels": 240}, id="threads"),
        pytest.param(["ranges"], 15, {"kernels": 240}, id="names-of-ranges"),
        pytest.param(["depth"], 2, {"kernels": 24}, id="depth-of-ranges"),
        pytest.param(["steps"], 4, {}, id="steps"),
        pytest.param(["kernels"], 36, {}, id="kernels"),  # of fewer, less is replayed
    ],
)
def test_what_is_many_is_looked_at_in_proportion(kinds, size, more):
    work = added(size, lambda many: drawn(**more | dict.fromkeys(kinds, many)))

    square = {name: of for name, of in work.items() if of[1] >= MOST * max(of[0], LITTLE)}
    assert [name for name in square if not name.startswith(BOUNDED)] == []


def test_ranks_that_are_many_are_looked_at_in_proportion():
    work = added(1, lambda many: joined([drawn(kernels=8) for _ in range(many)]))

    # Of more ranks other things are said, so that single functions do more.
    counted = (of for name, of in work.items() if not name.startswith(BOUNDED))
    first, second = (sum(of) for of in zip(*counted, strict=True))
    assert second < MOST * first
