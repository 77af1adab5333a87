"""Databases that nvprof writes with ``-o`` (.nvvp, .nvprof): every activity with its times.

Version 8 to 22 of the file's own ``Version`` table (CUDA 7.5 to 12).
Source: https://docs.nvidia.com/cuda/profiler-users-guide/, "Export/Import".
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import CUPTI_MEMORY_KINDS, MEMCPY_KINDS
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.kernel_names import demangled, is_mangled
from gpuprof.base.secrets import masked_text
from gpuprof.base.units import NS_PER_S, counted
from gpuprof.model import borders, schema
from gpuprof.model.derived import KERNELS_RERUN, UNKNOWN
from gpuprof.model.profile import Origin, Profile, Source
from gpuprof.model.table import in_memory
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys.columns import Strings, Tables, columns_at_once
from gpuprof.readers.nsys.export import checked_table
from gpuprof.readers.nvprof import activities
from gpuprof.readers.nvprof.activities import (
    CALLS,
    DEVICE,
    GPU_WORK,
    MARKER,
    MIGRATION,
    NEEDED,
    PREFIX,
    PROCESS,
    STRINGS,
    are_timed,
    object_number,
)
from gpuprof.readers.nvprof.device_links import links
from gpuprof.readers.sqlite.source import MAGIC, SqliteFile, is_sqlite, open_sqlite, tables_in

NAME: Final = "nvprof-sqlite"
_OF_GPUS: Final = ("kernels", "memcpys", "memsets", "page_faults")
# A clock that shows less counts from the start of the machine, not from 1970.
_SOME_UNIX_TIME_NS: Final = 1_000_000_000 * NS_PER_S
# Counters of unified memory whose end CUPTI documents as of no meaning.
_WITHOUT_END: Final = (3, 5, 7)


class _Counts(NamedTuple):
    """What lies in one table: first start, rows, and rows without times."""

    first_ns: int | None
    rows: int
    untimed: int


def read(path: Path) -> Profile:
    """Read a database.

    Raises:
        CorruptFileError: The database is damaged or lacks columns.
        EmptyRecordingError: No GPU work and no NVTX range is in it.
        InputError: It cannot be opened.
    """
    file = open_sqlite(path, activities.KINDS)
    _check_columns(file)
    counts = {
        table: _count(file, table)
        for table in NEEDED
        if table in file.columns and {"start", "timestamp"} & {*NEEDED[table]}
    }
    if not _has_rows(counts, GPU_WORK) and not (MARKER in counts and counts[MARKER].rows):
        msg = f"{path}: nvprof recorded no kernels and no copies"
        hint = "Did the program use a GPU? nvprof sees none of compute capability 8 and up."
        raise EmptyRecordingError(msg, hint)
    return _profile(file, counts)


def _profile(file: SqliteFile, counts: dict[str, _Counts]) -> Profile:
    origin_ns = min((c.first_ns for c in counts.values() if c.first_ns is not None), default=0)
    columns = {table: frozenset(names) for table, names in file.columns.items()}
    process_id, command = _process(file)
    command = None if command is None else masked_text(command)
    strings = _strings(file)
    tables = Tables(columns, file.stored, Strings(None), MEMCPY_KINDS, CUPTI_MEMORY_KINDS)
    database = activities.Database(tables, origin_ns, process_id, strings)
    # nvprof makes all tables, also those of what it did not record.
    unknown = [] if _has_rows(counts, GPU_WORK) else [*_OF_GPUS]
    unknown += [] if _has_rows(counts, CALLS.values()) else ["api_calls"]
    of_file: dict[str, Source] = {**activities.tables(database)}
    sources = {name: source for name, source in of_file.items() if name not in unknown}
    if DEVICE in file.columns:
        sources["devices"] = lambda: in_memory(schema.DEVICES, _devices(file, strings))
    if (rows := links(file)) is not None:
        sources["links"] = rows
    if process_id is not None:
        run = {"run_id": 0, "process_id": process_id, "command": command}
        sources["runs"] = schema.RUNS.table([run])

    epoch_ns = origin_ns if origin_ns > _SOME_UNIX_TIME_NS else None
    origin = Origin(
        file.path,
        NAME,
        "nvprof",
        schema_version=_version(file),
        command=command,
        recorded_at=None if epoch_ns is None else _utc(epoch_ns),
        epoch_ns=epoch_ns,
        warnings=_warnings(file, counts, strings.values()),
    )
    return Profile(origin, sources, stored=sum(count.rows for count in counts.values()))


def _has_rows(counts: Mapping[str, _Counts], tables: Iterable[str]) -> bool:
    """Whether one of the tables has a row that says when it was."""
    return any(counts[table].rows > counts[table].untimed for table in tables if table in counts)


def _check_columns(file: SqliteFile) -> None:
    for table, needed in NEEDED.items():
        missing = [c for c in needed if table in file.columns and c not in file.columns[table]]
        if missing:
            msg = f"{file.path}: table {table} has no column {missing[0]}"
            raise CorruptFileError(msg, "Was it edited? Give the file that `nvprof -o` wrote.")
    for table, key in ((STRINGS, "_id_"), (activities.CONTEXT, "contextId")):
        if key in file.columns.get(table, {}):
            (keys,) = columns_at_once(file.stored(table), [key])
            borders.check_keys(file.path, table, key, keys)


def _count(file: SqliteFile, table: str) -> _Counts:
    """Count one table; a marker has one time."""
    names = ["timestamp"] if table == MARKER else ["start", "end"]
    names += ["counterKind"] if table == MIGRATION else []
    first, rows, timed = [], 0, 0
    for piece in file.stored(table).pieces(names):
        columns = dict(zip(names, (column.filled for column in piece), strict=True))
        start = columns[names[0]]
        is_timed = are_timed(start, columns.get("end", start))
        if table == MIGRATION:
            is_timed = is_timed[has_end := ~np.isin(columns["counterKind"], _WITHOUT_END)]
            start = start[has_end]
        rows, timed = rows + len(is_timed), timed + int(np.count_nonzero(is_timed))
        first += [int(start[is_timed].min())] if is_timed.any() else []
    return _Counts(min(first, default=None), rows, rows - timed)


def _rows_in(file: SqliteFile, table: str) -> bool:
    return table in file.columns and bool(file.rows(f"SELECT 1 FROM {table} LIMIT 1"))


def _version(file: SqliteFile) -> str | None:
    if "version" not in file.columns.get("Version", {}):
        return None
    rows = borders.rows_of(file.rows("SELECT version FROM Version"), int)
    return str(rows[0][0]) if rows else None


def _utc(epoch_ns: int) -> str:
    return datetime.fromtimestamp(epoch_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _process(file: SqliteFile) -> tuple[int | None, str | None]:
    """The process and its command line: nvprof writes one file for each process."""
    if not {"objectKind", "objectId", "name"} <= file.columns.get(f"{PREFIX}NAME", {}).keys():
        return _calling_process(file), None
    sql = (
        f"SELECT hex(n.objectId), s.value FROM {PREFIX}NAME n JOIN StringTable s"
        f" ON s._id_ = n.name WHERE n.objectKind = {PROCESS}"
    )
    rows = borders.rows_of(file.rows(sql), str, str)
    if len(rows) != 1:
        return _calling_process(file), None
    return object_number(rows[0][0], 0), rows[0][1]


def _calling_process(file: SqliteFile) -> int | None:
    processes: set[int] = set()
    for table in CALLS.values():
        if "processId" in file.columns.get(table, {}):
            for (process,) in file.stored(table).pieces(["processId"]):
                processes.update(np.unique(process.filled).tolist())
    processes.discard(UNKNOWN)
    return processes.pop() if len(processes) == 1 else None


def _strings(file: SqliteFile) -> dict[int, str]:
    """The file's strings by their numbers."""
    has_strings = STRINGS in file.columns
    strings = file.rows(f"SELECT _id_, value FROM {STRINGS}") if has_strings else []
    return dict(borders.rows_of(strings, int, str))


