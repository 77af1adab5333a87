"""The tables of Nsight Systems as SELECTs in the words of the data model.

The same tables come as SQLite, Parquet and Arrow files; here they are visible as ``raw.NAME``.
They appear only with data, and their columns grow with versions (2019.5 to 2026.2): every
optional table and column is asked for by name and may be absent.
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from gpuprof.base.cuda import MEMCPY_KINDS, NSYS_MEMORY_KINDS
from gpuprof.model.views import (
    NO_TIME,
    Select,
    StoredColumn,
    StoredOr,
    StoredRows,
    StoredWords,
    Trimmed,
    View,
)

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT: Final = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
GRAPH_TRACE: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX: Final = "NVTX_EVENTS"
OVERHEADS: Final = {"PROFILER_OVERHEAD": "profiler", "CUPTI_ACTIVITY_KIND_OVERHEAD": "cuda"}
# Table -> the library whose calls it holds.
HOST_CALLS: Final = {
    **dict.fromkeys((f"MPI_{kind}_EVENTS" for kind in ("P2P", "COLLECTIVES", "OTHER")), "mpi"),
    "MPI_START_WAIT_EVENTS": "mpi",
    **dict.fromkeys(("UCP_EVENTS", "UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS"), "ucx"),
    "OSRT_API": "os",
}
# Table -> what touched the pages.
PAGE_FAULTS: Final = {f"CUDA_UM_{p.upper()}_PAGE_FAULT_EVENTS": p for p in ("gpu", "cpu")}
STRINGS: Final = "StringIds"
EVENT_CLASSES: Final = "ENUM_NSYS_EVENT_CLASS"
GPUS: Final = ("TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_GPU")
PROCESSES: Final = ("TARGET_INFO_CUDA_STREAM", "TARGET_INFO_CUDA_CONTEXT_INFO")

# Activities of the GPU, whose times CUPTI may fail to collect.
TIMED: Final = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
EVENTS: Final = (*TIMED, RUNTIME, NVTX)
# The columns without which a table says nothing.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    KERNEL: ("start", "end"),
    MEMCPY: ("start", "end", "bytes", "copyKind"),
    MEMSET: ("start", "end"),
    RUNTIME: ("start", "end", "nameId"),
    SYNCHRONIZATION: ("start", "end"),
    CUDA_EVENT: ("eventId", "correlationId"),
    GRAPH_TRACE: ("start", "end"),
    NVTX: ("start", "end", "eventType"),
    STRINGS: ("id", "value"),
}
# Names of all tables that a profile is made from, as patterns of `nsys export --tables`.
USED: Final = (
    *NEEDED,
    *GPUS,
    *PROCESSES,
    *OVERHEADS,
    *HOST_CALLS,
    *PAGE_FAULTS,
    "PROCESSES",
    "DIAGNOSTIC_EVENT",
    "META_DATA_EXPORT",
    "META_DATA_CAPTURE",
    "EXPORT_META_DATA",
    "TARGET_INFO_SESSION_START_TIME",
    "ENUM_CUDA_MEMCPY_OPER",
    "ENUM_CUDA_MEM_KIND",
    EVENT_CLASSES,
)

# With --cudabacktrace, rows of this class repeat calls of others to carry their stacks.
BACKTRACE: Final = "TRACE_PROCESS_EVENT_CUDABACKTRACE"
BACKTRACE_CLASS: Final = 67
# The types of the columns that are read, by their names; a MEMSET's "value" is another one.
_TEXTS: Final = ("value", "name", "text", "busLocation", "pciBusId", "utcTime")
_NUMBERS: Final = (
    "start", "end", "id", "bytes", "copyKind", "nameId", "eventType", "demangledName", "shortName",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
    "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId", "graphExecId",
    "deviceId", "contextId", "streamId", "correlationId", "globalPid", "globalTid", "srcKind",
    "dstKind", "memKind", "srcDeviceId", "dstDeviceId", "syncType", "domainId", "textId", "cudaId",
    "pid", "processId", "gpuId", "totalMemory", "globalMemorySize", "memoryBandwidth",
    "globalMemoryBandwidth", "clockRate", "computeMajor", "computeMinor", "smMajor", "smMinor",
    "computeCapabilityMajor", "computeCapabilityMinor", "smCount", "numMultiprocessors", "severity",
    "utcEpochNs",
    "eventClass", "returnValue", "eventId", "numberOfPageFaults",
)  # fmt: skip
_OF_ACTIVITIES: Final = dict.fromkeys(_NUMBERS, pa.int64()) | {"text": pa.string()}
KINDS: Final = dict.fromkeys(USED, _OF_ACTIVITIES | dict.fromkeys(_TEXTS, pa.string())) | (
    dict.fromkeys(
        (*EVENTS, SYNCHRONIZATION, CUDA_EVENT, *OVERHEADS, *HOST_CALLS, *PAGE_FAULTS),
        _OF_ACTIVITIES,
    )
)

_SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
# In place of the stream or event of what has none; before nsys 2024 of the stream of any wait.
_NONE: Final = 2**32 - 1
_RANGE_KINDS: Final = {59: "push_pop", 60: "start_end"}
_DOMAIN_CREATED: Final = 75
# Every text by its number.
_STRINGS: Final = Select(
    {"name_id": StoredColumn("id"), "name": StoredColumn("value")}, StoredRows(STRINGS)
)
_LOW_24_BITS: Final = 0xFFFFFF
# Tables that number their names, and the name of a number. Names of API calls end in the version
# that introduced the call (cudaLaunchKernel_v7000), which nsys itself leaves out.
_NUMBERED: Final[Mapping[str, dict[str, str]]] = {
    "kernels": {"name": StoredColumn("value")},
    "api_calls": {
        "name": Trimmed(StoredColumn("value"), "_v", 4),
        "api": (
            "CASE WHEN value LIKE 'cuda%' THEN 'runtime' WHEN value LIKE 'cu%' THEN 'driver' END"
        ),
    },
}
# Their kinds and ends are made of many cases, and halves through the host are found by a join.
_COSTLY: Final = ("memcpys",)
_TIMES: Final = {"start_ns": StoredColumn("start"), "end_ns": StoredColumn("end")}
# An end before the start would be taken off totals.
UNTIMED: Final = f'({NO_TIME} OR t."end" < t.start)'


@dataclass(frozen=True)
class Tables:
    """What lies in one export.

    Args:
        columns: Table name to the names of its columns.
        memcpy_kinds: Numbers of ``copyKind`` to words; the file's own where it has an enum.
        memory_kinds: The same for ``srcKind``, ``dstKind`` and ``memKind``.
        backtrace_class: The ``eventClass`` of rows that repeat calls, from the file's enum, too.
        filled: Table name to the columns that hold no null, where the file says so.
        mistimed: Tables with rows that have no time or end before they start, all of them
            counted. Any other's rows that end before they start are the file's fault.
        has_staged: Whether a copy may be half of a staged one; False where none is.
    """

    columns: Mapping[str, frozenset[str]]
    memcpy_kinds: Mapping[int, str] = field(default_factory=lambda: MEMCPY_KINDS)
    memory_kinds: Mapping[int, str] = field(default_factory=lambda: NSYS_MEMORY_KINDS)
    backtrace_class: int = BACKTRACE_CLASS
    filled: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mistimed: frozenset[str] = frozenset()
    has_staged: bool = True

    def pick(self, table: str, *names: str, alias: str = "t") -> str:
        """The first of these columns that the table has, else NULL."""
        have = self.columns.get(table, frozenset())
        return next((StoredColumn(name, alias=alias) for name in names if name in have), "NULL")


def views(tables: Tables) -> dict[str, View]:
    """Every table of the data model that the export's tables can fill."""
    makers = {
        "kernels": (KERNEL, _kernels),
        "memcpys": (MEMCPY, _memcpys),
        "memsets": (MEMSET, _memsets),
        "api_calls": (RUNTIME, _api_calls),
        "nvtx_ranges": (NVTX, _nvtx_ranges),
        "synchronizations": (SYNCHRONIZATION, _synchronizations),
        "cuda_events": (CUDA_EVENT, _cuda_events),
        "graph_launches": (GRAPH_TRACE, _graph_launches),
    }
    event_views = {
        name: View((make(tables),), _names(tables, name), is_costly=name in _COSTLY)
        for name, (raw, make) in makers.items()
        if raw in tables.columns
    }
    if "nvtx_ranges" in event_views:
        recorded, domains = _nvtx_events(tables)
        strings = _STRINGS if STRINGS in tables.columns else None
        event_views["nvtx_ranges"] = replace(
            event_views["nvtx_ranges"], recorded=recorded, domains=domains, strings=strings
        )
    if "memcpys" in event_views:
        recorded = _memcpys(replace(tables, has_staged=False))
        event_views["memcpys"] = replace(event_views["memcpys"], recorded=recorded)
    more = {
        "host_calls": _host_calls(tables),
        "page_faults": _page_faults(tables),
        "overheads": _overheads(tables),
        "devices": _devices(tables),
        "runs": _runs(tables),
    }
    return event_views | {name: View(selects) for name, selects in more.items() if selects}


