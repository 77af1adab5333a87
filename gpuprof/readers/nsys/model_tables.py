"""The tables of an export of Nsight Systems as those of the data model.

Source: the export's own enums and descriptions of columns (nsys 2023.4, libexporter), nsys' recipe
gpu_metric_util_map, and CUpti_ActivityMemory4 (https://docs.nvidia.com/cupti).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import Any, Final

import numpy as np

from gpuprof.base.cuda import SYNC_KINDS
from gpuprof.model.data_model import BY_NAME
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import distinct, is_any_of, pair_places
from gpuprof.model.table import Computed, Flags, Part, Table, constant, translated
from gpuprof.model.words import UNNAMED, ByNumber, Names, Values, Words
from gpuprof.readers.nsys.columns import (
    GRAPH_NODE,
    PROCESS,
    THREAD,
    TIMES,
    Columns,
    Export,
    Numbers,
    as_computed,
    columns_at_once,
    first_known,
    in_machine,
    low_bits,
    part,
    place,
    timed,
    without,
)
from gpuprof.readers.nsys.export_schema import (
    CUDA_EVENT,
    GPU_METRICS,
    GRAPH_TRACE,
    HOST_CALLS,
    KERNEL,
    KERNEL_COLUMNS,
    MEMCPY,
    MEMORY_OPERATIONS,
    MEMORY_USAGE,
    MEMSET,
    METRIC_NAMES,
    NVTX,
    OVERHEADS,
    PAGE_FAULTS,
    RUNTIME,
    STRINGS,
    SYNCHRONIZATION,
)
from gpuprof.readers.nsys.peer_copies import memcpys

_RANGE_KINDS: Final = {59: "push_pop", 60: "start_end"}
_DOMAIN_CREATED: Final = 75
_OF_HOST: Final = {"pageable", "pinned"}
# The number of a release where the file does not name its own.
_RELEASE: Final = (1,)
# The bits of a metric's type that tell the GPU.
_GPU_BITS: Final = 0xFF
# Names of API calls end in the version that introduced the call (cudaLaunchKernel_v7000), which
# nsys itself leaves out.
_VERSION: Final = re.compile(r"_v[0-9]{4}\Z")
_API: Final = re.compile("cu(da)?")
_UNNAMED: Final = constant(UNNAMED)
# In place of the stream or event of what has none; before nsys 2024 of the stream of any wait.
_NONE: Final = 2**32 - 1


def _call_names(of: Export) -> Names:
    """The names that calls have: most texts of a file are those of kernels."""
    pieces = of.stored(RUNTIME).pieces(["nameId"])
    used = {number for (column,) in pieces for number in distinct(column.filled).tolist()}
    all_texts = zip(of.texts.numbers, of.texts.columns["name"], strict=True)
    text_of = {number: text for number, text in all_texts if number in used}
    names = [None if text is None else _VERSION.sub("", text) for text in text_of.values()]
    prefixes = [_API.match(text or "") for text in text_of.values()]
    apis = [None if match is None else "runtime" if match[1] else "driver" for match in prefixes]
    return Names([*text_of], {"name": names, "api": apis})


def _kernels(of: Export) -> Part:
    numbers = [name for name in ("demangledName", "shortName") if of.has(KERNEL, name)]
    if of.required.get(KERNEL, frozenset()).issuperset(numbers[:1]):
        del numbers[1:]  # of millions of kernels, to decode one more column takes long
    name: Columns = {"name": _UNNAMED}
    if STRINGS in of.columns:
        name = {"name_id": first_known(*numbers) if numbers else None}
    columns = place(of, KERNEL) | KERNEL_COLUMNS | GRAPH_NODE | name
    return part(of, KERNEL, columns, *timed(of, KERNEL))


def _memsets(of: Export) -> Part:
    columns = place(of, MEMSET) | {
        "bytes": "bytes",
        "memory_kind": translated("memKind", of.memory_kinds),
    }
    return part(of, MEMSET, columns, *timed(of, MEMSET))


def _api_calls(of: Export) -> Part:
    keep = timed(of, RUNTIME)
    if of.has(RUNTIME, "eventClass"):
        keep.append(Computed(("eventClass",), lambda number: number != of.backtrace_class))
    has_names = STRINGS in of.columns
    name: Columns = {"name_id": "nameId"} if has_names else {"name": _UNNAMED}
    columns = {**TIMES, **name, **THREAD, "correlation_id": "correlationId"}
    return part(of, RUNTIME, columns, *keep)


def _graph_launches(of: Export) -> Part:
    graph: Columns = {"graph_id": of.pick(GRAPH_TRACE, "graphId", "graphExecId")}
    return part(of, GRAPH_TRACE, place(of, GRAPH_TRACE) | graph, *timed(of, GRAPH_TRACE))


def _page_faults(of: Export, table: str, word: str) -> Part:
    is_gpu = word == "gpu"
    end = of.pick(table, "end")
    # The CPU's have no end, and each row is one.
    columns: Columns = {
        "start_ns": "start",
        "end_ns": "start" if end is None else first_known(end, "start"),
        "processor": constant(word),
        "process_id": PROCESS,
        "device_id": in_machine(of, table, "deviceId") if is_gpu else None,
        "faults": "numberOfPageFaults" if is_gpu else Computed((), lambda: 1),
    }
    return part(of, table, columns)


def _overheads(of: Export, table: str, word: str) -> Part:
    name = RangeTexts(of, table, "nameId").computed()
    columns = {**TIMES, **THREAD, "source": constant(word), "name": name}
    return part(of, table, columns, *timed(of, table))


def _host_calls(of: Export, table: str, word: str) -> Part:
    name = RangeTexts(of, table, "text", "textId").computed("unknown")
    name = name or RangeTexts(of, table, "nameId").computed("unknown") or _UNNAMED
    columns: Columns = {**TIMES, **THREAD, "library": constant(word), "name": name}
    more = sorted({"globalTid", "textId", "nameId", "text"} & {*of.columns[table]})
    in_order = Computed(("start", "end"), lambda start, end: end >= start)

    def are_first(*of_rows: Numbers | Values) -> Flags:
        # A wait for several requests has a row for each.
        columns = [column.numbers if isinstance(column, Values) else column for column in of_rows]
        order = np.lexsort(columns)
        is_first = np.ones(len(order), bool)
        is_first[order[1:]] = np.logical_or.reduce([c[order[1:]] != c[order[:-1]] for c in columns])
        return is_first

    keep = (*timed(of, table), in_order, Computed(("start", "end", *more), are_first))
    return part(of, table, columns, *keep, is_whole=lambda: True)


def nvtx_ranges(of: Export) -> Part:
    """Ranges of threads and of processes."""
    texts = RangeTexts(of, NVTX, "text", "textId")
    columns = {
        **TIMES,
        **THREAD,
        "text": texts.computed(),
        "domain": texts.domain(),
        "range_kind": translated("eventType", _RANGE_KINDS),
    }
    is_range = Computed(("eventType",), lambda kind: is_any_of(kind, _RANGE_KINDS))
    return part(of, NVTX, columns, *timed(of, NVTX), is_range)


class RangeTexts:
    """The texts of ranges, which stand in the event or among the texts of the file.

    Args:
        of: The export.
        table: That of the ranges, or of calls that a library marks as such.
        columns: Those that hold them or their numbers, the one that counts first.
    """

    def __init__(self, of: Export, table: str, *columns: str) -> None:
        self._of, self._words = of, Words([None])
        self._reads = tuple(
            name
            for name in columns
            if of.has(table, name) and (name == "text" or STRINGS in of.columns)
        )

    def computed(self, missing: str | None = None) -> Computed | None:
        """The text of each range, or what stands where there is none; None for no such column."""
        words = lambda: [missing, *self._words.words[1:]]  # noqa: E731 - read when all are met
        return Computed(self._reads, self._numbers, words) if self._reads else None

    @cached_property
    def _places(self) -> ByNumber:
        texts = self._of.texts
        places = [self._words.place(text) for text in texts.columns["name"]]
        return ByNumber(texts.numbers, places, 0)

    def _numbers(self, *columns: Any) -> Numbers:
        places: Any = None
        for column in columns:
            if isinstance(column, Values):
                places = self._words.numbers(column)
            elif places is None or (is_null := places == 0).all():
                places = self._places.of(column)
            elif is_null.any():
                places = np.where(is_null, self._places.of(column), places)
        numbers: Numbers = places
        return numbers

    def domain(self) -> Computed:
        """The name of each range's domain; empty for none."""
        number, thread = (self._of.pick(NVTX, name) for name in ("domainId", "globalTid"))
        if number is None or not self._reads:
            return constant("")

        def make(numbers: Numbers, *threads: Numbers) -> Numbers:
            pairs, _ = self._domains
            process = low_bits(24)(threads[0]) if threads else np.full(len(numbers), UNKNOWN)
            return pair_places(pairs, process, numbers) + 1

        reads = (number,) if thread is None else (number, thread)
        return Computed(reads, make, lambda: self._domains[1])

    @cached_property
    def _domains(self) -> tuple[Numbers, list[str]]:
        """The places of processes and domains among those that have a name, and all names."""
        of = self._of
        number, thread = (of.pick(NVTX, name) for name in ("domainId", "globalTid"))
        reads = ["eventType", *filter(None, (number, thread)), *self._reads]
        names: dict[tuple[int, int], str] = {}
        for piece in of.stored(NVTX).pieces(reads):
            columns = dict(zip(reads, piece, strict=True))
            rows = np.flatnonzero(columns["eventType"].numbers == _DOMAIN_CREATED)
            if not len(rows):
                continue
            of_rows = [c.take(rows) if c.words else c.take(rows).filled for c in columns.values()]
            at: dict[str, Any] = dict(zip(reads, of_rows, strict=True))
            places = self._numbers(*(at[name] for name in self._reads)).tolist()
            none = np.full(len(rows), UNKNOWN)
            processes = none if thread is None else low_bits(24)(at[thread])
            domains = at[number or ""].tolist()
            for process, domain, word in zip(processes.tolist(), domains, places, strict=True):
                name = self._words.words[word]
                if name is not None and domain != UNKNOWN:
                    names.setdefault((process, domain), name)
        pairs = sorted(names)
        return np.array(pairs, np.int64).reshape(-1, 2).T, ["", *(names[pair] for pair in pairs)]


