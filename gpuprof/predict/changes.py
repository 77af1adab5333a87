"""The changes of ``--what``: each gives edges other times, or removes or adds edges."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.units import say_ns
from gpuprof.facts.numbers import NOT_FOUND, read_columns
from gpuprof.facts.nvtx import ranges_like
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import Edges, Graph, by_target, together
from gpuprof.predict.links import Link, fitted, links_named
from gpuprof.predict.recorded import COLLECTIVE, COPY, Flags, Operations, runs
from gpuprof.predict.replay import NEVER, Measured, Weights

# A link at its usual, lowest or highest bandwidth.
USUAL, SLOW, FAST = range(3)
# Where the recording has no gap between halves of a staged copy, or copies of two devices.
_HALVES_NS: Final = 7_000
# A CUDA graph has no host work between two launches, except for pauses of this length.
_GRAPH_PAUSE_NS: Final = 1_000_000
_SCALE: Final = re.compile(r"(.+):(\d*\.?\d+)")
# Copies that a message lists.
_SHOWN: Final = 8
_LINK: Final = re.compile(r"link(?:\[(.+)\])?=(.+)")


@dataclass(frozen=True, eq=False)
class Changed:
    """A graph with other times.

    Args:
        measured: The graph as recorded.
        edge_ns: New time of each edge; `UNCHANGED` where it stays.
        no_lag: Instants whose lag is removed.
        added: Additional edges.
        assumptions: A sentence for each change.
        is_balanced: Whether no rank waits for another.
        moved: Operations that come at other places in time than those around them; None for none.
        gone: Operations that are removed; None for none.
    """

    measured: Measured
    edge_ns: Int64s
    no_lag: Flags
    added: tuple[Edges, ...] = ()
    assumptions: tuple[str, ...] = ()
    is_balanced: bool = False
    moved: Flags | None = None
    gone: Flags | None = None

    def with_edges(self, rows: Flags | Int64s, times: Int64s | int, words: str = "") -> "Changed":
        """The same with other times for some edges, and a sentence about them."""
        edge_ns = self.edge_ns.copy()
        edge_ns[rows] = times
        return replace(self, edge_ns=edge_ns).saying(words)

    def without_lag(self, *instants: Int64s) -> "Changed":
        """The same without the lags of some instants."""
        no_lag = self.no_lag.copy()
        for places in instants:
            no_lag[places] = True
        return replace(self, no_lag=no_lag)

    def moving(self, operations: Flags) -> "Changed":
        """The same with more operations at other places in time."""
        moved = operations if self.moved is None else self.moved | operations
        return replace(self, moved=moved)

    def saying(self, words: str) -> "Changed":
        """The same with one more assumption."""
        return replace(self, assumptions=(*self.assumptions, *filter(None, [words])))

    def adding(self, kind: int, source: Int64s, target: Int64s) -> "Changed":
        """The same with more edges, each with the usual latency of its kind."""
        fits = source < target
        its = self.measured.usual.edge_ns[self.measured.graph.edges.kind == kind]
        usual_ns = int(np.median(its)) if len(its) else 0
        its_kind = np.full(int(fits.sum()), kind, np.int8)
        edges = Edges(source[fits], target[fits], its_kind, np.full(len(its_kind), usual_ns))
        return replace(self, added=(*self.added, edges))


UNCHANGED: Final = NEVER + 1


class Replayable(NamedTuple):
    """A changed graph, and its times with recorded lags and with usual latencies."""

    graph: Graph
    with_lags: Weights
    usual: Weights


def replayable(changed: Changed) -> Replayable:
    """The input of `replay` for a changed graph."""
    measured = changed.measured
    graph, order = _with_edges(measured.graph, changed.added)
    # An instant that waits for nothing stays where it was.
    no_lag = changed.no_lag & (np.diff(measured.graph.bounds) > 0)
    is_changed = changed.edge_ns != UNCHANGED
    weights = []
    for before in (measured.with_lags, measured.usual):
        edge_ns = np.where(is_changed, changed.edge_ns, before.edge_ns)
        if order is not None:
            edge_ns = np.concatenate([edge_ns, *(edges.least_ns for edges in changed.added)])[order]
        weights.append(Weights(edge_ns, np.where(no_lag, 0, before.lag_ns)))
    return Replayable(graph, *weights)


def _with_edges(graph: Graph, added: Sequence[Edges]) -> tuple[Graph, Int64s | None]:
    """The graph with more edges, and the order of its own edges and these; None for no more."""
    if not added:
        return graph, None
    edges = together([graph.edges, *added])
    order = by_target(edges, len(graph.time_ns))
    return replace(graph, edges=edges.take(order)), order


def unchanged(measured: Measured) -> Changed:
    """The graph as it was recorded."""
    graph = measured.graph
    return Changed(
        measured,
        np.full(len(graph.edges), UNCHANGED),
        np.zeros(len(graph.time_ns), bool),
    )


def apply(profile: Profile, measured: Measured, changes: Sequence[str], bound: int) -> Changed:
    """Apply changes to a graph, one after the other.

    Args:
        profile: The recording.
        measured: Its graph.
        changes: As given with ``--what``.
        bound: `USUAL`, `SLOW` or `FAST` links.

    Raises:
        UsageError: A change is unknown, or matches nothing.
    """
    changed = unchanged(measured)
    for text in changes:
        name, _, value = text.partition("=")
        if (link := _LINK.fullmatch(text)) is not None:
            changed = _link(changed, link[1], link[2], bound)
        elif name in _WITH_VALUE and value:
            changed = _WITH_VALUE[name](profile, changed, value)
        elif text in _ALONE:
            changed = _ALONE[text](profile, changed)
        else:
            msg = f"there is no change {text}"
            raise UsageError(msg, "See `gpuprof predict --help` for the list of changes.")
    return changed


def _named(operations: Operations, pattern: str) -> Flags:
    """Operations whose label a regular expression matches anywhere.

    Raises:
        UsageError: It is not a regular expression, or matches no label.
    """
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        msg = f'"{pattern}" is not a regular expression ({error})'
        raise UsageError(msg, "Write \\. or \\( to match a literal . or (.") from error
    is_meant = [expression.search(label) is not None for label in operations.labels]
    chosen = np.array(is_meant, bool)[operations.label]
    if not chosen.any():
        raise _nothing(pattern, operations)
    return chosen


def _nothing(pattern: str, operations: Operations) -> UsageError:
    names = sorted(operations.labels, key=len)[:3]
    msg = f"no kernel or copy matches {pattern}"
    return UsageError(msg, f"Recorded names include: {', '.join(names)}.")


def _of(changed: Changed, kind: int, operations: Flags, *, is_source: bool = False) -> Int64s:
    """The edges of a kind to, or from, some operations."""
    rows = np.flatnonzero(changed.measured.graph.edges.kind == kind)
    return rows[_holds(operations, _operation(changed, rows, is_source=is_source))]


def _operation(changed: Changed, edges: Int64s, *, is_source: bool = False) -> Int64s:
    """The operation at an end of each edge; beyond all operations for a call or a collective."""
    graph = changed.measured.graph
    ends = graph.edges.source if is_source else graph.edges.target
    return graph.item[ends[edges]] - len(graph.calls)


def _holds(flags: Flags, index: Int64s) -> Flags:
    """The flag at each index; False outside of them."""
    inside = (index >= 0) & (index < len(flags))
    return np.asarray(inside & flags[np.where(inside, index, 0)])


def _lasting(
    changed: Changed, chosen: Flags, took_ns: Int64s, transfer_ns: Int64s | None = None
) -> Changed:
    """Give some operations other durations, and collectives of several ranks other transfers."""
    transfers = _of(changed, kinds.TRANSFER, chosen)
    durations = _of(changed, kinds.DURATION, chosen)
    meeting = _operation(changed, transfers)
    # A collective ends one transfer after the last rank arrived, not after its own start.
    durations = durations[~np.isin(_operation(changed, durations), meeting)]
    changed = changed.with_edges(durations, took_ns[_operation(changed, durations)])
    times = took_ns if transfer_ns is None else transfer_ns
    return changed.with_edges(transfers, times[meeting])


# ---------------------------------------------------------------- links


def _link(changed: Changed, route: str | None, name: str, bound: int) -> Changed:
    links = links_named(name)
    o = changed.measured.graph.operations
    is_meant = _on_route(o, route)
    if links is None:
        return _staged(changed, is_meant, route, bound)
    link = links[bound]
    second = _operation(changed, _of(changed, kinds.STAGED, is_meant))
    took = link.copies_ns(np.maximum(o.bytes, 0))
    took[second] = 0
    changed = _lasting(changed, is_meant & (o.bytes >= 0), took)
    between = _of(changed, kinds.STAGED, _flags(o, second))
    changed = changed.with_edges(between, 0).without_lag(changed.measured.graph.starts[second])
    copies = int((is_meant & (o.bytes >= 0)).sum()) - len(second)
    return changed.saying(
        f"copies {route or 'between devices'} ({copies:,}) take {link.words};"
        f"{_without_size(o, is_meant)} collectives keep their recorded times, and copies that share"
        " a link do not slow each other down"
    )


def _without_size(o: Operations, is_meant: Flags) -> str:
    """Words about copies that no link changes; none where there are none."""
    unknown = int((is_meant & (o.bytes < 0)).sum())
    return f" copies of unknown size ({unknown:,}) and" if unknown else ""


def _on_route(o: Operations, route: str | None) -> Flags:
    """Copies of a kind or route; without one, copies between devices."""
    if route is None:
        chosen = o.is_peer
    elif "->" in route:
        src, _, dst = (part.strip() for part in route.partition("->"))
        chosen = (o.kind == COPY) & (o.src == _end(src)) & (o.dst == _end(dst))
    else:
        is_kind = [label.split(" ")[0].startswith(route) for label in o.labels]
        chosen = (o.kind == COPY) & np.array(is_kind, bool)[o.label]
    if chosen.any():
        return np.asarray(chosen)
    msg = f"no copies {route or 'between devices'} were recorded"
    copies = sorted({o.labels[n] for n in np.unique(o.label[o.kind == COPY]).tolist()})
    more = f", and {len(copies) - _SHOWN} more" if len(copies) > _SHOWN else ""
    there = f"{', '.join(copies[:_SHOWN])}{more}" if copies else "none"
    raise UsageError(msg, f"Name a kind (HtoD) or a route (0->1); recorded: {there}.")


def _end(text: str) -> int:
    if text == "host":
        return HOST
    if not text.isdigit():
        msg = f"{text} is neither a device number nor host"
        raise UsageError(msg, "Write a route as link[host->0]=pcie5.")
    return int(text)


def _flags(o: Operations, rows: Int64s) -> Flags:
    flags = np.zeros(len(o), bool)
    flags[rows] = True
    return flags


def _staged(changed: Changed, is_meant: Flags, route: str | None, bound: int) -> Changed:
    """Copies between devices through the host: two copies, and the gap between them."""
    o = changed.measured.graph.operations
    if (is_meant & ~o.is_peer).any():
        msg = f"copies {route} are not between devices: none can be staged"
        raise UsageError(msg, "Name a route between two devices: link[0->1]=staged.")
    direct = is_meant & ~o.is_staged & (o.bytes >= 0)
    halves = [_host_link(o, kind, bound) for kind in ("DtoH", "HtoD")]
    between = _gap_ns(changed)
    first, second = (link.copies_ns(np.maximum(o.bytes, 0)) for link in halves)
    took = first + between + second
    words = f"copies {route or 'between devices'} ({direct.sum():,}) go through the host: "
    words += f"DtoH {halves[0].words}, a gap of {say_ns(between)}, HtoD {halves[1].words}"
    if unchanged_copies := _without_size(o, is_meant):
        words += f";{unchanged_copies.removesuffix(' and')} keep their times"
    return _lasting(changed, direct, took).saying(words)


def _host_link(o: Operations, kind: str, bound: int) -> Link:
    """A link fitted to the recorded copies between host and devices, else PCIe 3."""
    for ends in (kind, "HtoD", "DtoH"):
        rows = (o.kind == COPY) & ((o.src if ends == "HtoD" else o.dst) == HOST) & (o.bytes >= 0)
        rows &= ~o.is_pageable
        link = fitted(o.bytes[rows], o.took_ns[rows], f"fitted to its {ends} copies")
        if link is not None:
            return link
    links = links_named("pcie3")
    assert links is not None  # noqa: S101 - a name of the table
    return links[bound]


def _gap_ns(changed: Changed) -> int:
    """The median gap from a copy to one on another device that waits for it."""
    is_copy = changed.measured.graph.operations.kind == COPY
    for kind in (kinds.STAGED, kinds.DEFAULT_STREAMS):
        rows = _of(changed, kind, is_copy)
        rows = rows[_holds(is_copy, _operation(changed, rows, is_source=True))]
        if len(rows):
            return int(np.median(changed.measured.usual.edge_ns[rows]))
    return _HALVES_NS


# ---------------------------------------------------------------- work


def _scale(_: Profile, changed: Changed, text: str) -> Changed:
    match = _SCALE.fullmatch(text)
    if match is None:
        msg = f"scale={text} has no factor"
        raise UsageError(msg, "Write scale=REGEX:0.5 to halve the time of what matches.")
    o = changed.measured.graph.operations
    chosen, factor = _named(o, match[1]), float(match[2])
    moved = changed.measured.graph.transfer_ns
    faster = np.rint(moved * factor).astype(np.int64)
    words = f"operations that match {match[1]} ({chosen.sum():,}) take"
    changed = _lasting(changed, chosen, o.took_ns - moved + faster, faster)
    return changed.saying(f"{words} {factor:g} times as long, except for waiting for other ranks")


def _drop(profile: Profile, changed: Changed, text: str) -> Changed:
    graph = changed.measured.graph
    o = graph.operations
    is_within = _calls_within(profile, changed, text)
    is_inside = (o.call != NOT_FOUND) & is_within[o.call] if is_within.any() else None
    chosen = _named(o, text) if is_inside is None else is_inside
    is_gone = is_within | _calls_of(graph, chosen)
    changed = _without(changed, chosen, is_gone)
    words = (
        f"operations of {text} ({chosen.sum():,}) and their calls ({is_gone.sum():,}) are removed"
    )
    left = o.start_ns[~chosen]
    if len(left) and (later_ns := int(left.min() - o.start_ns.min())):
        words += f"; the recording begins {say_ns(later_ns)} later, with the first one that is left"
    return changed.saying(f"{words}; operations that use their results take as long as before")


def _calls_of(graph: Graph, chosen: Flags) -> Flags:
    """The calls that launch some operations and no others."""
    call, calls = graph.operations.call, len(graph.calls)
    launches = np.bincount(call[call != NOT_FOUND], minlength=calls)
    of_chosen = np.bincount(call[chosen & (call != NOT_FOUND)], minlength=calls)
    return np.asarray((launches > 0) & (of_chosen == launches))


def _calls_within(profile: Profile, changed: Changed, text: str) -> Flags:
    """Calls within NVTX ranges of this name."""
    calls = changed.measured.graph.calls
    is_within = np.zeros(len(calls), bool)
    if not (profile.unrestricted.has("nvtx_ranges") and len(calls)):
        return is_within
    ranges = ranges_like(profile.unrestricted, text)
    for low, high in runs(calls.thread):
        rows = (ranges.process == calls.process[low]) & (ranges.thread == calls.thread_id[low])
        shift_ns = calls.clock.of(int(calls.process[low]))
        opens, closes = ranges.start_ns[rows] + shift_ns, ranges.end_ns[rows] + shift_ns
        first = np.searchsorted(calls.start_ns[low:high], opens, side="left")
        last = np.searchsorted(calls.end_ns[low:high], closes, side="right")
        opened, closed = (
            np.bincount(places, minlength=high - low + 1)
            for places in (first, np.maximum(last, first))
        )
        is_within[low:high] = np.cumsum(opened - closed)[:-1] > 0
    return is_within


def _without(changed: Changed, chosen: Flags, is_gone: Flags) -> Changed:
    """Remove operations, which then take no time and wait for their streams only, and calls."""
    graph = changed.measured.graph
    edges, calls = graph.edges, len(graph.calls)
    target, source = graph.item[edges.target], graph.item[edges.source]
    gone = np.concatenate([is_gone, chosen, np.zeros(_items(graph) - calls - len(chosen), bool)])
    in_stream = np.isin(edges.kind, (kinds.STREAM, kinds.OVERLAP, kinds.DURATION))
    is_operation = (target >= calls) & gone[target]
    # A wait for a stream, also one that is inferred, then waits for the operation before; a wait
    # for the copy itself is removed.
    for_gone = (edges.kind == kinds.DEFAULT_STREAMS) & gone[source]
    in_thread = np.isin(edges.kind, (kinds.HOST_WORK, kinds.CALL, kinds.OTHER_THREAD))
    is_call = (target < calls) & gone[target]
    within = (edges.kind == kinds.CALL) | ((edges.kind == kinds.HOST_WORK) & gone[source])
    zero = (is_operation & in_stream) | (is_call & within)
    # The first operation of a stream still starts no earlier than its launch.
    is_first = np.append(True, np.diff(graph.operations.stream) != 0)
    is_kept = (edges.kind == kinds.LAUNCH) & _holds(is_first, target - calls)
    zero |= is_operation & is_kept
    never = (is_operation & ~in_stream & ~is_kept) | (is_call & ~in_thread) | for_gone
    places = np.concatenate([np.flatnonzero(is_gone), calls + np.flatnonzero(chosen)])
    changed = changed.with_edges(zero, 0).with_edges(never, NEVER)
    earlier = np.zeros(len(chosen), bool) if changed.gone is None else changed.gone
    changed = replace(changed.moving(chosen), gone=earlier | chosen)
    return changed.without_lag(graph.place[2 * places], graph.place[2 * places + 1])


def _items(graph: Graph) -> int:
    return len(graph.place) // 2


def _hide(_: Profile, changed: Changed, text: str) -> Changed:
    """Overlap copies with other work.

    Copies to a device run ahead: they follow one another on their route, and the operations after
    them still wait for them. Other copies follow their stream, and nothing waits for them.
    """
    graph = changed.measured.graph
    o = graph.operations
    chosen = _on_route(o, text)
    is_early = chosen & (o.src == HOST)
    edges = graph.edges
    chained = np.zeros(len(o), bool)
    for rows in _routes(o, chosen):
        source, target = graph.ends[rows[:-1]], graph.starts[rows[1:]]
        changed = changed.adding(kinds.STREAM, source, target)
        # Copies that overlap still wait for the same.
        chained[rows[1:]] = source < target
    changed = _bypassed(changed, chosen, kinds.AWAITED)
    target, source = (graph.item[e] - len(graph.calls) for e in (edges.target, edges.source))
    to_early = _holds(is_early & chained, target) & (edges.kind != kinds.DURATION)
    from_late = _holds(chosen & ~is_early, source) & _holds(np.ones(len(o), bool), target)
    from_late &= edges.kind != kinds.DURATION
    to_call = _holds(chosen, source) & (target < 0)
    changed = changed.with_edges(to_early | from_late | to_call, NEVER)
    changed = changed.without_lag(graph.starts[is_early & chained]).moving(chosen)
    return _returning(changed, chosen).saying(
        f"{text} copies ({chosen.sum():,}) overlap with other work and start as soon as their link"
        " is free, and their calls return at once; memory suffices for early copies, and no work"
        " slows down"
    )


def _returning(changed: Changed, chosen: Flags) -> Changed:
    """Let calls of some copies take no longer than those that launch kernels."""
    graph = changed.measured.graph
    edges, (launching,) = graph.edges, np.nonzero(graph.operations.kind <= COLLECTIVE)
    call = graph.operations.call[launching]
    call = call[call != NOT_FOUND]
    if not len(call):
        return changed
    usual_ns = int(np.median((graph.calls.end_ns - graph.calls.start_ns)[call]))
    rows = np.flatnonzero(edges.kind == kinds.CALL)
    rows = rows[_calls_of(graph, chosen)[graph.item[edges.target[rows]]]]
    return changed.with_edges(rows, np.minimum(edges.least_ns[rows], usual_ns))


def _routes(o: Operations, chosen: Flags) -> list[Int64s]:
    """The operations of each route in the order of their starts."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((o.start_ns[rows], o.device[rows], o.label[rows], o.process[rows]))]
    route = np.stack([o.process[rows], o.label[rows], o.device[rows]])
    borders = np.flatnonzero((route[:, 1:] != route[:, :-1]).any(axis=0)) + 1
    return np.split(rows, borders)


