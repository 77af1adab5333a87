"""One table that `nsys stats` printed, whichever way it was laid out: cells by column name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

# "Avg (ns)" is the column Avg in ns; "Time(%)" of old versions has no blank.
_HEADER: Final = re.compile(r"^(?P<base>.*?)\s*(?:\((?P<unit>[A-Za-z%/]{1,8})\))?$")
_BASES: Final = {
    "Average": "Avg",
    "Minimum": "Min",
    "Maximum": "Max",
    "Calls": "Count",
    "Num Calls": "Count",
    "Instances": "Count",
    "Operations": "Count",
    "Operation": "Name",
    "CorrID": "CorrId",
}
_UNITS: Final = {"sec": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
_MARKS: Final = (
    {"Total Time", "Avg"},
    {"Total", "Count", "Avg", "Name"},
    {"Start", "Duration", "Name"},
)
_BLANK: Final = ("", "-", "None")


@dataclass(frozen=True)
class Column:
    """Cells of one column, blank ones null, and the unit in its heading, if any."""

    unit: str | None
    cells: pa.Array


@dataclass(frozen=True)
class Report:
    """What is known of a table from the lines before it.

    Args:
        name: The report that printed it, such as ``cuda_gpu_kern_sum``; None where not said.
        source: The exported file that it sums up; None where not said.
        segment: How many recordings began before it in the file.
    """

    name: str | None = None
    source: str | None = None
    segment: int = 0


@dataclass(frozen=True)
class Block:
    """One table of the file.

    Args:
        offset: The byte at which the line begins after which its rows come.
        columns: Cells by the words of today's headings.
        headings: As printed.
        report: What the lines before it say of it.
        is_cut: Whether its last row is incomplete and left out.
        has_lines: Whether each row is a line.
    """

    offset: int
    columns: dict[str, Column]
    headings: tuple[str, ...]
    report: Report = field(default_factory=Report)
    is_cut: bool = False
    has_lines: bool = True

    @property
    def num_rows(self) -> int:
        """Rows, without the heading."""
        return len(next(iter(self.columns.values())).cells)

    def texts(self, name: str) -> list[str | None]:
        """Cells of a column; all None where there is no such column."""
        if name not in self.columns:
            return [None] * self.num_rows
        found: list[str | None] = self.columns[name].cells.to_pylist()
        return found

    def column(self, name: str) -> Column:
        """A column; all null where there is no such one."""
        return self.columns.get(name) or Column(None, pa.nulls(self.num_rows, pa.string()))


class FaultError(ValueError):
    """A table breaks the rules of its format.

    Args:
        offset: A byte of the line.
        message: What is wrong there.
        lines: How many lines further on it is.
    """

    def __init__(self, offset: int, message: str, lines: int = 0) -> None:
        super().__init__(message)
        self.offset = offset
        self.lines = lines


def block(offset: int, headings: Sequence[str], columns: Sequence[pa.Array]) -> Block:
    """A table from its headings and cells as printed."""
    found: dict[str, Column] = {}
    for heading, cells in zip(headings, columns, strict=True):
        base, unit = _column_name(heading)
        # The first of two columns of one name is the one that the reports document.
        found.setdefault(base, Column(unit, _without_blanks(cells)))
    return Block(offset, found, tuple(heading.strip() for heading in headings))


def is_heading(headings: Sequence[str]) -> bool:
    """Whether these are the headings of a table of `nsys stats`."""
    bases = {_column_name(heading)[0] for heading in headings}
    return any(bases >= marks for marks in _MARKS)


def _column_name(heading: str) -> tuple[str, str | None]:
    words = heading.strip().strip('"')
    match = _HEADER.search(words)
    base, unit = (match["base"], match["unit"]) if match else (words, None)
    return _BASES.get(base, base), _UNITS.get(unit, unit) if unit else None


def _without_blanks(cells: pa.Array) -> pa.Array:
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that recognising a file does not need

    trimmed = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(trimmed, pa.array(_BLANK)), pa.scalar(None, pa.string()), trimmed)
