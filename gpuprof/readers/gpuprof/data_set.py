"""gpuprof's data set: the recordings of all ranks of a job as a folder of plain Parquet files.

DuckDB, Polars, pandas and Spark read its tables as they are::

    job.gpuprof/
      gpuprof.json                         version, origin, and the names of the recordings
      recordings/rank0.sqlite.json         origin of a recording, and the size of its files
      recordings/rank1.sqlite.json
      kernels/rank=0/part-0.parquet        a folder per table, a partition per rank
      kernels/rank=1/part-0.parquet
      memcpys/rank=0/part-0.parquet

Each file has all columns of its table in `gpuprof.model.data_model`, of the same types in each
rank, but for ``rank``, which is that of its folder; where that is not known the folder is that of
null, as Hive calls it. Times are on the clock of the job, rows in the order of their start. A table
without rows has no file. A rank with several recordings has ``part-1.parquet`` and so on.

The folder is read as one recording of all ranks, a file in ``recordings`` as that rank alone.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.model import borders, data_model, schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, Source
from gpuprof.model.spilling import Kinds
from gpuprof.model.table import Part, Table
from gpuprof.readers.common.parquet_columns import (
    FilePart,
    ParquetColumns,
    ParquetFile,
    fault,
    opened,
)
from gpuprof.readers.gpuprof.gpuprof_file import OriginFields
from gpuprof.readers.input_format import Reader

VERSION: Final = 1
HEADER: Final = "gpuprof.json"
# In the header and in the metadata of each Parquet file.
VERSION_KEY: Final = "gpuprof_dataset"
RECORDINGS: Final = "recordings"
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
    """What a file in ``recordings`` holds of the recording of one process.

    Args:
        rank: Its rank; None where unknown.
        part: Its number among the recordings of its rank, from 0.
        shift_ns: By how much the times in its files are later than on its own clock.
        origin: What its tool said about it.
        tables: What was recorded, by the name of the table.
    """

    gpuprof_recording: int
    rank: int | None
    part: _Count
    shift_ns: Annotated[int, msgspec.Meta(ge=-schema.LARGEST, le=schema.LARGEST)]
    origin: OriginFields
    tables: dict[str, StoredTable]

    def file_of(self, table: str) -> str:
        """The file of a table, relative to the folder."""
        return file_name(table, self.rank, self.part)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of its files in bytes, by their names relative to the folder."""
        return {self.file_of(n): table.bytes for n, table in self.tables.items() if table.rows}


class Header(msgspec.Struct):
    """What ``gpuprof.json`` holds.

    Args:
        origin: That of the job.
        recordings: Names of the files in ``recordings``, in the order of ranks.
        job: Tables of the job as a whole, such as its epochs; their rank is null.
    """

    gpuprof_dataset: int
    written_by: str
    origin: OriginFields
    recordings: list[str]
    job: dict[str, StoredTable]


class _SetVersion(msgspec.Struct):
    gpuprof_dataset: int


class _RecordingVersion(msgspec.Struct):
    gpuprof_recording: int


_Document = TypeVar("_Document", Header, StoredRecording)
_VERSIONS: Final = {Header: _SetVersion, StoredRecording: _RecordingVersion}


def file_name(table: str, rank: int | None, part: int) -> str:
    """The file of a table of one recording, relative to the folder."""
    return f"{table}/{RANK}={_UNKNOWN_RANK if rank is None else rank}/part-{part}.parquet"


def columns_of(table: str) -> Kinds:
    """The columns that the files of a table have, with their types."""
    return {name: kind for name, kind in data_model.BY_NAME[table].kinds.items() if name != RANK}