# How exports of nsys and databases of nvprof name what a kernel was launched with.
KERNEL_COLUMNS: Final = {
    **{f"{size}_{axis.lower()}": f"{size}{axis}" for size in ("grid", "block") for axis in "XYZ"},
    "registers_per_thread": "registersPerThread",
    "static_shared_memory_bytes": "staticSharedMemory",
    "dynamic_shared_memory_bytes": "dynamicSharedMemory",
}


def _kernels(tables: Tables) -> Select:
    def pick(*names: str) -> str:
        return tables.pick(KERNEL, *names)

    name_columns = [pick(name) for name in ("demangledName", "shortName")]
    number = f"coalesce({', '.join(name_columns)})"
    if "demangledName" in tables.filled.get(KERNEL, ()):
        number = name_columns[0]
    name = {"name_id": number} if STRINGS in tables.columns else {"name": "'unknown'"}
    columns = name | {column: pick(recorded) for column, recorded in KERNEL_COLUMNS.items()}
    columns["graph_node_id"] = _graph_node(tables, KERNEL)
    return Select(_place(tables, KERNEL) | columns, _timed(tables, KERNEL))


def _timed(
    tables: Tables,
    table: str,
    join: str = "",
    without: tuple[str, int] | None = None,
    only: tuple[str, tuple[int, ...]] | None = None,
) -> str:
    return StoredRows(
        table,
        are_timed=True,
        are_ordered=table in tables.mistimed,
        without=without,
        only=only,
        joins=join,
    )


