"""The tables of a PyTorch trace, from its events of each kind.

Source: https://github.com/pytorch/kineto, libkineto/src/CuptiActivity.cpp (arguments and names
of GPU events) and cupti_strings.cpp; the arguments of collectives: PyTorch's ParamCommsUtils.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from gpuprof.base import cuda, json_input
from gpuprof.base.json_input import Scalar, integer, text
from gpuprof.model import data_model, schema
from gpuprof.model.schema import arrow
from gpuprof.model.words import narrowed
from gpuprof.readers.common.compact_columns import column
from gpuprof.readers.kineto.events import (
    NOTHING,
    Arguments,
    Device,
    EventKind,
    TimedEvents,
    TraceEvent,
    different_events,
)

SYNC_KINDS: Final = {
    "Event Sync": "event",
    "Stream Wait Event": "stream_wait",
    "Stream Sync": "stream",
    "Context Sync": "context",
}
BYTES_PER_ELEMENT: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "Float"), 4),
    **dict.fromkeys(("Long", "Double", "ComplexFloat"), 8),
}

_MEMCPY: Final = re.compile(r"^Memcpy (\w+)(?: \((.+) -> (.+)\))?$")
_MEMSET: Final = re.compile(r"^Memset \((.+)\)$")
# Before annotations had a category of their own, they were operators, too: ProfilerStep#3,
# "## forward ##", nccl:all_reduce. Operations have the names of functions and classes.
_OPERATION: Final = re.compile(r"(?:autograd::engine::evaluate_function: )?\w+(?:::\w+)*")
_INVALID: Final = 2**32 - 1


def tables(
    groups: Mapping[str, TimedEvents], devices: Sequence[Device], job: Mapping[str, int | None]
) -> dict[str, pa.Table]:
    """All tables; those that CUPTI fills by default are there even when nothing happened.

    Args:
        groups: Events by kind.
        devices: What the trace says of devices.
        job: Rank and number of ranks, as columns of ``runs``.
    """
    process_id = process_id_of(groups)
    recorded = {
        data_model.API_CALLS.name: _api_calls(groups),
        data_model.NVTX_RANGES.name: _ranges(groups),
    }
    if not is_untraced(groups):
        kernels, copies, memsets = (groups.get(k, NOTHING).by_start() for k in EventKind.WORK)
        recorded[EventKind.KERNELS] = _kernels(kernels, process_id)
        recorded[EventKind.MEMCPYS] = _memcpys(copies, process_id)
        recorded[EventKind.MEMSETS] = _memsets(memsets, process_id)
        if any(event.args.collective for event in kernels.events):
            recorded[data_model.COLLECTIVES.name] = _collectives(kernels, process_id)
    # These two are there only where the user asked for them, and in newer versions.
    if EventKind.SYNCHRONIZATIONS in groups:
        group = groups[EventKind.SYNCHRONIZATIONS].by_start()
        recorded[EventKind.SYNCHRONIZATIONS] = _synchronizations(group, process_id)
    named = [
        {
            "device_id": integer(device.id),
            "name": text(device.name),
            "total_memory_bytes": integer(device.total_global_mem),
            "compute_capability": None if None in capability else "{}.{}".format(*capability),
            "multiprocessors": integer(device.num_sms) or None,
        }
        for device in devices
        if integer(device.id) is not None
        for capability in [(integer(device.compute_major), integer(device.compute_minor))]
    ]
    if named:
        recorded[data_model.DEVICES.name] = data_model.DEVICES.table(named)
    run = {"run_id": 0, "process_id": process_id, **job}
    return recorded | {data_model.RUNS.name: data_model.RUNS.table([run])}


def has_work(groups: Mapping[str, TimedEvents]) -> bool:
    """Whether any work of a GPU was recorded."""
    return any(groups.get(kind, NOTHING).codes.size for kind in EventKind.WORK)


def is_untraced(groups: Mapping[str, TimedEvents]) -> bool:
    """Whether calls launched work on a GPU, but no activity of it was recorded."""
    calls = different_events(groups, EventKind.CALLS)
    return not has_work(groups) and any(cuda.LAUNCHING_CALLS.match(e.label) for e in calls)


def process_id_of(groups: Mapping[str, TimedEvents]) -> int | None:
    """The traced process; a GPU event's own pid is the number of its device."""
    kinds = (*EventKind.CALLS, EventKind.ANNOTATIONS, EventKind.OPERATIONS, EventKind.OPERATORS)
    return _first(*(event.pid for event in different_events(groups, kinds)))


def _times(group: TimedEvents) -> dict[str, Any]:
    end_ns = group.start_ns + group.duration_ns
    return {"start_ns": arrow(group.start_ns), "end_ns": arrow(end_ns)}


