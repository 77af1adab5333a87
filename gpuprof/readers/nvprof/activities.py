"""The tables of nvprof's databases as those of the data model.

Times there are near 1.6e18, nanoseconds of the Unix clock (of the machine's, on Windows), and
become integers since the recording's origin before anything else sees them. Columns grow with
versions (8 to 22): optional ones are asked for by name.
Source: CUPTI's activity records, https://docs.nvidia.com/cupti/api/structlist.html.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.cuda import CUPTI_MEMORY_KINDS, MEMCPY_KINDS
from gpuprof.base.kernel_names import demangled
from gpuprof.model import schema
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.table import (
    Computed,
    Flags,
    NumberedNames,
    Part,
    Table,
    constant,
    in_memory,
    joined,
    translated,
)
from gpuprof.model.words import ByNumber, Values, Words, narrowed
from gpuprof.readers.nsys.columns import Tables, columns_at_once, present, without
from gpuprof.readers.nsys.event_waits import EventRecords
from gpuprof.readers.nsys.export_schema import KERNEL_COLUMNS
from gpuprof.readers.nsys.peer_copies import PATHS, Staged, copy_end, halves, may_be_staged

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
# CUPTI's CUpti_ActivitySynchronizationType.
_SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
_OVERHEAD_COLUMNS: Final = ("start", "end", "overheadKind", "objectKind", "objectId")
# CUPTI's CUpti_ActivityOverheadKind: which of both holds up the thread, and by what.
_OVERHEAD_KINDS: Final = {
    1: ("cuda", "Driver compiler"),
    1 << 16: ("profiler", "CUPTI buffer flush"),
    2 << 16: ("profiler", "CUPTI instrumentation"),
    3 << 16: ("profiler", "CUPTI resource"),
    4 << 16: ("cuda", "Runtime triggered module loading"),
    5 << 16: ("cuda", "Lazy function loading"),
    6 << 16: ("cuda", "Command buffer full"),
}
# In place of a stream or an event.
_NONE: Final = (-1, 4294967295)
# CUPTI's CUpti_ActivityFlag and CUpti_ActivityObjectKind; the others are of threads.
_OPENS, _CLOSES, PROCESS = 2, 4, 1

Numbers = npt.NDArray[Any]
_Columns = dict[str, Computed | str | None]


@dataclass(frozen=True, eq=False)
class Database:
    """What lies in one database.

    Args:
        tables: Table name to the names of its columns, and what they hold.
        origin_ns: The recording's origin, on the database's clock.
        process_id: The process, where the database names one.
        strings: The file's strings by their numbers.
    """

    tables: Tables
    origin_ns: int
    process_id: int | None
    strings: Mapping[int, str]

    def pick(self, table: str, *names: str) -> str | None:
        """The first of these columns that the table has."""
        return self.tables.pick(table, *names)

    def since(self, column: str) -> Computed:
        """A time since the origin."""
        return Computed(
            (column,), lambda times: times.astype(np.int64, copy=False) - self.origin_ns
        )

    def place(self, table: str) -> _Columns:
        """When and where an activity of the GPU ran."""
        return {
            "start_ns": self.since("start"),
            "end_ns": self.since("end"),
            "device_id": self.pick(table, "deviceId"),
            "context_id": self.pick(table, "contextId"),
            "stream_id": self.pick(table, "streamId"),
            "process_id": self.process,
            "correlation_id": self.pick(table, "correlationId"),
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

    @property
    def process(self) -> Computed | None:
        """The process of all rows."""
        return None if self.process_id is None else Computed((), lambda: self.process_id)

    def part(self, table: str, columns: _Columns, *keep: Computed, **more: Any) -> Part:
        """Rows of one of its tables."""
        return Part(self.tables.stored(table), present(columns), keep, **more)

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


_IS_TIMED: Final = Computed(("start", "end"), are_timed)


def tables(database: Database) -> dict[str, Callable[[], Table]]:
    """Every table of activities that the database's own tables can fill."""
    makers: tuple[tuple[str, str, Callable[[Database, str], Part]], ...] = (
        *(("kernels", table, _kernels) for table in KERNELS),
        ("memcpys", MEMCPY, _memcpys),
        ("memcpys", PEER, _peer_copies),
        ("memcpys", MIGRATION, _migrations),
        ("page_faults", MIGRATION, _page_faults),
        ("memsets", MEMSET, _memsets),
        *(("api_calls", table, _calls) for table in CALLS.values()),
        ("synchronizations", SYNCHRONIZATION, _synchronizations),
        ("cuda_events", CUDA_EVENT, _cuda_events),
        ("overheads", OVERHEAD, _overheads),
    )
    parts: dict[str, list[Callable[[], Part]]] = {}
    for name, table, make in makers:
        if database.tables.has(table, *NEEDED.get(table, _OVERHEAD_COLUMNS)):
            parts.setdefault(name, []).append(partial(make, database, table))

    def table_of(name: str) -> Table:
        names = (lambda: _names(database)) if name == "kernels" else None
        return Table(schema.BY_NAME[name], [part() for part in parts[name]], names)

    sources: dict[str, Callable[[], Table]] = {name: partial(table_of, name) for name in parts}
    if MARKER in database.tables.columns:
        sources["nvtx_ranges"] = lambda: in_memory(schema.NVTX_RANGES, _ranges(database))
    return sources


