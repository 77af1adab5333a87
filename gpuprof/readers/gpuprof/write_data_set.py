"""Write gpuprof's data set; `gpuprof.readers.gpuprof.data_set` says what is in it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from gpuprof import __version__
from gpuprof.base.units import encodable
from gpuprof.model import schema
from gpuprof.model.kept import Kinds
from gpuprof.model.profile import Origin, Profile, RankRecording
from gpuprof.readers.common.threads import in_turn
from gpuprof.readers.gpuprof.data_set import (
    HEADER,
    RANK,
    RECORDINGS,
    VERSION,
    VERSION_KEY,
    Header,
    StoredRecording,
    StoredTable,
    columns_of,
    file_name,
)
from gpuprof.readers.gpuprof.gpuprof_file import TOOL_FIELDS, OriginFields
from gpuprof.readers.gpuprof.write_gpuprof_file import alone, batches_by_start

_FEW_EVENTS: Final = 1_000_000
# What mostly grows from row to row packs best as differences.
_GROWING: Final = ("start_ns", "end_ns", "correlation_id")
_TIMES: Final = ("start_ns", "end_ns")


def write(profile: Profile, folder: Path) -> None:
    """Write the tables of each recording that a profile joins, one recording after another.

    Args:
        profile: Of one process or several.
        folder: An empty one.

    Raises:
        OSError: A file cannot be written.
        GpuprofError: A recording breaks its format's rules.
    """
    names = [*_write_headers(profile, folder)]
    of_parts = {name for part in _parts(profile) for name in part.profile.sources}
    of_job = {
        name: _write_table(_rows(profile, name), name, folder / file_name(name, None, 0), 0)
        for name in schema.BY_NAME
        if profile.has(name) and name not in of_parts and profile.table(name).num_rows
    }
    header = Header(VERSION, f"gpuprof {__version__}", _fields(profile.origin), names, of_job)
    _write_document(folder / HEADER, header)


def _write_document(file: Path, document: Header | StoredRecording) -> None:
    text = json.dumps(msgspec.to_builtins(document), ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")


def _write_headers(profile: Profile, folder: Path) -> Iterator[str]:
    """Write the recordings with their headers; the names of these."""
    (folder / RECORDINGS).mkdir()
    count_of: Counter[str] = Counter()
    for part, stored in zip(_parts(profile), _recordings(profile, folder), strict=True):
        source = encodable(part.profile.origin.source.name)
        number = f".{count_of[source]}" if count_of[source] else ""
        count_of[source] += 1
        name = f"{source}{number}.json"
        _write_document(folder / RECORDINGS / name, stored)
        yield name


def _parts(profile: Profile) -> tuple[RankRecording, ...]:
    return profile.parts or (RankRecording(_rank(profile), profile),)


def _recordings(profile: Profile, folder: Path) -> Iterator[StoredRecording]:
    """Write the recordings, each with its entry in the header."""
    parts, count_of = _parts(profile), Counter[int | None]()
    numbered = []
    for part in parts:
        numbered.append((part, count_of[part.rank]))
        count_of[part.rank] += 1
    work = partial(_write_recording, profile.origin.epoch_ns, folder)
    # Of large ones one at a time, so that what is read of them fits into memory.
    are_small = profile.events <= _FEW_EVENTS * len(parts)
    return in_turn(work, numbered) if are_small else map(work, numbered)


def _write_recording(
    epoch_ns: int | None, folder: Path, numbered: tuple[RankRecording, int]
) -> StoredRecording:
    """Write the tables of a recording.

    Args:
        epoch_ns: When the clock of the job begins.
        folder: The data set.
        numbered: The recording, with its number among those of its rank.
    """
    (rank, profile), number = numbered
    began_ns = profile.origin.epoch_ns
    shift_ns = 0 if epoch_ns is None or began_ns is None else began_ns - epoch_ns
    tables = {
        name: _write_table(
            _rows(replace(profile), name), name, folder / file_name(name, rank, number), shift_ns
        )
        for name in schema.BY_NAME
        if profile.has(name)
    }
    return StoredRecording(VERSION, rank, number, shift_ns, _fields(profile.origin), tables)


def _rank(recording: Profile) -> int | None:
    """The rank of a recording of a single process."""
    runs = recording.table("runs") if recording.has("runs") else schema.RUNS.empty()
    return runs[RANK][0].as_py() if runs.num_rows == 1 else None


def _fields(origin: Origin) -> OriginFields:
    values: dict[str, Any] = {name: getattr(origin, name) for name in TOOL_FIELDS}
    texts = {n: encodable(value) for n, value in values.items() if isinstance(value, str)}
    return OriginFields(**values | texts | {"warnings": tuple(map(encodable, origin.warnings))})


def _rows(profile: Profile, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a table by their start."""
    return batches_by_start(alone(profile, name), name, schema.BY_NAME[name].columns)


def _write_table(
    batches: Iterator[pa.RecordBatch], name: str, file: Path, shift_ns: int
) -> StoredTable:
    """Write a table, if it has any rows."""
    first = next(batches, None)
    if first is None:
        return StoredTable(0, 0)
    file.parent.mkdir(parents=True, exist_ok=True)
    rows, ranks = _write_batches(chain([first], batches), name, file, shift_ns)
    return StoredTable(rows, file.stat().st_size, ranks)


def _write_batches(
    batches: Iterable[pa.RecordBatch], name: str, file: Path, shift_ns: int
) -> tuple[int, list[int | None] | None]:
    """How many rows were written, and their ranks, where the table has such a column."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that only this command needs

    kinds = columns_of(name)
    rows = 0
    ranks: list[int | None] | None = [] if RANK in schema.BY_NAME[name].columns else None
    fields = pa.schema([*kinds.items()], metadata={VERSION_KEY: str(VERSION)})
    with pq.ParquetWriter(file, fields, **_settings(kinds)) as writer:
        for batch in batches:
            columns = [_stored(n, batch.column(n), kind, shift_ns) for n, kind in kinds.items()]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=fields))
            rows += len(batch)
            if ranks is not None:
                ranks += batch.column(RANK).to_pylist()
    return rows, ranks


def _settings(kinds: Kinds) -> dict[str, Any]:
    growing = [name for name in _GROWING if name in kinds]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "write_page_checksum": True,
        "write_statistics": ["start_ns"] if "start_ns" in kinds else False,
        "use_dictionary": [name for name in kinds if name not in growing],
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
    }


def _stored(name: str, values: pa.Array, kind: pa.DataType, shift_ns: int) -> pa.Array:
    """A column of its type, times on the job's clock."""
    values = values.cast(kind)
    if not shift_ns or name not in _TIMES:
        return values
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that only this command needs

    return pc.add(values, shift_ns)
