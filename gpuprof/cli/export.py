"""``gpuprof export``: a recording for another tool."""

import click

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
    type=click.Choice(("chakra", "perfetto")),
    required=True,
    help="What is to read it: chakra, for simulators such as ASTRA-sim; or perfetto, for"
    " https://ui.perfetto.dev and trace_processor.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write.")
@force_option
@reading_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    form: str,
    output: str,
    force: bool,
    reader: str | None,
    section: str | None,
) -> None:
    """Write a recording in the format of another tool.

    For Perfetto, to look at single events: a lane per device and stream, copies joined from
    source to destination, and the bytes in flight at each end. It needs the package perfetto.
    For Chakra, to simulate other machines: the dependency graph of `gpuprof predict` as execution
    traces, a file per device: train.0.et, train.1.et and so on.
    Export a part of a recording by way of `gpuprof slice`.

    \b
    Example:
      gpuprof export train.sqlite --to perfetto -o train.pftrace
      gpuprof export train.sqlite --to chakra -o train.et
    """  # noqa: D301 - click reads the escape
    from gpuprof.render.exporters import Target  # noqa: PLC0415 - start-up time of --help

    target = Target(form, output, files, is_forced=force)
    with reading(files, reader, section) as profile:
        notes = target.write(profile)
    for note in notes:
        click.echo(f"Note: {note}", err=True)
