"""What calls and streams wait for: operations launched before on the synchronized streams."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.numbers import NOT_FOUND, groups, read_columns
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words
from gpuprof.predict.graph import (
    COPY_CALL,
    EVENT,
    SYNCHRONISATION,
    SYNCHRONISATION_BY_NAME,
    Maker,
)
from gpuprof.predict.recorded import Flags, Recorded, runs

_LATEST: Final = np.iinfo(np.int64).max
_SYNCHRONISATIONS: Final = (
    "start_ns", "process_id", "device_id", "stream_id", "correlation_id",
    "src_device_id", "src_stream_id", "event_id",
)  # fmt: skip
_EVENTS: Final = ("process_id", "correlation_id", "event_id")


class _Synchronisations(NamedTuple):
    """Columns of ``synchronizations``.

    ``since`` is when the event was recorded, ``kind`` 0 for a stream wait.
    """

    start: Int64s
    since: Int64s
    process: Int64s
    device: Int64s
    stream: Int64s
    correlation: Int64s
    src_device: Int64s
    src_stream: Int64s
    event: Int64s
    kind: Int64s

    def take(self, rows: Flags | Int64s) -> "_Synchronisations":
        return _Synchronisations(*(column[rows] for column in self))


class Waits:
    """What waiting calls wait for: the last operations launched before on their streams."""

    def __init__(self, maker: Maker, profile: Profile, source: Recorded) -> None:
        self._maker, self._profile, self._source = maker, profile, source
        o = maker.operations
        # Without a launch call: launched before the recording, or with the operation before it.
        launch = np.where(o.call == NOT_FOUND, -_LATEST, maker.calls.start_ns[o.call])
        self._streams = []
        for low, high in runs(o.stream):
            launched = np.maximum.accumulate(launch[low:high])
            place = (int(o.process[low]), int(o.device[low]), int(o.stream_id[low]))
            self._streams.append((place, low, launched))

    def last_before(
        self, times: Int64s, process: Int64s, device: Int64s, stream: Int64s
    ) -> tuple[Int64s, Int64s]:
        """The last operation launched before each time on its streams, with the row of that time.

        A device or stream that is `UNKNOWN` stands for all of them.
        """
        rows, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for (p, d, s), low, launched in self._streams:
            is_here = (process == p) & ((device == d) | (device == UNKNOWN))
            is_here &= (stream == s) | (stream == UNKNOWN)
            rows_here = np.flatnonzero(is_here)
            place = np.searchsorted(launched, times[rows_here], side="left") - 1
            rows.append(rows_here[place >= 0])
            chosen.append(low + place[place >= 0])
        return np.concatenate(rows), np.concatenate(chosen)

    def edges(self, is_blocked: Flags) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Kind of edge, waiting calls, and the operations that they wait for.

        Args:
            is_blocked: Calls that waited for an operation, as far as known when this is read.
        """
        yield COPY_CALL, *self._copies()
        yield SYNCHRONISATION, *self._recorded()
        yield SYNCHRONISATION_BY_NAME, *self._by_name(is_blocked)

    def _recorded(self) -> tuple[Int64s, Int64s]:
        """Synchronisations on the host; adds the edges of stream waits."""
        profile, nothing = self._profile, np.empty(0, np.int64)
        if not profile.has("synchronizations"):
            return nothing, nothing
        kinds = {"sync_kind": Words(["stream_wait"])}
        columns = read_columns(profile, "synchronizations", *_SYNCHRONISATIONS, *kinds, texts=kinds)
        start, *others = (column.astype(np.int64) for column in columns)
        syncs = _Synchronisations(start, start, *others)
        clock = self._maker.calls.clock
        syncs = syncs._replace(start=clock.on_devices(syncs.start, syncs.process))
        syncs = syncs._replace(since=np.minimum(syncs.start, self._recorded_at(syncs)))
        has_source = syncs.src_stream != UNKNOWN
        is_wait = syncs.kind == 0
        self._add_stream_waits(syncs.take(is_wait & has_source & (syncs.stream != UNKNOWN)))
        call = self._source.call_of(syncs.process, syncs.correlation)
        # Without its stream an event does not identify any work.
        is_named = has_source | (syncs.event == UNKNOWN)
        chosen = ~is_wait & (call != NOT_FOUND) & is_named
        hosts, call, has_source = syncs.take(chosen), call[chosen], has_source[chosen]
        rows, operations = self.last_before(
            np.where(has_source, hosts.since, self._maker.calls.start_ns[call]),
            hosts.process,
            np.where(has_source, hosts.src_device, hosts.device),
            np.where(has_source, hosts.src_stream, hosts.stream),
        )
        return call[rows], operations

    def _recorded_at(self, waits: "_Synchronisations") -> Int64s:
        """When each event was last recorded before the wait; the start of the wait if unknown."""
        when = waits.start.copy()
        if not self._profile.has("cuda_events"):
            return when
        process, correlation, event = read_columns(self._profile, "cuda_events", *_EVENTS)
        call = self._source.call_of(process, correlation)
        start = self._maker.calls.start_ns[call]
        order = np.argsort(start, kind="stable")
        order = order[call[order] != NOT_FOUND]
        start, process, event = start[order], process[order], event[order]
        for rows in groups(waits.process, waits.event):
            first = rows[0]
            is_its = (process == waits.process[first]) & (event == waits.event[first])
            times = np.append(start[is_its], _LATEST)
            place = np.searchsorted(times, when[rows], side="right") - 1
            when[rows] = np.where(place >= 0, times[place], when[rows])
        return when

    def _add_stream_waits(self, waits: "_Synchronisations") -> None:
        """The first operation launched after a wait starts after the work before the event."""
        maker, first = self._maker, self._maker.first_operation
        rows, chosen = self.last_before(
            waits.since, waits.process, waits.src_device, waits.src_stream
        )
        waits = waits.take(rows)
        for (process, device, stream), low, launched in self._streams:
            rows_here = np.flatnonzero(
                (waits.process == process) & (waits.device == device) & (waits.stream == stream)
            )
            place = np.searchsorted(launched, waits.start[rows_here], side="right")
            rows_here, place = (column[place < len(launched)] for column in (rows_here, place))
            maker.add(
                EVENT, maker.ends(first + chosen[rows_here]), maker.starts(first + low + place)
            )

    def _by_name(self, is_blocked: Flags) -> tuple[Int64s, Int64s]:
        """Calls that wait by their name, where the recording has no synchronisation for them.

        They wait for the last operation of each stream, among those launched before, that ended
        before they returned.
        """
        o, c = self._maker.operations, self._maker.calls
        called = np.flatnonzero(c.is_waiting & ~is_blocked)
        u = np.full(len(called), UNKNOWN)
        rows, chosen = self.last_before(c.start_ns[called], c.process[called], u, u)
        fits = o.end_ns[chosen] <= c.end_ns[called[rows]]
        return called[rows[fits]], chosen[fits]

    def _copies(self) -> tuple[Int64s, Int64s]:
        """Copies of pageable memory, and copies whose call is synchronous."""
        o, c = self._maker.operations, self._maker.calls
        copies = np.flatnonzero((o.bytes >= 0) & (o.call != NOT_FOUND))
        call = o.call[copies]
        waits = o.is_pageable[copies] | c.is_waiting[call]
        waits &= o.end_ns[copies] <= c.end_ns[call]
        return call[waits], copies[waits]
