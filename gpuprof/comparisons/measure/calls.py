"""Whether both sides do the same work, and how much longer each call of a kernel takes.

Recordings of a fixed time hold as much work as went into it: what they take says nothing of
speed. The work of one side at the other's means is an index of quantity (Laspeyres), the means
at the same calls one of price (Paasche).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gpuprof.comparisons.measure.compared_steps import FROM_CALLS, ComparedSteps, restricted
from gpuprof.comparisons.measure.matching import plain_name
from gpuprof.comparisons.rows import KernelPair
from gpuprof.facts.launches import by_time
from gpuprof.facts.numbers import columns_of, groups, names_by_number
from gpuprof.facts.step_windows import StepWindows
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile

# Calls that differ by more than this share of the work are other work.
_SAME_WORK: Final = 0.02
# Kernels of both must be this share of each side's kernels to stand for its work: two real
# recordings that shared 54 % had calls 9 % longer, and 6 % less GPU time.
LEAST_COMMON: Final = 0.8
# Fewer calls on a device tell nothing of the time from one to the next.
_LEAST_CALLS: Final = 4


class Calls(NamedTuple):
    """The calls of compute kernels that both sides have, per step where steps are compared.

    Args:
        baseline_ns: The baseline's calls at its means.
        moved_ns: Calls that one side has more, at the baseline's means.
        candidate_ns: The candidate's calls at the baseline's means.
        actual_ns: The candidate's calls at its own means.
        name: The kernel with the longest total of the baseline, in all launch shapes.
        moved: The kernel whose calls differ most, in time.
        moved_baseline: Its calls in the baseline.
        moved_candidate: Those in the candidate.
    """

    baseline_ns: float
    moved_ns: float
    candidate_ns: float
    actual_ns: float
    name: str
    moved: str
    moved_baseline: float
    moved_candidate: float

    @property
    def are_unequal(self) -> bool:
        """Whether the sides do other amounts of work."""
        return self.moved_ns > _SAME_WORK * self.baseline_ns

    @property
    def work_growth(self) -> float:
        """How much more work the candidate's calls are, as a share."""
        return self.candidate_ns / self.baseline_ns - 1

    @property
    def mean_growth(self) -> float:
        """How much longer a call takes, as a share."""
        return self.actual_ns / self.candidate_ns - 1


def calls_of(kernels: Sequence[KernelPair]) -> Calls | None:
    """What the calls of kernels come to.

    Args:
        kernels: The rows of one candidate.

    Returns:
        None where calls are unknown, or where the sides have too few kernels in common: those in
        other launch shapes may do more or less in a call.
    """
    computing = [row for row in kernels if not row.is_communication]
    common = [
        row
        for row in computing
        if row.baseline_mean_ns and row.candidate_mean_ns and not row.is_reshaped
    ]
    if not common:
        return None
    by_name: dict[str, list[_Row]] = defaultdict(list)
    for row in common:
        by_name[row.name].append(_row(row))
    sums = {name: _Row(*map(sum, zip(*rows, strict=True))) for name, rows in by_name.items()}
    total = _Row(*map(sum, zip(*sums.values(), strict=True)))
    before, after = (
        sum(ns or 0 for ns in side) for side in zip(*map(_times, computing), strict=True)
    )
    if total.before_ns < LEAST_COMMON * before or total.actual_ns < LEAST_COMMON * after:
        return None
    name = max(sums, key=lambda text: sums[text].before_ns)
    moved = max(sums, key=lambda text: sums[text].moved_ns)
    moved_ns = sum(row.moved_ns for row in sums.values())
    times = total.before_ns, moved_ns, total.after_ns, total.actual_ns
    return Calls(*times, name, moved, sums[moved].before, sums[moved].after)


class _Row(NamedTuple):
    """Calls of a kernel on both sides, and their times as in `Calls`."""

    before: float
    after: float
    before_ns: float
    after_ns: float
    actual_ns: float

    @property
    def moved_ns(self) -> float:
        """Calls that one side has more, in whatever launch shapes, at the baseline's mean."""
        return abs(self.after - self.before) * self.before_ns / self.before


def _row(row: KernelPair) -> _Row:
    before, after = row.baseline_calls or 0, row.candidate_calls or 0
    mean, other_mean = row.baseline_mean_ns or 0, row.candidate_mean_ns or 0
    return _Row(before, after, before * mean, after * mean, after * other_mean)


def _times(row: KernelPair) -> tuple[int | None, int | None]:
    return row.baseline_ns, row.candidate_ns


def by_call(compared: ComparedSteps, name: str) -> ComparedSteps | None:
    """A recording from one call of a kernel to the next on its device, as if these were steps.

    Args:
        compared: The recording.
        name: The kernel's name, in the words of any tool.

    Returns:
        None where it is called too seldom to tell.
    """
    profile = compared.profile.unrestricted
    if not profile.has("kernels", "memcpys"):
        return None
    device, start = _calls(profile, name)
    windows = [start[rows] for rows in groups(device)]
    series = tuple(
        StepWindows(None, (number,), name, FROM_CALLS, starts[:-1], starts[1:])
        for number, starts in zip(np.unique(device).tolist(), windows, strict=True)
        if len(starts) > _LEAST_CALLS
    )
    return restricted(ComparedSteps(profile, None, series, FROM_CALLS)) if series else None


def _calls(profile: Profile, name: str) -> tuple[Int64s, Int64s]:
    """Device and start of each call of a kernel, in the order of time."""
    plain = plain_name(name)
    names = names_by_number(profile, "kernels")
    is_it = names.values(lambda text: text == name or plain_name(text) == plain, 0)
    calls = (
        [column[is_it.of(number) == 1] for column in (device, start)]
        for device, start, number in profile.integers("kernels", "device_id", "start_ns", "name_id")
    )
    device, start = columns_of(calls, 2)
    order = by_time(start)
    return device[order], start[order]
