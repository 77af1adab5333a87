"""``gpuprof convert``: keep a recording in one small file, or as a data set of many ranks."""

import os
from functools import partial
from pathlib import Path
from typing import Final

import click

from gpuprof.base.errors import check_no_foreign_files
from gpuprof.cli.options import (
    reading_options,
    recording_argument,
    recording_output_options,
)
from gpuprof.cli.progress import reading

_ENDS_OF_FOLDERS: Final = ("/", os.sep)
_SUFFIXES_OF_DATA_SETS: Final = (".json", ".parquet")


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
    but no environment variables and no host names. Every command reads it. An output that ends in
    / is a data set: a folder of plain Parquet files by table and rank, for DuckDB, Polars, pandas
    and Spark.

    \b
    Example:
      gpuprof convert train.sqlite -o train.gpuprof
      gpuprof report train.gpuprof
      gpuprof convert run/rank*.sqlite -o job.gpuprof/
    """
    if output.endswith(_ENDS_OF_FOLDERS) or Path(output).is_dir():
        from gpuprof.readers.gpuprof.data_set import is_data_set  # noqa: PLC0415 - start-up time
        from gpuprof.readers.gpuprof.write_data_set import write as write_data_set  # noqa: PLC0415
        from gpuprof.show.output import prepare_folder  # noqa: PLC0415

        folder = prepare_folder(output, is_data_set, is_forced=force, inputs=files)
        foreign = [p for p in sorted(folder.path.rglob("*")) if p.is_file()]
        foreign = [p for p in foreign if p.suffix not in _SUFFIXES_OF_DATA_SETS]
        check_no_foreign_files(folder.path, foreign)
        with reading(files, reader, section) as profile:
            folder.save(partial(write_data_set, profile))
        return
    from gpuprof.readers.gpuprof.write_gpuprof_file import write  # noqa: PLC0415 - start-up time
    from gpuprof.show.output import prepare  # noqa: PLC0415

    target = prepare(output, is_forced=force, inputs=files)
    with reading(files, reader, section) as profile:
        target.save(partial(write, profile), "a gpuprof file")