def _bypassed(changed: Changed, chosen: Flags, *more_kinds: int) -> Changed:
    """Edges past some operations: from the one before them on their stream to what follows."""
    graph = changed.measured.graph
    o, edges = graph.operations, graph.edges
    before = np.where(chosen, NOT_FOUND, np.arange(len(o)))
    for low, high in runs(o.stream):
        before[low:high] = np.maximum.accumulate(before[low:high])
    bypassed = (kinds.STREAM, kinds.SYNCHRONISATION, kinds.SYNCHRONISATION_BY_NAME)
    for kind in (*bypassed, *more_kinds):
        past = _of(changed, kind, chosen, is_source=True)
        from_ = before[_operation(changed, past, is_source=True)]
        is_some = (from_ != NOT_FOUND) & ~_holds(chosen, _operation(changed, past))
        changed = changed.adding(kind, graph.ends[from_[is_some]], edges.target[past[is_some]])
    return changed


def _streams(_: Profile, changed: Changed, text: str) -> Changed:
    graph = changed.measured.graph
    o = graph.operations
    chosen = _named(o, text)
    changed = _awaited_by_host(_bypassed(changed, chosen), chosen)
    for low, high in runs(o.stream):
        rows = low + np.flatnonzero(chosen[low:high])
        changed = changed.adding(kinds.STREAM, graph.ends[rows[:-1]], graph.starts[rows[1:]])
    # An operation without a launch would wait for nothing.
    is_launched = chosen & (o.call != NOT_FOUND)
    for kind in (kinds.STREAM, kinds.OVERLAP):
        changed = changed.with_edges(_of(changed, kind, chosen, is_source=True), NEVER)
        changed = changed.with_edges(_of(changed, kind, is_launched), NEVER)
    return changed.moving(chosen).saying(
        f"operations that match {text} ({chosen.sum():,}) run on separate streams: the host still"
        " waits for them, nothing on their old streams does, and concurrent work does not slow down"
    )


