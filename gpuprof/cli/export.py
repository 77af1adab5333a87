"""``gpuprof export``: a recording for another tool."""

import click

from gpuprof.cli.completion import data_table_names
from gpuprof.cli.options import (
    force_option,
    reading_options,
    recording_argument,
)
from gpuprof.cli.progress import reading


@click.command(name="export", no_args_is_help=True)
@recording_argument
@click.option(
    "--to",
    "--format",
    "form",
    type=click.Choice(("chakra", "perfetto", "parquet", "csv")),
    required=True,
    help="What is to read it: chakra, for simulators such as ASTRA-sim; perfetto, for"
    " https://ui.perfetto.dev and trace_processor; parquet or csv, for data tools.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="File to write; of all tables, the folder.",
)
@click.option(
    "--table",
    metavar="NAME",
    shell_complete=data_table_names,
    help="Export only this table of the recording, as one file; for parquet and csv.",
)
@force_option
@reading_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    form: str,
    output: str,
    table: str | None,
    force: bool,
    reader: str | None,
    section: str | None,
) -> None:
    """Write a recording in the format of another tool.

    For Perfetto, to look at single events: a lane per device and stream, copies joined from
    source to destination, and the bytes in flight at each end. It needs the package perfetto.
    For Chakra, to simulate other machines: the dependency graph of `gpuprof predict` as execution
    traces, a file per device: train.0.et, train.1.et and so on.
    As Parquet or CSV, for pandas, Polars, DuckDB or a spreadsheet: the kernels, copies, calls and
    ranges as they were recorded, in ns and bytes, a file for each table in a folder.
    Export a part of a recording by way of `gpuprof slice`.

    \b
    Example:
      gpuprof export train.sqlite --to perfetto -o train.pftrace
      gpuprof export train.sqlite --to chakra -o train.et
      gpuprof export train.sqlite --to parquet -o tables
      gpuprof export train.sqlite --to csv --table kernels -o kernels.csv
    """
    from gpuprof.show.exporters import target  # noqa: PLC0415 - start-up time of --help

    place = target(form, output, files, table=table, is_forced=force)
    with reading(files, reader, section) as profile:
        notes = place.write(profile)
    for note in notes:
        click.echo(f"Note: {note}", err=True)
