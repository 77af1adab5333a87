"""Every kernel of a candidate beside the baseline's: slower, faster, new or removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpuprof.comparisons.measure.matching import Kernel, Kernels, Key, has_shapes
from gpuprof.comparisons.measure.runs import MeasuredRun, Variant
from gpuprof.comparisons.rows import KernelPair
from gpuprof.kernel_names import short_name
from gpuprof.statistics import LEAST_RUNS, adjusted, rank_tests

SLOWER: Final = "slower"
FASTER: Final = "faster"
SAME_TIME: Final = "same"
NEW: Final = "new"
REMOVED: Final = "removed"
UNLISTED: Final = "unlisted"  # The side that lacks it lists only a part of its kernels.
COMMON: Final = "common"  # A time is unknown, so that neither is faster.

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
    def run(self) -> MeasuredRun:
        """The run that stands for the variant."""
        return self.variant.median

    @cached_property
    def pairs(self) -> Sequence[tuple[MeasuredRun, Kernels]]:
        """Every run with its kernels."""
        return [*zip(self.variant.runs, self.kernels, strict=True)]

    @cached_property
    def median(self) -> Kernels:
        """The kernels of the run that stands for the variant."""
        return next(kernels for run, kernels in self.pairs if run is self.run)

    @cached_property
    def is_whole(self) -> bool:
        """Whether a kernel that is not listed did not run."""
        return self.run.figure("kernel_ns") is not None

    @cached_property
    def figures(self) -> Mapping[Key, Figures]:
        """Calls and time of one step of each kernel; None where they are unknown."""
        steps = self.run.compared.steps or 1
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


def kernel_rows(base: Side, candidate: Side) -> list[KernelPair]:
    """The outer join of two variants' kernels, the largest difference first.

    Returns:
        Rows as in `KERNELS`. Times and calls are those of the median runs, of one step where
        steps are compared; the rank test is over all runs.
    """
    keys = list(dict.fromkeys((*base.median, *candidate.median)))
    names = {key.name for key in base.median} & {key.name for key in candidate.median}
    runs = (run for side in (base, candidate) for run in side.variant.runs)
    is_shaped = all(has_shapes(run.compared.profile) for run in runs)
    alone = base.median.keys() ^ candidate.median.keys()
    reshaped = {key for key in keys if (key.name in names if key in alone else not key.grid)}
    rows = [_pair(key, base, candidate, is_reshaped=is_shaped and key in reshaped) for key in keys]
    if p_values := _p_values(keys, base, candidate):
        rows = [
            row._replace(p_value=p, adjusted_p_value=adjusted_p)
            for row, p, adjusted_p in zip(rows, *p_values, strict=True)
        ]
    return sorted(
        rows,
        key=lambda row: (
            -abs(row.difference_ns or 0),
            -max(row.baseline_ns or 0, row.candidate_ns or 0),
            row.name,
        ),
    )


def _pair(key: Key, base: Side, candidate: Side, *, is_reshaped: bool) -> KernelPair:
    """One kernel of either side."""
    kernels = base.median.get(key), candidate.median.get(key)
    calls, time = base.figures.get(key, base.absent)
    other_calls, other_time = candidate.figures.get(key, candidate.absent)
    difference = None if time is None or other_time is None else other_time - time
    total = base.run.figure("kernel_ns")
    contribution = difference / total if total and difference is not None else None
    kernel = kernels[0] or kernels[1]
    assert kernel is not None  # noqa: S101 - the key is of one of the sides
    mean, other_mean = (
        None if side_kernel is None else side_kernel.mean_ns for side_kernel in kernels
    )
    status = _status(kernels, time, other_time)
    named = candidate.variant.label, kernel.name, short_name(kernel.name)
    return KernelPair(
        *named,
        key.grid,
        key.block,
        status,
        kernel.is_communication,
        is_reshaped,
        calls,
        other_calls,
        mean,
        other_mean,
        time,
        other_time,
        difference,
        contribution,
    )


def _status(
    kernels: tuple[Kernel | None, Kernel | None], before: int | None, after: int | None
) -> str:
    is_on_both = None not in kernels
    if before is None or after is None:
        return COMMON if is_on_both else UNLISTED
    if not is_on_both:
        return NEW if kernels[0] is None else REMOVED
    mean, other_mean = (kernel.mean_ns for kernel in kernels if kernel is not None)
    if mean is None or other_mean is None:
        mean, other_mean = before, after
    return SLOWER if other_mean > mean else FASTER if other_mean < mean else SAME_TIME


def _p_values(
    keys: Sequence[Key], base: Side, candidate: Side
) -> tuple[list[float], list[float]] | None:
    """The rank test of every kernel over the runs, and corrected for how many there are."""
    sides = base, candidate
    if not keys or any(len(s.kernels) < LEAST_RUNS or not s.is_whole for s in sides):
        return None
    import numpy as np  # noqa: PLC0415 - start-up time

    def times(key: Key, side: Side) -> list[float]:
        return [
            (kernels[key].total_ns or 0) / (run.compared.steps or 1) if key in kernels else 0.0
            for run, kernels in side.pairs
        ]

    p_values = rank_tests(*(np.array([times(key, side) for key in keys]) for side in sides))
    return p_values.tolist(), adjusted(p_values).tolist()