def _correlated(group: TimedEvents) -> dict[str, Any]:
    ids = narrowed(group.correlation_id)
    return {**_times(group), "correlation_id": column(ids, ids >= 0)}


def _place(group: TimedEvents, process_id: int | None) -> dict[str, Any]:
    arguments = [event.args for event in group.events]
    return {
        **_correlated(group),
        "device_id": [device_id(event) for event in group.events],
        "context_id": [_first(a.context, a.in_context) for a in arguments],
        "stream_id": [_stream(event.args.stream, event.tid) for event in group.events],
        "process_id": [process_id] * len(arguments),
    }


def device_id(event: TraceEvent) -> int | None:
    """The device of a GPU's event, whose own pid is its number."""
    arguments = event.args
    return _first(arguments.device, arguments.in_device, event.pid)


def _stream(*values: Scalar) -> int | None:
    stream = _first(*values)
    return None if stream in (-1, _INVALID) else stream


def _first(*values: Scalar) -> int | None:
    """The first of some values that is a number."""
    numbers = map(integer, values)
    return next((number for number in numbers if number is not None), None)


def _narrow(table: schema.Schema, group: TimedEvents, columns: Mapping[str, Any]) -> pa.Table:
    """A table of columns of all events, and of lists of what the different events say."""
    codes = arrow(narrowed(group.codes))
    arrays = {
        name: pa.DictionaryArray.from_arrays(codes, pa.array(values, table.arrow.field(name).type))
        if isinstance(values, list)
        else values
        for name, values in columns.items()
    }
    return table.narrow(pa.table(arrays))


def _kernels(group: TimedEvents, process_id: int | None) -> pa.Table:
    arguments = [event.args for event in group.events]
    columns = {
        **_place(group, process_id),
        "name": [event.label for event in group.events],
        "registers_per_thread": [integer(a.registers) for a in arguments],
        "graph_node_id": [integer(a.graph_node) or None for a in arguments],
    }
    for axis, letter in enumerate("xyz"):
        columns[f"grid_{letter}"] = [_along(a.grid, axis) for a in arguments]
        columns[f"block_{letter}"] = [_along(a.block, axis) for a in arguments]
    return _narrow(data_model.KERNELS, group, columns)


def _along(sizes: tuple[Scalar, ...] | Scalar, axis: int) -> int | None:
    return integer(sizes[axis]) if isinstance(sizes, tuple) else None


def _memcpys(group: TimedEvents, process_id: int | None) -> pa.Table:
    place = _place(group, process_id)
    texts = (
        "memcpy_kind", "src_memory_kind", "dst_memory_kind", "src_device_id", "dst_device_id",
        "path",
    )  # fmt: skip
    rows = []
    for event, device in zip(group.events, place["device_id"], strict=True):
        kind, source, target = _memcpy_parts(event.label)
        ends = integer(event.args.from_device), integer(event.args.to_device)
        if kind not in ("PtoP", cuda.UNKNOWN) and event.args.from_device is None:
            # The host's side has none.
            ends = (None if kind[0] == "H" else device), (None if kind[-1] == "H" else device)
        # Without a direct way a peer copy is a DtoH and a HtoD that both claim device memory.
        is_half = kind in ("DtoH", "HtoD") and source == target == "device"
        path = "staged" if is_half else "direct" if kind == "PtoP" else None
        rows.append((kind, source, target, *ends, path))
    columns = {
        **place,
        **{name: [row[number] for row in rows] for number, name in enumerate(texts)},
        "bytes": [integer(event.args.bytes) for event in group.events],
    }
    return _narrow(data_model.MEMCPYS, group, columns)


def _memcpy_parts(name: str) -> tuple[str, str | None, str | None]:
    """Memcpy kind and both memory kinds of ``Memcpy HtoD (Pageable -> Device)``."""
    match = _MEMCPY.match(name)
    if match is None:
        return cuda.hip_memcpy_kind(name) or cuda.UNKNOWN, None, None
    kind = match[1] if match[1] in cuda.MEMCPY_KINDS.values() else cuda.UNKNOWN
    return kind, cuda.memory_kind(match[2]), cuda.memory_kind(match[3])


def memcpy_kind(name: str) -> str:
    """The kind of a copy by its event's name."""
    return _memcpy_parts(name)[0]


def _memsets(group: TimedEvents, process_id: int | None) -> pa.Table:
    kinds = [_MEMSET.match(event.label) for event in group.events]
    columns = {
        **_place(group, process_id),
        "bytes": [integer(event.args.bytes) for event in group.events],
        "memory_kind": [cuda.memory_kind(match[1]) if match else None for match in kinds],
    }
    return _narrow(data_model.MEMSETS, group, columns)


