"""Columns in as few bytes as their values need, so that a recording takes less than its file.

Numbers take the smallest type that holds all of them, and values that recur are held once, with
a small number per row. `Schema.narrow` makes tables of such columns; whoever asks for a table or
queries it gets the types of the schema.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.schema import Schema, arrow
from gpuprof.model.words import narrowed

# Of 64 bits where they are computed, of fewer where they are kept.
Integers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
# Start and end in ns of many rows, and their correlation ids; -1 where one has none.
Times = tuple[Integers, Integers, Integers]

# The columns that differ from row to row.
_OF_EACH: Final = frozenset({"start_ns", "end_ns", "correlation_id"})


def narrowed_part(part: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Some rows, each column of the smallest type that holds its integers."""
    return {n: v if v.dtype == np.bool_ else narrowed(v) for n, v in part.items()}


def gathered(parts: Iterable[Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """The rows of all parts in the order of ``start_ns``, column by column."""
    pieces = defaultdict(list)
    for part in parts:
        for name, values in part.items():
            pieces[name].append(values)
    if not pieces:
        return {}
    columns = {name: np.concatenate(pieces.pop(name)) for name in [*pieces]}
    starts = columns["start_ns"]
    if (starts[1:] >= starts[:-1]).all():
        return columns
    order = np.argsort(starts, kind="stable")
    return {name: columns.pop(name)[order] for name in [*columns]}


def column(values: Integers, is_known: Flags) -> pa.Array:
    """Integers as Arrow data, null where not known."""
    return arrow(values, ~is_known)


def listed(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """A column as a list, the different values of a dictionary made once each.

    Arrow makes them row by row, which takes 25 times as long.
    """
    if not isinstance(values, pa.DictionaryArray):
        return [*values.to_pylist()]
    different = [*values.dictionary.to_pylist(), None]
    codes = values.indices.to_pylist()
    return [different[-1 if code is None else code] for code in codes]


class Lexicon:
    """Different texts, numbered in the order in which they are met, each held once."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The texts by their number."""
        return [*self._codes]

    def codes(self, texts: Iterable[str], count: int) -> Integers:
        """The numbers of so many texts."""
        numbers = (self._codes.setdefault(text, len(self._codes)) for text in texts)
        return np.fromiter(numbers, np.int64, count)

    def codes_of_keys(self, keys: Integers, text: Callable[[int], str]) -> Integers:
        """The numbers of the texts that some keys stand for."""
        different, places = np.unique(keys, return_inverse=True)
        return self.codes(map(text, different.tolist()), len(different))[places]


class AlikeRows:
    """Activities of one table as they are met: rows that are alike but for their times are one.

    All that a row says beside its times and its correlation id is held once for all rows that
    say the same, so that a row takes 28 bytes.
    """

    def __init__(self) -> None:
        self._start_ns, self._end_ns, self._correlation_id = array("q"), array("q"), array("q")
        self._code = array("i")
        self._alike: dict[tuple[Any, ...], int] = {}
        self._kinds: list[Mapping[str, Any]] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._code)

    def code(self, row: Mapping[str, Any]) -> int:
        """The number of what a row says beside its times and its correlation id."""
        shared = {name: value for name, value in row.items() if name not in _OF_EACH}
        code = self._alike.setdefault((*shared.items(),), len(self._kinds))
        if code == len(self._kinds):
            self._kinds.append(shared)
        return code

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row."""
        correlation_id = row["correlation_id"]
        self._start_ns.append(row["start_ns"])
        self._end_ns.append(row["end_ns"])
        self._correlation_id.append(-1 if correlation_id is None else correlation_id)
        self._code.append(self.code(row))

    def extend(self, times: Times, codes: Integers) -> None:
        """Add those of many rows whose code is not -1."""
        chosen = np.flatnonzero(codes >= 0)
        columns = (self._start_ns, self._end_ns, self._correlation_id)
        for column, numbers in zip(columns, times, strict=True):
            column.frombytes(numbers[chosen].tobytes())
        self._code.frombytes(codes[chosen].astype(np.int32).tobytes())

    def table(self, schema: Schema) -> pa.Table:
        """The rows in the order of their times, narrow."""
        start_ns, end_ns = np.asarray(self._start_ns), np.asarray(self._end_ns)
        order = np.lexsort((end_ns, start_ns))
        ids = narrowed(np.asarray(self._correlation_id)[order])
        alike = coded([*self._kinds], np.asarray(self._code)[order])
        times = {
            "start_ns": pa.array(start_ns[order]),
            "end_ns": pa.array(end_ns[order]),
            "correlation_id": column(ids, ids >= 0),
        }
        shared = {
            field.name: alike.mapped(methodcaller("get", field.name)).array(field.type)
            for field in schema.arrow
            if field.name not in _OF_EACH
        }
        return schema.narrow(pa.table(times | shared))


@dataclass(frozen=True)
class Coded:
    """A column of few different values, each held once.

    Args:
        values: The different ones; None for unknown.
        codes: Each row's place among them; -1 for unknown.
        indices: The same as Arrow data, which columns made of one another share.
    """

    values: list[Any]
    codes: Integers
    indices: pa.Array

    def mapped(self, word: Callable[[Any], Any]) -> "Coded":
        """What each value means, found once for each different one."""
        return Coded([*map(word, self.values)], self.codes, self.indices)

    def array(self, kind: pa.DataType) -> pa.Array:
        """The column as Arrow data."""
        return pa.DictionaryArray.from_arrays(self.indices, pa.array(self.values, kind))

    def integers(self, missing: int) -> Integers:
        """The column as integers, with a number that stands for an unknown one."""
        numbers = (missing if value is None else value for value in [*self.values, None])
        return np.fromiter(numbers, np.int64, len(self.values) + 1)[self.codes]

    def are(self, *accepted: object) -> Flags:
        """Which rows hold one of these values."""
        return np.array([*(value in accepted for value in self.values), False])[self.codes]


def coded(values: list[Any], codes: Integers) -> Coded:
    """A column of few different values from each row's place among them, -1 for unknown."""
    small = narrowed(codes)
    return Coded(values, small, column(small, small >= 0))
