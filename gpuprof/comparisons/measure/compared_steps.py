"""What of a recording is compared: its steps where they are known, else all of it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.kernel_names import short_name
from gpuprof.base.units import counted, say_ns
from gpuprof.comparisons.measure.matching import SHAPE
from gpuprof.facts.activity_sums import SUM_READS
from gpuprof.facts.phases import PHASE_READS, PhaseSteps, steps_by_phase
from gpuprof.facts.step_times import SAMPLE, WARM_UP
from gpuprof.facts.step_windows import DETECTED, FROM_RANGES, StepWindows, windows_of_range
from gpuprof.facts.timeline import TIMELINE_READS
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s, union
from gpuprof.model.profile import Profile
from gpuprof.model.table import Selection

FROM_EPOCHS: Final = "epochs"
FROM_CALLS: Final = "calls"
STEP: Final = "step"
RECORDING: Final = "recording"
# What is read of a recording whose steps are known.
MEASURED_READS: Final = reads(SUM_READS, TIMELINE_READS, kernels=" ".join(SHAPE))
# The columns that a comparison reads, so that each table of a file is read in one pass.
COMPARED_READS: Final = reads(PHASE_READS, MEASURED_READS, api_calls="name_id")

# What follows the name of a phase, see `phase_names`.
_APART: Final = re.compile(r" \((?:[\d,]+ devices?(?:, from [^()]+ on)?|from [^()]+ on)\)$")

_PhasesOfRun = TypeVar("_PhasesOfRun")


@dataclass(frozen=True)
class ComparedSteps:
    """The compared part of a recording.

    Args:
        profile: The part itself.
        steps: Steps in it; None where it is compared as a whole.
        series: Its steps on the devices; empty where only their number is known.
        source: How the steps are known: ranges, detected, epochs, or calls (each call of a
            kernel starts a step); None for no steps.
        phase: The name of the phase whose steps they are; None where they are of none.
        warm_up_ns: Time of the warm-up that is set aside.
        warm_up_steps: How many steps that is.
        cut_steps: Steps that the recording's ends cut off, which are set aside as well.
    """

    profile: Profile
    steps: int | None = None
    series: tuple[StepWindows, ...] = ()
    source: str | None = None
    phase: str | None = None
    warm_up_ns: int = 0
    warm_up_steps: int = 0
    cut_steps: int = 0

    @property
    def text(self) -> str | None:
        """What marks a step, as the ranges' text; None where nothing does."""
        return self.series[0].text if self.series else None

    @property
    def of_step(self) -> str:
        """``per step``, or from one call of a kernel to the next."""
        if self.source == FROM_CALLS:
            return f"from one call of {short_name(self.text or '')} to the next"
        return "per step"

    @property
    def devices(self) -> int:
        """How many devices work in its steps."""
        return len({device for windows in self.series for device in windows.devices})

    @property
    def first_ns(self) -> int:
        """When its first step starts; 0 where that is not known."""
        return min((int(windows.start_ns[0]) for windows in self.series), default=0)

    @property
    def lengths_ns(self) -> Int64s:
        """The time of each of its steps, of all processes; empty where not known."""
        return np.concatenate(
            [np.empty(0, np.int64), *(s.end_ns - s.start_ns for s in self.series)]
        )

    @property
    def total_ns(self) -> int:
        """Time of its steps, of all processes."""
        return int(self.lengths_ns.sum())

    @property
    def step_ns(self) -> float:
        """The median time of its steps; 0 where not known."""
        return float(np.median(self.lengths_ns)) if len(self.lengths_ns) else 0


StepsByLabel = Mapping[str, tuple[ComparedSteps, ...]]


