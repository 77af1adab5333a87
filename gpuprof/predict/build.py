"""Build the graph of a recording: its items in the order of time, edges, and usual latencies."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.errors import MissingTableError
from gpuprof.facts.collective_parts import PARTS_READS
from gpuprof.facts.numbers import NOT_FOUND, Numbers, index_kind, order_of, pieces
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed
from gpuprof.predict.devices import add_awaited, add_copies, add_meetings, meetings
from gpuprof.predict.graph import (
    APART,
    AWAITED_NS,
    IMPLIED,
    IS_FIXED,
    LAUNCH,
    OPERATION_KINDS,
    STREAM,
    WITHIN,
    Graph,
    Maker,
    Weights,
    holds,
)
from gpuprof.predict.host import add_calls, work_between
from gpuprof.predict.recorded import KERNEL, RECORDED_READS, Flags, recorded

GRAPH_READS: Final = reads(
    RECORDED_READS,
    PARTS_READS,
    synchronizations="start_ns process_id device_id stream_id correlation_id src_device_id"
    " src_stream_id event_id sync_kind",
    cuda_events="process_id correlation_id event_id",
)
_NONE: Final = np.iinfo(np.int64).min
# The pause between kernels of a stream where each waited for its launch: the median of those of 17
# recordings of nsys and nvprof, which are 0.4 to 3.5 us.
_PAUSE_NS: Final = 1_400


def graph_of(profile: Profile) -> Graph:
    """The dependency graph of the whole recording.

    Raises:
        MissingTableError: The recording has no times, or no operations.
    """
    if not profile.unrestricted.has("kernels") and not profile.unrestricted.has("memcpys"):
        msg = f"{profile.origin.source} has no times of kernels and copies: nothing can be replayed"
        raise MissingTableError(msg, "Record with `gpuprof record`, which keeps every activity.")
    graph = profile.unrestricted.once(_graph)
    if not len(graph.operations):
        msg = f"{profile.origin.source} has no kernels and no copies: nothing can be replayed"
        raise MissingTableError(msg, "Record a program that uses a GPU.")
    return graph


def _graph(profile: Profile) -> Graph:
    profile.expect(GRAPH_READS)
    operations, calls = recorded(profile)
    met = meetings(profile, operations)
    c, o = len(calls), len(operations)
    time_ns = np.empty(2 * (c + o + len(met.arrived_ns)), np.int64)
    time_ns[0 : 2 * c : 2], time_ns[1 : 2 * c : 2] = calls.start_ns, calls.end_ns
    calls = replace(calls, start_ns=time_ns[0 : 2 * c : 2], end_ns=time_ns[1 : 2 * c : 2])
    starts, ends = time_ns[2 * c : 2 * (c + o) : 2], time_ns[2 * c + 1 : 2 * (c + o) : 2]
    starts[:], ends[:] = operations.start_ns, operations.end_ns
    operations = replace(operations, start_ns=starts, end_ns=ends)
    time_ns[2 * (c + o) :] = np.repeat(met.arrived_ns, 2)
    maker = Maker(operations, calls, time_ns)
    follows, launch = _follows(maker), _launches(maker)
    call_ns = add_calls(maker, profile)
    work_ns = work_between(maker)
    add_copies(maker)
    duration_ns = narrowed(operations.took_ns)
    add_meetings(maker, met)
    duration_ns[met.members] = 0
    weights = Weights(
        work_ns, call_ns, duration_ns, launch, follows, operations.kind, maker.edges(),
        np.zeros((len(IMPLIED), OPERATION_KINDS), np.int64),
    )  # fmt: skip
    # Operations that start long after all known dependencies.
    late = [np.empty(0, np.int64)]
    for its, _, latest in _Sources(time_ns, weights, c).pieces():
        late.append(its[(latest != _NONE) & (starts[its] - latest > AWAITED_NS)])
    add_awaited(maker, np.concatenate(late))
    weights = _with_usual(replace(weights, edges=maker.edges()), time_ns, c)
    by_start = order_of(time_ns[0::2]).astype(index_kind(len(time_ns)))
    return Graph(
        operations, calls, time_ns, by_start, weights, met.collectives, met.alone_ns, met.bytes,
        dict(maker.doubts),
    )  # fmt: skip


def _follows(maker: Maker) -> npt.NDArray[np.int8]:
    """Which operations come after the end, or the start, of the one before on their stream."""
    o = maker.operations
    follows = np.zeros(len(o), np.int8)
    is_next = o.stream[1:] == o.stream[:-1]
    overlaps = is_next & (o.end_ns[:-1] > o.start_ns[1:])
    follows[1:][is_next], follows[1:][overlaps] = APART, WITHIN
    if number := int(overlaps.sum()):
        maker.doubts["operations that overlap on one stream"] = number
    return follows


def _launches(maker: Maker) -> Numbers:
    """The call that launched each operation, where it began before."""
    o = maker.operations
    if not len(maker.calls):
        return o.call
    unlaunched, backward = 0, [np.empty(0, np.int64)]
    for rows in pieces(len(o)):
        call = o.call[rows]
        is_back = (call != NOT_FOUND) & (maker.calls.start_ns[call] > o.start_ns[rows])
        backward.append(rows.start + np.flatnonzero(is_back))
        unlaunched += int((call == NOT_FOUND).sum())
    back = np.concatenate(backward)
    if len(back):
        maker.doubts["launch of an operation: back in time"] = len(back)
    if unlaunched:
        maker.doubts["operations without a launch"] = unlaunched
    # One column where they are the same.
    launch = o.call.copy() if len(back) else o.call
    launch[back] = NOT_FOUND
    return launch


class _Sources:
    """When what operations wait for was: by edges that indices imply, and by stored ones."""

    def __init__(self, time_ns: Int64s, weights: Weights, calls: int) -> None:
        self._time_ns, self._weights, self._calls = time_ns, weights, calls
        edges = weights.edges
        self._targets, first = np.unique(edges.target, return_index=True)
        source_ns = time_ns[edges.source]
        self._latest = np.maximum.reduceat(source_ns, first) if len(first) else source_ns

    def implied(self, rows: slice | Int64s) -> list[Int64s]:
        """The times of the sources of `IMPLIED` edges of some operations, `_NONE` for none."""
        times, first = self._time_ns, 2 * self._calls
        launch, follows = self._weights.launch[rows].astype(np.int64), self._weights.follows[rows]
        ended, began = (
            times[first + 2 * rows.start - back : first + 2 * rows.stop - back : 2]
            if isinstance(rows, slice)
            else times[first + 2 * rows - back]
            for back in (1, 2)
        )
        # What `NOT_FOUND` finds from the end of the times counts for nothing.
        return [
            np.where(is_some, source_ns, _NONE)
            for is_some, source_ns in (
                (launch != NOT_FOUND, times[2 * launch]),
                (follows == APART, ended),
                (follows == WITHIN, began),
            )
        ]

    def pieces(self) -> Iterator[tuple[Int64s, list[Int64s], Int64s]]:
        """Operations in pieces, the sources of their implied edges, and the latest of all."""
        for piece in pieces(len(self._weights.launch)):
            rows = np.arange(piece.start, piece.stop)
            # Nothing is before the first operation where there are no calls.
            sources = self.implied(piece if self._calls else rows)
            latest = np.maximum.reduce(sources)
            first = 2 * (self._calls + piece.start)
            low, high = np.searchsorted(self._targets, [first, first + 2 * len(rows)])
            at, is_end = np.divmod(self._targets[low:high] - first, 2)
            stored = self._latest[low:high][is_end == 0]
            at = at[is_end == 0]
            latest[at] = np.maximum(latest[at], stored)
            yield rows, sources, latest

    def latest(self) -> Int64s:
        """The latest source of the target of each stored edge."""
        edges, calls = self._weights.edges, self._calls
        latest = self._latest[np.searchsorted(self._targets, edges.target)]
        item, is_end = np.divmod(edges.target, 2)
        is_call = (item < calls) & (is_end == 1)
        latest[is_call] = np.maximum(latest[is_call], self._time_ns[edges.target[is_call] - 1])
        is_start = (item >= calls) & (item < calls + len(self._weights.launch)) & (is_end == 0)
        implied = self.implied(item[is_start] - calls)
        latest[is_start] = np.maximum.reduce([latest[is_start], *implied])
        return latest


class _Latencies:
    """How often each latency occurs, by kind of edge and kind of operation, and the least one.

    Counts of each ns up to the longest latency give the median.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], Int64s] = {}
        self._least: dict[tuple[int, int], int] = {}

    def add(self, kind: int, of: Numbers, slack_ns: Int64s, is_last: Flags) -> None:
        """Add edges; those that were waited for last, and are no longer than any latency, count."""
        for its in np.flatnonzero(np.bincount(of)).tolist():
            is_its, family = of == its, (kind, its)
            slack = slack_ns[is_its]
            least = self._least.get(family, int(slack.min()))
            self._least[family] = min(least, int(slack.min()))
            counted = slack[is_last[is_its] & (slack <= AWAITED_NS)]
            counts = self._counts.setdefault(family, np.zeros(AWAITED_NS + 1, np.int64))
            counts += np.bincount(counted, minlength=len(counts))

    def usual(self) -> Iterator[tuple[int, int, int]]:
        """Kind of edge, kind of operation, and the median.

        Without a latency of these, that of its kind, else of all, but no more than the least one.
        Launches tell nothing of how soon kernels follow each other.
        """
        for (kind, its), counts in self._counts.items():
            of_kind = [c for (of_edge, _), c in self._counts.items() if of_edge == kind]
            similar = (np.sum(c, axis=0) for c in ([counts], of_kind, [*self._counts.values()]))
            usual = AWAITED_NS
            if (some := next((c for c in similar if c.any()), None)) is not None:
                until = np.cumsum(some)
                middle = [(until[-1] - 1) // 2, until[-1] // 2]
                usual = int(np.searchsorted(until, middle, side="right").mean())
            if (kind, its) == (STREAM, KERNEL + 1) and not counts.any():
                usual = _PAUSE_NS
            yield kind, its, usual if counts.any() else min(usual, self._least[kind, its])


def _with_usual(weights: Weights, time_ns: Int64s, calls: int) -> Weights:
    """The same with usual latencies: medians over edges of one kind to operations of one kind."""
    sources, latencies, of_streams = _Sources(time_ns, weights, calls), _Latencies(), _Latencies()
    launch_ns = np.zeros(OPERATION_KINDS, np.int64)
    for kinds, of_kinds in ((IMPLIED, latencies), (IMPLIED[1:], of_streams)):
        for rows, implied, latest in sources.pieces():
            starts, of = time_ns[2 * (calls + rows)], weights.kind[rows] + 1
            # Work launched shortly before its stream is free still waits for its launch.
            awaited = np.maximum(latest, implied[0] + launch_ns[of])
            for kind in kinds:
                source = implied[IMPLIED.index(kind)]
                some = np.flatnonzero(source != _NONE)
                slack, is_last = starts[some] - source[some], source[some] == awaited[some]
                of_kinds.add(kind, of[some], slack, is_last)
        for kind, its, value in latencies.usual():
            launch_ns[its] = value if kind == LAUNCH else launch_ns[its]
    edges, operation = weights.edges, weights.edges.target // 2 - calls
    source_ns = time_ns[edges.source]
    slack, is_last = time_ns[edges.target] - source_ns, source_ns == sources.latest()
    of = holds(weights.kind + 1, operation)
    for kind in np.flatnonzero(~IS_FIXED).tolist():
        some = edges.kind == kind
        latencies.add(kind, of[some], slack[some], is_last[some])
    usual_ns, usual = weights.usual_ns.copy(), edges.usual_ns.copy()
    least_ns = {(kind, its): value for kind, its, value in of_streams.usual()}
    for kind, its, value in latencies.usual():
        if kind in IMPLIED:
            usual_ns[IMPLIED.index(kind), its - 1] = min(value, least_ns.get((kind, its), value))
        else:
            usual[(edges.kind == kind) & (of == its)] = value
    edges = replace(edges, usual_ns=usual, least_ns=np.minimum(usual, slack))
    return replace(weights, edges=edges, usual_ns=usual_ns)
