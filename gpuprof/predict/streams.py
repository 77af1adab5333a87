"""Edges between GPU operations: order of streams, copies between devices, and inferred waits."""

from typing import Final

import numpy as np

from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.model.intervals import Int64s
from gpuprof.predict.graph import (
    AWAITED,
    AWAITED_NS,
    DEFAULT_STREAMS,
    DURATION,
    LAUNCH,
    NEAR_NS,
    OVERLAP,
    STAGED,
    STREAM,
    Maker,
)
from gpuprof.predict.recorded import COLLECTIVE, Operations, runs

# Streams are not the default streams where more than this share of copies contradicts it.
_DISPROVED: Final = 0.02
_CANDIDATES: Final = 8


def add_streams(maker: Maker) -> None:
    """Add durations of operations, and the order of streams."""
    o, first = maker.operations, maker.first_operation
    items = first + np.arange(len(o))
    is_alone = o.kind != COLLECTIVE
    maker.add(DURATION, maker.starts(items[is_alone]), maker.ends(items[is_alone]))
    before = np.flatnonzero(o.stream[1:] == o.stream[:-1])
    overlaps = o.end_ns[before] > o.start_ns[before + 1]
    apart, within = items[before[~overlaps]], items[before[overlaps]]
    maker.add(STREAM, maker.ends(apart), maker.starts(apart + 1))
    if len(within):
        maker.doubts["operations that overlap on one stream"] = len(within)
        maker.add(OVERLAP, maker.starts(within), maker.starts(within + 1))
    launched = np.flatnonzero(o.call != NOT_FOUND)
    maker.add(LAUNCH, maker.starts(o.call[launched]), maker.starts(items[launched]))
    if len(maker.calls) and (unlaunched := len(o) - len(launched)):
        maker.doubts["operations without a launch"] = unlaunched


def add_copies(maker: Maker) -> None:
    """Add waits of copies between devices: between halves, and for and by both default streams."""
    o, first = maker.operations, maker.first_operation
    rows = np.flatnonzero(o.is_peer & (o.src >= 0) & (o.dst >= 0) & (o.src != o.dst))
    if not len(rows):
        return
    before, after = _copies_of(maker, rows)
    parts: list[tuple[Int64s, Int64s]] = []
    for end in (o.src, o.dst):
        for stream in _default_streams(o):
            low, high = np.searchsorted(o.stream, [stream, stream + 1])
            on = (end[before] == o.device[low]) & (o.process[before] == o.process[low])
            place = low + np.searchsorted(o.start_ns[low:high], o.start_ns[before[on]], side="left")
            is_other = (o.stream[before[on]] != stream) & (place > low)
            source, target = place[is_other] - 1, before[on][is_other]
            parts.append((source, target))
            on = (end[after] == o.device[low]) & (o.process[after] == o.process[low])
            place = low + np.searchsorted(o.start_ns[low:high], o.start_ns[after[on]], side="left")
            is_other = (o.stream[after[on]] != stream) & (place < high)
            parts.append((after[on][is_other], place[is_other]))
    for source, target in parts:
        is_against = o.end_ns[source] > o.start_ns[target]
        if len(source) and is_against.mean() <= _DISPROVED:
            maker.add(DEFAULT_STREAMS, maker.ends(first + source), maker.starts(first + target))


def _copies_of(maker: Maker, rows: Int64s) -> tuple[Int64s, Int64s]:
    """The first and the last operation of each copy between devices; two for staged copies."""
    o, first = maker.operations, maker.first_operation
    order = rows[np.lexsort((o.start_ns[rows], o.correlation[rows], o.process[rows]))]
    is_half = o.is_staged[order[1:]] & o.is_staged[order[:-1]]
    is_half &= o.correlation[order[1:]] == o.correlation[order[:-1]]
    is_half &= (o.correlation[order[1:]] >= 0) & (o.device[order[1:]] != o.device[order[:-1]])
    is_second = np.append(False, is_half)
    # Among four halves with the same id, the third starts another copy.
    for place in np.flatnonzero(is_second[2:] & is_second[1:-1]) + 2:
        is_second[place] &= not is_second[place - 1]
    second = np.flatnonzero(is_second)
    maker.add(STAGED, maker.ends(first + order[second - 1]), maker.starts(first + order[second]))
    is_first = ~is_second
    is_last = np.append(~is_second[1:], True)
    return order[is_first], order[is_last]


def _default_streams(o: Operations) -> list[int]:
    """The stream with the lowest number on each device of each process."""
    first = np.array([low for low, _ in runs(o.stream)])
    order = first[np.lexsort((o.stream_id[first], o.device[first], o.process[first]))]
    process, device = o.process[order], o.device[order]
    is_least = np.append(True, (process[1:] != process[:-1]) | (device[1:] != device[:-1]))
    return sorted(o.stream[order[is_least]].tolist())


def add_awaited(maker: Maker) -> None:
    """Add inferred waits of operations that start long after all known dependencies."""
    o, first = maker.operations, maker.first_operation
    starts = maker.starts(first + np.arange(len(o)))
    latest_ns = maker.latest(2 * len(maker.start_ns))[starts]
    late = np.flatnonzero(o.start_ns - latest_ns > AWAITED_NS)
    late = late[latest_ns[late] > np.iinfo(np.int64).min]
    order = np.argsort(o.end_ns, kind="stable")
    place = np.searchsorted(o.end_ns[order], o.start_ns[late], side="right") - 1
    chosen = np.full(len(late), NOT_FOUND)
    for back in range(_CANDIDATES):
        candidate = order[np.maximum(place - back, 0)]
        fits = (chosen == NOT_FOUND) & (place >= back)
        fits &= o.start_ns[late] - o.end_ns[candidate] <= NEAR_NS
        fits &= (o.stream[candidate] != o.stream[late]) & (o.process[candidate] == o.process[late])
        chosen[fits] = candidate[fits]
    has_one = chosen != NOT_FOUND
    maker.add(AWAITED, maker.ends(first + chosen[has_one]), starts[late[has_one]])
