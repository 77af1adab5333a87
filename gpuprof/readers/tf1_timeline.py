"""Timelines of TensorFlow 1: JSON that ``timeline.Timeline`` made of a run's StepStats.

A lane per stream holds what ran on it, named after the TensorFlow operation. Two more lanes of
each GPU show it again: ``stream:all`` the kernels, ``memcpy`` the copies. ``MEMCPYHtoD`` tells a
copy's kind; a copy that an operation made has the operation's name, and only the memcpy lane
tells it from a kernel. A lane per task and device shows when the host ran its operations.
Source: https://github.com/tensorflow/tensorflow, tensorflow/python/client/timeline.py.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from gpuprof.base import cuda
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.json_input import Scalar, integer, text
from gpuprof.base.units import NS_PER_US
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.common import gunzip, json_events
from gpuprof.readers.input_format import Reader

_LANE: Final = re.compile(r"/device:GPU:(\d{1,4})/(memcpy|stream:(\d{1,18})) Compute$")
_OPERATIONS: Final = re.compile(r"^/job:\S*(?:CPU|GPU):\d{1,4} Compute$")
_MEMCPY: Final = re.compile(r"^MEMCPY(\w+)$")
_MEMSET: Final = "MEMSET"
# Half of what an int64 holds of nanoseconds, so that one can be taken from another.
_TIMES_US: Final = range(-(1 << 62) // NS_PER_US, (1 << 62) // NS_PER_US)
_MARK: Final = re.compile(rb'"args":\s*\{\s*"name":\s*"(?:Allocators"|/[^"]* (?:Compute|Tensors)")')


_Timed: TypeAlias = tuple[re.Match[str], int, int, str, Scalar]


class _Arguments(msgspec.Struct, gc=False):
    name: Scalar = None


class _Event(msgspec.Struct, gc=False):
    ph: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    name: Scalar = None
    ts: Scalar = None
    dur: Scalar = 0
    args: _Arguments = msgspec.field(default_factory=_Arguments)


class _Timeline(msgspec.Struct, rename={"trace_events": "traceEvents"}):
    trace_events: list[_Event]


def read(path: Path) -> Profile:
    """Read the timeline of one step.

    Raises:
        CorruptFileError: It is cut short, or breaks the format's rules.
        EmptyRecordingError: No stream of a GPU is in it.
    """
    with json_events.within_limits(path):
        events = json_events.decode(path, gunzip.content(path), _Timeline).trace_events
        activities = [
            (None if lane[3] is None else int(lane[3]), (start_us, duration_us, int(lane[1]), name))
            for lane, start_us, duration_us, name, _ in _in_lanes(path, events, _LANE)
        ]
        operations = [*_in_lanes(path, events, _OPERATIONS)]
    # The lane of copies shows them again.
    copies = {activity for stream_id, activity in activities if stream_id is None}
    ran = [(stream_id, activity) for stream_id, activity in activities if stream_id is not None]
    if not ran:
        msg = f"{path} holds no stream of a GPU: only operations were traced"
        raise EmptyRecordingError(msg, "Record with trace_level=RunOptions.FULL_TRACE and CUPTI.")
    origin_us = min(start_us for _, (start_us, *_) in ran)
    tables: dict[str, list[dict[str, Any]]] = {"kernels": [], "memcpys": [], "memsets": []}
    tables["nvtx_ranges"] = _ranges(operations, origin_us)
    for stream_id, activity in sorted(ran, key=lambda of: of[1][0]):
        start_us, duration_us, device_id, name = activity
        start_ns = (start_us - origin_us) * NS_PER_US
        row: dict[str, Any] = {
            "start_ns": start_ns,
            "end_ns": start_ns + duration_us * NS_PER_US,
            "device_id": device_id,
            "stream_id": stream_id,
        }
        match = _MEMCPY.match(name)
        if name == _MEMSET:
            tables["memsets"].append(row)
        elif match is None and activity not in copies:
            tables["kernels"].append(row | {"name": name})
        else:
            kind = match[1] if match and match[1] in cuda.MEMCPY_KINDS.values() else cuda.UNKNOWN
            tables["memcpys"].append(row | {"memcpy_kind": kind})
    origin = Origin(
        path,
        READER.name,
        "tensorflow",
        epoch_ns=origin_us * NS_PER_US,
        start_resolution_ns=NS_PER_US,
    )
    return Profile(
        origin, {name: data_model.BY_NAME[name].table(rows) for name, rows in tables.items()}
    )


def _ranges(operations: Iterable[_Timed], origin_us: int) -> list[dict[str, Any]]:
    """Operations on the host; those of one row of a lane never overlap, as if of a thread."""
    threads: dict[tuple[str, Scalar], int] = {}
    return [
        {
            "start_ns": (start_us - origin_us) * NS_PER_US,
            "end_ns": (start_us - origin_us + duration_us) * NS_PER_US,
            "text": name,
            "domain": "",
            "range_kind": data_model.OPERATION,
            "thread_id": threads.setdefault((lane[0], row), len(threads) + 1),
        }
        for lane, start_us, duration_us, name, row in sorted(operations, key=lambda of: of[1])
    ]


def _in_lanes(path: Path, events: Sequence[_Event], named: re.Pattern[str]) -> Iterator[_Timed]:
    """The events in lanes of some names: the match of the lane, start, duration, name and row.

    Times are in us.
    """
    lanes = {
        _key(event.pid): match
        for event in events
        if event.name == "process_name" and (match := named.search(text(event.args.name) or ""))
    }
    for event in events:
        match = lanes.get(_key(event.pid)) if event.ph == "X" else None
        if match is None:
            continue
        name, start_us, duration_us = text(event.name) or "", integer(event.ts), integer(event.dur)
        if start_us is None or duration_us is None:
            msg = f"{path}: the time of an event is not a whole number of microseconds"
            raise CorruptFileError(msg, json_events.EDITED)
        json_events.check_length(name)
        if start_us not in _TIMES_US or start_us + duration_us not in _TIMES_US:
            msg = "a time is not within 292 years"
            raise OverflowError(msg)
        yield match, start_us, duration_us, name, event.tid


def _key(pid: Scalar) -> Scalar:
    """The number of a lane, whether it is printed as a number or as a text."""
    number = integer(pid)
    return pid if number is None else number


READER: Final = Reader(
    name="tf1-timeline",
    title="TensorFlow 1 timelines (timeline.json)",
    versions="TensorFlow 1.0 to 1.15",
    gives=("kernels", "memcpys", "memsets", "nvtx_ranges"),
    cannot=(
        "Operations stand for kernels. Bytes are not recorded, nor are the kinds, sources and "
        "targets of most copies."
    ),
    read=read,
    recognises=lambda head: b'"traceEvents"' in head[:256] and bool(_MARK.search(head)),
)
