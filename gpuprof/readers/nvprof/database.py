"""Databases that nvprof writes with ``-o`` (.nvvp, .nvprof): every activity with its times.

Version 8 to 22 of the file's own ``Version`` table (CUDA 7.5 to 12).
Source: https://docs.nvidia.com/cuda/profiler-users-guide/, "Export/Import"; of links CUPTI's
CUpti_ActivityNvLink and CUpti_ActivityPcie, https://docs.nvidia.com/cupti/api/structlist.html.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import CUPTI_MEMORY_KINDS, pcie_bytes_per_s
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.kernel_names import is_mangled
from gpuprof.base.secrets import masked_text
from gpuprof.base.units import NS_PER_S, counted
from gpuprof.model import borders, data_model, schema
from gpuprof.model.derived import KERNELS_RERUN, UNKNOWN
from gpuprof.model.origin import Origin
from gpuprof.model.pairs import is_any_of
from gpuprof.model.profile import Profile, Source
from gpuprof.model.spilling import KeptColumns, Kinds
from gpuprof.model.table import Part, Table, in_memory
from gpuprof.model.words import Names
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys.columns import Export, columns_at_once
from gpuprof.readers.nsys.export import checked_table
from gpuprof.readers.nvprof import activities, host_records
from gpuprof.readers.nvprof.activities import (
    CALLS,
    DEVICE,
    GPU_WORK,
    MARKER,
    MIGRATION,
    NEEDED,
    PREFIX,
    STRINGS,
    are_timed,
)
from gpuprof.readers.sqlite.source import MAGIC, SqliteFile, open_sqlite, tables_in

NVLINK: Final = f"{PREFIX}NVLINK"
PCIE: Final = f"{PREFIX}PCIE"
_NVLINK_COLUMNS: Final = (
    "typeDev0", "typeDev1", "nvlinkVersion", "physicalNvLinkCount", "bandwidth", "flag",
)  # fmt: skip
_PCIE_COLUMNS: Final = ("pcieGeneration", "linkWidth")
# CUPTI's CUpti_DevType, CUpti_LinkFlag and CUpti_PcieDeviceType.
_GPU, _PROCESSOR, _PEER_ACCESS, _PCIE_GPU = 1, 2, 2, 0
# CUPTI gives an NVLink's bandwidth in kB/s for both directions together: 40 GB/s for one link of a
# P100, 50 GB/s for one of a V100.
_BYTES_PER_S_OF_ONE_WAY: Final = 1000 // 2
NAME: Final = "nvprof-sqlite"
_OF_GPUS: Final = ("kernels", "memcpys", "memsets", "page_faults")
# A clock that shows less counts from the start of the machine, not from 1970.
_SOME_UNIX_TIME_NS: Final = 1_000_000_000 * NS_PER_S
# Counters of unified memory whose end CUPTI documents as of no meaning.
_WITHOUT_END: Final = (3, 5, 7)
_OVERHEAD_COLUMNS: Final = ("start", "end", "overheadKind", "objectKind", "objectId")
_DEVICE_COLUMNS: Final = (
    "id", "name", "isCudaVisible", "globalMemorySize", "globalMemoryBandwidth",
    "computeCapabilityMajor", "computeCapabilityMinor", "coreClockRate", "numMultiprocessors",
)  # fmt: skip
_THOUSAND: Final = 1000
# Of a table the first start, how many rows it has, and how many of these have no times.
_Count = tuple[int | None, int, int]


def links(file: SqliteFile) -> pa.Table | None:
    """The table ``links``; None where the database has no room for any."""
    if not {NVLINK, PCIE} & file.columns.keys() or DEVICE not in file.columns:
        return None
    rows = [*_nvlinks(file)]
    if _has(file, PCIE, *_PCIE_COLUMNS, "type", "id"):
        chosen = ", ".join(f"CAST({name} AS INTEGER)" for name in _PCIE_COLUMNS)
        pcie_rows = file.rows(f"SELECT hex(id), {chosen} FROM {PCIE} WHERE type = {_PCIE_GPU}")
        rows += [
            {
                "device_id": int.from_bytes(bytes.fromhex(number)[:4], "little"),
                "link": f"PCIe {generation} x{lanes}",
                "bytes_per_s": _rate(pcie_bytes_per_s(generation, lanes) or 0),
            }
            for number, generation, lanes in borders.rows_of(pcie_rows, str, int, int)
        ]
    return data_model.LINKS.table(rows)


def _nvlinks(file: SqliteFile) -> Iterator[dict[str, Any]]:
    if not _has(file, NVLINK, *_NVLINK_COLUMNS, "idDev0", "idDev1") or not _has(
        file, DEVICE, "id", "uuid"
    ):
        return
    device = dict(borders.rows_of(file.rows(f"SELECT hex(uuid), id FROM {DEVICE}"), str, int))
    chosen = ", ".join(f"CAST({name} AS INTEGER)" for name in _NVLINK_COLUMNS)
    rows = file.rows(f"SELECT hex(idDev0), hex(idDev1), {chosen} FROM {NVLINK}")
    for first, second, *values in borders.rows_of(rows, str, str, *[int] * len(_NVLINK_COLUMNS)):
        first_kind, second_kind, version, count, bandwidth, flag = values
        # A processor with NVLink (POWER) is the host; it stands at the second end here.
        ends = sorted([(first_kind, first), (second_kind, second)], key=lambda end: end[0] != _GPU)
        (kind, gpu), (peer_kind, peer) = ends
        if kind == _GPU and gpu in device and (peer_kind == _PROCESSOR or peer in device):
            yield {
                "device_id": device[gpu],
                "peer_device_id": device[peer] if peer_kind == _GPU else None,
                "link": f"NVLink {version} x{count}",
                "bytes_per_s": _rate(bandwidth * _BYTES_PER_S_OF_ONE_WAY),
                "has_peer_access": bool(flag & _PEER_ACCESS),
            }


def _rate(bytes_per_s: int) -> int | None:
    """A rate that a link can have; 0, and what is no rate, are unknown."""
    return bytes_per_s if 0 < bytes_per_s <= schema.LARGEST else None


def _has(file: SqliteFile, table: str, *columns: str) -> bool:
    return set(columns) <= file.columns.get(table, {}).keys()


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
        for table, needed in NEEDED.items()
        if table in file.columns and {"start", "timestamp"} & {*needed}
    }
    timed = {table for table, count in counts.items() if count[1] > count[2]}
    if not timed & {*GPU_WORK} and not (MARKER in counts and counts[MARKER][1]):
        msg = f"{path}: nvprof recorded no kernels and no copies"
        hint = "Did the program use a GPU? nvprof sees none of compute capability 8 and up."
        raise EmptyRecordingError(msg, hint)

    origin_ns = min((first for first, *_ in counts.values() if first is not None), default=0)
    process_id, command = _process(file)
    columns = file.columns
    numbered = file.rows(f"SELECT _id_, value FROM {STRINGS}") if STRINGS in columns else []
    strings = dict(borders.rows_of(numbered, int, str))
    database = activities.Database(_Tables(file), origin_ns, process_id, strings)
    # nvprof makes all tables, also those of what it did not record.
    unknown = set() if timed & {*GPU_WORK} else {*_OF_GPUS}
    unknown |= set() if timed & {*CALLS.values()} else {"api_calls"}
    of_file = _tables(database)
    sources: dict[str, Source] = {n: table for n, table in of_file.items() if n not in unknown}
    if DEVICE in columns:
        sources["devices"] = lambda: in_memory(data_model.DEVICES, _devices(file, strings))
    if (rows := links(file)) is not None:
        sources["links"] = rows
    if process_id is not None:
        run = {"run_id": 0, "process_id": process_id, "command": command}
        sources["runs"] = data_model.RUNS.table([run])
    origin = _origin(database, file, command, _warnings(database, file, counts, timed))
    return Profile(origin, sources, stored=sum(rows for _, rows, _ in counts.values()))


class _Tables(Export):
    """The tables of a database, which numbers kinds of memory as CUPTI does."""

    def __init__(self, file: SqliteFile) -> None:
        self.path, self.reader, self.stored = file.path, NAME, file.stored
        self.memory_kinds, self.untimed_rows = CUPTI_MEMORY_KINDS, {}
        self.columns = {table: frozenset(names) for table, names in file.columns.items()}


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


def _count(file: SqliteFile, table: str) -> _Count:
    """Count one table; a marker has one time."""
    names = ["timestamp"] if table == MARKER else ["start", "end"]
    names += ["counterKind"] if table == MIGRATION else []
    first, rows, timed = [], 0, 0
    for piece in file.stored(table).pieces(names):
        columns = dict(zip(names, (column.filled for column in piece), strict=True))
        start = columns[names[0]]
        is_timed = are_timed(start, columns.get("end", start))
        if table == MIGRATION:
            is_timed = is_timed[has_end := ~is_any_of(columns["counterKind"], _WITHOUT_END)]
            start = start[has_end]
        rows, timed = rows + len(is_timed), timed + int(np.count_nonzero(is_timed))
        first += [int(start[is_timed].min())] if is_timed.any() else []
    return min(first, default=None), rows, rows - timed


def _process(file: SqliteFile) -> tuple[int | None, str | None]:
    """The process and its command line: nvprof writes one file for each process."""
    if {"objectKind", "objectId", "name"} <= file.columns.get(f"{PREFIX}NAME", {}).keys():
        sql = (
            f"SELECT hex(n.objectId), s.value FROM {PREFIX}NAME n JOIN StringTable s"
            f" ON s._id_ = n.name WHERE n.objectKind = {host_records.PROCESS}"
        )
        named = borders.rows_of(file.rows(sql), str, str)
        if len(named) == 1:
            ((object_id, command),) = named
            return host_records.object_number(object_id, 0), masked_text(command)
    processes: set[int] = set()
    for table in CALLS.values():
        if "processId" in file.columns.get(table, {}):
            for (process,) in file.stored(table).pieces(["processId"]):
                processes.update(np.unique(process.filled).tolist())
    processes.discard(UNKNOWN)
    return processes.pop() if len(processes) == 1 else None, None


def _tables(database: activities.Database) -> dict[str, Callable[[], Table]]:
    """Every table of activities that the database's own tables can fill."""
    makers: tuple[tuple[str, str, Callable[[activities.Database, str], Part]], ...] = (
        *(("kernels", table, activities.kernels) for table in activities.KERNELS),
        ("memcpys", activities.MEMCPY, activities.memcpys),
        ("memcpys", activities.PEER, activities.peer_copies),
        ("memcpys", MIGRATION, activities.migrations),
        ("page_faults", MIGRATION, activities.page_faults),
        ("memsets", activities.MEMSET, activities.memsets),
        *(("api_calls", table, host_records.calls) for table in CALLS.values()),
        ("synchronizations", activities.SYNCHRONIZATION, host_records.synchronizations),
        ("cuda_events", activities.CUDA_EVENT, host_records.cuda_events),
        ("overheads", activities.OVERHEAD, host_records.overheads),
    )
    parts: dict[str, list[Callable[[], Part]]] = {}
    for name, table, make in makers:
        if database.tables.has(table, *NEEDED.get(table, _OVERHEAD_COLUMNS)):
            parts.setdefault(name, []).append(partial(make, database, table))

    def names() -> Names:
        return Names([*database.strings], {"name": database.demangled})

    def table_of(name: str) -> Table:
        of_parts = [part() for part in parts[name]]
        return Table(data_model.BY_NAME[name], of_parts, names if name == "kernels" else None)

    sources: dict[str, Callable[[], Table]] = {name: partial(table_of, name) for name in parts}
    if MARKER in database.tables.columns:
        sources["nvtx_ranges"] = partial(_ranges, database)
    return sources


