"""Perfetto's trace format: lanes per device and stream, copies as flows, bytes in flight.

A trace is a sequence of packets with a timestamp in ns. Each device is a track, and so is the
host; below it lies a track for each stream (one more where activities of a stream overlap, since
slices of one track must nest) and a counter of the bytes in flight. A transfer is a slice on both
its ends, which a flow joins, from source to destination: on its stream on the device that the
tool recorded it on, on a lane of its own at the other end.
Source: https://perfetto.dev/docs/reference/synthetic-track-event

The classes of the packets are those of the PyPI package ``perfetto``.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import IO, Any, Final, NamedTuple

import numpy as np

from gpuprof.analyses.copies import DST, SRC, end_name
from gpuprof.analyses.movement import IS_STAGED, IS_TRANSFER, MOVEMENT
from gpuprof.errors import MissingToolError
from gpuprof.profile import Profile
from gpuprof.render.cells import clean
from gpuprof.render.exporters.contract import Exporter

_STATE_CLEARED, _NEEDS_STATE = 1, 2
_SEQUENCE: Final = 1
_FLUSH_PACKETS: Final = 20_000
_STREAM: Final = "start_ns, end_ns, device_id, context_id, stream_id"
# A column each of `_Activity`; what is no copy has only the first of them.
_TABLES: Final = {
    "kernels": f"SELECT {_STREAM}, name FROM kernels",
    "memsets": f"SELECT {_STREAM}, 'memset' AS name FROM memsets",
    "graph_launches": f"SELECT {_STREAM}, 'CUDA graph' AS name FROM graph_launches",
    "memcpys": f"""
        SELECT {_STREAM}, {MOVEMENT} AS name, bytes, {IS_TRANSFER} AS is_transfer, {SRC} AS src,
            {DST} AS dst, {IS_STAGED} AS is_staged, process_id, correlation_id
        FROM memcpys""",
}

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


def write(profile: Profile, file: IO[bytes]) -> None:
    """Write a recording as a trace.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``memsets`` and ``graph_launches`` are
            shown where they were recorded.
        file: Open for bytes.

    Raises:
        MissingToolError: The package ``perfetto`` is not installed.
    """
    trace = _Trace(file)
    flows = _Flows()
    changes: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for one in _activities(profile):
        for place, flow in flows.ends(one):
            trace.slice(place, one, flow)
        if one.is_transfer and one.bytes:
            for end in {one.src, one.dst}:
                changes[end] += [(one.start_ns, one.bytes), (one.end_ns, -one.bytes)]
    for end, found in changes.items():
        trace.counter(end, _levels(found))
    trace.close()


def _activities(profile: Profile) -> Iterator[_Activity]:
    """All of them by their starts: lanes are given out in this order."""
    tables = [sql for table, sql in _TABLES.items() if profile.has(table)]
    for batch in profile.batches(f"{' UNION ALL BY NAME '.join(tables)} ORDER BY start_ns, end_ns"):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        yield from map(_Activity, *(columns[name] for name in _Activity._fields))


def _levels(changes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is in flight from when on; of what happens at one instant, the sum."""
    at, by = np.array(sorted(changes), np.int64).T
    level = np.cumsum(by)
    last = np.concatenate([at[1:] != at[:-1], [True]])
    return zip(at[last].tolist(), level[last].tolist(), strict=True)


def _stream(one: _Activity) -> _Place:
    name = "unknown stream" if one.stream_id is None else f"stream {one.stream_id}"
    is_usual = one.context_id in {None, 0, 1}
    return one.device_id, name if is_usual else f"{name} of context {one.context_id}"


class _Flows:
    """Where copies begin and end, and the numbers of the flows between."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._begun: dict[tuple[int | None, int | None], deque[int]] = defaultdict(deque)

    def ends(self, one: _Activity) -> list[tuple[_Place, tuple[int, bool] | None]]:
        """The slices of an activity: each its place, and its flow's number, and whether it begins.

        A transfer has two, the source's first; each half of a staged one has its own, and the
        flow goes from the half that leaves the source to that of the same launch that arrives.
        """
        own = _stream(one)
        if not one.is_transfer:
            return [(own, None)]
        if one.is_staged:
            halves = self._begun[one.process_id, one.correlation_id]
            if one.device_id == one.src or not halves:
                halves.append(next(self._numbers))
                return [(own, (halves[-1], True))]
            return [(own, (halves.popleft(), False))]
        number = next(self._numbers)
        source = own if one.src == one.device_id else (one.src, f"copies to {end_name(one.dst)}")
        target = own if one.dst == one.device_id else (one.dst, f"copies from {end_name(one.src)}")
        return [(source, (number, True)), (target, (number, False))]


class _Trace:
    """Packets on their way into a file, with the numbers of tracks and names."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            proto = import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        except ImportError as error:
            msg = "the package perfetto is not installed"
            raise MissingToolError(msg, "pip install 'gpuprof-toolkit[perfetto]'") from error
        self._file, self._proto, self._trace = file, proto, proto.Trace()
        self._tracks: dict[tuple[Any, ...], int] = {}
        self._names: dict[str, int] = {}
        self._busy: dict[_Place, list[int]] = defaultdict(list)
        self._packet().sequence_flags = _STATE_CLEARED

    def slice(self, place: _Place, one: _Activity, flow: tuple[int, bool] | None) -> None:
        """One activity at a place, and the flow that it begins or ends."""
        track = self._lane(place, one)
        packet = self._event(track, one.start_ns, self._proto.TrackEvent.TYPE_SLICE_BEGIN)
        packet.track_event.name_iid = self._name(packet, one.name)
        if one.bytes is not None:
            note = packet.track_event.debug_annotations.add()
            note.name, note.int_value = "bytes", one.bytes
        if flow is not None:
            number, is_source = flow
            event = packet.track_event
            (event.flow_ids if is_source else event.terminating_flow_ids).append(number)
        self._event(track, one.end_ns, self._proto.TrackEvent.TYPE_SLICE_END)

    def counter(self, end: int | None, values: Iterator[tuple[int, int]]) -> None:
        """Bytes in flight at an end of copies, over time."""
        track = self._track((end, "counter"), "bytes in flight", self._end(end))
        for at, value in values:
            packet = self._event(track, at, self._proto.TrackEvent.TYPE_COUNTER)
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
        packet.timestamp = at
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _lane(self, place: _Place, one: _Activity) -> int:
        """The first lane of a place on which nothing runs any more."""
        ends = self._busy[place]
        lane = next((i for i, end in enumerate(ends) if end <= one.start_ns), len(ends))
        ends[lane : lane + 1] = [one.end_ns]
        end, name = place
        shown = name if lane == 0 else f"{name} ({lane + 1})"
        return self._track((end, name, lane), shown, self._end(end))

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

    def _name(self, packet: _Packet, name: str) -> int:
        if name not in self._names:
            self._names[name] = number = len(self._names) + 1
            interned = packet.interned_data.event_names.add()
            interned.iid, interned.name = number, clean(name)
        return self._names[name]


EXPORTER: Final = Exporter(
    "perfetto",
    "Perfetto (https://ui.perfetto.dev) and its trace_processor",
    ("kernels", "memcpys"),
    write,
)
