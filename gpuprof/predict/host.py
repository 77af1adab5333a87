"""Edges of the host: durations of calls, work between them, full queues, and other threads."""

from typing import Final

import numpy as np

from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict.graph import (
    AWAITED_NS,
    CALL,
    FULL_QUEUE,
    HOST_WORK,
    NEAR_NS,
    OTHER_THREAD,
    Maker,
)
from gpuprof.predict.recorded import COLLECTIVE, Calls, Flags, Recorded, runs
from gpuprof.predict.waits import Waits

# A longer launch met a full queue; a longer pause between two calls can be a wait.
_LONG_NS: Final = 100_000
# This share of a long wait is how late the call that waits may return.
_SOON: Final = 0.01
# A thread waited for another one where calls of that fill more than this share of a pause.
_FILLED: Final = 0.5


def add_calls(maker: Maker, profile: Profile, source: Recorded) -> None:
    """Add durations and waits of calls, and the host's work between them."""
    c = maker.calls
    if not len(c):
        return
    items = np.arange(len(c))
    waits = Waits(maker, profile, source)
    is_blocked = np.zeros(len(c), bool)
    for kind, called, operations in waits.edges(is_blocked):
        awaited = maker.ends(maker.first_operation + operations)
        maker.add(kind, awaited, maker.ends(called))
        # A call that returns later than that after the awaited work does work of its own.
        soon_ns = np.maximum(AWAITED_NS, _SOON * (c.end_ns - c.start_ns)[called])
        is_until = maker.time(awaited) <= c.end_ns[called]
        is_until &= maker.time(awaited) >= c.end_ns[called] - soon_ns
        is_until &= maker.time(awaited) >= c.start_ns[called]
        is_blocked[called[is_until]] = True
    is_full, starting = _full_queues(maker, is_blocked)
    maker.add(FULL_QUEUE, starting, maker.ends(is_full))
    usual = _usual_launch(maker)
    took = c.end_ns - c.start_ns
    least = np.where(is_blocked, 0, took)
    least[is_full] = np.minimum(usual, took[is_full])
    maker.add(CALL, maker.starts(items), maker.ends(items), least)
    _add_host_work(maker)


def _add_host_work(maker: Maker) -> None:
    """Add the host's work from the end of a call to the next call of its thread."""
    c = maker.calls
    before = np.flatnonzero(c.thread[1:] == c.thread[:-1])
    overlap = c.end_ns[before] > c.start_ns[before + 1]
    if overlap.any():
        maker.doubts["calls of one thread that overlap"] = int(overlap.sum())
    before = before[~overlap]
    pause = c.start_ns[before + 1] - c.end_ns[before]
    long = np.flatnonzero(pause > _LONG_NS)
    other_calls = _filling(c, before[long])
    waited = long[other_calls != NOT_FOUND]
    least = pause.copy()
    least[waited] = 0
    maker.add(HOST_WORK, maker.ends(before), maker.starts(before + 1), least)
    other_calls = other_calls[other_calls != NOT_FOUND]
    maker.add(OTHER_THREAD, maker.ends(other_calls), maker.starts(before[waited] + 1))


def _filling(c: Calls, before: Int64s) -> Int64s:
    """The last call of another thread whose calls fill most of the pause after each call."""
    chosen = np.full(len(before), NOT_FOUND)
    filled = _FILLED * (c.start_ns[before + 1] - c.end_ns[before])
    for low, high in runs(c.thread):
        start, end = c.start_ns[low:high], c.end_ns[low:high]
        first = np.searchsorted(start, c.end_ns[before], side="left")
        last = np.searchsorted(end, c.start_ns[before + 1], side="right") - 1
        some = (last >= first) & (c.process[before] == c.process[low])
        some &= c.thread[before] != c.thread[low]
        first, last = np.minimum(first, high - low - 1), np.maximum(last, 0)
        length = np.where(some, end[last] - start[first], 0)
        is_more = length > filled
        chosen[is_more], filled[is_more] = low + last[is_more], length[is_more]
    return chosen


def _usual_launch(maker: Maker) -> int:
    """The median duration of calls that launch kernels."""
    c, launching = maker.calls, _launching(maker)
    return int(np.median((c.end_ns - c.start_ns)[launching])) if len(launching) else 0


def _launching(maker: Maker) -> Int64s:
    """The calls that launch kernels."""
    o = maker.operations
    is_launching = np.zeros(len(maker.calls), bool)
    is_launching[o.call[(o.kind <= COLLECTIVE) & (o.call != NOT_FOUND)]] = True
    return np.flatnonzero(is_launching)


def _full_queues(maker: Maker, is_blocked: Flags) -> tuple[Int64s, Int64s]:
    """Launch calls that met a full queue, and the last operation start before each returned."""
    o, c = maker.operations, maker.calls
    launching = _launching(maker)
    long = launching[(c.end_ns - c.start_ns)[launching] > _LONG_NS]
    long = long[~is_blocked[long]]
    order = np.argsort(o.start_ns, kind="stable")
    place = np.searchsorted(o.start_ns[order], c.end_ns[long], side="right") - 1
    chosen = order[np.maximum(place, 0)] if len(order) else np.empty(0, np.int64)
    is_near = (place >= 0) & (c.end_ns[long] - o.start_ns[chosen] <= NEAR_NS)
    is_near &= o.process[chosen] == c.process[long]
    is_near &= o.call[chosen] != long
    return long[is_near], maker.starts(maker.first_operation + chosen[is_near])