def compared_steps(
    variants: Mapping[str, Sequence[Profile]],
    range_text: str | None = None,
    skip_steps: int | None = None,
) -> tuple[list[StepsByLabel], Mapping[str, tuple[tuple[ComparedSteps, ...], ...]]]:
    """The steps of every run phase by phase where all of them know theirs, else every run whole.

    Args:
        variants: The runs of each variant.
        range_text: Text of the NVTX ranges that are the steps; * stands for anything.
        skip_steps: Steps to leave out at the start of each phase; None for the warm-up found.

    Returns:
        Each phase that all runs have, with its steps in every run; whole recordings where runs
        have no phase in common. And the phases of each run that another one lacks, where phases
        are compared.

    Raises:
        UsageError: Steps are asked for, and a recording knows none or too few.
        MissingTableError: Ranges are asked for, and a recording has none.
    """
    labels = [label for label, runs in variants.items() for _ in runs]
    profiles = [*chain.from_iterable(variants.values())]
    for profile in profiles:
        profile.expect(COMPARED_READS)
    # A step with the time between marks is compared with none without it.
    is_by_period = range_text is None and any(map(_is_by_period, profiles))
    phases = [
        _phases(label, profile, range_text, skip_steps, is_by_period=is_by_period)
        for label, profile in zip(labels, profiles, strict=True)
    ]
    matched = _matched(phases) if all(phases) else []
    compared = {id(phase) for of_runs in matched for phase in of_runs}
    uncompared = [
        tuple(phase for phase in of_run if matched and id(phase) not in compared)
        for of_run in phases
    ]
    if not matched and skip_steps:
        without = [label for label, of_run in zip(labels, phases, strict=True) if not of_run]
        has = "have" if len({*without}) > 1 else "has"
        reason = "the recordings mark different steps"
        if without:
            reason = f"{', '.join(dict.fromkeys(without))} {has} no known steps"
        msg = f"steps cannot be skipped: {reason}"
        hint = "Mark steps with gpuprof.step() or NVTX ranges, or select ranges with --range."
        raise UsageError(msg, hint)
    if not matched:
        # What marks a step is kept, for the note that says why steps are not compared.
        sources = [of_run[0].source if of_run else None for of_run in phases]
        matched = [[ComparedSteps(p, source=s) for p, s in zip(profiles, sources, strict=True)]]
    return (
        [_by_label(labels, [restricted(phase) for phase in of_runs]) for of_runs in matched],
        _by_label(labels, uncompared),
    )


def own_steps(
    label: str, profile: Profile, range_text: str | None, skip_steps: int | None
) -> list[ComparedSteps]:
    """The same of a single recording: what is compared of it if the others have these phases."""
    is_by_period = range_text is None and _is_by_period(profile)
    phases = _phases(label, profile, range_text, skip_steps, is_by_period=is_by_period)
    return [*map(restricted, phases)]


def _is_by_period(profile: Profile) -> bool:
    """Whether the time between the marks of steps is a part of them."""
    return profile.has("kernels", "memcpys") and any(
        len(steps.phase.between) for steps in steps_by_phase(profile)
    )


def _by_label(
    labels: Sequence[str], of_runs: Sequence[_PhasesOfRun]
) -> dict[str, tuple[_PhasesOfRun, ...]]:
    """What each run has, by the label of its variant."""
    named = list(zip(labels, of_runs, strict=True))
    return {label: tuple(of_run for of, of_run in named if of == label) for label in labels}


def is_sampled(profile: Profile) -> bool:
    """Whether steps and copies are counted in the executions seen: TensorFlow's recorder samples.

    Such counts differ between runs of the same length; what they are per step does not.
    """
    return profile.has("tensor_copies")


def marked_steps(profile: Profile) -> int | None:
    """Steps that the script marked in all of its epochs; None where it did not."""
    recording = profile.unrestricted
    if not recording.has("epochs"):
        return None
    steps = recording.table("epochs").column("steps").to_pylist()
    return sum(steps) or None if steps and None not in steps else None


