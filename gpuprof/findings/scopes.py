"""Over which steps each device is looked at: those of its phases, else its recording."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import numpy as np

from gpuprof.analyses.transfers import transfers
from gpuprof.base.kernel_names import short_names
from gpuprof.facts.collective_parts import part_times
from gpuprof.facts.copies import transfer_times
from gpuprof.facts.launches import launches
from gpuprof.facts.needless_copies import avoidable
from gpuprof.facts.nvtx import ranges_of
from gpuprof.facts.pause_causes import pieces_of
from gpuprof.facts.phases import PHASE_READS, Phase, phases
from gpuprof.facts.step_windows import DETECTED
from gpuprof.facts.timeline import TIMELINE_READS, DeviceTimeline, far_ends, timelines
from gpuprof.findings.contract import Scope
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import covered_within, union
from gpuprof.model.profile import Profile

SCOPE_READS: Final = reads(PHASE_READS, TIMELINE_READS)
# Phases that hold less of what a device does leave too much of it out.
_ENOUGH: Final = 0.5


def scopes(profile: Profile) -> tuple[Scope, ...]:
    """The devices with the steps of each of their phases; a device without steps as a whole."""
    return profile.once(_scopes)


def _scopes(profile: Profile) -> tuple[Scope, ...]:
    _look_ahead(profile.unrestricted)
    not_recorded = far_ends(profile)
    return tuple(
        scope
        for device in timelines(profile)
        if device.device_id not in not_recorded and device.span.length
        for scope in _of_device(profile, device)
    )


def _look_ahead(profile: Profile) -> None:
    """Compute what all findings ask for on two threads, each with about half of the work."""
    if profile.has("kernels", "memcpys", "api_calls"):
        ranges = (ranges_of,) if profile.has("nvtx_ranges") else ()
        ahead = (timelines, *ranges, part_times, transfer_times, avoidable, transfers)
        profile.compute_ahead(ahead, is_first=True)
        with suppress(Exception):  # what fails is left to who asks for it
            launches(profile)
            pieces_of(profile)


def _of_device(profile: Profile, device: DeviceTimeline) -> Iterator[Scope]:
    names = profile.once(_names)
    of_device = [phase for phase in phases(profile) if device.number in phase.devices]
    spans = union(*(np.array([phase.span[end] for phase in of_device]) for end in (0, 1)))
    kernels_ns = int(device.kernel_ns(spans.start, spans.end).sum())
    all_ns = int(device.kernel_ns(device.span.start, device.span.end).sum())
    in_part = [s for p in of_device if (s := _of_phase(profile, device, names[p], p))]
    yield from in_part
    if not in_part or kernels_ns < _ENOUGH * all_ns:
        start, end = int(device.span.start[0]), int(device.span.end[-1])
        yield Scope(profile, device, "", np.array([start]), np.array([end]), 1)


def _names(profile: Profile) -> Mapping[Phase, str]:
    """The names of phases for people, numbered in time where those of a process are alike."""
    by_time = sorted(phases(profile), key=lambda phase: phase.span)
    short = short_names(phase.name for phase in by_time if phase.source == DETECTED)
    names = {phase: short.get(phase.name, phase.name) for phase in by_time}
    alike = Counter((phase.process_id, name) for phase, name in names.items())
    numbers = Counter[tuple[int | None, str]]()
    numbered = {}
    for phase, name in names.items():
        key = phase.process_id, name
        numbers[key] += 1
        numbered[phase] = f"{name} ({numbers[key]})" if alike[key] > 1 else name
    return numbered


def _of_phase(profile: Profile, device: DeviceTimeline, name: str, phase: Phase) -> Scope | None:
    """The samples that lie in the part that is looked at; None where there are none."""
    start, end = phase.start_ns, phase.end_ns
    if profile.selection.windows is not None:
        is_in = covered_within(device.span, start, end) == end - start
        start, end = start[is_in], end[is_in]
    if not len(start):
        return None
    steps = len(start) + phase.warm_up_steps + phase.cut_steps
    is_inferred = phase.source == DETECTED
    return Scope(
        *(profile, device, name, start, end, steps, is_inferred, phase.devices), phase.between
    )