def _awaited_by_host(changed: Changed, chosen: Flags) -> Changed:
    """Edges to synchronising calls from the last chosen operation before what they wait for."""
    graph = changed.measured.graph
    o, edges = graph.operations, graph.edges
    latest = np.where(chosen, np.arange(len(o)), NOT_FOUND)
    for low, high in runs(o.stream):
        latest[low:high] = np.maximum.accumulate(latest[low:high])
    for kind in (kinds.SYNCHRONISATION, kinds.SYNCHRONISATION_BY_NAME):
        rows = _of(changed, kind, ~chosen, is_source=True)
        source = latest[_operation(changed, rows, is_source=True)]
        rows, source = rows[source != NOT_FOUND], source[source != NOT_FOUND]
        changed = changed.adding(kind, graph.ends[source], edges.target[rows])
    return changed


# ---------------------------------------------------------------- the whole program


def _balance(_: Profile, changed: Changed) -> Changed:
    graph = changed.measured.graph
    chosen = graph.operations.kind == COLLECTIVE
    if not chosen.any():
        msg = "there are no collectives to balance"
        raise UsageError(msg, "balance applies to kernels of NCCL and similar libraries.")
    changed = changed.with_edges(_of(changed, kinds.TRANSFER, chosen), NEVER)
    edges = _of(changed, kinds.DURATION, chosen)
    changed = changed.with_edges(edges, graph.transfer_ns[_operation(changed, edges)])
    words = (
        f"collectives ({chosen.sum():,}) take only their transfer time, where the recording gives"
        " it; the program's time is the mean over its devices"
    )
    return replace(changed, is_balanced=True).saying(words)