def _names(tables: Tables, table: str) -> Select | None:
    """Every name by its number, of the tables that give the number beside the name."""
    if STRINGS not in tables.columns or table not in _NUMBERED:
        return None
    return Select({"name_id": StoredColumn("id"), **_NUMBERED[table]}, StoredRows(STRINGS))


def _memcpys(tables: Tables) -> Select:
    def pick(*names: str) -> str:
        return tables.pick(MEMCPY, *names)

    kind = _words(StoredColumn("copyKind"), tables.memcpy_kinds)
    src, dst = pick("srcDeviceId"), pick("dstDeviceId")
    pairs = staged(tables)
    staged_src, staged_dst, staged_join = pairs or ("NULL", "NULL", "")
    columns = {
        "memcpy_kind": kind,
        "bytes": StoredColumn("bytes"),
        "src_memory_kind": _words_or_null(pick("srcKind"), tables.memory_kinds),
        "dst_memory_kind": _words_or_null(pick("dstKind"), tables.memory_kinds),
        "src_device_id": _end(tables, src, staged_src, 0),
        "dst_device_id": _end(tables, dst, staged_dst, -1),
        "path": f"CASE WHEN {staged_src} IS NOT NULL THEN 'staged'"
        f" WHEN {kind} = 'PtoP' OR ({kind} = 'DtoD' AND {src} <> {dst}) THEN 'direct' END",
        "graph_node_id": _graph_node(tables, MEMCPY),
    }
    return Select(_place(tables, MEMCPY) | columns, _timed(tables, MEMCPY, staged_join))


