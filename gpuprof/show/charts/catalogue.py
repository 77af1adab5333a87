"""Result tables -> pictures: each chart is one file and one line in `CHARTS`."""

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.analyses import analysis_named
from gpuprof.analyses.notes import how_recorded
from gpuprof.analyses.reports import Report, report
from gpuprof.base.errors import EmptyRecordingError, MissingTableError, UsageError, one_of
from gpuprof.base.short_texts import shortened, shortened_apart
from gpuprof.model.profile import Profile
from gpuprof.show.cells import clean, without_common_ends
from gpuprof.show.charts import (
    copy_sizes,
    gpu_metrics,
    kernels,
    matrix,
    memory,
    placement,
    ranks,
    roofline,
    steps,
    sweeps,
    timeline,
    two_steps,
    utilisation,
    variants,
    waterfall,
)
from gpuprof.show.charts.figure import Chart, Picture, Results, figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuprof.comparisons import Comparison

_LONGEST_NAME: Final = 32  # Of a variant in a title.
CHARTS: Final[tuple[Chart, ...]] = (
    timeline.CHART,
    steps.CHART,
    kernels.CHART,
    roofline.CHART,
    matrix.CHART,
    copy_sizes.CHART,
    utilisation.CHART,
    gpu_metrics.CHART,
    memory.CHART,
    ranks.IN_STEPS,
    ranks.OVER_TIME,
    placement.CHART,
    variants.CHART,
    waterfall.CHART,
    two_steps.CHART,
    sweeps.SCALING,
    sweeps.BATCH,
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


def of_recording(profile: Profile, chart: Chart) -> Results:
    """What the analyses say that a chart takes."""
    return of_report(report(profile, chart.tables))


def of_report(result: Report) -> Results:
    """The tables of a report, with what people know its devices by."""
    return Results(result.tables, device_names=result.device_names)


def of_times(path: Path) -> Results:
    """Speed-ups over devices and over batch sizes, of measured times or a sweep's results.

    Raises:
        GpuprofError: It cannot be read, or lacks a column.
    """
    from gpuprof.sweeps.times import (  # noqa: PLC0415 - of sweeps alone
        batch_speed_ups,
        read_times,
        scaling,
    )

    times = read_times(path)
    return Results({"scaling": scaling(times), "batch_speed_ups": batch_speed_ups(times)})


def of_comparison(result: "Comparison") -> Results:
    """All tables of a comparison, under its title with short names of the variants."""
    from gpuprof.show.charts.side_by_side import side_by_side  # noqa: PLC0415 - start-up time

    values = {field.name: getattr(result, field.name) for field in fields(result)}
    tables = {name: value for name, value in values.items() if isinstance(value, pa.Table)}
    names = without_common_ends(result.variants.column("variant").to_pylist())
    looks = shortened_apart([*names.values()], _LONGEST_NAME, shortened)
    title = result.title
    for name, look in sorted(zip(names, looks, strict=True), key=lambda pair: -len(pair[0])):
        title = title.replace(name, look)
    steps = partial(side_by_side, result, {name: clean(look) for name, look in names.items()})
    return Results(tables, title, result.baseline, result.phase, steps=steps)


def picture_of(chart: Chart, results: Results) -> Picture:
    """What a chart shows of results.

    Raises:
        MissingTableError: The recording lacks a table that the chart needs.
        EmptyRecordingError: There is nothing to draw.
    """
    missing = [name for name in chart.tables if results.tables.get(name) is None]
    if missing:
        msg = f"{chart.name} cannot be drawn: this recording has no {' and '.join(missing)}"
        hint = how_recorded(table for name in missing for table in analysis_named(name).needs)
        raise MissingTableError(msg, hint or "`gpuprof report` gives the reason.")
    picture = chart.picture(results)
    if not picture.rows.num_rows:
        msg = f"{chart.name} cannot be drawn: the recording has no such activity"
        raise EmptyRecordingError(msg, f"It shows {chart.title[0].lower()}{chart.title[1:]}.")
    return picture._replace(finding=results.device_names.in_text(picture.finding))


def drawn(chart: Chart, results: Results) -> "Figure":
    """A chart of results as a figure of matplotlib.

    Raises:
        MissingTableError: The recording lacks a table that the chart needs.
        EmptyRecordingError: There is nothing to draw.
    """
    return figure_of(picture_of(chart, results))
