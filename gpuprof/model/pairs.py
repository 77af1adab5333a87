"""Integers, and pairs of them as of process and correlation id: where each is among others."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.model.intervals import Int64s
from gpuprof.model.words import Numbers
from gpuprof.native import arrays

NOT_FOUND: Final = -1
# They fit into a processor's cache.
_ROWS_AT_ONCE: Final = 1 << 16
# Mostly these hold all pairs that there are: only they are sorted.
_FIRST_ROWS: Final = 1 << 12
# Both of a pair of lesser numbers fit into one number, which keeps their order.
_HALF: Final = 1 << 31


def pair_places(sorted_pairs: Int64s, first: Numbers, second: Numbers) -> Numbers:
    """Where each pair of values is among sorted ones, or `NOT_FOUND`.

    Args:
        sorted_pairs: Two rows: the first and the second values.
        first: The first value of each wanted pair.
        second: The second value.
    """
    places = arrays.pair_places(first, second, sorted_pairs)
    if places is not None:
        return places
    firsts, seconds = map(np.unique, sorted_pairs)
    code, index = (
        np.where(np.minimum(a, b) < 0, NOT_FOUND, a * len(seconds) + b)
        for a, b in (
            (places_in(firsts, x), places_in(seconds, y))
            for x, y in (sorted_pairs, (first, second))
        )
    )
    return places_in(code, index)


def places_in(ordered: Numbers, values: Numbers) -> Numbers:
    """Where each value is among sorted ones, or `NOT_FOUND`."""
    if not len(ordered):
        return np.full(len(values), NOT_FOUND)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.where(ordered[place] == values, place, NOT_FOUND)


def is_any_of(values: Numbers, few: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Whether each value is one of a few: `np.isin` takes ten times as long."""
    is_member = np.zeros(len(values), bool)
    for number in few:
        is_member |= values == number
    return is_member


def changes(*columns: Numbers) -> Int64s:
    """The first row, and those that differ from the one before in any of some columns."""
    is_first = np.zeros(len(columns[0]), bool)
    is_first[:1] = True
    for values in columns:
        is_first[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(is_first)


def different(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different ones among values, sorted: `np.unique` hashes them, and loads numpy.ma."""
    ordered = values if (values[1:] >= values[:-1]).all() else np.sort(values)
    return ordered[changes(ordered)]


def distinct(values: Numbers) -> Int64s:
    """The few different ones among many values, sorted."""
    different_values = np.empty(0, np.int64)
    for first in range(0, len(values), _ROWS_AT_ONCE):
        part = values[first : first + _ROWS_AT_ONCE]
        low, high = int(part.min()), int(part.max())
        if high - low < _ROWS_AT_ONCE:
            is_there = np.zeros(high - low + 1, bool)
            is_there[np.subtract(part, low, dtype=np.intp)] = True
            new = low + np.flatnonzero(is_there)
        else:
            is_new = pair_places(np.stack([different_values] * 2), part, part) == NOT_FOUND
            new = part[is_new].astype(np.int64)
        different_values = different(np.concatenate([different_values, new]))
    return different_values


def sorted_pairs(first: Numbers, second: Numbers) -> Int64s:
    """The different pairs in their order: a row of their first values, and one of the second."""
    pairs = np.stack([first, second]).astype(np.int64)
    if pairs.min(initial=0) > -_HALF and pairs.max(initial=0) < _HALF:
        # One number for both is sorted in a tenth of the time.
        code = different(pairs[0] * 2 * _HALF + pairs[1])
        low = (code + _HALF) % (2 * _HALF) - _HALF
        return np.stack([(code - low) // (2 * _HALF), low])
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    is_first = np.ones(pairs.shape[1], bool)
    is_first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    return pairs[:, is_first]


class Pairs:
    """Different pairs of values, numbered from 0 on in the order in which they are met."""

    def __init__(self) -> None:
        # Sorted, and the number of each.
        self._pairs, self._number = np.empty((2, 0), np.int64), np.empty(0, np.int32)
        self._is_sorted = True  # in the order in which they are met

    def __len__(self) -> int:
        """How many there are."""
        return len(self._number)

    @property
    def values(self) -> Int64s:
        """The pairs by their number: a row of their first values, and one of the second."""
        return self._pairs[:, np.argsort(self._number)]

    def of(self, first: Numbers, second: Numbers) -> Numbers:
        """The number of each pair, or `NOT_FOUND`."""
        places = pair_places(self._pairs, first, second)
        if self._is_sorted:
            return places
        numbers: Numbers = np.append(self._number, np.int32(NOT_FOUND))
        return numbers.take(places)

    def learn(self, first: Numbers, second: Numbers) -> Numbers:
        """The number of each pair; those that are new are given one."""
        number, count = self.of(first, second), _FIRST_ROWS
        while len(new_rows := np.flatnonzero(number == NOT_FOUND)):
            # From all over: processes may lie one after another.
            some, count = new_rows[:: max(len(new_rows) // count, 1)], count * count
            new = sorted_pairs(first[some], second[some])
            pairs = np.concatenate([self._pairs, new], axis=1)
            numbers = np.append(self._number, len(self._number) + np.arange(new.shape[1]))
            order = np.lexsort(pairs[::-1])
            self._pairs, self._number = pairs[:, order], numbers[order].astype(np.int32)
            self._is_sorted = bool((self._number[1:] > self._number[:-1]).all())
            number[new_rows] = self.of(first[new_rows], second[new_rows])
        return number
