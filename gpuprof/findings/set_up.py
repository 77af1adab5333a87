"""What no step pays: set-up, paid once, and copies and waits before, between and after phases.

A pause whose next work was launched before it is no set-up: the device waited.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.pauses import ANALYSIS as PAUSES
from gpuprof.base.units import say_bytes, say_ns, say_share
from gpuprof.facts.collective_parts import PARTS_READS, part_times
from gpuprof.facts.copies import Route, copy_rows, end_name
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.nvtx import LOADS_INPUT, RANGE_READS, ranges_of
from gpuprof.facts.pause_causes import pieces_of, pieces_on
from gpuprof.facts.pauses import pauses_of
from gpuprof.facts.phases import PHASE_READS, phases
from gpuprof.facts.step_times import SIMILAR
from gpuprof.facts.timeline import COMMUNICATION, COMPUTE, TRANSFER, DeviceTimeline, timelines
from gpuprof.findings.exposed_copies import speed_of
from gpuprof.findings.scope import Finding, span_of
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    covered_within,
    difference,
    intersection,
    together,
    union,
)
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording

SET_UP_READS: Final = reads(PHASE_READS, PAUSES.reads, PARTS_READS, RANGE_READS)

# Calls of CUDA that programs make once: memory, contexts, modules, streams and access to peers.
_ONCE: Final = re.compile(
    r"^(?:cuda|cu|hip)(?:Malloc|MemAlloc|MemCreate|MemMap|MemPool|Host|MemHost|Free|MemFree|Init"
    r"|Ctx|DevicePrimaryCtx|DeviceEnablePeerAccess|DeviceSetLimit|DeviceReset|Module|Library|Link"
    r"|StreamCreate|EventCreate|Ipc|FuncSetAttribute|FuncGetAttributes|GetDeviceProperties"
    r"|SetDevice|GraphInstantiate)"
)
# Calls that load code are made once for each module: what the host does beside, such as compiling
# it, belongs to them.
_LOADS: Final = re.compile(r"^(?:cuda|cu|hip)(?:Module|Library)Load")
# A launch takes some microseconds: one that takes so long loads code before.
LOADING_NS: Final = 1_000_000
# Phases that hold less of what a device's kernels do are not what the recording is about.
_ENOUGH: Final = 0.5
# A pause that is this much of a device's span, so many times as long as the next one, is no
# part of what the program does again and again, if little work is done before it.
_LONG: Final = 0.2
_LONGER: Final = 4
_LITTLE: Final = 0.1
# Pauses recur if so many are about as long.
_OFTEN: Final = 3
# Pauses shorter than this share of the span are not looked into one by one.
_SHORT: Final = 0.01
_MOST: Final = 0.5
# Less of a device's span is not worth the time that it takes to look closer.
_LEAST_OUTSIDE: Final = 0.01
# Causes of pauses that say nothing of what the host did.
_UNEXPLAINED: Final = {
    "unknown",
    "launch",
    "waits_for_unknown",
    "waits_for_stream",
    "waits_for_device",
}
_RUN_LONGER: Final = (
    "record longer, or cache what every start computes anew; no step includes this time"
)
_RECORD_MORE: Final = (
    "record more than the start of the program: what it does again and again is hardly in here"
)


def outside_steps(
    profile: Profile, device: DeviceTimeline, *, has_steps: bool
) -> Iterator[Finding]:
    """What a device pays that no step of it does; `setup` is of the device's span."""
    yield from _idle_in_set_up(profile, device, has_steps=has_steps)
    yield from _copying_outside(profile, device)
    waits = NOTHING
    spans = _holding_most(profile)[device.device_id]
    if spans is not None and profile.unrestricted.has("api_calls"):
        waits = difference(_waits(profile)[device.device_id], spans)
    if waits.length:
        yield Finding(
            "waits_outside_steps",
            span_of(profile, device),
            "waits before or after its steps although its next work is launched",
            waits.length,
            waits.length,
            "overlap",
            "see what its stream depends on: work that the recording does not hold, another"
            " stream's event, a rank, a callback of the host",
            "pauses",
            instants=waits,
        )


def _idle_in_set_up(
    profile: Profile, device: DeviceTimeline, *, has_steps: bool
) -> Iterator[Finding]:
    """Idle time that no step pays, with first calls of collectives, which set up connections."""
    times, exposed = part_times(profile).get(device.device_id), device.exposed[COMMUNICATION]
    first_calls = NOTHING if times is None else intersection(times.setup, exposed)
    set_up = together([set_up_of(profile, device), first_calls])
    if not set_up.length:
        return
    calls = f", {say_ns(first_calls.length)} in first collectives" if len(first_calls) else ""
    longest_ns = int((set_up.end - set_up.start).max())
    once = f", {say_ns(longest_ns)} of it at once" if len(set_up) > 1 else ""
    phrase = f"is idle while the program sets up{calls}{once}"

    def details() -> dict[str, str]:
        """Where the host is for most of it."""
        where, share = _largest(profile, device, set_up)
        place = f", {say_share(share)} of it in {where or 'no call that was recorded'}"
        return {"phrase": phrase + place, "table": "pauses", "where": where} if share else {}

    is_little = has_steps or set_up.length < _MOST * device.span.length
    yield Finding(
        "setup",
        span_of(profile, device),
        phrase,
        set_up.length,
        set_up.length,
        "less set-up",
        _RUN_LONGER if is_little else _RECORD_MORE,
        "gaps",
        instants=set_up,
        details=details,
    )


