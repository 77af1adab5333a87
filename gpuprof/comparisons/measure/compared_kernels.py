"""Every kernel of a candidate beside the baseline's: times, the same calls, kernels of one side.

Recordings of a fixed time hold as much work as went into it: what they take says nothing of
speed. The work of one side at the other's means is an index of quantity (Laspeyres), the means
at the same calls one of price (Paasche). Kernels that one side has alone, where they take much of
its kernels' time, are another program: fused kernels, another library or data type, a backward
pass. What both sides share then tells little of the difference.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.base.kernel_names import short_name
from gpuprof.base.statistics import LEAST_RUNS, adjusted, rank_tests
from gpuprof.comparisons.measure.compared_steps import FROM_CALLS, ComparedSteps, restricted
from gpuprof.comparisons.measure.matching import Kernel, Kernels, Key, has_shapes, plain_name
from gpuprof.comparisons.measure.measured_runs import MeasuredRun, Variant
from gpuprof.facts.numbers import columns_of, groups, order_of
from gpuprof.facts.step_windows import StepWindows

# Calls that differ by more than this share of the work are other work.
_SAME_WORK: Final = 0.02
# Kernels of both must be this share of each side's kernels to stand for its work: two real
# recordings that shared 54 % had calls 9 % longer, and 6 % less GPU time.
_LEAST_COMMON: Final = 0.8
# Fewer calls on a device tell nothing of the time from one to the next.
_LEAST_CALLS: Final = 4
Row = dict[str, Any]
# Calls and time of one step, and the mean of a call; None where unknown.
_Figures = tuple[float | None, int | None, float | None]


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

    def figures(self, key: Key) -> _Figures:
        """Calls and time of a kernel in one step, and the mean of a call.

        Of the median run, or the mean of both in the middle. None where unknown, 0 calls and 0 ns
        where it did not run.
        """
        absent = Kernel("", 0, 0) if self.is_whole else Kernel("", None, None)
        middle = [
            (kernels.get(key, absent), run.compared.steps or 1) for run, kernels in self.middle
        ]
        steps = [steps for _, steps in middle]
        calls = _mean([kernel.calls for kernel, _ in middle], steps)
        time_ns = _mean([kernel.total_ns for kernel, _ in middle], steps)
        return (
            None if calls is None else float(calls),
            None if time_ns is None else round(time_ns),
            float(time_ns / calls) if calls and time_ns is not None else None,
        )


def _mean(amounts: Sequence[int | None], steps: Sequence[int]) -> Fraction | None:
    """The mean over runs of what a step has; None where one is unknown."""
    of_steps = [Fraction(v, n) for v, n in zip(amounts, steps, strict=True) if v is not None]
    return sum(of_steps, Fraction()) / len(of_steps) if len(of_steps) == len(amounts) else None


def kernel_rows(base: Side, candidate: Side) -> list[Row]:
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
    if keys and all(len(side.kernels) >= LEAST_RUNS and side.is_whole for side in sides):
        # A row for each kernel: its time in a step of every run.
        of_runs = (
            [
                [
                    (kernels[key].total_ns or 0) / (run.compared.steps or 1)
                    if key in kernels
                    else 0.0
                    for run, kernels in side.pairs
                ]
                for key in keys
            ]
            for side in sides
        )
        p_values = rank_tests(*map(np.array, of_runs))
        for row, p, adjusted_p in zip(
            rows, p_values.tolist(), adjusted(p_values).tolist(), strict=True
        ):
            row |= {"p_value": p, "adjusted_p_value": adjusted_p}
    return sorted(
        rows,
        key=lambda row: (
            -abs(row["difference_ns"] or 0),
            -max(row["baseline_ns"] or 0, row["candidate_ns"] or 0),
            row["name"],
        ),
    )


def _pair(key: Key, base: Side, candidate: Side, *, is_reshaped: bool) -> Row:
    """One kernel of either side."""
    before, after = base.figures(key), candidate.figures(key)
    (calls, time_ns, mean_ns), (other_calls, other_ns, other_mean_ns) = before, after
    is_listed = key in base.keys, key in candidate.keys
    if time_ns is None or other_ns is None:
        # A time is unknown, or the side that lacks it lists only a part of its kernels.
        more, status = None, "common" if all(is_listed) else "unlisted"
    else:
        more = other_ns - time_ns
        are_called = mean_ns is not None and other_mean_ns is not None
        longer = (other_mean_ns or 0) - (mean_ns or 0) if are_called else more
        status = "slower" if longer > 0 else "faster" if longer < 0 else "same"
        if not all(is_listed):
            status = "removed" if is_listed[0] else "new"
    total_ns = base.variant.median_figure("kernel_ns")
    kernel = next(of_run[key] for of_run in (*base.kernels, *candidate.kernels) if key in of_run)
    return {
        "variant": candidate.variant.label,
        "name": kernel.name,
        "short_name": short_name(kernel.name),
        "grid": key.grid,
        "block": key.block,
        "status": status,
        "is_communication": kernel.is_communication,
        "is_reshaped": is_reshaped,
        "baseline_calls": calls,
        "candidate_calls": other_calls,
        "baseline_mean_ns": mean_ns,
        "candidate_mean_ns": other_mean_ns,
        "baseline_ns": time_ns,
        "candidate_ns": other_ns,
        "difference_ns": more,
        "contribution": more / total_ns if total_ns and more is not None else None,
    }


class CommonCalls(NamedTuple):
    """The calls of compute kernels that both sides have, per step where steps are compared.

    Args:
        baseline_ns: The baseline's calls at its means.
        moved_ns: Calls that one side has more, at the baseline's means.
        candidate_ns: The candidate's calls at the baseline's means.
        actual_ns: The candidate's calls at its own means.
        name: The kernel with the longest total of both sides, in all launch shapes.
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