def _end(tables: Tables, recorded: str, staged: str, letter: int) -> str:
    """The device at one end of a copy: ``letter`` is 0 for the source, -1 for the destination.

    Of a peer copy ``deviceId`` is where it ran, the source when pushed and the destination
    when pulled: only the recorded ids tell. Other copies touch the one device they ran on.
    """
    kinds_on_device = [
        number
        for number, word in tables.memcpy_kinds.items()
        if word not in {"unknown", "PtoP", "UVM_DtoD"}
        and word.removeprefix("UVM_")[letter] in "DA"  # an array lies on the device, too
    ]
    device = tables.pick(MEMCPY, "deviceId")
    if not isinstance(device, StoredColumn):
        return f"coalesce({staged}, {recorded})"
    first = recorded if isinstance(recorded, StoredColumn) else None
    end = StoredOr(first, StoredColumn("copyKind"), kinds_on_device, device)
    return end if staged == "NULL" else f"coalesce({staged}, {end})"


def staged(tables: Tables) -> tuple[str, str, str] | None:
    """Source, destination and join of peer copies that went through the host.

    Without a path between two devices, a peer copy is recorded as a copy to the host on the
    source and a copy from the host on the destination, of one correlation id, both from device
    memory to device memory, and neither naming the other device.
    """
    kinds = halves(tables)
    if not kinds or not tables.has_staged:
        return None
    half = " AND ".join(f"t.{column} IN ({_list(kinds[column])})" for column in kinds)
    dtoh, htod = (_numbers(tables.memcpy_kinds, word) for word in ("DtoH", "HtoD"))
    process = f"coalesce({tables.pick(MEMCPY, 'globalPid')}, 0)"
    out, back = f"t.copyKind IN ({_list(dtoh)})", f"t.copyKind IN ({_list(htod)})"
    join = f"""
        LEFT JOIN (
            SELECT t.correlationId AS correlation, {process} AS process,
                min(t.deviceId) FILTER ({out}) AS src, min(t.deviceId) FILTER ({back}) AS dst
            FROM raw.{MEMCPY} t WHERE {half} GROUP BY ALL
            HAVING src <> dst
                AND src = max(t.deviceId) FILTER ({out})
                AND dst = max(t.deviceId) FILTER ({back})
                AND sum(t.bytes) FILTER ({out}) = sum(t.bytes) FILTER ({back})
                AND min(t.start) FILTER ({out}) <= min(t.start) FILTER ({back})
        ) pair ON pair.correlation = CASE WHEN {half} THEN t.correlationId END
            AND pair.process = {process}"""
    return "pair.src", "pair.dst", join


def halves(tables: Tables) -> Mapping[str, list[int]]:
    """By column the numbers of copies that may be half of a staged one; empty where none can be."""
    needed = {"srcKind", "dstKind", "deviceId", "correlationId"}
    if not needed <= tables.columns.get(MEMCPY, frozenset()):
        return {}
    device_memory = _numbers(tables.memory_kinds, "device")
    copies = _numbers(tables.memcpy_kinds, "DtoH") + _numbers(tables.memcpy_kinds, "HtoD")
    return {"copyKind": copies, "srcKind": device_memory, "dstKind": device_memory}


def _numbers(words: Mapping[int, str], word: str) -> list[int]:
    return [number for number, meaning in words.items() if meaning == word]


def _memsets(tables: Tables) -> Select:
    columns = {
        "bytes": tables.pick(MEMSET, "bytes"),
        "memory_kind": words(tables.pick(MEMSET, "memKind"), tables.memory_kinds),
    }
    return Select(_place(tables, MEMSET) | columns, _timed(tables, MEMSET))


