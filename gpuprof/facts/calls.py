"""Which API call launched what: calls and activities meet by process and correlation id.

Ids repeat across processes. Where several calls have one id (a runtime call and the driver call
inside it), the earliest launched. Of millions of calls few columns are kept at a time: what passes
by in pieces stays in the processor's cache.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.facts.groups import Numbers, groups
from gpuprof.model.intervals import Int64s, pairs
from gpuprof.native import arrays
from gpuprof.readers.common.compact_columns import narrowed

NOT_FOUND: Final = -1
# Below this many places per id, an array by id is smaller and faster than sorting.
_DENSE: Final = 16
_PIECE_ROWS: Final = 1 << 16
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def pieces(rows: int) -> Iterator[slice]:
    """Slices that together are so many rows, each small enough for the processor's cache."""
    return (slice(at, min(at + _PIECE_ROWS, rows)) for at in range(0, rows, _PIECE_ROWS))


def pair_places(sorted_pairs: Int64s, first: Numbers, second: Numbers) -> Numbers:
    """Where each pair of values is among sorted ones, or `NOT_FOUND`.

    Args:
        sorted_pairs: Two rows: the first and the second values.
        first: The first value of each wanted pair.
        second: The second value.
    """
    places = arrays.pair_places(first, second, sorted_pairs)
    if places is not None:
        return places
    firsts, seconds = map(np.unique, sorted_pairs)
    code, index = (
        np.where(np.minimum(a, b) < 0, NOT_FOUND, a * len(seconds) + b)
        for a, b in (
            (_place_in(firsts, x), _place_in(seconds, y))
            for x, y in (sorted_pairs, (first, second))
        )
    )
    return _place_in(code, index)


def _place_in(distinct: Numbers, values: Numbers) -> Numbers:
    if not len(distinct):
        return np.full(len(values), NOT_FOUND)
    place = np.minimum(np.searchsorted(distinct, values), len(distinct) - 1)
    return np.where(distinct[place] == values, place, NOT_FOUND)


def sorted_pairs(first: Numbers, second: Numbers) -> Int64s:
    """The different pairs in their order: a row of their first values, and one of the second."""
    pairs = np.stack([first, second]).astype(np.int64)
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    is_first = np.ones(pairs.shape[1], bool)
    is_first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    return pairs[:, is_first]


def index_kind(rows: int) -> type[np.integer[Any]]:
    """The type of the places of so many rows."""
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


class Pairs:
    """Different pairs of values, numbered from 0 on in the order in which they are met."""

    def __init__(self) -> None:
        # Sorted, and the number of each.
        self._pairs, self._number = np.empty((2, 0), np.int64), np.empty(0, np.int32)
        self._is_sorted = True  # in the order in which they are met

    def __len__(self) -> int:
        """How many there are."""
        return len(self._number)

    @property
    def values(self) -> Int64s:
        """The pairs by their number: a row of their first values, and one of the second."""
        return self._pairs[:, np.argsort(self._number)]

    def of(self, first: Numbers, second: Numbers) -> Numbers:
        """The number of each pair, or `NOT_FOUND`."""
        places = pair_places(self._pairs, first, second)
        if self._is_sorted:
            return places
        numbers: Numbers = np.append(self._number, np.int32(NOT_FOUND))
        return numbers[places]

    def learn(self, first: Numbers, second: Numbers) -> Numbers:
        """The number of each pair; those that are new are given one."""
        number = self.of(first, second)
        if not (is_new := number == NOT_FOUND).any():
            return number
        new = sorted_pairs(first[is_new], second[is_new])
        pairs = np.concatenate([self._pairs, new], axis=1)
        numbers = np.append(self._number, len(self._number) + np.arange(new.shape[1]))
        order = np.lexsort(pairs[::-1])
        self._pairs, self._number = pairs[:, order], numbers[order].astype(np.int32)
        self._is_sorted = bool((self._number[1:] > self._number[:-1]).all())
        return self.of(first, second)


