"""What a whole recording lacks, and whether its devices do equal work.

Idle time is none of the program's where records are missing, or kernels were rerun: a device seems
to idle where a kernel ran that has no record, and while a profiler runs kernels again to count
metrics. What kernels and copies take is then right; what a step takes, and what hides what, is not.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeVar

import numpy as np

from gpuprof.analyses.transfers import TRANSFER_READS
from gpuprof.base.cuda import BEGINS_CAPTURE, KERNEL_LAUNCHES, LAUNCHING_CALLS
from gpuprof.base.statistics import median
from gpuprof.base.units import counted, say_bytes, say_ns
from gpuprof.facts.activity_sums import SUM_READS, summed_up
from gpuprof.facts.copies import end_name, sums_of, transfer_rows
from gpuprof.facts.hosts import device_rows
from gpuprof.facts.kernel_kinds import is_initial, may_initialise
from gpuprof.facts.launches import LAUNCH_READS, first_calls, launches, lost_threads
from gpuprof.facts.numbers import NOT_FOUND, Numbers, first_of, groups, order_of, read_columns
from gpuprof.facts.nvtx import RANGE_READS, named_parts
from gpuprof.facts.phases import steps_by_phase
from gpuprof.facts.step_windows import FROM_RANGES, masked
from gpuprof.facts.timeline import COMMUNICATION, COMPUTE, DeviceTimeline, timelines
from gpuprof.findings.scope import Finding, Measured, Scope, span_of, working_devices
from gpuprof.findings.set_up import SET_UP_READS, outside_steps
from gpuprof.model.analysis import reads
from gpuprof.model.derived import KERNELS_RERUN, if_known
from gpuprof.model.pairs import different, distinct, places_in
from gpuprof.model.profile import Profile, once_per_recording

READS: Final = reads(
    SET_UP_READS,
    LAUNCH_READS,
    RANGE_READS,
    SUM_READS,
    TRANSFER_READS,
    api_calls="start_ns name process_id thread_id correlation_id",
    devices="device_id",
)

_LEAST_CALLS: Final = 100
# CUPTI numbers calls in their order. Profilers leave out those that do not matter, and record one
# of one to twelve; of a recording from which events were dropped few are left.
_FAR_APART: Final = 20
# Kernels alone have numbers 8 to 30 apart; of one of twenty of them 100 or more.
_KERNELS_FAR_APART: Final = 100
# Launches that left no record are worth a word if they are so many, and this share of all: some
# fail, or another tool took them.
_LEAST_LAUNCHES: Final = 10
_LEAST_SHARE: Final = 0.05
_NEVER: Final = 1 << 62
_LAUNCHES_AT_ONCE: Final = 1 << 14
# Kernels that fill tensors with initial values take so much of all kernels' time where a
# recording is of nothing else.
_INITIAL_SHARE: Final = 0.1
# Devices that share the work of a step differ less in what they compute.
_UNEQUAL: Final = 0.1
# Steps of two devices are the same ones where they have so much in common.
_LEAST_COMMON: Final = 0.8
# By which means it is won, what to try, and the table that tells more.
EQUAL_WORK: Final = (
    "equal work",
    "give each device work in proportion to its speed",
    "breakdown",
)
# What a recording without kernels may have, and calls that launch kernels.
_WITHOUT_KERNELS: Final = {"memcpys": ("copy", "copies"), "memsets": ("memset", "memsets")}
_LAUNCHES: Final = re.compile(r"(cu|cuda|hip)[A-Za-z]*Launch(Kernel|Cooperative|Graph|Grid|_|$)")
# What tells phases of one name apart.
_NUMBER_OF_PHASE: Final = re.compile(r" \(\d+\)$")
_Scope = TypeVar("_Scope", Scope, Measured)
# When the first of some steps begins and the last one ends, in ns, and how many there are.
_Steps = tuple[int, int, int]


class Incomplete(NamedTuple):
    """Why the idle time of a recording is none of its program's.

    Args:
        cause: Of the finding.
        phrase: What is to be said of a device, to follow its name.
        suggestion: What to do.
        idle_word: What to call the time in which nothing was recorded.
    """

    cause: str
    phrase: str
    suggestion: str
    idle_word: str


def of_recording(profile: Profile, scopes: Sequence[Scope]) -> Iterator[Finding]:
    """What a recording as a whole lacks, is of, or pays once; costs of `setup` are of all of it."""
    devices = working_devices(profile)
    if devices:
        yield from _lacking(profile, devices)
    for busiest, least, win_ns in unequal(scopes):
        most_ns, least_ns = busiest.compute_ns, least.compute_ns
        name = f"device {least.device.device_id}"
        phrase = words_of_unequal(most_ns, least_ns, name)
        costs = (most_ns - least_ns, win_ns)
        yield Finding("unbalanced_devices", busiest, phrase, *costs, *EQUAL_WORK, name)
    has_steps = any(scope.has_steps for scope in scopes)
    for device in devices:
        yield from outside_steps(profile, device, has_steps=has_steps)


def _lacking(profile: Profile, devices: Sequence[DeviceTimeline]) -> Iterator[Finding]:
    """Records that are missing: in the midst of others, at the end, or all of a kind."""
    of_most_kernels = max(devices, key=lambda device: device.kernels_ns)
    if (why := incomplete(profile)) is not None:
        words = (why.phrase, 0, 0, "a whole recording", why.suggestion, "kernel_summary")
        yield Finding(why.cause, span_of(profile, of_most_kernels), *words)
    elif (truncated := _truncated(profile.unrestricted)) is not None:
        phrase, table = truncated
        last = max(devices, key=lambda device: int(device.span.end[-1]))
        suggestion = (
            "record a shorter part, and wait for the devices before it ends (synchronise, then"
            " cudaProfilerStop)"
        )
        words = (phrase, 0, 0, "a whole recording", suggestion, table)
        yield Finding("truncated", span_of(profile, last), *words)
    if (idle_devices := _without_training(profile, devices)) is not None:
        phrase = "only fills memory with initial values: no step of a training was recorded"
        suggestion = "record later, when steps run: start the profiler after the first ones"
        words = (phrase + idle_devices, 0, 0, "recording steps", suggestion, "kernel_summary")
        yield Finding("no_training", span_of(profile, of_most_kernels), *words)
    recorded = [device.busy for device in timelines(profile.unrestricted)]
    if not any(len(busy[layer]) for busy in recorded for layer in (COMPUTE, COMMUNICATION)):
        yield _no_kernels(profile, max(devices, key=lambda device: device.span.length))


def _truncated(recorded: Profile) -> tuple[str, str] | None:
    """Calls or activities that stop while the host goes on, and the table that tells more."""
    if lost_calls := lost_threads(recorded):
        thread, last_ns = min(lost_calls.values(), key=lambda of: of[1])
        words = (
            f"has no records of what thread {thread} launched after {last_ns / 1e9:.3f} s, as"
            " missing numbers of calls show: steps from then on are left out"
        )
        return words, "phases"
    if not recorded.has("api_calls") or not len(launches(recorded).order):
        return None
    _, last = launches(recorded).extent
    lost = _calls_like(recorded, LAUNCHING_CALLS, last)
    if lost < _LEAST_LAUNCHES:
        return None
    calls = _calls_like(recorded, LAUNCHING_CALLS)
    if lost < _LEAST_SHARE * calls:
        return None
    # Of how many of the steps that ranges mark there are records, where not of all.
    marked = [steps for steps in steps_by_phase(recorded) if steps.phase.source == FROM_RANGES]
    names = {_NUMBER_OF_PHASE.sub("", steps.phase.name) for steps in marked}
    parts = named_parts(recorded)
    is_step = np.array([masked(text) in names for text, _, _ in parts.labels], bool)
    marks = np.count_nonzero(is_step[parts.label])
    recorded_steps = sum(len(of.start_ns) for of in marked)
    steps = f", after {recorded_steps:,} of {marks:,} steps" if recorded_steps < marks else ""
    # Calls do not say what device they are for.
    whose = " of all devices" if len(timelines(recorded)) > 1 else ""
    words = f"has no records of what was launched last{steps}: of {lost:,} of {calls:,} launches"
    return words + whose, "steps" if steps else "totals"


def _calls_like(profile: Profile, pattern: re.Pattern[str], after_ns: int | None = None) -> int:
    """How many calls have some names, of those that begin after an instant if one is given."""
    names = profile.loaded("api_calls").names
    is_meant = names.values(partial(_begins_with, pattern), 0)
    if after_ns is None:
        numbers = (number for (number,) in profile.columns("api_calls", "name_id"))
    else:
        numbers = (
            number[start > after_ns]
            for start, number in profile.columns("api_calls", "start_ns", "name_id")
            if start.max(initial=after_ns) > after_ns
        )
    return sum(int(np.count_nonzero(is_meant.of(number))) for number in numbers)


@lru_cache(1 << 14)  # files of one job have the same names
def _begins_with(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.match(name) is not None


def _without_training(profile: Profile, devices: Sequence[DeviceTimeline]) -> str | None:
    """The devices that ran no kernel, of a recording that fills tensors with initial values alone.

    None where kernels do more.
    """
    recorded = profile.unrestricted
    if not profile.has("kernels"):
        return None
    may = recorded.loaded("kernels").names.values(may_initialise, 0)
    if not all(may.of(name_id).all() for (name_id,) in recorded.columns("kernels", "name_id")):
        return None
    rows = summed_up(recorded, "kernels")
    total_ns = sum(row["total_ns"] for row in rows)
    initial_ns = sum(row["total_ns"] for row in rows if is_initial(row["name"] or ""))
    working = sum(device.kernels_ns > 0 for device in devices)
    if not total_ns or initial_ns < _INITIAL_SHARE * total_ns or not working:
        return None
    numbers = {device.device_id for device in timelines(profile)}
    numbers |= {row["device_id"] for row in device_rows(profile)}
    count, idle = counted(len(numbers), "device", "devices"), len(numbers) - working
    return f"; {idle} of {count} ran no kernel" if idle else ""


def _no_kernels(profile: Profile, device: DeviceTimeline) -> Finding:
    """Copies and memsets of a program whose kernels were not recorded, or never launched."""
    recorded = profile.unrestricted
    counts = [
        counted(rows, *words)
        for table, words in _WITHOUT_KERNELS.items()
        if recorded.has(table)
        and (rows := sum(len(start) for (start,) in recorded.columns(table, "start_ns")))
    ]
    launched = _calls_like(recorded, _LAUNCHES) if recorded.has("api_calls") else 0
    suggestion = "see whether the program came to its kernels, and record the part that computes"
    if launched:
        suggestion = (
            f"record again: {counted(launched, 'launch', 'launches')} of kernels left no record of"
            " what ran (see the profiler's messages)"
        )
    # Where records are missing, kernels may well have run.
    may_have_run = launched or recorded.origin.warnings
    of_kernels = "has no records of kernels" if may_have_run else "ran no kernel"
    phrase = f"{of_kernels}: the recording has {' and '.join(counts)} only"
    copies = transfer_rows(recorded)
    routes = [(sums_of(copies, rows), rows[0]) for rows in groups(copies.src, copies.dst)]
    if routes:  # where most of the time of transfers goes
        sums, first = max(routes, key=lambda route: route[0]["total_ns"])
        if sums["calls"] > 1 and sums["bytes"] and sums["bytes_per_s"]:
            src, dst = (end_name(if_known(int(end[first]))) for end in (copies.src, copies.dst))
            size, speed = say_bytes(sums["bytes"] / sums["calls"]), say_bytes(sums["bytes_per_s"])
            phrase += f"; most {src} to {dst}, {size} each at {speed}/s"
    words = (phrase, 0, 0, "recording kernels", suggestion, "totals")
    return Finding("no_kernels", span_of(profile, device), *words)


def words_of_unequal(most_ns: int, least_ns: int, device: str) -> str:
    """What the device does that computes most, in a phrase."""
    times = f"{say_ns(most_ns)} of a step, {device} for {say_ns(least_ns)}"
    return f"computes for {times}: the difference"


def unequal(scopes: Sequence[_Scope]) -> Iterator[tuple[_Scope, _Scope, int]]:
    """The devices that compute most and least in the same steps, where they differ enough.

    With each what equal work of all of them would win of a step.
    """
    groups: list[tuple[_Steps, list[_Scope]]] = []
    for scope in (scope for scope in scopes if scope.has_steps):
        steps = int(scope.start_ns[0]), int(scope.end_ns[-1]), len(scope.start_ns)
        # Also where each process marks its own.
        group = next((group for first, group in groups if _are_at_once(first, steps)), None)
        if group is None:
            groups.append((steps, [scope]))
        else:
            group.append(scope)
    for _, alike in groups:
        busiest = max(alike, key=lambda scope: scope.compute_ns)
        least = min(alike, key=lambda scope: scope.compute_ns)
        win_ns = busiest.compute_ns - sum(scope.compute_ns for scope in alike) // len(alike)
        if win_ns > 0 and least.compute_ns <= (1 - _UNEQUAL) * busiest.compute_ns:
            yield busiest, least, win_ns


def _are_at_once(first: _Steps, second: _Steps) -> bool:
    (start, end, steps), (other_start, other_end, other_steps) = first, second
    common_ns = min(end, other_end) - max(start, other_start)
    return common_ns >= _LEAST_COMMON * max(end - start, other_end - other_start) and min(
        steps, other_steps
    ) >= _LEAST_COMMON * max(steps, other_steps)


@once_per_recording
def incomplete(profile: Profile) -> Incomplete | None:
    """Why idle time tells nothing in a recording; None where it does.

    The whole recording is looked at, up to its first 50,000 calls.
    """
    if KERNELS_RERUN in profile.origin.warnings:
        return Incomplete(
            "kernels_rerun",
            "seems idle while the profiler runs kernels one at a time, and again, to count their"
            " metrics: only the durations of kernels are the program's",
            "record again without metrics and events to see what the program waits for",
            "idle, or the profiler's",
        )
    if not profile.has("kernels"):
        return None
    recorded = recorded_calls(profile)
    if not recorded and not profile.has("api_calls"):
        return None
    if not recorded:
        without, of = _without_kernels(profile)
        if without < max(_LEAST_LAUNCHES, _LEAST_SHARE * of):
            return None
        recorded = f"{of - without:,} of {of:,} launches with their kernels"
    return Incomplete(
        "incomplete",
        f"ran more than was recorded: the recording has {recorded}, so that idle time, and"
        " what hides what, is unknown",
        "record again, all events and a shorter part (see the profiler's messages), before you"
        " draw conclusions from pauses",
        "idle or not recorded",
    )


@once_per_recording
def recorded_calls(profile: Profile) -> str:
    """How many of the numbered calls a recording has, where most are missing; else empty.

    Without calls it has the numbers of those that launched its kernels.
    """
    most_apart = _FAR_APART if profile.has("api_calls") else _KERNELS_FAR_APART
    if profile.has("api_calls"):
        start, process, _, correlation, _ = first_calls(profile)
    elif profile.has("kernels"):
        start, process, correlation = read_columns(
            profile, "kernels", "start_ns", "process_id", "correlation_id"
        )
    else:
        return ""
    numbered = 0
    for number in distinct(process).tolist():
        # Of flags, NumPy takes their places first and then the rows in a third of the time.
        ids = different(correlation[np.flatnonzero((process == number) & (correlation > 0))])
        apart = np.diff(ids)
        # Mostly so few are far apart that the median is not looked for.
        is_likely = 2 * np.count_nonzero(apart >= most_apart) >= len(apart)
        if len(ids) >= _LEAST_CALLS and is_likely and median(apart) >= most_apart:
            numbered += int(ids[-1] - ids[0] + 1)
    return f"{len(start):,} of {numbered:,} numbered calls of CUDA" if numbered else ""


def _without_kernels(profile: Profile) -> tuple[int, int]:
    """How many launches of kernels left no record, and how many there are in the same time.

    Launches before the first that left one were cut off, and those of the end. While a graph is
    captured, launches leave none.
    """
    start, process, thread, correlation, name = first_calls(profile)
    names = profile.loaded("api_calls").names
    launching = names.values(partial(_begins_with, KERNEL_LAUNCHES), 0)
    is_launch = np.flatnonzero(launching.of(name))
    if not len(is_launch) or any(map(BEGINS_CAPTURE.match, names.distinct)):
        return 0, 0
    without = of = 0
    is_sampled = 2 * len(launches(profile).order) < len(launches(profile).activities)
    for rows in groups(process[is_launch], thread[is_launch]):
        # A file need not hold calls in their order.
        calls = is_launch[rows]
        calls = calls[order_of(start[calls])]
        of_thread = int(process[calls[0]]), int(thread[calls[0]])
        launched = _launched_until(profile, of_thread, int(start[calls].max()))
        calls = calls[np.flatnonzero(start[calls] >= launched.min(initial=_NEVER))]
        is_left = places_in(launched, start[calls]) != NOT_FOUND
        # A call of the runtime and that of the driver in it have one number.
        ids, recorded = correlation[calls], np.count_nonzero(is_left)
        if is_left[:recorded].all() and (recorded == len(calls) or not is_sampled):
            of += len(different(ids[:recorded]))  # only the end left none
            continue
        by_id = np.argsort(ids, kind="stable")
        first = first_of(by_id, ids)
        has_left = np.logical_or.reduceat(is_left[by_id], first) if len(first) else is_left
        is_without = ~has_left[np.argsort(by_id[first])]
        # Of a sample most launches left no record, from the start on, and most records no launch.
        early = is_without[: len(is_without) // 2]
        is_sample = is_sampled and 2 * np.count_nonzero(early) > len(early)
        end = len(is_without)
        if not is_sample:
            # The end begins where most left no record: one stream may be behind another.
            surplus = np.cumsum(np.where(is_without, 1, -1)[::-1])
            end -= int(surplus.argmax()) + 1 if surplus.max(initial=0) > 0 else 0
        without += int(np.count_nonzero(is_without[:end]))
        of += end
    return without, of


def _launched_until(profile: Profile, thread: tuple[int, int], last_ns: int) -> Numbers:
    """When the calls of a thread began that launched anything, up to this instant or later."""
    times = launches(profile).launch_ns
    low, high = launches(profile).bounds.get(thread, (0, 0))
    began = range(low, high, _LAUNCHES_AT_ONCE)
    # Of millions few are read: they are widened piece by piece.
    count = bisect_right(began, last_ns, key=lambda at: int(times[at : at + 1][0]))
    return times[low : min(low + count * _LAUNCHES_AT_ONCE, high)]
