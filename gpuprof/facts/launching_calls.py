"""Which API call launched each activity: both have the ids of the call, in the same process."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from gpuprof.facts.numbers import NOT_FOUND, Numbers, columns_of, index_kind, pieces
from gpuprof.model.intervals import Int64s, pairs
from gpuprof.model.pairs import Pairs, pair_places, sorted_pairs
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed
from gpuprof.native import arrays, pages

_CALL: Final = ("process_id", "correlation_id", "start_ns", "thread_id")
KEYS: Final = ("process_id", "correlation_id")
# Below this many places per id, an array by id is smaller and faster than sorting.
_DENSE: Final = 16
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

# Of activities that calls of one thread launched: the place of each, and the start of the call of
# each as a part of `spilling.Packed` with what its numbers are distances from.
Launched = tuple[Numbers, Numbers, Numbers | None]


def launched_by_calls(
    recording: Profile, keys: Callable[[], Iterable[Sequence[Numbers]]], rows: int
) -> dict[tuple[int, int], list[Launched]]:
    """What the first call of each id launched, as in `_launched_by`, in whatever order calls are.

    Args:
        recording: The calls.
        keys: Process and correlation id of what they launched, in pieces.
        rows: How many these are at most.
    """
    launched = _launched_by(recording.columns("api_calls", *_CALL), *_members(keys(), rows))
    if launched is None:
        calls = columns_of(recording.columns("api_calls", *_CALL), len(_CALL))
        by_start = np.argsort(calls[_CALL.index("start_ns")], kind="stable")
        ordered = ([column[by_start[rows]] for column in calls] for rows in pieces(len(by_start)))
        launched = _launched_by(ordered, *_members(keys(), rows)) or {}
    return launched


def _members(
    keys: Iterable[Sequence[Numbers]], rows: int
) -> "tuple[_Ids, arrays.Chains | _Members]":
    """The ids by which calls launched some activities, and the activities by these."""
    processes = Pairs()
    # The numbers of processes take a quarter of the memory of what is numbered.
    numbered = ((narrowed(processes.learn(of, of)), number) for of, number in keys)
    index, correlation = columns_of(numbered, len(KEYS), rows)
    ids = _Ids(processes, index, correlation)
    return ids, ids.chains(index, correlation) or _Members(ids, index, correlation)


def _launched_by(
    calls: Iterable[Sequence[Numbers]], ids: "_Ids", rows: "arrays.Chains | _Members"
) -> dict[tuple[int, int], list[Launched]] | None:
    """What the first call of each id launched, in the order of the calls; of one call by place.

    Args:
        calls: Process, correlation id, start and thread of calls, in pieces.
        ids: The ids of the calls that launched the activities.
        rows: The activities by these; calls take them.

    Returns:
        By process and thread of the calls, in pieces; None where a call starts before one that came
        before it.
    """
    lanes, latest = Pairs(), _EARLIEST
    spans, launched = np.empty((0, 3), np.int64), defaultdict[int, list[Launched]](list)
    for of, number, start, thread in calls:
        if len(start) and (start[0] < latest or (start[1:] < start[:-1]).any()):
            return None
        latest = int(start[-1]) if len(start) else latest
        lane = lanes.learn(of, thread)
        if isinstance(rows, _Members):
            taken = rows.take(lane, ids.of(ids.index(of), number), start)
        else:
            if len(spans) < len(lanes):
                none = np.zeros((1, 3), np.int64)
                spans = np.append(ids.spans, none, axis=0)[ids.index(lanes.values[0])]
            taken = rows.take(lane, number, start, spans)
        place, time, of_lane = taken
        counts, low = np.bincount(of_lane), 0
        places, times = (arrays.grouped([(of, of_lane)], counts) for of in (place, time))
        for taking in np.flatnonzero(counts).tolist():
            for later_ns, _, since_ns in pages.compact(times[low : low + counts[taking]]):
                piece = places[low : (low := low + len(later_ns))].copy()
                launched[taking].append((piece, later_ns, since_ns))
    return {
        (of, thread): launched[number]
        for number, (of, thread) in enumerate(lanes.values.T.tolist())
    }


class _Ids:
    """Places from 0 on for the processes and correlation ids of some activities.

    Args:
        processes: The processes of the activities, each twice.
        index: The number of the process of each activity.
        correlation: The id of each; below 0 where it is unknown.
    """

    def __init__(self, processes: Pairs, index: Numbers, correlation: Numbers) -> None:
        self._processes, number = processes, len(processes)
        low, high = np.full(number, _LATEST), np.full(number, NOT_FOUND)
        for rows in pieces(len(index)):
            of, ids = index[rows], correlation[rows]
            if (is_unknown := ids < 0).any():
                of, ids = of[~is_unknown], ids[~is_unknown]
            places, numbers = of.astype(np.intp), ids.astype(np.int64)
            np.minimum.at(low, places, numbers)
            np.maximum.at(high, places, numbers)
        size: Int64s = np.where(high < 0, 0, np.minimum(high - low, _LATEST // (number + 1)) + 1)
        self.spans: Int64s = np.stack([low, size, np.cumsum(size) - size], axis=1)
        self.size = int(size.sum())
        self._pairs: Int64s | None = None
        self._is_dense = self.size <= _DENSE * (len(index) + 1)
        if not self._is_dense:
            is_known = correlation >= 0
            self._pairs = sorted_pairs(index[is_known], correlation[is_known])
            self.size = self._pairs.shape[1]

    def of(self, index: Numbers, correlation: Numbers) -> Int64s:
        """The place of each process, by its `index`, and id, or `NOT_FOUND`."""
        if self._pairs is not None:
            return pair_places(self._pairs, index, correlation).astype(np.int64)
        places = arrays.id_places(index, correlation, self.spans)
        if places is not None:
            return places
        if not len(self.spans):
            return np.full(len(index), NOT_FOUND)
        low, size, base = self.spans[index].T
        offset = correlation - low
        is_found = (index != NOT_FOUND) & (offset >= 0) & (offset < size)
        return np.where(is_found, base + offset, NOT_FOUND)

    def index(self, process: Numbers) -> Numbers:
        """The number of each process, which is its row of ``spans``, or `NOT_FOUND`."""
        return self._processes.of(process, process)

    def chains(self, index: Numbers, correlation: Numbers) -> arrays.Chains | None:
        """The activities by their id; None without compiled functions, or where ids are few."""
        if not self._is_dense or len(index) >= 1 << 31:
            return None
        chains = arrays.Chains(index, correlation, self.spans, self.size)
        return chains if chains.are_made else None


class _Members:
    """Activities by the places of their ids, for calls to take, as from `arrays.Chains`."""

    def __init__(self, ids: _Ids, index: Numbers, correlation: Numbers) -> None:
        place = ids.of(index, correlation)
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
