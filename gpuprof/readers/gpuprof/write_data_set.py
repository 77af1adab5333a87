"""Write gpuprof's data set; `gpuprof.readers.gpuprof.data_set` says what is in it."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from gpuprof import __version__
from gpuprof.base.machine import in_turn
from gpuprof.base.units import encodable
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, RankRecording
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
    runs = profile.table("runs") if profile.has("runs") else data_model.RUNS.empty()
    rank = runs[RANK][0].as_py() if runs.num_rows == 1 else None
    parts = profile.parts or (RankRecording(rank, profile),)
    names, numbered = [], []
    of_rank: Counter[int | None] = Counter()
    of_source: Counter[str] = Counter()
    for part in parts:
        numbered.append((part, of_rank[part.rank]))
        of_rank[part.rank] += 1
        source = encodable(part.profile.origin.source.name)
        names.append(
            f"{source}.{of_source[source]}.json" if of_source[source] else f"{source}.json"
        )
        of_source[source] += 1
    work = partial(_write_recording, profile.origin.epoch_ns, folder)
    # Of large ones one at a time, so that what is read of them fits into memory.
    are_small = profile.events <= _FEW_EVENTS * len(parts)
    written = in_turn(work, numbered) if are_small else map(work, numbered)
    (folder / RECORDINGS).mkdir()
    for name, stored in zip(names, written, strict=True):
        _write_document(folder / RECORDINGS / name, stored)
    of_parts = {name for part in parts for name in part.profile.sources}
    of_job = {
        name: _write_table(profile, name, folder / file_name(name, None, 0), 0)
        for name in data_model.BY_NAME
        if profile.has(name) and name not in of_parts and profile.table(name).num_rows
    }
    header = Header(VERSION, f"gpuprof {__version__}", _fields(profile.origin), names, of_job)
    _write_document(folder / HEADER, header)


def _write_document(file: Path, document: Header | StoredRecording) -> None:
    text = json.dumps(msgspec.to_builtins(document), ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")


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
        name: _write_table(replace(profile), name, folder / file_name(name, rank, number), shift_ns)
        for name in data_model.BY_NAME
        if profile.has(name)
    }
    return StoredRecording(VERSION, rank, number, shift_ns, _fields(profile.origin), tables)


def _fields(origin: Origin) -> OriginFields:
    values: dict[str, Any] = {name: getattr(origin, name) for name in TOOL_FIELDS}
    texts = {n: encodable(value) for n, value in values.items() if isinstance(value, str)}
    return OriginFields(**values | texts | {"warnings": tuple(map(encodable, origin.warnings))})


def _write_table(profile: Profile, name: str, file: Path, shift_ns: int) -> StoredTable:
    """Write a table by the start of its rows, times on the job's clock, if it has any rows."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that only this command needs
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    spec, kinds = data_model.BY_NAME[name], columns_of(name)
    batches = batches_by_start(alone(profile, name), name, spec.columns)
    first = next(batches, None)
    if first is None:
        return StoredTable(0, 0)
    rows = 0
    ranks: list[int | None] = []
    fields = pa.schema([*kinds.items()], metadata={VERSION_KEY: str(VERSION)})
    file.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(
        file,
        fields,
        compression="zstd",
        compression_level=1,
        write_page_checksum=True,
        write_statistics=["start_ns"] if "start_ns" in kinds else False,
        use_dictionary=[column for column in kinds if column not in _GROWING],
        column_encoding={c: "DELTA_BINARY_PACKED" for c in _GROWING if c in kinds},
    ) as writer:
        for batch in chain([first], batches):
            columns = {column: batch.column(column).cast(kind) for column, kind in kinds.items()}
            if shift_ns:
                columns |= {c: pc.add(columns[c], shift_ns) for c in _TIMES if c in columns}
            writer.write_batch(pa.RecordBatch.from_arrays([*columns.values()], schema=fields))
            rows += len(batch)
            ranks += batch.column(RANK).to_pylist() if RANK in spec.columns else []
    return StoredTable(rows, file.stat().st_size, ranks if RANK in spec.columns else None)
