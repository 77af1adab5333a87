"""The outcome of one candidate: how much it differs, how certain that is, and the cause."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuprof.comparisons.judge.certainty import BEYOND, EXACT, UNKNOWN, WITHIN
from gpuprof.comparisons.measure.calls import Calls
from gpuprof.comparisons.measure.causes import largest_part, parts_of
from gpuprof.comparisons.measure.compared_steps import STEP
from gpuprof.comparisons.measure.difference_parts import EXPOSED, KERNELS, SUMS
from gpuprof.comparisons.rows import Difference, DifferencePart, Outcome

CALLS: Final = "calls"
IMPLIED: Final = "implied"
COPIES: Final = "copies"
EPOCHS: Final = "epochs"
SAME_RECORDING: Final = "same"
NONE: Final = "none"
_PER_EPOCH: Final = "seconds_per_epoch"
_COUNTED: Final = "peer_transfer_calls_per_step"


def outcome(
    label: str,
    differences: Mapping[str, Difference],
    split: Mapping[str, Sequence[DifferencePart]],
    implied: tuple[int | None, int | None],
    unit: str,
) -> Outcome:
    """The outcome of one candidate.

    Args:
        label: The candidate.
        differences: Its differences by metric.
        split: The parts of its difference by basis.
        implied: GPU time of both sides, as recorded or else as printed shares imply it.
        unit: What the figures are of, as in `Comparison`.
    """
    clock = "step_ns" if unit == STEP else "span_ns"
    # On the clock where both sides can, else summed over devices, at least of kernels.
    for basis, metric in ((EXPOSED, clock), (SUMS, "gpu_activity_ns"), (KERNELS, "kernel_ns")):
        if basis in split and metric in differences:
            # Times of a step in whole ns, so that the difference is what the parts add up to.
            sides = round(differences[metric].baseline), round(differences[metric].candidate)
            judged = _judged(basis, differences[metric])._replace(**_change(*sides))
            parts = parts_of(split[basis])
            largest = largest_part(parts)
            cause_ns = None if largest is None else parts[largest].difference_ns
            return judged._replace(cause=largest, cause_ns=cause_ns)
    before, after = implied
    if before and after:
        metric = "implied_gpu_activity_ns"
        return Outcome(label, IMPLIED, metric, certainty=UNKNOWN, **_change(before, after))
    if _COUNTED in differences:
        return _judged(COPIES, differences[_COUNTED])._replace(certainty=EXACT)
    if _PER_EPOCH in differences:
        return _judged(EPOCHS, differences[_PER_EPOCH])
    return Outcome(label, NONE, certainty=UNKNOWN)


def outcome_of_calls(label: str, calls: Calls) -> Outcome:
    """The outcome of a candidate that does another amount of work than the baseline, by calls."""
    sides = round(calls.candidate_ns), round(calls.actual_ns)
    return Outcome(label, CALLS, "kernel_ns", certainty=UNKNOWN, **_change(*sides))


def _change(before: int, after: int) -> dict[str, Any]:
    percent = 100 * (after - before) / before if before else None
    return {
        "baseline": before,
        "candidate": after,
        "difference": after - before,
        "percent": percent,
    }


def _judged(basis: str, row: Difference) -> Outcome:
    ends = row.low, row.high
    if row.baseline:
        ends = row.low and 100 * row.low / row.baseline, row.high and 100 * row.high / row.baseline
    figures = row.baseline, row.candidate, row.difference, row.percent
    certainty = {None: UNKNOWN, False: WITHIN, True: BEYOND}[row.is_beyond_noise]
    return Outcome(row.variant, basis, row.metric, *figures, *ends, certainty)
