"""The tables of nvprof's databases as SELECTs in the words of the data model.

Times there are near 1.6e18, nanoseconds of the Unix clock (of the machine's, on Windows), and
become integers since the recording's origin before anything else sees them. Columns grow with
versions (8 to 22): optional ones are asked for by name.
Source: CUPTI's activity records, https://docs.nvidia.com/cupti/api/structlist.html.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from gpuprof.base.cuda import CUPTI_MEMORY_KINDS, MEMCPY_KINDS
from gpuprof.model.views import Select, View
from gpuprof.readers.nsys.tables import KERNEL_COLUMNS, Tables, staged, words

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
MEMCPY: Final = f"{PREFIX}MEMCPY"
# Peer copies, although the suffix reads like a version.
PEER: Final = f"{PREFIX}MEMCPY2"
MEMSET: Final = f"{PREFIX}MEMSET"
# Kernels that ran side by side, and those of a recording that ran them one by one.
KERNELS: Final = (f"{PREFIX}CONCURRENT_KERNEL", f"{PREFIX}KERNEL")
CALLS: Final = {"runtime": f"{PREFIX}RUNTIME", "driver": f"{PREFIX}DRIVER"}
SYNCHRONIZATION: Final = f"{PREFIX}SYNCHRONIZATION"
CUDA_EVENT: Final = f"{PREFIX}CUDA_EVENT"
OVERHEAD: Final = f"{PREFIX}OVERHEAD"
MIGRATION: Final = f"{PREFIX}UNIFIED_MEMORY_COUNTER"
DEVICE: Final = f"{PREFIX}DEVICE"
CONTEXT: Final = f"{PREFIX}CONTEXT"
STREAM: Final = f"{PREFIX}STREAM"
MARKER: Final = f"{PREFIX}MARKER"
STRINGS: Final = "StringTable"

# What the reader makes visible beside the file's own tables.
NAMES: Final = "nvprof_names"
CALL_NAMES: Final = "nvprof_call_names"

# Work of the GPU, and the columns without which it says nothing.
GPU_WORK: Final = {
    **dict.fromkeys(KERNELS, ("start", "end", "name")),
    MEMCPY: ("start", "end", "copyKind", "bytes"),
    PEER: ("start", "end", "copyKind", "bytes", "srcDeviceId", "dstDeviceId"),
    MEMSET: ("start", "end", "bytes"),
    MIGRATION: ("start", "end", "counterKind", "value"),
}
NEEDED: Final = {
    **GPU_WORK,
    **dict.fromkeys(CALLS.values(), ("start", "end", "cbid")),
    SYNCHRONIZATION: ("start", "end", "type"),
    CUDA_EVENT: ("eventId", "correlationId"),
    MARKER: ("timestamp", "flags", "id", "name"),
    STRINGS: ("_id_", "value"),
}
# All that is read but names and what is read as bytes.
_NUMBERS: Final = (
    "start", "end", "name", "copyKind", "bytes", "srcKind", "dstKind", "memoryKind", "type",
    "srcDeviceId", "dstDeviceId", "srcId", "dstId", "counterKind", "value", "cbid", "timestamp",
    "flags", "id", "domain", "deviceId", "contextId", "streamId", "correlationId", "processId",
    "threadId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
    "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "objectKind", "isCudaVisible",
    "globalMemorySize", "globalMemoryBandwidth", "computeCapabilityMajor", "coreClockRate",
    "computeCapabilityMinor", "numMultiprocessors", "eventId", "cudaEventId",
)  # fmt: skip
KINDS: Final = {
    **{table: dict.fromkeys(_NUMBERS, pa.int64()) for table in (*NEEDED, DEVICE, CONTEXT, STREAM)},
    STRINGS: {"_id_": pa.int64(), "value": pa.string()},
}
# CUPTI's CUpti_ActivityUnifiedMemoryCounterKind; the others are thrashing and mappings.
MIGRATION_KINDS: Final = {1: "UVM_HtoD", 2: "UVM_DtoH", 8: "UVM_DtoD"}
_FAULT_KINDS: Final = {3: "cpu", 4: "gpu"}
# CUPTI's CUpti_ActivitySynchronizationType.
_SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
OVERHEAD_COLUMNS: Final = ("start", "end", "overheadKind", "objectKind", "objectId")
# CUPTI's CUpti_ActivityOverheadKind: which of both holds up the thread, and by what.
OVERHEAD_KINDS: Final = {
    1: ("cuda", "Driver compiler"),
    1 << 16: ("profiler", "CUPTI buffer flush"),
    2 << 16: ("profiler", "CUPTI instrumentation"),
    3 << 16: ("profiler", "CUPTI resource"),
    4 << 16: ("cuda", "Runtime triggered module loading"),
    5 << 16: ("cuda", "Lazy function loading"),
    6 << 16: ("cuda", "Command buffer full"),
}
# In place of a stream or an event.
_NONE: Final = "(-1, 4294967295)"
# CUPTI writes 0 for times that it could not collect, and no end for what never ended.
TIMED: Final = 't.start > 0 AND t."end" >= t.start'
_BYTES_PER_KB: Final = 1000
_HZ_PER_KHZ: Final = 1000


@dataclass(frozen=True)
class Database:
    """What lies in one database.

    Args:
        tables: Table name to the names of its columns.
        origin_ns: The recording's origin, on the database's clock.
        process_id: The process, where the database names one.
    """

    tables: Tables
    origin_ns: int
    process_id: int | None

    def pick(self, table: str, *names: str) -> str:
        """The first of these columns that the table has, else NULL."""
        return self.tables.pick(table, *names)

    @property
    def process(self) -> str:
        """The process as SQL."""
        return "NULL" if self.process_id is None else str(self.process_id)

    def times(self) -> dict[str, str]:
        """Start and end since the origin."""
        return {"start_ns": f"t.start - {self.origin_ns}", "end_ns": f't."end" - {self.origin_ns}'}

    def place(self, table: str) -> dict[str, str]:
        """When and where an activity of the GPU ran."""
        return self.times() | {
            "device_id": self.pick(table, "deviceId"),
            "context_id": self.pick(table, "contextId"),
            "stream_id": self.pick(table, "streamId"),
            "process_id": self.process,
            "correlation_id": self.pick(table, "correlationId"),
        }


def views(database: Database) -> dict[str, View]:
    """Every table of the data model that the database's own tables can fill."""
    makers: tuple[tuple[str, str, Callable[[Database, str], Select]], ...] = (
        *(("kernels", table, _kernels) for table in KERNELS),
        ("memcpys", MEMCPY, _memcpys),
        ("memcpys", PEER, _peer_copies),
        ("memcpys", MIGRATION, _migrations),
        ("page_faults", MIGRATION, _page_faults),
        ("memsets", MEMSET, _memsets),
        *(("api_calls", table, _calls) for table in CALLS.values()),
        ("synchronizations", SYNCHRONIZATION, _synchronizations),
        ("cuda_events", CUDA_EVENT, _cuda_events),
        ("devices", DEVICE, _devices),
    )
    selects: dict[str, list[Select]] = {}
    for name, table, make in makers:
        if table in database.tables.columns:
            selects.setdefault(name, []).append(make(database, table))
    return {n: View(tuple(parts), is_costly=n == "memcpys") for n, parts in selects.items()}


