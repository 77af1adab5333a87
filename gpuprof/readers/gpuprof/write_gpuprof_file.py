"""Write a recording as gpuprof's own file, in the format that `gpuprof_file` documents."""

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof import __version__
from gpuprof.base.units import encodable
from gpuprof.model import schema
from gpuprof.model.profile import Profile
from gpuprof.model.table import NumberedNames, as_arrow, joined, reaching
from gpuprof.model.words import Values
from gpuprof.readers.common.threads import in_turn
from gpuprof.readers.gpuprof.gpuprof_file import (
    HEADER,
    NAMES,
    NUMBER,
    TOOL_FIELDS,
    VERSION,
    member_name,
)

# A window of time is read by whole groups.
_ROW_GROUP_ROWS: Final = 128 * 1024
# Of each file in the archive: each thread packs one of them.
_PART_ROWS: Final = 8 * _ROW_GROUP_ROWS
# Large enough that no page ends before its group does.
_PAGE_BYTES: Final = 8 * _ROW_GROUP_ROWS
# At level 9 files were 0.3 % smaller, and took twice as long.
_ZSTD_LEVEL: Final = 1
# What mostly grows from row to row packs best as differences; zstd would save 2 % of these.
_GROWING: Final = frozenset({"start_ns", "end_ns", "correlation_id"})
_DIFFERENCES: Final = "DELTA_BINARY_PACKED"
# Of a byte each, in half the time and as much room as a dictionary takes.
_BY_BYTES: Final = "BYTE_STREAM_SPLIT"
_TIMES: Final = ("start_ns", "end_ns")
_NUMBERS: Final = schema.Column(schema.INT, "1", "Number of a name.", required=True)
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32())
# The same recording gives the same bytes, whenever it is converted.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)

_Columns = Mapping[str, schema.Column]


class _Packed(NamedTuple):
    """Rows as a Parquet file, and the numbers of their names."""

    content: pa.Buffer
    numbers: pa.Array


def write(profile: Profile, path: Path) -> None:
    """Write all tables and where they came from.

    Of a part of a recording, ranges that are open at its borders are written, too.

    Raises:
        OSError: The file cannot be written.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, _NO_TIME), _header(profile))
        for name in schema.BY_NAME:
            if profile.has(name):
                _write_table(alone(profile, name), name, archive)


def _header(profile: Profile) -> str:
    header = {
        "gpuprof_file": VERSION,
        "written_by": f"gpuprof {__version__}",
        "converted_from": encodable(profile.origin.source.name),
        "origin": {name: getattr(profile.origin, name) for name in TOOL_FIELDS},
    }
    # Words of a command that are no UTF-8 hold halves of characters.
    return encodable(json.dumps(header, indent=1, ensure_ascii=False)) + "\n"


def alone(profile: Profile, name: str) -> Profile:
    """The recording with one of its large tables, so that what is read of it is freed after it."""
    if "start_ns" not in schema.BY_NAME[name].columns:
        return profile
    return replace(profile, sources={name: profile.sources[name]})


def _write_table(profile: Profile, name: str, archive: zipfile.ZipFile) -> None:
    columns = written_columns(profile, name)
    pack, numbers = partial(_packed, columns=columns), []
    for place, packed in enumerate(in_turn(pack, _parts(batches_by_start(profile, name, columns)))):
        archive.writestr(zipfile.ZipInfo(member_name(name, place), _NO_TIME), packed.content)
        numbers.append(packed.numbers)
    if NUMBER in columns:
        names = _of_numbers(profile.loaded(name).names, numbers)
        specs = {NUMBER: _NUMBERS, **schema.BY_NAME[name].columns}
        packed = _packed(names.to_batches(), {name: specs[name] for name in names.schema.names})
        archive.writestr(zipfile.ZipInfo(member_name(name + NAMES), _NO_TIME), packed.content)


def _of_numbers(names: NumberedNames, numbers: Iterable[pa.Array]) -> pa.Table:
    """The names of some numbers."""
    used = {number for part in numbers for number in part.to_pylist()}
    rows = sorted((n, place) for place, n in enumerate(names.numbers) if n in used)
    columns = {
        column: [texts[place] for _, place in rows] for column, texts in names.columns.items()
    }
    arrays = [schema.integers([number for number, _ in rows]), *map(schema.texts, columns.values())]
    return pa.Table.from_arrays(arrays, [NUMBER, *columns])


def written_columns(profile: Profile, name: str) -> _Columns:
    """What is written of a table; names of activities are numbered."""
    columns, source = schema.BY_NAME[name].columns, profile.sources[name]
    # Of a table whose names may be missing, a number could not say so.
    is_named = "start_ns" in columns and "name" in columns and columns["name"].required
    if not is_named:
        return columns
    of_names = (
        {"name"} if isinstance(source, pa.Table) else profile.loaded(name).of_names | {"name"}
    )
    return {c: spec for c, spec in columns.items() if c not in of_names} | {NUMBER: _NUMBERS}


def batches_by_start(profile: Profile, name: str, columns: _Columns) -> Iterator[pa.RecordBatch]:
    """The rows of a table in pieces, by their start; integers of any width.

    Of a part of a recording, ranges that are open at its borders are among them.
    """
    names = [*columns]
    pieces = partial(profile.pieces, name)
    if name == schema.NVTX_RANGES.name and profile.selection.windows is not None:
        windows = profile.selection.windows
        pieces = partial(reaching, partial(profile.unrestricted.pieces, name), windows)
    if "start_ns" in columns and not _are_ascending(c.numbers for (c,) in pieces("start_ns")):
        yield from _in_order([*pieces(*names)], names)
        return
    for piece in pieces(*names):
        yield pa.RecordBatch.from_arrays([*map(as_arrow, piece)], names)


def _in_order(pieces: Sequence[Sequence[Values]], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All rows by start and end."""
    columns = [joined(column) for column in zip(*pieces, strict=True)]
    start, end = (columns[names.index(name)].numbers for name in _TIMES)
    order = np.lexsort((end, start))
    for at in range(0, len(order), _ROW_GROUP_ROWS):
        rows = order[at : at + _ROW_GROUP_ROWS]
        yield pa.RecordBatch.from_arrays([as_arrow(column.take(rows)) for column in columns], names)


