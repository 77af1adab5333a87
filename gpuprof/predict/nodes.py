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
from gpuprof.predict.graph import NO_WORK, WITHIN, Graph
from gpuprof.predict.recorded import COPY, Flags

# Kinds of nodes, in the order of those of one call.
WORK, CALL, WAIT, OPERATION = range(4)
_WAITS: Final = (*kinds.SYNCHRONISATIONS, kinds.COPY_CALL)
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


class _All:
    """All edges of a graph, those that indices imply too, and the order of its instants."""

    def __init__(self, graph: Graph) -> None:
        w, calls = graph.weights, len(graph.calls)
        called, ran = np.arange(calls), calls + np.arange(len(graph.operations))
        followed = w.follows != 0
        is_within = w.follows[followed] == WITHIN
        parts = [
            (kinds.HOST_WORK, called - 1, called, w.work_ns, w.work_ns != NO_WORK),
            (kinds.CALL, called, called, w.call_ns, np.ones(calls, bool)),
            (kinds.DURATION, ran, ran, w.duration_ns, np.ones(len(ran), bool)),
            (kinds.LAUNCH, w.launch, ran, np.zeros(len(ran)), w.launch != NOT_FOUND),
            (kinds.STREAM, ran - 1, ran, np.zeros(len(ran)), followed),
        ]
        columns = [
            [np.full(int(some.sum()), kind), *(c[some] for c in (source, target, least))]
            for kind, source, target, least, some in parts
        ]
        columns[-1][0][is_within] = kinds.OVERLAP
        its = w.edges
        columns.append([its.kind, its.source // 2, its.target // 2, its.least_ns])
        self.kind, self.source, self.target, self.least_ns = (
            np.concatenate(column).astype(np.int64) for column in zip(*columns, strict=True)
        )
        self.time_ns = graph.time_ns - graph.origin_ns
        instants = np.arange(len(self.time_ns))
        self.place = np.empty_like(instants)
        order = np.lexsort((instants, self.time_ns[instants & ~1], self.time_ns))
        self.place[order] = instants


def ranks_of(graph: Graph) -> Ranks:
    """The nodes of each device that operations run on, or are copied to."""
    o, calls, edges = graph.operations, len(graph.calls), _All(graph)
    device = o.device
    ends = np.stack([device, device])
    is_direct = o.where(
        lambda of: (
            of.kind == COPY and of.is_peer and not of.is_staged and 0 <= of.src != of.dst >= 0
        )
    )
    ends[:, is_direct] = np.stack(o.ends())[:, is_direct]
    rows = edges.kind == kinds.STAGED
    # Both operations of each staged copy.
    first, second = edges.source[rows] - calls, edges.target[rows] - calls
    ends[:, first] = ends[:, second] = np.stack([device[first], device[second]])
    devices = np.unique(np.append(ends, device))
    sender, receiver = np.searchsorted(devices, ends)
    home = np.searchsorted(devices, device)
    message = np.where(is_direct | _flags(first, len(o)), np.arange(len(o)), NOT_FOUND)
    message[second] = message[first]
    items = len(graph.by_start)
    # How long each item takes without waiting.
    least_ns, rows = np.zeros(items, np.int64), np.isin(edges.kind, _DURATIONS)
    np.maximum.at(least_ns, edges.target[rows], edges.least_ns[rows])
    nodes, is_known, is_met = [], *np.zeros((2, len(edges.kind)), bool)
    for number, of_calls in enumerate(_ranks_of_calls(graph, home, len(devices))):
        of_rank = np.where(is_direct, (sender == number) | (receiver == number), home == number)
        here = np.concatenate([of_calls, of_rank, np.zeros(items - calls - len(o), bool)])
        # On its rank, half of a staged copy stands for both.
        half = np.arange(len(here))
        half[calls + first[of_rank[second]]] = calls + second[of_rank[second]]
        half[calls + second[of_rank[first]]] = calls + first[of_rank[first]]
        source, target = half[edges.source], half[edges.target]
        nodes.append(_nodes(graph, edges, here, (source, target), least_ns))
        is_known |= here[target]
        is_met |= here[source] & here[target]
    is_left_out = np.isin(edges.kind, (*_STARTS, *_WAITS, kinds.LAUNCH)) & is_known & ~is_met
    return Ranks(
        tuple(devices.tolist()), tuple(nodes), message, sender, receiver, int(is_left_out.sum())
    )


def _flags(rows: Int64s, count: int) -> Flags:
    flags = np.zeros(count, bool)
    flags[rows] = True
    return flags


def _ranks_of_calls(graph: Graph, home: Int64s, ranks: int) -> list[Flags]:
    """By rank, the calls of threads that launch on it; other threads are on all of the process."""
    o, calls = graph.operations, graph.calls
    launched = np.flatnonzero(o.call != NOT_FOUND)
    is_on = np.zeros((ranks, len(calls.threads)), bool)
    is_on[home[launched], calls.thread(o.call[launched])] = True
    process = o.process
    for number, of in enumerate(calls.threads):
        if not is_on[:, number].any():
            is_on[home[process == of.process], number] = True
    thread = calls.thread(np.arange(len(calls)))
    return [flags[thread] for flags in is_on]


def _nodes(
    graph: Graph, edges: _All, here: Flags, ends: tuple[Int64s, Int64s], least_ns: Int64s
) -> Nodes:
    """The nodes of the calls and operations that are here.

    ``ends`` are the items of both ends of each edge, ``least_ns`` is how long each item takes
    without waiting.
    """
    (source, target), kind_of = ends, edges.kind
    calls = len(graph.calls)
    start, end = edges.place[0::2], edges.place[1::2]
    is_within = here[source] & here[target] & (source != target)
    is_wait = np.isin(kind_of, _WAITS)
    # What waits for another rank without a message takes as long as it did.
    outside, least_ns = target[is_wait & ~is_within], least_ns.copy()
    least_ns[outside] = (graph.time_ns[1::2] - graph.time_ns[0::2])[outside]
    is_wait &= is_within
    is_start = is_within & np.isin(kind_of, _STARTS)
    is_launch = is_within & (kind_of == kinds.LAUNCH)
    # What starts before its launch call ends follows what is before the call.
    is_early = is_launch & (start[target] < end[source]) & (least_ns[source] > 0)
    work_ns, before = _work_before(graph, edges, here)
    has_work = (work_ns > 0) | _flags(source[is_early], calls)
    waiting, called = np.unique(target[is_wait]), np.flatnonzero(before != NOT_FOUND)
    worked, operations = np.flatnonzero(has_work), calls + np.flatnonzero(here[calls:])
    members = (worked, np.flatnonzero(here[:calls]), waiting, operations)
    kind, item, when, node = _numbered(edges, members)
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
    started_ns = edges.time_ns[when]
    work_of_ns = np.append(work_ns, np.zeros(len(here) - calls, np.int64))[item]
    return Nodes(
        kind,
        item,
        np.where(kind == WORK, started_ns - work_of_ns, started_ns),
        np.choose(kind, [work_of_ns, least_ns[item], 0, least_ns[item]]),
        *_grouped(pairs, len(item)),
    )


def _numbered(edges: _All, members: tuple[Int64s, ...]) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Nodes in the order of their starts: kind, item, instant; and their numbers by kind and item.

    ``members`` has the items of each kind of node.
    """
    item = np.concatenate(members)
    kind = np.repeat(np.arange(len(members)), [len(rows) for rows in members])
    when = 2 * item + (kind == WAIT)
    order = np.lexsort((kind, edges.place[when]))
    kind, item = kind[order], item[order]
    node = np.full((len(members), len(edges.place) // 2), NOT_FOUND)
    node[kind, item] = np.arange(len(order))
    return kind, item, when[order], node


def _grouped(pairs: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """What each of some nodes waits for, with bounds, from pairs of a node and a later one."""
    # Halves of a staged copy stand for each other, also where they ran at different times.
    pairs = pairs[:, pairs[0] < pairs[1]]
    after, waits_for = np.divmod(np.unique(pairs[1] * count + pairs[0]), max(count, 1))
    return np.searchsorted(after, np.arange(count + 1)), waits_for


def _work_before(graph: Graph, edges: _All, here: Flags) -> tuple[Int64s, Int64s]:
    """The host's work before each call, and for the first call of a thread the call before it.

    A thread starts after the last call that had ended then; without one, it starts with the graph.
    """
    calls, source, target = len(graph.calls), edges.source, edges.target
    start, end = edges.place[0 : 2 * calls : 2], edges.place[1 : 2 * calls : 2]
    start_ns, end_ns = edges.time_ns[0 : 2 * calls : 2], edges.time_ns[1 : 2 * calls : 2]
    work_ns, before = np.zeros(calls, np.int64), np.full(calls, NOT_FOUND)
    is_work = edges.kind == kinds.HOST_WORK
    is_first = here[:calls] & ~_flags(target[is_work], calls)
    is_work |= edges.kind == kinds.OTHER_THREAD
    is_work &= here[target]
    np.maximum.at(work_ns, target[is_work], edges.least_ns[is_work])
    # The pause stays where it waited for a thread of another rank.
    outside = target[is_work & ~here[source]]
    work_ns[outside] = (start_ns[1:] - end_ns[:-1])[outside - 1]
    first = np.flatnonzero(is_first)
    candidates = np.flatnonzero(here[:calls])
    candidates = candidates[np.argsort(end[candidates])]
    place = np.searchsorted(end[candidates], start[first]) - 1
    has_one = place >= 0
    before[first[has_one]] = candidates[place[has_one]]
    began_ns = np.zeros(len(first), np.int64)
    began_ns[has_one] = end_ns[before[first[has_one]]]
    work_ns[first] = start_ns[first] - began_ns
    return work_ns, before