def _api_calls(tables: Tables) -> Select:
    name = {"name": "'unknown'"}
    if STRINGS in tables.columns:
        name = {"name_id": StoredColumn("nameId")}
    correlation = {"correlation_id": tables.pick(RUNTIME, "correlationId")}
    no_call = None
    if "eventClass" in tables.columns[RUNTIME]:
        no_call = "eventClass", tables.backtrace_class
    columns = _TIMES | name | _thread(tables, RUNTIME) | correlation
    return Select(columns, _timed(tables, RUNTIME, without=no_call))


def _nvtx_ranges(tables: Tables) -> Select:
    def text(alias: str, strings: str) -> tuple[str, str]:
        literal = tables.pick(NVTX, "text", alias=alias)
        number = tables.pick(NVTX, "textId", alias=alias)
        value, join = _string(tables, number, strings)
        return f"coalesce({literal}, {value})", join

    message, join = text("t", "s")
    domain, domain_join = text("d", "ds")
    number = tables.pick(NVTX, "domainId")
    process = _process(tables.pick(NVTX, "globalTid"))
    domains = f"""
        LEFT JOIN (
            SELECT {tables.pick(NVTX, "domainId", alias="d")} AS number,
                {_process(tables.pick(NVTX, "globalTid", alias="d"))} AS process,
                any_value({domain}) AS name
            FROM raw.{NVTX} d {domain_join} WHERE d.eventType = {_DOMAIN_CREATED} GROUP BY ALL
        ) created ON created.number = {number}
            AND created.process IS NOT DISTINCT FROM {process}"""
    columns = {
        "text": message,
        "domain": "coalesce(created.name, '')",
        "range_kind": words("t.eventType", _RANGE_KINDS),
    }
    return Select(
        _TIMES | columns | _thread(tables, NVTX),
        f"{_timed(tables, NVTX, join + domains)} AND t.eventType IN ({_list(_RANGE_KINDS)})",
    )


def _nvtx_events(tables: Tables) -> tuple[Select, Select]:
    """The ranges as they were recorded, and the events that name domains."""
    texts = {
        "text": tables.pick(NVTX, "text"),
        "text_id": tables.pick(NVTX, "textId"),
        "domain_id": tables.pick(NVTX, "domainId"),
    }
    event = StoredColumn("eventType")
    kind = {"range_kind": StoredWords(words(event, _RANGE_KINDS), event, _RANGE_KINDS)}
    ranges = _timed(tables, NVTX, only=("eventType", tuple(_RANGE_KINDS)))
    created = StoredRows(NVTX, only=("eventType", (_DOMAIN_CREATED,)))
    thread = _thread(tables, NVTX)
    return Select(_TIMES | texts | kind | thread, ranges), Select(texts | thread, created)


def _synchronizations(tables: Tables) -> Select:
    place = _place(tables, SYNCHRONIZATION)
    columns = place | {
        "stream_id": f"nullif({place['stream_id']}, {_NONE})",
        "sync_kind": words(tables.pick(SYNCHRONIZATION, "syncType"), _SYNC_KINDS),
        "event_id": f"nullif({tables.pick(SYNCHRONIZATION, 'eventId')}, {_NONE})",
    }
    join = ""
    keys = {"eventId", "correlationId", "globalPid"}
    if all(keys <= tables.columns.get(table, set()) for table in (SYNCHRONIZATION, CUDA_EVENT)):
        # An event may be recorded again and again; ids grow in the order of calls.
        join = f"""
            ASOF LEFT JOIN raw.{CUDA_EVENT} e ON e.globalPid = t.globalPid
                AND e.eventId = t.eventId AND e.correlationId < t.correlationId"""
        columns["src_device_id"] = tables.pick(CUDA_EVENT, "deviceId", alias="e")
        columns["src_stream_id"] = tables.pick(CUDA_EVENT, "streamId", alias="e")
    return Select(columns, _timed(tables, SYNCHRONIZATION, join))


def _cuda_events(tables: Tables) -> Select:
    place = _place(tables, CUDA_EVENT)
    columns = {name: place[name] for name in place if name not in _TIMES}
    return Select(columns | {"event_id": StoredColumn("eventId")}, StoredRows(CUDA_EVENT))


