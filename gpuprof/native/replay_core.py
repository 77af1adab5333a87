"""When each instant of a recording comes: one sweep over its items in the order of time.

Compiled, or in Python where the compiled functions are not there: with the same results.
"""

import ctypes
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.native import IntegerArray, library
from gpuprof.native.arrays import Int64s, Integers

# As in predict/graph.py.
_DURATION, _CALL, _HOST_WORK, _LAUNCH, _STREAM, _OVERLAP = range(6)
_NONE: Final = -1
_APART, _WITHIN = 1, 2
_GONE: Final = 4


class Items(NamedTuple):
    """Calls, then operations, then others: item k starts at instant ``2 * k``, and ends after it.

    Args:
        calls: How many calls there are.
        operations: How many operations there are.
        time_ns: When each instant was measured.
        by_start: The items by their starts.
        origin_ns: Nothing comes before.
    """

    calls: int
    operations: int
    time_ns: Int64s
    by_start: Integers
    origin_ns: int


class ReplayEdges(NamedTuple):
    """What each instant waits for, as `Weights` in predict/graph.py; others sorted by target."""

    work_ns: Integers
    call_ns: Integers
    duration_ns: Integers
    launch: Integers
    follows: Integers
    kind: Integers
    source: Integers
    target: Integers
    edge_kind: Integers
    edge_ns: Integers
    usual_ns: Int64s


class _Items(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("calls", "operations", "items")),
        ("time", ctypes.c_void_p),
        ("by_start", IntegerArray),
        ("origin", ctypes.c_int64),
    )


class _Weights(ctypes.Structure):
    _fields_ = (
        *((name, IntegerArray) for name in ReplayEdges._fields[:-1]),
        ("usual", ctypes.c_void_p),
    )


class _Replayed(ctypes.Structure):
    _fields_ = (("moved", IntegerArray), ("lag", ctypes.c_int64), ("at", ctypes.c_int64))


def replayed(
    items: Items,
    recorded: ReplayEdges,
    changed: ReplayEdges,
    no_lag: npt.NDArray[np.bool_] | None,
    *,
    is_usual: bool,
) -> tuple[Integers, int, int]:
    """Visit all instants: each comes its lag after the latest of what it waits for.

    Args:
        items: The items.
        recorded: The edges as recorded, which give the lag: none of their latencies is longer than
            measured.
        changed: The edges of the replay.
        no_lag: Instants without a lag; None for none. What waits for nothing has one.
        is_usual: Whether there is no lag at all, and latencies may be longer than measured.

    Returns:
        How much later each instant comes than measured; the longest lag, and its instant: 0 and -1
        where there is none.
    """
    ends = _waiting_ends(items, recorded, changed)
    # What is removed follows its stream at once, perhaps seconds before: beyond 32 bits.
    kinds = ("int64",) if (changed.kind == _GONE).any() else ("int32", "int64")
    for kind in kinds:
        moved: Integers = np.zeros(len(items.time_ns), kind)
        functions = library()
        if functions is None:
            break
        result = _Replayed(IntegerArray.from_param(moved), 0, 0)
        status = functions.replay(
            *map(ctypes.byref, (_items(items), _weights(recorded), _weights(changed))),
            is_usual,
            None if no_lag is None else no_lag.ctypes.data,
            ends,
            ctypes.byref(result),
        )
        if not status:
            return moved, result.lag, result.at
    return _replayed(items, recorded, changed, no_lag, is_usual=is_usual)


def _waiting_ends(items: Items, *edges: ReplayEdges) -> Int64s:
    """Ends that wait for more than their starts, in the order of time."""
    is_target = np.bincount(np.concatenate([of.target[of.target % 2 == 1] for of in edges]))
    ends = np.flatnonzero(is_target)
    return ends[np.lexsort((ends, items.time_ns[ends - 1], items.time_ns[ends]))]


def walk_back(
    items: Items, changed: ReplayEdges, moved_ns: Integers, instant: int
) -> tuple[Int64s, Int64s]:
    """From an instant back to one that waits for nothing: these, and the kind of edge before each.

    The last kind is -1.
    """
    functions = library()
    if functions is None:
        view, path = _View(items, changed, is_least=True), []
        view.moved_ns = moved_ns.tolist()
        while instant >= 0:
            _, source, kind = view.latest(instant)
            path.append((instant, kind))
            instant = source
        walked, of_edges = np.array(path, np.int64).reshape(-1, 2).T
        return walked, of_edges
    # Pages that nothing is written to take no memory.
    instants, kinds = np.empty(len(moved_ns), np.int64), np.empty(len(moved_ns), np.int8)
    structures = map(ctypes.byref, (_items(items), _weights(changed)))
    count = functions.walk_back(*structures, moved_ns, instant, instants, kinds, len(instants))
    if count < 0:
        raise MemoryError
    return instants[:count].copy(), kinds[:count].astype(np.int64)


