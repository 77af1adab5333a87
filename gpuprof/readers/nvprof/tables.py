"""The tables of nvprof's databases as SELECTs in the words of the data model.

Times there are near 1.6e18, nanoseconds of the Unix clock (of the machine's, on Windows), and
become integers since the recording's origin before anything else sees them. Columns grow with
versions (8 to 22): optional ones are asked for by name.
Source: CUPTI's activity records, https://docs.nvidia.com/cupti/api/structlist.html.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from gpuprof.cuda import CUPTI_MEMORY_KINDS, MEMCPY_KINDS
from gpuprof.profile import View
from gpuprof.readers.nsys.tables import Tables, staged, words

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
MEMCPY: Final = f"{PREFIX}MEMCPY"
# Peer copies, although the suffix reads like a version.
PEER: Final = f"{PREFIX}MEMCPY2"
MEMSET: Final = f"{PREFIX}MEMSET"
# Kernels that ran side by side, and those of a recording that ran them one by one.
KERNELS: Final = (f"{PREFIX}CONCURRENT_KERNEL", f"{PREFIX}KERNEL")
CALLS: Final = {"runtime": f"{PREFIX}RUNTIME", "driver": f"{PREFIX}DRIVER"}
SYNCHRONIZATION: Final = f"{PREFIX}SYNCHRONIZATION"
MIGRATION: Final = f"{PREFIX}UNIFIED_MEMORY_COUNTER"
DEVICE: Final = f"{PREFIX}DEVICE"
CONTEXT: Final = f"{PREFIX}CONTEXT"
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
    "computeCapabilityMinor",
)  # fmt: skip
KINDS: Final = {
    **{table: dict.fromkeys(_NUMBERS, pa.int64()) for table in (*NEEDED, DEVICE, CONTEXT)},
    STRINGS: {"_id_": pa.int64(), "value": pa.string()},
}
# CUPTI's CUpti_ActivityUnifiedMemoryCounterKind; the others count faults and thrashing.
MIGRATION_KINDS: Final = {1: "UVM_HtoD", 2: "UVM_DtoH", 8: "UVM_DtoD"}
# CUPTI's CUpti_ActivitySynchronizationType.
_SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
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

    def has(self, table: str) -> bool:
        """Whether the table is there."""
        return table in self.tables.columns

    def pick(self, table: str, *names: str) -> str:
        """The first of these columns that the table has, else NULL."""
        return self.tables.pick(table, *names)

    @property
    def process(self) -> str:
        """The process as SQL."""
        return "NULL" if self.process_id is None else str(self.process_id)

    def times(self) -> str:
        """Start and end since the origin."""
        return f't.start - {self.origin_ns} AS start_ns, t."end" - {self.origin_ns} AS end_ns'

    def place(self, table: str) -> str:
        """When and where an activity of the GPU ran."""
        return (
            f"{self.times()}, {self.pick(table, 'deviceId')} AS device_id, "
            f"{self.pick(table, 'contextId')} AS context_id, "
            f"{self.pick(table, 'streamId')} AS stream_id, {self.process} AS process_id, "
            f"{self.pick(table, 'correlationId')} AS correlation_id"
        )


def views(database: Database) -> dict[str, View]:
    """Every table of the data model that the database's own tables can fill."""
    parts = {
        "kernels": [_kernels(database, table) for table in KERNELS if database.has(table)],
        "memcpys": [
            *([_memcpys(database)] if database.has(MEMCPY) else []),
            *([_peer_copies(database)] if database.has(PEER) else []),
            *([_migrations(database)] if database.has(MIGRATION) else []),
        ],
        "memsets": [_memsets(database)] if database.has(MEMSET) else [],
        "api_calls": [
            _calls(database, api, table) for api, table in CALLS.items() if database.has(table)
        ],
        "synchronizations": [_synchronizations(database)] if database.has(SYNCHRONIZATION) else [],
        "devices": [_devices(database)] if database.has(DEVICE) else [],
    }
    return {name: View(" UNION ALL BY NAME ".join(sql)) for name, sql in parts.items() if sql}


def _kernels(database: Database, table: str) -> str:
    def pick(*names: str) -> str:
        return database.pick(table, *names)

    return f"""
        SELECT {database.place(table)}, coalesce(n.value, 'unknown') AS name,
            {pick("gridX")} AS grid_x, {pick("gridY")} AS grid_y, {pick("gridZ")} AS grid_z,
            {pick("blockX")} AS block_x, {pick("blockY")} AS block_y, {pick("blockZ")} AS block_z,
            {pick("registersPerThread")} AS registers_per_thread,
            {pick("staticSharedMemory")} AS static_shared_memory_bytes,
            {pick("dynamicSharedMemory")} AS dynamic_shared_memory_bytes,
            nullif({pick("graphNodeId")}, 0) AS graph_node_id
        FROM raw.{table} t LEFT JOIN {NAMES} n ON n.id = t.name WHERE {TIMED}"""


