"""Sums that `nsys stats` printed, as rows of ``activity_summary``."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.base.kernel_names import CUT_END
from gpuprof.readers.common.compact_columns import listed
from gpuprof.readers.nsys_stats import numerals
from gpuprof.readers.nsys_stats.blocks import API_NAME, Block
from gpuprof.readers.nsys_stats.numerals import numbers

Row = dict[str, Any]
_CATEGORIES: Final = {"CUDA_API": "api", "CUDA_KERNEL": "kernel", "MEMORY_OPER": "memory"}
# A table that sums up everything stands in only where the table of one kind is absent.
_STANDS_FOR: Final = {
    "kernel": ("kernel", "kernel_by_grid", "gpu", "api_gpu"),
    "memory": ("memory", "gpu", "api_gpu"),
    "api": ("api", "api_gpu"),
}


def summary_rows(run: Mapping[str, Sequence[Block]]) -> list[Row]:
    """Rows of ``activity_summary`` of one recording.

    Raises:
        FaultError: A cell that must hold a number does not.
    """
    rows: list[Row] = []
    for category, kinds in _STANDS_FOR.items():
        part = next((p for kind in kinds for p in run.get(kind, ())), None)
        if part is not None:
            of_category = [*_rows(part, category)]
            is_split = part.kind == "kernel_by_grid"
            rows += _one_per_kernel(of_category) if is_split else _calls(of_category)
    for part in run.get("size", ()):
        totals = listed(numbers(part, numerals.sizes, "Total"))
        counts = listed(numbers(part, numerals.scaled, "Count"))
        for name, size, count in zip(part.texts("Name"), totals, counts, strict=True):
            if name is None:
                continue
            named = _named(name, "memory")
            alike = [row for row in rows if named.items() <= row.items() and row["calls"] == count]
            if alike:
                alike[0]["bytes"] = size
            else:  # only sizes were printed
                rows.append({**named, "calls": count, "bytes": size, "section": "memory"})
    return rows


_MEANS: Final = partial(numerals.times, kind=pa.float64())
_COLUMNS: Final[Mapping[str, tuple[numerals.Read, str]]] = {
    "printed_share": (numerals.shares, "Time"),
    "total_ns": (numerals.times, "Total Time"),
    "calls": (numerals.scaled, "Count"),
    "min_ns": (numerals.times, "Min"),
    "max_ns": (numerals.times, "Max"),
    "mean_ns": (_MEANS, "Avg"),
    "median_ns": (_MEANS, "Med"),
    "stddev_ns": (_MEANS, "StdDev"),
}


def _rows(block: Block, category: str) -> Iterator[Row]:
    """The rows of one category."""
    columns = {name: listed(numbers(block, *column)) for name, column in _COLUMNS.items()}
    table = block.kind.removesuffix("_by_grid")
    # What the printed shares are shares of.
    section: Row = {"printed_share": None} if block.kind == "api_gpu" else {"section": table}
    names = zip(block.texts("Name"), block.texts("Category"), strict=True)
    for number, (name, word) in enumerate(names):
        is_meant = _CATEGORIES.get(word or "", table) == category
        if is_meant and name is not None and (category != "api" or API_NAME.match(name)):
            values = {column: cells[number] for column, cells in columns.items()}
            yield {**values, **_named(name, category), **section}


def _named(name: str, category: str) -> Row:
    if category != "memory":
        return {"activity_kind": category, "name": name}
    if cuda.is_memset(name):
        return {"activity_kind": "memset", "name": "memset"}
    return {"activity_kind": "memcpy", "name": cuda.memcpy_kind(name) or cuda.UNKNOWN}


def _calls(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows without those that repeat an API function's calls.

    With ``--cudabacktrace`` a call is recorded once more, around itself, to carry its stack;
    `nsys stats` adds up both, each in a row of the function's name. Not all calls have a stack.
    """
    fewest_first = sorted(rows, key=lambda row: (row["calls"] or 0, -(row["total_ns"] or 0)))
    by_name = {row["name"]: row for row in fewest_first if _is_api(row)}
    calls = [row for row in rows if not _is_api(row) or row is by_name[row["name"]]]
    if len(calls) == len(rows):
        return rows
    # The printed shares are of a total with the repeated calls.
    return [row | {"printed_share": None} for row in calls]


def _is_api(row: Row) -> bool:
    return row["activity_kind"] == "api" and not row["name"].endswith(CUT_END)


def _one_per_kernel(rows: Iterable[Row]) -> list[Row]:
    """One row per name where the rows of a kernel were split by the shape of its launch."""
    merged: dict[str, list[Row]] = defaultdict(list)
    for number, row in enumerate(rows):
        # A name that was cut may be that of several kernels.
        name = row["name"]
        merged[f"{name}{number}" if name.endswith(CUT_END) else name].append(row)
    kernels = []
    for parts in merged.values():
        calls, total = _over(sum, parts, "calls"), _over(sum, parts, "total_ns")
        row_values = {
            **parts[0],
            "calls": calls,
            "total_ns": total,
            "min_ns": _over(min, parts, "min_ns"),
            "max_ns": _over(max, parts, "max_ns"),
            "mean_ns": total / calls if calls and total is not None else None,
            # The parts do not tell the median of the whole.
            "median_ns": None,
            "stddev_ns": None,
            # Shares that were rounded each do not add up to the rounded share.
            "printed_share": None,
        }
        kernels.append(row_values if len(parts) > 1 else parts[0])
    return kernels


def _over(fold: Any, rows: Sequence[Row], column: str) -> Any:
    values = [row[column] for row in rows]
    folded = None if None in values else fold(values)
    return None if folded is None or folded >= 1 << 63 else folded
