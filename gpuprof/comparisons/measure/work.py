"""What of a recording is compared: its steps where they are known, else all of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple, TypeVar

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.phases import (
    PHASE_READS,
    SAMPLE,
    WARM_UP,
    PhaseSteps,
    steps_by_phase,
)
from gpuprof.analyses.facts.step_windows import (
    DETECTED,
    FROM_RANGES,
    StepWindows,
    windows_of_range,
)
from gpuprof.analyses.totals.activity_summary import SUM_READS
from gpuprof.comparisons.measure.matching import SHAPE
from gpuprof.errors import UsageError
from gpuprof.intervals import Int64s, union
from gpuprof.kernel_names import short_name
from gpuprof.profile import Profile
from gpuprof.selection import Selection
from gpuprof.units import counted as counted_noun

FROM_EPOCHS: Final = "epochs"
FROM_CALLS: Final = "calls"
STEP: Final = "step"
RECORDING: Final = "recording"
# What is asked of every recording, so that each table of a file is read in one pass.
_READS: Final = reads(PHASE_READS, SUM_READS, kernels=" ".join(SHAPE))

_OfRun = TypeVar("_OfRun")


@dataclass(frozen=True)
class Work:
    """The compared part of a recording.

    Args:
        profile: The part itself.
        steps: Steps in it; None where it is compared as a whole.
        series: Its steps on the devices; empty where only their number is known.
        source: How the steps are known: ranges, detected, epochs, or calls (of a kernel, each
            of which stands for a step); None for no steps.
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
        """Of what its figures are, in a sentence."""
        if self.source == FROM_CALLS:
            return f"from one call of {short_name(self.text or '')} to the next"
        return "per step"

    @property
    def devices(self) -> int:
        """How many devices work in its steps."""
        return len({device for one in self.series for device in one.devices})

    @property
    def start_ns(self) -> int:
        """When its first step starts; 0 where that is not known."""
        return min((int(one.start_ns[0]) for one in self.series), default=0)

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


Works = Mapping[str, tuple[Work, ...]]


class Matched(NamedTuple):
    """What of the runs of each variant is compared, and what is not.

    Args:
        phases: The works of each phase that all runs have; of the recordings where they have none.
        uncompared: The phases of each run that another one lacks, where phases are compared.
    """

    phases: list[Works]
    uncompared: Mapping[str, tuple[tuple[Work, ...], ...]]


def works(
    variants: Mapping[str, Sequence[Profile]],
    range_text: str | None = None,
    skip_steps: int | None = None,
) -> Matched:
    """The steps of every run phase by phase where all of them know theirs, else every run whole.

    Args:
        variants: The runs of each variant.
        range_text: Text of the NVTX ranges that are the steps; * stands for anything.
        skip_steps: Steps to leave out at the start of each phase; None for the warm-up found.

    Raises:
        UsageError: Steps are asked for, and a recording knows none or too few.
        MissingTableError: Ranges are asked for, and a recording has none.
    """
    for profile in chain.from_iterable(variants.values()):
        profile.expect(_READS)
    labels = [label for label, runs in variants.items() for _ in runs]
    phases = [
        _phases(label, profile, range_text, skip_steps)
        for label, runs in variants.items()
        for profile in runs
    ]
    matched = _matched(phases) if all(phases) else []
    compared = {id(work) for of_runs in matched for work in of_runs}
    uncompared = [
        tuple(work for work in of_run if matched and id(work) not in compared) for of_run in phases
    ]
    if not matched and skip_steps:
        raise _cannot_skip(
            [label for label, of_run in zip(labels, phases, strict=True) if not of_run]
        )
    if not matched:
        # What marks a step is kept, for the note that says why steps are not compared.
        profiles = chain.from_iterable(variants.values())
        matched = [
            [
                Work(profile, source=of_run[0].source if of_run else None)
                for profile, of_run in zip(profiles, phases, strict=True)
            ]
        ]
    return Matched(
        [_by_label(labels, [restricted(work) for work in of_runs]) for of_runs in matched],
        _by_label(labels, uncompared),
    )


def _by_label(labels: Sequence[str], of_runs: Sequence[_OfRun]) -> dict[str, tuple[_OfRun, ...]]:
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
    recording = profile.whole
    if not recording.has("epochs"):
        return None
    steps = recording.table("epochs").column("steps").to_pylist()
    return sum(steps) or None if steps and None not in steps else None


def unit_of(compared: Works) -> str:
    """What figures are of: `STEP` where every run is compared by steps, else `RECORDING`."""
    runs = [work for works in compared.values() for work in works]
    return STEP if all(work.steps is not None for work in runs) else RECORDING


def _phases(
    label: str, profile: Profile, range_text: str | None, skip_steps: int | None
) -> list[Work]:
    """A recording's phases with their steps, the longest first: ranges, else by number, else found.

    Raises:
        UsageError: No step is left of any.
    """
    if range_text is not None:
        found = [Work(profile, None, windows_of_range(profile, range_text), FROM_RANGES)]
    else:
        found = _by_phase(profile, has_warm_up=skip_steps is not None)
        counted = _counted(profile)
        if counted is not None and (not found or found[0].source == DETECTED):
            found = [Work(profile, counted, (), FROM_EPOCHS)]
    if not skip_steps or not found:
        return found
    if not found[0].series:
        msg = f"steps cannot be skipped: {label} tells their number, not when they ran"
        raise UsageError(msg, "Record with nsys and mark steps by gpuprof.step().")
    left = [work for one in found if (work := _without_first(one, skip_steps)).series]
    if not left:
        most = max(len(series.start_ns) for work in found for series in work.series)
        msg = f"{label} has {counted_noun(most, 'whole step', 'whole steps')}, and none is left"
        raise UsageError(msg, f"Skip fewer than --skip-steps {skip_steps}.")
    return left


