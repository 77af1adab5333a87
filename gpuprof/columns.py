"""Columns of a file that are read once, for all queries, as queries name them.

A reader that can read single columns describes each of its tables as `Columns`; `Shown` makes
them visible to DuckDB as ``raw.NAME``, for a reader's views to select from.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof import json_input

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS: Final = 65_536
_SQL_TYPES: Final = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}

Kinds = Mapping[str, pa.DataType]
# One value per row each: integers of any width, texts perhaps as a dictionary.
Read = Callable[[Kinds], Mapping[str, pa.Array | pa.ChunkedArray]]


class Columns:
    """The columns of a table that queries have named so far; DuckDB sees the others as null.

    Args:
        table: Its name, unique within the file.
        kinds: Every column, with the type that queries see: int64, float64 or string.
        read: Reads some columns, all of the same length.
        count: How many rows there are, for queries that name no column.
    """

    def __init__(self, table: str, kinds: Kinds, read: Read, count: Callable[[], int]) -> None:
        self.kinds, self._read, self._count = kinds, read, count
        # In a query's plan these name the column and its table.
        self.labels = {name: f"{table}.{name}." for name in kinds}
        self.columns: Mapping[str, pa.Array | pa.ChunkedArray] = {}

    def load(self, names: Collection[str]) -> None:
        """Read the columns that are not there yet, in one pass."""
        missing = {name: kind for name, kind in self.kinds.items() if name in names}
        missing = {name: kind for name, kind in missing.items() if name not in self.columns}
        if missing:
            self.columns = {**self.columns, **self._read(missing)}

    def __arrow_c_schema__(self) -> object:
        """As Arrow's protocol has it."""
        return self._schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All columns in pieces; those that were not read yet are null."""
        columns = [self.columns.get(name) for name in self.kinds]
        count = next((len(values) for values in columns if values is not None), None)
        count = self._count() if count is None else count
        arrays = [pa.nulls(count) if values is None else values for values in columns]
        schema = self._schema()
        batches = pa.Table.from_arrays(arrays, schema=schema).to_batches(max_chunksize=_BATCH_ROWS)
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(
            requested_schema
        )

    def _schema(self) -> pa.Schema:
        return pa.schema([
            (label, self.columns[name].type if name in self.columns else pa.null())
            for name, label in self.labels.items()
        ])  # fmt: skip


class Shown:
    """The tables of a file as one connection sees them: as views ``raw.NAME``."""

    def __init__(
        self, tables: Mapping[str, Columns], connection: "duckdb.DuckDBPyConnection"
    ) -> None:
        self._tables, self._connection = tables, connection
        self._columns: dict[str, int] = {}
        connection.execute("CREATE SCHEMA raw")

    def show(self, sql: str) -> None:
        """Make the tables visible that a view names."""
        for name in self._tables.keys() - self._columns.keys():
            if f"raw.{name}" in sql:
                self._show(name)

    def load(self, sql: str) -> None:
        """Read the columns that a query reads which is about to run."""
        (plan,) = self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()
        scans = "\n".join(_arrow_scans(json_input.loads(plan[1])))
        for name, shown in [*self._columns.items()]:
            table = self._tables[name]
            table.load([column for column, label in table.labels.items() if label in scans])
            if len(table.columns) != shown:
                self._show(name)

    def _show(self, name: str) -> None:
        table, stream = self._tables[name], f"columns of {name}"
        self._columns[name] = len(table.columns)
        self._connection.register(stream, table)
        columns = ", ".join(
            f"CAST({_quoted(label)} AS {_SQL_TYPES[table.kinds[column]]}) AS {_quoted(column)}"
            for column, label in table.labels.items()
        )
        self._connection.execute(
            f"CREATE OR REPLACE VIEW raw.{_quoted(name)} AS SELECT {columns} FROM {_quoted(stream)}"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _arrow_scans(plan: list[dict[str, Any]]) -> Iterator[str]:
    """What a query's plan reads from tables, node by node."""
    for node in plan:
        if "ARROW" in node["name"]:
            yield json.dumps(node["extra_info"], ensure_ascii=False)
        yield from _arrow_scans(node["children"])
