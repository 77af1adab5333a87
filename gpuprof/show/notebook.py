"""A result as a notebook or an interactive Python shows it: sentences, bars and small tables.

The HTML fragment has no scripts and loads nothing. It takes its colours from the notebook around
it, so that it fits light and dark themes.
"""

import shlex
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from gpuprof.analyses.reports import Report, report
from gpuprof.base.errors import GpuprofError
from gpuprof.base.labels import TIMING_ONLY, label
from gpuprof.base.manifest import Manifest
from gpuprof.base.units import bound, capital, counted, say_ns, say_seconds
from gpuprof.comparisons import Comparison
from gpuprof.comparisons.result_tables import TABLES
from gpuprof.model.profile import Profile
from gpuprof.show import COMPARISON, RECORDING, Page
from gpuprof.show.cells import clean
from gpuprof.show.charts.catalogue import charts_about
from gpuprof.show.comparison import figures_grid, split_grids
from gpuprof.show.overview import Grid, advice, all_findings, report_grids
from gpuprof.show.page import comparison_page, recording_page
from gpuprof.show.page.document import FOLDER, templates
from gpuprof.show.page.figures import Figure
from gpuprof.show.sweep_results import headline, notes, sweep_grids
from gpuprof.sweeps.results import Results

if TYPE_CHECKING:
    import jinja2

SWEEP_CHARTS: Final = ("scaling", "break-even")
_MOST_ROWS: Final = 12
_BULLET: Final = "   - "
_MOST_BARS: Final = 8
_QUICK_EVENTS: Final = 1_000_000  # Are looked at in about a second.
_COUNTED: Final = {"kernels", "transfers", "local_copies", "memsets", "api_calls"}


class Summary(NamedTuple):
    """What is shown of a result before anything is asked for.

    Args:
        source: What was looked at, in a line.
        headline: What came out; empty where that is unknown.
        points: Findings, the most important one first: what several of one family cost together,
            empty for one; of each what it is, what to do about it, and the table that shows it.
        figures: Charts of bars.
        grids: Tables; the first one is open.
        notes: What a reader must know to trust the figures.
        tables: Names of all tables.
        charts: Names of the charts that can be drawn.
    """

    source: str
    headline: str = ""
    points: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()


def summary_html(summary: Summary) -> str:
    """A summary as an HTML fragment with its own styles; long tables are cut."""
    grids = [grid.cut(len(grid.rows) - _MOST_ROWS) for grid in summary.grids]
    first, point, further = summary.headline.partition(". ")
    return _template().render(
        summary=summary._replace(grids=tuple(grids)),
        style=(FOLDER / "summary.css").read_text(encoding="utf-8"),
        headline=(f"{first}.", further) if point else (first,),
        most_rows=_MOST_ROWS,
        most_bars=_MOST_BARS,
    )


@cache
def _template() -> "jinja2.Template":
    # Texts of recordings have no control characters; figures stay with their units.
    shown = templates(finalize=lambda text: bound(clean(text)) if type(text) is str else text)
    return shown.get_template("summary.html.jinja")


def summary_text(summary: Summary, width: int | None = None) -> str:
    """A summary as text in lines of at most a width, the terminal's if None, without its tables."""
    width = shutil.get_terminal_size().columns if width is None else width
    points = []
    for number, (head, parts) in enumerate(summary.points, start=1):
        texts = [f'{finding} {advice} ["{table}"]' for finding, advice, table in parts]
        first, *below = [head, *(f"{_BULLET}{text}" for text in texts)] if head else texts
        points += [f"{number}. {first}", *below]
    names = {"Tables": summary.tables, "Charts": summary.charts}
    lines = [
        summary.source,
        *filter(None, [summary.headline]),
        *points,
        *(f"Note: {note}" for note in summary.notes),
        *(f"{title}: {', '.join(shown)}" for title, shown in names.items() if shown),
    ]
    hanging = " " * len(_BULLET)
    filled = (
        textwrap.fill(
            bound(clean(line)),
            width,
            subsequent_indent=hanging if line.startswith(_BULLET) else "",
        )
        for line in lines
    )
    return "\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")


def profile_summary(profile: Profile) -> Summary:
    """What a notebook shows of a recording: its devices and their span, counts, first sentence.

    Of a large one only what it is, as a look at all its events takes seconds.
    """
    origin = profile.origin
    source = f"{origin.source}: {origin.recorder}, read as {origin.reader}"
    if profile.events > _QUICK_EVENTS:
        about = f"About {profile.events:,} events; gpuprof.report(...) says where the time went."
        return Summary(source, about, tables=tuple(profile.sources))
    try:
        result = report(profile, ("breakdown", "totals", "bottom_line"))
    except GpuprofError as error:
        return Summary(source, error.message, tables=tuple(profile.sources))
    devices, counts = result.rows("breakdown"), []
    if devices:
        span_ns = max(row["span_ns"] for row in devices)
        counts = [f"{counted(len(devices), 'device', 'devices')}, {say_ns(span_ns)}"]
    counts += [
        f"{row['calls']:,} {label(row['activity_group']).replace('_', ' ')}"
        for row in result.rows("totals")
        if row["activity_group"] in _COUNTED and row["calls"]
    ]
    sentence = f"{', '.join(counts)}. {bottom_line(result.tables.get('bottom_line'))}".strip(". ")
    return Summary(source, f"{sentence}." if sentence else "", tables=tuple(profile.sources))


