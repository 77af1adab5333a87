"""The summary of a result, as an HTML fragment and as text."""

import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpuprof.base.units import bound
from gpuprof.show.cells import clean
from gpuprof.show.overview import Grid
from gpuprof.show.page.figures import Figure

if TYPE_CHECKING:
    import jinja2

_MOST_ROWS: Final = 12
_MOST_BARS: Final = 8
_HERE: Final = Path(__file__).parent


class Point(NamedTuple):
    """A sentence of a summary, such as a finding.

    Args:
        sentence: What there is to know.
        detail: What to do about it; empty for nothing.
        table: The table that shows it; empty for none.
    """

    sentence: str
    detail: str = ""
    table: str = ""


class Summary(NamedTuple):
    """What is shown of a result before anything is asked for.

    Args:
        source: What was looked at, in a line.
        headline: What came out; empty where that is unknown.
        points: The further sentences, the most important one first.
        figures: Charts of bars.
        grids: Tables; the first one is open.
        notes: What a reader must know to trust the figures.
        tables: Names of all tables.
        charts: Names of the charts that can be drawn.
    """

    source: str
    headline: str = ""
    points: tuple[Point, ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()


def summary_html(summary: Summary) -> str:
    """A summary as an HTML fragment with its own styles; long tables are cut."""
    grids = [grid.cut(len(grid.rows) - _MOST_ROWS) for grid in summary.grids]
    first, point, further = summary.headline.partition(". ")
    return (
        _environment()
        .get_template("summary.html.jinja")
        .render(
            summary=summary._replace(grids=tuple(grids)),
            style=(_HERE / "summary.css").read_text(encoding="utf-8"),
            headline=(f"{first}.", further) if point else (first,),
            most_rows=_MOST_ROWS,
            most_bars=_MOST_BARS,
        )
    )


@cache
def _environment() -> "jinja2.Environment":
    import jinja2  # noqa: PLC0415 - 50 ms that only notebooks need

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _shown(value: Any) -> Any:
    """Texts of recordings without control characters; figures stay with their units."""
    return bound(clean(value)) if type(value) is str else value


def summary_text(summary: Summary, width: int) -> str:
    """A summary as text in lines of at most a width, without its tables."""
    points = [
        f"{number}. {point.sentence}{f' {point.detail}' if point.detail else ''}"
        + (f' ["{point.table}"]' if point.table else "")
        for number, point in enumerate(summary.points, start=1)
    ]
    names = {"Tables": summary.tables, "Charts": summary.charts}
    lines = [
        summary.source,
        *filter(None, [summary.headline]),
        *points,
        *(f"Note: {note}" for note in summary.notes),
        *(f"{title}: {', '.join(shown)}" for title, shown in names.items() if shown),
    ]
    filled = (textwrap.fill(bound(clean(line)), width) for line in lines)
    return "\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")
