"""PyTorch's traces (Kineto): JSON for a browser's trace viewer, plain or gzip, one per process.

Written by ``torch.profiler`` from 1.8.1 (2020, a bare list with capitalised categories) to
today (nanoseconds counted from ``baseTimeNanoseconds``).
Source: https://github.com/pytorch/kineto, libkineto/src/output_json.cpp.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.json_input import Scalar, integer, text
from gpuprof.base.units import NS_PER_US, counted
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, Source
from gpuprof.model.table import Table, in_memory
from gpuprof.native import trace_events
from gpuprof.native.trace_events import Detail, EventRows
from gpuprof.readers.common import gunzip, json_events
from gpuprof.readers.input_format import Reader
from gpuprof.readers.kineto import allocations, event_tables, hip_calls
from gpuprof.readers.kineto.events import (
    ARGUMENTS,
    Alike,
    Device,
    EventKind,
    EventTimes,
    TimedEvents,
    TraceEvent,
)

# Category (capitalised until 2022) -> what its events are. The GPU's copy of an annotation
# (gpu_user_annotation) is left out: it is the host's one seen again.
CATEGORIES: Final = {
    "Kernel": EventKind.KERNELS,
    "kernel": EventKind.KERNELS,
    "Memcpy": EventKind.MEMCPYS,
    "gpu_memcpy": EventKind.MEMCPYS,
    "Memset": EventKind.MEMSETS,
    "gpu_memset": EventKind.MEMSETS,
    "Runtime": EventKind.RUNTIME,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.DRIVER,
    "user_annotation": EventKind.ANNOTATIONS,
    "Operator": EventKind.OPERATORS,
    "cpu_op": EventKind.OPERATIONS,
    "cuda_sync": EventKind.SYNCHRONIZATIONS,
}
# Calls of Python functions, and of modules.
_PYTHON: Final = "python_function"
# Without any of these the GPU was not traced.
_OF_A_GPU: Final = frozenset({*EventKind.WORK, *EventKind.CALLS})
# Kineto's categories of an accelerator that is no GPU (ActivityType.cpp of libkineto).
_OF_MTIA: Final = "mtia"
_MTIA: Final = ("runtime", "ccp_events", "workloadd", "insight", "counters")
# Of these kinds it is noted whether there are any.
_NOTED: Final = (EventKind.PYTHON, EventKind.MEMORY, _OF_MTIA)
_KINDS: Final = (
    CATEGORIES
    | {_PYTHON: EventKind.PYTHON, allocations.MEMORY: EventKind.MEMORY}
    | dict.fromkeys((f"{_OF_MTIA}_{name}" for name in _MTIA), _OF_MTIA)
)
# Of these only name, thread and times are read.
_SPANS: Final = frozenset({EventKind.ANNOTATIONS, EventKind.PYTHON})

# Above this number of microseconds a double no longer holds single nanoseconds, and Kineto
# printed doubles before it counted from baseTimeNanoseconds.
_EXACT_DOUBLE_US: Final = 2**53 // NS_PER_US
_DOUBLE_STEP_NS: Final = 250
_EVENTS_AT_ONCE: Final = 2048
PIECE_BYTES: Final = 1 << 20
# No job writes a larger one; of a packed file nobody sees how long it is.
_LARGEST_BYTES: Final = 64 << 30
_HOST_AND_PROCESS: Final = re.compile(r"(.+)_(\d{1,9})\.\d+\.pt\.trace\.json")
# Times since 1970 are here; a smaller one counts from the machine's start.
_UNIX_TIMES_NS: Final = range(10**18, 1 << 62)


# No job has more; a larger number is damage.
_WORLD_SIZES: Final = range(1, 1_000_001)


_KEYS: Final = {
    "trace_events": "traceEvents",
    "schema_version": "schemaVersion",
    "device_properties": "deviceProperties",
    "distributed_info": "distributedInfo",
    "base_time_nanoseconds": "baseTimeNanoseconds",
}


class _Category(msgspec.Struct, gc=False):
    cat: Scalar = None
    name: Scalar = None

    @property
    def label(self) -> str:
        """The category; of instants of the memory, which have one with others or none, the name."""
        label = allocations.MEMORY if self.name == allocations.MEMORY else self.cat
        return sys.intern(label) if isinstance(label, str) else ""


class _Categories(msgspec.Struct, rename=_KEYS):
    trace_events: list[_Category]


class _Distributed(msgspec.Struct):
    rank: Scalar = None
    world_size: Scalar = None


class _TraceFile(msgspec.Struct, rename=_KEYS):
    trace_events: list[msgspec.Raw]
    schema_version: Scalar = None
    device_properties: list[Device] = []
    distributed_info: _Distributed = msgspec.field(default_factory=_Distributed)
    base_time_nanoseconds: Scalar = 0
    host_name: Scalar = None
    INFO: list[Scalar] = []
    WARNING: list[Scalar] = []
    ERROR: list[Scalar] = []


def read(path: Path) -> Profile:
    """Read one process' trace.

    Raises:
        CorruptFileError: It is cut short, or breaks the format's rules.
        EmptyRecordingError: No GPU was traced.
    """
    with json_events.within_limits(path):
        trace, timed, on_demand = _trace(path)
        sound = {kind: _sound(group) for kind, group in timed.items()}
        starts = [group.start_ns for group in sound.values() if group.codes.size]
        if not starts:
            msg = f"{path}: no event of the GPU has a valid time"
            raise CorruptFileError(msg, json_events.EDITED)
        origin_ns = min(int(of_kind.min()) for of_kind in starts)
        is_exact = max(int(of_kind.max()) for of_kind in starts) < _EXACT_DOUBLE_US * NS_PER_US
        has_fractions = any(group.has_fractions for group in sound.values())
        epoch_ns = (integer(trace.base_time_nanoseconds) or 0) + origin_ns
        groups = {kind: group.since(origin_ns) for kind, group in sound.items()}
        is_rocm = hip_calls.is_rocm(groups)
        groups = hip_calls.regrouped(groups) if is_rocm else groups
        lost = sum(len(timed[kind].codes) - len(sound[kind].codes) for kind in timed)
        # `tensorboard_trace_handler` names files by the host and the process.
        named = _HOST_AND_PROCESS.match(path.name)
        is_process = named is not None and int(named[2]) == event_tables.process_id_of(groups)
        origin = Origin(
            source=path,
            reader=READER.name,
            tool="kineto",
            schema_version=text(trace.schema_version),
            epoch_ns=epoch_ns if epoch_ns in _UNIX_TIMES_NS else None,
            start_resolution_ns=(1 if is_exact else _DOUBLE_STEP_NS)
            if has_fractions
            else NS_PER_US,
            warnings=tuple(_warnings(trace, lost, groups, is_rocm=is_rocm)),
            host=text(trace.host_name) or (named[1] if named is not None and is_process else None),
        )
        rank, size = map(integer, (trace.distributed_info.rank, trace.distributed_info.world_size))
        # A range is searched number by number for what is none.
        is_size = size is not None and size in _WORLD_SIZES
        job = {"rank": rank, "world_size": size if is_size else None}
        sources: dict[str, Source] = {**event_tables.tables(groups, trace.device_properties, job)}
        reads = {EventKind.PYTHON: _python_calls, EventKind.MEMORY: _memory_events}
        for name in reads.keys() & on_demand:
            sources[name] = partial(reads[name], path, origin_ns)
        return Profile(origin, sources)


def _memory_events(path: Path, origin_ns: int) -> Table:
    """Allocations and releases, by start."""
    with json_events.within_limits(path):
        kinds = {allocations.MEMORY: EventKind.MEMORY}
        scanned = _scanned_rows(path, kinds, allocations.ARGUMENTS, {})
        if scanned is not None:
            with suppress(json_input.ShapeError):
                events = allocations.of_rows(scanned[0][EventKind.MEMORY], origin_ns)
                return in_memory(data_model.MEMORY_EVENTS, events)
        raw = _raw_events(path, allocations.MEMORY)
        return in_memory(data_model.MEMORY_EVENTS, allocations.of_events(path, raw, origin_ns))


def _raw_events(path: Path, category: str) -> list[msgspec.Raw]:
    """The events of one category as the file has them."""
    trace, categories = _decoded(path, gunzip.content(path))
    events = zip(trace.trace_events, categories, strict=True)
    return [event for event, of_category in events if of_category == category]


def _python_calls(path: Path, origin_ns: int) -> Table:
    """The calls of Python functions, which are read when they are asked for.

    Args:
        path: The file.
        origin_ns: The recording's origin, on the file's clock.
    """
    with json_events.within_limits(path):
        scanned = _scanned(path, {_PYTHON: EventKind.PYTHON}, {})
        if scanned is not None:
            timed = scanned[1][EventKind.PYTHON]
        else:
            timed = _timed(path, EventKind.PYTHON, _raw_events(path, _PYTHON))
        calls = event_tables.python_calls(_sound(timed).since(origin_ns))
        return in_memory(data_model.HOST_CALLS, calls)


def _sound(group: TimedEvents) -> TimedEvents:
    """Those whose times are valid: 0 means that CUPTI could not tell, and some are negative."""
    return group.rows((group.start_ns > 0) & (group.duration_ns >= 0))


def _trace(path: Path) -> tuple[_TraceFile, dict[str, TimedEvents], set[str]]:
    """What a trace says beside its events, its events by kind, and which kinds it has besides."""
    scanned = _scanned(path, _KINDS, dict.fromkeys(_NOTED, Detail.PRESENCE))
    if scanned is not None:
        trace, timed = scanned
        _check(path, timed.keys())
        noted = {kind for kind in _NOTED if timed.pop(kind, None) is not None}
        return trace, timed, noted
    trace, categories = _decoded(path, gunzip.content(path))
    chosen: defaultdict[str, list[msgspec.Raw]] = defaultdict(list)
    for event, category in zip(trace.trace_events, categories, strict=True):
        if category in _KINDS:
            chosen[_KINDS[category]].append(event)
    _check(path, chosen.keys())
    noted = {kind for kind in _NOTED if chosen.pop(kind, None) is not None}
    # What is not needed any more goes, and with the last raw event the text of the file.
    trace.trace_events, categories = [], []
    return trace, {kind: _timed(path, kind, chosen.pop(kind)) for kind in [*chosen]}, noted


def _check(path: Path, kinds: Collection[str]) -> None:
    """See that a trace has events of a GPU.

    Raises:
        EmptyRecordingError: It has none.
    """
    if _OF_A_GPU.isdisjoint(kinds):
        if _OF_MTIA in kinds:
            msg = f"{path} is a trace of an MTIA accelerator and has no GPU activity"
            raise EmptyRecordingError(msg)
        msg = f"{path} has no GPU activity: only the CPU was traced"
        hint = "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a GPU."
        raise EmptyRecordingError(msg, hint)


def _scanned(
    path: Path, kinds: Mapping[str, str], details: Mapping[str, Detail]
) -> tuple[_TraceFile, dict[str, TimedEvents]] | None:
    """A trace without its events, and these by kind, read piece by piece.

    None for a text that the compiled functions do not know for certain, or where there are none.
    """
    of_spans: dict[str, Detail] = dict.fromkeys(_SPANS, Detail.TIMES)
    scanned = _scanned_rows(path, kinds, ARGUMENTS, of_spans | dict(details))
    if scanned is None:
        return None
    rows_by_kind, members = scanned
    timed = {}
    try:
        trace = json_input.lenient(members, _TraceFile)
        for kind, rows in rows_by_kind.items():
            # What is printed in several ways may be alike.
            alike = Alike()
            places = alike.codes(
                json_input.decode(json_events.joined(rows.events), list[TraceEvent])
            )
            times = rows.start_ns, rows.duration_ns, rows.correlation_id
            timed[kind] = TimedEvents(alike.events, places[rows.codes], *times, rows.has_fractions)
    except json_input.LimitError:
        raise
    except json_input.JsonError:
        return None
    return trace, timed


def _scanned_rows(
    path: Path, kinds: Mapping[str, str], arguments: Sequence[str], details: Mapping[str, Detail]
) -> tuple[dict[str, EventRows], bytes] | None:
    """As of `trace_events.scanned`, of a file that is never held as a whole."""
    with gunzip.opened(path) as file:
        pieces = gunzip.pieces(path, file, PIECE_BYTES, _LARGEST_BYTES)
        return trace_events.scanned(pieces, kinds, arguments, details)


def _decoded(path: Path, data: bytes) -> tuple[_TraceFile, list[str]]:
    """The trace with its events still raw, and each event's category."""
    if data[:64].lstrip().startswith(b"["):
        categories = [e.label for e in json_events.decode(path, data, list[_Category])]
        return _TraceFile(json_events.decode(path, data, list[msgspec.Raw])), categories
    categories = [e.label for e in json_events.decode(path, data, _Categories).trace_events]
    return json_events.decode(path, data, _TraceFile), categories


