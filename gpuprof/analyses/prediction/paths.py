"""The critical path: what the program waits for, from its end back to its beginning."""

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.facts.nvtx import named_parts, open_at
from gpuprof.analyses.facts.step_windows import masked
from gpuprof.analyses.prediction import graph as kinds
from gpuprof.analyses.prediction.graph import Graph
from gpuprof.analyses.prediction.recorded import COLLECTIVE, COPY, KERNEL, MEMSET
from gpuprof.analyses.prediction.replay import Replay
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

_OF_OPERATIONS: Final = {
    KERNEL: "kernel",
    COLLECTIVE: "collective",
    COPY: "copy",
    MEMSET: "memset",
}
CALL, HOST, LATENCY = "call", "host", "latency"
# Parts of a path by what they are, for people.
KINDS: Final = (*_OF_OPERATIONS.values(), CALL, HOST, LATENCY)


class Part(NamedTuple):
    """What time of a path goes to."""

    kind: str
    name: str


class Path(NamedTuple):
    """Instants of a critical path, the last one first.

    Args:
        places: Places of the instants.
        edges: The edge that each waited for last.
        since_ns: When the instant before it came.
        until_ns: When it came.
    """

    places: Int64s
    edges: Int64s
    since_ns: Int64s
    until_ns: Int64s


def path(graph: Graph, replayed: Replay) -> Path:
    """From the last end of an operation back to what waits for nothing."""
    last_edge, source = replayed.last_edge.tolist(), graph.edges.source.tolist()
    place = int(graph.ends[np.argmax(replayed.time_ns[graph.ends])])
    places, edges = [], []
    while (edge := last_edge[place]) >= 0:
        places.append(place)
        edges.append(edge)
        place = source[edge]
    at, by = np.array(places, np.int64), np.array(edges, np.int64)
    times = replayed.time_ns
    return Path(at, by, times[graph.edges.source[by]], times[at])


def parts(profile: Profile, graph: Graph, along: Path) -> list[Part]:
    """What each stretch of a path goes to: operations by name, the host by range, latencies."""
    kind = graph.edges.kind[along.edges]
    operation = graph.item[along.places] - len(graph.calls)
    ranges = _ranges(profile, graph, graph.item[along.places])
    return [
        _part(graph, k, item, text)
        for k, item, text in zip(kind.tolist(), operation.tolist(), ranges, strict=True)
    ]


def _part(graph: Graph, kind: int, operation: int, text: str) -> Part:
    if kind in (kinds.DURATION, kinds.TRANSFER):
        label = graph.operations.labels[graph.operations.label[operation]]
        return Part(_OF_OPERATIONS[int(graph.operations.kind[operation])], label)
    if kind == kinds.CALL:
        return Part(CALL, graph.calls.labels[graph.calls.label[operation + len(graph.calls)]])
    if kind in (kinds.HOST_WORK, kinds.OTHER_THREAD):
        return Part(HOST, f"in {text}" if text else "between calls")
    return Part(LATENCY, kinds.KINDS[kind].name)


def _ranges(profile: Profile, graph: Graph, items: Int64s) -> list[str]:
    """The innermost range, with # for digits, that each item that is a call begins in, or empty."""
    texts = [""] * len(items)
    calls = graph.calls
    if not (profile.whole.has("nvtx_ranges") and len(calls)):
        return texts
    ranges = named_parts(profile.whole)
    rows = np.flatnonzero(items < len(calls))
    for (process, thread), its in ranges.lanes.items():
        called = items[rows]
        mine = rows[(calls.process[called] == process) & (calls.thread_id[called] == thread)]
        mine = mine[np.argsort(calls.start_ns[items[mine]], kind="stable")]
        opened = open_at(ranges.take(its), calls.start_ns[items[mine]], is_outermost=False)
        for row, place in zip(mine.tolist(), opened.tolist(), strict=True):
            if place >= 0:
                texts[row] = masked(ranges.labels[ranges.label[its[place]]][0])
    return texts


def times(named: list[Part], along: Path, is_inside: Int64s) -> Counter[Part]:
    """The time of each part, of those stretches that are inside.

    Args:
        named: What each stretch is.
        along: The path.
        is_inside: Which of them count.
    """
    made: Counter[Part] = Counter()
    lengths = np.where(is_inside, along.until_ns - along.since_ns, 0)
    for part, ns in zip(named, lengths.tolist(), strict=True):
        made[part] += ns
    return made
