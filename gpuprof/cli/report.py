"""``gpuprof report``: what one recording says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpuprof.base.units import counted
from gpuprof.cli.completion import recordings, table_names
from gpuprof.cli.jobs import apart_of, job_of, job_result
from gpuprof.cli.options import (
    chart_options,
    job_options,
    output_options,
    page_option,
    part_options,
    reading_options,
    room,
    skip_steps_option,
    tables_format_option,
)
from gpuprof.cli.progress import reading, watched
from gpuprof.ranks.settings import Settings


@click.command(name="report", no_args_is_help=True)
@click.argument(
    "files", nargs=-1, metavar="FILE...", shell_complete=recordings
)  # not needed for --list
@tables_format_option
@output_options
@reading_options
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    shell_complete=table_names,
    help="Show this table in full; repeat for more. --list lists tables.",
)
@chart_options
@page_option
@part_options
@job_options
@click.option(
    "--per-step",
    "is_per_step",
    is_flag=True,
    help="Show what a training step takes in each phase, and the time of each step.",
)
@skip_steps_option
@click.option("--all", "is_all", is_flag=True, help="Show every table in full.")
@click.option("--list", "is_list", is_flag=True, help="List the tables and what they need.")
def command(  # noqa: PLR0913, PLR0915 - one parameter per option, and what each means
    *,
    files: tuple[str, ...],
    form: str,
    output: str,
    force: bool,
    wide: bool,
    full_names: bool,
    reader: str | None,
    section: str | None,
    tables: tuple[str, ...],
    is_all: bool,
    is_list: bool,
    is_per_step: bool,
    skip_steps: int | None,
    charts: tuple[str, ...],
    data_format: str | None,
    page: str | None,
    rank: int | None,
    workers: int | None,
    limit_bytes: int | None,
    scheduler: str | None,
    state: Path | None,
    **part: Any,
) -> None:
    """Show where the time of one recording went.

    Findings, then kernels, transfers by kind, memsets, and what each device waits for. FILE is a
    recording in a format that `gpuprof formats` lists, or a folder that `gpuprof record` made.
    Several files are read as one recording with a file for each process, and so are a list,
    @files.txt, and an address, s3://bucket/rank*.sqlite; to compare recordings, use
    `gpuprof compare`. What the recording does not tell is n/a, with the reason.

    Worker processes read more than 16 files, or any number with --workers. The exit status is 4
    if some of the files could not be read.

    \b
    Example:
      gpuprof report train.txt
      gpuprof report train.sqlite --format json -o train.json
      gpuprof report train.sqlite --range forward --table breakdown
    """
    from gpuprof.analyses import ANALYSES, all_analyses  # noqa: PLC0415 - start-up time of --help
    from gpuprof.analyses.reports import OVERVIEW, report  # noqa: PLC0415
    from gpuprof.facts.parts import RecordingPart, part_of  # noqa: PLC0415
    from gpuprof.show import RECORDING, renderer_named  # noqa: PLC0415
    from gpuprof.show.further_outputs import further_outputs  # noqa: PLC0415
    from gpuprof.show.output import prepare  # noqa: PLC0415

    chosen_part = RecordingPart(**part)
    target = prepare(output, is_forced=force, inputs=files)
    if is_list:
        from gpuprof.show.listing import analyses_text  # noqa: PLC0415

        target.write_text(analyses_text(all_analyses()))
        return
    if not files:
        msg = "Missing argument 'FILE...'."
        raise click.UsageError(msg)
    chosen = (*tables, *(("phases", "steps") if is_per_step else ()))
    if is_all:
        chosen = tuple(ANALYSES)
    further = further_outputs(
        charts, data_format, page, RECORDING, force=force, inputs=files, command_outputs=(target,)
    )
    page_room = room(output, is_wide=wide, tables=chosen or None, has_full_names=full_names)
    # People see an overview first; programs get everything.
    shown = None if form == "json" or is_all else OVERVIEW
    job = job_of(files, Settings(workers, limit_bytes, scheduler, state), rank)
    apart = apart_of({"--section": section, **part})
    named = () if is_all else chosen
    usual = () if named else shown or tuple(ANALYSES)
    has_notes = form != "csv"
    needed, of_page = (*named, *further.chart_tables), further.page_tables
    if names := job.tables(needed, (*usual, *of_page), apart):
        result = job_result(job, names, (skip_steps, reader), shows_notes=has_notes)
        with watched(f"Summing up {counted(len(job.files), 'file', 'files')}"):
            text = renderer_named(form).report(result.report(named, usual), page_room)
            further.write_job(result.report, named, has_full_names=full_names)
        target.write_text(text)
        return
    with reading(job.readable, reader, section, shows_notes=has_notes) as recording:
        profile = part_of(replace(recording, skip_steps=skip_steps), chosen_part)
        text = renderer_named(form).report(report(profile, chosen or shown), page_room)
        further.write_recording(profile, chosen, has_full_names=full_names)
    target.write_text(text)
