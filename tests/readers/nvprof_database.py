"""Databases as nvprof writes them, made by hand: its own table definitions, rows as dicts."""

import sqlite3
from contextlib import closing

PREFIX = "CUPTI_ACTIVITY_KIND_"
# Near the clock of real files, where a float steps by 256 ns.
EPOCH_NS = 1_651_206_362_399_823_905
PID = 4711

_COPY = "copyKind srcKind dstKind flags bytes start end deviceId contextId streamId"
_GRAPH = "graphNodeId graphId channelID channelType"
_KERNEL = (
    "registersPerThread start end completed deviceId contextId streamId gridX gridY gridZ blockX"
    " blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal"
    f" correlationId gridId name queued submitted {_GRAPH}"
)
_CALL = "cbid start end processId threadId correlationId returnValue"
# Version 18 (CUDA 11.8), without the columns that say nothing of time or place.
TABLES = {
    "MEMCPY": f"{_COPY} correlationId runtimeCorrelationId {_GRAPH}",
    "MEMCPY2": (
        f"{_COPY} srcDeviceId srcContextId dstDeviceId dstContextId correlationId {_GRAPH}"
    ),
    "MEMSET": (
        f"value bytes start end deviceId contextId streamId correlationId flags memoryKind {_GRAPH}"
    ),
    "KERNEL": _KERNEL,
    "CONCURRENT_KERNEL": _KERNEL,
    "RUNTIME": _CALL,
    "DRIVER": _CALL,
    "MARKER": "flags timestamp id objectKind objectId name domain",
    "SYNCHRONIZATION": "type start end correlationId contextId streamId cudaEventId",
    "CUDA_EVENT": "correlationId contextId streamId eventId",
    "OVERHEAD": "overheadKind objectKind objectId start end",
    "STREAM": "contextId streamId priority flag correlationId",
    "UNIFIED_MEMORY_COUNTER": (
        "counterKind value start end address srcId dstId streamId processId flags"
    ),
    "DEVICE": (
        "flags globalMemoryBandwidth globalMemorySize computeCapabilityMajor"
        " computeCapabilityMinor id name uuid isCudaVisible"
    ),
    "NVLINK": (
        "nvlinkVersion typeDev0 typeDev1 idDev0 idDev1 flag physicalNvLinkCount portDev0"
        " portDev1 bandwidth nvswitchConnected"
    ),
    "PCIE": "type id domain pcieGeneration linkRate linkWidth upstreamBus attr",
    "CONTEXT": "contextId deviceId computeApiKind nullStreamId",
    "NAME": "objectKind objectId name",
    "METRIC": "id value correlationId flags",
}


def write(path, strings=(), without=(), **rows):
    """Write a database of version 18; string ids count from 2, as 1 is nvprof's null."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        database.executemany(
            "INSERT INTO StringTable(value) VALUES (?)", [("-- null --",), *((s,) for s in strings)]
        )
        database.execute("CREATE TABLE Version(version INTEGER)")
        database.execute("INSERT INTO Version VALUES (18)")
        for table, columns in TABLES.items():
            if table not in without:
                _fill(database, table, columns.split(), rows.get(table.lower(), ()))
        database.commit()
    return path


_BYTES = {
    ("NAME", "objectId"),
    ("MARKER", "objectId"),
    ("OVERHEAD", "objectId"),
    ("DEVICE", "uuid"),
    ("PCIE", "id"),
}
_BYTES |= {("NVLINK", name) for name in ("idDev0", "idDev1", "portDev0", "portDev1")}


def _fill(database, table, columns, rows):
    declared = ", ".join(
        f"{name} {'BLOB' if (table, name) in _BYTES else 'INT'} NOT NULL" for name in columns
    )
    database.execute(
        f"CREATE TABLE {PREFIX}{table}(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {declared})"
    )
    for row in rows:
        assert row.keys() <= set(columns)
        values = [row.get(name, 1 if name == "isCudaVisible" else 0) for name in columns]
        marks = ", ".join("?" * len(columns))
        database.execute(
            f"INSERT INTO {PREFIX}{table}({', '.join(columns)}) VALUES ({marks})", values
        )


def at(start, end, **columns):
    """Times since the test's epoch, as the database holds them."""
    return {"start": EPOCH_NS + start, "end": EPOCH_NS + end, **columns}


def thread(number):
    """A CUPTI object id of a thread of the test's process."""
    return PID.to_bytes(4, "little") + number.to_bytes(4, "little", signed=True) + bytes(4)
