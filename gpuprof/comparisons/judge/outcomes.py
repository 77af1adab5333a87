"""What the comparison of one candidate comes to: how much, how sure, and what makes it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuprof.comparisons.measure.causes import largest_part, parts_of
from gpuprof.comparisons.measure.splitting import EXPOSED, KERNELS, SUMS
from gpuprof.comparisons.measure.work import STEP

IMPLIED: Final = "implied"
COPIES: Final = "copies"
EPOCHS: Final = "epochs"
SAME: Final = "same"
NONE: Final = "none"
BEYOND: Final = "beyond noise"
WITHIN: Final = "within noise"
UNKNOWN: Final = "noise unknown"
EXACT: Final = "exact"
_PER_EPOCH: Final = "seconds_per_epoch"
_COUNTED: Final = "peer_transfer_calls_per_step"

Row = dict[str, Any]

SAME_RECORDING: Final[Row] = {"basis": SAME, "certainty": EXACT}


def outcome(
    differences: Mapping[str, Row],
    split: Mapping[str, Sequence[Row]],
    implied: tuple[int | None, int | None],
    unit: str,
) -> Row:
    """A row of `OUTCOMES` but for the candidate's name.

    Args:
        differences: The candidate's rows of `DIFFERENCES` by metric.
        split: Its rows of `SPLIT` by basis.
        implied: GPU time of both sides, as recorded or else as printed shares imply it.
        unit: What the figures are of, as in `Comparison`.
    """
    clock = "step_ns" if unit == STEP else "span_ns"
    # On the clock where both sides can, else summed over devices, at least of kernels.
    for basis, metric in ((EXPOSED, clock), (SUMS, "gpu_activity_ns"), (KERNELS, "kernel_ns")):
        if basis in split and metric in differences:
            row = _whole(differences[metric])
            return _judged(metric, row) | {"basis": basis} | _cause(split[basis])
    before, after = implied
    if before and after:
        change = {"baseline": before, "candidate": after, "difference": after - before}
        percent = 100 * (after - before) / before
        found = {"metric": "implied_gpu_activity_ns", "percent": percent, "certainty": UNKNOWN}
        return change | found | {"basis": IMPLIED}
    if _COUNTED in differences:
        return _judged(_COUNTED, differences[_COUNTED]) | {"basis": COPIES, "certainty": EXACT}
    if _PER_EPOCH in differences:
        return _judged(_PER_EPOCH, differences[_PER_EPOCH]) | {"basis": EPOCHS}
    return {"basis": NONE, "certainty": UNKNOWN}


def _whole(row: Row) -> Row:
    """Times of a step in whole ns, so that the difference is what the parts add up to."""
    before, after = round(row["baseline"]), round(row["candidate"])
    found = {"baseline": before, "candidate": after, "difference": after - before}
    return row | found | {"percent": 100 * (after - before) / before if before else None}


def _judged(metric: str, row: Row) -> Row:
    ends = {"low_percent": row["low"], "high_percent": row["high"]}
    if row["baseline"]:
        ends = {n: None if e is None else 100 * e / row["baseline"] for n, e in ends.items()}
    names = ("baseline", "candidate", "difference", "percent")
    figures = {name: row[name] for name in names}
    return figures | ends | {"metric": metric, "certainty": _certainty(row)}


def _certainty(row: Row) -> str:
    return {None: UNKNOWN, False: WITHIN, True: BEYOND}[row["is_beyond_noise"]]


def _cause(rows: Sequence[Row]) -> Row:
    """The part that makes most of the difference, where one does."""
    parts = parts_of(rows)
    largest = largest_part(parts)
    return {} if largest is None else {"cause": largest, "cause_ns": parts[largest].difference_ns}
