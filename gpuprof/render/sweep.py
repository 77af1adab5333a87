"""A sweep's results: a table for people, CSV and Parquet of every run and every cell."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from gpuprof import units
from gpuprof.render import csv, markdown, terminal
from gpuprof.render.cells import cell, clean
from gpuprof.render.contract import Page
from gpuprof.render.output import Output
from gpuprof.render.overview import Grid
from gpuprof.schema import Column
from gpuprof.sweeps.break_even import break_evens
from gpuprof.sweeps.results import CELLS, FIGURE, RECORDED, Results

FORMAT_VERSION: Final = 1
_RECORDED_SHOWN: Final = {
    "peer_transfer_bytes_per_step": "Copied per step",
    "peer_transfer_calls_per_step": "Copies per step",
    "peer_transfer_ns": "PtoP",
    "exposed_transfer_ns": "Exposed transfers",
}

Row = dict[str, Any]


def sweep_text(found: Results, form: str, page: Page) -> str:
    """A sweep in one of the formats of ``--format``."""
    show: Mapping[str, Callable[[], str]] = {
        "terminal": lambda: terminal.grids_text(
            headline(found), sweep_grids(found), notes(found), page
        ),
        "markdown": lambda: markdown.grids_text(headline(found), sweep_grids(found), notes(found)),
        "csv": lambda: table_csv(found.cells),
        "json": lambda: _json(found),
    }
    return show[form]()


def save_tables(found: Results, folder: Path) -> None:
    """Write ``results`` (a row per cell) and ``runs`` (one per run), each as CSV and Parquet.

    Raises:
        OutputError: One cannot be written.
    """
    from pyarrow import parquet  # noqa: PLC0415 - what else is shown needs none of it

    for name, table in (("results", found.cells), ("runs", found.runs)):
        Output(folder / f"{name}.csv").write_text(table_csv(table))
        Output(folder / f"{name}.parquet").save(
            lambda path, table=table: parquet.write_table(table, path)  # type: ignore[misc]
        )


def table_csv(table: pa.Table) -> str:
    """A table in base units, empty where unknown."""
    return csv.rows_text(table.column_names, table.to_pylist())


def headline(found: Results) -> str:
    """What came of the sweep, in a sentence."""
    rows = found.cells.to_pylist()
    ok = sum(row["status"] == "ok" for row in rows)
    said = f"{ok} of {len(rows)} cells ran"
    ranked = [row for row in rows if row["speed_up"] is not None]
    if not ranked:
        return f"{said}."
    best = max(ranked, key=lambda row: float(row["speed_up"]))
    if best["speed_up"] <= 1:
        return f"{said}. None is faster than the baseline."
    return f"{said}. The greatest speed-up is {_times(best['speed_up'])}, of {best['cell']}."


def sweep_grids(found: Results) -> list[Grid]:
    """The cells, and from where on each placement is faster."""
    grids = [_cells_grid(found), *_reasons_grid(found)]
    crossings = break_evens(found).to_pylist() if found.plan.baseline else []
    along = dict.fromkeys(row["axis"] for row in crossings)
    return [*grids, *(_break_even_grid(axis, crossings) for axis in along)]


def _break_even_grid(axis: str, crossings: Sequence[Row]) -> Grid:
    rows = tuple(row for found in crossings if found["axis"] == axis for row in _said(found))
    return Grid(f"Break-even along {axis}", ("", "Against the baseline"), rows, (0, 1))


def _said(crossing: Row) -> Iterator[tuple[str, str]]:
    """What the medians say, then what the runs at their extremes would, where that differs."""
    yield clean(crossing["variant"]), crossing["meaning"]
    if crossing["at_best"] != crossing["at_worst"]:
        yield "  at best", crossing["at_best"]
        yield "  at worst", crossing["at_worst"]


def _cells_grid(found: Results) -> Grid:
    rows = found.cells.to_pylist()
    axes = tuple(found.plan.axes)
    has_repeats = any(row["spread"] is not None for row in rows)
    time = "s per epoch" if found.per_epoch else "Seconds"
    columns: dict[str, Callable[[Row], str]] = {
        **{axis: partial(_value, axis) for axis in axes},
        time: lambda row: units.format_seconds(row["seconds"]),
        **({"Spread": partial(_cell, CELLS["spread"], "spread")} if has_repeats else {}),
        **({"Speed-up": lambda row: _times(row["speed_up"])} if found.plan.baseline else {}),
        **({"Range": _range} if has_repeats and found.plan.baseline else {}),
        "Runs": lambda row: str(row["runs"]),
        **{FIGURE.heading(name): partial(_cell, FIGURE, name) for name in found.plan.figures},
        **{
            title: partial(_cell, RECORDED[name], name)
            for name, title in _RECORDED_SHOWN.items()
            if any(row.get(name) for row in rows)
        },
    }
    shown = tuple(tuple(words(row) for words in columns.values()) for row in rows)
    return Grid("", tuple(columns), shown, tuple(range(len(axes))))


def _reasons_grid(found: Results) -> list[Grid]:
    rows = [row for row in found.cells.to_pylist() if row["reason"]]
    shown = tuple((clean(row["cell"]), row["status"], clean(row["reason"])) for row in rows)
    return [Grid("Not ok", ("Cell", "Status", "Reason"), shown, (0, 1, 2))] if rows else []


def _value(axis: str, row: Row) -> str:
    return clean(str(row[axis]))


def _cell(column: Column, name: str, row: Row) -> str:
    return cell(column, row[name])


def _range(row: Row) -> str:
    least, most = row["speed_up_min"], row["speed_up_max"]
    return "" if least is None or least == most else f"{least:.2f} to {most:.2f}"


def _times(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}x"


def notes(found: Results) -> list[str]:
    """How the figures are to be read."""
    plan = found.plan
    what = "an epoch, as marked" if found.per_epoch else "the whole program"
    skipped = f", without the first {plan.skipped_epochs} of a run" if plan.skipped_epochs else ""
    said = [f"Seconds are of {what}{skipped if found.per_epoch else ''}: the median over runs."]
    if plan.baseline:
        values = ", ".join(f"{axis}={value}" for axis, value in plan.baseline.items())
        said.append(f"Speed-up: seconds with {values} and the same other values / seconds.")
    if plan.repeat == 1:
        said.append("One run of each cell: how much runs differ by chance is not known.")
    elif plan.baseline:
        said.append(
            "Range: the baseline's fastest run / the slowest, and its slowest / the fastest."
        )
    return said


def _json(found: Results) -> str:
    tables = {"cells": found.cells, "runs": found.runs}
    if found.plan.baseline:
        tables["break_evens"] = break_evens(found)
    document = {
        "format_version": FORMAT_VERSION,
        "per_epoch": found.per_epoch,
        **{name: table.to_pylist() for name, table in tables.items()},
        "notes": notes(found),
    }
    return json.dumps(document, indent=2) + "\n"
