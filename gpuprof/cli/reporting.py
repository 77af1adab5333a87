"""``gpuprof report``: what one recording says; ``gpuprof query``: what it answers to SQL."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import click
import pyarrow as pa

from gpuprof.analyses import ANALYSES, all_analyses, notes, reports
from gpuprof.base.units import counted
from gpuprof.cli.chosen import is_job, part, reading
from gpuprof.cli.terminal import page, watched
from gpuprof.facts.parts import part_of
from gpuprof.show import RECORDING, renderer_named
from gpuprof.show.further_outputs import FurtherOutputs, further_outputs
from gpuprof.show.output import Output, prepare


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
    further = further_outputs(
        *(values.charts, values.data_format, values.page, RECORDING),
        is_dark=values.is_dark,
        force=values.force,
        inputs=values.files,
        command_outputs=(target,),
    )
    target.write_text(_text(values, chosen, further))


def _text(values: SimpleNamespace, chosen: tuple[str, ...], further: FurtherOutputs) -> str:
    """The report, once its charts and its page are written."""
    chosen_part = part(values)
    # People see an overview first; programs get everything.
    shown = None if values.form == "json" or values.is_all else notes.OVERVIEW
    has_full_names, shows_notes = values.full_names, values.form != "csv"
    renderer, room, files = renderer_named(values.form), page(values, chosen), values.files
    if is_job(values):
        from gpuprof.cli.jobs import Job  # noqa: PLC0415 - most reports are of one file

        job, named = Job(values), () if values.is_all else chosen
        usual = () if named else shown or tuple(ANALYSES)
        further_tables = further.chart_tables, further.page_tables
        if names := job.tables((*named, *further_tables[0]), (*usual, *further_tables[1])):
            answer = job.read(names, shows_notes=shows_notes)
            with watched(f"Summing up {counted(len(job.files), 'file', 'files')}"):
                text = renderer.report(answer(named, usual), room)
                further.write_job(answer, named, has_full_names=has_full_names)
            return text
        files = job.readable
    with reading(values, files, shows_notes=shows_notes) as recording:
        profile = part_of(replace(recording, skip_steps=values.skip_steps), chosen_part)
        text = renderer.report(reports.report(profile, chosen or shown), room)
        further.write_recording(profile, chosen, has_full_names=has_full_names)
    return text


def query(values: SimpleNamespace) -> None:
    """Write the answer to a SELECT, as Parquet where the output's name says so."""
    from gpuprof import sql  # noqa: PLC0415 - a report asks no query
    from gpuprof.show.query import answer_text  # noqa: PLC0415

    if values.is_schema:
        _list_columns(values)
        return
    if not values.files or values.sql is None:
        context = click.get_current_context()
        missing = next(p for p in context.command.params if not getattr(values, str(p.name)))
        raise click.MissingParameter(ctx=context, param=missing)
    target = prepare(values.output, is_forced=values.force, inputs=values.files)
    if target.path is not None and target.path.suffix == ".parquet":
        with reading(values) as profile:
            table = sql.query_table(profile, values.sql)
        _save_parquet(target, table)
        return
    with reading(values, shows_notes=values.form != "csv") as profile:
        answer, answer_notes = sql.query(profile, values.sql), notes.recording_notes(profile)
        text = answer_text(answer, answer_notes, profile.origin, values.form, page(values))
    target.write_text(text)


def _list_columns(values: SimpleNamespace) -> None:
    """Write what a query can name: of a recording, or of any where no file is given."""
    from gpuprof.show.query import answer_text, schema_table  # noqa: PLC0415 - as above

    # The last word is a file, too, as no SQL follows.
    values.files = (*values.files, *filter(None, [values.sql]))
    target, shown = (
        prepare(values.output, is_forced=values.force, inputs=values.files),
        page(values),
    )
    with reading(values) if values.files else nullcontext() as profile:
        table, origin = schema_table(profile), None if profile is None else profile.origin
    if target.path is not None and target.path.suffix == ".parquet":
        _save_parquet(target, table)
        return
    if values.form == "terminal" and not shown.is_wide:
        # A line has no room for meanings.
        table = table.drop_columns("meaning")
    answer = table.column_names, [*zip(*table.to_pydict().values(), strict=True)]
    target.write_text(answer_text(answer, (), origin, values.form, shown))


def _save_parquet(target: Output, table: pa.Table) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - start-up time

    target.save(lambda file: pq.write_table(table, file), "a table")
