"""Which idle time of a device is set-up, paid once: outside of phases, and in calls made once.

A pause whose next work was launched before it is none: the device waited.
"""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.pauses import ANALYSIS as PAUSES
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.pause_causes import Pieces, pieces_of
from gpuprof.facts.pauses import pauses_of
from gpuprof.facts.phases import PHASE_READS, phases
from gpuprof.facts.step_times import SIMILAR
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    TRANSFER,
    DeviceTimeline,
    timelines,
)
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    covered_before,
    covered_within,
    difference,
    intersection,
    union,
)
from gpuprof.model.profile import Profile

SET_UP_READS: Final = reads(PHASE_READS, PAUSES.reads)

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


def set_up_of(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When a device does nothing that a step pays: a part of its idle time.

    Where phases hold most of its kernels' work: all idle time outside of them. Otherwise the one
    pause that the program starts with, those that calls take which are made once, and those that
    are longer than all that the device does, unless there are three or more of about the same
    length: no work is done again and again beside them. Pauses whose next work was launched
    before them are left out, except where a launch loads code.

    Args:
        profile: The whole recording is read.
        device: One of its devices, or of those of the part that is looked at.
    """
    return profile.once(_set_up)[device.device_id]


def _set_up(profile: Profile) -> Mapping[int | None, Intervals]:
    return {device.device_id: _of_device(profile, device) for device in timelines(profile)}


def copies_outside(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When a device does nothing but transfers that no step pays; nothing where it has no phases.

    Args:
        profile: The whole recording is read.
        device: As in `set_up_of`.
    """
    spans = _holding_most(profile, device)
    return NOTHING if spans is None else difference(device.exposed[TRANSFER], spans)


def waits_outside(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When a device waits outside of its phases although its next work is launched.

    Args:
        profile: The whole recording is read.
        device: As in `set_up_of`.
    """
    spans = _holding_most(profile, device)
    return NOTHING if spans is None else difference(_waits(profile, device), spans)


def _waits(profile: Profile, device: DeviceTimeline) -> Intervals:
    """The pauses of a device whose next work was launched before, by a call that loads no code."""
    recorded = pauses_of(profile)
    is_waiting = (recorded.device == device.number) & (recorded.launch != NOT_FOUND)
    is_waiting &= (recorded.launch_ns <= recorded.start_ns) & host_clock(profile).is_known
    pauses = Intervals(recorded.start_ns[is_waiting], recorded.end_ns[is_waiting])
    is_once = _is_once(profile, device, pauses)
    return intersection(Intervals(pauses.start[~is_once], pauses.end[~is_once]), device.span)


def _holding_most(profile: Profile, device: DeviceTimeline) -> Intervals | None:
    """The phases of a device where they hold most of its kernels' work."""
    spans = _phases(profile, device)
    kernels = [device.exposed[layer] for layer in (COMPUTE, COMMUNICATION)]
    inside = sum(int(covered_within(layer, spans.start, spans.end).sum()) for layer in kernels)
    return spans if inside >= _ENOUGH * sum(layer.length for layer in kernels) > 0 else None


def _of_device(profile: Profile, device: DeviceTimeline) -> Intervals:
    spans = _holding_most(profile, device)
    waits = _waits(profile, device) if profile.unrestricted.has("api_calls") else NOTHING
    if spans is not None:
        return difference(device.idle_within(difference(device.span, spans)), waits)
    pauses = difference(device.idle, waits)
    length = pauses.end - pauses.start
    is_set_up = _is_start(device, pauses) | _is_once(profile, device, pauses)
    if profile.unrestricted.has("api_calls") and len(launches(profile.unrestricted).order):
        is_long = length > sum(layer.length for layer in device.exposed)
        is_set_up[is_long] |= ~_recurs(length[is_long])
    chosen = np.flatnonzero(is_set_up & (length >= _SHORT * device.span.length))
    return Intervals(pauses.start[chosen], pauses.end[chosen])


def _recurs(length: Int64s) -> npt.NDArray[np.bool_]:
    """Whether some others are about as long as each: the program sleeps or waits for its input."""
    ordered = np.sort(length)
    first = np.searchsorted(ordered, length / SIMILAR, side="right")
    return np.searchsorted(ordered, length * SIMILAR) - first >= _OFTEN


def _phases(profile: Profile, device: DeviceTimeline) -> Intervals:
    spans = [phase.span for phase in phases(profile) if device.number in phase.devices]
    return union([start for start, _ in spans], [end for _, end in spans]) if spans else NOTHING


def _is_start(device: DeviceTimeline, pauses: Intervals) -> npt.NDArray[np.bool_]:
    """Whether each pause is the one that the program starts with."""
    length = pauses.end - pauses.start
    is_start = np.zeros(len(length), bool)
    if not len(length):
        return is_start
    longest = int(length.argmax())
    next_longest = np.delete(length, longest).max(initial=0)
    begin = pauses.start[longest]
    before = sum(int(covered_before(layer, begin)) for layer in device.exposed)
    is_start[longest] = length[longest] > max(
        _LONG * device.span.length, _LONGER * next_longest
    ) and before <= _LITTLE * sum(layer.length for layer in device.exposed)
    return is_start


def _is_once(profile: Profile, device: DeviceTimeline, pauses: Intervals) -> npt.NDArray[np.bool_]:
    """Whether the host was in calls that are made once for most of each pause, or loaded code."""
    if not profile.unrestricted.has("api_calls"):
        return np.zeros(len(pauses), bool)
    pieces = pieces_of(profile)
    is_here = pauses_of(profile).device[pieces.pause] == device.number

    def covered(is_meant: npt.NDArray[np.bool_]) -> Int64s:
        calls = pieces.stretches.take(is_meant & is_here)
        instants = union(calls.start_ns, calls.end_ns)
        return covered_within(instants, pauses.start, pauses.end)

    is_once = _is_called(pieces, _ONCE) | is_loading(pieces)
    length = pauses.end - pauses.start
    return np.asarray(
        (covered(is_once) > _MOST * length) | (covered(_is_called(pieces, _LOADS)) > 0)
    )


def _is_called(pieces: Pieces, names: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Whether the host was in a call of some names in each piece of a pause."""
    is_meant = [detail is not None and names.search(detail) for _, detail in pieces.labels]
    return np.array(is_meant, bool)[pieces.stretches.label]


def is_loading(pieces: Pieces) -> npt.NDArray[np.bool_]:
    """Whether each piece of a pause is of a launch that takes so long that it loads code."""
    is_launch = np.array([kind == "launch" for kind, _ in pieces.labels], bool)
    length = pieces.stretches.end_ns - pieces.stretches.start_ns
    return np.asarray(is_launch[pieces.stretches.label] & (length >= LOADING_NS))
