"""What a file's columns must be to become those that a reader, or the data model, expects.

Types: a column is cast where every value allows it, else the file is refused. Tools write the types
that they declare; another program that writes the same format may turn numbers into text or
decimals, which lose nothing, or put in what is no number at all.

Bounds: those of the schema. They stand in the views themselves, so that a column is checked when
a query reads it, and no table is read twice.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, excerpt
from gpuprof.model.engine import literal
from gpuprof.model.schema import (
    FLAG,
    FLOAT,
    INT,
    LONGEST_NS,
    TEXT,
    Column,
)

SQL_TYPES: Final = {INT: "BIGINT", FLOAT: "DOUBLE", TEXT: "VARCHAR", FLAG: "BOOLEAN"}
# What to do about a file that holds what no recording can.
HINT: Final = "Was it edited, or damaged on its way? Export or record it again."

# DuckDB's types whose values all fit into that of a column.
_FITTING: Final = {
    INT: {"BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT"},
    FLOAT: {"DOUBLE", "FLOAT", "BIGINT", "INTEGER"},
    TEXT: {"VARCHAR"},
    FLAG: {"BOOLEAN"},
}
# What Arrow raises at a file that is damaged; ValueError and KeyError at names of its columns.
DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError)
_MARK: Final = re.compile(r"impossible value in table (\w+)")
# Real tables have less than one row per byte; equal values by the million are packed into a few.
_MOST_ROWS_PER_BYTE: Final = 20
_FEW_ROWS: Final = 1_000_000
_MOST_BYTES_PER_BYTE: Final = 200
_FEW_BYTES: Final = 1 << 28


def checked(table: str, column: str, spec: Column, kind: str) -> str:
    """SQL: a column of a file as one of the data model.

    A query that reads a value beyond the column's bounds fails, and `refused_by` says where.

    Args:
        table: Name of the table of the data model.
        column: Name of the column, also in the SELECT that it stands in.
        spec: Its type and bounds.
        kind: DuckDB's name of the type that the file's column has.
    """
    sql_type = SQL_TYPES[spec.dtype]
    value = f"CAST({column} AS {sql_type})"
    conditions = _conditions(column, spec, value)
    if kind not in _FITTING[spec.dtype]:
        value = f"TRY_CAST({column} AS {sql_type})"
        conditions = [
            *_conditions(column, spec, value), f"({value} IS NULL AND {column} IS NOT NULL)"
        ]  # fmt: skip
    # Bare, so that a window picks the parts of the file that it needs; its end is checked for it.
    if column == "start_ns" or not conditions:
        return f"{value} AS {column}"
    # Of a constant DuckDB would make its error before it reads a row.
    refusal = f"error(concat('impossible value in table {table}', left({column}::VARCHAR, 0)))"
    beyond = " OR ".join(conditions)
    return f"CASE WHEN {beyond} THEN CAST({refusal} AS {sql_type}) ELSE {value} END AS {column}"


def refused_by(error: Exception) -> str | None:
    """The table whose bounds made a query fail; None where it failed otherwise."""
    match = _MARK.search(str(error))
    return match[1] if match else None


def _conditions(column: str, spec: Column, value: str) -> list[str]:
    """SQL: how a value can be one that no recording holds; NaN is larger than all numbers."""
    conditions = [f"{value} IS NULL"] if spec.required else []
    if spec.least is not None:
        conditions.append(f"{value} < {spec.least}")
    if spec.most is not None:
        # Only by NaN a column that holds no null can say that a value is unknown.
        unknown = f" AND NOT isnan({value})" if spec.required and spec.dtype == FLOAT else ""
        conditions.append(f"({value} > {spec.most}{unknown})")
    if spec.words is not None:
        conditions.append(f"{value} NOT IN ({', '.join(map(literal, sorted(spec.words)))})")
    if column == "end_ns":
        start = "TRY_CAST(start_ns AS BIGINT)"
        conditions += [f"{start} IS NULL", f"{start} < {spec.least}", f"{value} < {start}"]
        conditions.append(f"CAST({value} AS DOUBLE) - {start} > {LONGEST_NS}")
    return conditions


def rows_of(rows: Iterable[tuple[Any, ...]], *kinds: type | UnionType) -> list[tuple[Any, ...]]:
    """The rows whose values are all of these types; others tell nothing."""
    return [row for row in rows if all(isinstance(v, k) for v, k in zip(row, kinds, strict=True))]


def check_names(where: str, schema: pa.Schema) -> None:
    """See that no two columns have one name.

    Raises:
        CorruptFileError: Two have.
    """
    names = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        msg = f"{where}: it has two columns {twice}"
        raise CorruptFileError(msg, HINT)


def check_keys(
    path: Path, table: str, column: str, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    """See that each row of a table has a key of its own: what is joined to it would count twice.

    Args:
        path: What messages name.
        table: Name of the file's table, of no great size.
        column: Its column.
        rows: Runs a small query on the file.

    Raises:
        CorruptFileError: Two have one, or one has none.
    """
    counts = f"count(*), count({column}), count(DISTINCT {column})"
    ((all_rows, keys, different),) = rows(f"SELECT {counts} FROM {table}")
    if keys < all_rows:
        msg = f"{path}, table {table}: {all_rows - keys:,} of {all_rows:,} rows have no {column}"
        raise CorruptFileError(msg, HINT)
    if different < keys:
        msg = f"{path}, table {table}: {keys - different:,} rows repeat the {column} of another row"
        raise CorruptFileError(msg, HINT)


def check_growth(where: str, metadata: Any, size_bytes: int) -> None:
    """See that a packed table is not made to fill the memory or to take for ever.

    Args:
        where: What messages name: the file and the table in it.
        metadata: Of a Parquet file.
        size_bytes: Size of that file.

    Raises:
        CorruptFileError: It has more rows, or more bytes, than any recording of its size.
    """
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    unpacked_bytes = sum(group.total_byte_size for group in groups)
    for unit, unpacked, few, most in (
        ("rows", metadata.num_rows, _FEW_ROWS, _MOST_ROWS_PER_BYTE),
        ("bytes", unpacked_bytes, _FEW_BYTES, _MOST_BYTES_PER_BYTE),
    ):
        if unpacked > few + most * size_bytes:
            msg = (
                f"{where}: {size_bytes:,} bytes that unpack to {unpacked:,} {unit} are no recording"
            )
            raise CorruptFileError(msg, HINT)


def unlike(schema: pa.Schema, kinds: Mapping[str, pa.DataType]) -> list[str]:
    """The columns that are of another type than expected; of text, any way to hold it is one."""
    return [
        field.name
        for field in schema
        if field.name in kinds and not _is_alike(field.type, kinds[field.name])
    ]


def cast(
    where: str, table: pa.Table, kinds: Mapping[str, pa.DataType], before: int = 0
) -> pa.Table:
    """The table with every column of another type as the type that is expected of it.

    Args:
        where: What messages name: the file and the table in it.
        table: Some columns.
        kinds: The types expected, by the names of columns.
        before: How many rows come before these.

    Raises:
        CorruptFileError: A value cannot be of that type, such as a word or a fraction.
    """
    for name in unlike(table.schema, kinds):
        place, values = table.column_names.index(name), table.column(name)
        try:
            table = table.set_column(place, name, values.cast(kinds[name]))
        except pa.ArrowException as error:
            row = _first_that_fails(values, kinds[name])
            shown = excerpt(values[row].as_py()) if len(values) else "nothing"
            msg = (
                f"{where}: column {name} holds {shown} ({values.type}) in row {before + row + 1:,}"
            )
            raise CorruptFileError(msg, HINT) from error
    return table


def _is_alike(kind: pa.DataType, expected: pa.DataType) -> bool:
    if not pa.types.is_string(expected):
        return bool(kind == expected)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _first_that_fails(values: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row that cannot be cast."""

    def fails(end: int) -> bool:
        try:
            values.slice(0, end + 1).cast(kind)
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(len(values) - 1), x=True, key=fails)
