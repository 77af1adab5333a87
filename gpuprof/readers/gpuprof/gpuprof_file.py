"""gpuprof's own file: a recording of any format as Parquet, one file small enough to mail.

It holds what the data model holds: no environment, no names of hosts. A zip archive, stored and
not compressed again, of

- ``gpuprof.json``, its first member: ``gpuprof_file``, the version of the format; ``written_by``;
  ``converted_from``, a name without its folder; ``origin``, the fields of `OriginFields`; of a
  part of a recording ``part``, the fields of `PartFields`.
- ``<table>.parquet`` for each recorded table: the columns of `gpuprof.model.data_model` that hold
  anything, integers in as many bits as they need, rows by their start. Groups of rows say which
  times they hold, and each page carries a checksum. Further rows of a large table are in
  ``<table>.1.parquet`` and so on, each with the columns and types that its own rows need.
- ``<table>.names.parquet`` for each table of which every row has a name: a row for each
  ``name_id``, which the table has in the place of ``name`` and whatever depends on it alone.

Each Parquet file is read in place: of it only the columns that a query names, and the groups of
rows that hold its window of time. Version 1 has all columns in 64 bits and no numbers for names;
versions 1 and 2 have one file per table; before version 4 a part is not told from a recording.
"""

import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, InputError, UnknownFormatError
from gpuprof.model import borders, data_model, schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, Source
from gpuprof.model.spilling import Kinds
from gpuprof.model.stored import InMemory, Stored
from gpuprof.model.table import EVERYTHING, Part, Selection, Table
from gpuprof.model.words import Names
from gpuprof.readers.common.parquet_columns import (
    FilePart,
    ParquetColumns,
    ParquetFile,
    fault,
    opened,
)
from gpuprof.readers.input_format import LOCAL_HEADER_BYTES, Reader, begins_archive
from gpuprof.readers.inputs import stamp

VERSION: Final = 4
HEADER: Final = "gpuprof.json"
SUFFIX: Final = ".parquet"
NAMES: Final = ".names"
NUMBER: Final = "name_id"


def member_name(table: str, part: int = 0) -> str:
    """What a file of the archive is called that has some rows of a table."""
    return f"{table}.{part}{SUFFIX}" if part else table + SUFFIX


class OriginFields(msgspec.Struct):
    """The origin of the recording in the header, as `gpuprof.model.origin.Origin` holds it."""

    reader: str
    tool: str
    tool_version: str | None
    schema_version: str | None
    command: str | None
    recorded_at: str | None
    epoch_ns: Annotated[int, msgspec.Meta(ge=0, le=schema.LARGEST)] | None
    variant: str | None
    start_resolution_ns: Annotated[int, msgspec.Meta(ge=1, le=schema.LARGEST)]
    warnings: tuple[str, ...]
    exporter_version: str | None = None  # Files of older versions of gpuprof lack it.


class PartFields(msgspec.Struct):
    """The part of a recording in the header, as `gpuprof.model.table.Selection` holds it.

    Beside what is in it, tables have what its figures take; see `part_context`.
    """

    windows: tuple[tuple[int, int], ...] | None
    device_id: int | None


TOOL_FIELDS: Final = OriginFields.__struct_fields__
_NUMBER: Final = {NUMBER: pa.int64()}
# Where in a member's header the lengths of its name and of more are.
_LENGTHS: Final = slice(26, 30)
# A table without times that has no more is read at once.
_FEW_ROWS: Final = 1_000
_DAMAGED: Final = "{}: one of its tables is damaged"
_HINT: Final = "Make it again from the original with `gpuprof convert`."


