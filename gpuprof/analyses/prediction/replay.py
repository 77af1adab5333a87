"""When every instant comes, given how much later than what it waits for: the longest path."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gpuprof.analyses.prediction.graph import AWAITED_NS, IS_FIXED, Graph
from gpuprof.analyses.prediction.recorded import Flags
from gpuprof.intervals import Int64s
from gpuprof.native import arrays

# In place of the time of an edge: the target does not wait for the source.
NEVER: Final = -(1 << 60)
NO_EDGE: Final = -1
# More than there are kinds of operations.
_KINDS: Final = 8


@dataclass(frozen=True, eq=False)
class Weights:
    """What a replay takes as given.

    Args:
        edge_ns: How much later than its source the target of each edge comes at least; `NEVER`.
        lag_ns: How much later than all its edges allow each instant comes.
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
    made = arrays.longest_path(graph.bounds, graph.edges.source, weights.edge_ns, weights.lag_ns)
    return Replay(*(made or _longest_path(graph, weights)))


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
    """A graph with the times of its edges: with their own lags, and the usual ones.

    Args:
        graph: The graph.
        own: Gives every instant as it was measured.
        usual: Latencies are the medians of edges like each, and there are no lags.
    """

    graph: Graph
    own: Weights
    usual: Weights

    @cached_property
    def replayed(self) -> Replay:
        """With usual latencies alone."""
        return replay(self.graph, self.usual)


def measured(graph: Graph) -> Measured:
    """The times of the edges, so that the replay gives every instant as it was measured.

    Of edges that are latencies the usual one is the median over those that were waited for last;
    what an instant is later than all its edges allow is its lag.
    """
    edges, times = graph.edges, graph.time_ns
    slack = times[edges.target] - times[edges.source]
    fixed = IS_FIXED[edges.kind]
    usual = np.where(fixed, edges.least_ns, _usual(graph, slack))
    own = np.minimum(usual, slack)
    lag = times.copy()
    if len(edges):
        with_edges = np.flatnonzero(np.diff(graph.bounds))
        ready = np.maximum.reduceat(times[edges.source] + own, graph.bounds[with_edges])
        lag[with_edges] -= np.maximum(ready, 0)
    no_lag = np.where(np.diff(graph.bounds) > 0, 0, lag)
    return Measured(graph, Weights(own, lag), Weights(usual, no_lag))


def _usual(graph: Graph, slack: Int64s) -> Int64s:
    """The median latency of edges of one kind to operations of one kind; 0 of fixed kinds.

    Of those that were waited for last; what took longer than any latency waited for more.
    """
    rows = np.flatnonzero(~IS_FIXED[graph.edges.kind])
    family, slack = _families(graph, rows), slack[rows]
    is_latency = _is_last(graph)[rows] & (slack <= AWAITED_NS)
    kinds = family // _KINDS
    medians = np.zeros(int(family.max(initial=0)) + 1, np.int64)
    for number in np.unique(family).tolist():
        its = family == number
        # Where none of a family was waited for last, those of its kind tell, else all.
        similar = (its, kinds == number // _KINDS, np.ones(len(rows), bool))
        some = next((m for m in similar if (m & is_latency).any()), None)
        usual = AWAITED_NS if some is None else np.median(slack[some & is_latency])
        medians[number] = usual if some is its else min(usual, slack[its].min())
    usual_ns = np.zeros(len(graph.edges), np.int64)
    usual_ns[rows] = medians[family]
    return usual_ns


def _families(graph: Graph, rows: Int64s) -> Int64s:
    """Numbers of edges: the kind of each, and what its target is of."""
    item = graph.item[graph.edges.target[rows]] - len(graph.calls)
    kind = np.append(graph.operations.kind, -1) + 1
    outside = (item < 0) | (item >= len(graph.operations))
    its = kind[np.where(outside, len(graph.operations), item)]
    return np.asarray(graph.edges.kind[rows].astype(np.int64) * _KINDS + its, np.int64)


def _is_last(graph: Graph) -> Flags:
    """Whether each edge comes from the latest source of its target."""
    if not len(graph.edges):
        return np.zeros(0, bool)
    came = graph.time_ns[graph.edges.source]
    counts = np.diff(graph.bounds)
    latest = np.maximum.reduceat(came, graph.bounds[:-1][counts > 0])
    return np.asarray(came == np.repeat(latest, counts[counts > 0]))
