"""What is to be said of a whole recording: what it lacks, what it is of, and what is paid once."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from gpuprof.analyses.activity_summary import SUM_READS, summed_up
from gpuprof.analyses.transfers import TRANSFER_READS
from gpuprof.base.cuda import LAUNCHING_CALLS
from gpuprof.base.units import counted, format_bytes, say_ns, say_share
from gpuprof.facts.collective_parts import PARTS_READS, part_times
from gpuprof.facts.copies import Route, copy_rows, end_name, known_end, sums_of, transfer_rows
from gpuprof.facts.kernel_kinds import is_initial, may_initialise
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import groups, names_by_number
from gpuprof.facts.nvtx import RANGE_READS, named_parts
from gpuprof.facts.pause_causes import pieces_of
from gpuprof.facts.pauses import pauses_of
from gpuprof.facts.phases import steps_by_phase
from gpuprof.facts.step_windows import FROM_RANGES, masked
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    DeviceTimeline,
    far_ends,
    timelines,
)
from gpuprof.findings.contract import Finding, Scope
from gpuprof.findings.incomplete import INCOMPLETE_READS, incomplete
from gpuprof.findings.set_up import (
    SET_UP_READS,
    copies_outside,
    is_loading,
    set_up_of,
    waits_outside,
)
from gpuprof.findings.transfers import memory_of
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import NOTHING, Intervals, covered_within, intersection, together
from gpuprof.model.profile import Profile

READS: Final = reads(
    PARTS_READS,
    SET_UP_READS,
    INCOMPLETE_READS,
    RANGE_READS,
    SUM_READS,
    TRANSFER_READS,
    devices="device_id",
)

# Calls that put work onto a device after the last one whose work was recorded: at least so many,
# and this share of all such calls.
_LEAST_LAUNCHES: Final = 10
_FIRST: Final = -(1 << 62)
_LEAST_SHARE: Final = 0.05
# Kernels that fill tensors with initial values take so much of all kernels' time where a
# recording is of nothing else.
_INITIAL_SHARE: Final = 0.1
# Devices that share the work of a step differ less in what they compute.
_UNEQUAL: Final = 0.1
# Steps of two devices are the same ones where they have so much in common.
_LEAST_COMMON: Final = 0.8


# Causes of pauses that say nothing of what the host did.
_UNEXPLAINED: Final = {
    "unknown",
    "launch",
    "waits_for_unknown",
    "waits_for_stream",
    "waits_for_device",
}
# What a recording without kernels may have, and calls that launch kernels.
_WITHOUT_KERNELS: Final = {"memcpys": "copy", "memsets": "memset"}
_LAUNCHES: Final = re.compile(r"(cu|cuda|hip)[A-Za-z]*Launch(Kernel|Cooperative|Graph|Grid|_|$)")
# What tells phases of one name apart.
_NUMBER_OF_PHASE: Final = re.compile(r" \(\d+\)$")
_NOTHING: Final = "no call that was recorded"
_RUN_LONGER: Final = (
    "record longer, or cache what every start computes anew; no step includes this time"
)
_RECORD_MORE: Final = (
    "record more than the start of the program: what it does again and again is hardly in here"
)
_MOST: Final = 0.5
# Less of a device's span is not worth the time that it takes to look closer.
_LEAST_OUTSIDE: Final = 0.01


def of_recording(profile: Profile, scopes: Sequence[Scope]) -> Iterator[Finding]:
    """What a recording as a whole lacks, is of, or pays once; costs of `setup` are of all of it.

    Args:
        profile: The recording, or the part of it that is looked at.
        scopes: The devices with their phases.
    """
    yield from _incomplete(profile)
    yield from _truncated(profile)
    yield from _no_training(profile)
    yield from _no_kernels(profile)
    yield from _unbalanced(scopes)
    yield from _set_up(profile, has_steps=any(scope.has_steps for scope in scopes))
    yield from _copies_outside(profile)
    yield from _waits_outside(profile)


def _all_of(profile: Profile, device: DeviceTimeline) -> Scope:
    start, end = int(device.span.start[0]), int(device.span.end[-1])
    return Scope(profile, device, "", np.array([start]), np.array([end]), 1)


def _devices(profile: Profile) -> list[DeviceTimeline]:
    """Devices whose own work was recorded."""
    return [
        device
        for device in timelines(profile)
        if device.device_id not in far_ends(profile) and device.span.length
    ]


def _incomplete(profile: Profile) -> Iterator[Finding]:
    """Records that are missing in the midst of others, and kernels that the profiler reran."""
    devices, why = _devices(profile), incomplete(profile)
    if why is None or not devices:
        return
    yield Finding(
        why.cause,
        _all_of(profile, max(devices, key=lambda device: device.kernels.length)),
        why.phrase,
        0,
        0,
        "a whole recording",
        why.suggestion,
        "kernel_summary",
    )


def _truncated(profile: Profile) -> Iterator[Finding]:
    """Activities that stop while the host goes on launching."""
    recorded, devices = profile.unrestricted, _devices(profile)
    if not devices or not recorded.has("api_calls") or not len(launches(recorded).launch_ns):
        return
    last = int(launches(recorded).launch_ns.max())
    lost = _calls_like(recorded, LAUNCHING_CALLS, last)
    if lost < _LEAST_LAUNCHES or lost < _LEAST_SHARE * (
        calls := _calls_like(recorded, LAUNCHING_CALLS)
    ):
        return
    steps = _recorded_steps(recorded)
    yield Finding(
        "truncated",
        _all_of(profile, max(devices, key=lambda device: int(device.span.end[-1]))),
        f"has no records of what was launched last{steps}: of {lost:,} of {calls:,} launches",
        0,
        0,
        "a whole recording",
        "record a shorter part, and wait for the devices before it ends (synchronise, then"
        " cudaProfilerStop)",
        "steps" if steps else "totals",
    )


def _calls_like(profile: Profile, pattern: re.Pattern[str], after_ns: int = _FIRST) -> int:
    """How many calls of some names begin after an instant."""
    names = names_by_number(profile, "api_calls")
    is_meant = names.values(lambda name: pattern.match(name) is not None, 0)
    return sum(
        int(np.count_nonzero(is_meant.of(number[start > after_ns])))
        for start, number in profile.integers("api_calls", "start_ns", "name_id")
        if start.max(initial=_FIRST) > after_ns
    )


def _recorded_steps(profile: Profile) -> str:
    """Of how many of the steps that ranges mark there are records; empty where not known."""
    marked = [steps for steps in steps_by_phase(profile) if steps.phase.source == FROM_RANGES]
    if not marked:
        return ""
    names = {_NUMBER_OF_PHASE.sub("", steps.phase.name) for steps in marked}
    parts = named_parts(profile)
    is_step = np.array([masked(text) in names for text, _, _ in parts.labels], bool)
    marks = int(np.count_nonzero(is_step[parts.label]))
    recorded = sum(len(steps.start_ns) for steps in marked)
    return f", after {recorded:,} of {marks:,} steps" if recorded < marks else ""


def _works(profile: Profile) -> bool:
    """Whether a kernel does more than fill memory with initial values."""
    may = names_by_number(profile, "kernels").values(may_initialise, 0)
    return not all(may.of(name_id).all() for (name_id,) in profile.integers("kernels", "name_id"))


def _no_training(profile: Profile) -> Iterator[Finding]:
    """A recording in which tensors are filled with initial values, and nothing else."""
    if not profile.has("kernels") or _works(profile.unrestricted):
        return
    rows = summed_up(profile.unrestricted, "kernels")
    total_ns = sum(row["total_ns"] for row in rows)
    initial = [row for row in rows if is_initial(row["name"] or "")]
    initial_ns = sum(row["total_ns"] for row in initial)
    if not total_ns or initial_ns < _INITIAL_SHARE * total_ns:
        return
    working = [device for device in _devices(profile) if device.kernels.length]
    if not working:
        return
    most = max(working, key=lambda device: device.kernels.length)
    recorded = {device.device_id for device in timelines(profile)}
    if profile.unrestricted.has("devices"):
        recorded |= {*profile.unrestricted.table("devices")["device_id"].to_pylist()}
    idle = len(recorded) - len(working)
    idle_devices = f"; {idle} of {counted(len(recorded), 'device', 'devices')} ran no kernel"
    yield Finding(
        "no_training",
        _all_of(profile, most),
        "only fills memory with initial values: no step of a training was recorded"
        + (idle_devices if idle else ""),
        0,
        0,
        "recording steps",
        "record later, when steps run: start the profiler after the first ones",
        "kernel_summary",
    )


def _no_kernels(profile: Profile) -> Iterator[Finding]:
    """Copies and memsets of a program whose kernels were not recorded, or never launched."""
    devices = _devices(profile)
    layers = [layer for device in timelines(profile.unrestricted) for layer in _kernels(device)]
    if not devices or any(len(layer) for layer in layers):
        return
    recorded = profile.unrestricted
    counts = [
        counted(rows, word, f"{word[:-1]}ies" if word.endswith("y") else f"{word}s")
        for table, word in _WITHOUT_KERNELS.items()
        if recorded.has(table)
        and (rows := sum(len(start) for (start,) in recorded.integers(table, "start_ns")))
    ]
    launches_of_kernels = 0
    if recorded.has("api_calls"):
        launches_of_kernels = _calls_like(recorded, _LAUNCHES)
    suggestion = "see whether the program came to its kernels, and record the part that computes"
    if launches_of_kernels:
        suggestion = (
            f"record again: {counted(launches_of_kernels, 'launch', 'launches')} of kernels left"
            " no record of what ran (see the profiler's messages)"
        )
    yield Finding(
        "no_kernels",
        _all_of(profile, max(devices, key=lambda device: device.span.length)),
        f"ran no kernel: the recording has {' and '.join(counts)} only{_most_copies(recorded)}",
        0,
        0,
        "recording kernels",
        suggestion,
        "totals",
    )


def _most_copies(profile: Profile) -> str:
    """Where most of the time of transfers goes, their size and speed; empty for a single one."""
    if not profile.has("memcpys"):
        return ""
    copies = transfer_rows(profile)
    routes = ((sums_of(copies, rows), rows[0]) for rows in groups(copies.src, copies.dst))
    sums, first = max(routes, key=lambda route: route[0].total_ns, default=(None, 0))
    if sums is None or sums.calls <= 1 or not (sums.bytes and sums.bytes_per_s):
        return ""
    src, dst = (end_name(known_end(int(end[first]))) for end in (copies.src, copies.dst))
    size, speed = format_bytes(sums.bytes / sums.calls), format_bytes(sums.bytes_per_s)
    return f"; most {src} to {dst}, {size} each at {speed}/s"


def _kernels(device: DeviceTimeline) -> tuple[Intervals, Intervals]:
    return device.busy[COMPUTE], device.busy[COMMUNICATION]


def _unbalanced(scopes: Sequence[Scope]) -> Iterator[Finding]:
    """Devices that compute for longer in the steps of a phase than others do."""
    for alike in _at_once(scopes):
        busiest = max(alike, key=lambda scope: scope.compute_ns)
        least = min(alike, key=lambda scope: scope.compute_ns)
        win_ns = busiest.compute_ns - sum(scope.compute_ns for scope in alike) // len(alike)
        if win_ns <= 0 or least.compute_ns > (1 - _UNEQUAL) * busiest.compute_ns:
            continue
        yield Finding(
            "unbalanced_devices",
            busiest,
            f"computes for {say_ns(busiest.compute_ns)} of a step, device"
            f" {least.device.device_id} for {say_ns(least.compute_ns)}: the difference",
            busiest.compute_ns - least.compute_ns,
            win_ns,
            "equal work",
            "give each device work in proportion to its speed",
            "breakdown",
            f"device {least.device.device_id}",
        )


def _at_once(scopes: Sequence[Scope]) -> list[list[Scope]]:
    """The devices whose steps are the same ones, also where each process marks its own."""
    groups: list[list[Scope]] = []
    for scope in (scope for scope in scopes if scope.has_steps):
        group = next((group for group in groups if _is_at_once(group[0], scope)), None)
        if group is None:
            groups.append([scope])
        else:
            group.append(scope)
    return groups


def _is_at_once(first: Scope, second: Scope) -> bool:
    start = max(int(first.start_ns[0]), int(second.start_ns[0]))
    end = min(int(first.end_ns[-1]), int(second.end_ns[-1]))
    spans = [int(scope.end_ns[-1] - scope.start_ns[0]) for scope in (first, second)]
    steps = [len(scope.start_ns) for scope in (first, second)]
    return end - start >= _LEAST_COMMON * max(spans) and min(steps) >= _LEAST_COMMON * max(steps)


def _set_up(profile: Profile, *, has_steps: bool) -> Iterator[Finding]:
    """Idle time of each device that no step pays."""
    for device in _devices(profile):
        first_calls = _first_collectives(profile, device)
        set_up = together([set_up_of(profile, device), first_calls])
        if not set_up.length:
            continue
        calls = f", {say_ns(first_calls.length)} in first collectives" if len(first_calls) else ""
        longest_ns = int((set_up.end - set_up.start).max())
        where, share = _largest(profile, device, set_up)
        place = f", {say_share(share)} of it in {where or _NOTHING}" if share else ""
        once = f", {say_ns(longest_ns)} of it at once" if len(set_up) > 1 else ""
        yield Finding(
            "setup",
            _all_of(profile, device),
            f"is idle while the program sets up{calls}{once}{place}",
            set_up.length,
            set_up.length,
            "less set-up",
            _RUN_LONGER
            if has_steps or set_up.length < _MOST * device.span.length
            else _RECORD_MORE,
            "pauses" if share else "gaps",
            where,
        )


def _copies_outside(profile: Profile) -> Iterator[Finding]:
    """Copies before, between and after the steps of each device, which no step pays."""
    for device in _devices(profile):
        outside = copies_outside(profile, device)
        if outside.length < _LEAST_OUTSIDE * device.span.length or not outside.length:
            continue
        copies = copy_rows(profile.unrestricted)
        is_here = (copies.src == device.number) | (copies.dst == device.number)
        is_here &= covered_within(outside, copies.start_ns, copies.end_ns) > 0
        size = int(copies.moved_bytes[is_here].sum())
        to_device = int(copies.duration_ns[is_here & (copies.src == HOST)].sum())
        to_host = int(copies.duration_ns[is_here & (copies.dst == HOST)].sum())
        src, dst = (HOST, device.device_id) if to_device >= to_host else (device.device_id, HOST)
        route = Route(src, dst, "direct")
        memory = memory_of(profile, route)
        yield Finding(
            "copies_outside_steps",
            _all_of(profile, device),
            f"waits for copies before or after its steps ({f'{format_bytes(size)}, ' * (size > 0)}"
            f"most {end_name(route.src)} to {end_name(route.dst)}{memory.words})",
            outside.length,
            outside.length,
            "fewer or faster copies",
            memory.suggestion
            or "copy less, from pinned memory, or beside the first and last steps",
            "transfers",
            f"{end_name(route.src)} to {end_name(route.dst)}",
        )


def _waits_outside(profile: Profile) -> Iterator[Finding]:
    """Pauses outside the steps of each device whose next work had been launched before them."""
    if not profile.unrestricted.has("api_calls"):
        return
    for device in _devices(profile):
        waits = waits_outside(profile, device)
        if waits.length:
            yield Finding(
                "waits_outside_steps",
                _all_of(profile, device),
                "waits before or after its steps although its next work is launched",
                waits.length,
                waits.length,
                "overlap",
                "see what its stream depends on: work that the recording does not hold, another"
                " stream's event, a rank, a callback of the host",
                "pauses",
            )


def _first_collectives(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When first calls of collectives, which set up connections, run alone."""
    times = part_times(profile).get(device.device_id)
    return NOTHING if times is None else intersection(times.setup, device.exposed[COMMUNICATION])


def _largest(profile: Profile, device: DeviceTimeline, some: Intervals) -> tuple[str, float]:
    """What the host was in for most of some pauses of a device, and its share of them.

    The name is empty for nothing that was recorded, the share 0 where nothing can be told.
    """
    if not profile.unrestricted.has("api_calls"):
        return "", 0.0
    pieces = pieces_of(profile)
    is_of_device = pauses_of(profile).device[pieces.pause] == device.number
    stretches, loading = pieces.stretches.take(is_of_device), is_loading(pieces)[is_of_device]
    lengths = covered_within(some, stretches.start_ns, stretches.end_ns)
    is_known = np.array([cause not in _UNEXPLAINED for cause, _ in pieces.labels])
    counts = is_known[stretches.label] | loading
    sums = np.bincount(stretches.label[counts], lengths[counts], len(pieces.labels))
    most = int(sums.argmax())
    cause, detail = pieces.labels[most]
    share = float(sums[most] / some.length)
    return f"{detail}, which loads code" if cause == "launch" and share else detail or "", share
