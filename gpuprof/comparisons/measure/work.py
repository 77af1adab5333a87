"""What of a recording is compared: its steps where they are known, else all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.step_windows import (
    DETECTED,
    FROM_RANGES,
    STEP_READS,
    StepWindows,
    step_windows,
)
from gpuprof.analyses.facts.step_windows import windows_of_range as steps_of_range
from gpuprof.analyses.facts.timeline import TIMELINE_READS
from gpuprof.analyses.totals.activity_summary import SUM_READS
from gpuprof.comparisons.measure.matching import SHAPE
from gpuprof.errors import UsageError
from gpuprof.intervals import union
from gpuprof.profile import Profile
from gpuprof.selection import Selection
from gpuprof.units import counted

FROM_EPOCHS: Final = "epochs"
STEP: Final = "step"
RECORDING: Final = "recording"
# What is asked of every recording, so that each table of a file is read in one pass.
_READS: Final = reads(STEP_READS, TIMELINE_READS, SUM_READS, kernels=" ".join(SHAPE))


@dataclass(frozen=True)
class Work:
    """The compared part of a recording.

    Args:
        profile: The part itself.
        steps: Steps in it; None where it is compared as a whole.
        series: Its steps on the devices; empty where only their number is known.
        source: How the steps are known: ranges, detected or epochs; None for no steps.
    """

    profile: Profile
    steps: int | None = None
    series: tuple[StepWindows, ...] = ()
    source: str | None = None

    @property
    def text(self) -> str | None:
        """What marks a step, as the ranges' text; None where nothing does."""
        return self.series[0].text if self.series else None


def works(
    variants: Mapping[str, Sequence[Profile]], range_text: str | None = None, skip_steps: int = 0
) -> dict[str, tuple[Work, ...]]:
    """The steps of every run where all of them know theirs, else every run whole.

    Args:
        variants: The runs of each variant.
        range_text: Text of the NVTX ranges that are the steps; * stands for anything.
        skip_steps: Steps to leave out at the start of each run, as warm-up.

    Raises:
        UsageError: Steps are asked for, and a recording knows none or too few.
        MissingTableError: Ranges are asked for, and a recording has none.
    """
    for profile in chain.from_iterable(variants.values()):
        profile.expect(_READS)
    all_steps = {
        label: tuple(_steps(profile, range_text) for profile in runs)
        for label, runs in variants.items()
    }
    are_comparable = _are_comparable([work for runs in all_steps.values() for work in runs])
    if not are_comparable and skip_steps:
        raise _cannot_skip(all_steps)
    # What marks a step is kept, for the note that says why steps are not compared.
    return {
        label: tuple(
            _without_first(label, work, skip_steps)
            if are_comparable
            else Work(work.profile, source=work.source)
            for work in runs
        )
        for label, runs in all_steps.items()
    }


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


def unit_of(compared: Mapping[str, Sequence[Work]]) -> str:
    """What figures are of: `STEP` where every run is compared by steps, else `RECORDING`."""
    runs = [work for works in compared.values() for work in works]
    return STEP if all(work.steps is not None for work in runs) else RECORDING


def _steps(profile: Profile, range_text: str | None) -> Work:
    """A recording with all its steps: those that ranges name, else by number, else detected."""
    if range_text is not None:
        return Work(profile, None, steps_of_range(profile, range_text), FROM_RANGES)
    series = step_windows(profile) if profile.has("kernels", "memcpys") else ()
    counted = _counted(profile)
    if counted is not None and (not series or series[0].source == DETECTED):
        return Work(profile, counted, (), FROM_EPOCHS)
    return Work(profile, None, series, series[0].source) if series else Work(profile)


def _counted(profile: Profile) -> int | None:
    """Steps that the script marked, of a recording that tells GPU time of all of them."""
    tells_time = profile.has("activity_summary") | profile.has("kernels")
    return marked_steps(profile) if tells_time and not is_sampled(profile) else None


def _are_comparable(runs: Sequence[Work]) -> bool:
    """Whether all know their steps; patterns that were guessed must open with one kernel."""
    guessed = {s.text for work in runs for s in work.series if s.source == DETECTED}
    has_others = any(work.source not in {DETECTED, None} for work in runs)
    is_one_guess = len(guessed) == 1 and not has_others
    return all(work.source for work in runs) and (is_one_guess or not guessed)


def _cannot_skip(variants: Mapping[str, Sequence[Work]]) -> UsageError:
    without = [label for label, runs in variants.items() if not all(work.source for work in runs)]
    tell = "tell" if len(without) > 1 else "tells"
    reason = f"{', '.join(without)} {tell} no steps" if without else "they are not the same in all"
    hint = "Mark them with gpuprof.step() or NVTX ranges, or name some by --range."
    return UsageError(f"steps cannot be skipped: {reason}", hint)


def _without_first(label: str, work: Work, skip_steps: int) -> Work:
    """A recording without the steps to skip, and without what lies outside of steps."""
    if not work.series:
        if skip_steps:
            msg = f"steps cannot be skipped: {label} tells their number, not when they ran"
            raise UsageError(msg, "Record with nsys and mark steps by gpuprof.step().")
        return work
    series = tuple(
        replace(s, start_ns=s.start_ns[skip_steps:], end_ns=s.end_ns[skip_steps:])
        for s in work.series
    )
    steps = max(len(s.start_ns) for s in series)
    if not steps:
        had = counted(max(len(s.start_ns) for s in work.series), "step", "steps")
        msg = f"{label} has {had}, and none is left"
        raise UsageError(msg, f"Skip fewer than --skip-steps {skip_steps}.")
    starts, ends = ([getattr(s, end) for s in series] for end in ("start_ns", "end_ns"))
    covered = union(np.concatenate(starts), np.concatenate(ends))
    windows = tuple(zip(covered.start.tolist(), covered.end.tolist(), strict=True))
    return Work(work.profile.restricted(Selection(windows)), steps, series, work.source)
