"""Threads whose calls are no longer recorded while their process goes on calling.

CUPTI numbers the calls of a process in their order, whether they are recorded or not. Where the
last buffers of one thread are lost, such as the thread on which PyTorch computes gradients, as many
more numbers are missing from then on as the thread had calls before.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import Numbers, columns_of
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import different
from gpuprof.model.profile import Profile, once_per_recording

# What nsys says where it lost events. Without that, a thread whose calls end has ended.
EVENTS_LOST: Final = "Not all CUDA events might have been collected"

_CALL: Final = ("start_ns", "process_id", "thread_id", "correlation_id")
# Fewer calls tell too little, and a thread with fewer launches is missed in no step.
_LEAST_CALLS: Final = 100
# Of the calls that a thread would have made, so many numbers are missing after its last call. In
# recordings of threads that ended it is 0 or less, of one whose calls were lost 0.7.
_LEAST_MISSING: Final = 0.5
# The program goes on as before where other threads make at least so many of the calls.
_GOING_ON: Final = 0.5


@once_per_recording
def lost_threads(profile: Profile) -> Mapping[int, tuple[int, int]]:
    """By process, the first thread whose calls are lost, and when its last recorded one began.

    In ns; nothing where the profiler does not say that it lost events.
    """
    if not any(EVENTS_LOST in warning for warning in profile.origin.warnings):
        return {}
    if not profile.has("api_calls"):
        return {}
    start, processes, threads, number = columns_of(profile.columns("api_calls", *_CALL), len(_CALL))
    lost: dict[int, tuple[int, int]] = {}
    for (process, thread), (low, high) in launches(profile).bounds.items():
        if high - low < _LEAST_CALLS:
            continue
        rows = processes == process
        last_ns = _lost_after(start[rows], threads[rows] == thread, number[rows])
        if last_ns is not None and last_ns < lost.get(process, (0, last_ns + 1))[1]:
            lost[process] = thread, last_ns
    return lost


def _lost_after(start: Int64s, is_its: Numbers, number: Numbers) -> int | None:
    """When the last recorded call of a thread began; None where none is lost after that.

    Args:
        start: When the calls of its process began, its own among them.
        is_its: Which calls are its own.
        number: Their correlation ids.
    """
    last_ns = int(start[is_its].max())
    around_ns = min(last_ns - int(start[is_its].min()), int(start.max()) - last_ns)
    before = (start > last_ns - around_ns) & (start <= last_ns)
    after = (start > last_ns) & (start <= last_ns + around_ns)
    its_calls, other_calls = np.count_nonzero(before & is_its), np.count_nonzero(before & ~is_its)
    least_calls = max(_GOING_ON * other_calls, _LEAST_CALLS)
    if its_calls < _LEAST_CALLS or np.count_nonzero(after) < least_calls:
        return None
    more = _missing(number[after]) - _missing(number[before])
    return last_ns if more >= _LEAST_MISSING * its_calls else None


def _missing(numbers: Numbers) -> int:
    """How many numbers are missing between the least and the greatest of calls."""
    ids = different(numbers[numbers > 0])
    return int(ids[-1] - ids[0]) + 1 - len(ids) if len(ids) else 0