def _timed(path: Path, kind: str, raw: Sequence[msgspec.Raw]) -> TimedEvents:
    """Events of one kind, decoded some at a time: each takes more memory than its text."""
    alike, has_fractions = Alike(), False
    fields: type[list[Any]] = list[EventTimes] if kind in _SPANS else list[TraceEvent]
    parts = []
    for begin in range(0, len(raw), _EVENTS_AT_ONCE):
        some = json_events.joined(raw[begin : begin + _EVENTS_AT_ONCE])
        events = [event for event in json_events.decode(path, some, fields) if event.ph == "X"]
        starts, durations = [event.ts for event in events], [event.dur for event in events]
        has_fractions = has_fractions or b"." in b",".join(starts)
        parts.append((
            alike.codes(events),
            json_events.exact_ns(path, starts),
            json_events.exact_ns(path, durations),
            np.fromiter((event.correlation for event in events), np.int64, len(events)),
        ))  # fmt: skip
    codes, starts_ns, durations_ns, ids = map(np.concatenate, zip(*parts, strict=True))
    return TimedEvents(alike.events, codes, starts_ns, durations_ns, ids, has_fractions)


def _warnings(
    trace: _TraceFile, lost: int, groups: Mapping[str, TimedEvents], *, is_rocm: bool
) -> Iterator[str]:
    """What a reader of the numbers must know of the trace and of its events."""
    if lost:
        yield f"Left out, since their times are not valid: {counted(lost, 'event', 'events')}."
    if any("CUPTI stopped early? = 1" in str(line) for line in trace.INFO):
        yield "CUPTI stopped early: not all GPU activities were collected."
    yield from (f"PyTorch reported: {line}" for line in (*trace.ERROR, *trace.WARNING))
    if is_rocm:
        yield from hip_calls.notes(groups)
    calls = "HIP calls" if is_rocm else "CUDA calls"
    if event_tables.is_untraced(groups):
        yield f"{calls} launched GPU work, but none was recorded: kernels and copies are unknown."
    elif not event_tables.has_work(groups):
        yield f"{calls} were recorded, but no GPU work."


_MARKS: Final = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo)"\s*:'
    rb'|"cat"\s*:\s*"(?:[Kk]ernel|Runtime|Operator|Mem(?:cpy|set)|cpu_op|cuda_(?:runtime|driver|sync)'
    rb"|gpu_mem(?:cpy|set)|(?:gpu_)?user_annotation|python_function|cpu_instant_event"
    rb'|ac2g|async_cpu_to_gpu|mtia_\w+)"'
)


_GIVES: Final = (
    *EventKind.WORK, "api_calls", "nvtx_ranges", EventKind.SYNCHRONIZATIONS, EventKind.PYTHON,
    EventKind.MEMORY, "collectives", "devices", "runs",
)  # fmt: skip
READER: Final = Reader(
    name="kineto",
    title="PyTorch profiler traces (.json, .json.gz), operations as ranges",
    versions="torch.profiler, 2020 to today, on CUDA and ROCm",
    gives=_GIVES,
    cannot=(
        "Traces before 2024 have times in whole microseconds. They do not show which part of a "
        "kernel's shared memory is static, nor, on ROCm, whether a copy was between two devices."
    ),
    read=read,
    recognises=lambda head: head.lstrip()[:1] in (b"{", b"[") and bool(_MARKS.search(head)),
)
