"""Write a recording as gpuprof's own file, in the format that `gpuprof_file` documents."""

import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from gpuprof import __version__, schema
from gpuprof.profile import Profile
from gpuprof.readers.gpuprof.gpuprof_file import HEADER, NAMES, NUMBER, SUFFIX, TOOL_FIELDS, VERSION
from gpuprof.units import encodable
from gpuprof.views import names_of

# A window of time is read by whole groups.
_ROW_GROUP_ROWS: Final = 128 * 1024
# At level 9 files were 0.3 % smaller, and took twice as long.
_ZSTD_LEVEL: Final = 1
# What mostly grows from row to row packs best as differences.
_GROWING: Final = frozenset({"start_ns", "end_ns", "correlation_id"})
_TIMES: Final = frozenset({"start_ns", "end_ns"})
_NUMBERS: Final = schema.Column(schema.INT, "1", "Number of a name.", required=True)
# What DuckDB calls them, from the narrowest.
_INTEGERS: Final = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
}
# The same recording gives the same bytes, whenever it is converted.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


class _Select(NamedTuple):
    """What is written of a table.

    Args:
        rows: SQL: its rows, perhaps with numbers in place of names.
        columns: The columns of these.
        names: SQL: a SELECT of what the numbers mean; None where it has none.
    """

    rows: str
    columns: tuple[str, ...]
    names: str | None = None


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
                _write_table(_alone(profile, name), name, archive)


def _header(profile: Profile) -> str:
    header = {
        "gpuprof_file": VERSION,
        "written_by": f"gpuprof {__version__}",
        "converted_from": encodable(profile.origin.source.name),
        "origin": {name: getattr(profile.origin, name) for name in TOOL_FIELDS},
    }
    # Words of a command that are no UTF-8 hold halves of characters.
    return encodable(json.dumps(header, indent=1, ensure_ascii=False)) + "\n"


def _alone(profile: Profile, name: str) -> Profile:
    """The recording with one of its large tables, so that what is read of it is freed after it."""
    if "start_ns" not in schema.BY_NAME[name].columns:
        return profile
    return replace(profile, sources={name: profile.sources[name]})


def _write_table(profile: Profile, name: str, archive: zipfile.ZipFile) -> None:
    select = _select(profile, name)
    kinds = _kinds(profile, name, select)
    columns = ", ".join(
        f"{column}::{_INTEGERS.get(kind, kind)} AS {column}" for column, kind in kinds.items()
    )
    sql = f"SELECT {columns} FROM {select.rows}{_order(profile, name, select)}"
    _write_member(archive, name, pa.schema([*kinds.items()]), profile.batches(sql))
    if select.names is not None:
        names = profile.query(select.names)
        _write_member(archive, name + NAMES, names.schema, names.to_batches())


def _select(profile: Profile, name: str) -> _Select:
    """The rows of a table; names of activities are numbered."""
    specs = schema.BY_NAME[name].columns
    columns = (*specs,)
    if name == schema.NVTX_RANGES.name:
        return _Select(f"whole.{name}{profile.selection.of_ranges}", columns)
    # Of a table whose names may be missing, a number could not say so.
    if "start_ns" not in columns or "name" not in columns or not specs["name"].required:
        return _Select(f'"{name}"', columns)
    rows, names = f'"{name}"', f"whole.{names_of(name)}"
    if not profile.numbers(name):
        rows, names = _numbered(name)
    of_names = profile.query(f"SELECT * FROM {names} LIMIT 0").column_names
    used = f"name_id IN (SELECT DISTINCT name_id FROM {rows})"
    used = f"SELECT {', '.join(of_names)} FROM {names} WHERE {used} ORDER BY name_id"
    return _Select(rows, (*(c for c in columns if c not in of_names), NUMBER), used)


def _numbered(name: str) -> tuple[str, str]:
    """SQL for the rows of a table with numbers in place of names, and for the names."""
    names = (
        "(SELECT row_number() OVER (ORDER BY name) AS name_id, name"
        f' FROM (SELECT DISTINCT name FROM "{name}"))'
    )
    return f'(SELECT * FROM "{name}" JOIN {names} USING (name))', names


def _kinds(profile: Profile, name: str, select: _Select) -> dict[str, pa.DataType]:
    """The columns that hold anything, with the narrowest types that hold all their values."""
    specs = {**schema.BY_NAME[name].columns, NUMBER: _NUMBERS}
    columns = {column: specs[column] for column in select.columns}
    integers = [
        column
        for column, spec in columns.items()
        if spec.dtype == schema.INT and column not in _TIMES
    ]
    aggregates = [f"count({c}) AS count_{c}" for c in columns]
    aggregates += [f"min({c}) AS min_{c}, max({c}) AS max_{c}" for c in integers]
    (sums,) = profile.query(f"SELECT {', '.join(aggregates)} FROM {select.rows}").to_pylist()
    return {
        column: _narrowest(sums[f"min_{column}"] or 0, sums[f"max_{column}"] or 0)
        if column in integers
        else pa.type_for_alias(spec.dtype)
        for column, spec in columns.items()
        if spec.required or sums[f"count_{column}"]
    }


def _narrowest(least: int, most: int) -> pa.DataType:
    bits = max(least.bit_length(), most.bit_length()) + 1
    return next((kind for kind in _INTEGERS if kind.bit_width >= bits), pa.int64())


def _order(profile: Profile, name: str, select: _Select) -> str:
    """SQL: the order of rows by time, where they are not in it already."""
    if "start_ns" not in schema.BY_NAME[name].columns:
        return ""
    starts = f"SELECT start_ns, lag(start_ns) OVER () AS start_before_ns FROM {select.rows}"
    late = profile.query(f"SELECT 1 FROM ({starts}) WHERE start_ns < start_before_ns LIMIT 1")
    return " ORDER BY start_ns, end_ns" if late.num_rows else ""


def _write_member(
    archive: zipfile.ZipFile, name: str, kinds: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that only this command needs

    growing = [column for column in kinds.names if column in _GROWING]
    with (
        archive.open(zipfile.ZipInfo(name + SUFFIX, _NO_TIME), "w", force_zip64=True) as file,
        pq.ParquetWriter(
            file,
            kinds,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            write_page_checksum=True,
            use_dictionary=[column for column in kinds.names if column not in _GROWING],
            column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED") or None,
        ) as writer,
    ):
        for rows in _row_groups(batches):
            writer.write_table(rows.cast(kinds), row_group_size=_ROW_GROUP_ROWS)


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in pieces of one size, but for the last."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _ROW_GROUP_ROWS:
            rows = pa.Table.from_batches(waiting)
            rest = rows.num_rows % _ROW_GROUP_ROWS
            yield rows.slice(0, rows.num_rows - rest)
            waiting = rows.slice(rows.num_rows - rest).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)
