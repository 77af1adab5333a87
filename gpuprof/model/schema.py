"""What a table is: its columns with types, units and bounds, and how rows are made of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# What to do about a file that holds what no recording can.
EDITED: Final = "Was it edited, or damaged on its way? Export or record it again."
INT: Final = "int64"
FLOAT: Final = "float64"
TEXT: Final = "string"
FLAG: Final = "bool"
# The largest time, size or count: differences and sums of two still fit into 64 bits.
LARGEST: Final = (1 << 62) - 1
_MOST: Final = 1 << 63
# No activity lasts 13 days, and no copy moves 10**15 bytes: thousands of them add up in 64 bits.
LONGEST_NS: Final = 1 << 50
MOST_BYTES: Final = 1 << 50


class Kind(StrEnum):
    """What the values of a column are: people see each kind in its own way."""

    TEXT = "text"
    FLAG = "flag"
    ID = "id"
    PROCESS = "process id"
    COUNT = "count"
    MEAN = "mean count"
    SHARE = "share"
    RATIO = "ratio"
    CHANGE = "change"
    INSTANT = "instant"
    DURATION = "duration"
    SECONDS = "seconds"
    BYTES = "bytes"
    RATE = "rate"
    CLOCK = "clock"
    FLOPS = "operations per second"
    NUMBER = "number"


_OF_UNIT: Final = {
    "ns": Kind.DURATION,
    "s": Kind.SECONDS,
    "B": Kind.BYTES,
    "B/s": Kind.RATE,
    "Hz": Kind.CLOCK,
    "FLOP/s": Kind.FLOPS,
    "%": Kind.CHANGE,
}
_OF_TYPE: Final = {
    (TEXT, ""): Kind.TEXT,
    (FLAG, ""): Kind.FLAG,
    (INT, ""): Kind.ID,
    (INT, "1"): Kind.COUNT,
    (FLOAT, "1"): Kind.SHARE,
}
# What the name of a column ends with for programs, and people see in its cells.
_ENDINGS: Final = {
    "ns": "_ns",
    "B/s": "_bytes_per_s",
    "FLOP/s": "_per_s",
    "Hz": "_hz",
    "W": "_w",
    "C": "_c",
}


@dataclass(frozen=True)
class Column:
    """A column's type, unit and meaning.

    Args:
        dtype: Type of its values.
        unit: Unit of its values: "1" of counts and shares, "" of ids, texts and flags.
        meaning: What they say, in a sentence.
        required: Whether it holds no null.
        least: The smallest value that a recording can hold; None where any can be.
        most: The largest one.
        words: The texts that it can hold; None where any can be.
        kind: What its values are; the unit and type tell where it is not given.
        label: Its heading for people, where its name in words is none.
    """

    dtype: str
    unit: str
    meaning: str
    required: bool = False
    least: float | None = None
    most: float | None = None
    words: frozenset[str] | None = None
    kind: Kind = Kind.NUMBER
    label: str = ""

    def __post_init__(self) -> None:
        """Derive the kind that is not given."""
        if self.kind == Kind.NUMBER:
            of_type = _OF_TYPE.get((self.dtype, self.unit), Kind.NUMBER)
            object.__setattr__(self, "kind", _OF_UNIT.get(self.unit, of_type))

    def heading(self, name: str) -> str:
        """What people see above the column of this name: the unit is in its cells."""
        words = name.removesuffix(_ENDINGS.get(self.unit, "")).replace("_", " ")
        return self.label or words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Schema:
    """A table: what one row is, and its columns in order."""

    name: str
    row: str
    columns: Mapping[str, Column]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The same columns as Arrow fields."""
        return pa.schema([*self.kinds.items()])

    @cached_property
    def kinds(self) -> dict[str, pa.DataType]:
        """The type of every column."""
        return {name: pa.type_for_alias(column.dtype) for name, column in self.columns.items()}

    def empty(self) -> pa.Table:
        """The table with no rows: recorded, and nothing happened."""
        # Schema.empty_table imports pandas, which takes longer than many a reading.
        return pa.Table.from_batches([], schema=self.arrow)

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows as a table of this schema; a column that a row lacks is null there."""
        columns = [
            _array([row.get(name) for row in rows], kind)
            for name, kind in zip(self.columns, self.arrow.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def of_columns(self, columns: Mapping[str, list[Any]]) -> pa.Table:
        """Equally long columns as a table of this schema; one that is absent is null."""
        nothing = [None] * len(next(iter(columns.values())))
        arrays = [_array(columns.get(name, nothing), kind) for name, kind in self.kinds.items()]
        return pa.Table.from_arrays(arrays, schema=self.arrow)

    def conform(self, table: pa.Table) -> pa.Table:
        """Exactly the columns of this schema, in its order; absent optional ones are null.

        Raises:
            ValueError: A required column is absent or holds a null.
        """
        columns: list[pa.ChunkedArray | pa.Array] = []
        for name, kind in self.kinds.items():
            self._check(table, name)
            if name not in table.column_names:
                columns.append(pa.nulls(table.num_rows, kind))
                continue
            values = table.column(name)
            # A cast loads pyarrow.compute.
            columns.append(values if values.type == kind else values.cast(kind))
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def narrow(self, table: pa.Table) -> pa.Table:
        """The columns of this schema that hold anything, as they are: `conform` widens them.

        A row takes a fraction of the memory where texts are dictionaries and numbers are small.

        Raises:
            ValueError: A required column is absent or holds a null.
        """
        for name in self.columns:
            self._check(table, name)
        if not table.num_rows:
            return self.empty()
        # Of dictionaries, a value may be known.
        filled_columns = {
            n for n in table.column_names if table.column(n).null_count < table.num_rows
        }
        return table.select([name for name in self.columns if name in filled_columns])

    def _check(self, table: pa.Table, name: str) -> None:
        """See that a required column is there and whole."""
        if not self.columns[name].required or not table.num_rows:
            return
        if name not in table.column_names:
            msg = f"{self.name}: required column {name} is absent"
            raise ValueError(msg)
        if missing := table.column(name).null_count:
            msg = f"{self.name}: required column {name} holds {missing} nulls"
            raise ValueError(msg)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow data; `pa.array` would import pandas, which takes longer than many a file.

    Raises:
        TypeError: A value is of another type.
        OverflowError: An integer needs more than 64 bits.
    """
    if kind == pa.string():
        builder = pa.lib.StringBuilder()
        try:
            builder.append_values(values)
        except UnicodeEncodeError:
            # The name of a file may be of another encoding.
            builder = pa.lib.StringBuilder()
            builder.append_values(
                [value and value.encode(errors="backslashreplace").decode() for value in values]
            )
        return builder.finish()
    dtype = numpy_dtype(kind)
    is_null = np.array([value is None for value in values], bool) if None in values else None
    nothing = dtype.type()
    known_values = values if is_null is None else [nothing if v is None else v for v in values]
    filled = np.array(known_values or [nothing])
    try:
        numbers = filled[: len(values)].astype(dtype, casting="safe")
    except TypeError:
        if any(isinstance(value, int) and not -_MOST <= value < _MOST for value in values):
            msg = "an integer needs more than 64 bits"
            raise OverflowError(msg) from None
        raise
    return arrow(numbers, is_null)