def _ranges(database: activities.Database) -> Table:
    """NVTX ranges, paired while nothing else is in memory; once let go of, they are paired anew."""

    def paired(_: Kinds) -> dict[str, pa.ChunkedArray]:
        ranges = host_records.ranges(database)
        return dict(zip(ranges.column_names, ranges.columns, strict=True))

    columns = paired(data_model.NVTX_RANGES.kinds)
    ranges = KeptColumns(data_model.NVTX_RANGES.kinds, paired)
    ranges.keep(columns)
    return Table(data_model.NVTX_RANGES, [Part(ranges, {name: name for name in columns})])


def _devices(file: SqliteFile, strings: Mapping[int, str]) -> pa.Table:
    """The devices that the program could use.

    Raises:
        CorruptFileError: A value is of another type.
    """
    columns = [name for name in _DEVICE_COLUMNS if name in file.columns[DEVICE]]
    devices = []
    for values in file.rows(f"SELECT {', '.join(columns)} FROM {DEVICE}") if columns else []:
        row: dict[str, Any] = dict.fromkeys(_DEVICE_COLUMNS) | dict(
            zip(columns, values, strict=True)
        )
        major, minor = row["computeCapabilityMajor"], row["computeCapabilityMinor"]
        kb_per_s, khz = row["globalMemoryBandwidth"], row["coreClockRate"]
        device = {
            "device_id": row["id"],
            "name": strings.get(row["name"]),
            "total_memory_bytes": row["globalMemorySize"],
            "memory_bandwidth_bytes_per_s": kb_per_s * _THOUSAND if kb_per_s else None,
            "compute_capability": None if None in (major, minor) else f"{major}.{minor}",
            "clock_hz": khz * _THOUSAND if khz else None,
            "multiprocessors": row["numMultiprocessors"] or None,
        }
        devices += [device] if row["isCudaVisible"] != 0 else []
    return checked_table(f"{file.path}, table devices", data_model.DEVICES, devices)


