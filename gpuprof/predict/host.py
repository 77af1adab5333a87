"""Edges of the host: what calls wait for, full queues, and work between calls of a thread."""

from functools import cached_property
from typing import Final

import numpy as np

from gpuprof.facts.launching_calls import launched_by_calls
from gpuprof.facts.numbers import NOT_FOUND, Numbers, groups, read_columns
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import different
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words, narrowed
from gpuprof.predict.graph import (
    AWAITED_NS,
    COPY_CALL,
    EVENT,
    FULL_QUEUE,
    NEAR_NS,
    NO_WORK,
    OTHER_THREAD,
    SYNCHRONISATION,
    SYNCHRONISATION_BY_NAME,
    Maker,
)
from gpuprof.predict.recorded import COLLECTIVE, COPY

# A longer launch met a full queue; a longer pause between two calls can be a wait.
_LONG_NS: Final = 100_000
# This share of a long wait is how late the call that waits may return.
_SOON: Final = 0.01
# A thread waited for another one where calls of that fill more than this share of a pause.
_FILLED: Final = 0.5
_LATEST: Final = np.iinfo(np.int64).max
_SYNCHRONISATIONS: Final = (
    "start_ns", "process_id", "device_id", "stream_id", "correlation_id",
    "src_device_id", "src_stream_id", "event_id",
)  # fmt: skip
_EVENTS: Final = ("process_id", "correlation_id", "event_id")


def add_calls(maker: Maker, profile: Profile) -> Numbers:
    """Add what calls wait for; returns how long each call takes at least."""
    if not len(maker.calls):
        return np.empty(0, np.int64)
    o, c, waits = maker.operations, maker.calls, _Waits(maker)
    # Calls that wait for their copy: of pageable memory, or as their name says.
    copies = np.flatnonzero(o.where(lambda of: of.kind == COPY))
    copies = copies[(o.copied_bytes >= 0) & (o.call[copies] != NOT_FOUND)]
    call = o.call[copies].astype(np.int64)
    is_awaited = o.where(lambda of: of.is_pageable)[copies] | c.is_waiting[call]
    is_awaited &= o.end_ns[copies] <= c.end_ns[call]
    waits.add(COPY_CALL, call[is_awaited], copies[is_awaited])
    calls, awaited = _synchronisations(waits, profile)
    waits.let_return_after(awaited, calls)
    waits.add(SYNCHRONISATION, calls, awaited)
    # Those that wait by their name, where the recording has no synchronisation for them, wait for
    # the last operation of each stream, among those launched before, that ended before they return.
    called = np.flatnonzero(c.is_waiting & ~waits.is_blocked)
    u = np.full(len(called), UNKNOWN)
    rows, chosen = waits.last_before(c.start_ns[called], c.process(called), u, u)
    fits = o.end_ns[chosen] <= c.end_ns[called[rows]]
    waits.add(SYNCHRONISATION_BY_NAME, called[rows[fits]], chosen[fits])
    least = narrowed(c.took_ns)
    # Those that launch kernels.
    is_launching = np.zeros(len(least), bool)
    is_launching[o.call[(o.kind <= COLLECTIVE) & (o.call != NOT_FOUND)]] = True
    long = np.flatnonzero((least > _LONG_NS) & is_launching & ~waits.is_blocked)
    is_full, starting = _full_queues(maker, long)
    maker.add(FULL_QUEUE, maker.starts(starting), 2 * is_full + 1)
    if len(is_full):
        least[is_full] = np.minimum(int(np.median(least[is_launching])), least[is_full])
    least[waits.is_blocked] = 0
    return least


def work_between(maker: Maker) -> Numbers:
    """The host's work before each call since the one before it of its thread.

    Adds waits for other threads, which then fill the pause; a call that overlaps the one before it
    follows none.
    """
    c, overlaps = maker.calls, 0
    parts = [np.empty(0, np.int8)]
    for of in c.threads:
        gap = c.start_ns[of.low + 1 : of.high] - c.end_ns[of.low : of.high - 1]
        overlaps += int((gap < 0).sum())
        parts += [np.full(1, NO_WORK, np.int8), narrowed(np.maximum(gap, NO_WORK))]
    pause: Numbers = np.concatenate(parts)
    if overlaps:
        maker.doubts["calls of one thread that overlap"] = overlaps
    begun = np.array([of.low for of in c.threads], np.int64)
    after = different(np.concatenate([np.flatnonzero(pause > _LONG_NS), begun]))
    # The last call of another thread whose calls fill most of the pause before each call; before
    # the first one of a thread, that of the thread that was at work for longest.
    chosen, is_first = np.full(len(after), NOT_FOUND), np.isin(after, begun)
    until = c.start_ns[after]
    since = np.where(is_first, -_LATEST, c.end_ns[after - 1])
    filled = np.where(is_first, 0, _FILLED * (until - since))
    process, thread = c.process(after), c.thread(after)
    for number, of in enumerate(c.threads):
        start, end = c.start_ns[of.low : of.high], c.end_ns[of.low : of.high]
        first = np.searchsorted(start, since, side="left")
        last = np.searchsorted(end, until, side="right") - 1
        some = (last >= first) & (process == of.process) & (thread != number)
        first, last = np.minimum(first, len(start) - 1), np.maximum(last, 0)
        length = np.where(some, end[last] - start[first], 0)
        is_more = length > filled
        chosen[is_more], filled[is_more] = of.low + last[is_more], length[is_more]
    after, chosen = after[chosen != NOT_FOUND], chosen[chosen != NOT_FOUND]
    maker.add(OTHER_THREAD, 2 * chosen + 1, 2 * after)
    pause[after] = np.minimum(pause[after], 0)
    return pause


