"""Variants against a baseline: their figures, the differences, and the verdict.

(Not ``compare.py``: a module of that name would hide the function `gpuprof.compare`, which
`gpuprof.api.compare` has.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.comparisons.measure.baselines import baselines
from gpuprof.comparisons.measure.comparability import comparability_notes, mismatches
from gpuprof.comparisons.measure.compared_kernels import (
    Side,
    by_call,
    calls_of,
    kernel_rows,
    other_kernels_of,
)
from gpuprof.comparisons.measure.compared_steps import (
    RECORDING,
    STEP,
    StepsByLabel,
    compared_steps,
    in_quotes,
    is_sampled,
    phase_names,
    uncompared_rows,
)
from gpuprof.comparisons.measure.differences import (
    EXPOSED,
    difference_parts,
    difference_rows,
    figure_rows,
    parts_of,
)
from gpuprof.comparisons.measure.labelled_runs import Recording, labelled
from gpuprof.comparisons.measure.matching import matched
from gpuprof.comparisons.measure.measured_runs import (
    METRICS,
    MeasuredRun,
    Measurements,
    Variant,
    is_same,
    median_figures,
    run_rows,
    variant_row,
)
from gpuprof.comparisons.outcomes import (
    CALLS,
    EXACT,
    NONE,
    SAME_RECORDING,
    UNKNOWN,
    outcome,
    outcome_of_calls,
    step_noise,
)
from gpuprof.comparisons.result_tables import (
    COMPARABILITY,
    DIFFERENCES,
    FIGURES,
    KERNELS,
    OUTCOMES,
    RUNS,
    SPLIT,
    UNCOMPARED,
    Comparison,
    Outcome,
)
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.comparisons.words.cases import Case
from gpuprof.comparisons.words.notes import (
    have_own_steps,
    notes,
    uncompared_notes,
    without_idle_times,
)
from gpuprof.comparisons.words.verdicts import headlines, in_brief, unequal_work, verdict
from gpuprof.facts.step_times import uneven_ns, usual_of
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
    measurements = Measurements(seconds)
    for label, of_label in runs.items():
        for profile in of_label:
            measurements.take_ahead(label, profile, range_text, skip_steps)
    phases, left_out = compared_steps(runs, range_text, skip_steps)
    uncompared = uncompared_rows(phases, left_out)
    has_several = len(phases) > 1 or bool(uncompared)
    names = phase_names(phases) if has_several else [None]
    compared = [_of_phase(chosen, measurements, *n) for n in zip(phases, names, strict=True)]
    if (by_calls := _by_call(chosen, measurements, phases[0], compared[0][1])) is not None:
        return by_calls

    def largest_ns(phase: tuple[Comparison, Sequence[Case]]) -> float:
        """The largest difference of all steps; 0 where nothing is compared by step."""
        sizes = (abs(c.difference) * (c.outcome.baseline_steps or 0) for c in phase[1])
        return max(sizes, default=0)

    (first, _), *shorter = sorted(compared, key=largest_ns, reverse=True)
    brief = [in_brief(result.phase or "", cases) for result, cases in shorter]
    return replace(
        first,
        verdict=" ".join([first.verdict, *brief]),
        notes=(*uncompared_notes(uncompared, len(runs)), *first.notes),
        other_phases=tuple(result for result, _ in shorter),
        uncompared=UNCOMPARED.table(uncompared),
    )


def _by_call(
    chosen: str, measurements: Measurements, recordings: StepsByLabel, cases: Sequence[Case]
) -> Comparison | None:
    """Recordings of unequal work by the calls of their costliest kernel; None where they are not.

    The calls of another kernel than the costliest may well have stopped in a side's middle.
    """
    unequal = [case for case in cases if case.outcome.basis == CALLS and not case.lacking]
    if not unequal or unequal[0].calls is None:
        return None
    name = unequal[0].calls.name
    by_label = {label: [by_call(run, name) for run in runs] for label, runs in recordings.items()}
    called = {label: tuple(filter(None, runs)) for label, runs in by_label.items()}
    if any(len(runs) < len(by_label[label]) for label, runs in called.items()):
        return None
    result, _ = _of_phase(chosen, measurements, called, None)
    first = " ".join(unequal_work(chosen, case, of_recordings=True) for case in unequal)
    return replace(result, verdict=f"{first} {result.verdict}")


def _of_phase(
    chosen: str, measurements: Measurements, compared: StepsByLabel, phase: str | None
) -> tuple[Comparison, list[Case]]:
    """The comparison of the steps of one phase, or of whole recordings; what it says is made of."""
    measured = {label: measurements.variant(label, parts) for label, parts in compared.items()}
    base, candidates = measured[chosen], [v for v in measured.values() if v.label != chosen]
    is_by_step = all(s.steps is not None for of_label in compared.values() for s in of_label)
    unit = STEP if is_by_step else RECORDING
    # Metrics that no run of a variant knows are absent.
    figures = {
        label: {metric: values for metric in METRICS if (values := variant.figures(metric))}
        for label, variant in measured.items()
    }
    sampled = [v.label for v in measured.values() if is_sampled(v.median.compared.profile)]
    differences = difference_rows(chosen, figures, sampled)
    pairs = [_pair(base, candidate, unit, differences) for candidate in candidates]
    cases = [case for *_, case in pairs]
    checked = [
        row
        for candidate, (_, kernels, _) in zip(candidates, pairs, strict=True)
        for row in mismatches(base, candidate, kernels)
    ]
    place = chosen if phase is None else f"{chosen} in {in_quotes(phase)}"
    result = Comparison(
        chosen,
        unit,
        VARIANTS.table([variant_row(v, v.median) for v in measured.values()]),
        RUNS.table([row for v in measured.values() for row in run_rows(v)]),
        FIGURES.table(figure_rows(figures)),
        DIFFERENCES.table(differences),
        SPLIT.table([row for split, *_ in pairs for row in split]),
        KERNELS.table([row for _, kernels, _ in pairs for row in kernels]),
        COMPARABILITY.table(checked),
        OUTCOMES.table([case.outcome._asdict() for case in cases]),
        UNCOMPARED.empty(),
        verdict(place, cases, unit),
        *headlines(chosen, place, cases, unit),
        (*comparability_notes(checked, chosen, unit), *notes(measured, unit)),
        phase,
        compared={label: variant.median.compared for label, variant in measured.items()},
    )
    return result, cases


def _pair(
    base: Variant, candidate: Variant, unit: str, differences: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Case]:
    """The rows of one candidate against the baseline, and what its sentence is made of."""
    label, pair = candidate.label, (base, candidate)
    # Kernels are matched in the way that all runs of both allow.
    groups = matched([[run.compared.profile for run in variant.runs] for variant in pair])
    sides = [*map(Side, pair, groups)]
    parts, kernels = difference_parts(*sides), kernel_rows(*sides)
    runs = base.median, candidate.median
    devices: Any = tuple(run.metrics.get("devices") for run in runs)
    # Work that is split among more devices takes more calls, and is no more work.
    calls = calls_of(kernels) if devices[0] == devices[1] else None
    is_job = any(run.compared.profile.unrestricted.parts for run in runs)
    by_metric = {row["metric"]: row for row in differences if row["variant"] == label}
    figures = median_figures(base), median_figures(candidate)
    judged = Outcome(label, SAME_RECORDING, certainty=EXACT)
    differ, lacking = not is_same(*runs), ""
    if differ and EXPOSED in parts:
        lacking = without_idle_times(base, candidate)
    if lacking and not have_own_steps(base, candidate):
        judged = outcome_of_calls(label, calls) if calls else judged._replace(basis=NONE)
        judged = judged._replace(certainty=UNKNOWN, phase=runs[0].compared.phase)
    elif differ:
        gpu_ns = figures[0]["gpu_ns"], figures[1]["gpu_ns"]
        judged = outcome(label, by_metric, parts, gpu_ns, unit)
        if calls and calls.are_unequal and unit != STEP and parts:
            judged = outcome_of_calls(label, calls)
        judged = judged._replace(
            phase=runs[0].compared.phase,
            work_percent=calls and 100 * calls.work_growth,
            call_percent=calls and 100 * calls.mean_growth,
            **step_noise(*runs),
        )
    if lacking:
        # What ran in the pauses is unknown, and with it the sums.
        judged, parts = judged._replace(cause=None, cause_ns=None), {}
    return (
        [row for of_basis in parts.values() for row in of_basis],
        kernels,
        Case(
            label,
            judged,
            parts_of(parts.get(judged.basis, ())),
            *figures,
            calls,
            runs[0].compared.of_step,
            devices if is_job and all(devices) and devices[0] != devices[1] else None,
            other_kernels_of(kernels),
            lacking,
            _usual_ns(*runs) if unit == STEP else None,
        ),
    )


def _usual_ns(*runs: MeasuredRun) -> tuple[int, int] | None:
    """What a step of both takes in the mean where those of one are uneven; else None."""
    devices = [run.device for run in runs]
    before, after = (np.empty(0, np.int64) if of is None else of.steps_ns for of in devices)
    if not len(before) or not len(after) or not (uneven_ns(before) or uneven_ns(after)):
        return None
    return usual_of(before), usual_of(after)


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
