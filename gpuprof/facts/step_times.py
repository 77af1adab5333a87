"""What steps take: where their time changes, what it goes to, and of which kind each step is."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.statistics import median
from gpuprof.base.units import say_ns
from gpuprof.facts.numbers import groups
from gpuprof.model.intervals import Int64s

_LEAST_LEFT: Final = 2
_MOST_WARM_UP: Final = 50
_MOST_SHARE: Final = 1 / 3
# Of fewer steps that may be warm-up, none is searched for among slow ones.
_FEW: Final = 3
# So much more than the most that a warm-up may have is a level of its own.
_LONG: Final = 0.2
# A step of the warm-up takes longer than those after it by so many standard deviations (a normal
# distribution's, from the median absolute deviation), and by such a share of them.
_DEVIATIONS: Final = 3 * 1.4826
_LONGER: Final = 0.02
_LEVEL: Final = 0.05
# Usual times of one level differ less than by this factor.
SIMILAR: Final = 1.25
# The mean of steps stands beside their median where they differ by more.
_APART: Final = 0.05
# Steps differ so much that the median tells nothing of their mean; and how that is said of them.
_UNEVEN: Final = 1.1
IN_THE_MEAN: Final = "Single steps often take longer: in the mean without the longest twentieth,"
_LEAST_TYPICAL: Final = 3


def warm_up_steps(lengths: Int64s) -> int:
    """How many steps at the beginning take longer than those that follow them.

    The change point of the signs of the first steps, less what the steps after them usually take
    and vary, is where their sum is largest. So single slow steps later on do not count, nor does
    a single usual one between slow ones. At most a third of the steps, or two, are warm-up, and
    two or more are left. Where steps are slow for longer than that, the warm-up is searched for
    among the slow ones alone.

    Source: G. A. McGilchrist, K. D. Woodyer, Note on a Distribution-free CUSUM Technique,
    Technometrics 17, 1975; E. S. Page, Continuous Inspection Schemes, Biometrika 41, 1954.

    Args:
        lengths: Times of steps in ns, in order.
    """
    most = min(max(int(len(lengths) * _MOST_SHARE), 2), len(lengths) - _LEAST_LEFT, _MOST_WARM_UP)
    if most < 1:
        return 0
    # Few of those that follow are slow, so that the change point lies before their end.
    looked_at = lengths[: 3 * most + _MOST_WARM_UP]
    following = looked_at[most:]
    usual = median(following)
    spread = median(np.abs(following - usual))
    is_slow = looked_at > usual + max(_DEVIATIONS * spread, _LONGER * usual)
    surplus = np.cumsum(np.where(is_slow, 1, -1))
    change = int(surplus.argmax()) + 1
    if most < _FEW or change - most < _LONG * most:
        return int(surplus[:most].argmax()) + 1 if surplus[:most].max() > 0 else 0
    return warm_up_steps(lengths[:change])


def typical_steps(lengths: Int64s) -> Int64s:
    """Indices of the third of some steps that is nearest to the median in length, at least three.

    What they go to is what the median goes to: a mean over all steps would be that of outliers,
    and medians of single parts may exceed that of the steps.
    """
    nearest = np.argsort(np.abs(lengths - median(lengths)), kind="stable")
    return nearest[: max(_LEAST_TYPICAL, len(lengths) // 3)]


def parts_of_median(lengths: Int64s, parts: Sequence[Int64s]) -> list[int]:
    """What the median step goes to: each part, then what none of them covers.

    The parts are those of `typical_steps`, in the ratio that adds up to the median.

    Args:
        lengths: Times of steps in ns, at least one.
        parts: For each part how much of each step it takes, together at most all of it.

    Returns:
        Whole ns that add up to the median, rounded down.
    """
    middle, typical = int(median(lengths)), typical_steps(lengths)
    usual_ns = lengths[typical].mean()
    until = np.cumsum([0, *(values[typical].mean() for values in parts)])
    scale = middle / usual_ns if usual_ns else 1
    borders = np.append(np.minimum(np.rint(until * scale), middle), middle)
    return [int(ns) for ns in np.diff(borders)]


def mean_beside(lengths: Int64s) -> str:
    """``; mean 2.5 ms``, to follow a median of steps that is far from it; else empty."""
    middle, mean = median(lengths), lengths.mean()
    is_apart = abs(mean - middle) > _APART * middle
    return f"; mean {say_ns(mean)}" if is_apart else ""


def usual_of(steps: Int64s) -> int:
    """What a step pays of something that each of some steps pays so much of.

    The median over the steps, or the mean without the longest twentieth where that is more:
    some costs come with every other step, and a single step's tell nothing of the others.
    """
    ordered = np.sort(steps).tolist()
    usual = ordered[: len(ordered) - -(-len(ordered) // 20)] if len(ordered) > 1 else ordered
    # NumPy's median and mean take ten times as long for as few steps as most recordings have.
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return int(max(sum(middle) / 2, sum(usual) / len(usual)))


def uneven_ns(lengths: Int64s) -> int | None:
    """What a step usually takes where single ones often take longer; None where the median tells.

    That is where the mean without the longest twentieth is a tenth more than the median.
    """
    usual_ns = usual_of(lengths)
    return usual_ns if usual_ns > _UNEVEN * median(lengths) else None


def levels(lengths: Int64s) -> list[slice]:
    """Stretches of steps of similar length: split where a change of it lasts.

    A stretch is split where the ranks of its lengths change most, if that is significant at 5 %
    and the medians differ by a quarter, and each side again.

    Source: A. N. Pettitt, A Non-parametric Approach to the Change-point Problem, Applied
    Statistics 28, 1979; split again and again as in L. J. Vostrikova, Detecting "Disorder" in
    Multidimensional Random Processes, Soviet Mathematics Doklady 24, 1981.
    """
    place = _change(lengths)
    if place is None:
        return [slice(0, len(lengths))]
    later = levels(lengths[place:])
    return [
        *levels(lengths[:place]),
        *(slice(place + level.start, place + level.stop) for level in later),
    ]


def are_similar(one_ns: float, other_ns: float) -> bool:
    """Whether two usual times of steps are of one level."""
    return max(one_ns, other_ns) < SIMILAR * min(one_ns, other_ns)


def _change(lengths: Int64s) -> int | None:
    """How many steps precede the one change of their time; None for no change."""
    number = len(lengths)
    if number < 2 * _LEAST_LEFT:
        return None
    _, member, ties = np.unique(lengths, return_inverse=True, return_counts=True)
    # Ranks, those of ties their mean.
    rank = (np.cumsum(ties) - (ties - 1) / 2)[member]
    excess = np.abs(2 * np.cumsum(rank) - np.arange(1, number + 1) * (number + 1))
    place = int(excess[:-1].argmax()) + 1
    chance = 2 * np.exp(-6 * excess[place - 1] ** 2 / (number**3 + number**2))
    before, after = (float(median(part)) for part in (lengths[:place], lengths[place:]))
    if chance > _LEVEL or are_similar(before, after):
        return None
    # Ranks within a level move the place by some steps: it is where most lie on their side.
    is_before = (lengths > np.sqrt(before * after)) == (before > after)
    return int(np.cumsum(np.where(is_before, 1, -1))[:-1].argmax()) + 1


# What a step is to its phase. `UNUSUAL` are those of another kind, too few for a phase of their
# own, and those that end with the pause between two phases.
SAMPLE, WARM_UP, CUT, UNUSUAL = range(4)
STATUS: Final = {SAMPLE: "sample", WARM_UP: "warm_up", CUT: "cut", UNUSUAL: "other"}
LEAST_STEPS: Final = 3

# Of the kernels that either of two steps has, those that both have, in steps of one kind.
_COMMON: Final = 0.5
# A different time of fewer steps than that is no phase.
_LEAST_LEVEL: Final = 5
_MOST_MIXES: Final = 50

_Flags = npt.NDArray[np.bool_]


def mixes(numbers: Int64s, counts: Int64s) -> Int64s:
    """A number for each step's mix of kernels; steps of one number have most of them in common.

    The most frequent mix leads those that are like it, the most frequent of the others the next.
    Source: J. A. Hartigan, Clustering Algorithms, 1975, chapter 3; likeness as in M. Ruzicka, 1958:
    kernels that both have / kernels that either has. ``counts`` has a row per step and a column for
    each of the kernels' numbers.
    """
    # Different mixes have different sums, as good as always.
    factors = [*map(_factor, numbers.tolist())]
    _, first, number = np.unique(
        counts @ np.array(factors, np.int64), return_index=True, return_inverse=True
    )
    unassigned = np.argsort(-np.bincount(number), kind="stable")
    mix = np.full(len(first), _MOST_MIXES)
    for leader in range(_MOST_MIXES):
        if not len(unassigned):
            break
        mixes = counts[first[unassigned]]
        either = np.maximum(mixes, mixes[:1]).sum(axis=1)
        is_like = np.minimum(mixes, mixes[:1]).sum(axis=1) >= _COMMON * either
        mix[unassigned[is_like]], unassigned = leader, unassigned[~is_like]
    return mix[number]


@cache
def _factor(number: int) -> int:
    """A number of its own for each of a few numbers, as random ones are."""
    return pow(48_271, number + 1, (1 << 31) - 1)


def kinds(alike: Sequence[Int64s], is_cut: _Flags) -> tuple[Int64s, _Flags]:
    """A number of the kind of each step, and which steps are of another one that is too rare.

    These, and steps that are cut off, count to the kind of the step before, or the first one's.
    """
    kind = np.empty(len(is_cut), np.int64)
    for number, rows in enumerate(alike):
        kind[rows] = number
    is_often = np.bincount(kind[~is_cut], minlength=len(alike)) >= LEAST_STEPS
    is_rare = ~is_often[kind] & is_often.any()
    typical = np.flatnonzero(~is_rare & ~is_cut)
    if len(typical):
        before = np.searchsorted(typical, np.arange(len(kind)), side="right") - 1
        kind = kind[typical[np.maximum(before, 0)]]
    return kind, is_rare


def by_level(
    kind: Int64s,
    section: Int64s,
    status: npt.NDArray[np.int8],
    length: Int64s,
    skip_steps: int | None,
) -> tuple[Int64s, npt.NDArray[np.int8]]:
    """The phases: kinds split by the time of their steps, and what is known with the warm-up.

    Returns:
        A number of the phase of each step, and the status of each.
    """
    phase, status = np.empty_like(kind), status.copy()
    count = 0
    for rows in groups(kind):
        samples = rows[status[rows] == SAMPLE]
        stretches = _split(samples, length, section)
        first = np.array([stretch[0] for stretch in stretches] or [0])
        # A number for the level of each stretch's usual time; the first one's is 0.
        leaders: list[float] = []
        level = []
        for usual in (float(median(length[stretch])) for stretch in stretches):
            near = [place for place, leader in enumerate(leaders) if are_similar(usual, leader)]
            level.append(near[0] if near else len(leaders))
            leaders += [] if near else [usual]
        place = np.searchsorted(first, rows, side="right") - 1
        phase[rows] = count + np.array(level or [0])[np.maximum(place, 0)]
        for number in range(count, count + max(len(leaders), 1)):
            members = samples[phase[samples] == number]
            skipped = warm_up_steps(length[members]) if skip_steps is None else skip_steps
            status[members[:skipped]] = WARM_UP
        count += max(len(leaders), 1)
    return phase, status


def _split(samples: Int64s, length: Int64s, section: Int64s) -> list[Int64s]:
    """Stretches of steps between which their time or the range around them changes."""
    settled = samples[warm_up_steps(length[samples]) :]
    borders = np.flatnonzero(np.diff(section[settled])) + 1
    stretches: list[Int64s] = []
    for part in np.split(settled, borders) if len(settled) else []:
        for level in levels(length[part]):
            if stretches and min(len(part[level]), len(stretches[-1])) < _LEAST_LEVEL:
                stretches[-1] = np.concatenate([stretches[-1], part[level]])
            else:
                stretches.append(part[level])
    return stretches
