"""Every kernel of a candidate beside the baseline's: slower, faster, new or removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

from gpuprof.base.kernel_names import short_name
from gpuprof.base.statistics import LEAST_RUNS, adjusted, rank_tests
from gpuprof.comparisons.measure.matching import Kernel, Kernels, Key, has_shapes
from gpuprof.comparisons.measure.runs import MeasuredRun, Variant
from gpuprof.comparisons.rows import KernelPair

SLOWER: Final = "slower"
FASTER: Final = "faster"
SAME_TIME: Final = "same"
NEW: Final = "new"
REMOVED: Final = "removed"
UNLISTED: Final = "unlisted"  # The side that lacks it lists only a part of its kernels.
COMMON: Final = "common"  # A time is unknown, so that neither is faster.


class Figures(NamedTuple):
    """A kernel of one side: calls and time of one step, and the mean of a call; None unknown."""

    calls: float | None
    time_ns: int | None
    mean_ns: float | None


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Args:
        variant: The variant.
        kernels: The kernels of each of its runs.
    """

    variant: Variant
    kernels: Sequence[Kernels]

    @cached_property
    def pairs(self) -> Sequence[tuple[MeasuredRun, Kernels]]:
        """Every run with its kernels."""
        return [*zip(self.variant.runs, self.kernels, strict=True)]

    @cached_property
    def keys(self) -> frozenset[Key]:
        """The kernels that any of its runs has."""
        return frozenset().union(*self.kernels)

    @cached_property
    def is_whole(self) -> bool:
        """Whether a kernel that is not listed did not run."""
        return all(run.figure("kernel_ns") is not None for run in self.variant.runs)

    @cached_property
    def middle(self) -> Sequence[tuple[MeasuredRun, Kernels]]:
        """The runs that stand for the variant, with their kernels."""
        return [pair for pair in self.pairs if any(pair[0] is run for run in self.variant.middle)]

    def figures(self, key: Key) -> Figures:
        """Calls and time of a kernel in one step, and the mean of a call.

        Of the median run, or the mean of both in the middle. None where unknown, 0 calls and 0 ns
        where it did not run.
        """
        absent = Kernel("", 0, 0) if self.is_whole else Kernel("", None, None)
        of_runs = [
            (kernels.get(key, absent), run.compared.steps or 1) for run, kernels in self.middle
        ]
        calls = _mean([kernel.calls for kernel, _ in of_runs], [steps for _, steps in of_runs])
        time = _mean([kernel.total_ns for kernel, _ in of_runs], [steps for _, steps in of_runs])
        return Figures(
            None if calls is None else float(calls),
            None if time is None else round(time),
            float(time / calls) if calls and time is not None else None,
        )


def _mean(values: Sequence[int | None], steps: Sequence[int]) -> Fraction | None:
    """The mean over runs of what a step has; None where one is unknown."""
    of_steps = [Fraction(v, n) for v, n in zip(values, steps, strict=True) if v is not None]
    return sum(of_steps, Fraction()) / len(of_steps) if len(of_steps) == len(values) else None


def kernel_rows(base: Side, candidate: Side) -> list[KernelPair]:
    """The outer join of two variants' kernels, the largest difference first.

    Returns:
        Rows as in `KERNELS`. Times and calls are those of the runs in the middle, of one step
        where steps are compared; the rank test is over all runs.
    """
    sides = base, candidate
    keys = list(
        dict.fromkeys(key for side in sides for _, kernels in side.middle for key in kernels)
    )
    names = {key.name for key in base.keys} & {key.name for key in candidate.keys}
    is_shaped = all(has_shapes(run.compared.profile) for side in sides for run, _ in side.pairs)
    alone = base.keys ^ candidate.keys
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
    before, after = base.figures(key), candidate.figures(key)
    difference = None
    if before.time_ns is not None and after.time_ns is not None:
        difference = after.time_ns - before.time_ns
    total = base.variant.median_figure("kernel_ns")
    contribution = difference / total if total and difference is not None else None
    kernel = next(of_run[key] for of_run in (*base.kernels, *candidate.kernels) if key in of_run)
    return KernelPair(
        candidate.variant.label,
        kernel.name,
        short_name(kernel.name),
        key.grid,
        key.block,
        _status((key in base.keys, key in candidate.keys), before, after),
        kernel.is_communication,
        is_reshaped,
        before.calls,
        after.calls,
        before.mean_ns,
        after.mean_ns,
        before.time_ns,
        after.time_ns,
        difference,
        contribution,
    )


def _status(is_listed: tuple[bool, bool], before: Figures, after: Figures) -> str:
    if before.time_ns is None or after.time_ns is None:
        return COMMON if all(is_listed) else UNLISTED
    if not all(is_listed):
        return REMOVED if is_listed[0] else NEW
    more: float = after.time_ns - before.time_ns
    if before.mean_ns is not None and after.mean_ns is not None:
        more = after.mean_ns - before.mean_ns
    return SLOWER if more > 0 else FASTER if more < 0 else SAME_TIME


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
