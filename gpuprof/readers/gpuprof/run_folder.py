"""Runs that ``gpuprof record`` made: their recordings, and what the manifest knows.

A run is a folder, or the file that ``gpuprof pack`` made of one, which is unpacked into the cache.

The recordings are read by the readers of their own formats. Where there are several, as one
per process, their tables are put one after another, on one clock where they have one.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, GpuprofError, InputError
from gpuprof.base.json_input import integer, number, text
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import MANIFEST, MONITOR, PROGRAM_LOG, is_run, read_manifest
from gpuprof.base.units import NS_PER_S
from gpuprof.model import data_model, schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.packed_run import is_packed_run, unpack
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys.export_cache import cached
from gpuprof.readers.sections import ALL

# In the cache: the kind of entry, and the run's folder in it.
_PACKED: Final = "packed-1"
_UNPACKED: Final = "run"
# As recorders inside a process name its files.
_OF_RANK: Final = re.compile(r"-rank\d+-")
# Any other number is not nanoseconds since 1970.
_TIMES_NS: Final = range(1 << 62)
Row = dict[str, Any]
_READ: Final[Mapping[str, Callable[[object], Any]]] = {
    schema.INT: integer,
    schema.FLOAT: number,
    schema.TEXT: text,
    schema.FLAG: lambda value: value if isinstance(value, bool) else None,
}


def read(path: Path) -> Profile:
    """Read the recordings that the manifest names; of a run that was only timed, its epochs.

    Raises:
        InputError: The recording did not finish, or a file is missing.
        CorruptFileError: The manifest is broken, or the packed file was changed or damaged.
        EmptyRecordingError: Nothing was recorded.
    """
    if path.is_dir():
        return _read_folder(path)
    folder = cached(path, _PACKED, lambda into: unpack(path, into / _UNPACKED)) / _UNPACKED
    try:
        profile = _read_folder(folder)
    except GpuprofError as error:
        raise type(error)(error.message.replace(str(folder), str(path)), error.hint) from error
    return replace(profile, origin=replace(profile.origin, source=path))


def rank_files(folder: Path) -> list[Path]:
    """The recordings of a run that has one for each rank; none of another run, or of no run.

    Raises:
        CorruptFileError: The manifest is broken.
    """
    names = read_manifest(folder).recordings if is_run(folder) else ()
    files = [folder / name for name in names if _is_within(folder / name, folder)]
    return files if len(files) == len(names) and _are_of_ranks(names) else []


def _read_folder(folder: Path) -> Profile:
    manifest = read_manifest(folder)
    if manifest.epochs and manifest.recorder == TIMING_ONLY:
        # No table but what the manifest itself knows, and a word why.
        reason = manifest.nothing_recorded or "nothing was recorded"
        warning = f"Only the marked epochs are known: {reason}."
        profile = Profile(Origin(folder, READER.name, manifest.recorder, warnings=(warning,)), {})
    elif not manifest.recordings or manifest.nothing_recorded is not None:
        msg = f"{folder}: {manifest.nothing_recorded or 'nothing was recorded'}"
        hint = f"What the program printed is in {folder / PROGRAM_LOG}."
        raise EmptyRecordingError(msg, hint)
    else:
        profiles = [_read_one(folder, name) for name in manifest.recordings]
        if _are_of_ranks(manifest.recordings):
            from gpuprof.readers.merged_ranks import joined  # noqa: PLC0415 - pyarrow.compute

            profile = joined(profiles)
        else:
            profile = _joined(profiles)
    sources, inner = dict(profile.sources), profile.origin
    if manifest.epochs:
        sources["epochs"] = data_model.EPOCHS.table([dict(epoch) for epoch in manifest.epochs])
    sampled = samples(folder, manifest.epochs, inner.epoch_ns)
    if sampled is not None:
        sources["monitor"] = sampled
    # A run that failed may have stopped anywhere: the reader must know.
    failure = f"The program ended with exit status {manifest.exit_status}."
    warnings = [failure] if manifest.exit_status else []
    origin = replace(
        inner,
        source=folder,
        command=shlex.join(manifest.command),
        recorded_at=manifest.started_at,
        variant=manifest.variant or inner.variant,
        warnings=tuple(dict.fromkeys((*warnings, *manifest.warnings, *inner.warnings))),
    )
    return replace(profile, origin=origin, sources=sources)


def _are_of_ranks(names: Sequence[str]) -> bool:
    """Whether a run's recordings are those of several ranks."""
    return len(names) > 1 and all(map(_OF_RANK.search, names))


