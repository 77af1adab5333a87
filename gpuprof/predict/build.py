"""Build the graph of a recording: all edges, in the order of time."""

from typing import Final

import numpy as np

from gpuprof.base.errors import MissingTableError
from gpuprof.facts.collective_parts import PARTS_READS
from gpuprof.facts.launches import by_time
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict.graph import Edges, Graph, Maker, by_target
from gpuprof.predict.host import add_calls
from gpuprof.predict.ranks import add_collectives, meetings
from gpuprof.predict.recorded import RECORDED_READS, recorded
from gpuprof.predict.streams import add_awaited, add_copies, add_streams

GRAPH_READS: Final = reads(
    RECORDED_READS,
    PARTS_READS,
    synchronizations="start_ns process_id device_id stream_id correlation_id src_device_id"
    " src_stream_id event_id sync_kind",
    cuda_events="process_id correlation_id event_id",
)


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