def _largest(profile: Profile, device: DeviceTimeline, some: Intervals) -> tuple[str, float]:
    """What the host was in for most of some pauses of a device, and its share of them.

    The name is empty for nothing that was recorded, the share 0 where nothing can be told.
    """
    if not profile.unrestricted.has("api_calls"):
        return "", 0.0
    pieces = pieces_of(profile)
    here = pieces_on(profile, device.number)
    stretches, loading = pieces.stretches.take(here), is_loading(profile)[here]
    lengths = covered_within(some, stretches.start_ns, stretches.end_ns)
    is_known = np.array([cause not in _UNEXPLAINED for cause, _ in pieces.labels])
    counts = is_known[stretches.label] | loading
    sums = np.bincount(stretches.label[counts], lengths[counts], len(pieces.labels))
    most = int(sums.argmax())
    cause, detail = pieces.labels[most]
    share = float(sums[most] / some.length)
    return f"{detail}, which loads code" if cause == "launch" and share else detail or "", share


def _copying_outside(profile: Profile, device: DeviceTimeline) -> Iterator[Finding]:
    """Copies before, between and after the steps."""
    outside = copies_outside(profile, device)
    if outside.length < _LEAST_OUTSIDE * device.span.length or not outside.length:
        return
    copies = copy_rows(profile.unrestricted)
    is_here = (copies.src == device.number) | (copies.dst == device.number)
    is_here &= covered_within(outside, copies.start_ns, copies.end_ns) > 0
    size = int(copies.moved_bytes[is_here].sum())
    to_device = int(copies.duration_ns[is_here & (copies.src == HOST)].sum())
    to_host = int(copies.duration_ns[is_here & (copies.dst == HOST)].sum())
    src, dst = (HOST, device.device_id) if to_device >= to_host else (device.device_id, HOST)
    speed, pin = speed_of(profile, Route(src, dst, "direct"))
    ends = f"{end_name(src)} to {end_name(dst)}"
    yield Finding(
        "copies_outside_steps",
        span_of(profile, device),
        "waits for copies before or after its steps"
        f" ({f'{say_bytes(size)}, ' * (size > 0)}most {ends}{speed})",
        outside.length,
        outside.length,
        "fewer or faster copies",
        pin or "copy less, from pinned memory, or beside the first and last steps",
        "transfers",
        ends,
        instants=outside,
    )