def _items(items: Items) -> _Items:
    counts, by_start = (items.calls, items.operations, len(items.by_start)), items.by_start
    return _Items(
        *counts, items.time_ns.ctypes.data, IntegerArray.from_param(by_start), items.origin_ns
    )


def _weights(edges: ReplayEdges) -> _Weights:
    return _Weights(*map(IntegerArray.from_param, edges[:-1]), edges.usual_ns.ctypes.data)


class _View:
    """What each instant waits for, with the times of some edges, moved or as measured."""

    def __init__(self, items: Items, edges: ReplayEdges, *, is_least: bool) -> None:
        self.time_ns, self._items, self._is_least = items.time_ns.tolist(), items, is_least
        self.moved_ns = [0] * len(self.time_ns)
        self._edges = [column.tolist() for column in edges]
        self._stored: dict[int, list[tuple[int, int, int]]] = {}
        for source, target, kind, ns in zip(*self._edges[6:10], strict=True):
            self._stored.setdefault(target, []).append((source, ns, kind))

    def waits(self, instant: int) -> list[tuple[int, int, int]]:
        """Source, time and kind of the edges to an instant; of equal times the first one counts."""
        stored = self._stored.get(instant, [])
        implied = self._implied(instant)
        return [*stored, *implied] if instant % 2 else [*implied, *stored]

    def latest(self, instant: int) -> tuple[int, int, int]:
        """The latest time of what an instant waits for, its source and the kind of the edge."""
        time, source, kind = self._items.origin_ns, _NONE, _NONE
        for before, ns, its in self.waits(instant):
            at = self.time_ns[before] + self.moved_ns[before] + ns
            if at > time or (kind == _NONE and at == time):
                time, source, kind = at, before, its
        return time, source, kind

    def _implied(self, instant: int) -> list[tuple[int, int, int]]:
        work, call, duration, launches, follows, kinds, *_, usual = self._edges
        item, is_end = divmod(instant, 2)
        row = item - self._items.calls
        if row < 0:
            if is_end:
                return [(instant - 1, call[item], _CALL)]
            return [(instant - 1, work[item], _HOST_WORK)] if work[item] >= 0 else []
        if row >= self._items.operations:
            return []
        if is_end:
            return [(instant - 1, duration[row], _DURATION)]
        some = (
            (follows[row] == _APART, instant - 1, 1, _STREAM),
            (follows[row] == _WITHIN, instant - 2, 2, _OVERLAP),
            (launches[row] >= 0, 2 * launches[row], 0, _LAUNCH),
        )
        waits = []
        for is_there, source, place, kind in some:
            if is_there:
                slack, latency = (
                    self.time_ns[instant] - self.time_ns[source],
                    usual[place][kinds[row]],
                )
                waits.append((source, min(latency, slack) if self._is_least else latency, kind))
        return waits


def _replayed(
    items: Items,
    recorded: ReplayEdges,
    changed: ReplayEdges,
    no_lag: npt.NDArray[np.bool_] | None,
    *,
    is_usual: bool,
) -> tuple[Integers, int, int]:
    """`replayed` without compiled functions."""
    before = _View(items, recorded, is_least=True)
    after = _View(items, changed, is_least=not is_usual)
    longest, longest_at = 0, _NONE
    instants, when = np.arange(len(items.time_ns)), items.time_ns.copy()
    # An end that only waits for its start comes at once.
    at_once = np.setdiff1d(instants[1::2], _waiting_ends(items, recorded, changed))
    when[at_once] = items.time_ns[at_once - 1]
    # By their times, then the starts of their items; starts before ends.
    for instant in np.lexsort((instants, items.time_ns[instants & ~1], when)).tolist():
        time_ns = before.time_ns[instant]
        lag = time_ns - before.latest(instant)[0]
        if before.waits(instant):
            if lag > longest and not is_usual:
                longest, longest_at = lag, instant
            if is_usual or (no_lag is not None and no_lag[instant]):
                lag = 0
        after.moved_ns[instant] = after.latest(instant)[0] + lag - time_ns
    return np.array(after.moved_ns, np.int64), longest, longest_at