def _are_ascending(parts: Iterable[Any]) -> bool:
    """Whether no number of these arrays is less than the one before it."""
    before = None
    for numbers in parts:
        if len(numbers):
            is_less = before is not None and numbers[0] < before
            if is_less or (numbers[1:] < numbers[:-1]).any():
                return False
            before = numbers[-1]
    return True


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The same rows in parts of one size, but for the last; one part where there are no rows."""
    part: list[pa.RecordBatch] = []
    room, is_first = _PART_ROWS, True
    for batch in batches:
        while len(batch) >= room:
            yield [*part, batch.slice(0, room)]
            part, batch, room, is_first = [], batch.slice(room), _PART_ROWS, False  # noqa: PLW2901
        part.append(batch)
        room -= len(batch)
    if room < _PART_ROWS or is_first:
        yield part


def _packed(batches: Sequence[pa.RecordBatch], columns: _Columns) -> _Packed:
    """Rows as a Parquet file of the columns that hold anything."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that only this command needs

    values = {
        name: _narrowed([batch.column(name) for batch in batches], name, spec)
        for name, spec in columns.items()
    }
    fields = [
        pa.field(name, column.type, nullable=column.null_count > 0)
        for name, column in values.items()
        if columns[name].required or column.null_count < len(column)
    ]
    kinds, content = pa.schema(fields), pa.BufferOutputStream()
    encodings = {name: _encoding(name, kinds.field(name).type) for name in kinds.names}
    with pq.ParquetWriter(
        content,
        kinds,
        compression={n: "none" if e == _DIFFERENCES else "zstd" for n, e in encodings.items()},
        compression_level={n: _ZSTD_LEVEL for n, e in encodings.items() if e != _DIFFERENCES},
        write_page_checksum=True,
        write_statistics=["start_ns"],
        data_page_size=_PAGE_BYTES,
        use_dictionary=[name for name, encoding in encodings.items() if encoding is None],
        column_encoding={name: encoding for name, encoding in encodings.items() if encoding},
    ) as writer:
        rows = pa.Table.from_arrays([values[name] for name in kinds.names], schema=kinds)
        writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
    numbers = values[NUMBER].unique() if NUMBER in values else pa.nulls(0)
    return _Packed(content.getvalue(), numbers)


def _encoding(name: str, kind: pa.DataType) -> str | None:
    """How Parquet holds the values of a column; None for a dictionary."""
    if name in _GROWING:
        return _DIFFERENCES
    return _BY_BYTES if pa.types.is_int8(kind) else None


def _narrowed(parts: Sequence[pa.Array], name: str, spec: schema.Column) -> pa.ChunkedArray:
    """A column of its type; integers but times of the narrowest that holds them all."""
    kind = pa.type_for_alias(spec.dtype)
    if spec.dtype == schema.INT and name not in _TIMES:
        kind = _narrowest(parts)
    return pa.chunked_array([part.cast(kind) for part in parts], kind)


def _narrowest(parts: Iterable[pa.Array]) -> pa.DataType:
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that only this command needs

    ends = [end or 0 for part in parts for end in pc.min_max(part).as_py().values()]
    bits = max(map(int.bit_length, ends), default=0) + 1
    return next((kind for kind in _INTEGERS if kind.bit_width >= bits), pa.int64())