def _kernels(database: Database, table: str) -> Select:
    columns = {
        "name": "coalesce(n.value, 'unknown')",
        **{name: database.pick(table, recorded) for name, recorded in KERNEL_COLUMNS.items()},
        "graph_node_id": f"nullif({database.pick(table, 'graphNodeId')}, 0)",
    }
    join = f"LEFT JOIN {NAMES} n ON n.id = t.name"
    return Select(database.place(table) | columns, _timed(table, join))


def _timed(table: str, join: str = "") -> str:
    return f"FROM raw.{table} t {join} WHERE {TIMED}"


def _memcpys(database: Database, table: str) -> Select:
    """Copies between host and device, on one device, and staged halves of peer copies."""
    device = database.pick(table, "deviceId")
    src, dst, join = staged(database.tables) or ("NULL", "NULL", "")

    def end(recorded: str, letter: int) -> str:
        kinds = [n for n, word in MEMCPY_KINDS.items() if word.isalpha() and word[letter] in "DA"]
        return f"coalesce({recorded}, CASE WHEN t.copyKind IN {tuple(kinds)} THEN {device} END)"

    columns = {
        "src_device_id": end(src, 0),
        "dst_device_id": end(dst, -1),
        "path": f"CASE WHEN {src} IS NOT NULL THEN 'staged' END",
    }
    return Select(_copy(database, table) | columns, _timed(table, join))


