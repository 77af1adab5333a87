"""The steps of each device over which costs are measured, its phases' or its span, and costs."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.analyses.transfers import transfers
from gpuprof.base.kernel_names import short_names
from gpuprof.base.statistics import median
from gpuprof.base.units import say_share
from gpuprof.facts.activity_sums import activity_sums
from gpuprof.facts.collective_parts import part_times
from gpuprof.facts.copies import transfer_times
from gpuprof.facts.launch_paths import paths_of_modules, paths_of_ranges
from gpuprof.facts.launches import first_calls, hold_kernels, launches
from gpuprof.facts.needless_copies import avoidable
from gpuprof.facts.nvtx import ranges_of
from gpuprof.facts.pause_causes import WORTH_READING, calls_in_pauses, pieces_of
from gpuprof.facts.phases import PHASE_READS, Phase, phases
from gpuprof.facts.step_times import uneven_ns, usual_of
from gpuprof.facts.step_windows import DETECTED, masked
from gpuprof.facts.timeline import (
    COMPUTE,
    TIMELINE_READS,
    DeviceTimeline,
    far_ends,
    timelines,
    without_kernels,
)
from gpuprof.model.analysis import per_file, reads
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, covered_within, union
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import Count, Id, Instant, Ns, Schema, Text

SCOPE_READS: Final = reads(PHASE_READS, TIMELINE_READS)
# Phases that hold less of what a device does leave too much of it out.
_ENOUGH: Final = 0.5
_MEASURED: Final = Schema(
    "measured_steps",
    "one step that is a sample, or a span without steps, on one device",
    {
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "phase": Text("Marks of the steps; null where the recording has no steps."),
        "start_ns": Instant("Start of the step on the devices.", required=True),
        "end_ns": Instant("Its end.", required=True),
        "all_steps": Count("Steps of its phase, with those that are no samples."),
        "step_ns": Ns("What a step of its phase takes."),
        "compute_ns": Ns("Time of a step of its phase with a compute kernel."),
    },
)


@dataclass(frozen=True, eq=False)
class Scope:
    """What one device did in the steps of one phase, or in a recording that has no steps.

    Args:
        profile: The recording, or the part of it that is looked at.
        device: The device's timeline.
        phase: What people call the phase, each another name; empty where no steps are known.
        start_ns: Start of each step that is a sample; of the device's span where there are none.
        end_ns: End of each.
        steps: How many steps the phase has, those that are no samples included; 1 for none.
        is_inferred: Whether no range marks the steps.
        devices: The devices of the phase, as operations name them; empty where no steps are known.
        between: When the host is between the marks of the steps, as in `Phase`.
    """

    profile: Profile
    device: DeviceTimeline
    phase: str
    start_ns: Int64s
    end_ns: Int64s
    steps: int
    is_inferred: bool = False
    devices: tuple[int, ...] = ()
    between: Intervals = NOTHING

    @property
    def has_steps(self) -> bool:
        """Whether costs are of one step; else they are of the device's span."""
        return bool(self.phase)

    @cached_property
    def median_ns(self) -> int:
        """Median length of a step."""
        return int(median(self.end_ns - self.start_ns))

    @cached_property
    def step_ns(self) -> int:
        """What a step takes, and costs are shares of.

        The median, or where single steps often take longer, as what they wait for then counts
        for all of them, the mean without the longest twentieth.
        """
        return uneven_ns(self.end_ns - self.start_ns) or self.median_ns

    @cached_property
    def compute_ns(self) -> int:
        """Time of a step in which the device computes."""
        return self.per_step(self.device.exposed[COMPUTE])

    def is_mark(self, text: str) -> bool:
        """Whether a range's text only marks the steps, so that it is no place within them."""
        return masked(text).replace("*", "#") == self.phase.partition(" (")[0]

    def step_of(self, instants: Int64s) -> Int64s:
        """The place of the step in which each instant lies; -1 where in none."""
        step = np.searchsorted(self.start_ns, instants, side="right") - 1
        return np.where(instants < self.end_ns[step], step, -1)

    def per_step(self, instants: Intervals) -> int:
        """How many ns of a set of instants a step pays."""
        if not len(instants):
            return 0
        return usual_of(covered_within(instants, self.start_ns, self.end_ns))


