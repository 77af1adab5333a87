"""Runs that ``gpuprof record`` made: their recordings, and what the manifest knows.

A run is a folder, or the file that ``gpuprof pack`` made of one, which is unpacked into the cache.

The recordings are read by the readers of their own formats. Where there are several, as one
per process, their tables are put one after another, on one clock where they have one.
"""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, GpuprofError, InputError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import (
    MANIFEST,
    PROGRAM_LOG,
    Manifest,
    is_run,
    read_manifest,
)
from gpuprof.model import schema
from gpuprof.model.profile import Origin, Profile
from gpuprof.readers.gpuprof.monitor_samples import samples
from gpuprof.readers.gpuprof.packed_run import is_packed_run, unpack
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys.export_cache import cached
from gpuprof.readers.sections import ALL

# In the cache: the kind of entry, and the run's folder in it.
_PACKED: Final = "packed-1"
_UNPACKED: Final = "run"
# As recorders inside a process name its files.
_OF_RANK: Final = re.compile(r"-rank\d+-")


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
        profile = _only_timed(folder, manifest)
    else:
        _check_not_empty(folder, manifest)
        profile = _recorded(folder, manifest)
    sources = dict(profile.sources)
    if manifest.epochs:
        sources["epochs"] = schema.EPOCHS.table([dict(epoch) for epoch in manifest.epochs])
    sampled = samples(folder, manifest.epochs, profile.origin.epoch_ns)
    if sampled is not None:
        sources["monitor"] = sampled
    return replace(profile, origin=_origin(folder, manifest, profile.origin), sources=sources)


def _only_timed(folder: Path, manifest: Manifest) -> Profile:
    """No table but what the manifest itself knows, and a word why."""
    reason = manifest.nothing_recorded or "nothing was recorded"
    warning = f"Only the marked epochs are known: {reason}."
    return Profile(Origin(folder, READER.name, manifest.recorder, warnings=(warning,)), {})


def _recorded(folder: Path, manifest: Manifest) -> Profile:
    profiles = [_read_one(folder, name) for name in manifest.recordings]
    if _are_of_ranks(manifest.recordings):
        from gpuprof.readers.merged_ranks import joined  # noqa: PLC0415 - loads pyarrow.compute

        return joined(profiles)
    return _joined(profiles)


def _are_of_ranks(names: Sequence[str]) -> bool:
    """Whether a run's recordings are those of several ranks."""
    return len(names) > 1 and all(map(_OF_RANK.search, names))


def _check_not_empty(folder: Path, manifest: Manifest) -> None:
    if manifest.recordings and manifest.nothing_recorded is None:
        return
    msg = f"{folder}: {manifest.nothing_recorded or 'nothing was recorded'}"
    log = folder / PROGRAM_LOG
    raise EmptyRecordingError(msg, f"What the program printed is in {log}.")


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


def _joined(profiles: list[Profile]) -> Profile:
    """One profile of several: rows after one another, times since the earliest origin."""
    if len(profiles) == 1:
        return profiles[0]
    epochs_ns = [p.origin.epoch_ns for p in profiles if p.origin.epoch_ns is not None]
    earliest = min(epochs_ns) if len(epochs_ns) == len(profiles) else None
    parts: dict[str, list[pa.Table]] = {}
    first_runs = accumulate(map(_run_count, profiles), initial=0)
    for profile, first_run in zip(profiles, first_runs, strict=False):
        epoch_ns = profile.origin.epoch_ns
        shift = 0 if epoch_ns is None or earliest is None else epoch_ns - earliest
        for name in profile.sources:
            parts.setdefault(name, []).append(_shifted(profile.table(name), shift, first_run))
    warnings = tuple(dict.fromkeys(w for p in profiles for w in p.origin.warnings))
    if earliest is None:
        warnings += ("The recordings of several processes have no common clock.",)
    origin = replace(profiles[0].origin, epoch_ns=earliest, warnings=warnings)
    return Profile(origin, {name: _together(tables) for name, tables in parts.items()})


def _run_count(profile: Profile) -> int:
    """How many run ids a recording uses; one where it numbers none."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 25 ms that recognising does not need

    tables = (profile.table(n) for n in profile.sources if "run_id" in schema.BY_NAME[n].columns)
    last_ids = [pc.max(table["run_id"]).as_py() for table in tables]
    return 1 + max((number for number in last_ids if number is not None), default=0)


def _shifted(table: pa.Table, shift_ns: int, first_run: int) -> pa.Table:
    """A table with its times moved, in integers, and its runs apart from other recordings'."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 25 ms that recognising does not need

    for name, offset in (("start_ns", shift_ns), ("end_ns", shift_ns), ("run_id", first_run)):
        if name in table.column_names:
            position = table.column_names.index(name)
            moved = pc.add(table[name], pa.scalar(offset, pa.int64()))
            table = table.set_column(position, name, moved)
    return table


def _together(tables: list[pa.Table]) -> pa.Table:
    """Rows after one another; a device or link that every recording lists is one."""
    table = pa.concat_tables(tables)
    if any(table.schema.equals(spec.arrow) for spec in (schema.DEVICES, schema.LINKS)):
        return table.group_by(table.column_names, use_threads=False).aggregate([])
    return table


def _origin(folder: Path, manifest: Manifest, inner: Origin) -> Origin:
    return replace(
        inner,
        source=folder,
        command=shlex.join(manifest.command),
        recorded_at=manifest.started_at,
        variant=manifest.variant or inner.variant,
        warnings=tuple(dict.fromkeys((*_failure(manifest), *manifest.warnings, *inner.warnings))),
    )


def _failure(manifest: Manifest) -> tuple[str, ...]:
    """A run that failed may have stopped anywhere: the reader must know."""
    if not manifest.exit_status:
        return ()
    return (f"The program ended with exit status {manifest.exit_status}.",)


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