def _graph_launches(tables: Tables) -> Select:
    graph = {"graph_id": tables.pick(GRAPH_TRACE, "graphId", "graphExecId")}
    return Select(_place(tables, GRAPH_TRACE) | graph, _timed(tables, GRAPH_TRACE))


def _page_faults(tables: Tables) -> tuple[Select, ...]:
    selects = []
    for table, processor in PAGE_FAULTS.items():
        if "start" in tables.columns.get(table, frozenset()):
            # The CPU's have no end, and each row is one.
            columns = {
                "start_ns": StoredColumn("start"),
                "end_ns": f"coalesce({tables.pick(table, 'end')}, t.start)",
                "processor": f"'{processor}'",
                "device_id": tables.pick(table, "deviceId") if processor == "gpu" else "NULL",
                "process_id": _process(tables.pick(table, "globalPid")),
                "faults": tables.pick(table, "numberOfPageFaults") if processor == "gpu" else "1",
            }
            selects.append(Select(columns, StoredRows(table)))
    return tuple(selects)


def _overheads(tables: Tables) -> tuple[Select, ...]:
    selects = []
    for table, source in OVERHEADS.items():
        if {"start", "end"} <= tables.columns.get(table, frozenset()):
            name, join = _string(tables, tables.pick(table, "nameId"))
            columns = {"source": f"'{source}'", "name": name} | _thread(tables, table)
            selects.append(Select(_TIMES | columns, _timed(tables, table, join)))
    return tuple(selects)


def _host_calls(tables: Tables) -> tuple[Select, ...]:
    selects = []
    for table, library in HOST_CALLS.items():
        if {"start", "end"} <= tables.columns.get(table, frozenset()):
            number = tables.pick(table, "textId", "nameId")
            name, join = _string(tables, number)
            columns = {"library": f"'{library}'", "name": f"coalesce({name}, 'unknown')"}
            # A wait for several requests has a row for each.
            rows = f'FROM (SELECT DISTINCT start, "end", {", ".join(_names_in(tables, table))}'
            source = f"{rows} FROM raw.{table}) t {join} WHERE NOT {UNTIMED}"
            selects.append(Select(_TIMES | columns | _thread(tables, table), source))
    return tuple(selects)


def _names_in(tables: Tables, table: str) -> list[str]:
    return sorted({"globalTid", "textId", "nameId"} & tables.columns[table])


def _devices(tables: Tables) -> tuple[Select, ...]:
    mapped, old, gpu = GPUS
    if {mapped, gpu} <= tables.columns.keys():
        # Each process may number the devices in its own way (CUDA_VISIBLE_DEVICES).
        join = f"JOIN raw.{mapped} d ON d.gpuId = t.id"
        return (_device_rows(tables, gpu, ("d.cudaId", "d.pid"), join),)
    if old in tables.columns:
        number, process = tables.pick(old, "deviceId"), tables.pick(old, "pid")
        return (_device_rows(tables, old, (number, process)),)
    if gpu in tables.columns:
        return (_device_rows(tables, gpu, (tables.pick(gpu, "id", "deviceId"), "NULL")),)
    return ()


def _device_rows(tables: Tables, table: str, place: tuple[str, str], join: str = "") -> Select:
    def pick(*names: str) -> str:
        return tables.pick(table, *names)

    memory = pick("totalMemory", "globalMemorySize")
    major = pick("computeMajor", "smMajor", "computeCapabilityMajor")
    minor = pick("computeMinor", "smMinor", "computeCapabilityMinor")
    columns = {
        "device_id": place[0],
        "process_id": place[1],
        "name": pick("name"),
        # nsys 2020.3 gives the memory in MiB and no bandwidth; later versions give bytes.
        "total_memory_bytes": f"CASE WHEN {memory} < 1048576 THEN {memory} * 1048576"
        f" ELSE {memory} END",
        "memory_bandwidth_bytes_per_s": (
            f"nullif({pick('memoryBandwidth', 'globalMemoryBandwidth')}, 0)"
        ),
        "compute_capability": f"{major} || '.' || {minor}",
        "clock_hz": f"nullif({pick('clockRate')}, 0)",
        "multiprocessors": f"nullif({pick('smCount', 'numMultiprocessors')}, 0)",
        "bus_id": f"nullif({pick('busLocation', 'pciBusId')}, '')",
    }
    return Select(columns, f"FROM raw.{table} t {join}")


