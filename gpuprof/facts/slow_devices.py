"""Which devices are slow beside the others in the same steps, and in which steps.

Steps differ in their work, so that a device is compared with the median of all in each step. It
may be slow in some steps only: in those after one another whose excess adds up to most.

Sources: E. S. Page, Continuous Inspection Schemes, Biometrika 41, 1954; B. Iglewicz, D. C. Hoaglin,
How to Detect and Handle Outliers, 1993, for the modified z-score.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Of two devices either may be the usual one.
_LEAST_DEVICES: Final = 3
# Of fewer, most may be near the median by chance.
_MANY_DEVICES: Final = 5
# Values are outliers whose distance from the median, times 0.6745, is beyond 3.5 median distances.
_Z: Final = 0.6745
_OUTLYING: Final = 3.5
# Less than that above the median is no reason to look at a device, however alike the others are;
# nor, beside few others, by what GPUs of one model differ (P. Sinha et al., Not All GPUs Are
# Created Equal, SC22).
_LEAST_RATIO: Final = 1.01
_LEAST_RATIO_OF_FEW: Final = 1.1
# A standard deviation from the median absolute deviation of normal values; steps that are more
# alike than to 1 % are taken to differ by that.
_DEVIATION: Final = 1.4826
_LEAST_SPREAD: Final = 0.01
# What a step counts, so that single slow ones do not outweigh many usual ones, and steps that
# exceed the median by chance end what is looked at: in standard deviations.
_MOST_DEVIATIONS: Final = 6
_DRIFT: Final = 0.5
# The median excess of the steps, in standard deviations over the root of their number. It was
# reached in 2 of 2,160 drawn series of steps without a slow device, of 3 to 64 devices: both of
# 64 devices with log-normal noise.
_LEAST_EXCESS: Final = 6
# Slow steps in a smaller share of all are single ones.
_LEAST_SHARE: Final = 1 / 8
# Borders settle after two or three rounds.
_MOST_ROUNDS: Final = 10


def slow_steps(times: Floats) -> Mapping[int, slice] | None:
    """The slow devices, each with the steps in which it is slow.

    Args:
        times: A row per device and a column per step; NaN where unknown. Of each device one step
            is known at least, of each step two devices.

    Returns:
        The row of each slow device with its columns, of which the first is known; None for fewer
        than three devices.
    """
    if len(times) < _LEAST_DEVICES:
        return None
    excess = beside_median(times) - 1
    is_known = ~np.isnan(excess)
    # Of each step one device may be the median, whose excess tells nothing.
    middle = (1 + 1 / len(times)) / 2
    distances = np.abs(excess[is_known])
    spread = max(
        _DEVIATION * float(np.quantile(distances, middle)) if len(distances) else 0, _LEAST_SPREAD
    )
    scores = np.where(is_known, np.minimum(excess / spread, _MOST_DEVIATIONS) - _DRIFT, 0)
    slow = {}
    for row, score in enumerate(scores):
        steps = _bordered(excess[row], _largest_sum(score))
        excesses = excess[row, steps][is_known[row, steps]]
        if len(excesses) < _LEAST_SHARE * times.shape[1] or not len(excesses):
            continue
        is_sure = np.median(excesses) * np.sqrt(len(excesses)) >= _LEAST_EXCESS * spread
        if is_sure and _is_outlier(row, excess[:, steps] + 1):
            # Few usual steps after them do not tell that it has become as fast as the others.
            is_last = times.shape[1] - steps.stop < _LEAST_SHARE * times.shape[1]
            slow[row] = slice(steps.start, times.shape[1] if is_last else steps.stop)
    return slow


def beside_median(times: Floats) -> Floats:
    """Times of devices by the median over the devices in the same step; NaN where that is 0."""
    usual = np.nanmedian(times, axis=0)
    ratios: Floats = times / np.where(usual > 0, usual, np.nan)
    return ratios


def _bordered(excess: Floats, steps: slice) -> slice:
    """Steps of a device whose excess is nearer to the usual one among them than to none."""
    for _ in range(_MOST_ROUNDS):
        if np.isnan(excess[steps]).all():
            break
        middle = float(np.nanmedian(excess[steps])) / 2
        nearer = _largest_sum(np.where(np.isnan(excess), 0, np.where(excess > middle, 1, -1)))
        if nearer == steps:
            break
        steps = nearer
    return steps


def _largest_sum(values: Floats) -> slice:
    """The values after one another whose sum is largest; none where none is positive.

    Source: J. Bentley, Programming Pearls, Communications of the ACM 27, 1984.
    """
    sums = np.append(0, np.cumsum(values))
    stop = int((sums - np.minimum.accumulate(sums)).argmax())
    # The last of equal minima, so that the first value counts.
    start = stop - int(sums[: stop + 1][::-1].argmin())
    return slice(start, stop)


def _is_outlier(row: int, ratios: Floats) -> bool:
    """Whether a device's median over some steps is far above those of the others."""
    rows = np.flatnonzero(~np.isnan(ratios).all(axis=1))
    usual: Floats = np.nanmedian(ratios[rows], axis=1)
    median, of_device = float(np.median(usual)), float(usual[np.searchsorted(rows, row)])
    least = _LEAST_RATIO if len(usual) >= _MANY_DEVICES else _LEAST_RATIO_OF_FEW
    distance = float(np.median(np.abs(usual - median)))
    return of_device > least * median and _Z * (of_device - median) > _OUTLYING * distance
