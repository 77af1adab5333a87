"""``gpuprof plot``: one chart; ``gpuprof view``: a recording as a page in the browser."""

import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import click

from gpuprof.api.options import PLOT_OPTIONS
from gpuprof.cli.chosen import is_job, labelled_files, note_unread, part, reading
from gpuprof.cli.terminal import watched
from gpuprof.comparisons import comparison, labelled
from gpuprof.facts.parts import part_of
from gpuprof.readers import read_profile
from gpuprof.readers.nsys.export_cache import cached_page
from gpuprof.show import COMPARISON, RECORDING, SWEEP
from gpuprof.show.charts.catalogue import CHARTS, chart_named, of_comparison, of_recording, of_times
from gpuprof.show.charts.figure import Chart, Results
from gpuprof.show.further_outputs import drawing
from gpuprof.show.listing import charts_text
from gpuprof.show.output import write_stdout
from gpuprof.show.page.recording_page import recording_page


def plot(values: SimpleNamespace) -> None:
    """Draw a chart, or list the charts."""
    if values.is_list:
        write_stdout(charts_text(CHARTS))
        return
    inputs = (*values.files, *(file for _, file in values.labels))
    if not (values.name and inputs and values.output):
        msg = "plot needs a CHART, a FILE and -o PICTURE."
        raise click.UsageError(msg)
    chart = chart_named(values.name)
    target = drawing(
        *(chart, values.output, values.data_format), is_forced=values.force, inputs=inputs
    )._replace(is_dark=values.is_dark)
    of_other_charts = {option for sets in PLOT_OPTIONS.values() for of in sets for option in of}
    for option in click.get_current_context().command.params:
        is_taken = option not in of_other_charts or any(
            option in of for of in PLOT_OPTIONS[chart.subject]
        )
        # What stands for another option has no value of its own.
        if not is_taken and getattr(values, str(option.name), None) not in (None, ()):
            word = option.opts[0]
            msg = f"{word} does not apply to {chart.name}, a chart of a {chart.subject}."
            raise click.UsageError(msg)
    if chart.subject == RECORDING and is_job(values):
        from gpuprof.cli.jobs import Job  # noqa: PLC0415 - most charts are of one file

        job = Job(values)
        if names := job.tables(chart.tables):
            target.draw(Results(job.read(names)(names).tables))
            return
        values.files = tuple(job.readable)
    with watched("Reading", inputs):
        target.draw(_RESULTS[chart.subject](chart, values))


def _of_times(chart: Chart, values: SimpleNamespace) -> Results:
    if len(values.files) > 1:
        msg = f"{chart.name} takes one table of measured times, not {len(values.files)} files."
        raise click.UsageError(msg)
    return of_times(Path(values.files[0]))


def _of_comparison(_: Chart, values: SimpleNamespace) -> Results:
    sections = {} if values.section is None else {"": values.section}
    variants = labelled(labelled_files(values), values.baseline, sections)
    note_unread(profile.unread for profiles in variants.values() for profile in profiles)
    options = {"range_text": values.range_text, "skip_steps": values.skip_steps}
    return of_comparison(comparison(variants, values.baseline, **options))


def _of_recording(chart: Chart, values: SimpleNamespace) -> Results:
    recording = read_profile(values.files, values.reader, values.section)
    note_unread([recording.unread])
    profile = part_of(replace(recording, skip_steps=values.skip_steps), part(values))
    return of_recording(profile, chart)


_RESULTS: Final[Mapping[str, Callable[[Chart, SimpleNamespace], Results]]] = {
    RECORDING: _of_recording,
    COMPARISON: _of_comparison,
    SWEEP: _of_times,
}


def view(values: SimpleNamespace) -> None:
    """Write a page into the cache, and open it in the browser."""
    chosen_part = part(values)
    with reading(values) as recording:
        profile = part_of(recording, chosen_part)
        text = recording_page(profile, has_full_names=values.full_names)
    source = profile.origin.source.absolute()
    path = cached_page(text, f"{source.stem}.html", str(source))
    if not webbrowser.open(path.as_uri()):
        write_stdout(f"{path}\n")
