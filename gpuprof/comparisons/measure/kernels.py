"""Every kernel of a candidate beside the baseline's: slower, faster, new or gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from gpuprof.comparisons.measure.matching import Kernel, Kernels, Key
from gpuprof.comparisons.measure.runs import Run, Variant
from gpuprof.statistics import LEAST_RUNS, adjusted, rank_tests

SLOWER: Final = "slower"
FASTER: Final = "faster"
SAME: Final = "same"
NEW: Final = "new"
GONE: Final = "gone"
UNLISTED: Final = "unlisted"  # The side that lacks it lists only a part of its kernels.
COMMON: Final = "common"  # A time is unknown, so that neither is faster.

Row = dict[str, Any]
Figures = tuple[float | None, int | None]


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Args:
        variant: The variant.
        kernels: The kernels of each of its runs.
    """

    variant: Variant
    kernels: Sequence[Kernels]

    @property
    def run(self) -> Run:
        """The run that stands for the variant."""
        return self.variant.median

    @cached_property
    def median(self) -> Kernels:
        """The kernels of that run."""
        pairs = zip(self.variant.runs, self.kernels, strict=True)
        return next(kernels for run, kernels in pairs if run is self.run)

    @cached_property
    def is_whole(self) -> bool:
        """Whether a kernel that is not listed did not run."""
        return self.run.figure("kernel_ns") is not None

    @cached_property
    def figures(self) -> Mapping[Key, Figures]:
        """Calls and time of one step of each kernel; None where they are unknown."""
        steps = self.run.work.steps or 1
        return {
            key: (
                None if kernel.calls is None else kernel.calls / steps,
                None if kernel.total_ns is None else round(kernel.total_ns / steps),
            )
            for key, kernel in self.median.items()
        }

    @cached_property
    def absent(self) -> Figures:
        """Those of a kernel that is not listed: 0 where it did not run, None where it may have."""
        return (0, 0) if self.is_whole else (None, None)


def kernel_rows(base: Side, candidate: Side) -> list[Row]:
    """The outer join of two variants' kernels, the largest difference first.

    Returns:
        Rows as in `KERNELS`. Times and calls are those of the median runs, of one step where
        steps are compared; the rank test is over all runs.
    """
    keys = list(dict.fromkeys((*base.median, *candidate.median)))
    names = {key.name for key in base.median} & {key.name for key in candidate.median}
    whole = base.run.figure("kernel_ns")
    rows = [_row(key, base, candidate, whole, is_named=key.name in names) for key in keys]
    if tested := _tested(keys, base, candidate):
        rows = [row | tested[key] for key, row in zip(keys, rows, strict=True)]
    return sorted(rows, key=_by_difference)


def _by_difference(row: Row) -> tuple[float, float, str]:
    largest = max(row["baseline_ns"] or 0, row["candidate_ns"] or 0)
    return -abs(row["difference_ns"] or 0), -largest, row["name"]


def _row(key: Key, base: Side, candidate: Side, whole: float | None, *, is_named: bool) -> Row:
    """One kernel of either side.

    Args:
        key: The kernel.
        base: The baseline.
        candidate: The candidate.
        whole: Time of all kernels of the baseline; None where unknown.
        is_named: Whether both sides have a kernel of its name, in whatever shape.
    """
    found = base.median.get(key), candidate.median.get(key)
    calls, time = base.figures.get(key, base.absent)
    other_calls, other_time = candidate.figures.get(key, candidate.absent)
    difference = None if time is None or other_time is None else other_time - time
    kernel = found[0] or found[1]
    assert kernel is not None  # noqa: S101 - the key is of one of the sides
    return {
        "variant": candidate.variant.label,
        "name": kernel.name,
        "grid": key.grid,
        "block": key.block,
        "status": _status(found, time, other_time),
        "is_communication": kernel.is_communication,
        "is_reshaped": is_named and None in found,
        "baseline_calls": calls,
        "candidate_calls": other_calls,
        "baseline_ns": time,
        "candidate_ns": other_time,
        "difference_ns": difference,
        "contribution": difference / whole if whole and difference is not None else None,
    }


def _status(
    found: tuple[Kernel | None, Kernel | None], before: int | None, after: int | None
) -> str:
    is_on_both = None not in found
    if before is None or after is None:
        return COMMON if is_on_both else UNLISTED
    if not is_on_both:
        return NEW if found[0] is None else GONE
    return SLOWER if after > before else FASTER if after < before else SAME


def _tested(keys: Sequence[Key], base: Side, candidate: Side) -> Mapping[Key, Row]:
    """The rank test of every kernel over the runs, corrected for how many there are."""
    sides = base, candidate
    if not keys or any(len(s.kernels) < LEAST_RUNS or not s.is_whole for s in sides):
        return {}
    import numpy as np  # noqa: PLC0415 - start-up time

    tables = [
        np.array([[_time(run.get(key), one) for run, one in _runs(side)] for key in keys])
        for side in sides
    ]
    p_values = rank_tests(*tables)
    return {
        key: {"p_value": p, "adjusted_p_value": q}
        for key, p, q in zip(keys, p_values.tolist(), adjusted(p_values).tolist(), strict=True)
    }


def _runs(side: Side) -> list[tuple[Kernels, Run]]:
    return list(zip(side.kernels, side.variant.runs, strict=True))


def _time(kernel: Kernel | None, run: Run) -> float:
    return 0.0 if kernel is None else (kernel.total_ns or 0) / (run.work.steps or 1)