def _read_one(folder: Path, name: str) -> Profile:
    from gpuprof.readers import read_profile  # noqa: PLC0415 - it lists this reader

    path = folder / name
    if not _is_within(path, folder):
        msg = f"{folder / MANIFEST}: names {name!r}, which is not in its folder"
        raise CorruptFileError(msg, "Was the file edited? Give that recording itself.")
    # Neither a pipe nor a device was recorded, and a name that is too long is none.
    if not (os.path.isfile(path) or os.path.isdir(path)):  # noqa: PTH112, PTH113 - these never fail
        msg = f"{path}: no such file, though {MANIFEST} names it"
        raise InputError(msg, "Copy the whole folder from where it was recorded.")
    # What is in one run was recorded as one.
    return read_profile(path, section=ALL)


def _is_within(path: Path, folder: Path) -> bool:
    """Whether a path leads into a folder; no name of a file with a zero byte leads anywhere."""
    try:
        return folder.resolve() in path.resolve().parents
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
        return False


def _joined(profiles: Sequence[Profile]) -> Profile:
    """One profile of several: rows after one another, times since the earliest origin."""
    if len(profiles) == 1:
        return profiles[0]
    import pyarrow.compute as pc  # noqa: PLC0415 - 25 ms that recognising does not need

    epochs_ns = [p.origin.epoch_ns for p in profiles if p.origin.epoch_ns is not None]
    earliest = min(epochs_ns) if len(epochs_ns) == len(profiles) else None
    parts: dict[str, list[pa.Table]] = {}
    first_run = 0
    for profile in profiles:
        epoch_ns, last_run = profile.origin.epoch_ns, first_run
        shift_ns = 0 if epoch_ns is None or earliest is None else epoch_ns - earliest
        for name in profile.sources:
            table = profile.table(name)
            offsets = {"start_ns": shift_ns, "end_ns": shift_ns, "run_id": first_run}
            for column in offsets.keys() & {*table.column_names}:
                moved = pc.add(table[column], pa.scalar(offsets[column], pa.int64()))
                table = table.set_column(table.column_names.index(column), column, moved)
            if "run_id" in table.column_names:
                last_run = max(last_run, pc.max(table["run_id"]).as_py() or 0)
            parts.setdefault(name, []).append(table)
        # A recording that numbers no runs is one.
        first_run = last_run + 1
    tables = {name: pa.concat_tables(of_profiles) for name, of_profiles in parts.items()}
    for name in tables.keys() & {data_model.DEVICES.name, data_model.LINKS.name}:
        # A device or link that every recording lists is one.
        rows = tables[name]
        tables[name] = rows.group_by(rows.column_names, use_threads=False).aggregate([])
    warnings = tuple(dict.fromkeys(w for p in profiles for w in p.origin.warnings))
    if earliest is None:
        warnings += ("The recordings of several processes have no common clock.",)
    return Profile(replace(profiles[0].origin, epoch_ns=earliest, warnings=warnings), tables)


def samples(
    folder: Path, epochs: Iterable[Mapping[str, Any]], epoch_ns: int | None
) -> pa.Table | None:
    """The table `data_model.MONITOR`; None where nothing was sampled.

    Args:
        folder: The run's.
        epochs: As the manifest has them.
        epoch_ns: Unix time that the recording's times count from; the first sample where None.
    """
    rows = []
    for row in json_input.lines(folder / MONITOR):
        try:
            unix_ns = integer(row.get("unix_ns"))
            (sample,) = typed(data_model.MONITOR, [row])
        except (ValueError, AttributeError, OverflowError):
            continue
        if unix_ns is not None and unix_ns in _TIMES_NS:
            rows.append((unix_ns, sample))
    if not rows:
        return None
    origin_ns = rows[0][0] if epoch_ns is None else epoch_ns
    spans = [
        (range(start_ns, start_ns + round(e["seconds"] * NS_PER_S)), e["epoch"])
        for e in epochs
        if (start_ns := e.get("started_at_unix_ns")) is not None and e["seconds"] is not None
    ]
    return data_model.MONITOR.table([
        sample
        | {"time_ns": at - origin_ns, "epoch": next((e for span, e in spans if at in span), None)}
        for at, sample in rows
    ])  # fmt: skip


def typed(table: schema.Schema, rows: object) -> list[Row]:
    """Rows with the columns of a table; null where a value is absent or of no such type.

    Raises:
        TypeError: They are no list of objects.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        msg = f"{table.name} is not a list of objects"
        raise TypeError(msg)
    return [
        {name: _READ[column.dtype](row.get(name)) for name, column in table.columns.items()}
        for row in rows
    ]


READER: Final = Reader(
    name="run",
    title="a folder that `gpuprof record` made, or the file that `gpuprof pack` made of it",
    versions="manifest version 1",
    gives=("epochs", "monitor"),
    cannot="",
    read=read,
    recognises=is_packed_run,
    recognises_folder=is_run,
)
