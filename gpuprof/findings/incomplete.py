"""Recordings whose idle time is none of the program's: records are missing, or kernels were rerun.

A device seems to idle where a kernel ran that has no record, and while a profiler runs
kernels again to count metrics. What kernels and copies take is then right; what a step takes, and
what hides what, is not.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import BEGINS_CAPTURE, KERNEL_LAUNCHES
from gpuprof.facts.launches import LAUNCH_READS, Launches, launches
from gpuprof.facts.numbers import columns_of, groups, names_by_number
from gpuprof.model.analysis import reads
from gpuprof.model.derived import KERNELS_RERUN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile

INCOMPLETE_READS: Final = reads(
    LAUNCH_READS, api_calls="start_ns name process_id thread_id correlation_id"
)
INCOMPLETE, RERUN = "incomplete", "kernels_rerun"

# So many calls tell whether calls are missing.
_SAMPLE: Final = 50_000
_LEAST_CALLS: Final = 100
# CUPTI numbers calls in their order. Profilers leave out those that do not matter, and record one
# of one to twelve; of a recording from which events were dropped few are left.
_FAR_APART: Final = 20
# Launches that failed, or that another tool took, leave no kernel, too.
_LEAST_LAUNCHES: Final = 10
_LEAST_SHARE: Final = 0.05
_NEVER: Final = 1 << 62


class Incomplete(NamedTuple):
    """Why the idle time of a recording is none of its program's.

    Args:
        cause: `INCOMPLETE` or `RERUN`.
        phrase: What is to be said of a device, to follow its name.
        suggestion: What to do.
        idle_word: What to call the time in which nothing was recorded.
    """

    cause: str
    phrase: str
    suggestion: str
    idle_word: str


class _Calls(NamedTuple):
    """The first calls of a recording, one element each."""

    start_ns: Int64s
    process: Int64s
    thread: Int64s
    correlation: Int64s
    is_launch: npt.NDArray[np.bool_]


def incomplete(profile: Profile) -> Incomplete | None:
    """Why idle time tells nothing in a recording; None where it does.

    Args:
        profile: The whole recording is looked at, up to its first 50,000 calls.
    """
    return profile.unrestricted.once(_incomplete)


def recorded_calls(profile: Profile) -> str:
    """How many of the numbered calls a recording has, where most are missing; else empty."""
    return profile.unrestricted.once(_recorded_calls)


def _recorded_calls(profile: Profile) -> str:
    if not profile.has("api_calls"):
        return ""
    calls = profile.once(_first_calls)
    numbered = sum(_numbered(calls))
    return f"{len(calls.start_ns):,} of {numbered:,} numbered calls of CUDA" if numbered else ""


def _incomplete(profile: Profile) -> Incomplete | None:
    if KERNELS_RERUN in profile.origin.warnings:
        return Incomplete(
            RERUN,
            "seems idle while the profiler runs kernels one at a time, and again, to count their"
            " metrics: only the durations of kernels are the program's",
            "record again without metrics and events to see what the program waits for",
            "idle, or the profiler's",
        )
    if not profile.has("api_calls", "kernels"):
        return None
    if recorded := recorded_calls(profile):
        return _lacking(recorded)
    without, of = _without_kernels(profile, profile.once(_first_calls))
    if without < max(_LEAST_LAUNCHES, _LEAST_SHARE * of):
        return None
    return _lacking(f"{of - without:,} of {of:,} launches with their kernels")


def _lacking(recorded: str) -> Incomplete:
    return Incomplete(
        INCOMPLETE,
        f"ran more than was recorded: the recording has {recorded}, so that idle time, and"
        " what hides what, is unknown",
        "record again, all events and a shorter part (see the profiler's messages), before you"
        " draw conclusions from pauses",
        "idle or not recorded",
    )


def _first_calls(profile: Profile) -> _Calls:
    launching = names_by_number(profile, "api_calls").values(_is_launch, 0)
    columns = "start_ns", "process_id", "thread_id", "correlation_id", "name_id"
    parts = _enough(profile.integers("api_calls", *columns))
    start, process, thread, correlation, name = (
        column.astype(np.int64) for column in columns_of(parts, len(columns))
    )
    return _Calls(start, process, thread, correlation, launching.of(name).astype(bool))


def _is_launch(name: str) -> bool:
    return KERNEL_LAUNCHES.match(name) is not None


def _enough(parts: Iterator[list[Int64s]]) -> Iterator[list[Int64s]]:
    """The first pieces of columns, up to some rows more than `_SAMPLE`."""
    rows = 0
    for part in parts:
        yield part
        rows += len(part[0])
        if rows >= _SAMPLE:
            return


def _numbered(calls: _Calls) -> Iterator[int]:
    """How many calls of each process were numbered, if so many of them are missing."""
    for process in np.unique(calls.process):
        ids = calls.correlation[(calls.process == process) & (calls.correlation > 0)]
        ids = np.unique(ids)
        if len(ids) >= _LEAST_CALLS and np.median(np.diff(ids)) >= _FAR_APART:
            yield int(ids[-1] - ids[0] + 1)


def _without_kernels(profile: Profile, calls: _Calls) -> tuple[int, int]:
    """How many launches of kernels left no record, and how many there are in the same time.

    Launches before the first that left one were cut off, and those of the end, see `_ends`. While
    a graph is captured, launches leave none.
    """
    if not calls.is_launch.any() or _captures(profile):
        return 0, 0
    without = of = 0
    launching = np.flatnonzero(calls.is_launch)
    for rows in groups(calls.process[launching], calls.thread[launching]):
        of_thread = launching[rows]
        start, ids = calls.start_ns[of_thread], calls.correlation[of_thread]
        thread = int(calls.process[of_thread[0]]), int(calls.thread[of_thread[0]])
        launched = _launched(launches(profile), thread, int(start.max()))
        is_within = start >= launched.min(initial=_NEVER)
        # A call of the runtime and that of the driver in it have one number.
        within, first = np.unique(ids[is_within], return_index=True)
        is_without = ~np.isin(within, ids[is_within & np.isin(start, launched)])[np.argsort(first)]
        end = _ends(is_without)
        without += int(np.count_nonzero(is_without[:end]))
        of += end
    return without, of


def _ends(is_without: npt.NDArray[np.bool_]) -> int:
    """Where the end begins, at which most left no record: one stream may be behind another."""
    surplus = np.cumsum(np.where(is_without, 1, -1)[::-1])
    most = int(surplus.max(initial=0))
    return len(is_without) - (int(surplus.argmax()) + 1 if most > 0 else 0)


def _launched(of: Launches, thread: tuple[int, int], until_ns: int) -> Int64s:
    """When the calls of a thread began that launched anything, up to an instant."""
    low, high = of.bounds.get(thread, (0, 0))
    times = of.launch_ns[low:high]
    return times[: int(np.searchsorted(times, until_ns, side="right"))]


def _captures(profile: Profile) -> bool:
    """Whether the program captured work as a graph."""
    return any(map(BEGINS_CAPTURE.match, names_by_number(profile, "api_calls").distinct))
