"""Rows of nvprof's traces, text or CSV, in base units and the words of the data model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuprof.base import cuda, units
from gpuprof.readers.nvprof import log
from gpuprof.readers.nvprof.summary import DEVICE

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


def layout(text: str) -> TraceHead | None:
    """The head of a trace that a line holds, if it holds one."""
    is_csv = "," in text
    columns = log.csv_cells(text) if is_csv else re.split(r"\s{2,}", text.strip())
    if columns[:2] != ["Start", "Duration"] or "Name" not in columns:
        return None
    return TraceHead(tuple(columns), is_csv)


def resolution_ns(start: str) -> int:
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


def _named(cells: Cells) -> tuple[str, int | None]:
    """The row's name and its correlation id, a column of CSV and part of text's name."""
    text = cells.get("Name", "")
    match = _CORRELATION.match(text)
    if match is None or "Correlation_ID" in cells:
        return text, _number(cells, "Correlation_ID")
    return match[1], units.parse_count(match[2])


def activity(head: TraceHead, cells: Cells) -> tuple[str | None, Row]:
    """A row and its table; None for a page fault, a throttle or a mapping, which move no bytes.

    Raises:
        ValueError: A cell does not hold what its column says.
    """
    name, correlation_id = _named(cells)
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
