"""When every instant comes, given the times of the edges: the longest path."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gpuprof.model.intervals import Int64s
from gpuprof.native import arrays
from gpuprof.predict.graph import AWAITED_NS, IS_FIXED, Graph
from gpuprof.predict.recorded import Flags

# As the time of an edge: the target does not wait for the source.
NEVER: Final = -(1 << 60)
NO_EDGE: Final = -1
# More than the number of operation kinds.
_KINDS: Final = 8


@dataclass(frozen=True, eq=False)
class Weights:
    """The input of a replay.

    Args:
        edge_ns: Least time from the source to the target of each edge; `NEVER` for no wait.
        lag_ns: Time from when the edges of each instant allow it until it comes.
    """

    edge_ns: Int64s
    lag_ns: Int64s


@dataclass(frozen=True, eq=False)
class Replay:
    """When every instant comes, and the edge that it waited for last; `NO_EDGE` for none."""

    time_ns: Int64s
    last_edge: Int64s


def replay(graph: Graph, weights: Weights) -> Replay:
    """One sweep over the instants in the order of time."""
    native = arrays.longest_path(graph.bounds, graph.edges.source, weights.edge_ns, weights.lag_ns)
    return Replay(*(native or _longest_path(graph, weights)))


def _longest_path(graph: Graph, weights: Weights) -> tuple[Int64s, Int64s]:
    bounds, source, edge_ns = (
        a.tolist() for a in (graph.bounds, graph.edges.source, weights.edge_ns)
    )
    times: list[int] = []
    last: list[int] = []
    for place, lag in enumerate(weights.lag_ns.tolist()):
        latest, edge = 0, NO_EDGE
        for row in range(bounds[place], bounds[place + 1]):
            time = times[source[row]] + edge_ns[row]
            if time > latest or (edge == NO_EDGE and time == latest):
                latest, edge = time, row
        times.append(latest + lag)
        last.append(edge)
    return np.array(times, np.int64), np.array(last, np.int64)


@dataclass(frozen=True, eq=False)
class Measured:
    """A graph with the times of its edges: with recorded lags, and with usual latencies.

    Args:
        graph: The graph.
        with_lags: Reproduce every instant as measured.
        usual: Latencies are medians over similar edges, and there are no lags.
    """

    graph: Graph
    with_lags: Weights
    usual: Weights

    @cached_property
    def replayed(self) -> Replay:
        """The replay with usual latencies only."""
        return replay(self.graph, self.usual)


def measured(graph: Graph) -> Measured:
    """The times of the edges that reproduce every instant as measured, and the usual ones.

    The usual time of a latency is the median over edges that were waited for last. The time from
    when the edges of an instant allow it until it comes is its lag.
    """
    edges, times = graph.edges, graph.time_ns
    slack = times[edges.target] - times[edges.source]
    fixed = IS_FIXED[edges.kind]
    usual = np.where(fixed, edges.least_ns, _usual(graph, slack))
    edge_ns = np.minimum(usual, slack)
    lag = times.copy()
    if len(edges):
        with_edges = np.flatnonzero(np.diff(graph.bounds))
        ready = np.maximum.reduceat(times[edges.source] + edge_ns, graph.bounds[with_edges])
        lag[with_edges] -= np.maximum(ready, 0)
    no_lag = np.where(np.diff(graph.bounds) > 0, 0, lag)
    return Measured(graph, Weights(edge_ns, lag), Weights(usual, no_lag))


def _usual(graph: Graph, slack: Int64s) -> Int64s:
    """The median latency of edges of one kind to operations of one kind; 0 for fixed kinds.

    Only edges that were waited for last count, and none longer than any latency.
    """
    rows = np.flatnonzero(~IS_FIXED[graph.edges.kind])
    family, slack = _families(graph, rows), slack[rows]
    is_latency = _is_last(graph)[rows] & (slack <= AWAITED_NS)
    kinds = family // _KINDS
    medians = np.zeros(int(family.max(initial=0)) + 1, np.int64)
    for number in np.unique(family).tolist():
        its = family == number
        # Where no edge of a family was waited for last, take those of its kind, else all.
        similar = (its, kinds == number // _KINDS, np.ones(len(rows), bool))
        some = next((m for m in similar if (m & is_latency).any()), None)
        usual = AWAITED_NS if some is None else np.median(slack[some & is_latency])
        medians[number] = usual if some is its else min(usual, slack[its].min())
    usual_ns = np.zeros(len(graph.edges), np.int64)
    usual_ns[rows] = medians[family]
    return usual_ns


def _families(graph: Graph, rows: Int64s) -> Int64s:
    """A number for the kind of each edge and the kind of its target operation."""
    item = graph.item[graph.edges.target[rows]] - len(graph.calls)
    kind = np.append(graph.operations.kind, -1) + 1
    outside = (item < 0) | (item >= len(graph.operations))
    its = kind[np.where(outside, len(graph.operations), item)]
    return np.asarray(graph.edges.kind[rows].astype(np.int64) * _KINDS + its, np.int64)


def _is_last(graph: Graph) -> Flags:
    """Whether each edge comes from the latest source of its target."""
    if not len(graph.edges):
        return np.zeros(0, bool)
    source_ns = graph.time_ns[graph.edges.source]
    counts = np.diff(graph.bounds)
    latest = np.maximum.reduceat(source_ns, graph.bounds[:-1][counts > 0])
    return np.asarray(source_ns == np.repeat(latest, counts[counts > 0]))
