"""What a file's columns must be to become those that a reader, or the data model, expects.

Types: a column is cast where every value allows it, else the file is refused. Tools write the types
that they declare; another program that writes the same format may turn numbers into text or
decimals, which lose nothing, or put in what is no number at all.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, excerpt
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.schema import EDITED

# What to do about a file that holds what no recording can.
HINT: Final = EDITED

# What Arrow raises at a file that is damaged; ValueError and KeyError at names of its columns.
DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError)
# Real tables have less than one row per byte; equal values by the million are packed into a few.
_MOST_ROWS_PER_BYTE: Final = 20
_FEW_ROWS: Final = 1_000_000
_MOST_BYTES_PER_BYTE: Final = 200
_FEW_BYTES: Final = 1 << 28


def rows_of(rows: Iterable[tuple[Any, ...]], *kinds: type | UnionType) -> list[tuple[Any, ...]]:
    """The rows whose values are all of these types; others tell nothing."""
    return [row for row in rows if all(map(isinstance, row, kinds))]


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


def check_keys(path: Path, table: str, column: str, keys: npt.NDArray[Any]) -> None:
    """See that each row of a table has a key of its own: what is joined to it would count twice.

    Args:
        path: What messages name.
        table: Name of the file's table.
        column: Its column.
        keys: What that holds; `UNKNOWN` for null.

    Raises:
        CorruptFileError: Two have one, or one has none.
    """
    used = keys[keys != UNKNOWN]
    if len(used) < len(keys):
        rows = f"{len(keys) - len(used):,} of {len(keys):,} rows"
        msg = f"{path}, table {table}: {rows} have no {column}"
        raise CorruptFileError(msg, HINT)
    ordered = np.sort(keys)  # np.unique imports numpy.ma, which takes longer than many a file
    if repeated := int((ordered[1:] == ordered[:-1]).sum()):
        msg = f"{path}, table {table}: {repeated:,} rows repeat the {column} of another row"
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
    names = []
    for field in schema:
        expected, kind = kinds.get(field.name, field.type), field.type
        if pa.types.is_string(expected):
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            kind = expected if pa.types.is_large_string(kind) else kind
        names += [field.name] if kind != expected else []
    return names


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


def _first_that_fails(values: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row that cannot be cast."""

    def fails(end: int) -> bool:
        try:
            values.slice(0, end + 1).cast(kind)
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(len(values) - 1), x=True, key=fails)