def _by_phase(profile: Profile, *, has_warm_up: bool) -> list[Work]:
    """The phases of all processes; those of one name are one in each process."""
    if not profile.has("kernels", "memcpys"):
        return []
    statuses = (SAMPLE, WARM_UP) if has_warm_up else (SAMPLE,)
    together: dict[tuple[str, int], list[PhaseSteps]] = {}
    count: Counter[tuple[str, int | None]] = Counter()
    for steps in steps_by_phase(profile):
        if not np.isin(steps.status, statuses).any():
            continue
        name, process = steps.phase.name, steps.phase.process_id
        together.setdefault((name, count[name, process]), []).append(steps)
        count[name, process] += 1
    return [_work(profile, name, steps, statuses) for (name, _), steps in together.items()]


def _work(
    profile: Profile, name: str, processes: Sequence[PhaseSteps], statuses: Sequence[int]
) -> Work:
    phases = [one.phase for one in processes]
    series = []
    for steps, phase in zip(processes, phases, strict=True):
        rows = np.flatnonzero(np.isin(steps.status, statuses))
        times = steps.start_ns[rows], steps.end_ns[rows]
        series.append(StepWindows(phase.process_id, phase.devices, name, phase.source, *times))
    has_warm_up = WARM_UP in statuses
    return Work(
        profile,
        None,
        tuple(series),
        phases[0].source,
        name,
        0 if has_warm_up else max(phase.warm_up_ns for phase in phases),
        0 if has_warm_up else max(phase.warm_up_steps for phase in phases),
        max(phase.cut_steps for phase in phases),
    )


def _counted(profile: Profile) -> int | None:
    """Steps that the script marked, of a recording that tells GPU time of all of them."""
    tells_time = profile.has("activity_summary") | profile.has("kernels")
    return marked_steps(profile) if tells_time and not is_sampled(profile) else None


def _matched(runs: Sequence[Sequence[Work]]) -> list[list[Work]]:
    """The phases that all runs have, each as a work of every run; the longest first.

    Those of one name are matched by their numbers of devices, else in the order of time. Where
    runs have different numbers of them, one of each number of devices is compared that all have:
    the longest of the run with the fewest, and of the others the one that takes most nearly as
    long per step. Where no name is in all runs, the
    longest phases are compared if ranges or numbers tell their steps: inferred ones may be parts
    of steps in one run and whole ones in another.
    """
    names = [
        name
        for name in dict.fromkeys(w.phase for w in runs[0])
        if all(any(w.phase == name for w in of_run) for of_run in runs)
    ]
    if not names:
        first = [of_run[0] for of_run in runs]
        return [] if any(work.source == DETECTED for work in first) else [first]
    return [
        pair
        for name in names
        for pair in _alike([[w for w in of_run if w.phase == name] for of_run in runs])
    ]


def _alike(runs: Sequence[list[Work]]) -> list[list[Work]]:
    """The phases of one name in each run, matched."""
    if len({len(of_run) for of_run in runs}) > 1:
        common = set.intersection(*({work.devices for work in of_run} for of_run in runs))
        placed = [[[w for w in of_run if w.devices == n] for of_run in runs] for n in common]
        return _longest_first([_nearest(of_runs) for of_runs in placed] or [_nearest(runs)])
    devices = [sorted(work.devices for work in of_run) for of_run in runs]
    is_placed = all(of_run == devices[0] for of_run in devices)
    ordered = [
        sorted(of_run, key=lambda work: (work.devices if is_placed else 0, work.start_ns))
        for of_run in runs
    ]
    return _longest_first([list(of_phase) for of_phase in zip(*ordered, strict=True)])


def _nearest(runs: Sequence[Sequence[Work]]) -> list[Work]:
    """A phase of each run: the longest of the run with the fewest, and those most like it."""
    fewest, *_ = sorted(runs, key=len)
    longest = max(fewest, key=lambda work: work.total_ns)
    return [min(of_run, key=lambda work: _apart(work.step_ns, longest.step_ns)) for of_run in runs]


def _apart(first: float, second: float) -> float:
    """By what factor two times differ; of steps without length by none."""
    return max(first, second) / (min(first, second) or 1)


def _longest_first(pairs: list[list[Work]]) -> list[list[Work]]:
    return sorted(pairs, key=lambda of_phase: -of_phase[0].total_ns)


def _cannot_skip(without: Sequence[str]) -> UsageError:
    labels = list(dict.fromkeys(without))
    tell = "tell" if len(labels) > 1 else "tells"
    reason = f"{', '.join(labels)} {tell} no steps" if labels else "they are not the same in all"
    hint = "Mark them with gpuprof.step() or NVTX ranges, or name some by --range."
    return UsageError(f"steps cannot be skipped: {reason}", hint)


def _without_first(work: Work, skip_steps: int) -> Work:
    """A phase without its first steps; without series where none is left."""
    series = tuple(
        replace(s, start_ns=s.start_ns[skip_steps:], end_ns=s.end_ns[skip_steps:])
        for s in work.series
        if len(s.start_ns) > skip_steps
    )
    return replace(work, series=series)


def restricted(work: Work) -> Work:
    """The same, its profile without what lies outside of its steps."""
    if not work.series:
        return work
    starts, ends = ([getattr(s, end) for s in work.series] for end in ("start_ns", "end_ns"))
    covered = union(np.concatenate(starts), np.concatenate(ends))
    windows = tuple(zip(covered.start.tolist(), covered.end.tolist(), strict=True))
    steps = max(map(len, starts))
    return replace(work, profile=work.profile.restricted(Selection(windows)), steps=steps)
