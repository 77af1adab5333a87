"""``gpuprof report``: what one recording says."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from gpuprof.analyses import ANALYSES, all_analyses, notes, reports
from gpuprof.base.units import counted
from gpuprof.cli.chosen import further_outputs, is_job, part, reading
from gpuprof.cli.terminal import page, watched
from gpuprof.facts.parts import part_of
from gpuprof.show import RECORDING, renderer_named
from gpuprof.show.output import prepare

if TYPE_CHECKING:
    from gpuprof.cli.jobs import Job
    from gpuprof.show.further_outputs import FurtherOutputs


def report(values: SimpleNamespace) -> None:
    """Write a report, its charts and its page, or list the tables."""
    target = prepare(values.output, is_forced=values.force, inputs=values.files)
    if values.is_list:
        from gpuprof.show.listing import analyses_text  # noqa: PLC0415 - a report needs none

        target.write_text(analyses_text(all_analyses()))
        return
    if not values.files:
        msg = "Missing argument 'FILE...'."
        raise click.UsageError(msg)
    of_step = ("phases", "steps") if values.is_per_step else ()
    chosen = tuple(ANALYSES) if values.is_all else (*values.tables, *of_step)
    further = None
    if values.charts or values.page:
        further = further_outputs(values, RECORDING, values.files, (target,))
    # People see an overview first; programs get everything.
    shown = None if values.form == "json" or values.is_all else notes.OVERVIEW
    chosen_part, files, room = part(values), values.files, page(values, chosen)
    renderer, shows_notes = renderer_named(values.form), values.form != "csv"
    if is_job(values):
        from gpuprof.cli.jobs import Job  # noqa: PLC0415 - most reports are of one file

        job, named = Job(values), () if values.is_all else chosen
        usual = () if named else shown or tuple(ANALYSES)
        if (result := _of_job(values, job, named, usual, further)) is not None:
            target.write_text(renderer.report(result, room))
            return
        files = job.readable
    with reading(values, files, shows_notes=shows_notes) as recording:
        profile = part_of(replace(recording, skip_steps=values.skip_steps), chosen_part)
        text = renderer.report(reports.report(profile, chosen or shown), room)
        if further is not None:
            further.write_recording(profile, chosen, has_full_names=values.full_names)
    target.write_text(text)


def _of_job(
    values: SimpleNamespace,
    job: "Job",
    named: Sequence[str],
    usual: Sequence[str],
    further: "FurtherOutputs | None",
) -> reports.Report | None:
    """A report as workers make it, and its charts and page; None where they make none of it."""
    further_tables = (further.chart_tables, further.page_tables) if further else ((), ())
    names = job.tables((*named, *further_tables[0]), (*usual, *further_tables[1]))
    if not names:
        return None
    answer = job.read(names, shows_notes=values.form != "csv")
    with watched(f"Summing up {counted(len(job.files), 'file', 'files')}"):
        result = answer(named, usual)
        if further is not None:
            further.write_job(answer, named, has_full_names=values.full_names)
    return result
