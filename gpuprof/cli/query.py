"""``gpuprof query``: a recording answers SQL."""

import click

from gpuprof.cli.options import (
    reading_options,
    recording_argument,
    result_options,
    room,
    tables_format_option,
)
from gpuprof.cli.progress import reading


@click.command(name="query", no_args_is_help=True)
@recording_argument
@click.argument("sql", metavar="SQL")
@tables_format_option
@result_options
@reading_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    sql: str,
    form: str,
    output: str,
    force: bool,
    wide: bool,
    reader: str | None,
    section: str | None,
) -> None:
    """Answer a SELECT about a recording.

    SQL is one SELECT in DuckDB's dialect over the tables that `gpuprof formats --schema` lists:
    recorded ones, what is derived from them, and those of `gpuprof report --list`. Values are in
    base units (ns, bytes) in every format. The query can read nothing else: no files, no
    addresses. SHOW TABLES lists what the recording has.

    \b
    Example:
      gpuprof query train.sqlite "SELECT count(*) FROM kernels WHERE end_ns - start_ns > 1e6"
      gpuprof query train.sqlite "SELECT * FROM memcpys LIMIT 10" --format csv -o copies.csv
      gpuprof query train.sqlite "SHOW TABLES"
    """
    from gpuprof.analyses.notes import recording_notes  # noqa: PLC0415 - start-up time
    from gpuprof.show.output import prepare  # noqa: PLC0415 - start-up time of --help
    from gpuprof.show.query import answer_text  # noqa: PLC0415
    from gpuprof.sql import query  # noqa: PLC0415

    target = prepare(output, is_forced=force, inputs=files)
    with reading(files, reader, section, shows_notes=form != "csv") as profile:
        answer, notes = query(profile, sql), recording_notes(profile)
        text = answer_text(answer, notes, profile.origin, form, room(output, is_wide=wide))
    target.write_text(text)