def _names(database: Database) -> NumberedNames:
    """The names of kernels as their authors wrote them."""
    names = [*map(demangled, database.strings.values())]
    return NumberedNames([*database.strings], {"name": names})


def _kernels(database: Database, table: str) -> Part:
    columns = database.place(table) | {
        "name_id": "name",
        **{name: database.pick(table, recorded) for name, recorded in KERNEL_COLUMNS.items()},
        "graph_node_id": without(database.pick(table, "graphNodeId"), 0),
    }
    return database.part(table, columns, _IS_TIMED)


def _memcpys(database: Database, table: str) -> Part:
    """Copies between host and device, on one device, and staged halves of peer copies."""
    of = database.tables
    columns = _copy(database, table) | {
        "src_device_id": copy_end(of, None, 0),
        "dst_device_id": copy_end(of, None, -1),
    }
    kinds = halves(of)
    if not kinds:
        return database.part(table, columns, _IS_TIMED)
    staged = Staged(of)
    columns["src_device_id"] = staged.over(columns["src_device_id"], 0)
    columns["dst_device_id"] = staged.over(columns["dst_device_id"], 1)
    columns["path"] = staged.path(None)
    is_whole = cache(lambda: may_be_staged(of.stored(table), kinds))
    return database.part(table, columns, _IS_TIMED, is_whole=is_whole)


def _peer_copies(database: Database, table: str) -> Part:
    ends = ("srcDeviceId", "dstDeviceId")

    def path(src: Numbers, dst: Numbers) -> Numbers:
        is_direct = (src != dst) & (src != UNKNOWN) & (dst != UNKNOWN)
        return np.where(is_direct, PATHS.index("direct"), 0)

    columns = _copy(database, table) | dict(
        zip(("src_device_id", "dst_device_id"), ends, strict=True)
    )
    return database.part(table, columns | {"path": Computed(ends, path, lambda: PATHS)}, _IS_TIMED)


def _copy(database: Database, table: str) -> _Columns:
    src, dst = database.pick(table, "srcKind"), database.pick(table, "dstKind")
    return database.place(table) | {
        "memcpy_kind": translated("copyKind", MEMCPY_KINDS, "unknown"),
        "bytes": "bytes",
        "src_memory_kind": src and translated(src, CUPTI_MEMORY_KINDS),
        "dst_memory_kind": dst and translated(dst, CUPTI_MEMORY_KINDS),
        "graph_node_id": without(database.pick(table, "graphNodeId"), 0),
    }


def _of_counter(
    column: str | None, kinds: tuple[int, ...], otherwise: int = UNKNOWN
) -> Computed | None:
    """A column of unified memory's counters, where they are of some kinds."""
    if column is None:
        return None if otherwise == UNKNOWN else Computed((), lambda: otherwise)
    return Computed(
        ("counterKind", column),
        lambda kind, numbers: np.where(np.isin(kind, kinds), numbers, otherwise),
    )


