"""The dependency graph: instants in the order of time, and edges with their provenance.

Every call, operation and meeting of ranks is an item with two instants, its start and its end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.model.intervals import Int64s
from gpuprof.native import arrays
from gpuprof.predict.recorded import Calls, Flags, Operations, Recorded

RECORDED, RULE, INFERRED = range(3)
PROVENANCES: Final = ("recorded", "rule", "inferred")
# No latency is longer: an operation that starts later than this after all known dependencies
# waited for something else.
AWAITED_NS: Final = 25_000
# The work that it waited for ended at most this long before.
NEAR_NS: Final = 20_000


class Kind(NamedTuple):
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
    Kind("duration of an operation", RECORDED, is_fixed=True),
    Kind("duration of a call", RECORDED, is_fixed=True),
    Kind("host work between two calls of a thread", RECORDED, is_fixed=True),
    Kind("launch of an operation", RECORDED),
    Kind("order of a stream", RECORDED),
    Kind("operations that overlap on a stream", RECORDED),
    Kind("synchronising call", RECORDED),
    Kind("synchronising call, by its name", RULE),
    Kind("wait of a stream for an event", RECORDED),
    Kind("copy that its call waits for", RULE),
    Kind("copy between devices on default streams", RULE),
    Kind("halves of a staged copy", RECORDED),
    Kind("collective: all ranks arrived", RULE, is_fixed=True),
    Kind("collective: transfer", RULE, is_fixed=True),
    Kind("work that ended just before on another stream", INFERRED),
    Kind("launch into a full queue", INFERRED),
    Kind("call after another thread's", INFERRED, is_fixed=True),
)
(
    DURATION, CALL, HOST_WORK, LAUNCH, STREAM, OVERLAP, SYNCHRONISATION, SYNCHRONISATION_BY_NAME,
    EVENT, COPY_CALL, DEFAULT_STREAMS, STAGED, ARRIVAL, TRANSFER, AWAITED, FULL_QUEUE, OTHER_THREAD,
) = range(len(KINDS))  # fmt: skip
IS_FIXED: Final = np.array([kind.is_fixed for kind in KINDS])


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges, one element each.

    Args:
        source: The instant to wait for.
        target: The instant that waits for it.
        kind: Index into `KINDS`.
        least_ns: For fixed kinds, the least time from source to target.
    """

    source: Int64s
    target: Int64s
    kind: npt.NDArray[np.int8]
    least_ns: Int64s

    def __len__(self) -> int:
        """How many there are."""
        return len(self.source)

    def take(self, rows: Flags | Int64s) -> "Edges":
        """Some of them."""
        return Edges(self.source[rows], self.target[rows], self.kind[rows], self.least_ns[rows])


def together(parts: Sequence[Edges]) -> Edges:
    """Edges of several sets."""
    columns = ("source", "target", "kind", "least_ns")
    return Edges(*(np.concatenate([getattr(part, c) for part in parts]) for c in columns))


def by_target(edges: Edges, instants: int) -> Int64s:
    """The order of edges by their targets; stable."""
    counts = np.bincount(edges.target, minlength=instants)
    order = arrays.grouped([(np.arange(len(edges)), edges.target)], counts, np.dtype(np.int64))
    return np.argsort(edges.target, kind="stable") if order is None else order.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Graph:
    """The instants of a recording in the order of time, and the edges by their targets.

    Items are calls first, then operations, then meetings of ranks; instants ``2 * item`` and
    ``2 * item + 1`` are start and end. Edges name instants by their place in the order of time.

    Args:
        operations: The operations.
        calls: The calls.
        time_ns: When each instant was measured, ascending, since the first one.
        origin_ns: When that was.
        transfer_ns: Time of each operation without waiting for other ranks, where known.
        place: The place of each instant in the order of time.
        edges: Edges, sorted by target; each source comes before its target.
        doubts: Inconsistencies of the recording, with their counts.
    """

    operations: Operations
    calls: Calls
    time_ns: Int64s
    origin_ns: int
    transfer_ns: Int64s
    place: Int64s
    edges: Edges
    doubts: Mapping[str, int]

    @cached_property
    def bounds(self) -> Int64s:
        """Where the edges of each instant begin, and where the last ones end."""
        count = np.bincount(self.edges.target, minlength=len(self.time_ns))
        return np.concatenate([[0], np.cumsum(count)])

    @cached_property
    def starts(self) -> Int64s:
        """The places of the starts of the operations."""
        return self.place[2 * (len(self.calls) + np.arange(len(self.operations)))]

    @cached_property
    def ends(self) -> Int64s:
        """The places of their ends."""
        return self.place[2 * (len(self.calls) + np.arange(len(self.operations))) + 1]

    @cached_property
    def item(self) -> Int64s:
        """The item of each place."""
        items = np.empty(len(self.place), np.int64)
        items[self.place] = np.arange(len(self.place)) // 2
        return items


class Maker:
    """Collects the edges of a graph kind by kind."""

    def __init__(self, source: Recorded, meetings: Int64s) -> None:
        self.operations, self.calls = source.operations, source.calls
        o, c = self.operations, self.calls
        self.start_ns = np.concatenate([c.start_ns, o.start_ns, meetings])
        self.end_ns = np.concatenate([c.end_ns, o.end_ns, meetings])
        self._times = np.stack([self.start_ns, self.end_ns], axis=1).reshape(-1)
        self._parts: list[Edges] = []
        self.doubts: Counter[str] = Counter()

    @property
    def first_operation(self) -> int:
        """The item of the first operation."""
        return len(self.calls)

    def starts(self, items: Int64s) -> Int64s:
        """Instants of starts."""
        return 2 * items

    def ends(self, items: Int64s) -> Int64s:
        """Instants of ends."""
        return 2 * items + 1

    def time(self, instants: Int64s) -> Int64s:
        """When instants were measured."""
        return self._times[instants]

    def add(
        self, kind: int, source: Int64s, target: Int64s, least_ns: Int64s | None = None
    ) -> None:
        """Add edges between instants; those that go back in time are left out."""
        slack = self.time(target) - self.time(source)
        fits = slack >= 0
        if not fits.all() and KINDS[kind].provenance == RECORDED:
            self.doubts[f"{KINDS[kind].name}: back in time"] += int((~fits).sum())
        least = slack if least_ns is None else np.minimum(least_ns, slack)
        edges = Edges(source, target, np.full(len(source), kind, np.int8), least)
        self._parts.append(edges if fits.all() else edges.take(fits))

    def edges(self) -> Edges:
        """All of them."""
        return together(self._parts)

    def latest(self, targets: int) -> Int64s:
        """The time of the latest known dependency of each instant."""
        latest_ns = np.full(targets, np.iinfo(np.int64).min)
        for edges in self._parts:
            np.maximum.at(latest_ns, edges.target, self.time(edges.source))
        return latest_ns