def read(path: Path) -> Profile:
    """Open a file that `gpuprof convert` or `gpuprof slice` wrote.

    Raises:
        InputError: The file cannot be read.
        CorruptFileError: It is cut short or damaged.
        UnknownFormatError: A newer gpuprof wrote it.
    """
    members = _members(path)
    try:
        header: dict[str, Any] = json_input.loads(members[HEADER].read())
        version, fields = header["gpuprof_file"], header["origin"]
        is_known = version in range(1, VERSION + 1)
        origin_fields = (
            msgspec.structs.asdict(msgspec.convert(fields, OriginFields)) if is_known else {}
        )
        part = _part(header.get("part")) if is_known else EVERYTHING
    except (KeyError, TypeError, ValueError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        msg = f"{path}: {HEADER} in it is missing or broken{why}"
        raise CorruptFileError(msg, _HINT) from error
    if not is_known:
        msg = f"{path} is a gpuprof file of version {version!r}; this gpuprof reads 1 to {VERSION}"
        raise UnknownFormatError(msg, "Read it with the gpuprof that wrote it, or a newer one.")
    tables = {
        name: _table(path, name, members) for name in data_model.BY_NAME if name + SUFFIX in members
    }
    sources = {name: _source(path, name, *table) for name, table in tables.items()}
    timed = (n for n in tables if "end_ns" in data_model.BY_NAME[n].columns)
    stored = sum(tables[n][0].row_count for n in timed)
    recording = Profile(Origin(path, **origin_fields), sources, stored=stored)
    return recording if part == EVERYTHING else recording.restricted(part)


def _part(stored: object) -> Selection:
    """The part of a recording that the file is; all of it where it stores none.

    Raises:
        ValueError: Its windows are none.
    """
    part = msgspec.convert(stored, PartFields | None)
    if part is None:
        return EVERYTHING
    borders = [*chain.from_iterable(part.windows or ())]
    if borders != sorted(borders):
        msg = "the windows of its part do not follow one another"
        raise ValueError(msg)
    return Selection(part.windows, part.device_id)


def _members(path: Path) -> Mapping[str, FilePart]:
    """The archive's members, as parts of the file."""
    members = {}
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            for info in zipfile.ZipFile(file).infolist():
                begin = info.header_offset + LOCAL_HEADER_BYTES
                if info.header_offset >= 0 and begin <= about.st_size:
                    file.seek(info.header_offset)
                    lengths = file.read(LOCAL_HEADER_BYTES)[_LENGTHS]
                    begin += sum(int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
                if info.header_offset < 0 or begin + info.file_size > about.st_size:
                    msg = f"{path}: {info.filename} in it goes beyond its end"
                    raise CorruptFileError(msg, _HINT)
                if info.compress_type != zipfile.ZIP_STORED:
                    msg = f"{path}: {info.filename} in it was packed by another program"
                    raise CorruptFileError(msg, _HINT)
                members[info.filename] = FilePart(path, begin, info.file_size, stamp(about))
    # Raised for another version of the format, or names in an unknown encoding.
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        msg = f"{path}: the file is cut short or damaged ({error})"
        raise CorruptFileError(msg, _HINT) from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise InputError(msg) from error
    return members


class _ParquetRows(NamedTuple):
    """Rows in Parquet files of the archive, after a look at the ends of these.

    Args:
        files: They hold the rows one after another.
        kinds: Their columns that queries see, with the types that they see.
        cast: The rows in memory, where their types are others; else None.
    """

    files: Sequence[ParquetFile]
    kinds: dict[str, pa.DataType]
    cast: pa.Table | None

    @property
    def row_count(self) -> int:
        """How many there are."""
        return sum(file.metadata.num_rows for file in self.files)

    def stored(self, path: Path) -> Stored:
        """What the files hold, or the rows in memory."""
        if self.cast is not None:
            return InMemory(self.cast)
        failure = partial(fault, path, _DAMAGED.format(path), _HINT)
        return ParquetColumns(self.files, self.kinds, failure)


def _table(
    path: Path, name: str, members: Mapping[str, FilePart]
) -> tuple[_ParquetRows, _ParquetRows | None]:
    """The rows of a table, and what the numbers of their names mean, if they have such numbers.

    Raises:
        CorruptFileError: It is damaged, one of its files is not there, or its columns are not
            those of the table; or one number means two names: what it is joined to would count
            twice.
    """
    where, spec, names = f"{path}, table {name}", data_model.BY_NAME[name], None
    texts = {column: kind for column, kind in spec.kinds.items() if kind == pa.string()}
    of_names = members.get(member_name(name + NAMES))
    try:
        further = re.compile(rf"{name}\.([1-9]\d{{0,8}}){SUFFIX}")
        numbers = sorted(int(match[1]) for match in map(further.fullmatch, members) if match)
        for place, number in enumerate(numbers, 1):
            if place < number:
                msg = f"{where}: {member_name(name, place)} is missing"
                raise CorruptFileError(msg, _HINT)
        parts = [members[member_name(name, number)] for number in (0, *numbers)]
        rows = _rows(where, parts, spec.kinds | _NUMBER)
        if NUMBER in rows.kinds and of_names is not None:
            names = _rows(where, [of_names], texts | _NUMBER)
            _check_numbers(where, names)
    except borders.DAMAGE as error:
        msg = f"{path}: its table {name} is damaged"
        raise CorruptFileError(msg, _HINT) from error
    there = rows.kinds | (names.kinds if names else {})
    for column, about in spec.columns.items():
        if about.required and column not in there:
            msg = f"{path}: its table {name} has no column {column}"
            raise CorruptFileError(msg, _HINT)
    return rows, names


def _rows(where: str, parts: Sequence[FilePart], expected: Kinds) -> _ParquetRows:
    files = []
    for part in parts:
        file = opened(part, ())
        columns = file.schema_arrow
        borders.check_names(where, columns)
        borders.check_growth(where, file.metadata, part.size)
        # A column of lists is another one in Parquet's words.
        are_texts = ((f, expected.get(f.name) == pa.string()) for f in columns)
        texts = [f.name for f, is_text in are_texts if is_text and not pa.types.is_nested(f.type)]
        if texts:
            columns = opened(part.again(), texts, file.metadata).schema_arrow
        files.append(ParquetFile(part, file.metadata, columns))
    there = {name for file in files for name in file.columns.names}
    kinds = {name: kind for name, kind in expected.items() if name in there}
    unlike = (
        kinds[name] != pa.int64() or not pa.types.is_signed_integer(file.columns.field(name).type)
        for file in files
        for name in borders.unlike(file.columns, kinds)
    )
    if not any(unlike):
        return _ParquetRows(files, kinds, None)
    cast, before = [], 0
    for rows in _read_rows(files, kinds):
        cast.append(borders.cast(where, rows, kinds, before))
        before += rows.num_rows
    return _ParquetRows(files, kinds, pa.concat_tables(cast, promote_options="default"))


def _read_rows(files: Sequence[ParquetFile], kinds: Kinds) -> Iterator[pa.Table]:
    """The rows of each file."""
    for file in files:
        names = [name for name in kinds if name in file.columns.names]
        yield opened(file.part.again(), (), file.metadata).read(names, use_threads=False)


def _check_numbers(where: str, names: _ParquetRows) -> None:
    if not {NUMBER, "name"} <= names.kinds.keys():
        msg = f"{where}: its names have no numbers, or its numbers no names"
        raise CorruptFileError(msg, _HINT)
    rows = next(_read_rows(names.files, _NUMBER)) if names.cast is None else names.cast
    numbers = rows.column(NUMBER)
    if numbers.null_count:
        msg = f"{where}: one of its names has no number"
        raise CorruptFileError(msg, _HINT)
    if len(np.unique(numbers.to_numpy())) < len(numbers):
        msg = f"{where}: two of its names have one number"
        raise CorruptFileError(msg, _HINT)


def _source(path: Path, name: str, rows: _ParquetRows, names: _ParquetRows | None) -> Source:
    """A table for queries; of a few rows without times, such as devices, these."""
    spec = data_model.BY_NAME[name]
    if not rows.row_count:
        return spec.empty()
    if rows.row_count <= _FEW_ROWS and "start_ns" not in spec.columns:
        # Integers need no cast, which loads pyarrow.compute.
        kinds = {column: kind for column, kind in rows.kinds.items() if kind != pa.int64()}
        try:
            pieces = [rows.cast] if rows.cast else _read_rows(rows.files, rows.kinds)
            parts = (borders.cast(f"{path}, table {name}", part, kinds) for part in pieces)
            return spec.table([row for part in parts for row in part.to_pylist()])
        except borders.DAMAGE as error:
            raise fault(path, _DAMAGED.format(path), _HINT, error) or error from error

    def numbered() -> Names:
        lists: dict[str, list[Any]] = {column: [] for column in of_names}
        for piece in names.stored(path).pieces([*of_names]) if names else ():
            for column, values in zip(of_names, piece, strict=True):
                lists[column] += values.listed
        return Names(lists.pop(NUMBER), lists)

    def table() -> Table:
        part = Part(rows.stored(path), {column: column for column in rows.kinds})
        return Table(spec, [part], numbered if names else None, of_names.keys() - {NUMBER})

    of_names = names.kinds if names else {}
    return table


READER: Final = Reader(
    name="gpuprof",
    title="gpuprof's own file (.gpuprof)",
    versions=f"versions 1 to {VERSION}",
    gives=tuple(data_model.BY_NAME),
    cannot="",
    read=read,
    recognises=lambda head: begins_archive(head, HEADER),
)
