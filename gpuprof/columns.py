"""Columns of a file that are read once, for all queries, as queries name them.

A reader that can read single columns describes each of its tables as `Columns`; `Shown` makes
them visible to DuckDB as ``raw.NAME``, for a reader's views to select from.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from gpuprof import json_input

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS: Final = 65_536
_SQL_TYPES: Final = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
}
_EVER: Final = (-(1 << 63), (1 << 63) - 1)
# How DuckDB shows a comparison of a column with numbers; whether an end belongs to it differs.
_COMPARISON: Final = re.compile(
    r"\((?P<label>[^\s()]+) (?:BETWEEN (?P<least>-?\d+) AND (?P<most>-?\d+)"
    r"|(?P<sign>[<>]=?|=) (?P<value>-?\d+))\)"
)
_INNER: Final = 2

# By column, the least and the most value of the rows that a query takes.
Bounds = Mapping[str, tuple[int, int]]
Kinds = Mapping[str, pa.DataType]
# One value per row each: integers of any width, texts perhaps as a dictionary.
Read = Callable[[Kinds], Mapping[str, pa.Array | pa.ChunkedArray]]


class Table(Protocol):
    """What `Shown` shows: `Columns`, or what reads its file anew for each query.

    Args:
        kinds: Every column, with the type that queries see.
        labels: What names each column, and its table, in a query's plan.
        columns: The columns whose types are known.
    """

    kinds: Kinds
    labels: Mapping[str, str]
    columns: Mapping[str, Any]

    def load(self, names: Collection[str], bounds: Bounds) -> None:
        """Get ready for a query that reads some columns, of rows within some bounds."""


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
        self.labels: Mapping[str, str] = {name: f"{table}.{name}." for name in kinds}
        self.columns: Mapping[str, Any] = {}

    def load(self, names: Collection[str], _: Bounds) -> None:
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
        self, tables: Mapping[str, Table], connection: "duckdb.DuckDBPyConnection"
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
        scans = [*_arrow_scans(json_input.loads(plan[1]))]
        for name, shown in [*self._columns.items()]:
            table = self._tables[name]
            labels = table.labels
            its_scans = [
                scan for scan in scans if any(label in scan[0] for label in labels.values())
            ]
            named = "\n".join(columns for columns, _ in its_scans)
            conditions = [condition for _, condition in its_scans]
            table.load(
                [column for column, label in labels.items() if label in named],
                _bounds(labels, conditions),
            )
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


def _arrow_scans(plan: list[dict[str, Any]], condition: str = "") -> Iterator[tuple[str, str]]:
    """What a query's plan reads from tables, scan by scan, and what it takes of each."""
    for node in plan:
        about = node["extra_info"]
        if "ARROW" in node["name"]:
            yield json.dumps(about, ensure_ascii=False), condition
        expression = about.get("Expression", "") if "FILTER" in node["name"] else ""
        yield from _arrow_scans(node["children"], str(expression))


def _bounds(labels: Mapping[str, str], conditions: Sequence[str]) -> Bounds:
    """Between which values all rows lie that any scan of a table takes."""
    terms = [_terms(condition) for condition in conditions]
    return {
        column: (min(t[label][0] for t in terms), max(t[label][1] for t in terms))
        for column, label in labels.items()
        if terms and all(label in t for t in terms)
    }


def _terms(condition: str) -> dict[str, tuple[int, int]]:
    """The comparisons of columns with numbers that all must hold for a condition to hold.

    DuckDB puts brackets around the condition and around each part of an AND. A text may hold any.
    """
    depths = [*accumulate((sign == "(") - (sign == ")") for sign in condition)]
    outside = "".join(s for s, depth in zip(condition, depths, strict=True) if depth == 1)
    if "'" in condition or " OR " in outside or 0 in depths[:-1]:
        return {}
    parts = [m for m in _COMPARISON.finditer(condition) if _is_part(m, depths[m.start()])]
    return {part["label"]: _interval(part) for part in parts}


def _is_part(match: re.Match[str], depth: int) -> bool:
    """Whether a comparison is a condition, or stands between the brackets and ANDs of one."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    is_between = (before == "(" or before.endswith(") AND ")) and after.startswith((" AND ", ")"))
    return not before + after or (depth == _INNER and is_between)


def _interval(match: re.Match[str]) -> tuple[int, int]:
    if match["least"] is not None:
        return int(match["least"]), int(match["most"])
    value, (least, most) = int(match["value"]), _EVER
    return (
        least if match["sign"].startswith("<") else value,
        most if match["sign"].startswith(">") else value,
    )
