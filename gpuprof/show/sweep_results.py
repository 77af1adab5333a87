"""A sweep's results: a table for people, a page, charts, CSV and Parquet of every run and cell."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuprof.base import units
from gpuprof.base.secrets import masked_words
from gpuprof.base.units import counted
from gpuprof.show import Page, Row, csv, renderer_named
from gpuprof.show.cells import cell, clean
from gpuprof.show.charts import sweeps
from gpuprof.show.charts.figure import save as save_picture
from gpuprof.show.output import Output
from gpuprof.show.overview import Grid
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.tables import grid_table
from gpuprof.sweeps.break_even import break_evens
from gpuprof.sweeps.results import CELLS, FIGURE, RECORDED, Results

FORMAT_VERSION: Final = 1
_RECORDED_SHOWN: Final = {
    "peer_transfer_bytes_per_step": "Copied per step",
    "peer_transfer_calls_per_step": "Copies per step",
    "peer_transfer_ns": "PtoP",
    "exposed_transfer_ns": "Exposed transfers",
}


def sweep_text(results: Results, form: str, page: Page) -> str:
    """A sweep in one of the formats of ``--format``."""
    if form == "csv":
        return csv.rows_text(results.cells.column_names, results.cells.to_pylist())
    if form == "json":
        tables = {"cells": results.cells, "runs": results.runs}
        if results.plan.baseline:
            tables["break_evens"] = break_evens(results)
        document = {
            "format_version": FORMAT_VERSION,
            "per_epoch": results.per_epoch,
            **{name: table.to_pylist() for name, table in tables.items()},
            "notes": notes(results),
        }
        return json.dumps(document, indent=2) + "\n"
    parts = headline(results), sweep_grids(results), notes(results)
    return renderer_named(form).grids_text(*parts, page)


def headline(results: Results) -> str:
    """How many cells ran, and the highest speed-up, in a sentence or two."""
    rows = results.cells.to_pylist()
    ok = sum(row["status"] == "ok" for row in rows)
    ran = f"{ok} of {len(rows)} cells ran"
    best = _best(rows)
    if best is None:
        return f"{ran}."
    if best["speed_up"] <= 1:
        return f"{ran}. None is faster than the baseline."
    limits = f" (range {between})" if (between := _range(best)) else ""
    return f"{ran}. The highest speed-up is {best['speed_up']:.2f}x{limits}, with {best['cell']}."


def _best(rows: Sequence[Row]) -> Row | None:
    """The cell with the highest speed-up; None where none is known."""
    ranked = [row for row in rows if row["speed_up"] is not None]
    return max(ranked, key=lambda row: float(row["speed_up"]), default=None)


def sweep_grids(results: Results) -> list[Grid]:
    """The cells, and the break-even of each placement.

    That is of the medians, then of the fastest and slowest runs where it differs.
    """
    grids = [_cells_grid(results)]
    failed = [row for row in results.cells.to_pylist() if row["reason"]]
    if failed:
        reasons = tuple((clean(r["cell"]), r["status"], clean(r["reason"])) for r in failed)
        heads = ("Cell", "Status", "Reason")
        grids.append(Grid("Cells without a result", heads, reasons, (0, 1, 2)))
    by_axis: dict[str, list[tuple[str, str]]] = {}
    for of in break_evens(results).to_pylist():
        rows = by_axis.setdefault(of["axis"], [])
        rows.append((clean(of["variant"]), of["meaning"]))
        if of["at_best"] != of["at_worst"]:
            rows += [("  at best", of["at_best"]), ("  at worst", of["at_worst"])]
    for axis, rows in by_axis.items():
        header = ("", "Against the baseline")
        grids.append(Grid(f"Break-even along {axis}", header, tuple(rows), (0, 1)))
    return grids


def _cells_grid(results: Results) -> Grid:
    rows = results.cells.to_pylist()
    axes = tuple(results.plan.axes)
    has_repeats = any(row["spread"] is not None for row in rows)
    time = "s per epoch" if results.per_epoch else "Seconds"
    columns = {axis: [clean(str(row[axis])) for row in rows] for axis in axes}
    columns[time] = [units.format_seconds(row["seconds"]) for row in rows]
    if has_repeats:
        columns["Spread"] = [cell(CELLS["spread"], row["spread"]) for row in rows]
    if results.plan.baseline:
        # A star at the highest, whose place the others keep free.
        best = _best(rows)
        is_marked = best is not None and best["speed_up"] > 1
        columns["Speed-up"] = [
            ("n/a" if row["speed_up"] is None else f"{row['speed_up']:.2f}x")
            + (" *" if row is best else "  ") * is_marked
            for row in rows
        ]
    if has_repeats and results.plan.baseline:
        columns["Range"] = [_range(row) for row in rows]
    columns["Runs"] = [str(row["runs"]) for row in rows]
    for name in results.plan.figures:
        columns[FIGURE.heading(name)] = [cell(FIGURE, row[name]) for row in rows]
    for name, title in _RECORDED_SHOWN.items():
        if any(row.get(name) for row in rows):
            columns[title] = [cell(RECORDED[name], row[name]) for row in rows]
    lines = tuple(zip(*columns.values(), strict=True))
    return Grid("", tuple(columns), lines, tuple(range(len(axes))))


def _range(row: Row) -> str:
    least, most = row["speed_up_min"], row["speed_up_max"]
    return "" if least is None or least == most else f"{least:.2f} to {most:.2f}"


def notes(results: Results) -> list[str]:
    """How to read the figures."""
    plan = results.plan
    skipped = counted(plan.skipped_epochs or 0, "epoch", "epochs").removeprefix("1 ")
    first = f", without the first {skipped}" if plan.skipped_epochs else ""
    first = ", past the warm-up" if plan.skipped_epochs is None else first
    measured = f"a marked epoch{first} of each run" if results.per_epoch else "the whole program"
    lines = [f"Seconds are the time of {measured}; the median over the runs is shown."]
    if plan.baseline:
        values = ", ".join(f"{axis}={value}" for axis, value in plan.baseline.items())
        lines.append(
            f"Speed-up is the seconds with {values} divided by the seconds of the cell; * marks"
            " the highest."
        )
    if plan.repeat == 1:
        lines.append("With one run per cell, noise cannot be judged.")
    elif plan.baseline:
        lines.append(
            "Range is the baseline's fastest run divided by the cell's slowest, to the baseline's"
            " slowest divided by the cell's fastest."
        )
    return lines


def save(results: Results, folder: Path) -> list[str]:
    """Write the charts that there are, and as CSV and Parquet ``results`` and ``runs``.

    Returns:
        Names of the files: ``results`` has a row per cell, ``runs`` one per run.

    Raises:
        OutputError: One cannot be written.
    """
    from pyarrow import parquet  # noqa: PLC0415 - start-up time of what only shows results

    names = ["results.csv", "results.parquet", "runs.csv", "runs.parquet"]
    for name, table in (("results", results.cells), ("runs", results.runs)):
        text = csv.rows_text(table.column_names, table.to_pylist())
        Output(folder / f"{name}.csv").write_text(text)
        Output(folder / f"{name}.parquet").save(
            lambda path, table=table: parquet.write_table(table, path)  # type: ignore[misc]
        )
    for name, shown in (("break-even.svg", sweeps.break_even), ("scaling.svg", sweeps.seconds)):
        if (picture := shown(results)) is not None:
            save_picture(picture, Output(folder / name))
            names.append(name)
    return names


def sweep_page(results: Results, folder: Path) -> str:
    """The results of a sweep in a folder as one HTML file."""
    name = clean(str(folder))
    return html(
        Document(
            title=f"{name} - gpuprof",
            heading=f"Sweep in {name}",
            verdict=(clean(headline(results)),),
            figures=(),
            tables=tuple(
                grid_table(f"sweep-{number}", grid, grid.title or "Cells")
                for number, grid in enumerate(sweep_grids(results), start=1)
            ),
            notes=tuple(notes(results)),
            provenance=(
                ("Folder", name),
                ("Command", clean(" ".join(masked_words(results.plan.command)))),
                ("Recorder", results.plan.recorder),
            ),
        )
    )