def set_up_of(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When a device does nothing that a step pays: a part of its idle time.

    Where phases hold most of its kernels' work: all idle time outside of them. Otherwise the one
    pause that the program starts with, those that calls take which are made once, and those that
    are longer than all that the device does, unless there are three or more of about the same
    length: no work is done again and again beside them. Pauses whose next work was launched before
    them are left out, except where a launch loads code. The whole recording is read.
    """
    return _set_up(profile)[device.device_id]


@once_per_profile
def _set_up(profile: Profile) -> Mapping[int | None, Intervals]:
    return {device.device_id: _of_device(profile, device) for device in timelines(profile)}


def copies_outside(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When a device does nothing but transfers that no step pays; nothing where it has no phases.

    The whole recording is read.
    """
    spans = _holding_most(profile)[device.device_id]
    return NOTHING if spans is None else difference(device.exposed[TRANSFER], spans)


@once_per_profile
def _waits(profile: Profile) -> Mapping[int | None, Intervals]:
    """The pauses of devices whose next work was launched before, by a call that loads no code."""
    recorded, waits = pauses_of(profile), {}
    is_ahead = (recorded.launch != NOT_FOUND) & (recorded.launch_ns <= recorded.start_ns)
    is_ahead &= host_clock(profile).is_known
    for device in timelines(profile):
        is_waiting = is_ahead & (recorded.device == device.number)
        pauses = Intervals(recorded.start_ns[is_waiting], recorded.end_ns[is_waiting])
        is_often = ~_is_once(profile, device, pauses)
        often = Intervals(pauses.start[is_often], pauses.end[is_often])
        waits[device.device_id] = intersection(often, device.span)
    return waits


@once_per_profile
def _holding_most(profile: Profile) -> Mapping[int | None, Intervals | None]:
    """The phases of each device where they hold most of its kernels' work."""
    of_devices: dict[int | None, Intervals | None] = {}
    for device in timelines(profile):
        times = [phase.span for phase in phases(profile) if device.number in phase.devices]
        spans = union(*zip(*times, strict=True)) if times else NOTHING
        kernels = [device.exposed[layer] for layer in (COMPUTE, COMMUNICATION)]
        inside = sum(int(covered_within(layer, spans.start, spans.end).sum()) for layer in kernels)
        is_most = inside >= _ENOUGH * sum(layer.length for layer in kernels) > 0
        of_devices[device.device_id] = spans if is_most else None
    return of_devices


def _of_device(profile: Profile, device: DeviceTimeline) -> Intervals:
    spans = _holding_most(profile)[device.device_id]
    has_calls = profile.unrestricted.has("api_calls")
    waits = _waits(profile)[device.device_id] if has_calls else NOTHING
    if spans is not None:
        return difference(device.idle_within(difference(device.span, spans)), waits)
    pauses = difference(device.idle, waits)
    length = pauses.end - pauses.start
    is_set_up = _is_start(device, pauses) | _is_once(profile, device, pauses)
    is_set_up &= ~_is_for_input(profile.unrestricted, pauses)
    if has_calls and len(launches(profile.unrestricted).order):
        is_long = length > sum(layer.length for layer in device.exposed)
        long_ns = length[is_long]
        ordered = np.sort(long_ns)
        alike = np.searchsorted(ordered, long_ns * SIMILAR)
        alike -= np.searchsorted(ordered, long_ns / SIMILAR, side="right")
        # In several that are about as long the program sleeps, or waits for its input.
        is_set_up[is_long] |= alike < _OFTEN
    chosen = np.flatnonzero(is_set_up & (length >= _SHORT * device.span.length))
    return Intervals(pauses.start[chosen], pauses.end[chosen])


def _is_start(device: DeviceTimeline, pauses: Intervals) -> npt.NDArray[np.bool_]:
    """Whether each pause is the one that the program starts with."""
    length = pauses.end - pauses.start
    is_start = np.zeros(len(length), bool)
    if not len(length):
        return is_start
    longest = int(length.argmax())
    next_longest = np.delete(length, longest).max(initial=0)
    first, begin = device.span.start[0], pauses.start[longest]
    before = sum(int(covered_within(layer, first, begin)) for layer in device.exposed)
    is_start[longest] = length[longest] > max(
        _LONG * device.span.length, _LONGER * next_longest
    ) and before <= _LITTLE * sum(layer.length for layer in device.exposed)
    return is_start


def _is_for_input(recorded: Profile, pauses: Intervals) -> npt.NDArray[np.bool_]:
    """Whether an operation that loads input ran for most of each pause, where calls are unknown."""
    if recorded.has("api_calls"):
        return np.zeros(len(pauses), bool)
    operations = ranges_of(recorded).of_kind(is_operation=True)
    is_meant = [LOADS_INPUT.search(text) is not None for text, _, _ in operations.labels]
    loading = operations.labelled(is_meant)
    loading_ns = covered_within(union(loading.start_ns, loading.end_ns), pauses.start, pauses.end)
    return loading_ns >= _ENOUGH * (pauses.end - pauses.start)


def _is_once(profile: Profile, device: DeviceTimeline, pauses: Intervals) -> npt.NDArray[np.bool_]:
    """Whether the host was in calls that are made once for most of each pause, or loaded code."""
    if not len(pauses) or not profile.unrestricted.has("api_calls"):
        return np.zeros(len(pauses), bool)
    stretches, here = pieces_of(profile).stretches, pieces_on(profile, device.number)

    def covered(is_meant: npt.NDArray[np.bool_]) -> Int64s:
        calls = stretches.take(here[is_meant[here]])
        instants = union(calls.start_ns, calls.end_ns)
        return covered_within(instants, pauses.start, pauses.end)

    is_once, is_load = _is_called(profile.unrestricted)
    length = pauses.end - pauses.start
    return np.asarray((covered(is_once) > _MOST * length) | (covered(is_load) > 0))


@once_per_recording
def _is_called(profile: Profile) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether the host was in a call that is made once, and in one that loads code, by piece."""
    pieces = pieces_of(profile)
    once, load = (
        np.array([detail is not None and names.search(detail) for _, detail in pieces.labels], bool)
        for names in (_ONCE, _LOADS)
    )
    label = pieces.stretches.label
    return once[label] | is_loading(profile), load[label]


@once_per_recording
def is_loading(profile: Profile) -> npt.NDArray[np.bool_]:
    """Whether each piece of a pause is of a launch that takes so long that it loads code."""
    pieces = pieces_of(profile)
    is_launch = np.array([kind == "launch" for kind, _ in pieces.labels], bool)
    length = pieces.stretches.end_ns - pieces.stretches.start_ns
    return np.asarray(is_launch[pieces.stretches.label] & (length >= LOADING_NS))
