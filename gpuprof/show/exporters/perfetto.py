"""Perfetto's trace format: lanes per device and stream, copies as flows, bytes in flight.

A trace is a sequence of packets with a timestamp in ns. Each device is a track, and so is the
host; below it lies a track for each stream (one more where activities of a stream overlap, since
slices of one track must nest) and a counter of the bytes in flight. A transfer is a slice on both
its ends, which a flow joins, from source to destination: on its stream on the device that the
tool recorded it on, on a lane of its own at the other end. Timestamps cannot be negative: where
an activity began before the recording did, all times are later by as much, and an event on a
track of its own says when the recording began.
Source: https://perfetto.dev/docs/reference/synthetic-track-event

The classes of the packets are those of the PyPI package ``perfetto``.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np

from gpuprof.base.errors import MissingToolError, install
from gpuprof.facts.copies import copy_rows, end_name
from gpuprof.facts.numbers import columns_of
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words
from gpuprof.show.cells import clean

NEEDS: Final = ("kernels", "memcpys")
EXAMPLE: Final = "trace.pftrace"
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_SEQUENCE: Final = 1
_FLUSH_PACKETS: Final = 20_000
_BEGIN: Final = "start of the recording"
_STREAM: Final = ("start_ns", "end_ns", "device_id", "context_id", "stream_id")
_TABLES: Final = ("kernels", "memsets", "graph_launches", "memcpys")
# What has no name of its own.
_NAMES: Final = {"memsets": "memset", "graph_launches": "CUDA graph"}
_ACTIVITIES_AT_ONCE: Final = 1 << 16

_Place = tuple[int | None, str]
_Packet = Any  # its package is untyped


class _Activity(NamedTuple):
    """One kernel, memset, graph or copy."""

    start_ns: int
    end_ns: int
    device_id: int | None
    context_id: int | None
    stream_id: int | None
    name: str
    bytes: int | None
    is_transfer: bool | None
    src: int | None
    dst: int | None
    is_staged: bool | None
    process_id: int | None
    correlation_id: int | None


def named(path: Path, _: int) -> Path:
    """The only file."""
    return path


def parts(profile: Profile) -> tuple[list[Callable[[IO[bytes]], None]], tuple[str, ...]]:
    """One file with the whole recording."""
    return [partial(write, profile)], ()


def write(profile: Profile, file: IO[bytes]) -> None:
    """Write a recording as a trace.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``memsets`` and ``graph_launches`` are
            shown where they were recorded.
        file: Open for bytes.

    Raises:
        MissingToolError: The package ``perfetto`` is not installed.
    """
    trace = _Trace(file, _shift_ns(profile))
    flows = _Flows()
    changes: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for activity in _activities(profile):
        for place, flow in flows.ends(activity):
            trace.slice(place, activity, flow)
        if activity.is_transfer and activity.bytes:
            for end in {activity.src, activity.dst}:
                changes[end] += [
                    (activity.start_ns, activity.bytes),
                    (activity.end_ns, -activity.bytes),
                ]
    for end, changes_at_end in changes.items():
        trace.counter(end, changes_at_end)
    trace.close()


def _shift_ns(profile: Profile) -> int:
    """How much later than in the recording each time is: 0 but where one is negative."""
    tables = filter(profile.has, _TABLES)
    starts = (start for name in tables for (start,) in profile.columns(name, "start_ns"))
    return -min([0, *(int(start.min()) for start in starts if len(start))])


def _activities(profile: Profile) -> Iterator[_Activity]:
    """All of them by their starts: lanes are given out in this order."""
    words = Words()
    tables = [_columns(profile, name, words) for name in _TABLES if profile.has(name)]
    columns = [np.concatenate(column) for column in zip(*tables, strict=True)]
    order = np.lexsort(columns[1::-1])
    for at in range(0, len(order), _ACTIVITIES_AT_ONCE):
        listed = [column[order[at : at + _ACTIVITIES_AT_ONCE]].tolist() for column in columns]
        for start, end, *values in zip(*listed, strict=True):
            filled: list[Any] = [None if value == UNKNOWN else value for value in values]
            filled[3] = words.words[values[3]]
            yield _Activity(start, end, *filled)


def _columns(profile: Profile, table: str, words: Words) -> list[Any]:
    """The columns of `_Activity`, names as places among words; what is no copy lacks the others."""
    texts = {"name": words} if table == "kernels" else {}
    columns = columns_of(profile.columns(table, *_STREAM, *texts, texts=texts), 5 + len(texts))
    count = len(columns[0])
    if table != "memcpys":
        if table in _NAMES:
            columns.append(np.full(count, words.place(_NAMES[table])))
        return [*columns, *np.full((7, count), UNKNOWN, np.int8)]
    copies = copy_rows(profile)
    kinds = Words()
    movement = copies.movements(kinds.place)
    name = np.array([*map(words.place, kinds.words)], np.int32)[movement]
    return [
        *columns, name, copies.bytes, copies.is_transfer, copies.src, copies.dst,
        copies.is_staged, copies.process, copies.correlation,
    ]  # fmt: skip


class _Flows:
    """Where copies begin and end, and the numbers of the flows between."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._begun: dict[tuple[int | None, int | None], deque[int]] = defaultdict(deque)

    def ends(self, activity: _Activity) -> list[tuple[_Place, tuple[int, bool] | None]]:
        """The slices of an activity: each its place, and its flow's number, and whether it begins.

        A transfer has two, the source's first; each half of a staged activity has its own, and the
        flow goes from the half that leaves the source to that of the same launch that arrives.
        """
        name = "unknown stream" if activity.stream_id is None else f"stream {activity.stream_id}"
        is_usual = activity.context_id in {None, 0, 1}
        name = name if is_usual else f"{name} of context {activity.context_id}"
        stream = activity.device_id, name
        if not activity.is_transfer:
            return [(stream, None)]
        if activity.is_staged:
            halves = self._begun[activity.process_id, activity.correlation_id]
            if activity.device_id == activity.src or not halves:
                halves.append(next(self._numbers))
                return [(stream, (halves[-1], True))]
            return [(stream, (halves.popleft(), False))]
        number, source, target = next(self._numbers), stream, stream
        if activity.src != activity.device_id:
            source = activity.src, f"copies to {end_name(activity.dst)}"
        if activity.dst != activity.device_id:
            target = activity.dst, f"copies from {end_name(activity.src)}"
        return [(source, (number, True)), (target, (number, False))]


