"""From the rows of a report to tables of the data model, as those of an export become them.

See `gpuprof.readers.nsys.model_tables`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import MEMCPY_KINDS, NSYS_MEMORY_KINDS, UNKNOWN
from gpuprof.model import schema
from gpuprof.model.schema import arrow
from gpuprof.model.words import narrowed
from gpuprof.native.reports import Message
from gpuprof.readers.common.compact_columns import Coded, Integers, Lexicon, coded
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.device_ordinals import MachineNumbers, machine_numbers
from gpuprof.readers.nsys_report.file import (
    CALLS,
    CUDA,
    LIBRARIES,
    OS,
    OVERHEAD,
    PROCESSES,
    Report,
    Rows,
)

_SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
_RANGE_KINDS: Final = {59: "push_pop", 60: "start_end"}
_PUSH_POP, _DOMAIN_CREATED = 59, 75
_FIRST_WITH_USES: Final = "2025"
_NONE: Final = 2**32 - 1  # in place of a stream or an event
_DTOH, _HTOD = 2, 1  # kinds of copies
_DEVICE: Final = 2  # a kind of memory
_STOPS: Final = ("cudaProfilerStop", "cuProfilerStop")
# Names of calls end in the version that introduced the call (cudaLaunchKernel_v7000).
_CALL_VERSION: Final = re.compile(r"_v[0-9]{4}\Z")


def _place(rows: Rows, *, is_timed: bool = True) -> dict[str, pa.Array]:
    times = {"start_ns": rows.array("start"), "end_ns": rows.array("end")} if is_timed else {}
    return times | {
        "device_id": rows.array("deviceId"),
        "context_id": rows.array("contextId"),
        "stream_id": rows.array("streamId"),
        "process_id": arrow(rows.bits("globalPid", 24), rows.nulls("globalPid")),
        "correlation_id": rows.array("correlationId"),
    }


def _thread(rows: Rows) -> dict[str, pa.Array]:
    is_null = rows.nulls("globalTid")
    return {
        "start_ns": rows.array("start"),
        "end_ns": rows.array("end"),
        "process_id": arrow(rows.bits("globalTid", 24), is_null),
        "thread_id": arrow(rows.bits("globalTid", 0), is_null),
    }


def _kernels(report: Report, rows: Rows) -> pa.Table:
    names = np.where(
        rows.nulls("demangledName"), *map(rows.numbers, ("shortName", "demangledName"))
    )
    columns = {name: rows.array(of_row) for name, of_row in export_schema.KERNEL_COLUMNS.items()}
    columns["name"] = report.names(names).array(pa.string())
    columns["graph_node_id"] = rows.array("graphNodeId", none=0)
    return schema.KERNELS.narrow(pa.table(_place(rows) | columns))


def _memcpys(_report: Report, rows: Rows) -> pa.Table:
    kinds, device = rows.words("copyKind", MEMCPY_KINDS), rows.numbers("deviceId")
    pairs = _staged(rows)
    ends = []
    for letter, name in enumerate(("srcDeviceId", "dstDeviceId")):
        # Of a peer copy the device is where it ran; other copies touch the one they ran on.
        on_device = [
            word
            for word in kinds.values
            if word not in {UNKNOWN, "PtoP", "UVM_DtoD"}
            and word.removeprefix("UVM_")[-letter] in "DA"
        ]
        end = np.where(kinds.are(*on_device), device, -1)
        end = np.where(rows.nulls(name), end, rows.numbers(name))
        ends.append(np.where(pairs[letter] >= 0, pairs[letter], end))
    is_between = kinds.are("DtoD") & ~(rows.nulls("srcDeviceId") | rows.nulls("dstDeviceId"))
    is_between &= rows.numbers("srcDeviceId") != rows.numbers("dstDeviceId")
    path = np.where(kinds.are("PtoP") | is_between, np.int8(0), np.int8(-1))
    columns = {
        "memcpy_kind": kinds.array(pa.string()),
        "bytes": rows.array("bytes"),
        "src_memory_kind": rows.words("srcKind", NSYS_MEMORY_KINDS).array(pa.string()),
        "dst_memory_kind": rows.words("dstKind", NSYS_MEMORY_KINDS).array(pa.string()),
        "src_device_id": arrow(narrowed(np.maximum(ends[0], 0)), ends[0] < 0),
        "dst_device_id": arrow(narrowed(np.maximum(ends[1], 0)), ends[1] < 0),
        "path": coded(["direct", "staged"], np.where(pairs[0] >= 0, 1, path)).array(pa.string()),
    }
    return schema.MEMCPYS.narrow(pa.table(_place(rows) | columns))


def _staged(rows: Rows) -> tuple[Integers, Integers]:
    """Source and destination of copies that are halves of one through the host; -1 for others.

    See `gpuprof.readers.nsys.peer_copies.Staged`.
    """
    ends = np.full((2, rows.count), -1, np.int64)
    kinds, memory = rows.numbers("copyKind"), [rows.numbers(n) for n in ("srcKind", "dstKind")]
    is_half = np.isin(kinds, (_DTOH, _HTOD)) & (memory[0] == _DEVICE) & (memory[1] == _DEVICE)
    is_half &= ~(rows.nulls("correlationId") | rows.nulls("deviceId") | rows.nulls("bytes"))
    halves = np.flatnonzero(is_half)
    groups: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    process, correlation = rows.bits("globalPid", 24), rows.numbers("correlationId")
    for row, *key, kind in zip(
        *(column.tolist() for column in (halves, process[halves], correlation[halves])),
        kinds[halves].tolist(),
        strict=True,
    ):
        groups.setdefault((key[0], key[1]), ([], []))[kind == _HTOD].append(row)
    device, size, start = (rows.numbers(name) for name in ("deviceId", "bytes", "start"))
    for out, back in groups.values():
        if not (out and back):
            continue
        (src, *more), (dst, *more_dst) = (np.unique(device[half]).tolist() for half in (out, back))
        is_pair = not more and not more_dst and src != dst and size[out].sum() == size[back].sum()
        if is_pair and start[out].min() <= start[back].min():
            ends[:, out + back] = [[src], [dst]]
    return ends[0], ends[1]


def _memsets(_report: Report, rows: Rows) -> pa.Table:
    kinds = rows.words("memKind", NSYS_MEMORY_KINDS).array(pa.string())
    columns = {"bytes": rows.array("bytes"), "memory_kind": kinds}
    return schema.MEMSETS.narrow(pa.table(_place(rows) | columns))


def _graph_launches(_report: Report, rows: Rows) -> pa.Table:
    return schema.GRAPH_LAUNCHES.narrow(pa.table(_place(rows)))


def _cuda_events(rows: Rows) -> pa.Table:
    columns = _place(rows, is_timed=False) | {"event_id": rows.array("eventId")}
    return schema.CUDA_EVENTS.narrow(pa.table(columns))


def _synchronizations(rows: Rows, events: Rows) -> pa.Table:
    old, new = (rows.words(n, _SYNC_KINDS) for n in ("deprecatedSyncType", "syncType"))
    kinds = replace(new, codes=np.where(new.codes < 0, old.codes, new.codes))
    columns = _place(rows) | {
        "stream_id": rows.array("streamId", none=_NONE),
        "sync_kind": coded(kinds.values, kinds.codes).array(pa.string()),
        "event_id": rows.array("eventId", none=_NONE),
    }
    last = _last_records(rows, events)
    for name, of_event in (("src_device_id", "deviceId"), ("src_stream_id", "streamId")):
        if events.count:
            is_null = (last < 0) | events.nulls(of_event)[last]
            columns[name] = arrow(narrowed(events.numbers(of_event, 0)[last]), is_null)
    return schema.SYNCHRONIZATIONS.narrow(pa.table(columns))


def _last_records(rows: Rows, events: Rows) -> Integers:
    """The record of the event that each waits for, of a call before its own; -1 for none.

    An event may be recorded again and again; ids grow in the order of calls.
    """
    keys = [
        table.bits("globalPid", 24).astype(np.int64) << 32 | table.numbers("eventId")
        for table in (events, rows)
    ]
    calls = [table.numbers("correlationId").astype(np.int64) for table in (events, rows)]
    order = np.lexsort((calls[0], keys[0]))
    different = np.unique(keys[0])
    numbers = [np.searchsorted(different, key) << 32 for key in keys]
    records = (numbers[0] | calls[0])[order]
    before = np.searchsorted(records, numbers[1] | calls[1]) - 1
    is_found = (before >= 0) & (keys[0][order][before] == keys[1]) if events.count else before >= 0
    return np.where(is_found, order[before] if events.count else -1, -1)


def _api_calls(report: Report, rows: Rows) -> pa.Table:
    names = report.names(rows.numbers("nameId"), lambda name: _CALL_VERSION.sub("", name))
    ids = rows.bits("globalTid", 24).astype(np.int64) << 32 | rows.numbers("correlationId", 0)
    ids.sort(kind="stable")
    # What stops the recording has the number of the next call.
    is_stop = names.are(*_STOPS)
    report.repeated += max(int((ids[1:] == ids[:-1]).sum()) - int(is_stop.sum()), 0)
    report.impossible += rows.impossible()
    columns = _thread(rows) | {
        "name": names.array(pa.string()),
        "api": names.mapped(_api).array(pa.string()),
        "correlation_id": rows.array("correlationId"),
    }
    return schema.API_CALLS.narrow(pa.table(columns))


def _api(name: str) -> str | None:
    return "runtime" if name.startswith("cuda") else "driver" if name.startswith("cu") else None


def _overheads(report: Report, rows: Rows) -> pa.Table:
    names = report.names(rows.numbers("nameId")).array(pa.string())
    columns = {"source": _one_word("profiler", rows.count), "name": names}
    return schema.OVERHEADS.narrow(pa.table(_thread(rows) | columns))


def _one_word(word: str, count: int) -> pa.Array:
    return coded([word], np.zeros(count, np.int8)).array(pa.string())


def _texts(report: Report, rows: Rows) -> Coded:
    """The texts of NVTX events, which stand in them or among all texts."""
    named = report.named(rows.numbers("textId"))
    codes = named.codes.astype(np.int32)
    codes[codes >= 0] += len(rows.texts)
    is_here = ~rows.nulls("text")
    codes[is_here] = rows.numbers("text")[is_here]
    return coded([*rows.texts, *named.values], codes)


def _domains(report: Report, events: Rows, rows: Rows) -> Coded:
    """The names of the domains of ranges; empty for the default one."""
    created = events.where(events.numbers("eventType") == _DOMAIN_CREATED)
    texts = _texts(report, created)
    names = [texts.values[code] if code >= 0 else "" for code in texts.codes.tolist()]
    different = [*dict.fromkeys(["", *names])]
    codes, process, number = np.zeros(rows.count, np.int16), *_domain(rows)
    for name, *key in zip(names, *(column.tolist() for column in _domain(created)), strict=True):
        codes[(process == key[0]) & (number == key[1])] = different.index(name)
    return coded(different, codes)


def _domain(rows: Rows) -> tuple[Integers, Integers]:
    return rows.bits("globalTid", 24), rows.numbers("domainId")


def _ranges(report: Report, events: Rows) -> tuple[pa.Table | None, tuple[Rows, Coded, Coded]]:
    """NVTX ranges, None where all are calls; and these, with their libraries and names."""
    rows = events.where(~events.words("eventType", _RANGE_KINDS).are(UNKNOWN)).timed()
    domains = _domains(report, events, rows)
    is_call = domains.are(*LIBRARIES)
    calls = rows.where(is_call).distinct("start", "end", "globalTid", "textId", "text")
    libraries = _domains(report, events, calls).mapped(lambda name: LIBRARIES.get(name, ""))
    library_calls = calls, libraries, _texts(report, calls)
    if events.count == calls.count:
        return None, library_calls
    ranges = rows.where(~is_call)
    del events, rows  # the most that a report holds
    nested = ranges.where(ranges.numbers("eventType") == _PUSH_POP)
    report.impossible += nested.impossible()
    del nested
    columns = _thread(ranges) | {
        "text": _texts(report, ranges).array(pa.string()),
        "domain": coded(domains.values, domains.codes[~is_call]).array(pa.string()),
        "range_kind": ranges.words("eventType", _RANGE_KINDS).array(pa.string()),
    }
    return schema.NVTX_RANGES.narrow(pa.table(columns)), library_calls


def _together(columns: Sequence[Coded]) -> Coded:
    """Columns of words one after another."""
    lexicon = Lexicon()
    places = [np.append(lexicon.codes(c.values, len(c.values)), -1) for c in columns]
    codes = [of_part[c.codes] for of_part, c in zip(places, columns, strict=True)]
    return coded(lexicon.texts, np.concatenate(codes))


def _host_calls(calls: Sequence[tuple[Rows, Coded, Coded]]) -> pa.Table:
    """Calls with their libraries and names."""
    parts, libraries, names = zip(*calls, strict=True)
    columns = {}
    for name in ("start", "end", "globalTid"):
        nulls = np.concatenate([part.nulls(name) for part in parts])
        columns[name] = np.concatenate([part.numbers(name) for part in parts]), nulls
    rows = Rows(columns, sum(part.count for part in parts), [])
    order = np.argsort(rows.numbers("start"), kind="stable")
    library, call = (_together(words) for words in (libraries, names))
    codes = np.where(call.codes < 0, len(call.values), call.codes)
    table = _thread(rows.taken(order)) | {
        "library": coded(library.values, library.codes[order]).array(pa.string()),
        "name": coded([*call.values, UNKNOWN], codes[order]).array(pa.string()),
    }
    return schema.HOST_CALLS.narrow(pa.table(table))


def devices(report: Report) -> tuple[pa.Table, MachineNumbers]:
    """The devices, and the machine's numbers of those that processes number in their own ways."""
    gpus = {gpu.integer(1): gpu for gpu in report.tail.messages(1, 2, 7)}
    mapped = [(m.integer(3), m.integer(2), m.integer(1)) for m in report.tail.messages(1, 2, 9)]
    uses = [use for use in mapped if use[2] in gpus]
    # nsys exports since 2025 who uses which; before it matters where a process has other numbers.
    if (report.version or "") < _FIRST_WITH_USES and all(o == gpu for _, o, gpu in uses):
        uses = []
    places: list[tuple[int, int | None, Message]] = [(n, None, gpu) for n, gpu in gpus.items()]
    if uses:
        places = [(ordinal, process, gpus[gpu]) for process, ordinal, gpu in uses]
    numbers = machine_numbers(uses)
    rows = [
        {
            "device_id": ordinal if process is None else numbers.get((process, ordinal), ordinal),
            "process_id": process,
            "name": gpu.text(2),
            "total_memory_bytes": gpu.integer(11) or None,
            "memory_bandwidth_bytes_per_s": gpu.integer(12) or None,
            "compute_capability": f"{gpu.integer(41)}.{gpu.integer(42)}"
            if gpu.integer(41)
            else None,
            "clock_hz": gpu.integer(13) or None,
            "multiprocessors": gpu.integer(14) or None,
            "bus_id": gpu.text(3) or None,
        }
        for ordinal, process, gpu in places
    ]
    return schema.DEVICES.table(rows), numbers


