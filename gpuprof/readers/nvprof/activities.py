"""What GPUs did, of nvprof's databases, and what all tables of these share.

Times there are near 1.6e18, nanoseconds of the Unix clock (of the machine's, on Windows), and
become integers since the recording's origin before anything else sees them. Columns grow with
versions (8 to 22): optional ones are asked for by name.
Source: CUPTI's activity records, https://docs.nvidia.com/cupti/api/structlist.html.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base import kernel_names
from gpuprof.base.cuda import CUPTI_MEMORY_KINDS, MEMCPY_KINDS
from gpuprof.model import schema
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import is_any_of
from gpuprof.model.table import Computed, Flags, Part, translated
from gpuprof.model.words import ByNumber
from gpuprof.readers.nsys.columns import Columns, Export, columns_at_once, part, without
from gpuprof.readers.nsys.export_schema import KERNEL_COLUMNS
from gpuprof.readers.nsys.peer_copies import PATHS, copy_end, with_staged

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
    "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "objectKind", "overheadKind",
    "isCudaVisible", "globalMemorySize", "globalMemoryBandwidth", "computeCapabilityMajor",
    "computeCapabilityMinor", "coreClockRate", "numMultiprocessors", "eventId", "cudaEventId",
)  # fmt: skip
KINDS: Final = {
    table: dict.fromkeys(_NUMBERS, pa.int64()) | {"objectId": pa.binary()}
    for table in (*NEEDED, OVERHEAD, DEVICE, CONTEXT, STREAM)
} | {
    STRINGS: {"_id_": pa.int64(), "value": pa.string()},
}
# CUPTI's CUpti_ActivityUnifiedMemoryCounterKind; the others are thrashing and mappings.
MIGRATION_KINDS: Final = {1: "UVM_HtoD", 2: "UVM_DtoH", 8: "UVM_DtoD"}
_FAULT_KINDS: Final = {3: "cpu", 4: "gpu"}

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Database:
    """What lies in one database.

    Args:
        tables: Table name to the names of its columns, and what they hold.
        origin_ns: The recording's origin, on the database's clock.
        process_id: The process, where the database names one.
        strings: The file's strings by their numbers.
    """

    tables: Export
    origin_ns: int
    process_id: int | None
    strings: Mapping[int, str]

    def since(self, column: str) -> Computed:
        """A time since the origin."""
        return Computed(
            (column,), lambda times: times.astype(np.int64, copy=False) - self.origin_ns
        )

    @property
    def times(self) -> Columns:
        """When something began and ended."""
        return {"start_ns": self.since("start"), "end_ns": self.since("end")}

    @property
    def place(self) -> Columns:
        """When and where an activity of the GPU ran."""
        return {
            **self.times,
            "device_id": "deviceId",
            "context_id": "contextId",
            "stream_id": "streamId",
            "process_id": self.process,
            "correlation_id": "correlationId",
        }

    def texts(self, numbers: Numbers, missing: str | None) -> pa.Array:
        """Strings by their numbers.

        Args:
            numbers: One of each row.
            missing: What stands where there is no string of this number.
        """
        words = [missing, *self.strings.values()]
        places = ByNumber([*self.strings], range(1, len(words)), 0).of(numbers)
        return pa.DictionaryArray.from_arrays(schema.arrow(places), schema.texts(words))

    @cached_property
    def demangled(self) -> list[str]:
        """The file's strings, names of kernels as their authors wrote them."""
        return [*map(kernel_names.demangled, self.strings.values())]

    @property
    def process(self) -> Computed | None:
        """The process of all rows."""
        return None if self.process_id is None else Computed((), lambda: self.process_id)

    @property
    def counter_process(self) -> Computed | None:
        """The process of unified memory's counters, which name their own in newer versions."""
        if not self.tables.has(MIGRATION, "processId"):
            return self.process
        process_id = UNKNOWN if self.process_id is None else self.process_id
        return Computed(("processId",), lambda ids: np.where(ids == UNKNOWN, process_id, ids))

    @cached_property
    def context_devices(self) -> ByNumber | None:
        """The device of each context."""
        if not self.tables.has(CONTEXT, "contextId", "deviceId"):
            return None
        context, device = columns_at_once(self.tables.stored(CONTEXT), ["contextId", "deviceId"])
        is_known = context != UNKNOWN
        return ByNumber(context[is_known].tolist(), device[is_known].tolist(), UNKNOWN)

    @cached_property
    def stream_contexts(self) -> ByNumber | None:
        """The context of each stream, where it is one."""
        if not self.tables.has(STREAM, "contextId", "streamId"):
            return None
        columns = columns_at_once(self.tables.stored(STREAM), ["streamId", "contextId"])
        contexts: dict[int, set[int]] = {}
        for stream, context in zip(*(column.tolist() for column in columns), strict=True):
            contexts.setdefault(stream, set()).add(context)
        numbered = {s: c - {UNKNOWN} for s, c in contexts.items() if s != UNKNOWN}
        single = {stream: of.pop() for stream, of in numbered.items() if len(of) == 1}
        return ByNumber([*single], [*single.values()], UNKNOWN)


