"""``gpuprof slice``: cut a part out of a recording."""

from functools import partial
from typing import Any

import click

from gpuprof.cli.options import (
    part_options,
    reading_options,
    recording_argument,
    recording_output_options,
)
from gpuprof.cli.progress import reading


@click.command(name="slice", no_args_is_help=True)
@recording_argument
@part_options
@recording_output_options
@reading_options
def command(
    *,
    files: tuple[str, ...],
    output: str,
    force: bool,
    reader: str | None,
    section: str | None,
    **part: Any,
) -> None:
    """Cut a window, NVTX ranges or a device out of a recording.

    Takes the part that `gpuprof report` shows with the same options. Every kernel, copy and call
    that starts in the part is kept in full, so adjacent windows add up to the recording. Ranges
    that reach into the part are kept too. The part of a range leaves out calls and ranges that
    ended before the work that they launched. FILE is not changed.

    \b
    Example:
      gpuprof slice train.sqlite --range "epoch 1" -o epoch-1.gpuprof
      gpuprof slice train.sqlite --range step --occurrence 12 -o step-12.gpuprof
      gpuprof slice train.sqlite --from 1.5s --to 2s -o part.gpuprof
    """
    from gpuprof.facts.parts import RecordingPart, part_of  # noqa: PLC0415 - start-up of --help
    from gpuprof.readers.gpuprof.write_gpuprof_file import write  # noqa: PLC0415
    from gpuprof.show.output import prepare  # noqa: PLC0415

    chosen_part = RecordingPart(**part)
    if chosen_part == RecordingPart():
        msg = "Say which part: --from, --to, --range or --device."
        raise click.UsageError(msg)
    target = prepare(output, is_forced=force, inputs=files)
    with reading(files, reader, section) as recording:
        profile = part_of(recording, chosen_part, is_kept_whole=True)
        target.save(partial(write, profile), "a gpuprof file")