class _Trace:
    """Packets on their way into a file, with the numbers of tracks and names.

    Args:
        file: Open for bytes.
        shift_ns: How much later than in the recording each time is.
    """

    def __init__(self, file: IO[bytes], shift_ns: int) -> None:
        try:
            proto = import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        except ImportError as error:
            msg = "the package perfetto is not installed"
            raise MissingToolError(msg, install("perfetto")) from error
        self._file, self._proto, self._trace = file, proto, proto.Trace()
        self._shift_ns = shift_ns
        self._tracks: dict[tuple[Any, ...], int] = {}
        self._names: dict[str, int] = {}
        self._busy: dict[_Place, list[int]] = defaultdict(list)
        self._packet().sequence_flags = _STATE_CLEARED
        if shift_ns:
            # An event at the time 0 of the recording, with how much later that is in the trace.
            track = self._track(("recording",), "recording", None)
            packet = self._event(track, 0, self._proto.TrackEvent.TYPE_INSTANT)
            self._name(packet, _BEGIN)
            self._note(packet, "shift_ns", shift_ns)

    def slice(self, place: _Place, activity: _Activity, flow: tuple[int, bool] | None) -> None:
        """One activity on the first lane of a place on which nothing runs any more.

        It begins or ends a flow.
        """
        ends = self._busy[place]
        lane = next((i for i, end in enumerate(ends) if end <= activity.start_ns), len(ends))
        ends[lane : lane + 1] = [activity.end_ns]
        end, name = place
        shown = name if lane == 0 else f"{name} ({lane + 1})"
        track = self._track((end, name, lane), shown, self._end(end))
        packet = self._event(track, activity.start_ns, self._proto.TrackEvent.TYPE_SLICE_BEGIN)
        self._name(packet, activity.name)
        if activity.bytes is not None:
            self._note(packet, "bytes", activity.bytes)
        if flow is not None:
            number, is_source = flow
            event = packet.track_event
            (event.flow_ids if is_source else event.terminating_flow_ids).append(number)
        self._event(track, activity.end_ns, self._proto.TrackEvent.TYPE_SLICE_END)

    def counter(self, end: int | None, changes: list[tuple[int, int]]) -> None:
        """Bytes in flight at an end of copies, over time, from instants and by how much."""
        track = self._track((end, "counter"), "bytes in flight", self._end(end))
        at, by = np.array(sorted(changes), np.int64).T
        # Of what happens at one instant, the sum.
        last = np.concatenate([at[1:] != at[:-1], [True]])
        for instant, value in zip(at[last].tolist(), np.cumsum(by)[last].tolist(), strict=True):
            packet = self._event(track, instant, self._proto.TrackEvent.TYPE_COUNTER)
            packet.track_event.counter_value = value

    def close(self) -> None:
        """Write what is left."""
        self._file.write(self._trace.SerializeToString())
        self._trace.Clear()

    def _packet(self) -> _Packet:
        if len(self._trace.packet) >= _FLUSH_PACKETS:
            self.close()
        packet = self._trace.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_STATE
        return packet

    def _event(self, track: int, at: int, kind: int) -> _Packet:
        packet = self._packet()
        packet.timestamp = at + self._shift_ns
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _note(self, packet: _Packet, name: str, value: int) -> None:
        note = packet.track_event.debug_annotations.add()
        note.name, note.int_value = name, value

    def _end(self, end: int | None) -> int:
        return self._track((end,), end_name(end), None)

    def _track(self, key: tuple[Any, ...], name: str, parent: int | None) -> int:
        if key not in self._tracks:
            self._tracks[key] = uuid = len(self._tracks) + 1
            descriptor = self._packet().track_descriptor
            descriptor.uuid, descriptor.name = uuid, name
            if parent is not None:
                descriptor.parent_uuid = parent
            if key[1:] == ("counter",):
                descriptor.counter.unit = self._proto.CounterDescriptor.UNIT_SIZE_BYTES
        return self._tracks[key]

    def _name(self, packet: _Packet, name: str) -> None:
        if name not in self._names:
            self._names[name] = number = len(self._names) + 1
            interned = packet.interned_data.event_names.add()
            interned.iid, interned.name = number, clean(name)
        packet.track_event.name_iid = self._names[name]
