"""gpuprof's data set: the recordings of all ranks of a job as a folder of plain Parquet files.

DuckDB, Polars, pandas and Spark read its tables as they are::

    job.gpuprof/
      gpuprof.json                         version, origins, and the size of every file
      kernels/rank=0/part-0.parquet        a folder per table, a partition per rank
      kernels/rank=1/part-0.parquet
      memcpys/rank=0/part-0.parquet

Each file has all columns of its table in `gpuprof.schema`, of the same types in each rank, but for
``rank``, which is that of its folder; where that is not known the folder is that of null, as Hive
calls it. Times are on the clock of the job, rows in the order of their start. A table without rows
has no file. A rank of which there are several recordings has ``part-1.parquet`` and so on.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
import pyarrow as pa

from gpuprof import borders, json_input, schema
from gpuprof.columns import Kinds, Table, Tables
from gpuprof.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.profile import Origin, Profile
from gpuprof.readers.contract import Reader
from gpuprof.readers.gpuprof.gpuprof_file import OriginFields
from gpuprof.readers.gpuprof.parquet_columns import (
    CHANGED,
    FilePart,
    Packed,
    ParquetColumns,
    opened,
)
from gpuprof.views import Select, StoredColumn, StoredRows, View

VERSION: Final = 1
HEADER: Final = "gpuprof.json"
# In the header and in the metadata of each Parquet file.
VERSION_KEY: Final = "gpuprof_dataset"
RANK: Final = "rank"
# How Hive, and all who read its folders, write null.
_UNKNOWN_RANK: Final = "__HIVE_DEFAULT_PARTITION__"
_MOST_NAMED: Final = 3
_HINT: Final = "Copy it again, or make it again with `gpuprof convert`."
_Count = Annotated[int, msgspec.Meta(ge=0, le=schema.LARGEST)]


class StoredTable(msgspec.Struct):
    """A table of one recording.

    Args:
        rows: How many it has; of none there is no file.
        bytes: Size of its file.
        ranks: Its column ``rank``, where it has one.
    """

    rows: _Count
    bytes: _Count
    ranks: list[int | None] | None = None


class StoredRecording(msgspec.Struct):
    """The recording of one process.

    Args:
        name: Name of the file that it was converted from.
        rank: Its rank; None where unknown.
        part: Its number among the recordings of its rank, from 0.
        shift_ns: By how much the times in its files are later than on its own clock.
        origin: What its tool said about it.
        tables: What was recorded, by the name of the table.
    """

    name: str
    rank: int | None
    part: _Count
    shift_ns: Annotated[int, msgspec.Meta(ge=-schema.LARGEST, le=schema.LARGEST)]
    origin: OriginFields
    tables: dict[str, StoredTable]

    def file_of(self, table: str) -> str:
        """The file of a table, relative to the folder."""
        return file_name(table, self.rank, self.part)


class Header(msgspec.Struct):
    """What ``gpuprof.json`` holds.

    Args:
        origin: That of the job.
        recordings: Those of its processes, in the order of ranks.
        job: Tables of the job as a whole, such as its epochs; their rank is null.
    """

    gpuprof_dataset: int
    written_by: str
    origin: OriginFields
    recordings: list[StoredRecording]
    job: dict[str, StoredTable]


class _Version(msgspec.Struct):
    gpuprof_dataset: int


def file_name(table: str, rank: int | None, part: int) -> str:
    """The file of a table of one recording, relative to the folder."""
    return f"{table}/{RANK}={_UNKNOWN_RANK if rank is None else rank}/part-{part}.parquet"


def columns_of(table: str) -> Kinds:
    """The columns that the files of a table have, with their types."""
    return {name: kind for name, kind in schema.BY_NAME[table].kinds.items() if name != RANK}


def read(path: Path) -> Profile:
    """Open a folder that `gpuprof convert` wrote.

    Raises:
        InputError: A file of it cannot be read.
        CorruptFileError: One is missing, cut short or damaged.
        UnknownFormatError: Another version of gpuprof wrote it.
    """
    header = _header(path)
    note = _check_files(path, header)
    recordings = [_recording(path, stored) for stored in header.recordings]
    profile = recordings[0]
    if len(recordings) > 1:
        from gpuprof.readers.many import joined  # noqa: PLC0415 - loads pyarrow.compute

        profile = joined(recordings)
    of_job = {
        name: _small(path, name, file_name(name, None, 0), t) for name, t in header.job.items()
    }
    fields = msgspec.structs.asdict(header.origin)
    origin = Origin(path, **fields | {"warnings": (*fields["warnings"], *note)})
    return replace(profile, origin=origin, sources={**profile.sources, **of_job})


def _header(path: Path) -> Header:
    file = path / HEADER
    try:
        data = file.read_bytes()
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise InputError(msg, "Is the folder a data set of gpuprof?") from error
    try:
        version = json_input.decode(data, _Version).gpuprof_dataset
        if version != VERSION:
            msg = f"{path} is a data set of version {version}; this gpuprof reads {VERSION}"
            raise UnknownFormatError(msg, "Make it again with `gpuprof convert` of this version.")
        header = json_input.decode(data, Header)
    except ValueError as error:
        msg = f"{file}: it is damaged ({error})"
        raise CorruptFileError(msg, _HINT) from error
    if unknown := {n for r in header.recordings for n in r.tables} - schema.BY_NAME.keys():
        msg = f"{file}: there is no table {min(unknown)}"
        raise CorruptFileError(msg, _HINT)
    if not header.recordings:
        msg = f"{file}: it names no recording"
        raise CorruptFileError(msg, _HINT)
    return header


def _expected(header: Header) -> dict[str, int]:
    """The size of every file, by its name relative to the folder."""
    sizes = {file_name(name, None, 0): table.bytes for name, table in header.job.items()}
    for stored in header.recordings:
        for name, table in stored.tables.items():
            if table.rows:
                sizes[stored.file_of(name)] = table.bytes
    return sizes


def _check_files(path: Path, header: Header) -> list[str]:
    """A note on files that are no part of it, if there are any.

    Raises:
        CorruptFileError: A file is missing, or has another size.
    """
    expected, sizes = _expected(header), dict(_sizes(path))
    if missing := sorted(expected.keys() - sizes.keys()):
        msg = f"{path}: {_counted(missing, 'is', 'are')} missing"
        raise CorruptFileError(msg, _HINT)
    for name, size in expected.items():
        if sizes[name] != size:
            msg = f"{path / name}: it has {sizes[name]:,} bytes, and was written with {size:,}"
            raise CorruptFileError(msg, _HINT)
    foreign = sorted(sizes.keys() - expected.keys())
    return [f"Left out: {_counted(foreign, 'is', 'are')} not part of {path}."] if foreign else []


def _counted(names: Sequence[str], is_: str, are: str) -> str:
    """Few names, or the first of many with their number, and the verb."""
    if len(names) == 1:
        return f"{names[0]} {is_}"
    shown = ", ".join(names[:_MOST_NAMED]) + (" and others" if len(names) > _MOST_NAMED else "")
    return f"{len(names):,} files ({shown}) {are}"


def _sizes(path: Path) -> Iterator[tuple[str, int]]:
    """Every file by its name relative to the folder, but for those that readers of Hive ignore."""
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            relative = file.relative_to(path).as_posix()
            if not name.startswith((".", "_")) and relative != HEADER:
                yield relative, file.stat().st_size


def _recording(path: Path, stored: StoredRecording) -> Profile:
    """The recording of one process, on its own clock."""
    files = {n: (path / stored.file_of(n), t) for n, t in stored.tables.items() if t.rows}
    small = {name: table for name, (_, table) in files.items() if table.ranks is not None}

    def make() -> dict[str, Table]:
        return {
            name: ParquetColumns([_packed(*file, name)], columns_of(name), stored.shift_ns)
            for name, file in files.items()
            if name not in small
        }

    sources: dict[str, pa.Table | View] = {
        name: schema.BY_NAME[name].empty() for name in stored.tables
    }
    sources |= {name: _view(name) for name in files if name not in small}
    sources |= {name: _small(path, name, stored.file_of(name), t) for name, t in small.items()}
    events = sum(
        t.rows for name, t in stored.tables.items() if "start_ns" in schema.BY_NAME[name].columns
    )
    origin = Origin(path / Path(stored.name).name, **msgspec.structs.asdict(stored.origin))
    return Profile(origin, sources, Tables(make), partial(_failure, path, stored), stored=events)


def _view(name: str) -> View:
    columns = {column: StoredColumn(column) for column in columns_of(name)}
    return View((Select({**columns}, StoredRows(name)),))


def _small(path: Path, name: str, file: str, stored: StoredTable) -> pa.Table:
    """A small table in memory, with its ranks."""
    packed = _packed(path / file, stored, name)
    try:
        table = opened(packed.part.again(), (), packed.metadata).read()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path / file, error) from error
    if stored.ranks is not None:
        if len(stored.ranks) != table.num_rows:
            msg = f"{path / HEADER}: it has other ranks than {file} has rows"
            raise CorruptFileError(msg, _HINT)
        table = table.append_column(RANK, pa.array(stored.ranks, pa.int64()))
    return schema.BY_NAME[name].conform(table)


def _packed(file: Path, stored: StoredTable, name: str) -> Packed:
    """A Parquet file, after a check of its metadata.

    Raises:
        CorruptFileError: It is damaged, or is not the file that was written.
    """
    kinds = columns_of(name)
    try:
        part = FilePart(file, 0, file.stat().st_size)
        parquet = opened(part, [n for n, kind in kinds.items() if kind == pa.string()])
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(file, error) from error
    borders.check_growth(str(file), parquet.metadata, part.size)
    version = (parquet.metadata.metadata or {}).get(VERSION_KEY.encode(), b"none").decode()
    if version != str(VERSION):
        msg = f"{file}: it is of version {version} of the format, and its data set of {VERSION}"
        raise CorruptFileError(msg, _HINT)
    columns = parquet.schema_arrow
    if columns.names != [*kinds] or borders.unlike(columns, kinds):
        msg = f"{file}: its columns are not those of table {name}"
        raise CorruptFileError(msg, _HINT)
    if parquet.metadata.num_rows != stored.rows:
        rows = f"{parquet.metadata.num_rows:,} rows"
        msg = f"{file}: it has {rows}, and was written with {stored.rows:,}"
        raise CorruptFileError(msg, _HINT)
    return Packed(part, parquet.metadata, columns)


def _damaged(file: Path, error: Exception) -> GpuprofError:
    if CHANGED in str(error):
        return InputError(f"{file} changed while it was read", "Is it being made? Then try again.")
    return CorruptFileError(f"{file}: it is damaged ({str(error).splitlines()[0]})", _HINT)


def _failure(path: Path, stored: StoredRecording, error: Exception) -> GpuprofError | None:
    """What a failed query says about the files: each page of them carries a checksum."""
    if isinstance(error, pa.ArrowException | OSError) or "arrow_scan" in str(error):
        which = "an unknown rank" if stored.rank is None else f"rank {stored.rank}"
        return CorruptFileError(f"{path}: a file of {which} is damaged", _HINT)
    return None


def is_data_set(path: Path) -> bool:
    """Whether a folder is one."""
    try:
        with (path / HEADER).open("rb") as file:
            return VERSION_KEY.encode() in file.read(64)
    except OSError:
        return False


READER: Final = Reader(
    name="gpuprof-dataset",
    title="gpuprof's data set of a job: a folder of Parquet files by table and rank",
    versions=f"version {VERSION}",
    gives=tuple(schema.BY_NAME),
    cannot="",
    read=read,
    recognises_folder=is_data_set,
)