def _no_launch_cost(profile: Profile, changed: Changed) -> Changed:
    graph = changed.measured.graph
    calls, edges = graph.calls, graph.edges
    if not len(calls):
        msg = "no CUDA calls were recorded: the cost of launches is unknown"
        raise UsageError(msg, "Record the CUDA API as well.")
    waits = graph.item[edges.target[np.isin(edges.kind, _WAITS)]]
    # The recording's time starts with its first operation: calls before it win nothing.
    is_free = ~calls.is_waiting & (calls.start_ns >= graph.operations.start_ns.min())
    is_free[waits[waits < len(calls)]] = False
    target, source = graph.item[edges.target], graph.item[edges.source]
    is_call = (edges.kind == kinds.CALL) & _holds(is_free, target)
    between = (edges.kind == kinds.HOST_WORK) & _holds(is_free, target) & _holds(is_free, source)
    between &= ~_holds(_before_messages(profile, graph), source)
    full = (edges.kind == kinds.FULL_QUEUE) & _holds(is_free, target)
    changed = changed.with_edges(
        (is_call | between) & (edges.least_ns < _GRAPH_PAUSE_NS), 0
    ).with_edges(full, NEVER)
    free = np.flatnonzero(is_free)
    return changed.without_lag(graph.place[2 * free + 1]).saying(
        f"calls since the first operation that wait for nothing ({is_free.sum():,}) take no time,"
        " nor does the host between them, except for pauses of"
        f" {say_ns(_GRAPH_PAUSE_NS)} or more and messages (MPI, UCX);"
        " whether a CUDA graph can contain them is not checked"
    )