def memory_events(of: Export) -> Part:
    """Every allocation and release (``--cuda-memory-usage=true``), with the thread of its call.

    CUPTI reports what is asked of CUDA, so an allocator that keeps blocks, such as PyTorch's,
    counts with what it took. Host memory is that which CUDA allocated. Managed memory counts with
    the device that it was allocated for, wherever its pages are.
    """
    operations = of.select(MEMORY_OPERATIONS, id=int, name=str)
    releases = [n for n, name in operations if name.endswith("_DEALLOCATION")] or _RELEASE

    def signed_bytes(size: Numbers, operation: Numbers) -> Numbers:
        return np.where(is_any_of(operation, releases), -size, size)

    # Memory of the host is of no device.
    device = as_computed(in_machine(of, MEMORY_USAGE, "deviceId"))
    host_kinds = [number for number, kind in of.memory_kinds.items() if kind in _OF_HOST]

    def device_of(kind: Numbers, *columns: Numbers) -> Numbers:
        return np.where(is_any_of(kind, host_kinds), UNKNOWN, device.make(*columns))

    has_kinds = of.has(MEMORY_USAGE, "memKind")
    columns: Columns = {
        "start_ns": "start",
        "process_id": PROCESS,
        "device_id": Computed(("memKind", *device.reads), device_of) if has_kinds else device,
        "bytes": Computed(("bytes", "memoryOperationType"), signed_bytes),
        "address": "address",
    }
    if of.has(RUNTIME, "globalTid", "correlationId"):
        columns["thread_id"] = _thread(of)
    # The threads are looked up for all rows at once.
    return part(of, MEMORY_USAGE, columns, is_whole=lambda: True)


