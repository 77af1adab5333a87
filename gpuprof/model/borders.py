"""What columns must be to become those that a reader, or the data model, expects.

Types: a column is cast where every value allows it, else the file is refused. Tools write the types
that they declare; another program that writes the same format may turn numbers into text or
decimals, which lose nothing, or put in what is no number at all.

Bounds, where the schema declares them: what no recording can hold is refused. Each piece of a
column is checked as it is made (`check_values`), which says no more than that something is wrong;
`fault` then finds the first cell, in words.
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
from gpuprof.model.schema import EDITED, LONGEST_NS, Column, Schema, numpy_dtype
from gpuprof.model.words import Values

# What to do about a file that holds what no recording can.
HINT: Final = EDITED

# What Arrow raises at a file that is damaged; ValueError and KeyError at names of its columns.
DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError)
# Real tables have less than one row per byte; equal values by the million are packed into a few.
_MOST_ROWS_PER_BYTE: Final = 20
_FEW_ROWS: Final = 1_000_000
_MOST_BYTES_PER_BYTE: Final = 200
_FEW_BYTES: Final = 1 << 28
_CHECKED_ROWS: Final = 1 << 16


def rows_of(rows: Iterable[tuple[Any, ...]], *kinds: type | UnionType) -> list[tuple[Any, ...]]:
    """The rows whose values are all of these types; others tell nothing."""
    return [row for row in rows if all(map(isinstance, row, kinds))]


def check_names(where: str, columns: pa.Schema) -> None:
    """See that no two columns have one name.

    Raises:
        CorruptFileError: Two have.
    """
    names = columns.names
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


def unlike(columns: pa.Schema, kinds: Mapping[str, pa.DataType]) -> list[str]:
    """The columns that are of another type than expected; of text, any way to hold it is one."""
    names = []
    for field in columns:
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


class BeyondBoundsError(Exception):
    """A table holds what no recording can."""


def check_values(spec: Column | None, column: Values) -> None:
    """See that values are within the bounds of their column.

    Raises:
        BeyondBoundsError: One is not.
    """
    numbers, is_null, words = column
    if spec is None:
        return
    if words is not None:
        if spec.words is not None or (spec.required and None in words):
            met = {words[number] for number in np.unique(numbers).tolist()}
            allowed = met - {None} if spec.words is None else {*spec.words}
            if not met <= allowed | (set() if spec.required else {None}):
                raise BeyondBoundsError
        return
    if is_null is not None and is_null.any():
        if spec.required:
            raise BeyondBoundsError
        numbers = numbers[~is_null]
    check_bounds(numbers, spec.least, spec.most)


def check_bounds(numbers: npt.NDArray[Any], least: float | None, most: float | None) -> None:
    """See that numbers are within bounds, as what is no number is not; None for no bound.

    Raises:
        BeyondBoundsError: One is not.
    """
    if len(numbers) and (
        (least is not None and not numbers.min() >= least)
        or (most is not None and not numbers.max() <= most)
    ):
        raise BeyondBoundsError


def fault(schema: Schema, table: pa.Table, before: int = 0) -> str | None:
    """The first cell that no recording can hold, as the end of a sentence; None for none.

    Args:
        schema: The table's.
        table: Any of its columns, as `Schema.conform` or `Schema.narrow` gave them.
        before: How many rows come before these.
    """
    for name in table.column_names:
        row = _first_beyond(table.column(name), schema.columns[name])
        if row is not None:
            value = table.column(name)[row].as_py()
            holds = "no value" if value is None else excerpt(value)
            return f"column {name} holds {holds} in row {before + row + 1:,}"
    if not {"start_ns", "end_ns"} <= {*table.column_names}:
        return None
    # Some rows at a time: of all of them the durations alone could outweigh the file.
    for first in range(0, table.num_rows, _CHECKED_ROWS):
        part = table.slice(first, _CHECKED_ROWS)
        start_ns, end_ns = (part.column(name).to_numpy() for name in ("start_ns", "end_ns"))
        durations = end_ns.astype(float) - start_ns.astype(float)
        if (ends_before := end_ns < start_ns).any():
            row = before + first + int(ends_before.argmax())
            return f"row {row + 1:,} ends before it starts"
        if durations.max() > LONGEST_NS:
            return f"row {before + first + int(durations.argmax()) + 1:,} lasts more than 13 days"
    return None


def _first_beyond(values: pa.ChunkedArray, spec: Column) -> int | None:
    """The first row whose value is beyond the bounds of its column, or missing from it."""
    if spec.required and values.null_count:
        return int(np.argmin(values.is_valid().to_numpy()))
    if spec.words is not None:
        words = {*spec.words, None}
        return next((n for n, text in enumerate(values.to_pylist()) if text not in words), None)
    if spec.least is None or spec.most is None:
        return None
    before = 0
    for part in values.chunks:
        rows = _beyond(part, spec.least, spec.most)
        if rows.size:
            return before + int(rows[0])
        before += len(part)
    return None


def _beyond(part: pa.Array, least: float, most: float) -> npt.NDArray[np.intp]:
    """The rows whose value is known and beyond some bounds, as what is no number is beyond all."""
    if pa.types.is_dictionary(part.type):
        codes = _beyond(part.dictionary, least, most)
        of_rows = part.indices.to_numpy(zero_copy_only=False) if codes.size else codes
        return np.flatnonzero(np.isin(of_rows, codes))
    if part.null_count == len(part):
        return np.array([], np.intp)
    numbers = np.frombuffer(part.buffers()[1], numpy_dtype(part.type))
    numbers = numbers[part.offset : part.offset + len(part)]
    rows = np.flatnonzero(~((numbers >= least) & (numbers <= most)))
    # What stands in the place of a missing value is anything; to ask loads pyarrow.compute.
    if rows.size and part.null_count:
        rows = rows[part.is_valid().to_numpy(zero_copy_only=False)[rows]]
    return rows