def _runs(tables: Tables) -> tuple[Select, ...]:
    process_tables = [t for t in PROCESSES if "processId" in tables.columns.get(t, ())]
    active = [t for t in (RUNTIME, KERNEL) if "NULL" not in _owner(tables, t)]
    if process_tables:
        source = f"SELECT processId AS process_id FROM raw.{process_tables[0]} t"
    elif active:
        source = f"SELECT {_owner(tables, active[0])} AS process_id FROM raw.{active[0]} t"
    else:
        return ()
    columns = {
        "run_id": "row_number() OVER (ORDER BY r.process_id) - 1",
        "process_id": "r.process_id",
        "command": "NULL",
    }
    if {"pid", "name"} <= tables.columns.get("PROCESSES", frozenset()):
        columns["command"] = (
            "(SELECT p.name FROM raw.PROCESSES p"
            " WHERE p.pid = r.process_id AND p.name IS NOT NULL LIMIT 1)"
        )
    return (Select(columns, f"FROM (SELECT DISTINCT process_id FROM ({source})) r"),)


def _owner(tables: Tables, table: str) -> str:
    return _process(tables.pick(table, "globalPid", "globalTid"))


def _place(tables: Tables, table: str) -> dict[str, str]:
    def pick(*names: str) -> str:
        return tables.pick(table, *names)

    return _TIMES | {
        "device_id": pick("deviceId"),
        "context_id": pick("contextId"),
        "stream_id": pick("streamId"),
        "process_id": _process(pick("globalPid")),
        "correlation_id": pick("correlationId"),
    }


def _process(global_id: str) -> str:
    """A global id holds machine, process and thread: 8 bits of each end, 24 bits each."""
    return global_id.bits(24, _LOW_24_BITS) if isinstance(global_id, StoredColumn) else "NULL"


def _thread(tables: Tables, table: str) -> dict[str, str]:
    global_id = tables.pick(table, "globalTid")
    thread = "NULL"
    if isinstance(global_id, StoredColumn):
        thread = global_id.bits(0, _LOW_24_BITS)
    return {"process_id": _process(global_id), "thread_id": thread}


def _graph_node(tables: Tables, table: str) -> str:
    node = tables.pick(table, "graphNodeId")
    return node.without(0) if isinstance(node, StoredColumn) else "NULL"


def _string(tables: Tables, number: str, alias: str = "s") -> tuple[str, str]:
    """The text of a string id, and the join that brings it."""
    if STRINGS not in tables.columns or number == "NULL":
        return "NULL", ""
    return f"{alias}.value", f"LEFT JOIN raw.{STRINGS} {alias} ON {alias}.id = {number}"


def _words(column: StoredColumn, meanings: Mapping[int, str]) -> StoredWords:
    """A tool's number as a word, unknown where there is none."""
    sql = f"coalesce({words(column, meanings)}, 'unknown')"
    return StoredWords(sql, column, meanings)


def _words_or_null(column: str, meanings: Mapping[int, str]) -> str:
    """A tool's number as a word; null where there is no number."""
    sql = words(column, meanings)
    return StoredWords(sql, column, meanings) if isinstance(column, StoredColumn) else sql


def words(number: str, words: Mapping[int, str]) -> str:
    """A tool's number as a word: null stays null, a number without a word is unknown."""
    if number == "NULL":
        return "NULL"
    cases = " ".join(f"WHEN {number} = {key} THEN '{word}'" for key, word in words.items())
    return f"CASE {cases} WHEN {number} IS NOT NULL THEN 'unknown' END"


def _list(numbers: Mapping[int, str] | list[int]) -> str:
    return ", ".join(str(number) for number in numbers) or "NULL"
