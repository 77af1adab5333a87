"""Traces that nvprof prints: one row per activity or API call, as text or with ``--csv``.

Written with ``--print-gpu-trace`` and ``--print-api-trace`` by nvprof of CUDA 5.5 to 12. Which
columns a file has depends on what ran: peer copies bring source and target, unified memory
brings addresses.
Source: https://docs.nvidia.com/cuda/profiler-users-guide/, "GPU-Trace and API-Trace Modes".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpuprof.base import cuda, units
from gpuprof.model import data_model
from gpuprof.model.profile import Profile
from gpuprof.readers.common.compact_columns import AlikeRows
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nvprof import log
from gpuprof.readers.nvprof.summary import (
    DEVICE,
    LARGEST,
    NO_UNITS,
    SKIPPED,
    PrintedSummary,
    check_size,
)

_TABLES: Final = ("kernels", "memcpys", "memsets", "api_calls")
_CUT: Final = (
    "nvprof cut off the devices' numbers: which device a kernel or copy ran on is unknown. "
    "Add --csv to record it."
)
# Fewer lines than this are read one by one as soon.
_SMALL_BYTES: Final = 1 << 13
# Names of text traces (with units in the cells) and of CSV (with a row of units).
_ALIASES: Final = {
    "Regs*": "Registers Per Thread",
    "SSMem*": "Static SMem",
    "DSMem*": "Dynamic SMem",
}
_DIMENSIONS: Final = {"Grid Size": "Grid", "Block Size": "Block"}
_TIME: Final = re.compile(r"^[0-9]{1,20}(?:\.([0-9]{1,20}))?\s*(ns|us|ms|s)$")
_CORRELATION: Final = re.compile(r"^(.*\S)\s+\[([0-9]+)\]$")
TIME_UNITS: Final = frozenset({"ns", "us", "ms", "s"})

Row = dict[str, Any]
Cells = Mapping[str, str]


@dataclass(frozen=True)
class TraceHead:
    """A trace's head: the columns that this file has, and the units of a CSV's columns."""

    columns: tuple[str, ...]
    is_csv: bool
    units: tuple[str, ...] = ()

    @property
    def is_api_trace(self) -> bool:
        """Whether it lists API calls and nothing else."""
        return not {"Device", "Context", "Grid Size", "Grid X"} & set(self.columns)

    def split(self, text: str) -> list[str] | None:
        """The cells of a line; None where the line is not a row."""
        if self.is_csv:
            cells = log.csv_cells(text)
            return cells if cells and cells[0][:1].isdigit() and len(cells) > 1 else None
        # Cells hold single blanks, and the name may hold any.
        cells = re.split(r"\s{2,}", text.strip(), maxsplit=len(self.columns) - 1)
        return cells if _TIME.match(cells[0]) and len(cells) > 1 else None

    def cells(self, values: list[str]) -> Cells:
        """Cells by CSV's names, each with its unit; absent ones are left out."""
        marks = self.units or ("",) * len(values)
        by_name: dict[str, str] = {}
        for name, value, unit in zip(self.columns, values, marks, strict=True):
            if value in {"", "-"}:
                continue
            if name in _DIMENSIONS:
                sizes = value.strip("()").split()
                by_name |= dict(
                    zip((f"{_DIMENSIONS[name]} {a}" for a in "XYZ"), sizes, strict=True)
                )
            else:
                by_name[_ALIASES.get(name, name)] = value + (unit if value[-1].isdigit() else "")
        return by_name


def _head(text: str) -> TraceHead | None:
    """The head of a trace that a line holds, if it holds one."""
    is_csv = "," in text
    columns = log.csv_cells(text) if is_csv else re.split(r"\s{2,}", text.strip())
    if columns[:2] != ["Start", "Duration"] or "Name" not in columns:
        return None
    return TraceHead(tuple(columns), is_csv)


def _resolution_ns(start: str) -> int:
    """Nanoseconds of the last digit of a start with its unit."""
    match = _TIME.match(start)
    digits, unit = (len(match[1] or ""), match[2]) if match else (0, "ns")
    return max(1, units.to_ns(f"1e-{digits}", unit))


def _bytes(cells: Cells, name: str) -> int | None:
    """A cell's bytes; KB are 1024 bytes here."""
    return units.parse_binary_bytes(cells[name]) if name in cells else None


def _number(cells: Cells, name: str) -> int | None:
    return units.parse_count(cells[name]) if name in cells else None


def _device(cells: Cells, name: str) -> int | None:
    """A cell's device number; text traces cut it from long names."""
    match = DEVICE.match(cells.get(name, ""))
    return int(match[2]) if match else None


