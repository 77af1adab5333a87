"""Columns of a file that are read once, for all queries, as queries name them.

A reader that can read single columns describes each of its tables as `Columns`; `Shown` makes
them visible to DuckDB as ``raw.NAME``, for a reader's views to select from.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from gpuprof.model import spilling
from gpuprof.model.engine import quoted
from gpuprof.model.spilling import BATCH_ROWS

if TYPE_CHECKING:
    import duckdb

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
Read = Callable[[Kinds], Mapping[str, spilling.InMemory]]


class Pieces(Protocol):
    """Rows that come in pieces.

    Args:
        is_read_once: Whether a column that was read is the same for each query that follows.
    """

    is_read_once: bool

    def rows_known(self) -> int:
        """How many rows it has at most, as far as is known without reading them; 0 for unknown."""

    def pieces(
        self, names: Sequence[str], window: Window | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns in pieces, read for this alone where the table holds nothing.

        Rows that start outside of the window, which none needs, may be missing.
        """


class Table(Pieces, Protocol):
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


class Columns:
    """The columns of a table that queries have named so far; DuckDB sees the others as null.

    They stay as `spilling` says: in memory or, where they do not fit, in temporary files.

    Args:
        kinds: Every column, with the type that queries see: int64, float64 or string.
        read: Reads some columns, all of the same length.
        count: How many rows there are, for queries that name no column.
        most_rows: How many there are at most, known without reading them; 0 for unknown.
    """

    is_read_once = True

    def __init__(
        self,
        kinds: Kinds,
        read: Read,
        count: Callable[[], int],
        most_rows: Callable[[], int] = lambda: 0,
    ) -> None:
        self.kinds, self._read, self._count, self._most_rows = kinds, read, count, most_rows
        self.columns: Mapping[str, spilling.Column] = {}
        self._expected: set[str] = set()
        # Of two threads that need a column, the later one waits for the earlier one.
        self._reading = threading.Lock()

    def rows_known(self) -> int:
        """How many rows it has at most; 0 for unknown."""
        return max(map(len, self.columns.values()), default=0) or self._most_rows()

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""
        self._expected.update(names)

    def load(self, names: Collection[str], _: Window | None = None) -> None:
        """Read the columns that are not there yet, together with those that are expected."""
        with self._reading:
            if any(name in names and name not in self.columns for name in self.kinds):
                missing = self._expected.union(names).difference(self.columns)
                kinds = [(name, kind) for name, kind in self.kinds.items() if name in missing]
                for part in spilling.passes(kinds, self._most_rows):
                    read = spilling.within_budget(self._read(dict(part)))
                    self.columns = {**self.columns, **read}

    def __arrow_c_schema__(self) -> object:
        """As Arrow's protocol has it."""
        return self._schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All columns in pieces; those that were not read yet are null."""
        batches, schema = self._batches([*self.kinds]), self._schema()
        stream = pa.RecordBatchReader.from_batches(schema, batches)
        return stream.__arrow_c_stream__(requested_schema)

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[pa.RecordBatch]:
        """Columns of all rows in pieces."""
        self.load(names)
        yield from self._batches(names)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        columns = {name: self.columns.get(name) for name in names}
        count = next((len(values) for values in columns.values() if values is not None), None)
        yield from spilling.batches(columns, self._count() if count is None else count)

    def _schema(self) -> pa.Schema:
        return pa.schema([
            (name, self.columns[name].type if name in self.columns else pa.null())
            for name in self.kinds
        ])  # fmt: skip


class InMemory:
    """The rows of a table that is in memory, in pieces like those of a file.

    Args:
        rows: Integers of any width, texts perhaps as a dictionary.
    """

    is_read_once = True

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def rows_known(self) -> int:
        """How many rows it has."""
        return int(self.rows.num_rows)

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[pa.RecordBatch]:
        """Columns of all rows in pieces."""
        yield from self.rows.select([*names]).to_batches(BATCH_ROWS)


class Streamed:
    """A table that is read anew for each query; queries see columns that they do not name as null.

    Args:
        kinds: Every column, with the type that queries see.
        columns: The type that each has in the stream.

    Attributes:
        error: What ended the stream that was read last; DuckDB tells only its text.
    """

    is_read_once = False
    error: Exception | None = None

    def __init__(self, kinds: Kinds, columns: Kinds) -> None:
        self.kinds, self.columns = kinds, columns
        self._names: Sequence[str] = []

    def rows_known(self) -> int:
        """How many rows it has at most; 0 for unknown."""
        return 0

    def expect(self, names: Collection[str]) -> None:
        """Nothing: what a query reads is not there for the next."""

    def load(self, names: Collection[str], _: Window | None = None) -> None:
        """What the next query reads: also what earlier ones read, as the views check all of it."""
        self._names = [name for name in self.kinds if name in names or name in self._names]

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[pa.RecordBatch]:
        """Columns of all rows in pieces."""
        raise NotImplementedError

    def __arrow_c_schema__(self) -> object:
        """As Arrow's protocol has it."""
        return self._schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All columns in pieces, read when they are asked for; null but for those of the query."""
        stream = pa.RecordBatchReader.from_batches(self._schema(), self._with_nulls())
        return stream.__arrow_c_stream__(requested_schema)

    def _loaded(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the rows that the next query reads, in pieces of at most `BATCH_ROWS`."""
        return self.pieces(names)

    def _with_nulls(self) -> Iterator[pa.RecordBatch]:
        schema, names, self.error = self._schema(), self._names, None
        nulls = {n: pa.nulls(BATCH_ROWS, k) for n, k in self.columns.items() if n not in names}
        try:
            for batch in self._loaded(names):
                stored = dict(zip(names, batch.columns, strict=True))
                columns = [
                    nulls[name].slice(0, batch.num_rows)
                    if name in nulls
                    else as_type(stored[name], kind)
                    for name, kind in self.columns.items()
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except Exception as error:
            self.error = error
            raise

    def _schema(self) -> pa.Schema:
        return pa.schema([*self.columns.items()])


def as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as those of another type."""
    # A cast loads pyarrow.compute.
    return values if values.type == kind else values.cast(kind)


class Tables:
    """Makes the tables of a file visible on a connection, as `Profile.prepare` does.

    Args:
        make: Makes the tables, which hold what is read of them.
        settle: Changes settings of the connection.
    """

    def __init__(
        self,
        make: Callable[[], Mapping[str, Table]],
        settle: "Callable[[duckdb.DuckDBPyConnection], None]" = lambda _: None,
    ) -> None:
        self.make, self.settle = make, settle

    def __call__(self, connection: "duckdb.DuckDBPyConnection") -> "Shown":
        """Make them visible as ``raw.NAME``."""
        return self.show(self.make(), connection)

    def show(self, tables: Mapping[str, Table], connection: "duckdb.DuckDBPyConnection") -> "Shown":
        """Make these visible that were made before."""
        self.settle(connection)
        return Shown(tables, connection)


class Shown:
    """The tables of a file as one connection sees them: as views ``raw.NAME``."""

    def __init__(
        self, tables: Mapping[str, Table], connection: "duckdb.DuckDBPyConnection"
    ) -> None:
        self._tables, self._connection = tables, connection
        # How many columns of each table the connection sees.
        self._shown: dict[str, int] = {}
        self._created: set[str] = set()

    def turn_to(self, tables: Mapping[str, Table]) -> None:
        """Let go of the tables, and show those of another file, which are of the same kinds."""
        for name in self._shown:
            self._connection.unregister(_stream(name))
        self._tables, self._shown = tables, {}

    def load(self, sql: str, window: Window | None = None) -> None:
        """Read the columns that SQL over ``raw.NAME`` names, and make them visible."""
        for name, words in _named(self._tables, sql):
            table = self._tables[name]
            table.load(words, window)
            if self._shown.get(name) != len(table.columns):
                self._show(name)

    def _show(self, name: str) -> None:
        table, stream = self._tables[name], _stream(name)
        self._shown[name] = len(table.columns)
        self._connection.register(stream, table)
        if name in self._created:
            return
        if not self._created:
            self._connection.execute("CREATE SCHEMA raw")
        self._created.add(name)
        columns = ", ".join(
            f"CAST({quoted(column)} AS {_SQL_TYPES[kind]}) AS {quoted(column)}"
            for column, kind in table.kinds.items()
        )
        self._connection.execute(
            f"CREATE VIEW raw.{quoted(name)} AS SELECT {columns} FROM {quoted(stream)}"
        )


def _stream(name: str) -> str:
    """What the columns of a table are called that are read by now."""
    return f"columns of {name}"


def expect(tables: Mapping[str, Table], sql: str) -> None:
    """Note the columns that SQL over ``raw.NAME`` names, which will be asked for."""
    for name, words in _named(tables, sql):
        tables[name].expect(words)


def _named(tables: Mapping[str, Table], sql: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The tables that SQL names, with all of its words, among which are their columns."""
    words = frozenset(_WORD.findall(sql))
    return ((name, words) for name in _RAW.findall(sql) if name in tables)
