"""Integers of a reader's table as arrays, taken from its columns without a query.

They are the rows and values that a query gives, and have the same bounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.schema import LONGEST_NS, Column, Schema
from gpuprof.model.selection import ENDS, Selection
from gpuprof.model.views import (
    CHECKED_WITH,
    Select,
    StoredColumn,
    StoredOr,
    StoredRows,
    StoredWords,
)

if TYPE_CHECKING:
    from gpuprof.model.words import Words

Integers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

_START, _END = "start_ns", "end_ns"
_TIMES: Final = ("start", "end")
_ALL_BITS: Final = -1
NO_TEXTS: Final["Mapping[str, Words]"] = {}


class BeyondBoundsError(Exception):
    """A table holds what no recording can."""


class Values(NamedTuple):
    """A column of some rows: its numbers, and where there is none; None for nowhere."""

    numbers: Integers
    is_null: Flags | None

    @property
    def filled(self) -> Integers:
        """The numbers, `UNKNOWN` where there is none."""
        if self.is_null is None:
            return self.numbers
        return np.where(self.is_null, UNKNOWN, self.numbers)


class Plan(NamedTuple):
    """How to take columns of the data model from a reader's table.

    Args:
        rows: Its rows.
        selection: Which of them are chosen.
        columns: What to take each from; None for a column that is null throughout.
        specs: The bounds of each; None for none.
        texts: What numbers the words of those of the columns that hold texts.
        is_checked: Whether all their values were found within these before.
        takes_all: Whether no row was left out before.
    """

    rows: StoredRows
    selection: Selection
    columns: Mapping[str, StoredColumn | StoredOr | None]
    specs: Mapping[str, Column | None]
    texts: "Mapping[str, Words]"
    is_checked: bool = False
    takes_all: bool = False

    @property
    def names(self) -> list[str]:
        """The columns of the reader's table that are read, also those that identify its rows."""
        values = [column for column in self.columns.values() if column is not None]
        stored = (c.columns if isinstance(c, StoredOr) else [c] for c in values)
        names = [column.name for column in chain.from_iterable(stored)]
        # The count of rows needs at least one column.
        if not self.takes_all or not names:
            names += _TIMES if self.rows.are_timed else ()
            names += [of[0] for of in (self.rows.without, self.rows.only) if of is not None]
        return [*dict.fromkeys(names)]

    def part(self, batch: pa.RecordBatch, needed: Sequence[str]) -> list[Values]:
        """The needed columns of some rows.

        Args:
            batch: The columns of `names`.
            needed: Names of the data model.

        Raises:
            BeyondBoundsError: A value is beyond its bounds.
        """
        words = self._words_of_stored
        stored = {
            name: Values(words[name].numbers(column), None) if name in words else values(column)
            for name, column in zip(self.names, batch.columns, strict=True)
        }
        rows = len(batch)
        is_row = None if self.takes_all else self._row_filter(stored, rows)
        if is_row is not None:
            stored = {name: _take(column, is_row) for name, column in stored.items()}
            rows = int(is_row.sum())
        columns = {name: self._column(name, stored, rows) for name in self.columns}
        if _END in columns and not self.is_checked:
            _check(columns[_END].numbers - columns[_START].numbers, 0, LONGEST_NS)
        return [columns[name] for name in needed]

    @property
    def _words_of_stored(self) -> "dict[str, Words]":
        """What numbers the words of columns of the reader's table."""
        columns = {name: self.columns[name] for name in self.texts}
        return {
            stored.name: self.texts[name]
            for name, stored in columns.items()
            if isinstance(stored, StoredColumn)
        }

    def _row_filter(self, stored: Mapping[str, Values], rows: int) -> Flags | None:
        """Which rows are those of the table; None for all."""
        conditions = [*self._chosen(stored, rows)]
        if self.rows.are_timed:
            start, end = (stored[name] for name in _TIMES)
            conditions += [~times.is_null for times in (start, end) if times.is_null is not None]
            if not start.numbers.all():
                conditions.append((start.numbers != 0) | (end.numbers != 0))
            if self.rows.are_ordered:
                conditions.append(end.numbers >= start.numbers)
        if self.rows.only is not None:
            name, numbers_meant = self.rows.only
            conditions.append(np.isin(stored[name].filled, numbers_meant))
        if self.rows.without:
            name, number = self.rows.without
            numbers, is_null = stored[name]
            if (is_other := numbers == number).any():
                conditions.append(~is_other if is_null is None else is_null | ~is_other)
        return np.logical_and.reduce(conditions) if conditions else None

    def _chosen(self, stored: Mapping[str, Values], rows: int) -> Iterator[Flags]:
        """Which rows start in the windows, and which are of the device."""
        windows, device_id = self.selection.windows, self.selection.device_id
        if windows is not None and _START in self.columns:
            start, is_null = self._read(_START, stored, rows)
            yield within(windows, start)
            if is_null is not None:
                yield ~is_null
        if device_id is not None and (ends := self.columns.keys() & {*ENDS}):
            at = [self._read(end, stored, rows) for end in ends]
            is_here = [
                n == device_id if null is None else (n == device_id) & ~null for n, null in at
            ]
            yield np.logical_or.reduce(is_here)

    def _read(self, name: str, stored: Mapping[str, Values], rows: int) -> Values:
        """A column of the data model, whatever its values are."""
        column = self.columns[name]
        if column is None and name in self.texts:
            return Values(np.full(rows, self.texts[name].place(None), np.int32), None)
        if not isinstance(column, StoredOr):
            return _of_rows(column, stored, rows)
        parts = (column.first, column.kind, column.fallback)
        first, kind, fallback = (_of_rows(part, stored, rows) for part in parts)
        if first.is_null is None:
            return first
        is_fallback = first.is_null & np.isin(kind.numbers, column.kinds)
        if kind.is_null is not None:
            is_fallback &= ~kind.is_null
        is_null = False if fallback.is_null is None else fallback.is_null
        return Values(
            np.where(is_fallback, fallback.numbers, first.numbers),
            np.where(is_fallback, is_null, first.is_null),
        )

    def _column(self, name: str, stored: Mapping[str, Values], rows: int) -> Values:
        spec = self.specs[name]
        numbers, is_null = self._read(name, stored, rows)
        if name in self.texts:
            null = self.texts[name].null_place
            if spec is not None and spec.required and null is not None and (numbers == null).any():
                raise BeyondBoundsError
            return Values(numbers, None)
        if name in {_START, _END}:  # whose differences may take more room
            numbers = numbers.astype(np.int64, copy=False)
        if spec is not None and not self.is_checked:
            present = numbers if is_null is None else numbers[~is_null]
            if spec.required and len(present) < rows:
                raise BeyondBoundsError
            _check(present, spec.least, spec.most)
        return Values(numbers, is_null)