def _api_calls(groups: Mapping[str, TimedEvents]) -> pa.Table:
    runtime, driver = (groups.get(kind, NOTHING) for kind in EventKind.CALLS)
    group = runtime.followed_by(driver).by_start()
    apis = [EventKind.RUNTIME] * len(runtime.events) + [EventKind.DRIVER] * len(driver.events)
    columns = {
        **_correlated(group),
        "api": apis,
        "name": [event.label for event in group.events],
        "process_id": [integer(event.pid) for event in group.events],
        "thread_id": [integer(event.tid) for event in group.events],
    }
    return _narrow(data_model.API_CALLS, group, columns)


def _ranges(groups: Mapping[str, TimedEvents]) -> pa.Table:
    # Of what begins and ends at once, annotations are around operations, and what is first in
    # the file is around what follows: the sort keeps this order.
    kinds = [
        groups.get(kind, NOTHING)
        for kind in (EventKind.ANNOTATIONS, EventKind.OPERATIONS, EventKind.OPERATORS)
    ]
    annotations, operations, operators = (group.events for group in kinds)
    group = reduce(TimedEvents.followed_by, kinds).by_start()
    events = group.events
    columns = {
        **_times(group),
        "text": [event.label for event in events],
        "domain": [""] * len(events),
        "range_kind": [
            *["annotation"] * len(annotations),
            *[data_model.OPERATION] * len(operations),
            *(
                data_model.OPERATION if _OPERATION.fullmatch(event.label) else "annotation"
                for event in operators
            ),
        ],
        "process_id": [integer(event.pid) for event in events],
        "thread_id": [integer(event.tid) for event in events],
        "inputs": [_inputs(event.args) for event in events],
    }
    return _narrow(data_model.NVTX_RANGES, group, columns)


def _inputs(args: Arguments) -> str | None:
    """Shapes, types and values as JSON; None where no shapes were recorded."""
    parts = {
        "shapes": [*map(_numbers, _items(args.input_shapes) or _items(args.input_shapes_old))],
        "types": _items(args.input_types),
        "values": _items(args.input_values),
    }
    return json.dumps(parts, separators=(",", ":")) if parts["shapes"] else None


def _numbers(shape: Any) -> Any:
    """A shape, or a list of them, with sizes that were written as texts as numbers."""
    if isinstance(shape, list):
        return [*map(_numbers, shape)]
    return shape if (size := integer(shape)) is None else size


def _items(values: msgspec.Raw) -> list[Any]:
    """A list as it was recorded; an empty one in place of anything else."""
    try:
        items = json_input.decode(bytes(values), Any)
    except json_input.JsonError:
        return []
    return items if isinstance(items, list) else []


def python_calls(group: TimedEvents) -> pa.Table:
    """Calls of Python functions, by file, line and name, sorted by start."""
    group = group.by_start()
    columns = {
        **_times(group),
        "library": ["python"] * len(group.events),
        "name": [event.label for event in group.events],
        "process_id": [integer(event.pid) for event in group.events],
        "thread_id": [integer(event.tid) for event in group.events],
    }
    return _narrow(data_model.HOST_CALLS, group, columns)


def _synchronizations(group: TimedEvents, process_id: int | None) -> pa.Table:
    place = _place(group, process_id)
    sources = [_stream(event.args.src_stream) for event in group.events]
    columns = {
        **place,
        "sync_kind": [SYNC_KINDS.get(event.label) for event in group.events],
        "event_id": [integer(event.args.event) for event in group.events],
        # Kineto knows the events of a context by themselves: theirs is the same device.
        "src_device_id": [
            None if source is None else device
            for source, device in zip(sources, place["device_id"], strict=True)
        ],
        "src_stream_id": sources,
    }
    return _narrow(data_model.SYNCHRONIZATIONS, group, columns)


def _collectives(group: TimedEvents, process_id: int | None) -> pa.Table:
    is_named = np.array([e.args.collective is not None for e in group.events], np.bool_)
    named = group.rows(is_named[group.codes])
    arguments = [event.args for event in named.events]
    columns = {
        **_place(named, process_id),
        "kernel": [event.label for event in named.events],
        "collective": [text(a.collective) for a in arguments],
        "data_type": [text(a.dtype) for a in arguments],
        "bytes_in": [_message_bytes(a.elements_in, a.dtype) for a in arguments],
        "bytes_out": [_message_bytes(a.elements_out, a.dtype) for a in arguments],
        "group_size": [integer(a.group_size) for a in arguments],
        "process_group": [text(a.group) for a in arguments],
    }
    return _narrow(data_model.COLLECTIVES, named, columns)


def _message_bytes(elements: Scalar, dtype: Scalar) -> int | None:
    count, size = integer(elements), BYTES_PER_ELEMENT.get(text(dtype) or "")
    return None if count is None or size is None else count * size
