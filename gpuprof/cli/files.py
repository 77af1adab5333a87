"""Recordings as files: gpuprof's own, parts of them, those of other tools, and packed runs."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import click

from gpuprof.base.errors import check_no_foreign_files
from gpuprof.cli.chosen import part, reading
from gpuprof.cli.terminal import watched
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.readers.gpuprof import packed_run, write_data_set, write_gpuprof_file
from gpuprof.readers.gpuprof.data_set import is_data_set
from gpuprof.show import archive
from gpuprof.show.output import prepare, prepare_folder

_ENDS_OF_FOLDERS: Final = ("/", os.sep)
_SUFFIXES_OF_DATA_SETS: Final = (".json", ".parquet")


def convert(values: SimpleNamespace) -> None:
    """Write a recording as gpuprof's own file, or as a folder of them."""
    to = {"is_forced": values.force, "inputs": values.files}
    if not values.output.endswith(_ENDS_OF_FOLDERS) and not Path(values.output).is_dir():
        target = prepare(values.output, **to)
        with reading(values) as profile:
            target.save(partial(write_gpuprof_file.write, profile), "a gpuprof file")
        return
    folder = prepare_folder(values.output, is_data_set, **to)
    files = [p for p in sorted(folder.path.rglob("*")) if p.is_file()]
    foreign = [p for p in files if p.suffix not in _SUFFIXES_OF_DATA_SETS]
    check_no_foreign_files(folder.path, foreign)
    with reading(values) as profile:
        folder.save(partial(write_data_set.write, profile))


def cut(values: SimpleNamespace) -> None:
    """Write a part of a recording as gpuprof's own file."""
    chosen_part = part(values)
    if chosen_part == RecordingPart():
        msg = "Say which part: --from, --to, --range or --device."
        raise click.UsageError(msg)
    target = prepare(values.output, is_forced=values.force, inputs=values.files)
    from gpuprof.facts.slice_tables import with_slice_tables  # noqa: PLC0415 - start-up time

    with reading(values) as recording:
        profile = part_of(with_slice_tables(recording), chosen_part, is_kept_whole=True)
        target.save(partial(write_gpuprof_file.write, profile), "a gpuprof file")


def export(values: SimpleNamespace) -> None:
    """Write a recording for another tool."""
    from gpuprof.show import exporters  # noqa: PLC0415 - they import all analyses

    place = exporters.target(
        *(values.form, values.output, values.files), table=values.table, is_forced=values.force
    )
    with reading(values) as profile:
        notes = place.write(profile)
    for note in notes:
        click.echo(f"Note: {note}", err=True)


def pack(values: SimpleNamespace) -> None:
    """Pack a run into one file."""
    target = prepare(values.output or f"{values.run.resolve().name}.zip", is_forced=values.force)
    with watched(f"Packing {values.run}"):
        archive.pack(values.run, target, with_original=values.with_original)
    click.echo(f"Packed in {target.path}", err=True)


def unpack(values: SimpleNamespace) -> None:
    """Unpack a packed run into a folder."""
    target = values.folder or Path(values.file.stem)
    packed_run.unpack(values.file, target)
    click.echo(f"Unpacked in {target}", err=True)