def _devices(file: SqliteFile, strings: Mapping[int, str]) -> pa.Table:
    """The devices that the program could use.

    Raises:
        CorruptFileError: A value is of another type.
    """
    columns = [name for name in _DEVICE_COLUMNS if name in file.columns[DEVICE]]
    rows = file.rows(f"SELECT {', '.join(columns)} FROM {DEVICE}") if columns else []
    of_rows = [
        dict.fromkeys(_DEVICE_COLUMNS) | dict(zip(columns, row, strict=True)) for row in rows
    ]
    return checked_table(
        f"{file.path}, table devices",
        schema.DEVICES,
        [_device(row, strings) for row in of_rows if row["isCudaVisible"] != 0],
    )


_DEVICE_COLUMNS: Final = (
    "id", "name", "isCudaVisible", "globalMemorySize", "globalMemoryBandwidth",
    "computeCapabilityMajor", "computeCapabilityMinor", "coreClockRate", "numMultiprocessors",
)  # fmt: skip
_THOUSAND: Final = 1000


def _device(row: Mapping[str, Any], strings: Mapping[int, str]) -> dict[str, Any]:
    major, minor = row["computeCapabilityMajor"], row["computeCapabilityMinor"]
    kb_per_s, khz = row["globalMemoryBandwidth"], row["coreClockRate"]
    return {
        "device_id": row["id"],
        "name": strings.get(row["name"]),
        "total_memory_bytes": row["globalMemorySize"],
        "memory_bandwidth_bytes_per_s": kb_per_s * _THOUSAND if kb_per_s else None,
        "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
        "clock_hz": khz * _THOUSAND if khz else None,
        "multiprocessors": row["numMultiprocessors"] or None,
    }