# CUPTI writes 0 for times that it could not collect, and no end for what never ended.
def are_timed(start: Numbers, end: Numbers) -> Flags:
    """Which activities have times."""
    flags: Flags = (start > 0) & (end >= start)
    return flags


IS_TIMED: Final = Computed(("start", "end"), are_timed)
_COPY: Final[Columns] = {
    "memcpy_kind": translated("copyKind", MEMCPY_KINDS, "unknown"),
    "bytes": "bytes",
    "src_memory_kind": translated("srcKind", CUPTI_MEMORY_KINDS),
    "dst_memory_kind": translated("dstKind", CUPTI_MEMORY_KINDS),
    "graph_node_id": without("graphNodeId", 0),
}


def kernels(database: Database, table: str) -> Part:
    """Kernels, their names as numbers of strings."""
    columns = database.place | KERNEL_COLUMNS | {"name_id": "name"}
    columns["graph_node_id"] = without("graphNodeId", 0)
    return part(database.tables, table, columns, IS_TIMED)


def memcpys(database: Database, table: str) -> Part:
    """Copies between host and device, on one device, and staged halves of peer copies."""
    of = database.tables
    ends = copy_end(of, None, 0), copy_end(of, None, -1)
    columns = database.place | _COPY | {"src_device_id": ends[0], "dst_device_id": ends[1]}
    columns, is_whole = with_staged(of, columns)
    return part(of, table, columns, IS_TIMED, is_whole=is_whole)


def peer_copies(database: Database, table: str) -> Part:
    """Copies between two devices, on one of them where both are the same."""

    def path(src: Numbers, dst: Numbers) -> Numbers:
        is_direct = (src != dst) & (src != UNKNOWN) & (dst != UNKNOWN)
        return np.where(is_direct, PATHS.index("direct"), 0)

    ends: Columns = {
        "src_device_id": "srcDeviceId",
        "dst_device_id": "dstDeviceId",
        "path": Computed(("srcDeviceId", "dstDeviceId"), path, lambda: PATHS),
    }
    return part(database.tables, table, database.place | _COPY | ends, IS_TIMED)


def migrations(database: Database, table: str) -> Part:
    """Pages of unified memory that moved; the device is the one that is not the host."""
    to_device, to_host, between = MIGRATION_KINDS
    ends = [name for name in ("srcId", "dstId") if database.tables.has(table, name)]

    def device(kind: Numbers, *columns: Numbers) -> Numbers:
        at, none = dict(zip(ends, columns, strict=True)), np.full(len(kind), UNKNOWN)
        return np.where(kind == to_host, at.get("srcId", none), at.get("dstId", none))

    columns: Columns = {
        **database.times,
        "memcpy_kind": translated("counterKind", MIGRATION_KINDS),
        "bytes": "value",
        "device_id": Computed(("counterKind", *ends), device),
        "src_device_id": _of_counters("srcId", (to_host, between), UNKNOWN),
        "dst_device_id": _of_counters("dstId", (to_device, between), UNKNOWN),
        "process_id": database.counter_process,
    }
    is_move = Computed(("counterKind",), lambda kind: is_any_of(kind, MIGRATION_KINDS))
    return part(database.tables, table, columns, IS_TIMED, is_move)


def _of_counters(column: str, kinds: tuple[int, ...], otherwise: int) -> Computed:
    """A column of unified memory's counters, where they are of some kinds."""

    def make(kind: Numbers, numbers: Numbers) -> Numbers:
        return np.where(is_any_of(kind, kinds), numbers, otherwise)

    return Computed(("counterKind", column), make)


def page_faults(database: Database, table: str) -> Part:
    """Faults on pages of unified memory; the CPU's have no end, and each row is one."""
    _, of_gpu = _FAULT_KINDS

    def end(kind: Numbers, start: Numbers, ends: Numbers) -> Numbers:
        return np.where(kind == of_gpu, ends, start).astype(np.int64) - database.origin_ns

    def is_fault(kind: Numbers, start: Numbers, ends: Numbers) -> Flags:
        flags: Flags = (kind != of_gpu) | are_timed(start, ends)
        flags &= is_any_of(kind, _FAULT_KINDS) & (start > 0)
        return flags

    counted = ("counterKind", "start", "end")
    columns: Columns = {
        "start_ns": database.since("start"),
        "end_ns": Computed(counted, end),
        "processor": translated("counterKind", _FAULT_KINDS),
        "device_id": _of_counters("srcId", (of_gpu,), UNKNOWN),
        "process_id": database.counter_process,
        "faults": _of_counters("value", (of_gpu,), 1),
    }
    return part(database.tables, table, columns, Computed(counted, is_fault))


def memsets(database: Database, table: str) -> Part:
    """Memsets."""
    kind = translated("memoryKind", CUPTI_MEMORY_KINDS)
    columns = database.place | {"bytes": "bytes", "memory_kind": kind}
    return part(database.tables, table, columns, IS_TIMED)
