"""Variants against a baseline: their figures, the differences, and the verdict.

(Not ``compare.py``: a module of that name would hide the function `gpuprof.compare`, which
`gpuprof.api.compare` has.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from gpuprof.base.errors import UsageError
from gpuprof.comparisons.judge.certainty import EXACT, UNKNOWN
from gpuprof.comparisons.judge.outcomes import (
    CALLS,
    NONE,
    SAME_RECORDING,
    outcome,
    outcome_of_calls,
)
from gpuprof.comparisons.judge.step_noise import step_noise
from gpuprof.comparisons.measure.ahead import before_figures, before_steps
from gpuprof.comparisons.measure.baselines import baselines
from gpuprof.comparisons.measure.calls import by_call, calls_of
from gpuprof.comparisons.measure.comparability import comparability_notes, mismatches
from gpuprof.comparisons.measure.compared_steps import (
    STEP,
    StepsByLabel,
    compared_steps,
    is_sampled,
    unit_of,
)
from gpuprof.comparisons.measure.difference_parts import EXPOSED, difference_parts
from gpuprof.comparisons.measure.differences import difference_rows, figure_rows
from gpuprof.comparisons.measure.kernels import Side, kernel_rows
from gpuprof.comparisons.measure.matching import matched
from gpuprof.comparisons.measure.other_kernels import other_kernels_of
from gpuprof.comparisons.measure.phase_names import in_quotes, phase_names, uncompared_rows
from gpuprof.comparisons.measure.runs import (
    Variant,
    known_figures,
    median_figures,
    run_rows,
    variant_of,
    variant_row,
)
from gpuprof.comparisons.measure.variants import Recording, is_same, labelled
from gpuprof.comparisons.result import Comparison
from gpuprof.comparisons.rows import Difference, DifferencePart, KernelPair, Outcome, table_of
from gpuprof.comparisons.tables import (
    COMPARABILITY,
    DIFFERENCES,
    FIGURES,
    KERNELS,
    OUTCOMES,
    RUNS,
    SPLIT,
    UNCOMPARED,
)
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.comparisons.words.cases import Case
from gpuprof.comparisons.words.notes import (
    have_own_steps,
    notes,
    uncompared_notes,
    without_idle_times,
)
from gpuprof.comparisons.words.verdicts import headline, in_brief, unequal_work, verdict
from gpuprof.model.profile import Profile

__all__ = ["Comparison", "Recording", "comparison", "labelled"]


def comparison(
    variants: Mapping[str, Profile | Sequence[Profile]],
    baseline: str | None = None,
    epoch_seconds: Mapping[str, float] | None = None,
    *,
    range_text: str | None = None,
    skip_steps: int | None = None,
) -> Comparison:
    """Compare the runs of each variant by label.

    Args:
        variants: A recording of each variant, or several that repeat it.
        baseline: Label of the variant to compare with, or the name of a saved baseline; the
            first one where None.
        epoch_seconds: Measured seconds per epoch by label, where no recording has them.
        range_text: Text of the NVTX ranges to compare as steps; * stands for anything.
        skip_steps: Steps to leave out at the start of each phase; None for the warm-up found.

    Returns:
        Of several phases the one whose differences come to most, with the others.

    Raises:
        UsageError: Fewer than two variants, a label that none of them has, or steps that are
            asked for and not known.
    """
    chosen = _baseline(variants, baseline)
    seconds = _checked_seconds(variants, epoch_seconds or {})
    runs = {label: (p,) if isinstance(p, Profile) else tuple(p) for label, p in variants.items()}
    for recording in {
        id(p.unrestricted): p.unrestricted for of_label in runs.values() for p in of_label
    }.values():
        before_steps(recording)
    phases, left_out = compared_steps(runs, range_text, skip_steps)
    uncompared = uncompared_rows(phases, left_out)
    has_several = len(phases) > 1 or bool(uncompared)
    names = phase_names(phases) if has_several else [None]
    compared = [_of_phase(chosen, seconds, *named) for named in zip(phases, names, strict=True)]
    if (by_calls := _by_call(chosen, seconds, phases[0], compared[0])) is not None:
        return by_calls
    first, *other_phases = sorted(compared, key=lambda phase: -phase.largest_ns)
    brief = [in_brief(phase.result.phase or "", phase.cases) for phase in other_phases]
    return replace(
        first.result,
        verdict=" ".join([first.result.verdict, *brief]),
        notes=(*uncompared_notes(uncompared, len(runs)), *first.result.notes),
        other_phases=tuple(phase.result for phase in other_phases),
        uncompared=table_of(UNCOMPARED, uncompared),
    )


def _by_call(
    chosen: str, seconds: Mapping[str, float], recordings: StepsByLabel, compared: "_Compared"
) -> Comparison | None:
    """Recordings of unequal work by the calls of their costliest kernel; None where they are not.

    The calls of another kernel than the costliest may well have stopped in a side's middle.
    """
    unequal = [case for case in compared.cases if case.outcome.basis == CALLS and not case.lacking]
    if not unequal or unequal[0].calls is None:
        return None
    name = unequal[0].calls.name
    by_label = {label: [by_call(run, name) for run in runs] for label, runs in recordings.items()}
    called = {label: tuple(filter(None, runs)) for label, runs in by_label.items()}
    if any(len(runs) < len(by_label[label]) for label, runs in called.items()):
        return None
    result = _of_phase(chosen, seconds, called, None).result
    first = " ".join(unequal_work(chosen, case, of_recordings=True) for case in unequal)
    return replace(result, verdict=f"{first} {result.verdict}")


class _Compared(NamedTuple):
    """The comparison of one phase, with what its sentences are made of."""

    result: Comparison
    cases: Sequence[Case]

    @property
    def largest_ns(self) -> float:
        """The largest difference of all its steps; 0 where nothing is compared by step."""
        return max(
            (abs(case.difference) * (case.outcome.baseline_steps or 0) for case in self.cases),
            default=0,
        )


def _of_phase(
    chosen: str, seconds: Mapping[str, float], compared: StepsByLabel, phase: str | None
) -> _Compared:
    """The comparison of the steps of one phase, or of whole recordings."""
    for part in (steps.profile for of_label in compared.values() for steps in of_label):
        before_figures(part)
    measured = {label: variant_of(label, w, seconds.get(label)) for label, w in compared.items()}
    base, candidates = measured[chosen], [v for v in measured.values() if v.label != chosen]
    unit, figures = unit_of(compared), known_figures(measured)
    sampled = [v.label for v in measured.values() if is_sampled(v.median.compared.profile)]
    differences = difference_rows(chosen, figures, sampled)
    pairs = [_pair(base, candidate, unit, differences) for candidate in candidates]
    cases = [pair.case for pair in pairs]
    checked = [
        row
        for candidate, pair in zip(candidates, pairs, strict=True)
        for row in mismatches(base, candidate, pair.kernels)
    ]
    place = chosen if phase is None else f"{chosen} in {in_quotes(phase)}"
    result = Comparison(
        chosen,
        unit,
        VARIANTS.table([variant_row(v, v.median) for v in measured.values()]),
        RUNS.table([row for v in measured.values() for row in run_rows(v)]),
        FIGURES.table(figure_rows(figures)),
        table_of(DIFFERENCES, differences),
        table_of(SPLIT, [row for pair in pairs for row in pair.split]),
        table_of(KERNELS, [row for pair in pairs for row in pair.kernels]),
        table_of(COMPARABILITY, checked),
        table_of(OUTCOMES, [case.outcome for case in cases]),
        UNCOMPARED.empty(),
        verdict(place, cases, unit),
        headline(place, cases, unit),
        (*comparability_notes(checked, chosen, unit), *notes(measured, unit)),
        phase,
    )
    return _Compared(result, cases)


class _Pair(NamedTuple):
    """The rows of one candidate against the baseline, and what its sentence is made of."""

    split: list[DifferencePart]
    kernels: list[KernelPair]
    case: Case


def _pair(base: Variant, candidate: Variant, unit: str, differences: Sequence[Difference]) -> _Pair:
    label, sides = candidate.label, _sides(base, candidate)
    parts, kernels = difference_parts(*sides), kernel_rows(*sides)
    devices = {variant.median.metrics.get("devices") for variant in (base, candidate)}
    # Work that is split among more devices takes more calls, and is no more work.
    calls = calls_of(kernels) if len(devices) == 1 else None
    by_metric = {row.metric: row for row in differences if row.variant == label}
    figures = median_figures(base), median_figures(candidate)
    judged = Outcome(label, SAME_RECORDING, certainty=EXACT)
    differ, lacking = not is_same(base.median, candidate.median), ""
    if differ and EXPOSED in parts:
        lacking = without_idle_times(base, candidate)
    if lacking and not have_own_steps(base, candidate):
        judged = outcome_of_calls(label, calls) if calls else judged._replace(basis=NONE)
        judged = judged._replace(certainty=UNKNOWN, phase=base.median.compared.phase)
    elif differ:
        gpu_ns = figures[0]["gpu_ns"], figures[1]["gpu_ns"]
        judged = outcome(label, by_metric, parts, gpu_ns, unit)
        if calls and calls.are_unequal and unit != STEP and parts:
            judged = outcome_of_calls(label, calls)
        judged = judged._replace(
            phase=base.median.compared.phase,
            work_percent=calls and 100 * calls.work_growth,
            call_percent=calls and 100 * calls.mean_growth,
            **step_noise(base.median, candidate.median),
        )
    if lacking:
        # What ran in the pauses is unknown, and with it the sums.
        judged, parts = judged._replace(cause=None, cause_ns=None), {}
    return _Pair(
        [row for of_basis in parts.values() for row in of_basis],
        kernels,
        Case(
            label,
            judged,
            parts.get(judged.basis, ()),
            *figures,
            calls,
            base.median.compared.of_step,
            _devices_of_jobs(base, candidate),
            other_kernels_of(kernels),
            lacking,
        ),
    )


def _devices_of_jobs(base: Variant, candidate: Variant) -> tuple[int, int] | None:
    """Their devices where one at least is a job of several files, and their numbers differ."""
    pair = base.median, candidate.median
    before, after = (run.metrics.get("devices") for run in pair)
    is_job = any(run.compared.profile.unrestricted.parts for run in pair)
    return (before, after) if is_job and before and after and before != after else None


def _sides(*variants: Variant) -> list[Side]:
    """Both variants with their kernels, matched in the way that all of their runs allow."""
    kernels = matched([[run.compared.profile for run in variant.runs] for variant in variants])
    return [*map(Side, variants, kernels)]


def _baseline(variants: Mapping[str, Any], baseline: str | None) -> str:
    if not variants:
        msg = "a comparison needs two recordings, and none is given"
        raise UsageError(msg, "Name them: gpuprof compare single.sqlite dual.sqlite")
    if baseline is not None and baseline not in variants:
        msg = f"no recording has the label {baseline}, and no baseline is saved under this name"
        saved = ", ".join(saved.name for saved in baselines())
        hint = _labels(variants) + (f" Baselines: {saved}." if saved else "")
        is_file = Path(baseline).exists()
        first = "To compare with a recording, give it as the first of FILES."
        raise UsageError(msg, first if is_file else hint)
    if len(variants) == 1:
        ((label, runs),) = variants.items()
        msg = f"a comparison needs two variants, and one is given: {label}"
        is_repeated = not isinstance(runs, Profile) and len(runs) > 1
        repeated = "Recordings with the same label are repeats. Add another label or a baseline."
        alone = "Add another recording, or look at this one with `gpuprof report`."
        raise UsageError(msg, repeated if is_repeated else alone)
    return next(iter(variants)) if baseline is None else baseline


def _labels(variants: Mapping[str, Any]) -> str:
    return f"Labels: {', '.join(variants)}."


def _checked_seconds(
    variants: Mapping[str, Any], epoch_seconds: Mapping[str, float]
) -> Mapping[str, float]:
    if not isinstance(epoch_seconds, Mapping):
        msg = f"epoch_seconds must map labels to seconds, not be {type(epoch_seconds).__name__}"
        raise TypeError(msg)
    for label, seconds in epoch_seconds.items():
        if not isinstance(seconds, Real):
            msg = f"epoch seconds of {label} must be a number, not {type(seconds).__name__}"
            raise TypeError(msg)
        if label not in variants:
            msg = f"epoch seconds: no recording has the label {label}"
            raise UsageError(msg, _labels(variants))
        if not (isfinite(seconds) and seconds > 0):
            msg = f"epoch seconds of {label} must be above 0, not {seconds}"
            raise UsageError(msg, "Write it as --epoch-seconds LABEL=20.455.")
    return epoch_seconds