def _origin(
    database: activities.Database, file: SqliteFile, command: str | None, warnings: tuple[str, ...]
) -> Origin:
    epoch_ns = database.origin_ns if database.origin_ns > _SOME_UNIX_TIME_NS else None
    recorded_at = (
        None
        if epoch_ns is None
        else datetime.fromtimestamp(epoch_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    )
    has_version = "version" in file.columns.get("Version", {})
    versions = file.rows("SELECT version FROM Version") if has_version else []
    return Origin(
        file.path,
        NAME,
        "nvprof",
        schema_version=next((str(v) for (v,) in borders.rows_of(versions, int)), None),
        command=command,
        recorded_at=recorded_at,
        epoch_ns=epoch_ns,
        warnings=warnings,
    )


def _warnings(
    database: activities.Database, file: SqliteFile, counts: dict[str, _Count], timed: set[str]
) -> tuple[str, ...]:
    warnings = []
    if untimed := sum(counts[table][2] for table in GPU_WORK if table in counts):
        records = f"{counted(untimed, 'record', 'records')} without times left out"
        warnings.append(f"{records}: when they ran could not be collected")
    counters = [table for k in ("METRIC", "EVENT") if (table := f"{PREFIX}{k}") in file.columns]
    if any(file.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in counters):
        warnings.append(KERNELS_RERUN)
    if any(map(is_mangled, database.demangled)):
        mangled = "Some kernel names are as the compiler mangled them: nothing here reads them."
        warnings.append(mangled)
    if not timed & {*GPU_WORK}:
        reason = "no kernel and no copy" if timed & {*CALLS.values()} else "no CUDA call"
        warnings.append(f"What GPUs did is unknown: {reason} was recorded")
    return tuple(warnings)


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
    recognises=lambda head: (
        head.startswith(MAGIC)
        and PREFIX.encode() in head
        and b"StringTable" in head
        and b"StringIds" not in head
    ),
    # In a large database, not all definitions lie in the first pages.
    searches=lambda path: (
        STRINGS in (tables := tables_in(path)) and any(table.startswith(PREFIX) for table in tables)
    ),
)