def read(path: Path) -> Profile:
    """Open a folder that `gpuprof convert` wrote, or one of its recordings.

    Raises:
        InputError: A file of it cannot be read.
        CorruptFileError: One is missing, cut short or damaged.
        UnknownFormatError: Another version of gpuprof wrote it.
    """
    if not path.is_dir():
        stored, folder = _document(path, StoredRecording), path.absolute().parent.parent
        there = {n: (folder / n).stat().st_size for n in stored.sizes if (folder / n).is_file()}
        _check_sizes(folder, stored.sizes, there)
        return _recording(path, stored)
    header = _header(path)
    recorded = {file: _document(file, StoredRecording) for file in _recording_files(path, header)}
    expected = {file_name(name, None, 0): table.bytes for name, table in header.job.items()}
    for stored in recorded.values():
        expected |= stored.sizes
    # Readers of Hive ignore the others; a link that leads nowhere is no file.
    files = (
        Path(folder, n) for folder, _, names in os.walk(path) for n in names if n[0] not in "._"
    )
    sizes = {f.relative_to(path).as_posix(): f.stat().st_size for f in files if f.is_file()}
    _check_sizes(path, expected, sizes)
    headers = {HEADER, *(file.relative_to(path).as_posix() for file in recorded)}
    foreign = sorted(sizes.keys() - expected.keys() - headers)
    note = [f"Left out: {_counted(foreign)} not part of {path}."] if foreign else []
    recordings = [_recording(file, recording) for file, recording in recorded.items()]
    profile = recordings[0]
    if len(recordings) > 1:
        from gpuprof.readers.merged_ranks import joined  # noqa: PLC0415 - loads pyarrow.compute

        profile = joined(recordings)
    of_job = {n: _small(path / HEADER, n, file_name(n, None, 0), t) for n, t in header.job.items()}
    fields = msgspec.structs.asdict(header.origin)
    origin = Origin(path, **fields | {"warnings": (*fields["warnings"], *note)})
    return replace(profile, origin=origin, sources={**profile.sources, **of_job})


def recordings_in(path: Path) -> list[Path]:
    """The files of a data set that are read as one rank each, in the order of ranks.

    Raises:
        GpuprofError: The data set is damaged, or of another version.
    """
    return _recording_files(path, _header(path))


def is_recording(file: Path) -> bool:
    """Whether a file stands for one recording of a data set."""
    return file.parent.name == RECORDINGS and is_data_set(file.parent.parent)


def recording_bytes(file: Path) -> int:
    """What the tables of one recording have on disk; 0 where it does not tell."""
    try:
        return sum(_document(file, StoredRecording).sizes.values())
    except GpuprofError:
        return 0


def _header(path: Path) -> Header:
    header = _document(path / HEADER, Header)
    if not header.recordings:
        msg = f"{path / HEADER}: it names no recording"
        raise CorruptFileError(msg, _HINT)
    return header


def _recording_files(path: Path, header: Header) -> list[Path]:
    return [path / RECORDINGS / Path(name).name for name in header.recordings]


def _document(file: Path, kind: type[_Document]) -> _Document:
    """What a JSON file of the data set holds.

    Raises:
        GpuprofError: It is not there, damaged, or of another version.
    """
    try:
        data = file.read_bytes()
        (version,) = msgspec.structs.astuple(json_input.decode(data, _VERSIONS[kind]))
        if version != VERSION:
            msg = f"{file}: it is of version {version}; this gpuprof reads {VERSION}"
            raise UnknownFormatError(msg, "Make it again with `gpuprof convert` of this version.")
        document: _Document = json_input.decode(data, kind)
    except FileNotFoundError as error:
        msg = f"{file} is missing"
        raise CorruptFileError(msg, _HINT) from error
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    except ValueError as error:
        why = f" ({error})" if isinstance(error, json_input.ShapeError) else ""
        msg = f"{file}: it is damaged{why}"
        raise CorruptFileError(msg, _HINT) from error
    tables = document.job if isinstance(document, Header) else document.tables
    if unknown := tables.keys() - data_model.BY_NAME.keys():
        msg = f"{file}: there is no table {min(unknown)}"
        raise CorruptFileError(msg, _HINT)
    return document


