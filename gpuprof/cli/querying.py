"""``gpuprof query``: what a recording answers to SQL."""

from contextlib import nullcontext
from types import SimpleNamespace

import click
import pyarrow as pa
import pyarrow.parquet as pq

from gpuprof import sql
from gpuprof.analyses import notes
from gpuprof.cli.chosen import reading
from gpuprof.cli.terminal import page
from gpuprof.show.output import Output, prepare
from gpuprof.show.query import answer_text, schema_table


def query(values: SimpleNamespace) -> None:
    """Write the answer to a SELECT, as Parquet where the output's name says so."""
    if values.is_schema:
        _list_columns(values)
        return
    if not values.files or values.sql is None:
        # Which of the two is missing, one word alone does not tell.
        msg = "query needs a FILE and a SELECT."
        raise click.UsageError(msg)
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
    target.save(lambda file: pq.write_table(table, file), "a table")
