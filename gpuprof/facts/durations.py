"""How long the activities of each name took, from millions of them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base import machine
from gpuprof.model.pairs import changes
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed
from gpuprof.native import arrays

_MOST: Final = 1 << 63
# Of fewer durations a name, passing them to a thread takes longer than their figures.
_FEW: Final = 1_000
# Of so few, each call of numpy takes longer than Python takes for all figures.
_FEWEST: Final = 100
_THREADS: Final = 2
_TWO: Final = 2  # of fewer values there is no deviation
_PIECE: Final = 1 << 20
_TIMED: Final = ("start_ns", "end_ns", "name_id")
Durations = npt.NDArray[Any]


class Figures(NamedTuple):
    """What some durations come to, in ns.

    Args:
        median_ns: Their median; None where only sums are asked for.
        stddev_ns: Standard deviation of the sample; None for a single duration, and for sums.
    """

    calls: int
    total_ns: int
    min_ns: int
    max_ns: int
    mean_ns: float
    median_ns: float | None = None
    stddev_ns: float | None = None


def figures_by_name(profile: Profile, table: str) -> Mapping[str, Figures]:
    """Sums and quantiles of the durations of each name that occurs.

    The table is ``kernels`` or ``api_calls``.

    Raises:
        OverflowError: The durations add up to more than 64 bits hold.
    """
    by_name = dict(durations_by_name(profile, table))
    of_names: Iterable[Figures | None] = map(figures, by_name.values())
    is_worth_it = profile.is_large and profile.unrestricted.events >= _FEW * len(by_name)
    if is_worth_it and (threads := machine.thread_count(_THREADS)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            of_names = pool.map(figures, by_name.values())
    return {name: of for name, of in zip(by_name, of_names, strict=True) if of is not None}


def sums_by_name(profile: Profile, table: str) -> Mapping[str, Figures]:
    """The same without quantiles and deviations, for which no duration is kept.

    Raises:
        OverflowError: The durations add up to more than 64 bits hold.
    """
    names, place_of = profile.loaded(table).names.distinct, profile.loaded(table).names.places.of
    calls, total, most = (np.zeros(len(names), np.int64) for _ in range(3))
    least = np.full(len(names), np.iinfo(np.int64).max)
    for start, end, name_id in profile.columns(table, *_TIMED):
        # NumPy has fast ways for one width alone.
        place, of_rows = place_of(name_id).astype(np.int64), end - start
        calls += np.bincount(place, minlength=len(names))
        np.add.at(total, place, of_rows)
        np.minimum.at(least, place, of_rows)
        np.maximum.at(most, place, of_rows)
    if int(most.max(initial=0)) * int(calls.sum()) >= _MOST:  # a sum may have wrapped around
        return figures_by_name(profile, table)
    rows = zip(names, *(column.tolist() for column in (calls, total, least, most)), strict=True)
    return {
        name: Figures(number, sum_ns, min_ns, max_ns, sum_ns / number)
        for name, number, sum_ns, min_ns, max_ns in rows
        if number
    }


def durations_by_name(profile: Profile, table: str) -> Iterator[tuple[str, Durations]]:
    """The durations in ns of each name that occurs among kernels or API calls."""
    names, columns = profile.loaded(table).names, profile.columns(table, *_TIMED)
    parts = [(narrowed(end - start), names.places.of(name_id)) for start, end, name_id in columns]
    pairs = zip(names.distinct, by_group(parts, len(names.distinct)), strict=False)
    yield from ((name, durations) for name, durations in pairs if len(durations))


def by_group(parts: list[tuple[Durations, Durations]], groups: int) -> Iterator[Durations]:
    """The durations of each group."""
    if not parts:
        return
    counts = np.sum([np.bincount(group, minlength=groups) for _, group in parts], axis=0)
    gathered = arrays.grouped(parts, counts)
    for low, high in pairwise([0, *np.cumsum(counts).tolist()]):
        yield gathered[low:high]


def figures(durations: Durations) -> Figures | None:
    """What durations in ns come to; None where there are none.

    Raises:
        OverflowError: They add up to more than 64 bits hold.
    """
    if not len(durations):
        return None
    if len(durations) < _FEWEST:
        # NumPy takes longer for a few.
        values = sorted(durations.tolist())
        calls, total_ns = len(values), sum(values)
        low, high = values[(calls - 1) // 2], values[calls // 2]
        stddev = deviation(calls, total_ns, sum(value * value for value in values))
        middle, mean = low + (high - low) / 2, total_ns / calls
        return Figures(calls, total_ns, values[0], values[-1], mean, middle, stddev)
    of = sums(durations)
    stddev = deviation(of.calls, of.total_ns, square_sum(durations))
    middle = of.calls // 2
    # For one place, numpy takes a seventh of the time that it takes for two.
    halves = np.partition(durations, middle)
    high = int(halves[middle])
    low = high if of.calls % 2 else int(halves[:middle].max())
    return of._replace(median_ns=low + (high - low) / 2, stddev_ns=stddev)


def sums(durations: Durations) -> Figures:
    """What some durations in ns add up to; there is one at least."""
    calls, total_ns = len(durations), total(durations)
    return Figures(calls, total_ns, int(durations.min()), int(durations.max()), total_ns / calls)


def deviation(count: int, total_of_all: int, squares: int) -> float | None:
    """The standard deviation of a sample by exact sums; None of fewer than two values."""
    if count < _TWO:
        return None
    return math.sqrt((count * squares - total_of_all**2) / (count * (count - 1)))


def square_sums(values: Durations, group: Durations, groups: int) -> list[int]:
    """The sums of the squares of numbers that are not negative, of each group, exactly."""
    low_bits = 18
    high = values >> low_bits
    if 2 * int(high.max(initial=1 << low_bits)) ** 2 * len(values) >= _MOST:
        squares = [0] * groups
        for value, place in zip(values.tolist(), group.tolist(), strict=True):
            squares[place] += value * value
        return squares
    sums = np.zeros((3, groups), np.int64)
    for at in range(0, len(values), _PIECE):
        piece, place = values[at : at + _PIECE].astype(np.int64), group[at : at + _PIECE]
        high, low = piece >> low_bits, piece & ((1 << low_bits) - 1)
        # Mostly the values of a group follow one another.
        runs = changes(place)
        for of_parts, product in zip(sums, (high * high, 2 * high * low, low * low), strict=True):
            np.add.at(of_parts, place[runs], np.add.reduceat(product, runs))
    return [
        (of_high << 2 * low_bits) + (mixed << low_bits) + of_low
        for of_high, mixed, of_low in sums.T.tolist()
    ]


def square_sum(values: Durations) -> int:
    """The same of all of them."""
    half, most = 21, int(values.max(initial=0))
    if most**2 * len(values) < _MOST:
        exact = values.astype(np.int64)
        return int(exact @ exact)
    if most >= 1 << 2 * half:
        return sum(value * value for value in values.tolist())
    squares = 0
    for at in range(0, len(values), _PIECE):
        piece = values[at : at + _PIECE].astype(np.int64)
        # Halves, so that no sum of a piece takes more than 63 bits.
        high, low = piece >> half, piece & ((1 << half) - 1)
        squares += int(low @ low)
        if high.any():
            squares += (int(high @ high) << 2 * half) + (int(high @ low) << half + 1)
    return squares


def total(values: Durations) -> int:
    """The sum of numbers that are not negative, of any size."""
    is_small = int(values.max(initial=0)) * len(values) < _MOST
    return int(values.sum(dtype=np.int64)) if is_small else sum(values.tolist())
