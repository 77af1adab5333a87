"""Bounds of the data model, where the schema declares them: what no recording can hold is refused.

Each piece of a column is checked as it is made (`check`), which says no more than that something
is wrong; `fault` then finds the first cell, in words.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.errors import excerpt
from gpuprof.model.schema import LONGEST_NS, Column, Schema, numpy_dtype
from gpuprof.model.words import Values

_CHECKED_ROWS: Final = 1 << 16


class BeyondBoundsError(Exception):
    """A table holds what no recording can."""


def check(spec: Column | None, column: Values) -> None:
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
