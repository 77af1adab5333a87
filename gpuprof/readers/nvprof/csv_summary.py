"""CSV summaries that nvprof prints with ``--csv``: one row per kernel, copy and API call.

Written by nvprof of CUDA 5.5 to 12, with its ``==pid==`` lines and a row of units under each
head; also tables that people made of its text, with units and percent signs inside the cells.
Source: https://docs.nvidia.com/cuda/profiler-users-guide/, "CSV".
"""

import re
from pathlib import Path
from typing import Final

from gpuprof.base import units
from gpuprof.model.profile import Profile
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nvprof import log
from gpuprof.readers.nvprof.summary import (
    CANNOT,
    GIVES,
    LABELS,
    NO_UNITS,
    SHARE,
    SKIPPED,
    TIMES,
    PrintedSummary,
)
from gpuprof.readers.nvprof.trace import TIME_UNITS

_NUMBER: Final = re.compile(r"^[0-9]{1,20}(?:\.[0-9]{1,20})?$")
_LABELLED: Final = tuple([label] for label in LABELS)
_HEAD: Final = re.compile(
    r'Time\(%\)"?,.*Name|"Invocations","(?:Metric|Event) Name"|"Device","Count","Avg Size"'
)
_HEADS: Final = (
    frozenset({"Time(%)", "Calls", "Name", *TIMES}),
    frozenset({"Count", "Total Size", "Total Time"}),
    frozenset({"Invocations"}),
)


class _CsvTables:
    """Takes in lines, one table after another.

    Of each the head says which cell holds what; the row under it in which unit, unless units
    stand inside the cells.
    """

    def __init__(self, summary: PrintedSummary) -> None:
        self._summary = summary
        self._columns: list[str] = []
        self._units: list[str] | None = None
        self._is_first = False

    def take(self, line: log.LogLine) -> None:
        """Take in one line of the log."""
        if self._summary.hear(line.text) or not line.text.strip():
            self._columns = []
            return
        if self._summary.broken is not None:
            raise self._summary.broken
        is_head = _HEAD.search(line.text) is not None
        cells = log.csv_cells(line.text) if is_head or self._columns else []
        if is_head:
            self._columns, self._units = cells, None
            if not any(head <= {*cells} for head in _HEADS):
                raise self._summary.fault(line, "the head of one of nvprof's tables")
            self._is_first = "Time(%)" in cells
            if self._is_first:
                self._summary.head(is_labelled="Type" in cells)
        elif "Count" in self._columns:
            self._migration(cells, line)
        elif self._columns and "Invocations" not in self._columns:
            self._row(cells, line)

    def _row(self, cells: list[str], line: log.LogLine) -> None:
        summary, width = self._summary, len(self._columns)
        if self._is_first:
            self._is_first, time = False, self._cell(cells, "Time")
            if time in TIME_UNITS and len(cells) == width:
                self._units = cells
                return
            if not (time[:1].isdigit() and time.endswith("s")):
                shown = time if len(cells) >= width else line.text
                raise summary.fault(line, "a row of units", shown, NO_UNITS)
        if not SHARE.match(self._cell(cells, "Time(%)")) and cells[:1] not in _LABELLED:
            return  # The program printed into the table.
        if "Type" in self._columns and (label := self._cell(cells, "Type")):
            summary.label(label)
        if summary.section in SKIPPED:
            return
        # A name that was not quoted has lost nothing but its commas.
        cells = [*cells[: width - 1], ",".join(cells[width - 1 :])]
        summary.row(
            line,
            self._expected,
            {name: self._cell(cells, name) for name in ("Name", "Calls", "Time(%)")}
            | {name: self._time(cells, name) for name in TIMES},
        )

    def _migration(self, cells: list[str], line: log.LogLine) -> None:
        """Take in a row of unified memory; its time has no unit and is 0 in real files."""
        if len(cells) != len(self._columns) or not self._cell(cells, "Count"):
            return
        summary, time = self._summary, self._cell(cells, "Total Time")
        try:
            summary.device(cells[0])
            summary.migrate(
                cells[-1],
                units.parse_count(self._cell(cells, "Count")),
                units.parse_binary_bytes(self._cell(cells, "Total Size")),
                None if _NUMBER.match(time) else units.parse_ns(time),
            )
        except ValueError as error:
            raise summary.fault(line, self._expected) from error

    @property
    def _expected(self) -> str:
        """The cells of a row, for people."""
        return ", ".join(filter(None, self._columns))

    def _cell(self, cells: list[str], name: str) -> str:
        """A cell's text; empty where the row is too short, or the head has no such column."""
        place = self._columns.index(name) if name in self._columns else len(cells)
        return cells[place] if place < len(cells) else ""

    def _time(self, cells: list[str], name: str) -> str:
        """A cell's time with its unit; empty where the cell holds no number."""
        text = self._cell(cells, name)
        if self._units is None:
            return text
        return text + self._units[self._columns.index(name)] if _NUMBER.match(text) else ""


def read(path: Path) -> Profile:
    """Read all tables of a file, whatever else it holds."""
    summary = PrintedSummary(path, unread_tables=log.other_tables(path, "csv"))
    table = _CsvTables(summary)
    for line in log.all_lines(path):
        table.take(line)
    return summary.profile(READER.name)


READER: Final = Reader(
    name="nvprof-csv",
    title="nvprof's summary as CSV (--csv)",
    versions="CUDA 5.5 to 12",
    gives=GIVES,
    cannot=CANNOT,
    read=read,
    recognises=lambda head: log.first_table(head) == "csv",
    searches=lambda path: log.table_in(path) == "csv",
)
