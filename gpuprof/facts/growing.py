"""Columns of integers that come in pieces, gathered as arrays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpuprof.facts.groups import Numbers
from gpuprof.model.profile import Profile
from gpuprof.model.table import NO_TEXTS
from gpuprof.model.words import Words

_MOST_EXPECTED: Final = 1 << 28


def read_columns(
    profile: Profile, table: str, *names: str, texts: Mapping[str, Words] = NO_TEXTS
) -> list[Any]:
    """Columns of a table as arrays; nulls are `UNKNOWN`, words what ``texts`` numbers them."""
    parts = profile.stored_columns(table, *names, texts=texts) or ()
    return columns_of(([values.filled for values in part] for part in parts), len(names))


def columns_of(parts: Iterable[Sequence[Any]], columns: int) -> list[Any]:
    """So many columns that come in pieces, each as one array."""
    gathered = [Growing() for _ in range(columns)]
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
