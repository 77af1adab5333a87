"""What calls and streams wait for: work that was launched before, on the streams that are meant."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.facts.calls import NOT_FOUND
from gpuprof.analyses.facts.groups import groups
from gpuprof.analyses.facts.growing import read_columns
from gpuprof.analyses.prediction.graph import (
    COPY_CALL,
    EVENT,
    SYNCHRONISATION,
    SYNCHRONISATION_BY_NAME,
    Maker,
)
from gpuprof.analyses.prediction.recorded import Flags, Recorded, runs
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

_LATEST: Final = np.iinfo(np.int64).max
_KNOWN: Final = ", ".join(
    f"coalesce({name}, {UNKNOWN})"
    for name in (
        "process_id", "device_id", "stream_id", "correlation_id", "src_device_id",
        "src_stream_id", "event_id",
    )
)  # fmt: skip
_SYNCHRONISATIONS: Final = f"""
    SELECT start_ns, start_ns, {_KNOWN}, (sync_kind = 'stream_wait')::INT FROM synchronizations"""
_EVENTS: Final = f"""
    SELECT coalesce(process_id, {UNKNOWN}), coalesce(correlation_id, {UNKNOWN}), event_id
    FROM cuda_events"""


class _Synchronisations(NamedTuple):
    """Columns of ``synchronizations``; ``since`` is when the event was recorded."""

    start: Int64s
    since: Int64s
    process: Int64s
    device: Int64s
    stream: Int64s
    correlation: Int64s
    src_device: Int64s
    src_stream: Int64s
    event: Int64s
    is_wait: Int64s

    def take(self, rows: Flags | Int64s) -> "_Synchronisations":
        return _Synchronisations(*(column[rows] for column in self))


class Waits:
    """What waiting calls wait for: the last operations launched before on the streams meant."""

    def __init__(self, maker: Maker, profile: Profile, source: Recorded) -> None:
        self._maker, self._profile, self._source = maker, profile, source
        o = maker.operations
        # What has no launch was launched before the recording began, or with what is before it.
        launch = np.where(o.call == NOT_FOUND, -_LATEST, maker.calls.start_ns[o.call])
        self._streams = []
        for low, high in runs(o.stream):
            launched = np.maximum.accumulate(launch[low:high])
            place = (int(o.process[low]), int(o.device[low]), int(o.stream_id[low]))
            self._streams.append((place, low, launched))

    def last_before(
        self, times: Int64s, process: Int64s, device: Int64s, stream: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Rows of what is given, and the last operation launched before on each stream meant.

        A device or stream that is `UNKNOWN` means all of them.
        """
        rows, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for (p, d, s), low, launched in self._streams:
            meant = (process == p) & ((device == d) | (device == UNKNOWN))
            meant &= (stream == s) | (stream == UNKNOWN)
            mine = np.flatnonzero(meant)
            place = np.searchsorted(launched, times[mine], side="left") - 1
            rows.append(mine[place >= 0])
            chosen.append(low + place[place >= 0])
        return np.concatenate(rows), np.concatenate(chosen)

    def edges(self, is_blocked: Flags) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Kind, waiting calls, and operations that these wait for.

        Args:
            is_blocked: Which calls are known by then to have waited for some.
        """
        yield COPY_CALL, *self._copies()
        yield SYNCHRONISATION, *self._recorded()
        yield SYNCHRONISATION_BY_NAME, *self._by_name(is_blocked)

    def _recorded(self) -> tuple[Int64s, Int64s]:
        """Synchronisations on the host; waits of streams become edges at once."""
        profile, nothing = self._profile, np.empty(0, np.int64)
        if not profile.has("synchronizations"):
            return nothing, nothing
        columns = read_columns(profile, _SYNCHRONISATIONS, len(_Synchronisations._fields))
        every = _Synchronisations(*(column.astype(np.int64) for column in columns))
        every = every._replace(start=every.start + self._maker.calls.shift_ns)
        every = every._replace(since=np.minimum(every.start, self._recorded_at(every)))
        has_source = every.src_stream != UNKNOWN
        is_wait = every.is_wait == 1
        self._add_stream_waits(every.take(is_wait & has_source & (every.stream != UNKNOWN)))
        call = self._source.call_of(every.process, every.correlation)
        # An event whose stream is not known says nothing of which work it is.
        is_named = has_source | (every.event == UNKNOWN)
        chosen = ~is_wait & (call != NOT_FOUND) & is_named
        hosts, call, has_source = every.take(chosen), call[chosen], has_source[chosen]
        rows, operations = self.last_before(
            np.where(has_source, hosts.since, self._maker.calls.start_ns[call]),
            hosts.process,
            np.where(has_source, hosts.src_device, hosts.device),
            np.where(has_source, hosts.src_stream, hosts.stream),
        )
        return call[rows], operations

    def _recorded_at(self, waits: "_Synchronisations") -> Int64s:
        """When each event was recorded last before it was waited for; else when it was."""
        when = waits.start.copy()
        if not self._profile.has("cuda_events"):
            return when
        process, correlation, event = read_columns(self._profile, _EVENTS, 3)
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
        """The first operation launched after a wait comes after what the event stands for."""
        maker, first = self._maker, self._maker.first_operation
        rows, chosen = self.last_before(
            waits.since, waits.process, waits.src_device, waits.src_stream
        )
        waits = waits.take(rows)
        for (process, device, stream), low, launched in self._streams:
            mine = np.flatnonzero(
                (waits.process == process) & (waits.device == device) & (waits.stream == stream)
            )
            place = np.searchsorted(launched, waits.start[mine], side="right")
            mine, place = (column[place < len(launched)] for column in (mine, place))
            maker.add(EVENT, maker.ends(first + chosen[mine]), maker.starts(first + low + place))

    def _by_name(self, is_blocked: Flags) -> tuple[Int64s, Int64s]:
        """Calls whose name says that they wait, where nothing recorded tells what held them up.

        They wait for what ended last before they did, of what had been launched before.
        """
        o, c = self._maker.operations, self._maker.calls
        called = np.flatnonzero(c.is_waiting & ~is_blocked)
        u = np.full(len(called), UNKNOWN)
        rows, chosen = self.last_before(c.start_ns[called], c.process[called], u, u)
        fits = o.end_ns[chosen] <= c.end_ns[called[rows]]
        rows, chosen = rows[fits], chosen[fits]
        # What is written later overwrites what was before: the last one to end remains.
        order = np.argsort(o.end_ns[chosen], kind="stable")
        last = np.full(len(called), NOT_FOUND)
        last[rows[order]] = chosen[order]
        has_one = last != NOT_FOUND
        return called[has_one], last[has_one]

    def _copies(self) -> tuple[Int64s, Int64s]:
        """Copies of pageable memory, and those whose call is none that returns at once."""
        o, c = self._maker.operations, self._maker.calls
        copies = np.flatnonzero((o.bytes >= 0) & (o.call != NOT_FOUND))
        call = o.call[copies]
        waits = o.is_pageable[copies] | c.is_waiting[call]
        waits &= o.end_ns[copies] <= c.end_ns[call]
        return call[waits], copies[waits]
