"""Which API call launched what: calls and activities meet by process and correlation id.

Ids repeat across processes. Where several calls have one id (a runtime call and the driver call
inside it), the earliest launched. Of millions of calls few columns are kept at a time: what passes
by in pieces stays in the processor's cache.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from gpuprof.analyses.facts.groups import Numbers
from gpuprof.intervals import Int64s
from gpuprof.native import arrays
from gpuprof.native.arrays import note_earliest

NOT_FOUND: Final = -1
# Below this many places per id, an array by id is smaller and faster than sorting.
_DENSE: Final = 16
_PIECE_ROWS: Final = 1 << 16
_EARLIEST: Final = np.iinfo(np.int64).min
_LATEST: Final = np.iinfo(np.int64).max


def pieces(rows: int) -> Iterator[slice]:
    """Slices that together are so many rows, each small enough for the processor's cache."""
    return (slice(at, min(at + _PIECE_ROWS, rows)) for at in range(0, rows, _PIECE_ROWS))


def pair_places(pairs: Int64s, first: Numbers, second: Numbers) -> Numbers:
    """Where each pair of values is among sorted ones, or `NOT_FOUND`.

    Args:
        pairs: Two rows: the first and the second values.
        first: The first value of each wanted pair.
        second: The second value.
    """
    places = arrays.pair_places(first, second, pairs)
    if places is not None:
        return places
    firsts, seconds = map(np.unique, pairs)
    code, index = (
        np.where(np.minimum(a, b) < 0, NOT_FOUND, a * len(seconds) + b)
        for a, b in (
            (_place_in(firsts, x), _place_in(seconds, y)) for x, y in (pairs, (first, second))
        )
    )
    return _place_in(code, index)


def _place_in(distinct: Numbers, values: Numbers) -> Numbers:
    if not len(distinct):
        return np.full(len(values), NOT_FOUND)
    place = np.minimum(np.searchsorted(distinct, values), len(distinct) - 1)
    return np.where(distinct[place] == values, place, NOT_FOUND)


def _sorted_pairs(first: Numbers, second: Numbers) -> Int64s:
    """The different pairs in their order: a row of their first values, and one of the second."""
    pairs = np.stack([first, second]).astype(np.int64)
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    is_first = np.ones(pairs.shape[1], bool)
    is_first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    return pairs[:, is_first]


def gathered(values: Numbers | None, group: Numbers, groups: int) -> tuple[Numbers, Int64s]:
    """The values of each group one after another, by default their places, and how many of each.

    Args:
        values: The values.
        group: The group of each, from 0 on.
        groups: How many groups there are.
    """
    counts = np.zeros(groups, np.int64)
    for rows in pieces(len(group)):
        counts += np.bincount(group[rows], minlength=groups)
    kind = values.dtype if values is not None else np.dtype(_index_kind(len(group)))
    parts = (
        (
            np.arange(rows.start, rows.stop, dtype=kind) if values is None else values[rows],
            group[rows],
        )
        for rows in pieces(len(group))
    )
    grouped = arrays.grouped(parts, counts, kind)
    if grouped is not None:
        return grouped, counts
    order = np.argsort(group, kind="stable").astype(_index_kind(len(group)))
    return order if values is None else values[order], counts


def _index_kind(rows: int) -> type[np.integer[Any]]:
    return np.int32 if rows < 1 << 31 else np.int64


def distinct(values: Numbers) -> Int64s:
    """The few different ones among many values, sorted."""
    sorted_values = np.empty(0, np.int64)
    for rows in pieces(len(values)):
        part = values[rows]
        is_new = pair_places(np.stack([sorted_values] * 2), part, part) == NOT_FOUND
        if is_new.any():
            sorted_values = np.union1d(sorted_values, part[is_new].astype(np.int64))
    return sorted_values


