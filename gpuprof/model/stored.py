"""The rows of a table as a reader has them: what it gives of a file, and rows in memory."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, Protocol

import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.arrow_values import values
from gpuprof.model.words import Values

Numbers = npt.NDArray[Any]
# From the first start on and before the last, in ns.
Window = tuple[int, int]

# Before the name of a column of arrays, as no file calls one.
OF_ARRAYS: Final = "of arrays: "
_STARTS: Final = OF_ARRAYS + "start_ns"
# In how many rows at once columns of arrays are given, and those of Arrow data.
_ARRAY_ROWS, _ROWS_AT_ONCE = 262_144, 65_536


class Stored(Protocol):
    """The rows of a table of a file, in pieces, as they are."""

    def rows_known(self) -> int:
        """How many rows it has at most, as far as is known without reading them; 0 for unknown."""

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""

    def release(self, but: Collection[str]) -> None:
        """Let go of all columns but some."""

    def pieces(self, names: Sequence[str], window: Window | None = None) -> Iterator[list[Values]]:
        """Columns of the file in pieces, one name at least.

        Rows that start outside of the window, which none needs, may be missing.
        """


class Beside:
    """Columns of a file, and beside them some of all rows that are in memory.

    Args:
        stored: What the file holds.
        rows: How many rows there are.
        from_arrays: What gives some rows of each column in memory.
    """

    def __init__(
        self, stored: Stored, rows: int, from_arrays: Mapping[str, Callable[[slice], Numbers]]
    ) -> None:
        self._of_file, self._rows, self._from_arrays = stored, rows, from_arrays

    def rows_known(self) -> int:
        """How many rows it has."""
        return self._rows

    def expect(self, names: Collection[str]) -> None:
        """Note columns of the file that are read together with the first that is needed."""
        self._of_file.expect([name for name in names if name not in self._from_arrays])

    def release(self, but: Collection[str]) -> None:
        """Let go of all columns of the file but some."""
        self._of_file.release([name for name in but if name not in self._from_arrays])

    def pieces(self, names: Sequence[str], window: Window | None = None) -> Iterator[list[Values]]:
        """Columns of all rows in pieces, as the file has them if any is of the file."""
        of_file, low = [name for name in names if name not in self._from_arrays], 0
        pieces = self._of_file.pieces(of_file) if of_file else repeat(list[Values]())
        while low < self._rows:
            columns = dict(zip(of_file, next(pieces), strict=True))
            sizes = [len(column.numbers) for column in columns.values()] or [_ARRAY_ROWS]
            rows = slice(low, low := min(low + sizes[0], self._rows))
            if window is not None and (start := self._from_arrays.get(_STARTS)):
                times = start(rows)
                if times.max() < window[0] or times.min() >= window[1]:
                    continue
            yield [columns.get(name) or Values(self._from_arrays[name](rows)) for name in names]


class InMemory:
    """The rows of a table that is in memory.

    Args:
        rows: Integers of any width, texts perhaps as a dictionary.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def rows_known(self) -> int:
        """How many rows it has."""
        return int(self._rows.num_rows)

    def expect(self, names: Collection[str]) -> None:
        """Nothing: all columns are there."""

    def release(self, but: Collection[str]) -> None:
        """Nothing: they are there whoever asks."""

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[list[Values]]:
        """Columns of all rows, as they are."""
        for batch in self._rows.select([*names]).to_batches(_ROWS_AT_ONCE):
            yield [*map(values, batch.columns)]