def _phases(
    label: str,
    profile: Profile,
    range_text: str | None,
    skip_steps: int | None,
    *,
    is_by_period: bool,
) -> list[ComparedSteps]:
    """A recording's phases with their steps, the longest first: ranges, else by number, else found.

    Raises:
        UsageError: No step is left of any.
    """
    if range_text is not None:
        phases = [ComparedSteps(profile, None, windows_of_range(profile, range_text), FROM_RANGES)]
    else:
        statuses = (SAMPLE,) if skip_steps is None else (SAMPLE, WARM_UP)
        phases = _by_phase(profile, statuses, is_by_period=is_by_period)
        # The script has counted the steps of a recording that has the GPU time of all of them.
        has_time = profile.has("activity_summary") or profile.has("kernels")
        steps = marked_steps(profile) if has_time and not is_sampled(profile) else None
        if steps is not None and (not phases or phases[0].source == DETECTED):
            phases = [ComparedSteps(profile, steps, (), FROM_EPOCHS)]
    if not skip_steps or not phases:
        return phases
    if not phases[0].series:
        msg = f"steps cannot be skipped: {label} has their number but not their times"
        raise UsageError(msg, "Record with nsys and mark steps with gpuprof.step().")
    remaining = []
    for phase in phases:
        series = tuple(
            replace(s, start_ns=s.start_ns[skip_steps:], end_ns=s.end_ns[skip_steps:])
            for s in phase.series
            if len(s.start_ns) > skip_steps
        )
        remaining += [replace(phase, series=series)] if series else []
    if not remaining:
        most = max(len(series.start_ns) for phase in phases for series in phase.series)
        count = counted(most, "whole step", "whole steps")
        msg = f"{label} has {count}, and --skip-steps {skip_steps} leaves none"
        raise UsageError(msg, "Use a smaller --skip-steps.")
    return remaining


def _by_phase(
    profile: Profile, statuses: Sequence[int], *, is_by_period: bool
) -> list[ComparedSteps]:
    """The phases of all processes; those of one name are one in each process."""
    if not profile.has("kernels", "memcpys"):
        return []
    together: dict[tuple[str, int], list[PhaseSteps]] = {}
    count: Counter[tuple[str, int | None]] = Counter()
    for recorded in steps_by_phase(profile):
        if not np.isin(recorded.status, statuses).any():
            continue
        steps = recorded.by_period() if is_by_period else recorded
        name, process = steps.phase.name, steps.phase.process_id
        together.setdefault((name, count[name, process]), []).append(steps)
        count[name, process] += 1
    compared = []
    for (name, _), processes in together.items():
        series = []
        for steps in processes:
            rows, phase = np.flatnonzero(np.isin(steps.status, statuses)), steps.phase
            times = steps.start_ns[rows], steps.end_ns[rows]
            marked = phase.process_id, phase.devices, name, phase.source
            series.append(StepWindows(*marked, *times, phase.between))
        phases = [steps.phase for steps in processes]
        warm_up_ns, warm_up_steps = 0, 0
        if WARM_UP not in statuses:
            warm_up_ns = max(phase.warm_up_ns for phase in phases)
            warm_up_steps = max(phase.warm_up_steps for phase in phases)
        cut_steps, source = max(phase.cut_steps for phase in phases), phases[0].source
        set_aside = warm_up_ns, warm_up_steps, cut_steps
        compared.append(ComparedSteps(profile, None, tuple(series), source, name, *set_aside))
    return compared


def _matched(runs: Sequence[Sequence[ComparedSteps]]) -> list[list[ComparedSteps]]:
    """The phases that all runs have, each with its steps in every run; the longest first.

    Those of one name are matched by their numbers of devices, else in the order of time. Where
    runs have different numbers of them, one of each number of devices is compared that all have:
    the longest of the run with the fewest, and of the others the one that takes most nearly as
    long per step. Where no name is in all runs, the longest phases are compared if ranges or
    numbers tell their steps: inferred ones may be parts of steps in one run and whole ones in
    another.
    """
    names = [
        name
        for name in dict.fromkeys(w.phase for w in runs[0])
        if all(any(w.phase == name for w in of_run) for of_run in runs)
    ]
    if not names:
        first = [of_run[0] for of_run in runs]
        return [] if any(phase.source == DETECTED for phase in first) else [first]
    pairs = []
    for name in names:
        named = [[w for w in of_run if w.phase == name] for of_run in runs]
        devices = [sorted(phase.devices for phase in of_run) for of_run in named]
        if len({*map(len, named)}) > 1:
            common = set.intersection(*map(set, devices))
            placed = [[[w for w in of_run if w.devices == n] for of_run in named] for n in common]
            alike = [_nearest(of_runs) for of_runs in placed or [named]]
        else:
            if any(of_run != devices[0] for of_run in devices):
                ordered = [sorted(of_run, key=lambda phase: phase.first_ns) for of_run in named]
            else:
                ordered = [sorted(of, key=lambda w: (w.devices, w.first_ns)) for of in named]
            alike = [list(of_phase) for of_phase in zip(*ordered, strict=True)]
        pairs += sorted(alike, key=lambda of_phase: -of_phase[0].total_ns)
    return pairs


