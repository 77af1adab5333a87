"""Columns in as few bytes as their values need, so that a recording takes less than its file.

Numbers take the smallest type that holds all of them, and values that recur are held once, with
a small number per row. `Schema.narrow` makes tables of such columns; whoever asks for a table or
queries it gets the types of the schema.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Of 64 bits where they are computed, of fewer where they are kept.
Integers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

_SMALLER: Final = (np.int8, np.int16, np.int32)


def narrowed(values: Integers) -> Integers:
    """The same integers, of the smallest type that holds all of them."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for kind in _SMALLER:
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values


def gathered(parts: Iterable[Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """The rows of all parts in the order of ``start_ns``, column by column.

    Each part is made narrow at once, so that a generator's parts are never all there in full.
    """
    pieces = defaultdict(list)
    for part in parts:
        for name, values in part.items():
            pieces[name].append(values if values.dtype == np.bool_ else narrowed(values))
    if not pieces:
        return {}
    starts = np.concatenate(pieces["start_ns"])
    order = np.argsort(starts, kind="stable")
    return {name: np.concatenate(pieces.pop(name))[order] for name in [*pieces]}


def column(values: Integers, is_known: Flags) -> pa.Array:
    """Integers as Arrow data, null where not known."""
    return pa.array(values) if is_known.all() else pa.array(values, mask=~is_known)


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
        known = (missing if value is None else value for value in [*self.values, None])
        return np.fromiter(known, np.int64, len(self.values) + 1)[self.codes]

    def are(self, *wanted: object) -> Flags:
        """Which rows hold one of these values."""
        return np.array([*(value in wanted for value in self.values), False])[self.codes]


def coded(values: list[Any], codes: Integers) -> Coded:
    """A column of few different values from each row's place among them, -1 for unknown."""
    small = narrowed(codes)
    return Coded(values, small, column(small, small >= 0))
