"""Write a recording as gpuprof's own file, in the format that `gpuprof_file` documents."""

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof import __version__
from gpuprof.base.machine import in_turn
from gpuprof.base.units import encodable
from gpuprof.model import data_model, schema
from gpuprof.model.arrow_values import as_arrow
from gpuprof.model.profile import Profile
from gpuprof.model.table import EVERYTHING, joined
from gpuprof.readers.gpuprof.gpuprof_file import (
    HEADER,
    NAMES,
    NUMBER,
    TOOL_FIELDS,
    VERSION,
    member_name,
)
from gpuprof.readers.gpuprof.part_context import with_context

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


def write(profile: Profile, path: Path) -> None:
    """Write all tables and where they came from.

    Of a part of a recording, what its figures take beside what starts in it is written, too: see
    `with_context`.

    Raises:
        OSError: The file cannot be written.
    """
    part = profile.selection
    fields = {
        "gpuprof_file": VERSION,
        "written_by": f"gpuprof {__version__}",
        "converted_from": encodable(profile.origin.source.name),
        "origin": {name: getattr(profile.origin, name) for name in TOOL_FIELDS},
    }
    if part != EVERYTHING:
        fields["part"] = {"windows": part.windows, "device_id": part.device_id}
    tables = with_context(profile)
    # Words of a command that are no UTF-8 hold halves of characters.
    header = encodable(json.dumps(fields, indent=1, ensure_ascii=False)) + "\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, _NO_TIME), header)
        for name in data_model.BY_NAME:
            if profile.has(name):
                _write_table(alone(tables[name], name), name, archive)


def alone(profile: Profile, name: str) -> Profile:
    """The recording with one of its large tables, so that what is read of it is freed after it."""
    if "start_ns" not in data_model.BY_NAME[name].columns:
        return profile
    return replace(profile, sources={name: profile.sources[name]})


def _write_table(profile: Profile, name: str, archive: zipfile.ZipFile) -> None:
    columns, used = written_columns(profile, name), set()
    pack = partial(_packed, columns=columns)
    for place, packed in enumerate(in_turn(pack, _parts(batches_by_start(profile, name, columns)))):
        content, numbers = packed
        archive.writestr(zipfile.ZipInfo(member_name(name, place), _NO_TIME), content)
        used.update(numbers.to_pylist())
    if NUMBER not in columns:
        return
    # The names of the numbers that are used.
    names = profile.loaded(name).names
    rows = sorted((number, place) for place, number in enumerate(names.numbers) if number in used)
    texts = [[of[place] for _, place in rows] for of in names.columns.values()]
    arrays = [schema.integers([number for number, _ in rows]), *map(schema.texts, texts)]
    specs = {NUMBER: _NUMBERS} | {of: data_model.BY_NAME[name].columns[of] for of in names.columns}
    content, _ = _packed([pa.RecordBatch.from_arrays(arrays, [*specs])], specs)
    archive.writestr(zipfile.ZipInfo(member_name(name + NAMES), _NO_TIME), content)


def written_columns(profile: Profile, name: str) -> _Columns:
    """What is written of a table; names of activities are numbered."""
    columns, source = data_model.BY_NAME[name].columns, profile.sources[name]
    # Of a table whose names may be missing, a number could not say so.
    is_named = "start_ns" in columns and "name" in columns and columns["name"].required
    if not is_named:
        return columns
    of_names = (
        {"name"} if isinstance(source, pa.Table) else profile.loaded(name).of_names | {"name"}
    )
    return {c: spec for c, spec in columns.items() if c not in of_names} | {NUMBER: _NUMBERS}


def batches_by_start(profile: Profile, name: str, columns: _Columns) -> Iterator[pa.RecordBatch]:
    """The rows of a table in pieces, by their start; integers of any width."""
    names = [*columns]
    pieces = partial(profile.pieces, name)
    if "start_ns" not in columns or _are_ascending(
        start.numbers for (start,) in pieces("start_ns")
    ):
        for piece in pieces(*names):
            yield pa.RecordBatch.from_arrays([*map(as_arrow, piece)], names)
        return
    all_rows = [joined(column) for column in zip(*pieces(*names), strict=True)]
    times = [time for time in reversed(_TIMES) if time in columns]
    order = np.lexsort([all_rows[names.index(time)].numbers for time in times])
    for at in range(0, len(order), _ROW_GROUP_ROWS):
        rows = order[at : at + _ROW_GROUP_ROWS]
        yield pa.RecordBatch.from_arrays([as_arrow(of.take(rows)) for of in all_rows], names)


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


def _packed(batches: Sequence[pa.RecordBatch], columns: _Columns) -> tuple[pa.Buffer, pa.Array]:
    """Rows as a Parquet file of the columns that hold anything, and the numbers of their names.

    Integers but times are of the narrowest type that holds all of a column.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that only this command needs
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    values, fields, encodings = {}, [], {}
    for name, spec in columns.items():
        parts, kind = [batch.column(name) for batch in batches], pa.type_for_alias(spec.dtype)
        if spec.dtype == schema.INT and name not in _TIMES:
            ends = [end or 0 for part in parts for end in pc.min_max(part).as_py().values()]
            bits = max(map(int.bit_length, ends), default=0) + 1
            kind = next((kind for kind in _INTEGERS if kind.bit_width >= bits), pa.int64())
        column = pa.chunked_array([part.cast(kind) for part in parts], kind)
        if spec.required or column.null_count < len(column):
            values[name] = column
            fields.append(pa.field(name, kind, nullable=column.null_count > 0))
            by_bytes = _BY_BYTES if pa.types.is_int8(kind) else None  # None for a dictionary
            encodings[name] = _DIFFERENCES if name in _GROWING else by_bytes
    kinds, content = pa.schema(fields), pa.BufferOutputStream()
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
        rows = pa.Table.from_arrays([*values.values()], schema=kinds)
        writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
    numbers = values[NUMBER].unique() if NUMBER in values else pa.nulls(0)
    return content.getvalue(), numbers
