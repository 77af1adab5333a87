"""What a reader of figures per step must know: what was set aside, what stands out, what is few."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpuprof.base.units import counted, say_ns
from gpuprof.facts.phases import PhaseSteps, steps_in_part
from gpuprof.facts.step_kinds import LEAST_STEPS
from gpuprof.facts.step_windows import DETECTED
from gpuprof.model.profile import Profile

_MOST_NAMED: Final = 3
_MOST_LETTERS: Final = 60
_INFERRED: Final = (
    "Nothing marks steps in this recording: they were inferred from kernels that repeat. Mark them"
    " with gpuprof.step() or NVTX ranges to be sure."
)


def step_notes(profile: Profile) -> list[str]:
    """Sentences about the steps of a recording, or of the part of it that is looked at.

    Raises:
        UsageError: As in `phases.phases`.
    """
    steps = steps_in_part(profile)
    phases = [phase_steps.phase for phase_steps in steps]
    notes = [_INFERRED] if any(phase.source == DETECTED for phase in phases) else []
    if names := dict.fromkeys(_name(phase.name) for phase in phases if len(phase.between)):
        # Marks leave out much of the time.
        note = f"The marks of {_listed([*names], 'phases')} leave out much of the time"
        period = "the period from its start to that of the next, with what the program does between"
        notes.append(f"{note}: a step is {period} marks.")
    notes += [*_warm_up(profile, steps), *_outliers(steps)]
    # Each process and device has phases of its own, which often have one name.
    few = Counter(
        f"{_name(phase.name)} has {counted(number, 'whole step', 'whole steps')}"
        for phase in phases
        if (number := len(phase.start_ns)) < LEAST_STEPS
    )
    words = [f"{text} in each of {n} phases" if n > 1 else text for text, n in few.items()]
    if words:
        reason = "too few to say how long a step usually takes"
        notes.append(f"{_listed(words, 'phases')}: {reason}.")
    return notes


def _warm_up(profile: Profile, steps: Sequence[PhaseSteps]) -> list[str]:
    """What was set aside at the beginning of phases, and what it cost beyond later steps."""
    phases = [phase_steps.phase for phase_steps in steps if phase_steps.phase.warm_up_steps]
    if not phases:
        return []
    costs = [phase.warm_up_ns - phase.warm_up_steps * phase.step_ns for phase in phases]
    words = [
        f"the first {counted(phase.warm_up_steps, 'step', 'steps').removeprefix('1 ')} of"
        f" {_name(phase.name)}"
        f" ({say_ns(phase.warm_up_ns)}, {say_ns(abs(cost))} {'more' if cost >= 0 else 'less'} than"
        " as many later ones)"
        for phase, cost in zip(phases, costs, strict=True)
    ]
    aside = "Set aside" if profile.skip_steps else "Set aside as warm-up"
    hint = "" if profile.skip_steps else "; --skip-steps 0 keeps all"
    return [f"{aside}: {_listed(words, 'phases')}{hint}."]


def _outliers(steps: Sequence[PhaseSteps]) -> list[str]:
    far = [
        (int(phase_steps.end_ns[place] - phase_steps.start_ns[place]), phase_steps, place)
        for phase_steps in steps
        for place in phase_steps.outliers.tolist()
    ]
    far.sort(key=lambda item: -item[0])
    words = [
        f"step {phase_steps.number[place]} of {_name(phase_steps.phase.name)} took {say_ns(ns)},"
        f" median {say_ns(phase_steps.phase.step_ns)}"
        for ns, phase_steps, place in far
    ]
    return [f"Far longer than most: {_listed(words, 'steps')}."] if words else []


def _name(text: str) -> str:
    shown = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."
    return f'"{shown}"'


def _listed(words: Sequence[str], noun: str) -> str:
    more = len(words) - _MOST_NAMED
    ending = [f"and {more} more {noun}"] if more > 0 else []
    return "; ".join([*words[:_MOST_NAMED], *ending])