class Finding(NamedTuple):
    """One thing that costs a device time.

    Args:
        cause: Its stable name, documented in `gpuprof/docs`.
        scope: Where it was measured.
        phrase: What the device does, to follow its name: ``waits for copies from the host``.
        cost_ns: What it costs a step.
        win_ns: What mending it can win of a step at most, by ``means``.
        means: How, in a phrase: ``fewer bytes``.
        suggestion: What to do, in the framework's own words where the operation is known.
        table: The table that tells more.
        where: Operation, range, call, route or rank; empty where none is known.
        names: What the change that mends it (see `CAUSES`) names: kernels, kinds of copies, a link;
            empty where it names nothing, None where no change mends it.
        is_sure: Whether the recording tells that this is what costs the time.
        change: That change, as `gpuprof predict --what` takes it; empty where none can be replayed.
        won_ns: What it wins of a step in a replay, at most ``win_ns``; None for no prediction.
        different: What is different then, in a phrase; empty where nothing was replayed.
        assumptions: What the replay assumes; why there is none, where there is none.
        instants: When it costs that, until `with_families` has added up the costs of its family.
        seen_ns: From when to when it can be seen: the longest of these times, of a typical step
            where there are steps; None where that is not known, or it costs too little to be said.
        of_family_ns: What its family costs a step in this scope, can win of it at most, and wins
            in a replay, None where there is none.
        details: Makes the fields that take long to find, of which only costs that are shown need
            all; None where they are there.
    """

    cause: str
    scope: Scope
    phrase: str
    cost_ns: int
    win_ns: int
    means: str
    suggestion: str
    table: str
    where: str = ""
    names: tuple[str, ...] | None = None
    is_sure: bool = True
    change: str = ""
    won_ns: int | None = None
    different: str = ""
    assumptions: str = ""
    instants: Intervals = NOTHING
    seen_ns: tuple[int, int] | None = None
    of_family_ns: tuple[int, int, int | None] = (0, 0, None)
    details: Callable[[], Mapping[str, Any]] | None = None

    def with_details(self) -> "Finding":
        """The same with all its fields."""
        return self if self.details is None else self._replace(**self.details(), details=None)

    def share(self, ns: int) -> float:
        """A time as a share of the step; 0 of steps without length."""
        return ns / self.scope.step_ns if self.scope.step_ns else 0.0


def span_of(profile: Profile, device: DeviceTimeline) -> Scope:
    """All that a device did, as one step."""
    start, end = int(device.span.start[0]), int(device.span.end[-1])
    return Scope(profile, device, "", np.array([start]), np.array([end]), 1)


def working_devices(profile: Profile) -> list[DeviceTimeline]:
    """Devices whose own work was recorded; those that run kernels, if any of them does."""
    not_recorded, idle = far_ends(profile), without_kernels(profile)
    devices = [d for d in timelines(profile) if d.device_id not in not_recorded and d.span.length]
    return [device for device in devices if device.device_id not in idle] or devices


def launched_in(scope: Scope, place: Int64s, cost_ns: Int64s) -> tuple[str, str]:
    """The part of the program that launched most of what a device waits for, and how much of it.

    Args:
        scope: Where it waits.
        place: Places among the paths of copies and communication kernels, see `LaunchPaths`.
        cost_ns: What each of these costs.

    Returns:
        Its name, without marks of the steps, and words such as ``, 70.0 % of it from encoder``;
        both empty where none launched most of it.
    """
    paths_of = paths_of_ranges
    if cost_ns.sum() >= WORTH_READING * scope.step_ns * len(scope.start_ns):
        paths_of = paths_of_modules
    paths = paths_of(scope.profile)
    parts, share = paths.most_of(paths.path[place], cost_ns)
    name = "/".join(part for part in parts if not scope.is_mark(part))
    return name, f", {say_share(share)} of it from {name}" if name else ""


