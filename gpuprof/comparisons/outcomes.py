"""The outcome of one candidate: how much it differs, how certain that is, and the cause."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuprof.base.statistics import step_interval
from gpuprof.comparisons.measure.compared_kernels import CommonCalls
from gpuprof.comparisons.measure.compared_steps import STEP
from gpuprof.comparisons.measure.differences import EXPOSED, KERNELS, SUMS, largest_part, parts_of
from gpuprof.comparisons.measure.measured_runs import MeasuredRun
from gpuprof.comparisons.result_tables import Outcome

# How certain a difference is.
BEYOND: Final = "beyond noise"
WITHIN: Final = "within noise"
UNKNOWN: Final = "noise unknown"
EXACT: Final = "exact"
# What an outcome is judged by, beside the bases of its parts.
CALLS: Final = "calls"
IMPLIED: Final = "implied"
COPIES: Final = "copies"
EPOCHS: Final = "epochs"
SAME_RECORDING: Final = "same"
NONE: Final = "none"
_PER_EPOCH: Final = "seconds_per_epoch"
_COUNTED: Final = "peer_transfer_calls_per_step"
# Of fewer steps nothing is said of their noise.
LEAST_STEPS: Final = 3


def outcome(
    label: str,
    differences: Mapping[str, Mapping[str, Any]],
    split: Mapping[str, Sequence[Mapping[str, Any]]],
    implied: tuple[int | None, int | None],
    unit: str,
) -> Outcome:
    """The outcome of one candidate.

    By its differences by metric, the parts of these by basis, and the GPU time of both sides as
    recorded or else as printed shares imply it, which is None where unknown.
    """
    clock = "step_ns" if unit == STEP else "span_ns"
    # On the clock where both sides can, else summed over devices, at least of kernels.
    for basis, metric in ((EXPOSED, clock), (SUMS, "gpu_activity_ns"), (KERNELS, "kernel_ns")):
        if basis in split and metric in differences:
            # Times of a step in whole ns, so that the difference is what the parts add up to.
            row = differences[metric]
            sides = round(row["baseline"]), round(row["candidate"])
            judged = _judged(basis, row)._replace(**_change(*sides))
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


def outcome_of_calls(label: str, calls: CommonCalls) -> Outcome:
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


def _judged(basis: str, row: Mapping[str, Any]) -> Outcome:
    ends, base = (row["low"], row["high"]), row["baseline"]
    if base:
        ends = ends[0] and 100 * ends[0] / base, ends[1] and 100 * ends[1] / base
    figures = base, row["candidate"], row["difference"], row["percent"]
    certainty = {None: UNKNOWN, False: WITHIN, True: BEYOND}[row["is_beyond_noise"]]
    return Outcome(row["variant"], basis, row["metric"], *figures, *ends, certainty)


def step_noise(baseline: MeasuredRun, candidate: MeasuredRun) -> dict[str, Any]:
    """The steps of a run of each side, as columns of `OUTCOMES`; none where no step is timed.

    It is the noise between the steps of one run; other runs may differ by more.
    """
    columns: dict[str, Any] = {}
    intervals = []
    for side, run in (("baseline", baseline), ("candidate", candidate)):
        if run.device is None or run.device.steps is None:
            return {}
        steps_ns = run.device.steps_ns
        columns[f"{side}_steps"] = len(steps_ns)
        if (ends := step_interval(steps_ns)) is not None:
            intervals.append((side, *ends))
    if len(intervals) < len(columns):
        return columns
    for side, low, high in intervals:
        columns |= {f"{side}_low_ns": low, f"{side}_high_ns": high}
    (_, low, high), (_, other_low, other_high) = intervals
    are_apart = high < other_low or other_high < low
    return columns | {"certainty_of_steps": BEYOND if are_apart else WITHIN}
