"""Which columns of which tables people see first, as grids of text for terminal and markdown."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from gpuprof import units
from gpuprof.analyses import analysis_named
from gpuprof.render.cells import cell, clean, headings, schema_columns
from gpuprof.render.contract import Row
from gpuprof.reports import Report
from gpuprof.schema import Kind
from gpuprof.units import capital


@dataclass(frozen=True)
class Grid:
    """A table of text.

    Args:
        title: What it shows.
        header: One heading per column; figures stand right, the names in ``name_columns`` left.
        rows: Cells.
        name_columns: Positions of the columns that hold names, and may be shortened.
        least: Rows that an overview keeps where there is no room for more; None for all.
        sentences: Positions of those names that are sentences, which need a line of their own.
        named: Positions of the rows that sentences above the table name; these are never cut.
        keys: Positions of the columns that tell rows apart as names do.
        rank: Position of the column that numbers the rows; None for none.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name_columns: tuple[int, ...] = (0,)
    least: int | None = None
    sentences: tuple[int, ...] = ()
    named: frozenset[int] = frozenset()
    keys: tuple[int, ...] = ()
    rank: int | None = None

    def cut(self, surplus: int) -> "Grid":
        """The table with as many rows less, but for those that it needs, and a word of it."""
        count = max(len(self.rows) - surplus, self.least or len(self.rows), len(self.named))
        first = sorted(range(len(self.rows)), key=lambda place: place not in self.named)[:count]
        if len(first) == len(self.rows):
            return self
        rows = tuple(self.rows[place] for place in sorted(first))
        return replace(self, rows=rows, title=f"{self.title} ({count} of {len(self.rows)})")


_GROUP_NAMES: Final = {
    "kernels": "Kernels",
    "communication_kernels": "communication",
    "transfers": "Transfers",
    "peer_transfers": "between devices",
    "local_copies": "Local copies",
    "unknown_copies": "Copies of unknown kind",
    "memsets": "Memsets",
    "gpu_activities": "GPU activities",
    "api_calls": "API calls (host)",
    "PtoP_staged": "via the host",
    "DtoD_peer": "DtoD",
}
_SENTENCES: Final = {"finding", "suggestion"}
_KEYS: Final = {"rank", "device_id"}
_NOTHING: Final = (None, "")
_TENSORS: Final = 10
_FINDINGS: Final = 3
# What an overview of many devices keeps of its tables.
_LEAST_DEVICES: Final = 2
_LEAST_ROUTES: Final = 2
_LEAST_ACTIVITIES: Final = 1
_LEAST_EPOCHS: Final = 3


def _totals_grid(table: pa.Table) -> Grid:
    """The groups, those that are part of another one indented under it."""
    rows = table.to_pylist()
    depth = _depths(rows)
    shown = [row for row in rows if _is_worth_a_row(row)]
    columns = schema_columns("totals", table)
    names = ("calls", "total_ns", "mean_ns", "share", "bytes", "bytes_per_s")
    kept = [n for n in names if n in names[:4] or any(row[n] for row in shown)]
    cells = [
        (
            "  " * depth[group := row["activity_group"]] + _GROUP_NAMES.get(group, group),
            *(cell(columns[n], row[n]) for n in kept),
        )
        for row in shown
    ]
    return Grid("Totals, summed over devices", ("", *headings(columns, kept)), tuple(cells))


def _depths(rows: Sequence[Row]) -> dict[str, int]:
    """How deep each group stands under others; the sum of all comes last and indents nothing."""
    depth: dict[str, int] = {}
    for row in rows:
        is_top = row["part_of"] in {None, "gpu_activities"}
        depth[row["activity_group"]] = 0 if is_top else depth[row["part_of"]] + 1
    return depth


def _is_worth_a_row(row: Row) -> bool:
    """Groups that say little where nothing happened are shown where something did."""
    if row["activity_group"] == "communication_kernels":
        return bool(row["calls"])
    if row["activity_group"] in {"local_copies", "memsets"}:
        return bool(row["calls"] != 0)
    return row["activity_group"] != "api_calls" or row["total_ns"] is not None


def _top_grid(table: pa.Table) -> Grid:
    """The costliest activities: kernels by name, copies as nvprof and nsys write them."""
    columns = schema_columns("top_activities", table)
    names = ("total_ns", "share", "calls", "mean_ns")
    copies = {"memcpy": "[CUDA memcpy {}]", "memset": "[CUDA memset]"}
    rows = [
        (
            *(cell(columns[n], row[n]) for n in names),
            copies.get(row["activity_kind"], "{}").format(clean(row["name"])),
        )
        for row in table.to_pylist()
    ]
    header = (*headings(columns, names), "Name")
    return Grid("Costliest activities", header, tuple(rows), (len(names),), _LEAST_ACTIVITIES)


def _epochs_grid(table: pa.Table) -> Grid:
    return replace(table_grid("Marked epochs", "marked_epochs", table), least=_LEAST_EPOCHS)


def table_grid(title: str, name: str, table: pa.Table) -> Grid:
    """A whole table, without the columns that are unknown or an empty text in every row."""
    columns = schema_columns(name, table)
    rows = table.to_pylist()
    kept = [c for c in columns if not rows or any(row[c] not in _NOTHING for row in rows)]
    cells = [tuple(cell(columns[c], row[c]) for c in kept) for row in rows]
    names = tuple(i for i, c in enumerate(kept) if columns[c].kind == Kind.TEXT)
    sentences = tuple(i for i in names if kept[i] in _SENTENCES)
    keys = tuple(i for i, c in enumerate(kept) if c in _KEYS)
    rank = kept.index("rank") if "rank" in kept else None
    header = headings(columns, kept)
    return Grid(title, header, tuple(cells), names, sentences=sentences, keys=keys, rank=rank)