def arrow(numbers: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers as Arrow data, without a copy; `pa.array` would import pandas."""
    present = None
    if is_null is not None and is_null.any():
        present = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    kind = pa.from_numpy_dtype(numbers.dtype)
    stored = np.packbits(numbers, bitorder="little") if numbers.dtype == bool else numbers
    data = pa.py_buffer(np.ascontiguousarray(stored))
    return pa.Array.from_buffers(kind, len(numbers), [present, data])


@cache
def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """The dtype of a type of numbers or flags, as `arrow` maps them the other way.

    `DataType.to_pandas_dtype` imports pandas before pyarrow 26.

    Raises:
        KeyError: It is of neither.
    """
    names = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
    return {pa.from_numpy_dtype(dtype): dtype for dtype in map(np.dtype, names)}[kind]


def integers(values: list[int | None]) -> pa.Array:
    """Integers as Arrow data, without importing pandas."""
    return _array(values, pa.int64())


def texts(values: list[str | None]) -> pa.Array:
    """Texts as Arrow data, without importing pandas."""
    return _array(values, pa.string())


# Columns of the commonest types and units: texts, answers to yes or no, what numbers only tell
# apart, counts, shares, sizes, durations, and times since the recording's origin.
Text: Final = partial(Column, TEXT, "")
Flag: Final = partial(Column, FLAG, "")
Id: Final = partial(Column, INT, "")
Process: Final = partial(Id, kind=Kind.PROCESS)
Count: Final = partial(Column, INT, "1")
Share: Final = partial(Column, FLOAT, "1")
Bytes: Final = partial(Column, INT, "B")
Ns: Final = partial(Column, INT, "ns")
Instant: Final = partial(Ns, kind=Kind.INSTANT)
