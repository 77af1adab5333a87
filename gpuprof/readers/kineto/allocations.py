"""Allocations and releases of memory in a PyTorch trace (``profile_memory=True``).

They are instants called ``[memory]``, without a category until 2022. Before 1.10 (2021) they say
neither an address nor what was allocated in all.
Source: https://github.com/pytorch/pytorch, torch/csrc/autograd/profiler_kineto.cpp.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.json_input import Scalar, integer
from gpuprof.model.data_model import MEMORY_EVENTS
from gpuprof.model.schema import arrow
from gpuprof.native.trace_events import EventRows
from gpuprof.readers.common import json_events

# The name of these events.
MEMORY: Final = "[memory]"
# c10::DeviceType of the host; all others are accelerators.
_HOST: Final = 0
_EVENTS_AT_ONCE: Final = 2048


class _MemoryArguments(msgspec.Struct, gc=False):
    device_type: Scalar = msgspec.field(default=None, name="Device Type")
    device_id: Scalar = msgspec.field(default=None, name="Device Id")
    bytes: Scalar = msgspec.field(default=None, name="Bytes")
    allocated: Scalar = msgspec.field(default=None, name="Total Allocated")
    reserved: Scalar = msgspec.field(default=None, name="Total Reserved")
    # The last one: it is read as what tells one event from another.
    address: Scalar = msgspec.field(default=None, name="Addr")


# As a trace spells them.
ARGUMENTS: Final = tuple(field.encode_name for field in msgspec.structs.fields(_MemoryArguments))


class _MemoryEvent(msgspec.Struct, gc=False):
    pid: Scalar = None
    tid: Scalar = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    args: _MemoryArguments = msgspec.field(default_factory=_MemoryArguments)


def of_rows(rows: EventRows, origin_ns: int) -> pa.Table:
    """The table of events that were read piece by piece, addresses in place of correlations.

    Raises:
        JsonError: One of them is of another shape.
    """
    parts = [
        _columns(json_input.decode(json_events.joined(some), list[_MemoryEvent]))
        for begin in range(0, len(rows.events), _EVENTS_AT_ONCE)
        if (some := rows.events[begin : begin + _EVENTS_AT_ONCE])
    ]
    columns = _joined(parts)[:, rows.codes]
    columns[-1] = rows.correlation_id
    return _table(rows.start_ns - origin_ns, columns)


def of_events(path: Path, raw: Sequence[msgspec.Raw], origin_ns: int) -> pa.Table:
    """The same of events as the file has them."""
    starts, parts = [np.empty(0, np.int64)], []
    for begin in range(0, len(raw), _EVENTS_AT_ONCE):
        text = json_events.joined(raw[begin : begin + _EVENTS_AT_ONCE])
        events = json_events.decode(path, text, list[_MemoryEvent])
        starts.append(json_events.exact_ns(path, [event.ts for event in events]))
        parts.append(_columns(events))
    return _table(np.concatenate(starts) - origin_ns, _joined(parts))


_NAMES: Final = (
    "process_id", "thread_id", "device_id", "bytes", "allocated_bytes", "reserved_bytes", "address"
)  # fmt: skip
# Stands for what is not told.
_NONE: Final = -1 << 63


def _columns(events: Sequence[_MemoryEvent]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The columns of `_NAMES`, a row for each."""
    rows = []
    for event in events:
        of = event.args
        is_host = integer(of.device_type) == _HOST
        device = None if is_host else integer(of.device_id)
        # The allocator of the host does not say what it holds.
        reserved = None if is_host else integer(of.reserved)
        numbers = (*map(integer, (event.pid, event.tid)), device, integer(of.bytes))
        rows.append((*numbers, integer(of.allocated), reserved, integer(of.address)))
    filled = [[_NONE if number is None else number for number in row] for row in rows]
    return np.array(filled, np.int64).reshape(-1, len(_NAMES)).T


def _joined(parts: list[np.ndarray[Any, np.dtype[np.int64]]]) -> Any:
    return np.concatenate(parts, axis=1) if parts else np.empty((len(_NAMES), 0), np.int64)


def _table(start_ns: Any, columns: Any) -> pa.Table:
    by_name = dict(zip(_NAMES, columns, strict=True))
    by_name["address"] = np.where(by_name["address"] == -1, _NONE, by_name["address"])
    is_sized = by_name["bytes"] != _NONE
    order = np.flatnonzero(is_sized)[np.argsort(start_ns[is_sized], kind="stable")]
    arrays = {name: arrow(v[order], v[order] == _NONE) for name, v in by_name.items()}
    return MEMORY_EVENTS.narrow(pa.table({"start_ns": arrow(start_ns[order]), **arrays}))