def _peer_copies(database: Database, table: str) -> Select:
    columns = {
        "src_device_id": "t.srcDeviceId",
        "dst_device_id": "t.dstDeviceId",
        "path": "CASE WHEN t.srcDeviceId <> t.dstDeviceId THEN 'direct' END",
    }
    return Select(_copy(database, table) | columns, _timed(table))


def _copy(database: Database, table: str) -> dict[str, str]:
    kind = words("t.copyKind", MEMCPY_KINDS)
    return database.place(table) | {
        "memcpy_kind": f"coalesce({kind}, 'unknown')",
        "bytes": "t.bytes",
        "src_memory_kind": words(database.pick(table, "srcKind"), CUPTI_MEMORY_KINDS),
        "dst_memory_kind": words(database.pick(table, "dstKind"), CUPTI_MEMORY_KINDS),
        "graph_node_id": f"nullif({database.pick(table, 'graphNodeId')}, 0)",
    }


def _migrations(database: Database, table: str) -> Select:
    """Pages of unified memory that moved; the device is the one that is not the host."""
    src, dst = database.pick(table, "srcId"), database.pick(table, "dstId")
    columns = {
        "memcpy_kind": words("t.counterKind", MIGRATION_KINDS),
        "bytes": "t.value",
        "device_id": f"CASE WHEN t.counterKind = 2 THEN {src} ELSE {dst} END",
        "src_device_id": f"CASE WHEN t.counterKind <> 1 THEN {src} END",
        "dst_device_id": f"CASE WHEN t.counterKind <> 2 THEN {dst} END",
        "process_id": f"coalesce({database.pick(table, 'processId')}, {database.process})",
    }
    moves = f"t.counterKind IN {tuple(MIGRATION_KINDS)}"
    return Select(database.times() | columns, f"{_timed(table)} AND {moves}")


def _page_faults(database: Database, table: str) -> Select:
    """Faults on pages of unified memory; the CPU's have no end, and each row is one."""
    is_gpu = "t.counterKind = 4"
    times = database.times()
    columns = {
        "start_ns": times["start_ns"],
        "end_ns": f"CASE WHEN {is_gpu} THEN {times['end_ns']} ELSE {times['start_ns']} END",
        "processor": words("t.counterKind", _FAULT_KINDS),
        "device_id": f"CASE WHEN {is_gpu} THEN {database.pick(table, 'srcId')} END",
        "process_id": f"coalesce({database.pick(table, 'processId')}, {database.process})",
        "faults": f"CASE WHEN {is_gpu} THEN t.value ELSE 1 END",
    }
    is_fault = f"t.counterKind IN {tuple(_FAULT_KINDS)} AND (NOT {is_gpu} OR {TIMED})"
    return Select(columns, f"FROM raw.{table} t WHERE t.start > 0 AND {is_fault}")


def _memsets(database: Database, table: str) -> Select:
    kind = words(database.pick(table, "memoryKind"), CUPTI_MEMORY_KINDS)
    columns = database.place(table) | {"bytes": "t.bytes", "memory_kind": kind}
    return Select(columns, _timed(table))


