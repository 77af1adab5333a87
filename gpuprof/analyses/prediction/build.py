"""Build the graph of a recording: all edges, in the order of time."""

import numpy as np

from gpuprof.analyses.facts.launches import by_time
from gpuprof.analyses.prediction.graph import Edges, Graph, Maker, by_target
from gpuprof.analyses.prediction.host import add_calls
from gpuprof.analyses.prediction.ranks import add_collectives, meetings
from gpuprof.analyses.prediction.recorded import recorded
from gpuprof.analyses.prediction.streams import add_awaited, add_copies, add_streams
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile


def graph_of(profile: Profile) -> Graph:
    """The dependency graph of the whole recording."""
    return profile.whole.once(_graph)


def _graph(profile: Profile) -> Graph:
    source = recorded(profile)
    members, meeting, arrived, transfer, alone_ns = meetings(profile, source.operations)
    maker = Maker(source, arrived)
    add_streams(maker)
    add_calls(maker, profile, source)
    add_copies(maker)
    add_collectives(maker, members, meeting, transfer)
    add_awaited(maker)
    return _ordered(maker, alone_ns)


def _ordered(maker: Maker, transfer_ns: Int64s) -> Graph:
    """The graph with its instants in the order of time, ties by the start of their items."""
    items = len(maker.start_ns)
    # Among items with the same start, calls come first, then operations in stream order.
    rank = by_time(maker.start_ns)
    times = np.stack([maker.start_ns[rank], maker.end_ns[rank]], axis=1).reshape(-1)
    order = by_time(times)
    place = np.empty(2 * items, np.int64)
    place[np.stack([2 * rank, 2 * rank + 1], axis=1).reshape(-1)[order]] = np.arange(2 * items)
    edges = maker.edges()
    edges = Edges(place[edges.source], place[edges.target], edges.kind, edges.least_ns)
    if not (fits := edges.source < edges.target).all():
        edges = edges.take(fits)
    edges = edges.take(by_target(edges, 2 * items))
    origin = int(times[order[0]]) if items else 0
    return Graph(
        maker.operations,
        maker.calls,
        times[order] - origin,
        origin,
        transfer_ns,
        place,
        edges,
        dict(maker.doubts),
    )
