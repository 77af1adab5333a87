"""Timelines of TensorFlow 1: JSON that ``timeline.Timeline`` made of a run's StepStats.

A lane per stream holds what ran on it, named after the TensorFlow operation. Two more lanes of
each GPU show it again: ``stream:all`` the kernels, ``memcpy`` the copies. ``MEMCPYHtoD`` tells a
copy's kind; a copy that an operation made bears the operation's name, and only the memcpy lane
tells it from a kernel.
Source: https://github.com/tensorflow/tensorflow, tensorflow/python/client/timeline.py.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuprof import cuda, schema
from gpuprof.errors import EmptyRecordingError
from gpuprof.profile import Origin, Profile
from gpuprof.readers import json_events
from gpuprof.readers.contract import Reader
from gpuprof.units import NS_PER_US

_LANE: Final = re.compile(r"/device:GPU:(\d+)/(memcpy|stream:(\d+)) Compute$")
_MEMCPY: Final = re.compile(r"^MEMCPY(\w+)$")
_MEMSET: Final = "MEMSET"
_MARK: Final = re.compile(rb'"args":\s*\{\s*"name":\s*"(?:Allocators"|/[^"]* (?:Compute|Tensors)")')

Row = dict[str, Any]


class _Arguments(msgspec.Struct, gc=False):
    name: str | None = None


class _Event(msgspec.Struct, gc=False):
    ph: str
    pid: int
    name: str = ""
    ts: int = 0
    dur: int = 0
    args: _Arguments = msgspec.field(default_factory=_Arguments)


class _Timeline(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 - the format's name


def read(path: Path) -> Profile:
    """Read the timeline of one step.

    Raises:
        CorruptFileError: It is cut short, or breaks the format's rules.
        EmptyRecordingError: No stream of a GPU is in it.
    """
    events = json_events.decode(path, json_events.content(path), _Timeline).traceEvents
    lanes = {e.pid: _LANE.search(e.args.name or "") for e in events if e.name == "process_name"}
    copies = Counter(_same(e, m[1]) for e in events if (m := lanes.get(e.pid)) and m[3] is None)
    ran = [(e, m) for e in events if e.ph == "X" and (m := lanes.get(e.pid)) and m[3] is not None]
    if not ran:
        msg = f"{path} holds no stream of a GPU: only operations were traced"
        raise EmptyRecordingError(msg, "Record with trace_level=RunOptions.FULL_TRACE and CUPTI.")
    origin_us = min(event.ts for event, _ in ran)
    tables: dict[str, list[Row]] = {"kernels": [], "memcpys": [], "memsets": []}
    for event, lane in sorted(ran, key=lambda pair: pair[0].ts):
        is_copy = copies[_same(event, lane[1])] > 0
        table, row = _row(event, lane, is_copy=is_copy)
        tables[table].append(row | _times(event, origin_us))
    origin = Origin(
        path,
        READER.name,
        "tensorflow",
        epoch_ns=origin_us * NS_PER_US,
        start_resolution_ns=NS_PER_US,
    )
    return Profile(
        origin, {name: schema.BY_NAME[name].table(rows) for name, rows in tables.items()}
    )


def _same(event: _Event, device: str) -> tuple[str, str, int, int]:
    """What an event has in common with itself in another lane."""
    return device, event.name, event.ts, event.dur


def _row(event: _Event, lane: Sequence[str] | re.Match[str], *, is_copy: bool) -> tuple[str, Row]:
    place = {"device_id": int(lane[1]), "stream_id": int(lane[3])}
    if event.name == _MEMSET:
        return "memsets", place
    match = _MEMCPY.match(event.name)
    if match is None and not is_copy:
        return "kernels", place | {"name": event.name}
    kind = match[1] if match and match[1] in cuda.MEMCPY_KINDS.values() else cuda.UNKNOWN
    return "memcpys", place | {"memcpy_kind": kind}


def _times(event: _Event, origin_us: int) -> Row:
    start_us = event.ts - origin_us
    return {"start_ns": start_us * NS_PER_US, "end_ns": (start_us + event.dur) * NS_PER_US}


def _recognises(head: bytes) -> bool:
    return b'"traceEvents"' in head[:256] and _MARK.search(head) is not None


READER: Final = Reader(
    name="tf1-timeline",
    title="TensorFlow 1 timelines (timeline.json)",
    versions="TensorFlow 1.0 to 1.15",
    gives=("kernels", "memcpys", "memsets"),
    cannot="names of kernels (operations stand for them), bytes, or most copies' kinds and ends",
    read=read,
    recognises=_recognises,
)