def _thread(of: Export) -> Computed:
    def make(process: Numbers, call: Numbers) -> Numbers:
        thread, calls = columns_at_once(of.stored(RUNTIME), ["globalTid", "correlationId"])
        is_asked = np.isin(calls, call)
        thread, calls = thread[is_asked], calls[is_asked]
        order = np.lexsort((calls, low_bits(24)(thread)))
        thread, calls = thread[order], calls[order]
        pairs = np.stack([low_bits(24)(thread), calls]).astype(np.int64)
        place = pair_places(pairs, low_bits(24)(process), call)
        # What is not found has the last place.
        return np.append(low_bits(0)(thread), UNKNOWN)[place]

    return Computed(("globalPid", "correlationId"), make)


def gpu_metrics(of: Export) -> Part:
    """Every sample of GPU metrics (``--gpu-metrics-devices``), whatever its value.

    A value holds from its time to the next sample's. The number of a metric is not the same in all
    recordings, nor for all GPUs; a metric that nothing names is ``unknown``.
    """
    # Devices have their numbers in the machine, or those that CUDA gives them.
    ordinals = {gpu: number for _, number, gpu in of.device_numbers if isinstance(gpu, int)}
    devices = np.arange(_GPU_BITS + 1)
    if ordinals and not of.machine_numbers:
        # A GPU that no process uses has no number of CUDA's.
        devices = np.array([ordinals.get(gpu, UNKNOWN) for gpu in devices.tolist()])
    rows = of.select(METRIC_NAMES, typeId=int, metricId=int, metricName=str)
    names = {(type_id, number): name for type_id, number, name in sorted(rows)}
    words = [*dict.fromkeys(names.values()), "unknown"]
    # What is not found has the last place: that of the unknown.
    places = np.array([*map(words.index, names.values()), len(words) - 1])
    pairs = np.array([*names], np.int64).reshape(-1, 2).T

    def metric(type_id: Numbers, number: Numbers) -> Numbers:
        wide = (column.astype(np.int64, copy=False) for column in (type_id, number))
        name_numbers: Numbers = places[pair_places(pairs, *wide)]
        return name_numbers

    columns: Columns = {
        "start_ns": "timestamp",
        "device_id": Computed(("typeId",), lambda type_id: devices[type_id & _GPU_BITS]),
        "metric": Computed(("typeId", "metricId"), metric, lambda: words),
        "value": "value",
    }
    return part(of, GPU_METRICS, columns)