def _check_sizes(path: Path, expected: Mapping[str, int], sizes: Mapping[str, int]) -> None:
    if missing := sorted(expected.keys() - sizes.keys()):
        msg = f"{path}: {_counted(missing)} missing"
        raise CorruptFileError(msg, _HINT)
    for name, size in expected.items():
        if sizes[name] != size:
            msg = f"{path / name}: it has {sizes[name]:,} bytes, and was written with {size:,}"
            raise CorruptFileError(msg, _HINT)


def _counted(names: Sequence[str]) -> str:
    """Few names, or the first of many with their number, and the verb."""
    if len(names) == 1:
        return f"{names[0]} is"
    shown = ", ".join(names[:_MOST_NAMED]) + (" and others" if len(names) > _MOST_NAMED else "")
    return f"{len(names):,} files ({shown}) are"


def _recording(file: Path, stored: StoredRecording) -> Profile:
    """The recording of one process, on its own clock."""
    path = file.parent.parent
    files = {n: (path / stored.file_of(n), t) for n, t in stored.tables.items() if t.rows}
    small = {name: table for name, (_, table) in files.items() if table.ranks is not None}

    rank = "an unknown rank" if stored.rank is None else f"rank {stored.rank}"
    failure = partial(fault, path, f"{path}: a file of {rank} is damaged", _HINT)

    def table(name: str) -> Table:
        packed = _packed(path / stored.file_of(name), stored.tables[name], name)
        kinds = columns_of(name)
        rows = ParquetColumns([packed], kinds, failure, stored.shift_ns)
        return Table(data_model.BY_NAME[name], [Part(rows, {column: column for column in kinds})])

    sources: dict[str, Source] = {name: data_model.BY_NAME[name].empty() for name in stored.tables}
    sources |= {name: partial(table, name) for name in files if name not in small}
    sources |= {name: _small(file, name, stored.file_of(name), t) for name, t in small.items()}
    events = sum(
        t.rows for name, t in stored.tables.items() if "end_ns" in data_model.BY_NAME[name].columns
    )
    origin = Origin(file, **msgspec.structs.asdict(stored.origin))
    return Profile(origin, sources, stored=events)


def _small(header: Path, name: str, file_of_table: str, stored: StoredTable) -> pa.Table:
    """A small table in memory, with its ranks."""
    folder = header.parent if header.name == HEADER else header.parent.parent
    file = folder / file_of_table
    packed = _packed(file, stored, name)
    try:
        table = opened(packed.part.again(), (), packed.metadata).read(use_threads=False)
    except borders.DAMAGE as error:
        raise fault(file, f"{file}: it is damaged", _HINT, error) or error from error
    if stored.ranks is not None:
        if len(stored.ranks) != table.num_rows:
            msg = f"{header}: it has other ranks than {file_of_table} has rows"
            raise CorruptFileError(msg, _HINT)
        table = table.append_column(RANK, pa.array(stored.ranks, pa.int64()))
    return data_model.BY_NAME[name].conform(table)


def _packed(file: Path, stored: StoredTable, name: str) -> ParquetFile:
    """A Parquet file, after a check of its metadata.

    Raises:
        CorruptFileError: It is damaged, or is not the file that was written.
    """
    kinds = columns_of(name)
    try:
        part = FilePart.of_file(file)
        parquet = opened(part, [n for n, kind in kinds.items() if kind == pa.string()])
    except borders.DAMAGE as error:
        raise fault(file, f"{file}: it is damaged", _HINT, error) or error from error
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
    return ParquetFile(part, parquet.metadata, columns)


def is_data_set(path: Path) -> bool:
    """Whether a folder is one."""
    try:
        # A pipe would be waited for.
        if not (path / HEADER).is_file():
            return False
        with (path / HEADER).open("rb") as file:
            return VERSION_KEY.encode() in file.read(64)
    except OSError:
        return False


READER: Final = Reader(
    name="gpuprof-dataset",
    title="gpuprof's data set of a job: a folder of Parquet files by table and rank",
    versions=f"version {VERSION}",
    gives=tuple(data_model.BY_NAME),
    cannot="",
    read=read,
    recognises=lambda head: head.startswith(b'{"gpuprof_recording":'),
    recognises_folder=is_data_set,
)
