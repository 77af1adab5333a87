"""Charts and the page beside what a command prints: checked before its work, written after it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuprof.analyses.reports import Report
from gpuprof.comparisons import Comparison
from gpuprof.model.profile import Profile
from gpuprof.show.charts.catalogue import (
    CHARTS,
    chart_about,
    charts_about,
    of_comparison,
    of_recording,
    of_report,
    picture_of,
)
from gpuprof.show.charts.figure import Chart, Results, save
from gpuprof.show.csv import rows_text
from gpuprof.show.json import versioned_text
from gpuprof.show.output import Output, check_apart, check_suffix, prepare
from gpuprof.show.page.comparison_page import comparison_page
from gpuprof.show.page.recording_page import TABLES_OF_JOB, recording_page, report_page


class Drawing(NamedTuple):
    """A chart that is to be drawn.

    Args:
        chart: Which.
        picture: Where to.
        data: Where what is drawn goes, as .csv or .json; None for nowhere.
        is_dark: Whether it is drawn for dark pages.
    """

    chart: Chart
    picture: Output
    data: Output | None = None
    is_dark: bool = False

    def draw(self, results: Results) -> None:
        """Draw it, and write the data beside it.

        Raises:
            GpuprofError: There is nothing to draw, or a file cannot be written.
        """
        shown = picture_of(self.chart, results)
        save(shown, self.picture, is_dark=self.is_dark)
        if self.data is None:
            return
        rows, path = shown.rows.to_pylist(), self.data.path
        if path is not None and path.suffix == ".csv":
            self.data.write_text(rows_text(shown.rows.column_names, rows))
        else:
            drawn = {"chart": self.chart.name, "finding": shown.finding, "rows": rows}
            self.data.write_text(versioned_text(drawn))


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


class FurtherOutputs(NamedTuple):
    """Files that were found writable.

    Args:
        drawings: The charts.
        page: The page; None for none.
    """

    drawings: Sequence[Drawing]
    page: Output | None

    def write_recording(
        self, profile: Profile, tables: Sequence[str], *, has_full_names: bool = False
    ) -> None:
        """Draw the charts of a recording, and write its page with some tables whole.

        Raises:
            GpuprofError: There is nothing to draw, or a file cannot be written.
        """
        for drawing in self.drawings:
            drawing.draw(of_recording(profile, drawing.chart))
        if self.page is not None:
            self.page.write_text(recording_page(profile, tables, has_full_names=has_full_names))

    @property
    def chart_tables(self) -> list[str]:
        """The tables that charts are drawn from."""
        return [name for drawing in self.drawings for name in drawing.chart.tables]

    @property
    def page_tables(self) -> Sequence[str]:
        """The tables that a page shows where they are known."""
        return TABLES_OF_JOB if self.page is not None else ()

    def write_job(
        self,
        report: Callable[[Sequence[str], Sequence[str]], Report],
        tables: Sequence[str],
        *,
        has_full_names: bool = False,
    ) -> None:
        """Draw the charts of a job that workers have read, and write its page.

        Args:
            report: Makes a report with the tables that are needed, and others that are usual.
            tables: Tables to show whole.
            has_full_names: Whether kernels have their full names, not their short ones.

        Raises:
            GpuprofError: There is nothing to draw, or a file cannot be written.
        """
        for drawing in self.drawings:
            drawing.draw(of_report(report(drawing.chart.tables, ())))
        if self.page is not None:
            result = report(tables, self.page_tables)
            self.page.write_text(report_page(result, tables, has_full_names=has_full_names))

    def write_comparison(self, comparison: Comparison, *, has_full_names: bool = False) -> None:
        """Draw the charts of a comparison, and write its page.

        Raises:
            GpuprofError: There is nothing to draw, or a file cannot be written.
        """
        for drawing in self.drawings:
            drawing.draw(of_comparison(comparison))
        if self.page is not None:
            self.page.write_text(comparison_page(comparison, has_full_names=has_full_names))


def further_outputs(  # noqa: PLR0913 - one per option
    charts: Sequence[str],
    data_format: str | None,
    page: str | None,
    subject: str,
    *,
    is_dark: bool,
    force: bool,
    inputs: Sequence[str],
    command_outputs: Sequence[Output | None] = (),
) -> FurtherOutputs:
    """Find the outputs of ``--chart``, ``--chart-data`` and ``--html`` writable.

    Args:
        charts: Values of ``--chart``: ``NAME=FILE``, or a file for the first chart of the subject.
        data_format: That of ``--chart-data``.
        page: That of ``--html``.
        subject: What the charts are about.
        is_dark: That of ``--dark``.
        force: Whether files that exist may be replaced.
        inputs: What is read, which is never replaced.
        command_outputs: The other files that the command writes.

    Raises:
        GpuprofError: One cannot be written, or two are one file, or a chart is not about that.
    """
    drawings = []
    for text in charts:
        name, equals, path = text.partition("=")
        is_named = equals and name in {chart.name for chart in CHARTS}
        chart, path = (
            (chart_about(name, subject), path) if is_named else (charts_about(subject)[0], text)
        )
        shown = drawing(chart, path, data_format, is_forced=force, inputs=inputs)
        drawings.append(shown._replace(is_dark=is_dark))
    target = prepare(page, is_forced=force, inputs=inputs) if page else None
    drawn = (output for drawing in drawings for output in (drawing.picture, drawing.data))
    check_apart((*command_outputs, *drawn, target))
    return FurtherOutputs(drawings, target)