def _counter_process(database: Database, table: str) -> Computed | None:
    column, process = database.pick(table, "processId"), database.process_id
    if column is None or process is None:
        return Computed((column,)) if column is not None else database.process
    return Computed((column,), lambda numbers: np.where(numbers == UNKNOWN, process, numbers))


def _migrations(database: Database, table: str) -> Part:
    """Pages of unified memory that moved; the device is the one that is not the host."""
    src, dst = database.pick(table, "srcId"), database.pick(table, "dstId")

    def device(kind: Numbers, *ends: Numbers) -> Numbers:
        at = dict(zip([name for name in (src, dst) if name], ends, strict=True))
        read, written = (at.get(name or "", np.full(len(kind), UNKNOWN)) for name in (src, dst))
        return np.where(kind == 2, read, written)  # noqa: PLR2004 - UVM_DtoH

    columns: _Columns = {
        "start_ns": database.since("start"),
        "end_ns": database.since("end"),
        "memcpy_kind": translated("counterKind", MIGRATION_KINDS),
        "bytes": "value",
        "device_id": Computed(("counterKind", *filter(None, (src, dst))), device),
        "src_device_id": _of_counter(src, (2, 8)),
        "dst_device_id": _of_counter(dst, (1, 8)),
        "process_id": _counter_process(database, table),
    }
    is_move = Computed(("counterKind",), lambda kind: np.isin(kind, [*MIGRATION_KINDS]))
    return database.part(table, columns, _IS_TIMED, is_move)


def _page_faults(database: Database, table: str) -> Part:
    """Faults on pages of unified memory; the CPU's have no end, and each row is one."""
    of_gpu = 4

    def end(kind: Numbers, start: Numbers, ends: Numbers) -> Numbers:
        return np.where(kind == of_gpu, ends, start).astype(np.int64) - database.origin_ns

    def is_fault(kind: Numbers, start: Numbers, ends: Numbers) -> Flags:
        flags: Flags = (kind != of_gpu) | are_timed(start, ends)
        flags &= np.isin(kind, [*_FAULT_KINDS]) & (start > 0)
        return flags

    counted = ("counterKind", "start", "end")
    columns: _Columns = {
        "start_ns": database.since("start"),
        "end_ns": Computed(counted, end),
        "processor": translated("counterKind", _FAULT_KINDS),
        "device_id": _of_counter(database.pick(table, "srcId"), (of_gpu,)),
        "process_id": _counter_process(database, table),
        "faults": _of_counter("value", (of_gpu,), 1),
    }
    return database.part(table, columns, Computed(counted, is_fault))


def _memsets(database: Database, table: str) -> Part:
    kind = database.pick(table, "memoryKind")
    columns = database.place(table) | {
        "bytes": "bytes",
        "memory_kind": kind and translated(kind, CUPTI_MEMORY_KINDS),
    }
    return database.part(table, columns, _IS_TIMED)


def _calls(database: Database, table: str) -> Part:
    api = next(api for api, calls in CALLS.items() if calls == table)
    columns: _Columns = {
        "start_ns": database.since("start"),
        "end_ns": database.since("end"),
        "api": constant(api),
        "name": _call_name(api),
        "process_id": database.pick(table, "processId"),
        "thread_id": database.pick(table, "threadId"),
        "correlation_id": database.pick(table, "correlationId"),
    }
    return database.part(table, columns, _IS_TIMED)


def _call_name(api: str) -> Computed:
    """The name of each call; of a number that CUPTI has not, what it is of and the number."""
    names, words = _call_names()[api], Words([None])

    def word(number: int) -> str | None:
        return None if number == UNKNOWN else names.get(number, f"{api} call {number}")

    def make(numbers: Numbers) -> Numbers:
        distinct, places = np.unique(numbers, return_inverse=True)
        of_distinct = [words.place(word(number)) for number in distinct.tolist()]
        return np.array(of_distinct, np.int32)[places]

    return Computed(("cbid",), make, lambda: words.listed)


