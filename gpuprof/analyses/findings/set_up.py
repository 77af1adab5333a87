"""Which idle time of a device is set-up, paid once: outside of phases, and in calls made once."""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.pauses import pauses_of
from gpuprof.analyses.facts.phases import PHASE_READS, phases
from gpuprof.analyses.facts.timeline import COMMUNICATION, COMPUTE, DeviceTimeline, timelines
from gpuprof.analyses.time.pauses import ANALYSIS as PAUSES
from gpuprof.analyses.time.pauses import pieces_of
from gpuprof.intervals import (
    NOTHING,
    Intervals,
    covered_before,
    covered_within,
    difference,
    union,
)
from gpuprof.profile import Profile

SET_UP_READS: Final = reads(PHASE_READS, PAUSES.reads)

# Calls of CUDA that programs make once: memory, contexts, modules, streams and access to peers.
_ONCE: Final = re.compile(
    r"^(?:cuda|cu|hip)(?:Malloc|MemAlloc|MemCreate|MemMap|MemPool|Host|MemHost|Free|MemFree|Init"
    r"|Ctx|DevicePrimaryCtx|DeviceEnablePeerAccess|DeviceSetLimit|DeviceReset|Module|Library|Link"
    r"|StreamCreate|EventCreate|Ipc|FuncSetAttribute|FuncGetAttributes|GetDeviceProperties"
    r"|SetDevice|GraphInstantiate)"
)
# Phases that hold less of what a device's kernels do are not what the recording is about.
_ENOUGH: Final = 0.5
# A pause that is this much of a device's span, so many times as long as the next one, is no
# part of what the program does again and again, if little work is done before it.
_LONG: Final = 0.2
_LONGER: Final = 4
_LITTLE: Final = 0.1
# Pauses shorter than this share of the span are not looked into one by one.
_SHORT: Final = 0.01
_MOST: Final = 0.5


def set_up_of(profile: Profile, device: DeviceTimeline) -> Intervals:
    """When a device does nothing that a step pays: a part of its idle time.

    Where phases hold most of its kernels' work: all idle time outside of them. Otherwise the one
    pause that the program starts with, and those that calls take which are made once.

    Args:
        profile: The whole recording is read.
        device: One of its devices, or of those of the part that is looked at.
    """
    return profile.once(_set_up)[device.device_id]


def _set_up(profile: Profile) -> Mapping[int | None, Intervals]:
    return {device.device_id: _of_device(profile, device) for device in timelines(profile)}


def _of_device(profile: Profile, device: DeviceTimeline) -> Intervals:
    spans = _phases(profile, device)
    kernels = [device.exposed[layer] for layer in (COMPUTE, COMMUNICATION)]
    inside = sum(int(covered_within(layer, spans.start, spans.end).sum()) for layer in kernels)
    if inside >= _ENOUGH * sum(layer.length for layer in kernels) > 0:
        return device.idle_within(difference(device.span, spans))
    pauses = device.idle
    length = pauses.end - pauses.start
    is_set_up = _is_start(device, pauses) | _is_once(profile, device, pauses)
    chosen = np.flatnonzero(is_set_up & (length >= _SHORT * device.span.length))
    return Intervals(pauses.start[chosen], pauses.end[chosen])


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
    """Whether the host was in calls that are made once for most of each pause."""
    if not profile.unrestricted.has("api_calls"):
        return np.zeros(len(pauses), bool)
    device_of, pieces = pauses_of(profile).device, pieces_of(profile)
    labels = [
        detail is not None and _ONCE.search(detail) is not None for _, detail in pieces.labels
    ]
    is_once = np.array(labels, bool)[pieces.stretches.label]
    chosen = pieces.stretches.take(is_once & (device_of[pieces.pause] == device.number))
    calls = union(chosen.start_ns, chosen.end_ns)
    length = pauses.end - pauses.start
    return np.asarray(covered_within(calls, pauses.start, pauses.end) > _MOST * length)
