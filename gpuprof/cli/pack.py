"""``gpuprof pack`` and ``gpuprof unpack``: a run as one file, and back."""

from pathlib import Path

import click

from gpuprof.cli.completion import recordings
from gpuprof.cli.options import folder_option, force_option
from gpuprof.cli.progress import watched


@click.command(name="pack", no_args_is_help=True)
@click.argument("run", type=click.Path(path_type=Path), shell_complete=recordings)
@click.option(
    "-o", "--output", metavar="FILE", help="Output file; by default, the run's name and .zip."
)
@force_option
@click.option(
    "--with-original",
    is_flag=True,
    help="Include the tools' own files and the program's output, which may hold secrets.",
)
def pack(*, run: Path, output: str | None, force: bool, with_original: bool) -> None:
    """Pack a run into one file, to mail or to keep.

    RUN is a folder that `gpuprof record` made. The file holds its manifest (command, commit,
    packages, GPUs, versions, seconds per step and epoch), its marks and the recording as
    Parquet. It holds only environment variables that describe how a training runs.

    \b
    Example:
      gpuprof pack runs/dual -o dual.zip
      gpuprof report dual.zip
      gpuprof unpack dual.zip -o elsewhere/dual
    """
    from gpuprof.show import archive  # noqa: PLC0415 - start-up time of --help
    from gpuprof.show.output import prepare  # noqa: PLC0415

    target = prepare(output or f"{run.resolve().name}.zip", is_forced=force)
    with watched(f"Packing {run}"):
        archive.pack(run, target, with_original=with_original)
    click.echo(f"Packed in {target.path}", err=True)


@click.command(name="unpack", no_args_is_help=True)
@click.argument("file", type=click.Path(path_type=Path))
@folder_option("Folder to make; by default, the file's name without its suffix.")
def unpack(*, file: Path, folder: Path | None) -> None:
    """Unpack a packed run into a folder.

    Sizes and hashes must be as packed. A file that would leave the folder, a link, or an archive
    that would unpack to more than its own size is refused, and nothing is left behind.

    \b
    Example:
      gpuprof unpack dual.zip
      gpuprof report dual
    """
    from gpuprof.readers.gpuprof.packed_run import unpack as unpack_run  # noqa: PLC0415 - start-up time

    target = folder or Path(file.stem)
    unpack_run(file, target)
    click.echo(f"Unpacked in {target}", err=True)