def _synchronizations(of: Export) -> Part:
    """Waits of hosts and streams."""
    columns = place(of, SYNCHRONIZATION) | {
        "stream_id": without("streamId", _NONE),
        "sync_kind": translated("syncType", SYNC_KINDS),
        "event_id": without("eventId", _NONE),
    }
    keys = ("globalPid", "eventId", "correlationId")
    if all(of.has(table, *keys) for table in (SYNCHRONIZATION, CUDA_EVENT)):
        places = [of.pick(CUDA_EVENT, name) for name in ("deviceId", "streamId")]

        @cache
        def records() -> EventRecords:
            # An event may be recorded again and again.
            return EventRecords(*columns_at_once(of.stored(CUDA_EVENT), [*keys, *places]))

        def latest(column: int, *waits: Numbers) -> Numbers:
            return records().latest(column, *waits)

        device, stream = (Computed(keys, partial(latest, number)) for number in range(len(places)))
        columns["src_device_id"] = in_machine(of, SYNCHRONIZATION, device)
        columns["src_stream_id"] = stream
    return part(of, SYNCHRONIZATION, columns, *timed(of, SYNCHRONIZATION))


def _cuda_events(of: Export) -> Part:
    """Records of events."""
    columns = {n: column for n, column in place(of, CUDA_EVENT).items() if n not in TIMES}
    return part(of, CUDA_EVENT, columns | {"event_id": "eventId"})


