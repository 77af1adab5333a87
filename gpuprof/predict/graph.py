"""The dependency graph: instants in the order of time, and edges with their provenance.

Every call, operation and meeting of ranks is an item with two instants, its start and its end:
``2 * item`` and ``2 * item + 1``. Items are calls first, then operations, then meetings. Most edges
follow from indices: a call comes after the one before it in its thread, an operation after the one
before it on its stream and after its launch, an end after its start. Only the others are stored.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.facts.numbers import NOT_FOUND, Numbers
from gpuprof.model.intervals import Int64s
from gpuprof.predict.recorded import Calls, Flags, Operations

RECORDED, RULE, INFERRED = range(3)
PROVENANCES: Final = ("recorded", "rule", "inferred")
# No latency is longer: an operation that starts later than this after all known dependencies
# waited for something else.
AWAITED_NS: Final = 25_000
# The work that it waited for ended at most this long before.
NEAR_NS: Final = 20_000
# As the time of an edge: the target does not wait for the source.
NEVER: Final = -(1 << 60)
# As the work before a call that follows no other.
NO_WORK: Final = -1


class EdgeKind(NamedTuple):
    """A kind of edge.

    Args:
        name: For people.
        provenance: Index into `PROVENANCES`.
        is_fixed: Whether its time is work, which stays as measured; else a latency.
    """

    name: str
    provenance: int
    is_fixed: bool = False


KINDS: Final = (
    EdgeKind("duration of an operation", RECORDED, is_fixed=True),
    EdgeKind("duration of a call", RECORDED, is_fixed=True),
    EdgeKind("host work between two calls of a thread", RECORDED, is_fixed=True),
    EdgeKind("launch of an operation", RECORDED),
    EdgeKind("order of a stream", RECORDED),
    EdgeKind("operations that overlap on a stream", RECORDED),
    EdgeKind("synchronising call", RECORDED),
    EdgeKind("synchronising call, by its name", RULE),
    EdgeKind("wait of a stream for an event", RECORDED),
    EdgeKind("copy that its call waits for", RULE),
    EdgeKind("copy between devices on default streams", RULE),
    EdgeKind("halves of a staged copy", RECORDED),
    EdgeKind("collective: all ranks arrived", RULE, is_fixed=True),
    EdgeKind("collective: transfer", RULE, is_fixed=True),
    EdgeKind("work that ended just before on another stream", INFERRED),
    EdgeKind("launch into a full queue", INFERRED),
    EdgeKind("call after another thread's", INFERRED, is_fixed=True),
)
# Indices imply the edges of the first six kinds: each is of its target item.
(
    DURATION, CALL, HOST_WORK, LAUNCH, STREAM, OVERLAP, SYNCHRONISATION, SYNCHRONISATION_BY_NAME,
    EVENT, COPY_CALL, DEFAULT_STREAMS, STAGED, ARRIVAL, TRANSFER, AWAITED, FULL_QUEUE, OTHER_THREAD,
) = range(len(KINDS))  # fmt: skip
# Calls that wait, as recorded or by their names.
SYNCHRONISATIONS: Final = (SYNCHRONISATION, SYNCHRONISATION_BY_NAME)
# What an operation waits by for one on another stream.
WAITS_OF_STREAMS: Final = (EVENT, AWAITED)
IS_FIXED: Final = np.array([kind.is_fixed for kind in KINDS])
# Those of latencies whose usual time `Weights` have by kind of operation.
IMPLIED: Final = (LAUNCH, STREAM, OVERLAP)
# The kinds of operations, and one whose edges take no time.
GONE: Final = 4
OPERATION_KINDS: Final = 5
# In `Weights.follows`: an operation waits for the end, or the start, of the one before it.
APART, WITHIN = 1, 2


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges that are stored, sorted by target, one element each.

    Args:
        source: The instant to wait for.
        target: The instant that waits for it.
        kind: Index into `KINDS`.
        usual_ns: The usual time from source to target; `NEVER` where the target does not wait.
        least_ns: The same, but no longer than measured.
    """

    source: Int64s
    target: Int64s
    kind: npt.NDArray[np.int8]
    usual_ns: Int64s
    least_ns: Int64s

    def __len__(self) -> int:
        """How many there are."""
        return len(self.source)

    def take(self, rows: Flags | Int64s) -> "Edges":
        """Some of them."""
        return Edges(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Weights:
    """The edges of a graph, and how long each takes at least.

    Args:
        work_ns: Of each call, from the end of the one before it; `NO_WORK` where it follows none.
        call_ns: Of each call, from its start to its end without waiting.
        duration_ns: Of each operation, from its start to its end without waiting.
        launch: The call whose start each operation comes after; `NOT_FOUND` for none.
        follows: `APART` or `WITHIN` where an operation comes after the one before it, else 0.
        kind: The kind of each operation, or `GONE`.
        edges: All other edges.
        usual_ns: Usual latencies of `LAUNCH`, `STREAM` and `OVERLAP`, a row each, by the kind of
            operation.
    """

    work_ns: Numbers
    call_ns: Numbers
    duration_ns: Numbers
    launch: Numbers
    follows: npt.NDArray[np.int8]
    kind: npt.NDArray[np.int8]
    edges: Edges
    usual_ns: Int64s


@dataclass(frozen=True, eq=False)
class Graph:
    """The instants of a recording, and what each waits for.

    Args:
        operations: The operations.
        calls: The calls.
        time_ns: When each instant was measured.
        by_start: The items by their starts.
        weights: The edges as recorded.
        collectives: Operations that are collectives.
        transfer_ns: Their times without waiting for other ranks, where known.
        message_bytes: Their messages; `UNKNOWN` where no framework told them.
        doubts: Inconsistencies of the recording, with their counts.
    """

    operations: Operations
    calls: Calls
    time_ns: Int64s
    by_start: Numbers
    weights: Weights
    collectives: Int64s
    transfer_ns: Int64s
    message_bytes: Int64s
    doubts: Mapping[str, int]

    @property
    def origin_ns(self) -> int:
        """When the first instant was measured."""
        return int(self.time_ns[2 * self.by_start[0]]) if len(self.by_start) else 0

    @property
    def starts(self) -> slice:
        """The starts of the operations among all instants."""
        first = 2 * len(self.calls)
        return slice(first, first + 2 * len(self.operations), 2)

    @property
    def ends(self) -> slice:
        """Their ends."""
        return slice(self.starts.start + 1, self.starts.stop + 1, 2)

    @cached_property
    def counts(self) -> Int64s:
        """How many edges there are of each kind."""
        w = self.weights
        counts = np.bincount(w.edges.kind, minlength=len(KINDS))
        counts[[DURATION, CALL]] = len(w.duration_ns), len(w.call_ns)
        counts[HOST_WORK] = np.count_nonzero(w.work_ns != NO_WORK)
        counts[LAUNCH] = np.count_nonzero(w.launch != NOT_FOUND)
        counts[[STREAM, OVERLAP]] = [np.count_nonzero(w.follows == n) for n in (APART, WITHIN)]
        return counts

    def name_of(self, item: int) -> str:
        """What people call an item."""
        calls, o, row = self.calls, self.operations, item - len(self.calls)
        if row < 0:
            return calls.labels[int(calls.label[item])]
        return o.labels[int(o.label[row])].text if row < len(o) else "a collective"

    def usual_of(self, kind: int) -> int | None:
        """The median time of the edges of a kind; None where there are none."""
        w = self.weights
        if kind in IMPLIED:
            of = w.launch != NOT_FOUND, w.follows == APART, w.follows == WITHIN
            is_its = of[IMPLIED.index(kind)]
            counts = (np.count_nonzero(is_its & (w.kind == its)) for its in range(OPERATION_KINDS))
            number = np.fromiter(counts, np.int64)
            order = np.argsort(usual_ns := w.usual_ns[IMPLIED.index(kind)])
            until, usual_ns = np.cumsum(number[order]), usual_ns[order]
            middle = [(until[-1] - 1) // 2, until[-1] // 2]
            times = usual_ns[np.searchsorted(until, middle, side="right")] if until[-1] else ()
        elif kind in {DURATION, CALL, HOST_WORK}:
            times = {DURATION: w.duration_ns, CALL: w.call_ns, HOST_WORK: w.work_ns}[kind]
            times = times[times != NO_WORK] if kind == HOST_WORK else times
        else:
            times = w.edges.usual_ns[w.edges.kind == kind]
        return int(np.median(times)) if len(times) else None

    def last_before(self, time_ns: int) -> int:
        """The last instant before a time; the first one of all where there is none."""
        times = self.time_ns
        begun = bisect_left(self.by_start, time_ns, key=lambda item: int(times[2 * int(item)]))
        starts = 2 * self.by_start[: max(begun, 1)].astype(np.int64)
        instants = np.append(starts, starts[times[starts + 1] < time_ns] + 1)
        return int(instants[np.lexsort((instants, times[instants & ~1], times[instants]))[-1]])


class Maker:
    """Collects the edges of a graph that are stored, kind by kind."""

    def __init__(self, operations: Operations, calls: Calls, time_ns: Int64s) -> None:
        self.operations, self.calls, self.time_ns = operations, calls, time_ns
        self.doubts: Counter[str] = Counter()
        nothing = np.empty(0, np.int64)
        self._parts = [Edges(nothing, nothing, np.empty(0, np.int8), nothing, nothing)]

    def starts(self, operations: Int64s) -> Int64s:
        """Instants of their starts."""
        return 2 * (len(self.calls) + operations)

    def ends(self, operations: Int64s) -> Int64s:
        """Instants of their ends."""
        return self.starts(operations) + 1

    def add(
        self, kind: int, source: Int64s, target: Int64s, least_ns: Int64s | None = None
    ) -> None:
        """Add edges between instants; those that go back in time are left out."""
        slack = self.time_ns[target] - self.time_ns[source]
        if KINDS[kind].provenance == RECORDED and (back := int((slack < 0).sum())):
            self.doubts[f"{KINDS[kind].name}: back in time"] += back
        fits = is_before(self.time_ns, source, target)
        slack = slack[fits]
        least = slack if least_ns is None else np.minimum(least_ns[fits], slack)
        kinds = np.full(len(slack), kind, np.int8)
        self._parts.append(Edges(source[fits], target[fits], kinds, least, least))

    def edges(self) -> Edges:
        """All of them."""
        return together(self._parts)


def is_before(time_ns: Int64s, first: Int64s, second: Int64s) -> Flags:
    """Whether some instants come before others.

    Of equal times the item comes first that starts first, and an item's start before its end.
    """
    before, after = time_ns[first], time_ns[second]
    started, starts = time_ns[first & ~1], time_ns[second & ~1]
    is_first = (started < starts) | ((started == starts) & (first < second))
    return np.asarray((before < after) | ((before == after) & is_first))


def holds(values: npt.NDArray[Any], index: Numbers) -> npt.NDArray[Any]:
    """The value at each index; 0 or False outside of them."""
    inside = (index >= 0) & (index < len(values))
    return np.append(values, values.dtype.type(0))[np.where(inside, index, -1)]


def together(parts: Sequence[Edges]) -> Edges:
    """Edges of several sets, those of one target in the order of the sets."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    edges = Edges(*map(np.concatenate, columns))
    return edges.take(np.argsort(edges.target, kind="stable"))