def _full_queues(maker: Maker, long: Int64s) -> tuple[Int64s, Int64s]:
    """Of long launch calls those that met a full queue, and the last start before each returned."""
    o, c = maker.operations, maker.calls
    returned = c.end_ns[long]
    chosen, started = np.full(len(long), NOT_FOUND), np.full(len(long), -_LATEST)
    process = np.full(len(long), UNKNOWN)
    for of in o.streams if len(long) else ():
        place = of.low + np.searchsorted(o.start_ns[of.low : of.high], returned, side="right") - 1
        some = np.flatnonzero(place >= of.low)
        some = some[o.start_ns[place[some]] >= started[some]]
        chosen[some], process[some] = place[some], of.process
        started[some] = o.start_ns[place[some]]
    is_near = (chosen != NOT_FOUND) & (returned - started <= NEAR_NS)
    is_near &= (process == c.process(long)) & (o.call[chosen] != long)
    return long[is_near], chosen[is_near]


class _Waits:
    """What calls wait for: the last operations launched before on their streams."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.is_blocked = np.zeros(len(maker.calls), bool)

    def add(self, kind: int, calls: Int64s, operations: Int64s) -> None:
        """Add waits of calls, which have no work of their own where they return soon after."""
        c, awaited = self.maker.calls, self.maker.operations.end_ns[operations]
        self.maker.add(kind, self.maker.ends(operations), 2 * calls + 1)
        start, end = c.start_ns[calls], c.end_ns[calls]
        soon_ns = np.maximum(AWAITED_NS, _SOON * (end - start))
        is_until = (awaited <= end) & (awaited >= end - soon_ns) & (awaited >= start)
        self.is_blocked[calls[is_until]] = True

    def let_return_after(self, operations: Int64s, calls: Int64s) -> None:
        """Let calls return no earlier than the operations that they wait for.

        Clocks of a device and its host may be a few us apart: work that seems to end so soon after
        a call returned, and before the next call of its thread, ended when that returned.
        """
        maker, awaited = self.maker, self.maker.operations.end_ns[operations]
        starts, last = maker.calls.start_ns, [of.high - 1 for of in maker.calls.threads]
        until = np.append(starts[1:], _LATEST)
        until[last] = _LATEST
        early_ns = awaited - maker.calls.end_ns[calls]
        is_early = (early_ns > 0) & (early_ns <= AWAITED_NS) & (awaited < until[calls])
        np.maximum.at(maker.time_ns, 2 * calls[is_early] + 1, awaited[is_early] + 1)

    @cached_property
    def launched(self) -> list[Int64s]:
        """When the operations of each stream were launched.

        Without a launch call: before the recording, or with the operation before it.
        """
        o = self.maker.operations
        call = (o.call[of.low : of.high] for of in o.streams)
        starts = self.maker.calls.start_ns
        launch = (np.where(its == NOT_FOUND, -_LATEST, starts[its]) for its in call)
        return [*map(np.maximum.accumulate, launch)]

    def device(self, process: Int64s, device: Int64s) -> Int64s:
        """The devices of some calls, by the numbers that work has.

        Where a process sees some of several GPUs (CUDA_VISIBLE_DEVICES=2,3), nsys calls them 0, 1
        and so on in waits, whichever they are. No bus id tells which: where a wait is for a device
        without work, and none for a further one than there are, they are taken to be in order.
        """
        devices, its_device = dict[int, set[int]](), device.copy()
        for of in self.maker.operations.streams:
            devices.setdefault(of.process, set()).add(of.device)
        for number, of_process in devices.items():
            its = np.flatnonzero((process == number) & (device != UNKNOWN))
            numbers, order = {*np.unique(device[its]).tolist()}, np.array(sorted(of_process))
            if len(of_process) == 1:
                its_device[its] = min(of_process)
            elif not numbers <= of_process and 0 <= min(numbers) <= max(numbers) < len(order):
                its_device[its] = order[device[its]]
        return its_device

    def last_before(
        self, times: Int64s, process: Int64s, device: Int64s, stream: Int64s
    ) -> tuple[Int64s, Int64s]:
        """The last operation launched before each time on its streams, with the row of that time.

        A device or stream that is `UNKNOWN` stands for all of them.
        """
        rows, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        streams = self.maker.operations.streams if len(times) else ()
        for number, of in enumerate(streams):
            is_here = (process == of.process) & ((device == of.device) | (device == UNKNOWN))
            is_here &= (stream == of.stream_id) | (stream == UNKNOWN)
            rows_here = np.flatnonzero(is_here)
            place = np.searchsorted(self.launched[number], times[rows_here], side="left") - 1
            rows.append(rows_here[place >= 0])
            chosen.append(of.low + place[place >= 0])
        return np.concatenate(rows), np.concatenate(chosen)


def _synchronisations(waits: _Waits, profile: Profile) -> tuple[Int64s, Int64s]:
    """Recorded waits of calls; adds those of streams."""
    nothing, calls = np.empty(0, np.int64), waits.maker.calls
    if not profile.has("synchronizations"):
        return nothing, nothing
    kinds = {"sync_kind": Words(["stream_wait"])}
    columns = read_columns(profile, "synchronizations", *_SYNCHRONISATIONS, *kinds, texts=kinds)
    start, process, device, stream, correlation, src_device, src_stream, event, kind = (
        column.astype(np.int64) for column in columns
    )
    start = calls.clock.on_devices(start, process)
    events = [start[:0]] * len(_EVENTS)
    if profile.has("cuda_events"):
        events = read_columns(profile, "cuda_events", *_EVENTS)
    ids = np.append(process, events[0]), np.append(correlation, events[1])
    launched = launched_by_calls(profile, lambda: [ids], len(ids[0])) if len(ids[0]) else {}
    call, at = np.split(calls.that_began(launched, len(ids[0])), [len(process)])
    since = start
    if len(at):
        is_known = at != NOT_FOUND
        recorded = calls.start_ns[at[is_known]], *(events[n][is_known] for n in (0, 2))
        since = np.minimum(start, _recorded_at(start, (process, event), recorded))
    device, src_device = (waits.device(process, its) for its in (device, src_device))
    has_source, is_wait = src_stream != UNKNOWN, kind == 0
    rows = np.flatnonzero(is_wait & has_source & (stream != UNKNOWN))
    sources = since[rows], process[rows], src_device[rows], src_stream[rows]
    _add_stream_waits(waits, sources, (start[rows], device[rows], stream[rows]))
    # Without its stream an event does not identify any work.
    rows = np.flatnonzero(~is_wait & (call != NOT_FOUND) & (has_source | (event == UNKNOWN)))
    has_source, call = has_source[rows], call[rows].astype(np.int64)
    row, operations = waits.last_before(
        np.where(has_source, since[rows], calls.start_ns[call]),
        process[rows],
        np.where(has_source, src_device[rows], device[rows]),
        np.where(has_source, src_stream[rows], stream[rows]),
    )
    return call[row].astype(np.int64), operations


def _recorded_at(
    start: Int64s, event: tuple[Int64s, Int64s], recorded: tuple[Int64s, Int64s, Int64s]
) -> Int64s:
    """When the event of each wait was last recorded before it; its start if unknown.

    Args:
        start: When each wait began.
        event: The process of each, and its event.
        recorded: When events were recorded, the process of each, and which event it was.
    """
    when = start.copy()
    order = np.argsort(recorded[0], kind="stable")
    at, process, number = (column[order] for column in recorded)
    for rows in groups(*event):
        is_its = (process == event[0][rows[0]]) & (number == event[1][rows[0]])
        times = np.append(at[is_its], _LATEST)
        place = np.searchsorted(times, when[rows], side="right") - 1
        when[rows] = np.where(place >= 0, times[place], when[rows])
    return when


def _add_stream_waits(
    waits: _Waits, sources: tuple[Int64s, ...], waiting: tuple[Int64s, Int64s, Int64s]
) -> None:
    """The first operation launched after a wait starts after the work before the event.

    Args:
        waits: What was launched when.
        sources: When each event was recorded, its process, device and stream.
        waiting: When each stream began to wait, its device and stream.
    """
    maker = waits.maker
    rows, chosen = waits.last_before(*sources)
    process, (start, device, stream) = sources[1][rows], (column[rows] for column in waiting)
    for number, of in enumerate(maker.operations.streams if len(rows) else ()):
        here = np.flatnonzero(
            (process == of.process) & (device == of.device) & (stream == of.stream_id)
        )
        place = np.searchsorted(waits.launched[number], start[here], side="right")
        here, place = (column[place < of.high - of.low] for column in (here, place))
        maker.add(EVENT, maker.ends(chosen[here]), maker.starts(of.low + place))
