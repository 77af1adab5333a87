"""Kernels of a comparison as grids for terminal and markdown."""

from collections import Counter

import pyarrow as pa

from gpuprof.base import units
from gpuprof.comparisons import Comparison
from gpuprof.show import Row
from gpuprof.show.cells import clean, percent, signed_ns, with_one_name
from gpuprof.show.overview import Grid


def kernel_grids(
    result: Comparison, most: int | None, *, has_full_names: bool = False
) -> list[Grid]:
    """Each candidate's kernels, the largest differences first.

    Args:
        result: The comparison.
        most: How many kernels of each candidate to show; None for all.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    counts = Counter(result.kernels.column("variant").to_pylist())
    grids, first = [], 0
    # Twenty thousand rows are sorted already, and few of them are shown.
    for label, count in counts.items():
        kernels = result.kernels.slice(first, count)
        title = f"Kernels of {clean(label)} against {clean(result.baseline)}"
        # One side has no launch shapes.
        if not any(kernels.column("grid").to_pylist() + kernels.column("is_reshaped").to_pylist()):
            title += ", by name alone"
        title += ", calls x mean"
        shown = kernels.slice(0, most)
        if len(shown) < count:
            title += f" ({len(shown)} of {count})"
        grids.append(_kernels(title, with_one_name(shown, has_full_names=has_full_names)))
        first += count
    return grids


def _kernels(title: str, table: pa.Table) -> Grid:
    rows = table.to_pylist()
    has_p = any(row["adjusted_p_value"] is not None for row in rows)
    has_shape = any(row["grid"] or row["is_reshaped"] for row in rows)
    cells = [
        (
            signed_ns(row["difference_ns"]),
            percent(row["contribution"]),
            row["status"],
            _of_side(row, "baseline"),
            _of_side(row, "candidate"),
            *([_p_value(row["adjusted_p_value"])] if has_p else []),
            clean(row["name"]),
            *([_shape(row)] if has_shape else []),
        )
        for row in rows
    ]
    header = (
        "Difference",
        "Of kernels",
        "",
        "Baseline",
        "Candidate",
        *(["p (adjusted)"] if has_p else []),
        "Kernel",
        *(["Grid, block"] if has_shape else []),
    )
    return Grid(title, header, tuple(cells), (2, *range(header.index("Kernel"), len(header))))


def _of_side(row: Row, side: str) -> str:
    """``30 x 7.869 ms``: calls, of a step perhaps no whole number, and their mean."""
    calls, mean = row[f"{side}_calls"], row[f"{side}_mean_ns"]
    if not calls or mean is None:
        return units.format_ns(row[f"{side}_ns"])
    shown = f"{calls:,.1f}" if calls % 1 else units.format_count(calls)
    return f"{shown} x {units.format_ns(mean)}"


def _shape(row: Row) -> str:
    """How a kernel is launched, where it is launched alike on both sides."""
    is_alike = row["grid"] and row["block"]
    return f"{_plain(row['grid'])}, {_plain(row['block'])}" if is_alike else "other shapes"


def _plain(shape: str) -> str:
    """``128x1x1`` as ``128``, as it is written in a launch."""
    return shape.removesuffix("x1").removesuffix("x1")


def _p_value(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3g}"
