"""Of which kind each step is: by its mix of kernels, then by the time that it takes."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.statistics import median
from gpuprof.facts.numbers import groups
from gpuprof.facts.step_times import are_similar, levels, warm_up_steps
from gpuprof.model.intervals import Int64s

# What a step is to its phase. `UNUSUAL` are those of another kind, too few for a phase of their
# own, and those that end with the pause between two phases.
SAMPLE, WARM_UP, CUT, UNUSUAL = range(4)
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
    Source: J. A. Hartigan, Clustering Algorithms, 1975, chapter 3; likeness as in M. Ruzicka,
    1958: kernels that both have / kernels that either has.

    Args:
        numbers: Of kernels.
        counts: How many of each are in each step, a row per step.
    """
    # Different mixes have different sums, as good as always.
    factors = [pow(48_271, power, (1 << 31) - 1) for power in (numbers + 1).tolist()]
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