class Ids:
    """Places from 0 on for the processes and correlation ids of some activities.

    Args:
        process: The process of each activity.
        correlation: The id of each; below 0 where it is unknown.
    """

    def __init__(self, process: Numbers, correlation: Numbers) -> None:
        self._processes = distinct(process)
        number = len(self._processes)
        low, high = np.full(number, _LATEST), np.full(number, NOT_FOUND)
        of_process = self._by_process(process, correlation)
        for place, ids in zip(range(number), of_process, strict=False):
            valid_ids = ids if ids.min() >= 0 else ids[ids >= 0]
            if len(valid_ids):
                low[place], high[place] = valid_ids.min(), valid_ids.max()
        size: Int64s = np.where(high < 0, 0, np.minimum(high - low, _LATEST // (number + 1)) + 1)
        self._spans = np.stack([low, size, np.cumsum(size) - size], axis=1)
        self.size = int(size.sum())
        self._pairs: Int64s | None = None
        self.is_dense = self.size <= _DENSE * (len(process) + 1)
        if not self.is_dense:
            with_id = np.flatnonzero(correlation >= 0)
            self._pairs = _sorted_pairs(process[with_id], correlation[with_id])
            self.size = self._pairs.shape[1]

    def _by_process(self, process: Numbers, correlation: Numbers) -> list[Numbers]:
        """The ids of each process."""
        index = np.empty(len(process), np.min_scalar_type(-len(self._processes)))
        for rows in pieces(len(process)):
            index[rows] = self._index(process[rows])
        ids, counts = gathered(correlation, index, len(self._processes))
        return np.split(ids, np.cumsum(counts)[:-1])

    def of(self, process: Numbers, correlation: Numbers) -> Int64s:
        """The place of each process and id, or `NOT_FOUND`."""
        if self._pairs is not None:
            return pair_places(self._pairs, process, correlation).astype(np.int64)
        index = self._index(process)
        places = arrays.id_places(index, correlation, self._spans)
        if places is not None:
            return places
        if not len(self._spans):
            return np.full(len(process), NOT_FOUND)
        low, size, base = self._spans[index].T
        offset = correlation - low
        is_found = (index != NOT_FOUND) & (offset >= 0) & (offset < size)
        return np.where(is_found, base + offset, NOT_FOUND)

    def spans_of(self, process: Int64s) -> Int64s | None:
        """The span of the ids of each process, see `arrays.id_places`; None where ids are few."""
        none = np.zeros((1, 3), np.int64)
        return np.append(self._spans, none, axis=0)[self._index(process)] if self.is_dense else None

    def _index(self, process: Numbers) -> Numbers:
        return pair_places(np.stack([self._processes] * 2), process, process)


class FirstCalls:
    """The earliest call of each id that activities have, from calls that pass by in pieces.

    Args:
        ids: The ids.
    """

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        # The last place is of what has no call: no other one is earlier.
        self.start_ns = np.full(ids.size + 1, _LATEST)
        self.start_ns[-1] = _EARLIEST
        self._lane = np.full(ids.size + 1, NOT_FOUND, np.int32)
        # Process and thread, sorted, and numbers for them in the order in which they were met.
        self._lanes, self._number = np.empty((2, 0), np.int64), np.empty(0, np.int32)
        # The span of the ids of each thread, by its number.
        self._spans: Int64s | None = None

    def add(self, process: Numbers, correlation: Numbers, start: Int64s, thread: Numbers) -> None:
        """Some more calls, which come after those before where they start at once."""
        lane = pair_places(self._lanes, process, thread)
        if (is_new := lane == NOT_FOUND).any():
            self._learn(process[is_new], thread[is_new])
            lane = pair_places(self._lanes, process, thread)
        lane, noted = self._number[lane], (self.start_ns, self._lane)
        if self._spans is None or not note_earliest(lane, correlation, start, self._spans, noted):
            self._note(lane, self._ids.of(process, correlation), start)

    def _note(self, lane: Numbers, place: Int64s, start: Int64s) -> None:
        rows = np.flatnonzero(start < self.start_ns[place])
        start, place, lane = start[rows], place[rows], lane[rows]
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, place, lane = start[order], place[order], lane[order]
        # What is written later overwrites what was before: the earliest call remains.
        self.start_ns[place[::-1]] = start[::-1]
        self._lane[place[::-1]] = lane[::-1]

    def _learn(self, process: Numbers, thread: Numbers) -> None:
        new = _sorted_pairs(process, thread)
        lanes = np.concatenate([self._lanes, new], axis=1)
        number = np.append(self._number, len(self._number) + np.arange(new.shape[1]))
        order = np.lexsort(lanes[::-1])
        self._lanes, self._number = lanes[:, order], number[order].astype(np.int32)
        self._spans = self._ids.spans_of(self._lanes[0][np.argsort(self._number)])

    def lanes(self) -> list[tuple[int, int]]:
        """Process and thread of all calls, sorted."""
        return [*zip(*self._lanes.tolist(), strict=True)]

    def lane_of(self, place: Numbers) -> Numbers:
        """Which of `lanes` launched the ids at some places; their number for ids without a call."""
        number = len(self._number)
        rank = np.full(number + 1, number, np.min_scalar_type(-number - 1))
        rank[self._number] = np.arange(number)
        return rank[self._lane[place]]