def plan(
    select: Select,
    schema: Schema,
    needed: Sequence[str],
    selection: Selection,
    texts: "Mapping[str, Words] | None" = None,
) -> Plan | None:
    """How to take columns without a query; None where it takes one.

    Args:
        select: The rows of one table.
        schema: That table's.
        needed: Columns of integers, also ``name_id``.
        selection: Which of the rows are given.
        texts: What numbers the words of columns of texts. Where it is given, other columns that
            are `StoredWords` are taken, too, as their numbers.
    """
    rows = select.source
    names = {*needed, *selection.columns(schema.columns)}
    checked_with = (CHECKED_WITH.get(name, ()) for name in needed)
    names.update(name for name in chain.from_iterable(checked_with) if name in schema.columns)
    columns: dict[str, StoredColumn | StoredOr | None] = {}
    for name in sorted(names):
        column = select.columns.get(name, "NULL")
        if isinstance(column, StoredColumn | StoredOr):
            columns[name] = column
        elif texts is not None and isinstance(column, StoredWords) and name not in texts:
            columns[name] = column.column
        elif column == "NULL":
            columns[name] = None
        else:
            return None
    if not isinstance(rows, StoredRows) or rows.joins:
        return None
    numbered = {name for name in names if isinstance(select.columns.get(name), StoredWords)}
    specs = {name: None if name in numbered else schema.columns.get(name) for name in names}
    return Plan(rows, selection, columns, specs, texts or NO_TEXTS)


def within(windows: Sequence[tuple[int, int]], instants: Integers) -> Flags:
    """Which instants are in one of the windows, which are sorted and disjoint."""
    starts, ends = np.array([*windows, (0, 0)], np.int64).T
    window = np.searchsorted(starts[:-1], instants, side="right") - 1
    # Before the first window, that is the last one: an empty one.
    is_within: Flags = (instants >= starts[window]) & (instants < ends[window])
    return is_within


def as_they_are(select: Select, needed: Sequence[str]) -> tuple[str, list[str]] | None:
    """The reader's table, and its columns that are these ones; None where it takes a query."""
    columns, rows = [select.columns.get(name) for name in needed], select.source
    if not isinstance(rows, StoredRows) or not rows.is_plain:
        return None
    names = [
        c.name
        for c in columns
        if isinstance(c, StoredColumn) and c.mask == _ALL_BITS and c.absent is None
    ]
    return (rows.table, names) if len(names) == len(columns) else None


def _of_rows(column: StoredColumn | None, stored: Mapping[str, Values], rows: int) -> Values:
    """A column of some rows; None is one of so many nulls."""
    if column is None:
        return Values(np.full(rows, UNKNOWN, np.int8), np.ones(rows, bool))
    numbers, is_null = stored[column.name]
    if column.mask != _ALL_BITS:
        numbers = numbers.astype(np.int64, copy=False) >> column.shift
        numbers &= column.mask
    if column.absent is not None and (is_absent := numbers == column.absent).any():
        is_null = is_absent if is_null is None else is_null | is_absent
    return Values(numbers, is_null)


def _check(numbers: Integers, least: float | None, most: float | None) -> None:
    if not len(numbers):
        return
    if (least is not None and numbers.min() < least) or (most is not None and numbers.max() > most):
        raise BeyondBoundsError


def _take(column: Values, is_row: Flags) -> Values:
    numbers, is_null = column
    return Values(numbers[is_row], None if is_null is None else is_null[is_row])


def values(array: pa.Array) -> Values:
    """Integers of any width, perhaps as a dictionary."""
    if pa.types.is_dictionary(array.type):
        of, is_null = values(array.indices)
        # What stands in the place of a null is anything.
        place = of if is_null is None else np.where(is_null, 0, of)
        different = values(array.dictionary)
        if different.is_null is not None:
            of_rows = different.is_null[place]
            is_null = of_rows if is_null is None else is_null | of_rows
        numbers = different.numbers[place] if len(different.numbers) else place
        return Values(numbers, is_null)
    kind = f"i{array.type.bit_width // 8}"
    numbers = np.frombuffer(array.buffers()[1] or b"", kind)
    numbers = numbers[array.offset : array.offset + len(array)]
    if not array.null_count:
        return Values(numbers, None)
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    is_there = np.unpackbits(bits, bitorder="little")[array.offset : array.offset + len(array)]
    return Values(numbers, ~is_there.astype(bool))
