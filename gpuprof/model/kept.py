"""Columns of a file that are read once, together with those that are expected, and kept."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from gpuprof.model import spilling
from gpuprof.model.table import Window, values
from gpuprof.model.words import Values

Kinds = Mapping[str, pa.DataType]
# One value per row each: integers of any width, texts perhaps as a dictionary.
Read = Callable[[Kinds], Mapping[str, spilling.InMemory]]


class KeptColumns:
    """The columns of a table of a file that were asked for so far.

    They stay as `spilling` says: in memory or, where they do not fit, in temporary files.

    Args:
        kinds: Every column, with its type: int64, float64, bool or string.
        read: Reads some columns, all of the same length.
        most_rows: How many rows there are at most, known without reading them; 0 for unknown.
    """

    def __init__(self, kinds: Kinds, read: Read, most_rows: Callable[[], int] = lambda: 0) -> None:
        self.kinds, self._read, self._most_rows = kinds, read, most_rows
        self._columns: Mapping[str, spilling.Column] = {}
        self._expected: set[str] = set()
        # Of two threads that need a column, the later one waits for the earlier one.
        self._reading = threading.Lock()
        # Of two threads that keep columns at once, neither drops those of the other.
        self._keeping = threading.Lock()

    def rows_known(self) -> int:
        """How many rows it has at most; 0 for unknown."""
        return max(map(len, self._columns.values()), default=0) or self._most_rows()

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""
        self._expected.update(names)

    @property
    def missing(self) -> Kinds:
        """The columns that are expected and not yet read."""
        names = self._expected.difference(self._columns)
        return {name: kind for name, kind in self.kinds.items() if name in names}

    def keep(self, columns: Mapping[str, spilling.InMemory]) -> None:
        """Keep columns that were read together with those of another table."""
        within_budget = spilling.within_budget(columns)
        with self._keeping:
            self._columns = {**self._columns, **within_budget}

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[list[Values]]:
        """Columns of all rows in pieces."""
        with self._reading:
            if any(name not in self._columns for name in names):
                missing = self._expected.union(names).difference(self._columns)
                kinds = [(name, kind) for name, kind in self.kinds.items() if name in missing]
                for part in spilling.passes(kinds, self._most_rows):
                    self.keep(self._read(dict(part)))
        columns = {name: self._columns[name] for name in names}
        for batch in spilling.batches(columns, len(columns[names[0]])):
            yield [*map(values, batch.columns)]