def _before_messages(profile: Profile, graph: Graph) -> Flags:
    """Calls after which the thread sends or receives messages before its next call."""
    calls = graph.calls
    is_before = np.zeros(len(calls), bool)
    if not profile.unrestricted.has("host_calls"):
        return is_before
    texts = {"library": Words(_MESSAGES)}
    names = ("process_id", "thread_id", "start_ns", *texts)
    *columns, library = read_columns(profile.unrestricted, "host_calls", *names, texts=texts)
    process, thread, since = (column[library < len(_MESSAGES)] for column in columns)
    for low, high in runs(calls.thread):
        on = (process == calls.process[low]) & (thread == calls.thread_id[low])
        when = since[on] + calls.clock.of(int(calls.process[low]))
        place = np.searchsorted(calls.start_ns[low:high], when, side="right")
        is_before[low + place[place > 0] - 1] = True
    return is_before


_MESSAGES: Final = ("mpi", "ucx")
_WAITS: Final = (kinds.SYNCHRONISATION, kinds.SYNCHRONISATION_BY_NAME, kinds.COPY_CALL)
_WITH_VALUE: Final[dict[str, Callable[[Profile, Changed, str], Changed]]] = {
    "hide": _hide,
    "drop": _drop,
    "scale": _scale,
    "streams": _streams,
}
_ALONE: Final[dict[str, Callable[[Profile, Changed], Changed]]] = {
    "balance": _balance,
    "no-launch-cost": _no_launch_cost,
}