def runs(report: Report, recorded: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The processes that used CUDA, with what they were started as."""
    names: dict[int, str] = {}
    processes = report.rows(PROCESSES)
    texts = np.where(processes.nulls("name"), *map(processes.numbers, ("command", "name")))
    for process, text in zip(processes.bits("globalPid", 24).tolist(), texts.tolist(), strict=True):
        if text >= 0:
            names.setdefault(process, processes.texts[text])
    used = {m.integer(4) for m in report.tail.messages(15) or report.tail.messages(14)}
    for table in ("api_calls", "kernels"):
        if not used and table in recorded and recorded[table].num_rows:
            used = {*np.unique(recorded[table]["process_id"].to_numpy()).tolist()}
    rows = [
        {"run_id": number, "process_id": process, "command": names.get(process)}
        for number, process in enumerate(sorted(used))
    ]
    return {"runs": schema.RUNS.table(rows)} if rows else {}


def tables(report: Report, numbers: MachineNumbers) -> tuple[dict[str, pa.Table], int, Rows]:
    """The tables of which the file has rows, one after another, to hold no more than it must.

    Args:
        report: The file, whose rows are given up.
        numbers: The machine's numbers of devices that processes number in their own ways.

    Returns:
        The tables; how many activities have no times; and the calls of CUDA.
    """

    def rows_of(name: str) -> Rows:
        rows = report.rows(name)
        return rows.renumbered(numbers) if numbers else rows

    tables, untimed = {}, 0
    for name, (table, make) in _ACTIVITIES.items():
        rows = rows_of(name)
        timed = rows.timed(are_ordered=True)
        untimed += rows.count - timed.count
        if rows.count:
            tables[table] = make(report, timed)
    waits, records = rows_of(export_schema.SYNCHRONIZATION), rows_of(export_schema.CUDA_EVENT)
    if waits.count:
        tables["synchronizations"] = _synchronizations(waits.timed(), records)
    if records.count:
        tables["cuda_events"] = _cuda_events(records)
    of_host, cuda_calls = _host_tables(report)
    return tables | of_host, untimed, cuda_calls


def _host_tables(report: Report) -> tuple[dict[str, pa.Table], Rows]:
    """The tables of what was done on the host, and the calls of CUDA."""
    tables = {}
    # Ranges first, so that of the most events there are no more than a table and its calls.
    ranges, library_calls = _ranges(report, report.rows(export_schema.NVTX))
    if ranges is not None:
        tables["nvtx_ranges"] = ranges
    calls = report.rows(CALLS)
    cuda_calls, overheads, os_calls = map(calls.of_class, (CUDA, OVERHEAD, OS))
    if cuda_calls.count:
        tables["api_calls"] = _api_calls(report, cuda_calls.timed())
    if overheads.count:
        tables["overheads"] = _overheads(report, overheads.timed())
    report.impossible += os_calls.timed().impossible()
    os_calls = os_calls.timed(are_ordered=True).distinct("start", "end", "globalTid", "nameId")
    if os_calls.count or library_calls[0].count:
        libraries = coded(["os"], np.zeros(os_calls.count, np.int8))
        names = report.names(os_calls.numbers("nameId"))
        tables["host_calls"] = _host_calls([(os_calls, libraries, names), library_calls])
    return tables, cuda_calls


_ACTIVITIES: Final[Mapping[str, tuple[str, Callable[[Report, Rows], pa.Table]]]] = {
    export_schema.KERNEL: ("kernels", _kernels),
    export_schema.MEMCPY: ("memcpys", _memcpys),
    export_schema.MEMSET: ("memsets", _memsets),
    export_schema.GRAPH_TRACE: ("graph_launches", _graph_launches),
}