def _activity(head: TraceHead, cells: Cells) -> tuple[str | None, Row]:
    """A row and its table; None for a page fault, a throttle or a mapping, which move no bytes.

    Raises:
        ValueError: A cell does not hold what its column says.
    """
    name, correlation_id = cells.get("Name", ""), _number(cells, "Correlation_ID")
    # In text the id is a part of the name.
    if "Correlation_ID" not in cells and (match := _CORRELATION.match(name)) is not None:
        name, correlation_id = match[1], units.parse_count(match[2])
    kind = cuda.memcpy_kind(name)
    if kind is None and name.startswith("[Unified Memory"):
        return None, {}
    start_ns = units.parse_ns(cells.get("Start", ""))
    row = {
        "start_ns": start_ns,
        "end_ns": start_ns + units.parse_ns(cells.get("Duration", "")),
        "device_id": _device(cells, "Device"),
        "context_id": _number(cells, "Context"),
        "stream_id": _number(cells, "Stream"),
        "correlation_id": correlation_id,
    }
    if kind is not None:
        return "memcpys", row | _memcpy(cells, kind)
    if cuda.is_memset(name):
        source, target = (cuda.memory_kind(cells.get(f"{end}MemType")) for end in ("Src", "Dst"))
        return "memsets", row | {"bytes": _bytes(cells, "Size"), "memory_kind": source or target}
    # With both traces in one table, a call is a row without a device.
    if head.is_api_trace or "Device" not in cells:
        return "api_calls", row | {"name": name, "api": cuda.api(name)}
    for dimension in ("Grid", "Block"):
        for a in "XYZ":
            row[f"{dimension}_{a}".lower()] = _number(cells, f"{dimension} {a}")
    return "kernels", row | {
        "name": name,
        "registers_per_thread": _number(cells, "Registers Per Thread"),
        "static_shared_memory_bytes": _bytes(cells, "Static SMem"),
        "dynamic_shared_memory_bytes": _bytes(cells, "Dynamic SMem"),
    }


def _memcpy(cells: Cells, kind: str) -> Row:
    """Columns of a copy; of a migration, whose size stands in a column of its own."""
    ends = kind.removeprefix("UVM_")
    device, src, dst = (_device(cells, name) for name in ("Device", "Src Dev", "Dst Dev"))
    is_peer = kind == "PtoP" or (src is not None and dst is not None and src != dst)
    return {
        "memcpy_kind": kind,
        "bytes": _bytes(cells, "Unified Memory" if kind.startswith("UVM_") else "Size"),
        "src_memory_kind": cuda.memory_kind(cells.get("SrcMemType")),
        "dst_memory_kind": cuda.memory_kind(cells.get("DstMemType")),
        "src_device_id": device if src is None and ends[0] in "DA" else src,
        "dst_device_id": device if dst is None and ends[-1] in "DA" else dst,
        "path": "direct" if is_peer else None,
    }


# The table and number in it by what a row says; no table for a row that is of none.
_Codes = dict[str, tuple[str | None, int]]


