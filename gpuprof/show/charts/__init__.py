"""Result tables -> pictures: each chart is one file and one line in `CHARTS`."""

from typing import TYPE_CHECKING, Final

from gpuprof.base.errors import EmptyRecordingError, MissingTableError, UsageError, one_of
from gpuprof.show.charts import (
    batch,
    copy_sizes,
    kernels,
    matrix,
    placement,
    ranks,
    ranks_over_time,
    scaling,
    steps,
    timeline,
    utilisation,
    variants,
    waterfall,
)
from gpuprof.show.charts.canvas import STYLE
from gpuprof.show.charts.contract import Chart, Picture, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHARTS: Final[tuple[Chart, ...]] = (
    timeline.CHART,
    steps.CHART,
    kernels.CHART,
    matrix.CHART,
    copy_sizes.CHART,
    utilisation.CHART,
    ranks.CHART,
    ranks_over_time.CHART,
    placement.CHART,
    variants.CHART,
    waterfall.CHART,
    scaling.CHART,
    batch.CHART,
)


def chart_named(name: str) -> Chart:
    """The chart of this name.

    Raises:
        UsageError: There is none.
    """
    chart = next((chart for chart in CHARTS if chart.name == name), None)
    if chart is None:
        msg = f"there is no chart {name}"
        raise UsageError(msg, one_of("Charts", name, [chart.name for chart in CHARTS]))
    return chart


def charts_about(subject: str) -> list[Chart]:
    """The charts of a recording, of a comparison, or of a sweep."""
    return [chart for chart in CHARTS if chart.subject == subject]


def chart_about(name: str, subject: str) -> Chart:
    """The chart of this name.

    Raises:
        UsageError: There is none, or it is not about that subject.
    """
    chart = chart_named(name)
    if chart.subject != subject:
        names = ", ".join(chart.name for chart in charts_about(subject))
        msg = f"chart {name} shows a {chart.subject}, not a {subject}"
        raise UsageError(msg, f"Charts of a {subject}: {names}.")
    return chart


def picture_of(chart: Chart, results: Results) -> Picture:
    """What a chart shows of results.

    Raises:
        MissingTableError: The recording lacks a table that the chart needs.
        EmptyRecordingError: There is nothing to draw.
    """
    missing = [name for name in chart.tables if results.tables.get(name) is None]
    if missing:
        msg = f"{chart.name} cannot be drawn: this recording has no {' and '.join(missing)}"
        raise MissingTableError(msg, "`gpuprof report` gives the reason.")
    picture = chart.picture(results)
    if not picture.rows.num_rows:
        msg = f"{chart.name} cannot be drawn: the recording has no such activity"
        raise EmptyRecordingError(msg, f"It shows {chart.title[0].lower()}{chart.title[1:]}.")
    names = results.device_names
    return picture._replace(finding=names.in_text(picture.finding), device_names=names)


def figure_of(chart: Chart, picture: Picture) -> "Figure":
    """A picture as a figure of matplotlib."""
    from matplotlib import rc_context  # noqa: PLC0415 - half a second that only charts need

    with rc_context(STYLE):
        return chart.draw(picture)


def drawn(chart: Chart, results: Results) -> "Figure":
    """A chart of results as a figure of matplotlib.

    Raises:
        MissingTableError: The recording lacks a table that the chart needs.
        EmptyRecordingError: There is nothing to draw.
    """
    return figure_of(chart, picture_of(chart, results))
