"""Noise over repeated runs: medians with intervals, rank tests, many tests at once.

SciPy is imported when it is needed: most comparisons are of single runs.
"""

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from math import comb, floor
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

LEVEL: Final = 0.95
LEAST_RUNS: Final = 2
_RESAMPLES: Final = 9_999
_STEP_RESAMPLES: Final = 999
_LEAST_STEPS: Final = 3
_MOST_STEPS: Final = 2_000
_ROUNDING: Final = 1e-9
_SEED: Final = 20180418  # The same runs give the same interval.

Interval = tuple[float, float]
_Part = TypeVar("_Part", bound=Hashable)


def median(values: npt.NDArray[Any]) -> np.float64:
    """As `np.median` has it, which takes five times as long for few values."""
    middle = [(len(values) - 1) // 2, len(values) // 2]
    low, high = np.partition(values, middle)[middle]
    return np.float64((float(low) + float(high)) / 2)


def quantiles(values: npt.NDArray[np.integer[Any]], *shares: float) -> list[float]:
    """As `np.quantile` has them, which takes ten times as long for few values."""
    ordered, all_quantiles = np.sort(values), list[float]()
    for share in shares:
        place, part = divmod((len(ordered) - 1) * share, 1)
        low, high = ordered[[int(place), min(int(place) + 1, len(ordered) - 1)]].tolist()
        all_quantiles.append(_between(low, high, part))
    return all_quantiles


def quantiles_of_rows(
    values: npt.NDArray[np.integer[Any]], *shares: float
) -> list[npt.NDArray[np.float64]]:
    """The same of each row of a table, as `np.quantile` has them along the last axis."""
    last = values.shape[-1] - 1
    at = [(int(last * share), min(int(last * share) + 1, last)) for share in shares]
    # To sort whole rows takes four times as long.
    ordered = np.partition(values, sorted({place for places in at for place in places}), axis=-1)
    return [
        _between(ordered[..., low], ordered[..., high], last * share % 1)
        for share, (low, high) in zip(shares, at, strict=True)
    ]


def _between(low: Any, high: Any, part: float) -> Any:
    # From the nearer one, as NumPy does it: so rounding is the same.
    return low + (high - low) * part if part < 1 / 2 else high - (high - low) * (1 - part)


def coverage(runs: int) -> float:
    """The most that an interval of the median of so few runs can cover: 1 - 2^(1 - runs).

    It is the chance that the median lies between the smallest and the largest of them.
    Source: H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed., 2003, section 7.1.
    """
    return max(0.0, 1 - 2.0 ** (1 - runs))


def median_interval(values: Sequence[float]) -> Interval | None:
    """The interval of a median by the percentile bootstrap; None from fewer than two runs.

    Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13;
    `scipy.stats.bootstrap`.
    """
    if len(values) < LEAST_RUNS:
        return None
    return _bootstrap((values,), lambda x, axis: np.median(x, axis=axis))


def difference_interval(baseline: Sequence[float], candidate: Sequence[float]) -> Interval | None:
    """The interval of the candidate's median less the baseline's, each side resampled.

    None where a side has fewer than two runs. Source as in `median_interval`.
    """
    if min(len(baseline), len(candidate)) < LEAST_RUNS:
        return None
    return _bootstrap(
        (baseline, candidate),
        lambda before, after, axis: np.median(after, axis=axis) - np.median(before, axis=axis),
    )


def step_interval(lengths: npt.NDArray[np.int64]) -> Interval | None:
    """The interval of the median of steps that follow one another; None from fewer than three.

    Steps depend on those before them, so that blocks of steps are drawn in place of single ones,
    of a length of the cube root of their number. Of very many steps, every so many-th stands for
    all: their interval is wider than need be. Of few steps none covers more than `coverage` says.

    Source: H. R. Kuensch, The Jackknife and the Bootstrap for General Stationary Observations,
    Annals of Statistics 17, 1989; P. Hall, J. L. Horowitz, B.-Y. Jing, On Blocking Rules for the
    Bootstrap with Dependent Data, Biometrika 82, 1995.
    """
    if len(lengths) < _LEAST_STEPS:
        return None
    values = lengths[:: -(-len(lengths) // _MOST_STEPS)]
    block = round(len(values) ** (1 / 3))
    blocks = -(-len(values) // block)
    begin = np.random.default_rng(_SEED).integers(
        0, len(values) - block + 1, (_STEP_RESAMPLES, blocks)
    )
    drawn = values[(begin[:, :, None] + np.arange(block)).reshape(_STEP_RESAMPLES, -1)]
    medians = np.median(drawn[:, : len(values)], axis=1)
    low, high = np.percentile(medians, [100 * (1 - LEVEL) / 2, 100 * (1 + LEVEL) / 2])
    return float(low), float(high)


def _bootstrap(samples: tuple[Sequence[float], ...], statistic: Any) -> Interval:
    from scipy import stats  # half a second that only repeats need

    # SciPy gives no interval where nothing varies.
    if all(min(sample) == max(sample) for sample in samples):
        exact = float(statistic(*samples, axis=-1))
        return exact, exact
    bootstrap = stats.bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=_SEED,
    ).confidence_interval
    return float(bootstrap.low), float(bootstrap.high)


def rank_test(baseline: Sequence[float], candidate: Sequence[float]) -> float | None:
    """Chance of so different ranks if both sides were one; None from fewer than two runs.

    Source: H. B. Mann, D. R. Whitney, Annals of Mathematical Statistics 18, 1947;
    `scipy.stats.mannwhitneyu`.
    """
    if min(len(baseline), len(candidate)) < LEAST_RUNS:
        return None
    return float(rank_tests(np.array([baseline]), np.array([candidate]))[0])


def is_beyond_noise(interval: Interval, p_value: float | None, runs: tuple[int, int]) -> bool:
    """Whether two sides differ: their interval leaves 0 out, and their ranks say so as well.

    An interval from few runs is too short. Of so few that no rank test could fall to 5 %, all
    runs of one side must lie beyond all of the other.

    Args:
        interval: As `difference_interval` gives it.
        p_value: As `rank_test` gives it.
        runs: Of the baseline and the candidate.
    """
    least = 2 / comb(sum(runs), runs[0])
    is_ranked = p_value is not None and p_value <= max(1 - LEVEL, least) + _ROUNDING
    return is_ranked and not interval[0] <= 0 <= interval[1]


def rank_tests(
    baseline: npt.NDArray[np.float64], candidate: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The rank test of every row of two tables, one column per run; at least two on a side."""
    from scipy import stats  # half a second that only repeats need

    # Where all runs of both sides are equal, nothing tells them apart.
    pooled = np.concatenate([baseline, candidate], axis=1)
    varies = pooled.min(axis=1) < pooled.max(axis=1)
    # SciPy takes the exact distribution where no row has ties: those that do are tested apart.
    has_ties = (np.diff(np.sort(pooled, axis=1), axis=1) == 0).any(axis=1)
    p_values = np.ones(len(pooled))
    for rows in (varies & has_ties, varies & ~has_ties):
        if rows.any():
            p_values[rows] = stats.mannwhitneyu(baseline[rows], candidate[rows], axis=1).pvalue
    return p_values


def adjusted(p_values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """P values for as many tests as these: the share of false finds among what they find.

    Source: Y. Benjamini, Y. Hochberg, Journal of the Royal Statistical Society B 57, 1995;
    `scipy.stats.false_discovery_control`.
    """
    from scipy import stats  # half a second that only repeats need

    adjusted_p_values: npt.NDArray[np.float64] = stats.false_discovery_control(p_values)
    return adjusted_p_values


def scaled(parts_ns: Mapping[_Part, float | Fraction], total_ns: int) -> dict[_Part, int]:
    """Parts in whole ns in the ratio that adds up to a total; as they are where all are 0.

    What rounding down leaves goes to the parts that lost most by it, at most 1 ns each.
    """
    exact = {part: Fraction(ns) for part, ns in parts_ns.items()}
    sum_ns = sum(exact.values())
    if sum_ns and round(sum_ns) != total_ns:
        exact = {part: ns * total_ns / sum_ns for part, ns in exact.items()}
    floors_ns = {part: floor(ns) for part, ns in exact.items()}
    lost_ns = round(sum(exact.values())) - sum(floors_ns.values())
    by_loss = sorted(exact, key=lambda part: floors_ns[part] - exact[part])
    return floors_ns | {part: floors_ns[part] + 1 for part in by_loss[:lost_ns]}