def report_summary(
    result: Report, available: Sequence[str], requested: tuple[str, ...] | None = None
) -> Summary:
    """What a notebook shows of a report: its bottom line, the costliest findings, small tables.

    Args:
        result: The tables of the overview, or those that were requested.
        available: Names of all tables that the recording can give.
        requested: Names of the tables that were requested; None for the overview.
    """
    origin, grids = result.origin, tuple(report_grids(result, Page(tables=requested)))
    charts = [c.name for c in charts_about(RECORDING) if {*c.tables} <= {*available}]
    summary = Summary(
        f"{origin.source}: {origin.recorder}, read as {origin.reader}",
        grids=grids,
        notes=result.notes,
        tables=tuple(available),
        charts=tuple(charts),
    )
    if requested is not None:
        return summary
    devices = result.rows("breakdown")
    # Those that sentences name come first: of many devices only some are shown.
    first_places = {p for grid in grids if grid.table == "breakdown" for p in grid.named}
    places = sorted(range(len(devices)), key=lambda place: place not in first_places)
    devices = [devices[place] for place in places]
    points = []
    for head, rows in all_findings(result):
        of_family = tuple((f"{capital(r['finding'])}.", advice(r), r["table"]) for r in rows)
        points.append((f"{capital(head)}." if head else "", of_family))
    first = bottom_line(result.tables.get("bottom_line"))
    return summary._replace(
        headline=first or ("" if points else f"{recording_page.verdict(result)[0]}."),
        points=tuple(points),
        figures=(recording_page.breakdown(devices),) if devices else (),
        grids=tuple(grid for grid in grids if grid.table != "breakdown"),
    )


def bottom_line(table: pa.Table | None) -> str:
    """The first sentence of a report; empty where the recording cannot tell."""
    rows = [] if table is None else table.slice(0, 1).to_pylist()
    return f"{capital(rows[0]['bottom_line'])}." if rows else ""


def comparison_summary(result: Comparison) -> Summary:
    """What a notebook shows of a comparison: its verdict, and where differences lie."""
    labels = result.variants.column("variant").to_pylist()
    return Summary(
        f"Compared: {', '.join(labels)}; baseline {result.baseline}",
        result.verdict,
        figures=tuple(f for f in comparison_page.figures(result) if f.name == "clock"),
        grids=(*split_grids(result), figures_grid(result, has_columns=True)),
        notes=result.notes,
        tables=("variants", *TABLES),
        charts=tuple(chart.name for chart in charts_about(COMPARISON)),
    )


def run_summary(folder: Path, manifest: Manifest, runs: int = 1) -> Summary:
    """What a notebook shows of a run: what ran, how long it took, and where it is.

    Args:
        folder: Its folder, or the folder of several runs.
        manifest: What is known of it; of several runs, of the last one.
        runs: How many there are.
    """
    several = "" if runs == 1 else f"{counted(runs, 'run', 'runs')} of "
    seconds = say_seconds(manifest.wall_seconds)
    is_timed = manifest.recorder == TIMING_ONLY
    how = "Only times were recorded" if is_timed else f"Recorded with {manifest.recorder}"
    sentences = [f"{how}, in {folder}; the program ran for {seconds}."]
    if manifest.epochs:
        epochs = counted(len(manifest.epochs), "marked epoch", "marked epochs")
        sentences.append(f"{epochs} of {say_seconds(manifest.seconds_per_epoch)}.")
    if manifest.nothing_recorded and not is_timed:
        sentences.append(f"{capital(manifest.nothing_recorded).removesuffix('.')}.")
    command = shlex.join(manifest.command)
    return Summary(f"{several}{command}", " ".join(sentences), notes=manifest.warnings)


def sweep_summary(results: Results, folder: Path) -> Summary:
    """What a notebook shows of a sweep: its cells, and where a variant breaks even."""
    cells, *break_evens = sweep_grids(results)
    return Summary(
        f"Sweep in {folder}",
        headline(results),
        grids=(replace(cells, title="Cells"), *break_evens),
        notes=tuple(notes(results)),
        tables=("cells", "runs", *(["break_evens"] if results.plan.baseline else [])),
        charts=SWEEP_CHARTS,
    )