class EventRecords:
    """When events were recorded, again and again; ids of calls grow in their order.

    Args:
        columns: Process, event and correlation id of each record; then what is asked of it.
    """

    def __init__(self, *columns: Numbers) -> None:
        process, event, correlation = (c.astype(np.int64) for c in columns[:3])
        is_known = (process != UNKNOWN) & (event != UNKNOWN) & (correlation != UNKNOWN)
        order = np.lexsort((correlation, event, process))
        order = order[is_known[order]]
        process, event, correlation = (values[order] for values in (process, event, correlation))
        self._more = [column[order] for column in columns[3:]]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (process[1:] != process[:-1]) | (event[1:] != event[:-1])
        self._pairs = np.stack([process[is_first], event[is_first]])
        self._calls = np.unique(correlation)
        group = np.cumsum(is_first) - 1
        self._rank = group * (len(self._calls) + 1) + np.searchsorted(self._calls, correlation)
        self._group = group

    def latest(self, column: int, process: Numbers, event: Numbers, call: Numbers) -> Numbers:
        """What is asked of the latest record before each call."""
        if not len(self._rank):
            return np.full(len(event), UNKNOWN)
        group = pair_places(self._pairs, process, event)
        rank = group * (len(self._calls) + 1) + np.searchsorted(self._calls, call)
        place = np.searchsorted(self._rank, rank) - 1
        is_there = (group >= 0) & (place >= 0) & (self._group[place] == group) & (call != UNKNOWN)
        return np.where(is_there, self._more[column][place], UNKNOWN)


# Table, the export's that gives rows of it, the columns without which that says nothing, and how.
_SPAN: Final = ("start", "end")
_PARTS: Final[Sequence[tuple[str, str, tuple[str, ...], Callable[[Export], Part]]]] = (
    ("kernels", KERNEL, (), _kernels),
    ("memcpys", MEMCPY, (), memcpys),
    ("memsets", MEMSET, (), _memsets),
    ("api_calls", RUNTIME, (), _api_calls),
    ("nvtx_ranges", NVTX, (), nvtx_ranges),
    ("synchronizations", SYNCHRONIZATION, (), _synchronizations),
    ("cuda_events", CUDA_EVENT, (), _cuda_events),
    ("graph_launches", GRAPH_TRACE, (), _graph_launches),
    ("gpu_metrics", GPU_METRICS, ("timestamp", "typeId", "metricId", "value"), gpu_metrics),
    ("memory_events", MEMORY_USAGE, ("start", "bytes", "memoryOperationType"), memory_events),
    *(
        (name, raw, needed, partial(make, table=raw, word=word))
        for name, raws, make, needed in (
            ("host_calls", HOST_CALLS, _host_calls, _SPAN),
            ("page_faults", PAGE_FAULTS, _page_faults, _SPAN[:1]),
            ("overheads", OVERHEADS, _overheads, _SPAN),
        )
        for raw, word in raws.items()
    ),
)
# What the numbers of names mean, and the columns that depend on these alone.
_NAMED: Final[Mapping[str, tuple[Callable[[Export], Names], tuple[str, ...]]]] = {
    "kernels": (attrgetter("texts"), ("name",)),
    "api_calls": (_call_names, ("name", "api")),
}


def tables(of: Export) -> dict[str, Callable[[], Table]]:
    """Every table of the data model that the export's tables can fill."""
    makers: dict[str, list[Callable[[Export], Part]]] = {}
    for name, raw, needed, make in _PARTS:
        if of.has(raw, *needed):
            makers.setdefault(name, []).append(make)
    return {name: partial(_table, of, name, makes) for name, makes in makers.items()}


def _table(of: Export, name: str, makes: Sequence[Callable[[Export], Part]]) -> Table:
    parts = [make(of) for make in makes]
    if name not in _NAMED or STRINGS not in of.columns:
        return Table(BY_NAME[name], parts)
    names, of_names = _NAMED[name]
    return Table(BY_NAME[name], parts, partial(names, of), of_names)
