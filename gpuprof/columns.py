"""Columns of a file that are read once, for all queries, as queries name them.

A reader that can read single columns describes each of its tables as `Columns`; `Shown` makes
them visible to DuckDB as ``raw.NAME``, for a reader's views to select from.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from gpuprof.engine import quoted

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS: Final = 65_536
_RAW: Final = re.compile(r'\braw\."?(\w+)')
_WORD: Final = re.compile(r"\w+")
_SQL_TYPES: Final = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
}

Kinds = Mapping[str, pa.DataType]
# From the first start on and before the last, in ns.
Window = tuple[int, int]
# One value per row each: integers of any width, texts perhaps as a dictionary.
Read = Callable[[Kinds], Mapping[str, pa.Array | pa.ChunkedArray]]


class Table(Protocol):
    """What `Shown` shows: `Columns`, or what reads its file anew for each query.

    Args:
        kinds: Every column, with the type that queries see: int64, float64, string or bool.
        columns: The columns whose types are known.
    """

    kinds: Kinds
    columns: Mapping[str, Any]

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""

    def load(self, names: Collection[str], window: Window | None) -> None:
        """Get ready for a query that reads some columns, of rows that start in a window."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some of the columns that were loaded last, in pieces."""


class Columns:
    """The columns of a table that queries have named so far; DuckDB sees the others as null.

    Args:
        kinds: Every column, with the type that queries see: int64, float64 or string.
        read: Reads some columns, all of the same length.
        count: How many rows there are, for queries that name no column.
    """

    def __init__(self, kinds: Kinds, read: Read, count: Callable[[], int]) -> None:
        self.kinds, self._read, self._count = kinds, read, count
        self.columns: Mapping[str, pa.Array | pa.ChunkedArray] = {}
        self._expected: set[str] = set()

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""
        self._expected.update(names)

    def load(self, names: Collection[str], _: Window | None = None) -> None:
        """Read the columns that are not there yet, in one pass with those that are expected."""
        if any(name in names and name not in self.columns for name in self.kinds):
            missing = self._expected.union(names).difference(self.columns)
            kinds = {name: kind for name, kind in self.kinds.items() if name in missing}
            self.columns = {**self.columns, **self._read(kinds)}

    def __arrow_c_schema__(self) -> object:
        """As Arrow's protocol has it."""
        return self._schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All columns in pieces; those that were not read yet are null."""
        batches, schema = self.batches([*self.kinds]), self._schema()
        stream = pa.RecordBatchReader.from_batches(schema, batches)
        return stream.__arrow_c_stream__(requested_schema)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns in pieces; those that were not read yet are null."""
        columns = [self.columns.get(name) for name in names]
        count = next((len(values) for values in columns if values is not None), None)
        count = self._count() if count is None else count
        arrays = [pa.nulls(count) if values is None else values for values in columns]
        table = pa.Table.from_arrays(arrays, [*names])
        yield from table.to_batches(max_chunksize=_BATCH_ROWS)

    def _schema(self) -> pa.Schema:
        return pa.schema([
            (name, self.columns[name].type if name in self.columns else pa.null())
            for name in self.kinds
        ])  # fmt: skip


class Shown:
    """The tables of a file as one connection sees them: as views ``raw.NAME``."""

    def __init__(
        self, tables: Mapping[str, Table], connection: "duckdb.DuckDBPyConnection"
    ) -> None:
        self._tables, self._connection = tables, connection
        # How many columns of each table the connection sees.
        self._shown: dict[str, int] = {}

    def load(self, sql: str, window: Window | None = None) -> None:
        """Read the columns that SQL over ``raw.NAME`` names, and make them visible."""
        for name, words in self._named(sql):
            table = self._tables[name]
            table.load(words, window)
            if self._shown.get(name) != len(table.columns):
                self._show(name)

    def expect(self, sql: str) -> None:
        """Note the columns that SQL over ``raw.NAME`` names."""
        for name, words in self._named(sql):
            self._tables[name].expect(words)

    def table(self, name: str) -> Table | None:
        """A table of the file; None where it has none of this name."""
        return self._tables.get(name)

    def _named(self, sql: str) -> Iterator[tuple[str, frozenset[str]]]:
        """The tables that SQL names, with all of its words, among which are their columns."""
        words = frozenset(_WORD.findall(sql))
        return ((name, words) for name in _RAW.findall(sql) if name in self._tables)

    def _show(self, name: str) -> None:
        table, stream = self._tables[name], f"columns of {name}"
        if not self._shown:
            self._connection.execute("CREATE SCHEMA raw")
        self._shown[name] = len(table.columns)
        self._connection.register(stream, table)
        columns = ", ".join(
            f"CAST({quoted(column)} AS {_SQL_TYPES[kind]}) AS {quoted(column)}"
            for column, kind in table.kinds.items()
        )
        self._connection.execute(
            f"CREATE OR REPLACE VIEW raw.{quoted(name)} AS SELECT {columns} FROM {quoted(stream)}"
        )
