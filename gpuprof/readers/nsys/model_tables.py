"""The tables of an export of Nsight Systems as those of the data model."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import numpy as np

from gpuprof.model.schema import BY_NAME
from gpuprof.model.table import Computed, Flags, Part, Table, constant, translated
from gpuprof.model.words import UNNAMED, Names, Values
from gpuprof.readers.nsys.columns import (
    GRAPH_NODE,
    PROCESS,
    THREAD,
    TIMES,
    Columns,
    Export,
    Numbers,
    first_known,
    in_machine,
    part,
    place,
    timed,
)
from gpuprof.readers.nsys.event_waits import cuda_events, synchronizations
from gpuprof.readers.nsys.export_schema import (
    CUDA_EVENT,
    GPU_METRICS,
    GRAPH_TRACE,
    HOST_CALLS,
    KERNEL,
    KERNEL_COLUMNS,
    MEMCPY,
    MEMORY_USAGE,
    MEMSET,
    NVTX,
    OVERHEADS,
    PAGE_FAULTS,
    RUNTIME,
    STRINGS,
    SYNCHRONIZATION,
)
from gpuprof.readers.nsys.gpu_metrics import gpu_metrics
from gpuprof.readers.nsys.memory_usage import memory_events
from gpuprof.readers.nsys.nvtx_texts import RangeTexts, nvtx_ranges
from gpuprof.readers.nsys.peer_copies import memcpys

# Names of API calls end in the version that introduced the call (cudaLaunchKernel_v7000), which
# nsys itself leaves out.
_VERSION: Final = re.compile(r"_v[0-9]{4}\Z")
_API: Final = re.compile("cu(da)?")
_UNNAMED: Final = constant(UNNAMED)


def _call_names(of: Export) -> Names:
    texts = of.texts.columns["name"]
    names = [None if text is None else _VERSION.sub("", text) for text in texts]
    prefixes = [_API.match(text or "") for text in texts]
    apis = [None if match is None else "runtime" if match[1] else "driver" for match in prefixes]
    return Names(of.texts.numbers, {"name": names, "api": apis})


def _kernels(of: Export) -> Part:
    numbers = [name for name in ("demangledName", "shortName") if of.has(KERNEL, name)]
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


# Table, the export's that gives rows of it, the columns without which that says nothing, and how.
_SPAN: Final = ("start", "end")
_PARTS: Final[Sequence[tuple[str, str, tuple[str, ...], Callable[[Export], Part]]]] = (
    ("kernels", KERNEL, (), _kernels),
    ("memcpys", MEMCPY, (), memcpys),
    ("memsets", MEMSET, (), _memsets),
    ("api_calls", RUNTIME, (), _api_calls),
    ("nvtx_ranges", NVTX, (), nvtx_ranges),
    ("synchronizations", SYNCHRONIZATION, (), synchronizations),
    ("cuda_events", CUDA_EVENT, (), cuda_events),
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
