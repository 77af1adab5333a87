"""The dependency graph as nodes per rank: a node starts when those before it have ended.

A rank is a device. Edges of the graph may begin at the start of an item, or end at its end; edges
between nodes go from an end to a start. So a call is up to three nodes: the host's work before it,
the call, and its wait for operations. What cannot be said so, nor by messages between ranks, is
left out: launches into a full queue, operations that overlap on a stream, and latencies.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.model.intervals import Int64s
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import Graph
from gpuprof.predict.recorded import COPY, Flags, runs

# Kinds of nodes, in the order of those of one call.
WORK, CALL, WAIT, OPERATION = range(4)
_WAITS: Final = (kinds.SYNCHRONISATION, kinds.SYNCHRONISATION_BY_NAME, kinds.COPY_CALL)
_STARTS: Final = (
    kinds.HOST_WORK, kinds.OTHER_THREAD, kinds.STREAM, kinds.EVENT, kinds.DEFAULT_STREAMS,
    kinds.AWAITED,
)  # fmt: skip
_DURATIONS: Final = (kinds.DURATION, kinds.CALL, kinds.TRANSFER)


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of one rank, one element each; a node comes after those that it waits for.

    Args:
        kind: `WORK`, `CALL`, `WAIT` or `OPERATION`.
        item: Its call or operation, as the graph numbers them.
        start_ns: When it started, since the start of the graph.
        duration_ns: How long it takes without waiting.
        bounds: Where the nodes that each waits for begin in ``waits_for``, and where the last end.
        waits_for: Nodes that must end before.
    """

    kind: Int64s
    item: Int64s
    start_ns: Int64s
    duration_ns: Int64s
    bounds: Int64s
    waits_for: Int64s


@dataclass(frozen=True, eq=False)
class Ranks:
    """The nodes of each rank, and the messages between ranks.

    Args:
        devices: The device of each rank.
        nodes: The nodes of each rank.
        message: A number for each copy between two devices, the same for both halves of a staged
            one; `NOT_FOUND` for other operations.
        sender: The rank that sends it.
        receiver: The rank that receives it.
        left_out: Edges between ranks that no message expresses.
    """

    devices: tuple[int, ...]
    nodes: tuple[Nodes, ...]
    message: Int64s
    sender: Int64s
    receiver: Int64s
    left_out: int


