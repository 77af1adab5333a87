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
    "--format",
    "form",
    type=click.Choice(("perfetto",)),
    required=True,
    help="What is to read it: perfetto, for https://ui.perfetto.dev and trace_processor.",
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

    To look at single events there. For Perfetto: a lane per device and stream, copies joined from
    source to destination, and the bytes in flight at each end. It needs the package perfetto.
    Export a part of a recording by way of `gpuprof slice`.

    \b
    Example:
      gpuprof export train.sqlite --format perfetto -o train.pftrace
      gpuprof export runs/dual --format perfetto -o dual.pftrace
    """  # noqa: D301 - click reads the escape
    from gpuprof.render.exporters import export  # noqa: PLC0415
    from gpuprof.render.output import prepare  # noqa: PLC0415

    target = prepare(output, is_forced=force, inputs=files)
    with reading(files, reader, section) as profile:
        export(profile, form, target)