@once_per_profile
def scopes(profile: Profile) -> tuple[Scope, ...]:
    """The devices with the steps of each of their phases; a device without steps as a whole."""
    recorded = profile.unrestricted
    if recorded.is_large and recorded.has("kernels", "memcpys", "api_calls"):
        with suppress(Exception):  # what fails is left to who asks for it
            _compute_all(profile)
    all_scopes: list[Scope] = []
    for device in working_devices(profile):
        of_device = [phase for phase in phases(profile) if device.number in phase.devices]
        spans = union(*(np.array([phase.span[end] for phase in of_device]) for end in (0, 1)))
        kernels_ns = int(device.kernel_ns(spans.start, spans.end).sum())
        in_part = [s for p in of_device if (s := _of_phase(profile, device, _names(profile)[p], p))]
        all_scopes += in_part
        if not in_part or kernels_ns < _ENOUGH * device.kernels_ns:
            all_scopes.append(span_of(profile, device))
    return tuple(all_scopes)


def _compute_all(profile: Profile) -> None:
    """Compute what all findings ask for, on two threads, each with about half of the work.

    Of others it is computed for who asks: mostly no pause is looked into.
    """
    recorded = profile.unrestricted
    ranges = (ranges_of,) if recorded.has("nvtx_ranges") else ()
    ahead = (timelines, part_times, transfer_times, avoidable, *ranges, transfers)
    if profile is recorded:
        hold_kernels(recorded)
    recorded.compute_ahead(ahead, is_first=True)
    launches(profile)  # of a part, before those of the whole let go of what tells them
    launches(recorded)
    # These are the last to ask for the ids of millions of calls.
    first_calls(recorded)
    recorded.once(transfers)
    recorded.let_go("api_calls", "correlation_id")
    recorded.give_back()
    # What asks for more of them than when they began.
    recorded.once(activity_sums)
    calls_in_pauses(recorded)
    recorded.let_go("api_calls", "end_ns", "process_id", "thread_id")
    recorded.give_back()
    pieces_of(recorded)
    recorded.forget(calls_in_pauses)
    recorded.once(part_times)  # the last to ask for the processes of kernels
    recorded.let_go("kernels", "process_id")
    recorded.give_back()


@once_per_profile
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


@per_file(_MEASURED, needs=("kernels", "memcpys"))
def measured_steps(profile: Profile) -> pa.Table:
    """The steps of each device that are samples."""
    return _MEASURED.table(
        [
            {
                "device_id": scope.device.device_id,
                "phase": scope.phase or None,
                "start_ns": start,
                "end_ns": end,
                "all_steps": scope.steps,
                "step_ns": scope.step_ns,
                "compute_ns": scope.compute_ns,
            }
            for scope in scopes(profile)
            for start, end in zip(scope.start_ns.tolist(), scope.end_ns.tolist(), strict=True)
        ]
    )


class Measured(NamedTuple):
    """What of a scope the files of a job tell each other: see `Scope`, whose names these are."""

    device_id: int | None
    phase: str
    start_ns: Int64s
    end_ns: Int64s
    steps: int
    step_ns: int
    compute_ns: int

    @property
    def has_steps(self) -> bool:
        """As of `Scope`."""
        return bool(self.phase)


@once_per_profile
def measured(profile: Profile) -> tuple[Measured, ...]:
    """The scopes of all files of a job."""
    of_scopes: dict[tuple[int | None, str], list[dict[str, int]]] = {}
    for row in profile.once(measured_steps).to_pylist():
        of_scopes.setdefault((row["device_id"], row["phase"] or ""), []).append(row)
    return tuple(
        Measured(
            *place,
            *np.array(sorted((row["start_ns"], row["end_ns"]) for row in rows), np.int64).T,
            *(max(row[name] for row in rows) for name in ("all_steps", "step_ns", "compute_ns")),
        )
        for place, rows in of_scopes.items()
    )
