"""``gpuprof plot``: one chart of one recording, of a comparison, or of measured times."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprof.cli.completion import chart_names, recordings
from gpuprof.cli.jobs import Job, apart_of, job_of, job_result
from gpuprof.cli.options import (
    baseline_option,
    chart_data_option,
    force_option,
    job_options,
    label_option,
    labelled_files,
    part_options,
    reading_options,
    skip_steps_option,
)
from gpuprof.cli.progress import watched
from gpuprof.ranks.settings import Settings

if TYPE_CHECKING:
    from gpuprof.show.charts.figure import Chart, Results


@click.command(name="plot", no_args_is_help=True)
@click.argument("name", metavar="CHART", required=False, shell_complete=chart_names)
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=recordings)
@click.option("-o", "--output", metavar="FILE", help="Picture file: .png, .svg or .pdf.")
@force_option
@chart_data_option
@reading_options
@part_options
@job_options
@label_option
@baseline_option
@skip_steps_option
@click.option("--list", "is_list", is_flag=True, help="List the charts and what they show.")
def command(
    *,
    name: str | None,
    files: tuple[str, ...],
    labels: tuple[tuple[str, str], ...],
    output: str | None,
    is_list: bool,
    **choices: Any,
) -> None:
    """Draw a chart: timelines, transfers, variants, and more.

    CHART is one that --list lists. A chart of a recording takes one recording; several FILEs are
    its processes, which workers read as for `gpuprof report`. A chart of a comparison takes
    recordings, the baseline first, with --label, --baseline and --skip-steps as in `gpuprof
    compare`. A chart of a sweep takes the folder or results of a sweep, or a table of measured
    times: CSV or Parquet with the columns seconds_per_epoch (or seconds), devices or batch_size,
    and optionally label.

    \b
    Example:
      gpuprof plot --list
      gpuprof plot matrix train.sqlite -o matrix.png
      gpuprof plot steps train.sqlite --skip-steps 5 -o steps.svg
      gpuprof plot variants --label one=a.sqlite --label two=b.sqlite -o two.svg
      gpuprof plot scaling times.csv -o scaling.svg
      gpuprof plot batch gpuprof-sweeps/train -o batch.svg
      gpuprof plot timeline train.sqlite --from 1.2s --to 1.4s -o timeline.svg
    """
    from gpuprof.show.charts import CHARTS, chart_named  # noqa: PLC0415 - start-up of --help
    from gpuprof.show.further_outputs import drawing  # noqa: PLC0415
    from gpuprof.show.listing import charts_text  # noqa: PLC0415
    from gpuprof.show.output import write_stdout  # noqa: PLC0415

    if is_list:
        write_stdout(charts_text(CHARTS))
        return
    inputs = (*files, *(file for _, file in labels))
    if not (name and inputs and output):
        msg = "plot needs a CHART, a FILE and -o PICTURE."
        raise click.UsageError(msg)
    chart = chart_named(name)
    is_forced, data_format = choices.pop("force"), choices.pop("data_format")
    target = drawing(chart, output, data_format, is_forced=is_forced, inputs=inputs)
    _check_options(chart, {**choices, "labels": labels})
    rank, workers = choices.pop("rank"), {name: choices.pop(name) for name in _WORKERS}
    if chart.subject == _RECORDING:
        job = job_of(files, Settings(**workers), rank)
        if results := _of_job(chart, job, choices):
            target.draw(results)
            return
        files = tuple(job.readable)
    with watched("Reading", inputs):
        target.draw(_RESULTS[chart.subject](chart, files, labels=labels, **choices))


def _check_options(chart: "Chart", choices: Mapping[str, Any]) -> None:
    """Refuse what says nothing to a chart of this subject.

    Raises:
        click.UsageError: Such an option is given.
    """
    allowed = _OPTIONS[chart.subject]
    chosen = [name for name, value in choices.items() if value not in {None, ()}]
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in chosen and parameter.name not in allowed:
            msg = (
                f"{parameter.opts[0]} does not apply to {chart.name}, a chart of a {chart.subject}."
            )
            raise click.UsageError(msg)


def _of_job(chart: "Chart", job: Job, choices: Mapping[str, Any]) -> "Results | None":
    """What workers make of a recording of many files; None where one process reads them."""
    apart = apart_of({"--section": choices["section"], **{n: choices[n] for n in _PART}})
    if not (names := job.tables(chart.tables, apart=apart)):
        return None
    from gpuprof.show.charts.figure import Results  # noqa: PLC0415 - start-up time of --help

    result = job_result(job, names, (choices["skip_steps"], choices["reader"]))
    return Results(result.report(names).tables)


def _of_times(chart: "Chart", files: tuple[str, ...], **_: Any) -> "Results":
    from gpuprof.show.charts import of_times  # noqa: PLC0415 - start-up time of --help

    if len(files) > 1:
        msg = f"{chart.name} takes one table of measured times, not {len(files)} files."
        raise click.UsageError(msg)
    return of_times(Path(files[0]))


def _of_comparison(  # noqa: PLR0913 - one parameter per option
    _chart: "Chart",
    files: tuple[str, ...],
    *,
    labels: tuple[tuple[str, str], ...],
    baseline: str | None,
    section: str | None,
    range_text: str | None,
    skip_steps: int | None,
    **_: Any,
) -> "Results":
    from gpuprof.cli.partial import note_unread  # noqa: PLC0415 - start-up time of --help
    from gpuprof.comparisons import comparison, labelled  # noqa: PLC0415
    from gpuprof.show.charts import of_comparison  # noqa: PLC0415

    sections = {} if section is None else {"": section}
    variants = labelled(labelled_files(files, labels), baseline, sections)
    note_unread(chain.from_iterable(variants.values()))
    compared = comparison(variants, baseline, range_text=range_text, skip_steps=skip_steps)
    return of_comparison(compared)


def _of_recording(  # noqa: PLR0913 - one parameter per option
    chart: "Chart",
    files: tuple[str, ...],
    *,
    reader: str | None,
    section: str | None,
    skip_steps: int | None,
    labels: tuple[tuple[str, str], ...],  # noqa: ARG001 - refused before
    baseline: str | None,  # noqa: ARG001 - refused before
    **part: Any,
) -> "Results":
    from gpuprof.cli.partial import note_unread  # noqa: PLC0415
    from gpuprof.facts.parts import RecordingPart, part_of  # noqa: PLC0415 - start-up time of --help
    from gpuprof.readers import read_profile  # noqa: PLC0415
    from gpuprof.show.charts import of_recording  # noqa: PLC0415

    recording = replace(read_profile(files, reader, section), skip_steps=skip_steps)
    note_unread([recording])
    return of_recording(part_of(recording, RecordingPart(**part)), chart)


_RECORDING: Final = "recording"
_WORKERS: Final = ("workers", "limit_bytes", "scheduler", "state")
_PART: Final = ("from_ns", "to_ns", "range_text", "occurrence", "device_id")
# Subject of a chart -> the options that it takes, and what reads its files. The names of subjects
# are those of `gpuprof.show`, which would take time to import.
_OPTIONS: Final = {
    _RECORDING: ("reader", "section", "skip_steps", "rank", *_WORKERS, *_PART),
    "comparison": ("section", "range_text", "labels", "baseline", "skip_steps"),
    "sweep": (),
}
_RESULTS: Final[Mapping[str, "Callable[..., Results]"]] = {
    _RECORDING: _of_recording,
    "comparison": _of_comparison,
    "sweep": _of_times,
}