@dataclass
class _PrintedTrace:
    """What a trace has told so far."""

    summary: PrintedSummary
    layout: TraceHead | None = None
    is_first: bool = False
    resolution_ns: int = 1
    by_run: dict[int | None, dict[str, AlikeRows]] = field(default_factory=dict)
    # Each run's tables: True for one of API calls.
    _heads: set[tuple[int | None, bool]] = field(default_factory=set)
    # Of each run and table, what its rows say beside their times, with their table and number.
    _codes: dict[tuple[int | None, TraceHead], _Codes] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, AlikeRows]:
        """The rows of the run that is being read."""
        run_id = self.summary.run_id
        if run_id not in self.by_run:
            self.by_run[run_id] = {table: AlikeRows() for table in _TABLES}
        return self.by_run[run_id]

    def take_block(self, block: bytes, number: int) -> None:
        """Read complete lines; the first one has this number."""
        if self._take_rows(block):
            return
        middle = block.rfind(b"\n", 0, len(block) // 2) + 1
        if len(block) < _SMALL_BYTES or not middle:
            for line in log.lines_of(block, number):
                self.take(line)
        else:
            # Before and after what is no row may be rows alone.
            self.take_block(block[:middle], number)
            self.take_block(block[middle:], number + block.count(b"\n", 0, middle))

    def _take_rows(self, block: bytes) -> bool:
        """Take in lines that are rows and nothing else; False where they are not."""
        layout = self.layout
        if layout is None or self.is_first or self.summary.broken is not None:
            return False
        # pyarrow's functions take 0.1 s to import, which recognising a file does not need.
        from gpuprof.readers.nvprof import trace_bulk  # noqa: PLC0415

        if (rows := trace_bulk.rows(layout, block)) is None:
            return False
        times, alike, examples, starts = rows
        if times[1].max() > LARGEST:
            return False
        codes = self._codes.setdefault((self.summary.run_id, layout), {})
        try:
            for details, line in examples.items():
                if details not in codes:
                    table, row = self._parsed(layout, layout.split(line))
                    codes[details] = table, table is not None and self.tables[table].code(row)
        except ValueError:
            return False
        self.resolution_ns = max(self.resolution_ns, *map(_resolution_ns, starts))
        for table, table_rows in self.tables.items():
            rows_known = (codes[details] for details in examples)
            of_table = [code if name == table else -1 for name, code in rows_known]
            table_rows.extend(times, np.array(of_table)[alike])
        return True

    def take(self, line: log.LogLine) -> None:
        """Take in one line."""
        summary, text = self.summary, line.text
        if summary.hear(text):
            # Metrics and NVTX results have tables of their own.
            self.layout = None if summary.section in SKIPPED else self.layout
            return
        if summary.broken is not None and text.strip():
            raise summary.broken
        if "Duration" in text and (head := _head(text)) is not None:
            self.layout, self.is_first = head, head.is_csv
            if (summary.run_id, head.is_api_trace) in self._heads:
                # A run prints one table of a kind: this is another run's, with another clock.
                summary.run_id = summary.frame.start_unnamed()
            self._heads.add((summary.run_id, head.is_api_trace))
            summary.head(is_labelled=False)
        elif self.layout is not None:
            self._line(self.layout, line)

    def _line(self, layout: TraceHead, line: log.LogLine) -> None:
        if self.is_first:
            self.is_first, marks = False, line.text.split(",")
            if marks[0] not in TIME_UNITS or len(marks) != len(layout.columns):
                raise self.summary.fault(line, "a row of units", marks[0], NO_UNITS)
            self.layout = TraceHead(layout.columns, is_csv=True, units=tuple(marks))
            return
        values = layout.split(line.text)
        if values is None:
            return  # A legend, or what the program printed.
        try:
            table, row = self._parsed(layout, values)
        except ValueError:
            expected = "numbers and units as nvprof prints them"
            if len(values) != len(layout.columns):
                expected = f"{len(layout.columns)} cells from Start to {layout.columns[-1]}"
            self.summary.broken = self.summary.fault(line, expected)
            return
        if table is not None:
            self.tables[table].add(row)

    def _parsed(self, layout: TraceHead, values: list[str] | None) -> tuple[str | None, Row]:
        """A row and its table; no table for a row that is of none.

        Raises:
            ValueError: It breaks the format.
        """
        if values is None or len(values) != len(layout.columns):
            msg = "another number of cells"
            raise ValueError(msg)
        cells = layout.cells(values)
        table, row = _activity(layout, cells)
        if table is None:
            return None, row
        summary, run_id = self.summary, self.summary.run_id
        row["process_id"] = None if run_id is None else summary.frame.runs[run_id]["process_id"]
        self.resolution_ns = max(self.resolution_ns, _resolution_ns(cells["Start"]))
        if (label := cells.get("Device")) is not None:
            summary.device(label)
            if row["device_id"] is None:
                summary.frame.notes.setdefault("device", _CUT)
        check_size(value for value in row.values() if isinstance(value, int))
        return table, row

    def profile(self) -> Profile:
        """The recording; of several runs, of which each has its own clock, one section of each.

        Raises:
            GpuprofError: It holds no row.
        """
        recordings: dict[int | None, Profile] = {}
        for run_id, rows_of in self.by_run.items():
            if any(map(len, rows_of.values())):
                has_gpu = (run_id, False) in self._heads
                recorded = [t for t in _TABLES if len(rows_of[t]) or (has_gpu and t != "api_calls")]
                tables = {name: rows_of[name].table(data_model.BY_NAME[name]) for name in recorded}
                recordings[run_id] = self.summary.recording(
                    READER.name, (run_id,), tables, self.resolution_ns
                )
        if not recordings:
            raise self.summary.refusal()
        first = next(iter(recordings.values()))
        if len(recordings) == 1:
            return first
        jobs = (self.summary.job((run_id,), of_run) for run_id, of_run in recordings.items())
        return replace(first, sections=tuple(jobs))


def read(path: Path) -> Profile:
    """Read all rows of a trace, whatever else the file holds."""
    trace = _PrintedTrace(PrintedSummary(path, unread_tables=log.other_tables(path, "trace")))
    number = 1
    for block in log.blocks(path):
        trace.take_block(block, number)
        number += block.count(b"\n")
    return trace.profile()


READER: Final = Reader(
    name="nvprof-trace",
    title="nvprof's printed trace of the GPU or of API calls, text or CSV",
    versions="CUDA 5.5 to 12",
    gives=("kernels", "memcpys", "memsets", "api_calls", "devices", "runs"),
    cannot=(
        "Starts are printed with five digits in text and to 1 µs in CSV, so shorter overlaps are "
        "noise. Sizes have six digits. In text, a device with a long name has no number."
    ),
    read=read,
    recognises=lambda head: log.first_table(head) == "trace",
    searches=lambda path: log.table_in(path) == "trace",
)