@cache
def _call_names() -> dict[str, dict[int, str]]:
    """Names of API calls by CUPTI's numbers; a file has only the numbers."""
    text = Path(__file__).with_name("cupti_calls.txt").read_text("ascii")
    names: dict[str, dict[int, str]] = {api: {} for api in CALLS}
    for line in text.splitlines():
        api, number, name = line.split()
        names[api][int(number)] = name
    return names


def _synchronizations(database: Database, table: str) -> Part:
    event, correlation = database.pick(table, "cudaEventId"), database.pick(table, "correlationId")
    columns = _on_stream(database, table) | {
        "start_ns": database.since("start"),
        "end_ns": database.since("end"),
        "sync_kind": translated("type", _SYNC_KINDS),
        "event_id": _or_unknown(event),
    }
    if CUDA_EVENT in database.tables.columns and event is not None and correlation is not None:
        # An event may be recorded again and again; ids grow in the order of calls.
        records = cache(lambda: _records(database))
        for number, name in enumerate(("src_device_id", "src_stream_id")):

            def make(events: Numbers, calls: Numbers, number: int = number) -> Numbers:
                event_ids = np.where(np.isin(events, _NONE), UNKNOWN, events)
                return records().latest(number, np.zeros(len(events), np.int8), event_ids, calls)

            columns[name] = Computed((event, correlation), make)
    return database.part(table, columns, _IS_TIMED)


def _records(database: Database) -> EventRecords:
    """When events were recorded, on which device and stream."""
    table = _cuda_events(database, CUDA_EVENT)
    names = ("event_id", "correlation_id", "device_id", "stream_id")
    columns = [*Table(schema.BY_NAME["cuda_events"], [table]).pieces(names, is_checked=False)]
    if not columns:
        return EventRecords(*np.empty((5, 0), np.int64))
    event, call, device, stream = (
        np.concatenate([column.filled for column in pieces])
        for pieces in zip(*columns, strict=True)
    )
    return EventRecords(np.zeros(len(event), np.int8), event, call, device, stream)


def _cuda_events(database: Database, table: str) -> Part:
    return database.part(table, _on_stream(database, table) | {"event_id": "eventId"})


def _or_unknown(column: str | None) -> Computed | None:
    """A stream or an event, null where a number stands in place of one."""
    if column is None:
        return None
    return Computed((column,), lambda numbers: np.where(np.isin(numbers, _NONE), UNKNOWN, numbers))


def _on_stream(database: Database, table: str) -> _Columns:
    """Where a call on a stream belongs to.

    CUPTI gives the context that was current in the call; its stream may be another one's.
    """
    context, stream = database.pick(table, "contextId"), database.pick(table, "streamId")
    reads = [name for name in (context, stream) if name is not None]

    def contexts(*columns: Numbers) -> Numbers:
        at = dict(zip(reads, columns, strict=True))
        current = at[context] if context else np.full(len(columns[0]), UNKNOWN)
        if stream is None or database.stream_contexts is None:
            return current
        of_stream = database.stream_contexts.of(at[stream])
        return np.where(of_stream == UNKNOWN, current, of_stream)

    def devices(*columns: Numbers) -> Numbers:
        of_contexts = database.context_devices
        return UNKNOWN if of_contexts is None else of_contexts.of(contexts(*columns))  # type: ignore[return-value]

    return {
        "device_id": Computed((*reads,), devices) if reads else None,
        "context_id": Computed((*reads,), contexts) if reads else None,
        "stream_id": _or_unknown(stream),
        "process_id": database.process,
        "correlation_id": database.pick(table, "correlationId"),
    }


def _overheads(database: Database, table: str) -> Part:
    """When the profiler or CUDA held up a thread, or all threads of the process."""
    sources, names = zip(("profiler", None), *_OVERHEAD_KINDS.values(), strict=True)
    place = ByNumber([*_OVERHEAD_KINDS], range(1, len(names)), 0).of
    columns: _Columns = {
        "start_ns": database.since("start"),
        "end_ns": database.since("end"),
        "source": Computed(("overheadKind",), place, lambda: sources),
        "name": Computed(("overheadKind",), place, lambda: names),
        "process_id": Computed(("objectId",), _process_of),
        "thread_id": Computed(("objectKind", "objectId"), _thread_of),
    }
    return database.part(table, columns, _IS_TIMED)


