"""Charts as files: checked before the work begins, drawn when the results are there."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpuprof.analyses.reports import FORMAT_VERSION
from gpuprof.show.charts import (
    CHARTS,
    chart_about,
    charts_about,
    figure_of,
    picture_of,
)
from gpuprof.show.charts.canvas import check_suffix, save
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.csv import rows_text
from gpuprof.show.json import document_text
from gpuprof.show.output import Output, prepare


class Drawing(NamedTuple):
    """A chart that is to be drawn.

    Args:
        chart: Which.
        picture: Where to.
        data: Where what is drawn goes, as .csv or .json; None for nowhere.
    """

    chart: Chart
    picture: Output
    data: Output | None = None

    def draw(self, results: Results) -> None:
        """Draw it, and write the data beside it.

        Raises:
            GpuprofError: There is nothing to draw, or a file cannot be written.
        """
        shown = picture_of(self.chart, results)
        save(figure_of(self.chart, shown), self.picture)
        if self.data is not None:
            self.data.write_text(self._data_text(shown, self.data))

    def _data_text(self, shown: Picture, output: Output) -> str:
        rows = shown.rows.to_pylist()
        if output.path is not None and output.path.suffix == ".csv":
            return rows_text(shown.rows.column_names, rows)
        head = {"format_version": FORMAT_VERSION, "chart": self.chart.name}
        return document_text(head | {"finding": shown.finding, "rows": rows})


def drawing(
    chart: Chart,
    path: str,
    data_format: str | None,
    *,
    is_forced: bool,
    inputs: Sequence[str] = (),
) -> Drawing:
    """A chart and its files, found writable.

    Args:
        chart: Which.
        path: The picture.
        data_format: csv or json for a file of that suffix beside it, or None.
        is_forced: Whether files that exist may be replaced.
        inputs: What is read, which is never replaced.

    Raises:
        GpuprofError: The name has another ending, or a file cannot be written.
    """
    target = prepare(check_suffix(path), is_forced=is_forced, inputs=inputs)
    if data_format is None:
        return Drawing(chart, target)
    beside = str(Path(path).with_suffix(f".{data_format}"))
    return Drawing(chart, target, prepare(beside, is_forced=is_forced, inputs=inputs))


def named_chart(text: str, subject: str) -> tuple[Chart, str]:
    """The chart and the file of ``NAME=FILE``, or of a file alone.

    Raises:
        UsageError: The chart is not about that subject.
    """
    name, equals, path = text.partition("=")
    if not equals or name not in {chart.name for chart in CHARTS}:
        return charts_about(subject)[0], text
    return chart_about(name, subject), path
