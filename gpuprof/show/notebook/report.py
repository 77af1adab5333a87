"""The summary of a report: its bottom line, the costliest findings, and small tables."""

from collections.abc import Sequence

import pyarrow as pa

from gpuprof.analyses.reports import Report
from gpuprof.base.units import capital
from gpuprof.show.charts import charts_about
from gpuprof.show.contract import RECORDING, Page, Row
from gpuprof.show.notebook.summary import Point, Summary
from gpuprof.show.overview import Grid, all_findings, report_grids
from gpuprof.show.page import recording, recording_figures
from gpuprof.show.page.figures import Figure


def report_summary(
    result: Report, available: Sequence[str], requested: tuple[str, ...] | None = None
) -> Summary:
    """What a notebook shows of a report.

    Args:
        result: The tables of the overview, or those that were requested.
        available: Names of all tables that the recording can give.
        requested: Names of the tables that were requested; None for the overview.
    """
    origin = result.origin
    charts = charts_about(RECORDING)
    summary = Summary(
        f"{origin.source}: {origin.recorder}, read as {origin.reader}",
        grids=tuple(report_grids(result, Page(tables=requested))),
        notes=result.notes,
        tables=tuple(available),
        charts=tuple(chart.name for chart in charts if {*chart.tables} <= {*available}),
    )
    if requested is not None:
        return summary
    devices = result.rows("breakdown")
    grid_of = {grid.title: grid for grid in summary.grids}
    bars = [recording_figures.breakdown(devices)] if devices else []
    figures = tuple(_named_first(figure, grid_of.get(figure.title)) for figure in bars)
    points = tuple(map(_point, all_findings(result)))
    first = bottom_line(result.tables.get("bottom_line"))
    drawn = {figure.title for figure in figures}
    return summary._replace(
        headline=first or ("" if points else f"{recording.verdict(result)[0]}."),
        points=points,
        figures=figures,
        grids=tuple(grid for grid in summary.grids if grid.title not in drawn),
    )


def _named_first(figure: Figure, grid: Grid | None) -> Figure:
    """Bars with those first that the sentences name: of many devices only some are shown."""
    if grid is None:
        return figure
    bars = figure.shown.bars
    places = sorted(range(len(bars)), key=lambda place: place not in grid.named)
    return figure._replace(shown=figure.shown._replace(bars=tuple(bars[p] for p in places)))


def bottom_line(table: pa.Table | None) -> str:
    """The first sentence of a report; empty where the recording cannot tell."""
    rows = [] if table is None else table.slice(0, 1).to_pylist()
    return f"{capital(rows[0]['bottom_line'])}." if rows else ""


def _point(row: Row) -> Point:
    """A finding: what to do about it, and what that saves."""
    suggestion, win = capital(row["suggestion"]), row.get("win")
    detail = f"{suggestion}."
    if win and row.get("predicted_win_ns") is not None:
        detail += f" Can save {win}."
    elif win and row.get("win_share"):
        detail += f" Saves {win}."
    return Point(f"{capital(row['finding'])}.", detail, row["table"])