def _process_of(objects: Values) -> Numbers:
    return _number_of(objects, 0)


def _thread_of(kinds: Numbers, objects: Values) -> Numbers:
    return np.where(kinds == PROCESS, UNKNOWN, _number_of(objects, 4))


def _number_of(objects: Values, place: int) -> Numbers:
    """A 32-bit number within CUPTI's ids of objects, by the byte at which it begins."""
    numbers = [object_number(digits or "", place) for digits in objects.words or ()]
    filled = [UNKNOWN if number is None else number for number in numbers]
    of_rows: Numbers = np.array(filled, np.int64)[objects.numbers]
    return of_rows


def object_number(digits: str, place: int) -> int | None:
    """A 32-bit number within a CUPTI object id, of which these are the hexadecimal digits."""
    raw = bytes.fromhex(digits)[place : place + 4]
    return int.from_bytes(raw, "little", signed=True) if len(raw) == 4 else None  # noqa: PLR2004


def _ranges(database: Database) -> pa.Table:
    """NVTX ranges: one record opens a range, the next one of the same id closes it."""
    of, optional = database.tables, ("domain", "objectKind", "objectId")
    names = [*NEEDED[MARKER], *filter(None, (of.pick(MARKER, name) for name in optional))]
    pieces = zip(*of.stored(MARKER).pieces(names), strict=True)
    columns = dict(zip(names, map(joined, pieces), strict=False))
    if not columns:
        return schema.NVTX_RANGES.empty()
    time = columns["timestamp"].filled.astype(np.int64)
    flags, ids = (columns[name].filled for name in ("flags", "id"))
    opens, closes = _paired(time, flags, ids)
    rows = {name: column.take(opens) for name, column in columns.items()}
    none = Values(np.full(len(opens), UNKNOWN))
    kind, domain = (rows.get(name, none).filled for name in ("objectKind", "domain"))
    objects = rows.get("objectId", Values(np.zeros(len(opens), np.int8), None, (None,)))
    process, thread = _process_of(objects), _thread_of(kind, objects)
    kinds = pa.DictionaryArray.from_arrays(
        schema.arrow((kind == PROCESS).astype(np.int8)), schema.texts(["push_pop", "start_end"])
    )
    return schema.NVTX_RANGES.narrow(
        pa.table(
            {
                "start_ns": schema.arrow(time[opens] - database.origin_ns),
                "end_ns": schema.arrow(time[closes] - database.origin_ns),
                "text": database.texts(rows["name"].filled, None),
                "domain": database.texts(np.where(domain == 0, UNKNOWN, domain), ""),
                "range_kind": kinds,
                "process_id": schema.arrow(narrowed(process), process == UNKNOWN),
                "thread_id": schema.arrow(narrowed(thread), thread == UNKNOWN),
            }
        )
    )


def _paired(time: Numbers, flags: Numbers, ids: Numbers) -> tuple[Numbers, Numbers]:
    """The rows that open ranges, by time, and for each the first one after it that closes it."""
    is_known = (flags != UNKNOWN) & (ids != UNKNOWN)
    opens = np.flatnonzero(is_known & (flags & _OPENS > 0) & (time > 0))
    closes = np.flatnonzero(is_known & (flags & _CLOSES > 0))
    rows = np.concatenate([opens, closes])
    is_close = np.arange(len(rows)) >= len(opens)
    order = np.lexsort((is_close, time[rows], ids[rows]))
    rows, is_close = rows[order], is_close[order]
    # Behind the last one that closes a range stands another, of no id.
    places = np.where(is_close, np.arange(len(rows)), len(rows))
    following = np.minimum.accumulate(places[::-1])[::-1]
    is_open = ~is_close & (following < len(rows))
    opened, closing = rows[is_open], rows[following[is_open]]
    is_same = ids[opened] == ids[closing]
    opened, closing = opened[is_same], closing[is_same]
    by_time = np.argsort(time[opened], kind="stable")
    return opened[by_time], closing[by_time]
