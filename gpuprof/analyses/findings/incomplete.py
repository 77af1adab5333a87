"""Recordings whose idle time is none of the program's: records are missing, or kernels were rerun.

A device seems to idle where a kernel ran that has no record, and while a profiler runs
kernels again to count metrics. What kernels and copies take is then right; what a step takes, and
what hides what, is not.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.by_number import names_by_number
from gpuprof.analyses.facts.launches import LAUNCH_READS, Launches, launches
from gpuprof.cuda import BEGINS_CAPTURE, KERNEL_LAUNCHES
from gpuprof.facts import KERNELS_RERUN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

INCOMPLETE_READS: Final = reads(LAUNCH_READS, api_calls="start_ns name process_id correlation_id")
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
    if not profile.numbers("api_calls"):
        sql = f"""SELECT start_ns, coalesce(process_id, -2), coalesce(correlation_id, -2),
            regexp_matches(coalesce(name, ''), '{KERNEL_LAUNCHES.pattern}')::BIGINT
            FROM api_calls LIMIT {_SAMPLE}"""
        start, process, correlation, is_launch = (
            np.array(column.to_numpy(), np.int64) for column in profile.query(sql).columns
        )
        return _Calls(start, process, correlation, is_launch.astype(bool))
    launching = names_by_number(profile, "api_calls").values(_is_launch, 0)
    columns = "start_ns", "process_id", "correlation_id", "name_id"
    none = [np.zeros(0, np.int64) for _ in columns]
    parts = [none, *_enough(profile.integers("api_calls", *columns))]
    start, process, correlation, name = (
        np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)
    )
    return _Calls(start, process, correlation, launching.of(name).astype(bool))


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

    Launches before the first and after the last that left one were cut off; while a graph is
    captured, launches leave none.
    """
    if not calls.is_launch.any() or _captures(profile):
        return 0, 0
    without = of = 0
    for process in np.unique(calls.process[calls.is_launch]).tolist():
        is_here = calls.is_launch & (calls.process == process)
        start, ids = calls.start_ns[is_here], calls.correlation[is_here]
        launched = _launching(launches(profile), process, int(start.max()))
        is_within = (start >= launched.min(initial=_NEVER)) & (start <= launched.max(initial=0))
        # A call of the runtime and that of the driver in it have one number.
        calls_within = len(np.unique(ids[is_within]))
        without += calls_within - len(np.unique(ids[is_within & np.isin(start, launched)]))
        of += calls_within
    return without, of


def _launching(of: Launches, process: int, until_ns: int) -> Int64s:
    """When the calls of a process began that launched anything, up to an instant."""
    times = [np.zeros(0, np.int64)]
    for (number, _), (low, high) in of.bounds.items():
        if number == process:
            end = low + int(np.searchsorted(of.launch_ns[low:high], until_ns, side="right"))
            times.append(of.launch_ns[low:end])
    return np.concatenate(times)


def _captures(profile: Profile) -> bool:
    """Whether the program captured work as a graph."""
    if profile.numbers("api_calls"):
        return any(map(BEGINS_CAPTURE.match, names_by_number(profile, "api_calls").names))
    sql = "SELECT DISTINCT name FROM api_calls WHERE name IS NOT NULL"
    return any(map(BEGINS_CAPTURE.match, profile.query(sql).column(0).to_pylist()))
