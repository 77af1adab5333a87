"""``gpuprof slice``: cut a part out of a recording."""

from functools import partial

import click

from gpuprof.cli.options import (
    reading_options,
    recording_argument,
    recording_output_options,
    time_options,
)
from gpuprof.cli.progress import reading


@click.command(name="slice", no_args_is_help=True)
@recording_argument
@time_options
@click.option("--range", "text", metavar="NAME", help="NVTX range, annotation or operation.")
@click.option(
    "--occurrence",
    type=int,
    metavar="N",
    help="Which of the ranges of this name, 0 for the first.",
)
@recording_output_options
@reading_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    from_ns: int | None,
    to_ns: int | None,
    text: str | None,
    occurrence: int | None,
    output: str,
    force: bool,
    reader: str | None,
    section: str | None,
) -> None:
    """Cut a window of time, or one NVTX range, out of a recording.

    Times count from the recording's start. Every kernel, copy and call that starts in the
    window is kept whole, so windows side by side add up to the recording; FILE stays as it is.
    Work that a range launches may run on the GPU after the range has ended: it is not part of
    the range's window.

    \b
    Example:
      gpuprof slice train.sqlite --range "epoch 1" -o epoch-1.gpuprof
      gpuprof slice train.sqlite --from 1.5s --to 2s -o part.gpuprof
    """  # noqa: D301 - click reads the escape
    from gpuprof.readers.gpuprof.write_gpuprof_file import write  # noqa: PLC0415
    from gpuprof.render.output import prepare  # noqa: PLC0415
    from gpuprof.window import Window, cut, window_of_range  # noqa: PLC0415

    is_timed = from_ns is not None or to_ns is not None
    if is_timed == (text is not None):
        msg = "Give either --from and --to, or --range."
        raise click.UsageError(msg)
    if occurrence is not None and text is None:
        msg = "--occurrence says which --range is meant."
        raise click.UsageError(msg)
    target = prepare(output, is_forced=force, inputs=files)
    with reading(files, reader, section) as profile:
        window = window_of_range(profile, text, occurrence) if text else Window(from_ns, to_ns)
        target.save(partial(write, cut(profile, window)), "a gpuprof file")