def _calls(database: Database, table: str) -> Select:
    api = next(api for api, calls in CALLS.items() if calls == table)
    columns = {
        "api": f"'{api}'",
        "name": f"coalesce(c.name, '{api} call ' || t.cbid)",
        "process_id": database.pick(table, "processId"),
        "thread_id": database.pick(table, "threadId"),
        "correlation_id": database.pick(table, "correlationId"),
    }
    join = f"LEFT JOIN {CALL_NAMES} c ON c.api = '{api}' AND c.id = t.cbid"
    return Select(database.times() | columns, _timed(table, join))


def _synchronizations(database: Database, table: str) -> Select:
    event = f"CASE WHEN {database.pick(table, 'cudaEventId')} NOT IN {_NONE} THEN t.cudaEventId END"
    has_event = "cudaEventId" in database.tables.columns[table]
    columns, join = _stream(database, table)
    columns |= {
        "sync_kind": words("t.type", _SYNC_KINDS),
        "event_id": event if has_event else "NULL",
    }
    if CUDA_EVENT in database.tables.columns and has_event:
        # An event may be recorded again and again; ids grow in the order of calls.
        source, source_join = _stream(database, CUDA_EVENT)
        join += f"""
            ASOF LEFT JOIN (
                SELECT t.eventId AS event, t.correlationId AS record,
                    {source["device_id"]} AS device, {source["stream_id"]} AS stream
                FROM raw.{CUDA_EVENT} t {source_join}
            ) e ON e.event = {event} AND e.record < t.correlationId"""
        columns |= {"src_device_id": "e.device", "src_stream_id": "e.stream"}
    return Select(database.times() | columns, _timed(table, join))


def _cuda_events(database: Database, table: str) -> Select:
    columns, join = _stream(database, table)
    return Select(columns | {"event_id": "t.eventId"}, f"FROM raw.{table} t {join}")


def _stream(database: Database, table: str) -> tuple[dict[str, str], str]:
    """Where a call on a stream belongs to, and the joins for it.

    CUPTI gives the context that was current in the call; its stream may be another one's.
    """
    tables = database.tables.columns
    context, stream = database.pick(table, "contextId"), database.pick(table, "streamId")
    join = ""
    if stream != "NULL" and {"contextId", "streamId"} <= tables.get(STREAM, frozenset()):
        join = f"""
            LEFT JOIN (
                SELECT streamId AS number, min(contextId) AS context FROM raw.{STREAM}
                GROUP BY streamId HAVING min(contextId) = max(contextId)
            ) s ON s.number = {stream}"""
        context = f"coalesce(s.context, {context})"
    has_devices = {"contextId", "deviceId"} <= tables.get(CONTEXT, frozenset())
    if has_devices := has_devices and context != "NULL":
        join += f" LEFT JOIN raw.{CONTEXT} c ON c.contextId = {context}"
    columns = {
        "device_id": "c.deviceId" if has_devices else "NULL",
        "context_id": context,
        "stream_id": f"CASE WHEN {stream} NOT IN {_NONE} THEN {stream} END",
        "process_id": database.process,
        "correlation_id": database.pick(table, "correlationId"),
    }
    return columns, join


def _devices(database: Database, table: str) -> Select:
    def pick(name: str) -> str:
        return database.pick(table, name)

    visible = pick("isCudaVisible")
    name = "n.value" if pick("name") != "NULL" else "NULL"
    join = f"LEFT JOIN {NAMES} n ON n.id = t.name" if name != "NULL" else ""
    major, minor = pick("computeCapabilityMajor"), pick("computeCapabilityMinor")
    columns = {
        "device_id": pick("id"),
        "name": name,
        "total_memory_bytes": pick("globalMemorySize"),
        "memory_bandwidth_bytes_per_s": (
            f"nullif({pick('globalMemoryBandwidth')}, 0) * {_BYTES_PER_KB}"
        ),
        "compute_capability": f"{major} || '.' || {minor}",
        "clock_hz": f"nullif({pick('coreClockRate')}, 0) * {_HZ_PER_KHZ}",
        "multiprocessors": f"nullif({pick('numMultiprocessors')}, 0)",
    }
    return Select(columns, f"FROM raw.{table} t {join} WHERE coalesce({visible}, 1) <> 0")
