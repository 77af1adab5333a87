"""The critical path of a program, from its end back to its start."""

import re
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.launches import ALL_THREADS
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.nvtx import named_parts
from gpuprof.facts.range_launches import open_at
from gpuprof.facts.step_windows import masked
from gpuprof.model.intervals import Int64s, covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import Graph
from gpuprof.predict.host_changes import spans_like
from gpuprof.predict.recorded import COLLECTIVE, COPY, KERNEL, MEMSET
from gpuprof.predict.replay import Replay, last_waits

OF_OPERATIONS: Final = {
    KERNEL: "kernel",
    COLLECTIVE: "collective",
    COPY: "copy",
    MEMSET: "memset",
}
CALL, HOST, WAIT, LATENCY = "call", "host", "wait", "latency"
# Kinds of parts of a path, as users see them.
KINDS: Final = (*OF_OPERATIONS.values(), CALL, HOST, WAIT, LATENCY)
# Calls of MPI that return when other ranks have come, or sent, or taken what they sent.
_WAITING: Final = re.compile(
    r"MPI_(?:Wait|Barrier|All|Reduce|Bcast|Gather|Scatter|Scan|Exscan|M?[Rr]ecv|[SR]?[Ss]end"
    r"|M?[Pp]robe|Neighbor)"
)


# A part of a path: kind and name of what its time goes to.
PathPart = tuple[str, str]


class Path(NamedTuple):
    """Instants of a critical path, the last one first.

    Args:
        instants: The instants.
        kinds: The kind of the edge that each waited for last.
        since_ns: When the instant before it came.
        until_ns: When it came.
    """

    instants: Int64s
    kinds: Int64s
    since_ns: Int64s
    until_ns: Int64s


def path(replayed: Replay, until_ns: int) -> Path:
    """From the end of an operation back to an instant that waits for nothing.

    Args:
        replayed: When instants come.
        until_ns: Of the operations that began before it, as measured, the one that ends last.
    """
    graph, last = replayed.graph, 0
    latest_ns = graph.origin_ns - 1
    for of in graph.operations.streams:
        first = graph.ends.start + 2 * of.low
        starts_ns = graph.operations.start_ns[of.low : of.high]
        count = int(np.searchsorted(starts_ns, until_ns, side="left"))
        if not count:
            continue
        ends_ns = replayed.at(slice(first, first + 2 * count, 2))
        place = int(ends_ns.argmax())
        if ends_ns[place] > latest_ns:
            latest_ns, last = int(ends_ns[place]), first + 2 * place
    instants, its_kinds = last_waits(replayed, last)
    times = replayed.at(instants)
    return Path(instants[:-1], its_kinds[:-1], times[1:], times[:-1])


def named(profile: Profile, graph: Graph, along: Path) -> tuple[Int64s, list[PathPart]]:
    """The part of each stretch of a path: operations by name, the host by range, waits, latencies.

    Returns:
        Index into the parts of each stretch, and the parts.
    """
    calls, item = len(graph.calls), along.instants // 2
    kind = along.kinds.copy()
    kind[kind == kinds.TRANSFER] = kinds.DURATION
    kind[kind == kinds.OTHER_THREAD] = kinds.HOST_WORK
    number, texts = _ranges(profile, graph, item)
    waits, called = _waits(profile, graph, item)
    number, ranges = np.where(waits == NOT_FOUND, number, len(texts) + waits), len(texts)
    texts += called
    name = np.where(kind == kinds.HOST_WORK, number, 0)
    for meant, labels, rows in (
        (kinds.DURATION, graph.operations.label, item - calls),
        (kinds.CALL, graph.calls.label, item),
    ):
        is_meant = kind == meant
        name[is_meant] = labels[rows[is_meant]]
    names = int(name.max(initial=0)) + 1
    code = kind * names + name
    codes = np.flatnonzero(np.bincount(code))
    place = np.zeros(int(code.max(initial=0)) + 1, np.int64)
    place[codes] = np.arange(len(codes))
    parts: list[PathPart] = []
    for of, its in zip(*(ends.tolist() for ends in np.divmod(codes, names)), strict=True):
        if of == kinds.DURATION:
            label = graph.operations.labels[its]
            parts.append((OF_OPERATIONS[label.kind], label.text))
        elif of == kinds.CALL:
            parts.append((CALL, graph.calls.labels[its]))
        elif of == kinds.HOST_WORK and its >= ranges:
            parts.append((WAIT, f"in {texts[its]}"))
        elif of == kinds.HOST_WORK:
            parts.append((HOST, f"in {texts[its]}" if texts[its] else "between calls"))
        else:
            parts.append((LATENCY, kinds.KINDS[of].name))
    return place[code], parts


def _ranges(profile: Profile, graph: Graph, items: Int64s) -> tuple[Int64s, list[str]]:
    """The innermost range around the start of each call, and range names with # for digits."""
    number, texts, calls = np.zeros(len(items), np.int64), [""], graph.calls
    if not (profile.unrestricted.has("nvtx_ranges") and len(calls)):
        return number, texts
    ranges = named_parts(profile.unrestricted)
    shown = [masked(text) for text, _, _ in ranges.labels]
    texts += sorted({*shown} - {""})
    places = {text: place for place, text in enumerate(texts)}
    of_label = np.array([places[text] for text in shown], np.int64)
    rows = np.flatnonzero(items < len(calls))
    thread = calls.thread(items[rows])
    for place, of in enumerate(calls.threads):
        its = ranges.lanes.get((of.process, of.thread_id))
        on = rows[thread == place]
        if its is None or not len(on):
            continue
        begun = on[np.argsort(calls.start_ns[items[on]], kind="stable")]
        started = calls.start_ns[items[begun]] - calls.clock.of(of.process)
        opened = open_at(ranges.take(its), started, is_outermost=False)
        inside = opened >= 0
        number[begun[inside]] = of_label[ranges.label[its[opened[inside]]]]
    return number, texts


def _waits(profile: Profile, graph: Graph, items: Int64s) -> tuple[Int64s, list[str]]:
    """The MPI call that waits for most of the time of the host before each call, and their names.

    `NOT_FOUND` for none.
    """
    number, calls = np.full(len(items), NOT_FOUND), graph.calls
    (process, thread, *times, name), texts = spans_like(profile, "MPI_*")
    is_wait = np.array([_WAITING.match(text) is not None for text in texts], bool)[name]
    if not is_wait.any():
        return number, texts
    rows = np.flatnonzero(items < len(calls))
    of_items = calls.thread(items[rows])
    for place, of in enumerate(calls.threads):
        on = rows[(of_items == place) & (items[rows] > of.low)]
        is_its = is_wait & (process == of.process)
        its = np.flatnonzero(is_its & ((thread == of.thread_id) | (thread == ALL_THREADS)))
        if not (len(on) and len(its)):
            continue
        since, until = calls.end_ns[items[on] - 1], calls.start_ns[items[on]]
        until, shift_ns = np.maximum(since, until), calls.clock.of(of.process)
        called = np.unique(name[its])
        waited_ns = np.stack(
            [
                covered_within(
                    union(*(ns[its[name[its] == function]] + shift_ns for ns in times)),
                    since,
                    until,
                )
                for function in called
            ]
        )
        is_most = 2 * waited_ns.sum(axis=0) > until - since
        number[on[is_most]] = called[waited_ns[:, is_most].argmax(axis=0)]
    return number, texts