def _memcpys(database: Database) -> str:
    """Copies between host and device, on one device, and staged halves of peer copies."""
    device = database.pick(MEMCPY, "deviceId")
    src, dst, join = staged(database.tables) or ("NULL", "NULL", "")

    def end(recorded: str, letter: int) -> str:
        own = [n for n, word in MEMCPY_KINDS.items() if word.isalpha() and word[letter] in "DA"]
        return f"coalesce({recorded}, CASE WHEN t.copyKind IN {tuple(own)} THEN {device} END)"

    return f"""
        SELECT {database.place(MEMCPY)}, {_copy(database, MEMCPY)},
            {end(src, 0)} AS src_device_id, {end(dst, -1)} AS dst_device_id,
            CASE WHEN {src} IS NOT NULL THEN 'staged' END AS path
        FROM raw.{MEMCPY} t {join} WHERE {TIMED}"""


def _peer_copies(database: Database) -> str:
    return f"""
        SELECT {database.place(PEER)}, {_copy(database, PEER)},
            t.srcDeviceId AS src_device_id, t.dstDeviceId AS dst_device_id,
            CASE WHEN t.srcDeviceId <> t.dstDeviceId THEN 'direct' END AS path
        FROM raw.{PEER} t WHERE {TIMED}"""


def _copy(database: Database, table: str) -> str:
    kind = words("t.copyKind", MEMCPY_KINDS)
    src = words(database.pick(table, "srcKind"), CUPTI_MEMORY_KINDS)
    dst = words(database.pick(table, "dstKind"), CUPTI_MEMORY_KINDS)
    return (
        f"coalesce({kind}, 'unknown') AS memcpy_kind, t.bytes AS bytes, "
        f"{src} AS src_memory_kind, {dst} AS dst_memory_kind, "
        f"nullif({database.pick(table, 'graphNodeId')}, 0) AS graph_node_id"
    )


def _migrations(database: Database) -> str:
    """Pages of unified memory that moved; the device is the one that is not the host."""
    kind = words("t.counterKind", MIGRATION_KINDS)
    src, dst = database.pick(MIGRATION, "srcId"), database.pick(MIGRATION, "dstId")
    process = database.pick(MIGRATION, "processId")
    return f"""
        SELECT {database.times()}, {kind} AS memcpy_kind, t.value AS bytes,
            CASE WHEN t.counterKind = 2 THEN {src} ELSE {dst} END AS device_id,
            CASE WHEN t.counterKind <> 1 THEN {src} END AS src_device_id,
            CASE WHEN t.counterKind <> 2 THEN {dst} END AS dst_device_id,
            coalesce({process}, {database.process}) AS process_id
        FROM raw.{MIGRATION} t WHERE {TIMED} AND t.counterKind IN {tuple(MIGRATION_KINDS)}"""


def _memsets(database: Database) -> str:
    kind = words(database.pick(MEMSET, "memoryKind"), CUPTI_MEMORY_KINDS)
    return f"""
        SELECT {database.place(MEMSET)}, t.bytes AS bytes, {kind} AS memory_kind
        FROM raw.{MEMSET} t WHERE {TIMED}"""


def _calls(database: Database, api: str, table: str) -> str:
    return f"""
        SELECT {database.times()}, '{api}' AS api,
            coalesce(c.name, '{api} call ' || t.cbid) AS name,
            {database.pick(table, "processId")} AS process_id,
            {database.pick(table, "threadId")} AS thread_id,
            {database.pick(table, "correlationId")} AS correlation_id
        FROM raw.{table} t LEFT JOIN {CALL_NAMES} c ON c.api = '{api}' AND c.id = t.cbid
        WHERE {TIMED}"""


def _synchronizations(database: Database) -> str:
    context = database.pick(SYNCHRONIZATION, "contextId")
    stream = database.pick(SYNCHRONIZATION, "streamId")
    of_contexts = database.tables.columns.get(CONTEXT, frozenset())
    has_devices = {"contextId", "deviceId"} <= of_contexts and context != "NULL"
    join = f"LEFT JOIN raw.{CONTEXT} c ON c.contextId = {context}" if has_devices else ""
    return f"""
        SELECT {database.times()}, {"c.deviceId" if has_devices else "NULL"} AS device_id,
            {context} AS context_id,
            CASE WHEN {stream} NOT IN (-1, 4294967295) THEN {stream} END AS stream_id,
            {database.process} AS process_id,
            {database.pick(SYNCHRONIZATION, "correlationId")} AS correlation_id,
            {words("t.type", _SYNC_KINDS)} AS sync_kind
        FROM raw.{SYNCHRONIZATION} t {join} WHERE {TIMED}"""


def _devices(database: Database) -> str:
    def pick(*names: str) -> str:
        return database.pick(DEVICE, *names)

    visible = pick("isCudaVisible")
    name = "n.value" if pick("name") != "NULL" else "NULL"
    join = f"LEFT JOIN {NAMES} n ON n.id = t.name" if name != "NULL" else ""
    return f"""
        SELECT {pick("id")} AS device_id, {name} AS name,
            {pick("globalMemorySize")} AS total_memory_bytes,
            nullif({pick("globalMemoryBandwidth")}, 0) * {_BYTES_PER_KB}
                AS memory_bandwidth_bytes_per_s,
            {pick("computeCapabilityMajor")} || '.' || {pick("computeCapabilityMinor")}
                AS compute_capability,
            nullif({pick("coreClockRate")}, 0) * {_HZ_PER_KHZ} AS clock_hz
        FROM raw.{DEVICE} t {join} WHERE coalesce({visible}, 1) <> 0"""