def ranks_of(graph: Graph) -> Ranks:
    """The nodes of each device that operations run on, or are copied to."""
    o, calls = graph.operations, len(graph.calls)
    ends = np.stack([o.device, o.device])
    is_direct = o.is_peer & ~o.is_staged & (o.kind == COPY)
    is_direct &= (o.src >= 0) & (o.dst >= 0) & (o.src != o.dst)
    ends[:, is_direct] = np.stack([o.src, o.dst])[:, is_direct]
    first, second = _halves(graph)
    ends[:, first] = ends[:, second] = np.stack([o.device[first], o.device[second]])
    devices = np.unique(np.append(ends, o.device))
    sender, receiver = np.searchsorted(devices, ends)
    home = np.searchsorted(devices, o.device)
    message = np.where(is_direct | _flags(first, len(o)), np.arange(len(o)), NOT_FOUND)
    message[second] = message[first]
    least_ns, meetings = _least_ns(graph), np.zeros(len(graph.place) // 2 - calls - len(o), bool)
    nodes, is_known, is_met = [], *np.zeros((2, len(graph.edges)), bool)
    for number, of_calls in enumerate(_ranks_of_calls(graph, home, len(devices))):
        of_rank = np.where(is_direct, (sender == number) | (receiver == number), home == number)
        here = np.concatenate([of_calls, of_rank, meetings])
        # On its rank, half of a staged copy stands for both.
        half = np.arange(len(here))
        half[calls + first[of_rank[second]]] = calls + second[of_rank[second]]
        half[calls + second[of_rank[first]]] = calls + first[of_rank[first]]
        source, target = (half[graph.item[e]] for e in (graph.edges.source, graph.edges.target))
        nodes.append(_nodes(graph, here, (source, target), least_ns))
        is_known |= here[target]
        is_met |= here[source] & here[target]
    is_left_out = np.isin(graph.edges.kind, (*_STARTS, *_WAITS, kinds.LAUNCH)) & is_known & ~is_met
    return Ranks(
        tuple(devices.tolist()), tuple(nodes), message, sender, receiver, int(is_left_out.sum())
    )


def _flags(rows: Int64s, count: int) -> Flags:
    flags = np.zeros(count, bool)
    flags[rows] = True
    return flags


def _halves(graph: Graph) -> tuple[Int64s, Int64s]:
    """Both operations of each staged copy."""
    rows = np.flatnonzero(graph.edges.kind == kinds.STAGED)
    source, target = graph.edges.source[rows], graph.edges.target[rows]
    return graph.item[source] - len(graph.calls), graph.item[target] - len(graph.calls)


def _ranks_of_calls(graph: Graph, home: Int64s, ranks: int) -> list[Flags]:
    """By rank, the calls of threads that launch on it; other threads are on all of the process."""
    o, calls = graph.operations, graph.calls
    launched = np.flatnonzero(o.call != NOT_FOUND)
    threads = int(calls.thread.max(initial=-1)) + 1
    is_on = np.zeros((ranks, threads), bool)
    is_on[home[launched], calls.thread[o.call[launched]]] = True
    for low, _ in runs(calls.thread):
        if not is_on[:, (thread := calls.thread[low])].any():
            is_on[home[o.process == calls.process[low]], thread] = True
    return [flags[calls.thread] for flags in is_on]


def _least_ns(graph: Graph) -> Int64s:
    """How long each item takes without waiting."""
    edges, least_ns = graph.edges, np.zeros(len(graph.place) // 2, np.int64)
    rows = np.isin(edges.kind, _DURATIONS)
    np.maximum.at(least_ns, graph.item[edges.target[rows]], edges.least_ns[rows])
    return least_ns


def _nodes(graph: Graph, here: Flags, edges: tuple[Int64s, Int64s], least_ns: Int64s) -> Nodes:
    """The nodes of the calls and operations that are here.

    Args:
        graph: The graph.
        here: Whether each item is on this rank.
        edges: The items of both ends of each edge.
        least_ns: How long each item takes without waiting.
    """
    (source, target), kind_of = edges, graph.edges.kind
    calls = len(graph.calls)
    start, end = graph.place[0::2], graph.place[1::2]
    is_within = here[source] & here[target] & (source != target)
    is_wait = np.isin(kind_of, _WAITS)
    # What waits for another rank without a message takes as long as it did.
    outside, least_ns = target[is_wait & ~is_within], least_ns.copy()
    least_ns[outside] = (graph.time_ns[end] - graph.time_ns[start])[outside]
    is_wait &= is_within
    is_start = is_within & np.isin(kind_of, _STARTS)
    is_launch = is_within & (kind_of == kinds.LAUNCH)
    # What starts before its launch call ends follows what is before the call.
    is_early = is_launch & (start[target] < end[source]) & (least_ns[source] > 0)
    work_ns, before = _work_before(graph, here)
    has_work = (work_ns > 0) | _flags(source[is_early], calls)
    waiting, called = np.unique(target[is_wait]), np.flatnonzero(before != NOT_FOUND)
    worked, operations = np.flatnonzero(has_work), calls + np.flatnonzero(here[calls:])
    members = (worked, np.flatnonzero(here[:calls]), waiting, operations)
    kind, item, when, node = _numbered(graph, members)
    first = np.where(node[WORK] >= 0, node[WORK], np.maximum(node[CALL], node[OPERATION]))
    last = np.where(node[WAIT] >= 0, node[WAIT], np.maximum(node[CALL], node[OPERATION]))
    launching = node[np.where(is_early, WORK, CALL)[is_launch], source[is_launch]]
    pairs = np.concatenate(
        [
            [last[source[is_start]], first[target[is_start]]],
            [launching, first[target[is_launch]]],
            [last[source[is_wait]], node[WAIT, target[is_wait]]],
            [node[CALL, waiting], node[WAIT, waiting]],
            [node[WORK, worked], node[CALL, worked]],
            [last[before[called]], first[called]],
        ],
        axis=1,
    )
    started_ns = graph.time_ns[when]
    work_of_ns = np.append(work_ns, np.zeros(len(here) - calls, np.int64))[item]
    return Nodes(
        kind,
        item,
        np.where(kind == WORK, started_ns - work_of_ns, started_ns),
        np.choose(kind, [work_of_ns, least_ns[item], 0, least_ns[item]]),
        *_grouped(pairs, len(item)),
    )


def _numbered(graph: Graph, members: tuple[Int64s, ...]) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Nodes in the order of their starts: kind, item, instant; and their numbers by kind and item.

    Args:
        graph: The graph.
        members: By kind of node, the items that have one.
    """
    item = np.concatenate(members)
    kind = np.repeat(np.arange(len(members)), [len(rows) for rows in members])
    when = graph.place[2 * item + (kind == WAIT)]
    order = np.lexsort((kind, when))
    kind, item = kind[order], item[order]
    node = np.full((len(members), len(graph.place) // 2), NOT_FOUND)
    node[kind, item] = np.arange(len(order))
    return kind, item, when[order], node


def _grouped(pairs: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """What each of some nodes waits for, with bounds, from pairs of a node and a later one."""
    # Halves of a staged copy stand for each other, also where they ran at different times.
    pairs = pairs[:, pairs[0] < pairs[1]]
    after, waits_for = np.divmod(np.unique(pairs[1] * count + pairs[0]), max(count, 1))
    return np.searchsorted(after, np.arange(count + 1)), waits_for


def _work_before(graph: Graph, here: Flags) -> tuple[Int64s, Int64s]:
    """The host's work before each call, and for the first call of a thread the call before it.

    A thread starts after the last call that had ended then; without one, it starts with the graph.
    """
    calls, edges = len(graph.calls), graph.edges
    start, end = graph.place[0 : 2 * calls : 2], graph.place[1 : 2 * calls : 2]
    source, target = graph.item[edges.source], graph.item[edges.target]
    work_ns, before = np.zeros(calls, np.int64), np.full(calls, NOT_FOUND)
    is_work = edges.kind == kinds.HOST_WORK
    is_first = here[:calls] & ~_flags(target[is_work], calls)
    is_work |= edges.kind == kinds.OTHER_THREAD
    is_work &= here[target]
    np.maximum.at(work_ns, target[is_work], edges.least_ns[is_work])
    # The pause stays where it waited for a thread of another rank.
    outside = target[is_work & ~here[source]]
    work_ns[outside] = (graph.time_ns[start[1:]] - graph.time_ns[end[:-1]])[outside - 1]
    first = np.flatnonzero(is_first)
    candidates = np.flatnonzero(here[:calls])
    candidates = candidates[np.argsort(end[candidates])]
    place = np.searchsorted(end[candidates], start[first]) - 1
    has_one = place >= 0
    before[first[has_one]] = candidates[place[has_one]]
    began_ns = np.zeros(len(first), np.int64)
    began_ns[has_one] = graph.time_ns[end[before[first[has_one]]]]
    work_ns[first] = graph.time_ns[start[first]] - began_ns
    return work_ns, before