def _breakdown_grid(table: pa.Table) -> Grid:
    """Each device's span, and what it went to."""
    shown = {
        "span_ns": "Span",
        "compute_ns": "Compute",
        "exposed_communication_ns": "Communi- cation",
        "exposed_transfer_ns": "Exposed transfer",
        "exposed_local_copy_ns": "Local copy",
        "idle_ns": "Idle",
    }
    rows = [
        (
            "unknown device" if row["device_id"] is None else f"device {row['device_id']}",
            *(units.format_ns(row[name]) for name in shown),
        )
        for row in table.to_pylist()
    ]
    title = "Where each device's time went"
    return Grid(title, ("", *shown.values()), tuple(rows), least=_LEAST_DEVICES)


def _peer_grid(table: pa.Table) -> Grid:
    """Who copies to whom: the costliest first, then the costliest between two devices."""
    columns = schema_columns("peer_matrix", table)
    routes = table.to_pylist()
    names = ("calls", "total_ns", "bytes", "bytes_per_s", "peak_share")
    kept = names if any(row["peak_share"] is not None for row in routes) else names[:-1]
    peer = next((row for row in routes[1:] if "host" not in {row["src"], row["dst"]}), None)
    rows = [
        (
            f"{row['src']} to {row['dst']}, {row['path']}",
            *(cell(columns[n], row[n]) for n in kept),
        )
        for row in sorted(routes, key=lambda row: (row is not routes[0], row is not peer))
    ]
    title = "Transfers from where to where"
    return Grid(title, ("", *headings(columns, kept)), tuple(rows), least=_LEAST_ROUTES)


def _tensor_grid(table: pa.Table) -> Grid:
    """The tensors that move most, with the operations at their ends."""
    columns = schema_columns("tensor_transfers", table)
    names = ("bytes_per_step", "calls_per_step")
    rows = [
        (
            *(cell(columns[name], row[name]) for name in names),
            f"{row['src_device']} > {row['dst_device']}",
            "yes" if row["is_gradient"] else "",
            clean(row["dst_operation"] or row["src_operation"] or ""),
        )
        for row in table.to_pylist()[:_TENSORS]
    ]
    header = ("Bytes per step", "Copies per step", "From > to", "For gradients", "Operation")
    return Grid("Largest copies between devices", header, tuple(rows), (4,))


_Show = Callable[[pa.Table], Grid]
# What the overview shows of a recording of GPUs.
_GPU_OVERVIEW: Final[tuple[tuple[str, _Show], ...]] = (
    ("breakdown", _breakdown_grid),
    ("totals", _totals_grid),
    ("peer_matrix", _peer_grid),
    ("top_activities", _top_grid),
)


def findings_lines(result: Report) -> list[str]:
    """The worst finding of each table in a sentence, the first with what to try."""
    tables = [result.tables.get(name) for name in ("findings", "placement_hints")]
    findings = [row for table in tables if table is not None for row in table.to_pylist()]
    counts = Counter(row["table"] for row in findings)
    worst = {row["table"]: row for row in reversed(findings)}
    rows = sorted(worst.values(), key=findings.index)[:_FINDINGS]
    more = [f"; {n - 1} more like this" * (n > 1) for n in (counts[row["table"]] for row in rows)]
    lines = [
        f"{number}. {capital(clean(row['finding']))}{like_it}"
        for number, (row, like_it) in enumerate(zip(rows, more, strict=True), start=1)
    ]
    if rows:
        lines[0] += f". {capital(rows[0]['suggestion'])}"
    return [f"{line} (--table {row['table']})." for line, row in zip(lines, rows, strict=True)]


def report_grids(result: Report, tables: Sequence[str] | None) -> list[Grid]:
    """The overview, the longest table last, or the tables that were asked for, whole."""
    if tables is None:
        has_tensors = result.tables.get("tensor_transfers") is not None
        overview = (("tensor_transfers", _tensor_grid),) if has_tensors else _GPU_OVERVIEW
        grids = _grids(result, overview) or _grids(result, (("marked_epochs", _epochs_grid),))
        sentences = " ".join(findings_lines(result))
        return [replace(grid, named=_rows_named(grid, sentences)) for grid in grids]
    return [
        table_grid(analysis_named(name).title, name, table)
        for name in tables
        if (table := result.tables[name]) is not None
    ]


def _rows_named(grid: Grid, sentences: str) -> frozenset[int]:
    """The rows whose names stand in sentences: devices, and routes of copies."""
    if not grid.name_columns:
        return frozenset()
    names = [row[grid.name_columns[0]].partition(",")[0].strip() for row in grid.rows]
    # A finding that opens with its device has a capital letter.
    is_named = [
        bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentences, re.IGNORECASE)
        for name in names
    ]
    return frozenset(place for place, match in enumerate(is_named) if match)


def _grids(result: Report, overview: Sequence[tuple[str, _Show]]) -> list[Grid]:
    tables = [(show, result.tables.get(name)) for name, show in overview]
    return [show(table) for show, table in tables if table is not None and table.num_rows]