def calls_of(kernels: Sequence[Row]) -> CommonCalls | None:
    """What the calls of kernels come to.

    Returns:
        None where calls are unknown, or where the sides have too few kernels in common: those in
        other launch shapes may do more or less in a call.
    """
    computing = [row for row in kernels if not row["is_communication"]]
    # By name, in whatever launch shapes: calls of both sides, and times as in `CommonCalls`.
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for row in computing:
        if row["baseline_mean_ns"] and row["candidate_mean_ns"] and not row["is_reshaped"]:
            before, after = row["baseline_calls"] or 0, row["candidate_calls"] or 0
            means = row["baseline_mean_ns"], row["candidate_mean_ns"]
            figures = before, after, before * means[0], after * means[0], after * means[1]
            sums[row["name"]] = [*map(sum, zip(sums[row["name"]], figures, strict=True))]
    if not sums:
        return None
    _, _, before_ns, after_ns, actual_ns = map(sum, zip(*sums.values(), strict=True))
    all_before_ns = sum(row["baseline_ns"] or 0 for row in computing)
    all_after_ns = sum(row["candidate_ns"] or 0 for row in computing)
    if before_ns < _LEAST_COMMON * all_before_ns or actual_ns < _LEAST_COMMON * all_after_ns:
        return None
    # Calls that one side has more, at the baseline's mean.
    moved_ns = {name: abs(s[1] - s[0]) * s[2] / s[0] for name, s in sums.items()}
    # The same one whichever side is the baseline.
    name = max(sums, key=lambda text: (sums[text][2] + sums[text][4], text))
    moved = max(sums, key=lambda text: moved_ns[text])
    times = before_ns, sum(moved_ns.values()), after_ns, actual_ns
    return CommonCalls(*times, name, moved, *sums[moved][:2])


def by_call(compared: ComparedSteps, name: str) -> ComparedSteps | None:
    """A recording from one call of a kernel to the next on its device, as if these were steps.

    The kernel is named in the words of any tool.

    Returns:
        None where it is called too seldom to tell.
    """
    profile = compared.profile.unrestricted
    if not profile.has("kernels", "memcpys"):
        return None
    plain, names = plain_name(name), profile.loaded("kernels").names
    is_it = names.values(lambda text: text == name or plain_name(text) == plain, 0)
    columns = profile.columns("kernels", "device_id", "start_ns", "name_id")
    calls = (
        [c[is_it.of(number) == 1] for c in (device, start)] for device, start, number in columns
    )
    device, start = columns_of(calls, 2)
    order = order_of(start)
    device, start = device[order], start[order]
    windows = [start[rows] for rows in groups(device)]
    series = tuple(
        StepWindows(None, (number,), name, FROM_CALLS, starts[:-1], starts[1:])
        for number, starts in zip(np.unique(device).tolist(), windows, strict=True)
        if len(starts) > _LEAST_CALLS
    )
    return restricted(ComparedSteps(profile, None, series, FROM_CALLS)) if series else None


def other_kernels_of(kernels: Sequence[Row]) -> list[tuple[str, int, float]] | None:
    """The compute kernels that each side has alone, in no launch shape on the other.

    Returns:
        Of the baseline, then of the candidate: the name of the one that takes most (empty for
        none), what all of them take, per step where steps are compared, and the share of it in the
        side's kernels. None where those of both take 80 % of the kernels' time or more on both
        sides, where a side has no kernels, or where times are unknown.
    """
    sides = []
    computing = [row for row in kernels if not row["is_communication"]]
    for own_ns, other_ns in (("baseline_ns", "candidate_ns"), ("candidate_ns", "baseline_ns")):
        times_ns: Counter[str] = Counter()
        for row in computing:
            if row[own_ns] and not row[other_ns] and not row["is_reshaped"]:
                times_ns[row["name"]] += row[own_ns]
        if not (total_ns := sum(row[own_ns] or 0 for row in computing)):
            return None
        name = max(times_ns, key=lambda text: times_ns[text], default="")
        sides.append((name, times_ns.total(), times_ns.total() / total_ns))
    return sides if max(share for *_, share in sides) > 1 - _LEAST_COMMON else None
