"""Kernels that one side has alone, where they take much of its kernels' time: another program.

Fused kernels, another library or data type, a backward pass: what both sides share then tells
little of the difference.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.comparisons.measure.calls import LEAST_COMMON
from gpuprof.comparisons.rows import KernelPair


class KernelsAlone(NamedTuple):
    """Kernels that run on one side alone, in no launch shape on the other.

    Args:
        number: How many names they have.
        alone_ns: What they take, per step where steps are compared.
        total_ns: What all compute kernels of the side take.
        name: That which takes most; empty where there is none.
    """

    number: int
    alone_ns: int
    total_ns: int
    name: str

    @property
    def share(self) -> float:
        """Their share of the side's compute kernels; 0 where it has none."""
        return self.alone_ns / self.total_ns if self.total_ns else 0.0


class OtherKernels(NamedTuple):
    """The kernels that each side has alone."""

    baseline: KernelsAlone
    candidate: KernelsAlone


def other_kernels_of(kernels: Sequence[KernelPair]) -> OtherKernels | None:
    """The kernels of one side alone.

    Args:
        kernels: The rows of one candidate.

    Returns:
        None where those of both take 80 % of the kernels' time or more on both sides, where a side
        has no kernels, or where times are unknown.
    """
    computing = [row for row in kernels if not row.is_communication]
    sides = [
        [(row, row.baseline_ns, row.candidate_ns) for row in computing],
        [(row, row.candidate_ns, row.baseline_ns) for row in computing],
    ]
    baseline, candidate = (_alone(side) for side in sides)
    if not (baseline.total_ns and candidate.total_ns):
        return None
    are_few = max(baseline.share, candidate.share) <= 1 - LEAST_COMMON
    return None if are_few else OtherKernels(baseline, candidate)


def _alone(rows: Sequence[tuple[KernelPair, int | None, int | None]]) -> KernelsAlone:
    """Those of one side, whose time comes first in each row."""
    times: dict[str, int] = {}
    for row, time_ns, other_ns in rows:
        if time_ns and not other_ns and not row.is_reshaped:
            times[row.name] = times.get(row.name, 0) + time_ns
    total_ns = sum(time_ns or 0 for _, time_ns, _ in rows)
    name = max(times, key=lambda text: times[text], default="")
    return KernelsAlone(len(times), sum(times.values()), total_ns, name)
