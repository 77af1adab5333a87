"""``gpuprof convert``: keep a recording in one small file."""

from functools import partial

import click

from gpuprof.cli.options import (
    reading_options,
    recording_argument,
    recording_output_options,
)
from gpuprof.cli.progress import reading


@click.command(name="convert", no_args_is_help=True)
@recording_argument
@recording_output_options
@reading_options
def command(
    *, files: tuple[str, ...], output: str, force: bool, reader: str | None, section: str | None
) -> None:
    """Write a recording as gpuprof's own file.

    The file is small and fast to read. FILE is a recording in a format that `gpuprof formats`
    lists, a folder, or - for standard input; several files are read as one recording with a file
    for each process. The result holds all tables that gpuprof reads, as Parquet, and their source,
    but no environment variables and no host names. Every command reads it.

    \b
    Example:
      gpuprof convert train.sqlite -o train.gpuprof
      gpuprof report train.gpuprof
    """  # noqa: D301 - click reads the escape
    from gpuprof.readers.gpuprof.write_gpuprof_file import write  # noqa: PLC0415
    from gpuprof.render.output import prepare  # noqa: PLC0415

    target = prepare(output, is_forced=force, inputs=files)
    with reading(files, reader, section) as profile:
        target.save(partial(write, profile), "a gpuprof file")
