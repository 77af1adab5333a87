"""Columns of integers: gathered from pieces, grouped, and looked up by number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.model import pairs, words
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import changes, different
from gpuprof.model.profile import Profile
from gpuprof.model.table import NO_TEXTS, Choice
from gpuprof.model.words import Words

# Integers of any width.
Numbers = npt.NDArray[np.integer[Any]]
ByNumber = words.ByNumber
UNNAMED: Final = words.UNNAMED
NOT_FOUND: Final = pairs.NOT_FOUND

_SIXTEEN_BITS: Final = 0xFFFF
_MOST_EXPECTED: Final = 1 << 28
_PIECE_ROWS: Final = 1 << 16
_BITS: Final = 63
_LONG_RUN: Final = 1024
# Beyond this, sorting codes takes less than an array by code.
_MOST_CODES: Final = 1 << 20


def numbered(values: Numbers) -> Numbers:
    """Numbers in the order of the values, in few bits where that is possible: these sort fast."""
    if len(values) and int(values.max()) - int(values.min()) <= _SIXTEEN_BITS:
        # A difference may take one bit more than the values.
        small: Numbers = np.subtract(values, values.min(), dtype=np.int64).astype(np.uint16)
        return small
    return np.searchsorted(different(values), values)


def groups(*columns: Numbers) -> list[Int64s]:
    """Indices of rows with the same values, which keep their order; the groups by these values."""
    numbers = [numbered(column) for column in columns]
    order = np.lexsort(numbers[::-1])
    bounds = pairwise([*first_of(order, *numbers).tolist(), len(order)])
    return [order[low:high] for low, high in bounds]


def rows_by(column: Numbers) -> dict[int, Int64s]:
    """Indices of the rows of each value, which keep their order."""
    return {int(column[rows[0]]): rows for rows in groups(column)}


def first_of(ordered: Int64s, *columns: Numbers) -> Int64s:
    """Where each group of rows begins that are alike in some columns, by which they are ordered."""
    return changes(*(column[ordered] for column in columns))


def read_columns(
    profile: Profile, table: str, *names: str, texts: Mapping[str, Words] = NO_TEXTS
) -> list[Any]:
    """Columns of a table as arrays; nulls are `UNKNOWN`, words what ``texts`` numbers them."""
    return columns_of(profile.columns(table, *names, texts=texts), len(names))


def columns_of(parts: Iterable[Sequence[Any]], columns: int, rows: int = 0) -> list[Any]:
    """So many columns that come in pieces, each as one array.

    Where it is said how many rows they have together at most, there is room for these at once.
    """
    gathered = [Growing() for _ in range(columns)]
    for column in gathered:
        column.expect(rows)
    for part in parts:
        for column, values in zip(gathered, part, strict=True):
            column.add(values)
    return [column.values for column in gathered]


class Growing:
    """An array of integers that come in pieces, with room for as many more.

    Args:
        kind: A type that its values have at least; by default that of the first piece.
    """

    def __init__(self, kind: type[np.integer[Any]] | None = None) -> None:
        self._values: Any = np.empty(0, kind or np.int64)
        self._rows, self._has_kind, self._expected = 0, kind is not None, 0

    def expect(self, rows: int) -> None:
        """Make room at once for so many rows that follow, at most."""
        # Damaged files may claim any number of rows.
        self._expected = self._rows + rows if rows <= _MOST_EXPECTED else 0

    def add(self, part: Numbers) -> None:
        """Some more values, which are copied."""
        rows = self._rows + len(part)
        kind = np.promote_types(part.dtype, self._values.dtype) if self._has_kind else part.dtype
        if rows > len(self._values) or kind != self._values.dtype:
            # Pages that nothing was written to take no memory.
            fits = rows <= self._expected
            room = np.empty(self._expected if fits else max(rows, 2 * len(self._values)), kind)
            room[: self._rows] = self._values[: self._rows]
            self._values = room
        self._values[self._rows : rows] = part
        self._rows, self._has_kind = rows, True

    @property
    def values(self) -> Any:
        """All values so far."""
        return self._values[: self._rows]


def rows_named(
    profile: Profile, table: str, names: Sequence[str], *columns: str
) -> Iterator[list[Any]]:
    """Columns of the rows whose name is one of some, and the place of that, in pieces."""
    place = {name: number for number, name in enumerate(names)}
    of_name = profile.loaded(table).names.values(lambda n: place.get(n, NOT_FOUND), NOT_FOUND)
    meant = Choice(("name_id",), lambda number: np.flatnonzero(of_name.of(number) != NOT_FOUND))
    for *part, number in profile.columns(table, *columns, "name_id", choice=meant):
        yield [*part, of_name.of(number)]


def pieces(end: int, start: int = 0) -> Iterator[slice]:
    """Slices that together are the rows up to an end, each small enough for a processor's cache."""
    return (slice(at, min(at + _PIECE_ROWS, end)) for at in range(start, end, _PIECE_ROWS))


def sums_by_number(numbers: Numbers, values: Numbers, count: int) -> Int64s:
    """The sum of the values of each number from 0 up to a count."""
    sums = np.zeros(count, np.int64)
    # Numbers of other types take ten times as long; made of all at once, they take much memory.
    for rows in pieces(len(numbers)):
        places, added = numbers[rows].astype(np.intp, copy=False), values[rows]
        np.add.at(sums, places, added.astype(np.int64, copy=False))
    return sums


def sums_of_pieces(pieces_of: Iterable[tuple[Numbers, Numbers]]) -> tuple[Int64s, Int64s]:
    """How often each number from 0 on occurs in pieces of numbers, and the sum of its values."""
    parts = [
        (np.bincount(number), sums_by_number(number, values, int(number.max(initial=-1)) + 1))
        for number, values in pieces_of
    ]
    counts, sums = np.zeros((2, max((len(of) for of, _ in parts), default=0)), np.int64)
    for of_part, sums_of_part in parts:
        counts[: len(of_part)] += of_part
        sums[: len(of_part)] += sums_of_part
    return counts, sums


def index_kind(rows: int) -> type[np.integer[Any]]:
    """The type of the places of so many rows."""
    return np.int32 if rows < 1 << 31 else np.int64


def different_codes(codes: Int64s) -> tuple[Int64s, Numbers]:
    """The different ones among numbers from 0 on, sorted, and the place of each among these."""
    if codes.max(initial=0) > _MOST_CODES:
        return np.unique(codes, return_inverse=True)
    is_used = np.bincount(codes) > 0
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1).astype(np.int32).take(codes)


def order_of(values: Int64s) -> Int64s:
    """The order of some numbers, of equal ones the first one first."""
    steps_back = np.count_nonzero(values[1:] < values[:-1])
    if not steps_back:
        return np.arange(len(values))
    bits, least = len(values).bit_length(), int(values.min())
    is_too_wide = (int(values.max()) - least).bit_length() + bits > _BITS
    # Long runs that are in order are merged, in a third of the time of sorting or less.
    if is_too_wide or steps_back < len(values) // _LONG_RUN:
        return np.argsort(values, kind="stable")
    # To sort distinct numbers takes a fifth of the time of a stable sort of indices.
    mixed = values - least
    mixed <<= bits
    for rows in pieces(len(values)):
        mixed[rows] |= np.arange(rows.start, rows.stop)
    mixed.sort()
    mixed &= (1 << bits) - 1
    return mixed