def _warnings(
    file: SqliteFile, counts: dict[str, _Counts], strings: Iterable[str]
) -> tuple[str, ...]:
    warnings = []
    if untimed := sum(counts[table].untimed for table in GPU_WORK if table in counts):
        records = f"{counted(untimed, 'record', 'records')} without times left out"
        warnings.append(f"{records}: when they ran could not be collected")
    if any(_rows_in(file, f"{PREFIX}{kind}") for kind in ("METRIC", "EVENT")):
        warnings.append(KERNELS_RERUN)
    if any(map(is_mangled, map(demangled, strings))):
        mangled = "Some kernel names are as the compiler mangled them: nothing here reads them."
        warnings.append(mangled)
    if not _has_rows(counts, GPU_WORK):
        reason = "no kernel and no copy" if _has_rows(counts, CALLS.values()) else "no CUDA call"
        warnings.append(f"What GPUs did is unknown: {reason} was recorded")
    return tuple(warnings)


def _recognises(head: bytes) -> bool:
    has_marks = PREFIX.encode() in head and b"StringTable" in head and b"StringIds" not in head
    return head.startswith(MAGIC) and has_marks


def _searches(path: Path) -> bool:
    """Ask the database: in a large one, not all definitions lie in the first pages."""
    if not is_sqlite(path):
        return False
    tables = tables_in(path)
    return "StringTable" in tables and any(table.startswith(PREFIX) for table in tables)


_GIVES: Final = (
    "kernels", "memcpys", "memsets", "api_calls", "nvtx_ranges", "synchronizations",
    "cuda_events", "page_faults", "overheads", "devices", "links", "runs",
)  # fmt: skip
READER: Final = Reader(
    name=NAME,
    title="nvprof's database (-o; .nvvp, .nvprof)",
    versions="CUDA 7.5 to 12 (Version 8 to 22)",
    gives=_GIVES,
    cannot="A file has one process only: nvprof writes a file for each.",
    read=read,
    recognises=_recognises,
    searches=_searches,
)