class Ids:
    """Places from 0 on for the processes and correlation ids of some activities.

    Args:
        process: The process of each activity.
        correlation: The id of each; below 0 where it is unknown.
    """

    def __init__(self, process: Numbers, correlation: Numbers) -> None:
        self._processes = Pairs()
        low, high = np.empty(0, np.int64), np.empty(0, np.int64)
        for rows in pieces(len(process)):
            index, ids = self._index(process[rows], is_new=True), correlation[rows]
            more = len(self._processes) - len(low)
            low = np.append(low, np.full(more, _LATEST))
            high = np.append(high, np.full(more, NOT_FOUND))
            if (is_unknown := ids < 0).any():
                index, ids = index[~is_unknown], ids[~is_unknown]
            places, numbers = index.astype(np.intp), ids.astype(np.int64)
            np.minimum.at(low, places, numbers)
            np.maximum.at(high, places, numbers)
        number = len(low)
        size: Int64s = np.where(high < 0, 0, np.minimum(high - low, _LATEST // (number + 1)) + 1)
        self.spans: Int64s = np.stack([low, size, np.cumsum(size) - size], axis=1)
        self.size = int(size.sum())
        self._pairs: Int64s | None = None
        self.is_dense = self.size <= _DENSE * (len(process) + 1)
        if not self.is_dense:
            is_known = correlation >= 0
            self._pairs = sorted_pairs(process[is_known], correlation[is_known])
            self.size = self._pairs.shape[1]

    def of(self, process: Numbers, correlation: Numbers) -> Int64s:
        """The place of each process and id, or `NOT_FOUND`."""
        if self._pairs is not None:
            return pair_places(self._pairs, process, correlation).astype(np.int64)
        index = self.index(process)
        places = arrays.id_places(index, correlation, self.spans)
        if places is not None:
            return places
        if not len(self.spans):
            return np.full(len(process), NOT_FOUND)
        low, size, base = self.spans[index].T
        offset = correlation - low
        is_found = (index != NOT_FOUND) & (offset >= 0) & (offset < size)
        return np.where(is_found, base + offset, NOT_FOUND)

    def index(self, process: Numbers) -> Numbers:
        """The number of each process, which is its row of ``spans``, or `NOT_FOUND`."""
        return self._index(process, is_new=False)

    def _index(self, process: Numbers, *, is_new: bool) -> Numbers:
        return (self._processes.learn if is_new else self._processes.of)(process, process)


class Launched(NamedTuple):
    """Activities that calls of one thread launched.

    Args:
        places: The place of each among all.
        first_ns: Start of the first of the calls.
        since_ns: How much later the call of each started.
    """

    places: Numbers
    first_ns: int
    since_ns: Numbers


class UnorderedError(Exception):
    """A call starts before one that came before it."""


def launched_by(
    calls: Iterable[Sequence[Numbers]], process: Numbers, correlation: Numbers
) -> dict[tuple[int, int], list[Launched]]:
    """What the first call of each id launched, in the order of the calls; of one call by place.

    Args:
        calls: Process, correlation id, start and thread of calls by ascending start, in pieces.
        process: The process of each activity.
        correlation: The id of the call that launched each; below 0 where it is unknown.

    Returns:
        By process and thread of the calls, in pieces.

    Raises:
        UnorderedError: A call starts before one that came before it.
    """
    ids, lanes, latest = Ids(process, correlation), Pairs(), _EARLIEST
    rows: arrays.Chains | _Members | None = _chains(ids, process, correlation)
    rows = rows or _Members(ids, process, correlation)
    spans, launched = np.empty((0, 3), np.int64), defaultdict[int, list[Launched]](list)
    for of, number, start, thread in calls:
        if len(start) and (start[0] < latest or (start[1:] < start[:-1]).any()):
            raise UnorderedError
        latest = int(start[-1]) if len(start) else latest
        lane = lanes.learn(of, thread)
        if isinstance(rows, _Members):
            taken = rows.take(lane, ids.of(of, number), start)
        else:
            if len(spans) < len(lanes):
                none = np.zeros((1, 3), np.int64)
                spans = np.append(ids.spans, none, axis=0)[ids.index(lanes.values[0])]
            taken = rows.take(lane, number, start, spans)
        for lane_number, of_lane in _by_lane(*taken):
            launched[lane_number].append(of_lane)
    return {
        (of, thread): launched[number]
        for number, (of, thread) in enumerate(lanes.values.T.tolist())
    }


def _by_lane(row: Numbers, time: Int64s, lane: Numbers) -> Iterator[tuple[int, Launched]]:
    """Copies of what calls of each lane launched."""
    for rows in groups(lane):
        times = time[rows]
        launched = Launched(row[rows], int(times[0]), narrowed(times - times[0]))
        yield int(lane[rows[0]]), launched


def _chains(ids: Ids, process: Numbers, correlation: Numbers) -> arrays.Chains | None:
    """The activities by their id; None where the compiled functions are not there, or few ids."""
    if not ids.is_dense or len(process) >= 1 << 31:
        return None
    index = np.empty(len(process), np.min_scalar_type(-len(ids.spans) - 1))
    for rows in pieces(len(process)):
        index[rows] = ids.index(process[rows])
    chains = arrays.Chains(index, correlation, ids.spans, ids.size)
    return chains if chains.are_made else None


class _Members:
    """Activities by the places of their ids, for calls to take, as from `arrays.Chains`."""

    def __init__(self, ids: Ids, process: Numbers, correlation: Numbers) -> None:
        place = ids.of(process, correlation)
        order = np.argsort(place, kind="stable").astype(index_kind(len(place)))
        self._rows = order[np.count_nonzero(place == NOT_FOUND) :]
        self._bounds = np.searchsorted(place[self._rows], np.arange(ids.size + 1))
        self._is_taken = np.zeros(ids.size, bool)

    def take(self, lane: Numbers, place: Int64s, start: Numbers) -> tuple[Numbers, Int64s, Numbers]:
        """Take the activities of some calls' places, which are gone for later ones."""
        ids, first = np.unique(place, return_index=True)
        is_new = ids != NOT_FOUND
        is_new[is_new] = ~self._is_taken[ids[is_new]]
        call = np.sort(first[is_new])
        at = place[call]
        self._is_taken[at] = True
        call_index, member = pairs(self._bounds[at], self._bounds[at + 1] - self._bounds[at])
        return self._rows[member], start[call][call_index], lane[call][call_index]