def _nearest(runs: Sequence[Sequence[ComparedSteps]]) -> list[ComparedSteps]:
    """A phase of each run: the longest of the run with the fewest, and those most like it."""
    fewest, *_ = sorted(runs, key=len)
    longest_ns = max(fewest, key=lambda phase: phase.total_ns).step_ns

    def factor(phase: ComparedSteps) -> float:
        """How many times as long the longer of the two is; steps without length are alike."""
        return max(phase.step_ns, longest_ns) / (min(phase.step_ns, longest_ns) or 1)

    return [min(of_run, key=factor) for of_run in runs]


def restricted(phase: ComparedSteps) -> ComparedSteps:
    """The same, its profile without what lies outside of its steps."""
    if not phase.series:
        return phase
    starts, ends = ([getattr(s, end) for s in phase.series] for end in ("start_ns", "end_ns"))
    covered = union(np.concatenate(starts), np.concatenate(ends))
    windows = tuple(zip(covered.start.tolist(), covered.end.tolist(), strict=True))
    steps = max(map(len, starts))
    profile = phase.profile.unrestricted.restricted(Selection(windows))
    return replace(phase, profile=profile, steps=steps)


def phase_names(phases: Sequence[StepsByLabel]) -> list[str]:
    """The name of each phase, with what tells it from the others of one recording."""
    first_runs = [next(iter(of_phase.values()))[0] for of_phase in phases]
    count = Counter((phase.phase, phase.devices) for phase in first_runs)
    names = []
    for phase, of_phase in zip(first_runs, phases, strict=True):
        devices = {run.devices for runs in of_phase.values() for run in runs}
        apart = [counted(phase.devices, "device", "devices")] if len(devices) == 1 else []
        if count[phase.phase, phase.devices] > 1:
            apart.append(f"from {say_ns(phase.first_ns)} on")
        suffix = f" ({', '.join(apart)})" if apart else ""
        names.append(f"{short_name(phase.phase or '')}{suffix}")
    return names


def in_quotes(phase: str) -> str:
    """``"Jacobi solve" (2 devices)``: a phase in a sentence, its own name in quotes."""
    apart = _APART.search(phase)
    end = len(phase) if apart is None else apart.start()
    return f'"{phase[:end]}"{phase[end:]}'


def uncompared_rows(
    phases: Sequence[StepsByLabel], uncompared: Mapping[str, Sequence[Sequence[ComparedSteps]]]
) -> list[dict[str, Any]]:
    """The phases of each variant that are not compared, as rows of `UNCOMPARED`, the longest first.

    Returns:
        Of several runs of a variant, a phase of one name as the first one has it.
    """
    rows: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
    for label, of_runs in uncompared.items():
        for run, run_phases in enumerate(of_runs):
            compared = [of_phase[label][run] for of_phase in phases]
            names = phase_names([{label: (phase,)} for phase in (*run_phases, *compared)])
            for name, phase in zip(names, run_phases, strict=False):
                row = {
                    "variant": label,
                    "phase": name,
                    "devices": phase.devices,
                    "steps": len(phase.lengths_ns),
                    "step_ns": phase.step_ns,
                }
                rows.setdefault((label, name), (phase.total_ns, row))
    order = list(uncompared)
    ordered = sorted(rows.values(), key=lambda row: (order.index(row[1]["variant"]), -row[0]))
    return [row for _, row in ordered]
