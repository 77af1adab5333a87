"""Result tables as tables of a page: cells for people, with what they sort by."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.comparisons.result_tables import AS_THE_METRIC
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.model.schema import FLOAT, INT, Column
from gpuprof.show.cells import cell, cell_of
from gpuprof.show.overview import Grid

# More rows are neither read nor searched with pleasure; `--format csv` has them all.
MOST_ROWS: Final = 400
_PER_SECOND: Final = re.compile(r" per s$")
# The column in which findings name the table that tells more.
_TARGET: Final = "table"
_UNITS: Final = {
    "1": "",
    "ns": "nanoseconds",
    "s": "seconds",
    "B": "bytes",
    "B/s": "bytes per second",
    "Hz": "hertz",
    "%": "percent",
    "W": "watts",
    "C": "degrees Celsius",
    AS_THE_METRIC: "the unit of the metric",
}


# What a cell says; the number that it sorts by, or None for its text; and the table that it names.
Cell = tuple[str, float | None, str]


class Head(NamedTuple):
    """One column: its name and meaning for people, and whether it holds numbers."""

    label: str
    meaning: str
    is_number: bool


class PageTable(NamedTuple):
    """One table of a page.

    Args:
        name: Unique on the page.
        title: What it shows, in words.
        columns: Heads, from the left.
        rows: Cells.
        left_out: Rows that the page has no room for.
        command: What gives all of them.
        is_open: Whether it is shown without being asked for.
        key: Its name for programs, as in ``--table`` and in JSON; empty for none.
    """

    name: str
    title: str
    columns: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0
    command: str = ""
    is_open: bool = False
    key: str = ""


def page_table(  # noqa: PLR0913 - what a table of a page consists of
    named: tuple[str, str],
    table: pa.Table,
    columns: Mapping[str, Column],
    command: str,
    device_names: DeviceNames = NO_NAMES,
    *,
    is_open: bool = False,
) -> PageTable:
    """A result table without the columns that are unknown in every row.

    Args:
        named: Its name and title.
        table: The table.
        columns: Its columns.
        command: What gives all of its rows.
        device_names: What people know the devices by.
        is_open: Whether it is shown without being asked for.
    """
    known_columns = {
        n: c for n, c in columns.items() if table.column(n).null_count < table.num_rows
    }
    shown = table.slice(0, MOST_ROWS).to_pylist()
    return PageTable(
        *named,
        tuple(
            Head(
                # Each cell has its unit.
                _PER_SECOND.sub(" per second", c.heading(n)),
                f"{c.meaning} In CSV and JSON: {n}"
                f"{f', in {unit}' if (unit := _UNITS.get(c.unit, c.unit)) else ''}.",
                c.dtype in {INT, FLOAT},
            )
            for n, c in known_columns.items()
        ),
        tuple(
            tuple(_cell(n, c, row, device_names) for n, c in known_columns.items()) for row in shown
        ),
        table.num_rows - len(shown),
        command,
        is_open=is_open,
        key=named[0],
    )


def grid_table(name: str, grid: Grid, title: str) -> PageTable:
    """A grid of text, in its own order."""
    names = set(grid.name_columns)
    return PageTable(
        name,
        title,
        tuple(
            Head(label or "Figure", "", place not in names)
            for place, label in enumerate(grid.header)
        ),
        tuple(tuple((text, None, "") for text in row) for row in grid.rows),
        is_open=True,
    )


def _cell(name: str, column: Column, row: Mapping[str, Any], device_names: DeviceNames) -> Cell:
    """A row of a comparison holds its metric's figures, in that one's unit."""
    value = row[name]
    if name == _TARGET:
        return cell(column, value), None, value or ""
    if column.unit == AS_THE_METRIC and row["metric"] is not None:
        return cell(VARIANTS.columns[row["metric"]], value), value, ""
    text = cell_of(name, column, value, device_names)
    return text, value if column.dtype in {INT, FLOAT} else None, ""
