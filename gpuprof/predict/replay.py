"""A graph replayed with other times: when every instant comes, and what it waited for last.

And what a change means: operations and calls by name, route or range; and those without any time.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.errors import UsageError
from gpuprof.base.kernel_names import short_name
from gpuprof.facts.numbers import NOT_FOUND, Numbers
from gpuprof.facts.nvtx import ranges_like
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed
from gpuprof.native.replay_core import Items, ReplayEdges, replayed, walk_back
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import (
    GONE,
    NEVER,
    NO_WORK,
    TRANSFER,
    Edges,
    Graph,
    Weights,
    holds,
    is_before,
    together,
)
from gpuprof.predict.recorded import COPY, KERNEL, Flags, Operations


@dataclass(frozen=True, eq=False)
class Replay:
    """When the instants of a graph come.

    Args:
        graph: The graph as recorded.
        weights: The edges of the replay.
        moved_ns: How much later each instant comes than it was measured.
        lag_ns: The longest lag of an instant behind all that it waits for; 0 for none.
        lag_at: That instant; -1 for none.
    """

    graph: Graph
    weights: Weights
    moved_ns: Numbers
    lag_ns: int = 0
    lag_at: int = -1

    def at(self, instants: Int64s | slice) -> Int64s:
        """When some instants come."""
        return self.graph.time_ns[instants] + self.moved_ns[instants]

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """The first start and the last end of the operations of each device.

        Of those that are not removed, where there are any.
        """
        first = 2 * len(self.graph.calls)
        is_left = self.weights.kind != GONE
        spans: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        for of in self.graph.operations.streams:
            starts = self.at(slice(first + 2 * of.low, first + 2 * of.high, 2))
            ends = self.at(slice(first + 2 * of.low + 1, first + 2 * of.high, 2))
            is_here = is_left[of.low : of.high]
            for some in (False, True):
                its = is_here == some
                if its.any():
                    span = int(starts[its].min()), int(ends[its].max())
                    spans.setdefault((of.device, some), []).append(span)
        return {
            device: (min(first for first, _ in its), max(last for _, last in its))
            for (device, is_some), its in spans.items()
            if is_some or (device, True) not in spans
        }


def replay(
    graph: Graph, weights: Weights, no_lag: Flags | None = None, *, is_usual: bool = False
) -> Replay:
    """One sweep over the instants in the order of time.

    With its lags the recording is reproduced: an instant comes as much later than all edges allow
    as it was measured to, with no latency longer than measured.

    Args:
        graph: The graph as recorded.
        weights: Its edges, with changes.
        no_lag: Instants without their lag; None for none. What waits for nothing stays.
        is_usual: Whether latencies are usual ones, and there are no lags.
    """
    recorded = _edges(graph.weights, is_usual=False)
    changed = _edges(weights, is_usual=is_usual)
    return Replay(
        graph, weights, *replayed(_items(graph), recorded, changed, no_lag, is_usual=is_usual)
    )


def as_measured(graph: Graph, weights: Weights | None = None) -> Replay:
    """The recording itself, perhaps with operations that other weights remove."""
    # One zero for all of them, which takes no memory.
    moved_ns = np.broadcast_to(np.int8(0), len(graph.time_ns))
    return Replay(graph, graph.weights if weights is None else weights, moved_ns)


def last_waits(result: Replay, instant: int) -> tuple[Int64s, Int64s]:
    """From an instant back to one that waits for nothing: these, and the kind of edge before each.

    The last kind is -1.
    """
    edges = _edges(result.weights, is_usual=False)
    return walk_back(_items(result.graph), edges, result.moved_ns, instant)


def _items(graph: Graph) -> Items:
    sizes = len(graph.calls), len(graph.operations)
    return Items(*sizes, graph.time_ns, graph.by_start, graph.origin_ns)


def _edges(weights: Weights, *, is_usual: bool) -> ReplayEdges:
    edges = weights.edges
    return ReplayEdges(
        *(weights.work_ns, weights.call_ns, weights.duration_ns),
        *(weights.launch, weights.follows, weights.kind),
        *(edges.source, edges.target, edges.kind),
        edges.usual_ns if is_usual else edges.least_ns,
        weights.usual_ns,
    )


@dataclass(frozen=True, eq=False)
class Changed:
    """A graph with other times.

    Args:
        graph: The graph as recorded.
        weights: Its edges with other times, or without some.
        bound: Which of the times that a change leaves open are taken: the usual, slow or fast ones.
        added: Additional edges.
        no_lag: Instants whose lag is removed; None for none.
        assumptions: A sentence for each change.
        is_balanced: Whether no rank waits for another.
        moved: Operations that come at other places in time than those around them; None for none.
        gone: Operations that are removed; None for none.
        times_ns: How long each operation takes so far, and what of it is transfer where it is a
            collective, else all; None for as recorded.
        factor: How much longer each operation takes by factors that were given; None for none.
    """

    graph: Graph
    weights: Weights
    bound: int = 0
    added: tuple[Edges, ...] = ()
    no_lag: Flags | None = None
    assumptions: tuple[str, ...] = ()
    is_balanced: bool = False
    moved: Flags | None = None
    gone: Flags | None = None
    times_ns: tuple[Int64s, Int64s] | None = None
    factor: npt.NDArray[np.float64] | None = None

    @property
    def took_ns(self) -> Int64s:
        """How long each operation takes so far."""
        return self.graph.operations.took_ns if self.times_ns is None else self.times_ns[0]

    @property
    def transfer_ns(self) -> Int64s:
        """The same, without what collectives wait for other ranks."""
        if self.times_ns is not None:
            return self.times_ns[1]
        moved_ns = self.graph.operations.took_ns
        moved_ns[self.graph.collectives] = self.graph.transfer_ns
        return moved_ns

    def scaled(self, times_ns: Int64s) -> Int64s:
        """Times of operations by a rule, longer by the factors that were given before."""
        if self.factor is None:
            return times_ns
        scaled: Int64s = np.rint(times_ns * self.factor).astype(np.int64)
        return scaled

    def replayed(self, *, is_usual: bool = False) -> Replay:
        """The replay with these changes; see `replay`."""
        edges = together([self.weights.edges, *self.added])
        weights = replace(self.weights, edges=edges)
        return replay(self.graph, weights, self.no_lag, is_usual=is_usual)

    def with_times(self, **columns: Numbers) -> "Changed":
        """The same with other columns of its weights, each as narrow as may be."""
        narrow: dict[str, Any] = {name: narrowed(column) for name, column in columns.items()}
        return replace(self, weights=replace(self.weights, **narrow))

    def with_edges(self, rows: Flags | Int64s, times_ns: Int64s | int) -> "Changed":
        """The same with other times for some of the stored edges."""
        edges = self.weights.edges
        usual_ns, least_ns = edges.usual_ns.copy(), edges.least_ns.copy()
        usual_ns[rows] = least_ns[rows] = times_ns
        edges = replace(edges, usual_ns=usual_ns, least_ns=least_ns)
        return replace(self, weights=replace(self.weights, edges=edges))

    def without_lag(self, instants: Int64s) -> "Changed":
        """The same without the lags of some instants."""
        no_lag = np.zeros(len(self.graph.time_ns), bool)
        no_lag[instants] = True
        return replace(self, no_lag=no_lag if self.no_lag is None else self.no_lag | no_lag)

    def moving(self, operations: Flags) -> "Changed":
        """The same with more operations at other places in time."""
        moved = operations if self.moved is None else self.moved | operations
        return replace(self, moved=moved)

    def saying(self, words: str) -> "Changed":
        """The same with one more assumption."""
        return replace(self, assumptions=(*self.assumptions, words))

    def stored(self, kind: int, operations: Flags, *, is_source: bool = False) -> Int64s:
        """The stored edges of a kind to, or from, some operations."""
        rows = np.flatnonzero(self.weights.edges.kind == kind)
        is_its = holds(operations, self.operation(rows, is_source=is_source))
        return np.asarray(rows[is_its], np.int64)

    def operation(self, edges: Int64s | slice, *, is_source: bool = False) -> Int64s:
        """The operation at an end of stored edges; none of them for a call or a collective."""
        its = self.weights.edges
        ends: Int64s = (its.source if is_source else its.target)[edges]
        return ends // 2 - len(self.graph.calls)

    def adding(self, kind: int, source: Int64s, target: Int64s) -> "Changed":
        """The same with more edges, of the usual latency of their kind, at most as measured."""
        times_ns = self.graph.time_ns
        fits = is_before(times_ns, source, target)
        usual_ns = np.full(int(fits.sum()), self.graph.usual_of(kind) or 0)
        its_kind = np.full(len(usual_ns), kind, np.int8)
        slack_ns = times_ns[target[fits]] - times_ns[source[fits]]
        least_ns = np.minimum(usual_ns, slack_ns)
        edges = Edges(source[fits], target[fits], its_kind, usual_ns, least_ns)
        return replace(self, added=(*self.added, edges))


# Copies and kernels that a message lists.
_SHOWN: Final = 8


def named(operations: Operations, pattern: str) -> Flags:
    """Operations whose label a regular expression matches anywhere.

    Raises:
        UsageError: It is not a regular expression, or matches no label.
    """
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        msg = f'"{pattern}" is not a regular expression ({error})'
        raise UsageError(msg, "Write \\. or \\( to match a literal . or (.") from error
    chosen = operations.where(lambda label: expression.search(label.text) is not None)
    if not chosen.any():
        took_ns = np.zeros(len(operations.labels), np.int64)
        np.add.at(took_ns, operations.label, operations.took_ns)
        longest_first = np.argsort(-took_ns, kind="stable").tolist()
        labels = [operations.labels[place] for place in longest_first]
        texts = (short_name(of.text) if of.kind == KERNEL else of.text for of in labels)
        names = [*dict.fromkeys(texts)][:_SHOWN]
        msg = f"no kernel or copy matches {pattern}"
        raise UsageError(msg, f"Recorded names include: {', '.join(names)}.")
    return chosen


def on_route(o: Operations, route: str | None) -> Flags:
    """Copies of a kind or route, or of several (``HtoD|0->1``); without one, between devices.

    Raises:
        UsageError: There are none of one of them.
    """
    chosen = np.zeros(len(o), bool)
    for part in [None] if route is None else route.split("|"):
        its = _on_one_route(o, part)
        if not its.any():
            msg = f"no copies {'between devices' if part is None else part} were recorded"
            copies = sorted({label.text for label in o.labels if label.kind == COPY})
            more = f", and {len(copies) - _SHOWN} more" if len(copies) > _SHOWN else ""
            there = f"{', '.join(copies[:_SHOWN])}{more}" if copies else "none"
            raise UsageError(msg, f"Name a kind (HtoD) or a route (0->1); recorded: {there}.")
        chosen |= its
    return chosen


def _on_one_route(o: Operations, route: str | None) -> Flags:
    if route is None:
        return o.where(lambda label: label.is_peer)
    if "->" in route:
        ends = [end.strip() for end in route.split("->", 1)]
        if wrong := [end for end in ends if end != "host" and not end.isdigit()]:
            msg = f"{wrong[0]} is neither a device number nor host"
            raise UsageError(msg, "Write a route as link[host->0]=pcie5.")
        src, dst = (HOST if end == "host" else int(end) for end in ends)
        return o.where(lambda of: (of.kind, of.src, of.dst) == (COPY, src, dst))
    kind = route or "no kind"
    return o.where(lambda of: of.kind == COPY and of.text.split(" ")[0].startswith(kind))


def from_host(o: Operations) -> Flags:
    """Copies from the host to a device."""
    return o.where(lambda label: label.kind == COPY and label.src == HOST)


def calls_of(graph: Graph, chosen: Flags) -> Flags:
    """The calls that launch some operations and no others."""
    call = graph.operations.call
    # Those without a call count in the last place.
    launches_chosen, launches_others = np.zeros((2, len(graph.calls) + 1), bool)
    launches_chosen[call[chosen]] = launches_others[call[~chosen]] = True
    return np.asarray((launches_chosen & ~launches_others)[:-1])


def calls_within(profile: Profile, graph: Graph, text: str) -> Flags:
    """Calls within NVTX ranges of this name."""
    calls = graph.calls
    is_within = np.zeros(len(calls), bool)
    if not (profile.unrestricted.has("nvtx_ranges") and len(calls)):
        return is_within
    ranges = ranges_like(profile.unrestricted, text)
    for of in calls.threads:
        rows = (ranges.process == of.process) & (ranges.thread == of.thread_id)
        shift_ns = calls.clock.of(of.process)
        opens, closes = ranges.start_ns[rows] + shift_ns, ranges.end_ns[rows] + shift_ns
        first = np.searchsorted(calls.start_ns[of.low : of.high], opens, side="left")
        last = np.searchsorted(calls.end_ns[of.low : of.high], closes, side="right")
        opened, closed = (
            np.bincount(places, minlength=of.high - of.low + 1)
            for places in (first, np.maximum(last, first))
        )
        is_within[of.low : of.high] = np.cumsum(opened - closed)[:-1] > 0
    return is_within


def after_each(flags: Flags) -> Flags:
    """Whether the flag of the operation, or call, before each is set."""
    return np.append(False, flags[:-1])


def lasting(
    changed: Changed, chosen: Flags, took_ns: Int64s, transfer_ns: Int64s | None = None
) -> Changed:
    """Give some operations other durations, and collectives of several ranks other transfers.

    What is removed stays so, and where no rank waits for another collectives take their transfers.
    """
    chosen = chosen if changed.gone is None else chosen & ~changed.gone
    transfer_ns = took_ns if transfer_ns is None else transfer_ns
    its_ns = ((took_ns, changed.took_ns), (transfer_ns, changed.transfer_ns))
    took, moved = (np.where(chosen, new_ns, old_ns) for new_ns, old_ns in its_ns)
    changed = replace(changed, times_ns=(took, moved))
    if changed.is_balanced:
        durations = np.where(chosen, transfer_ns, changed.weights.duration_ns)
        return changed.with_times(duration_ns=durations)
    transfers = changed.stored(TRANSFER, chosen)
    meeting = changed.operation(transfers)
    # A collective ends one transfer after the last rank arrived, not after its own start.
    alone = chosen.copy()
    alone[meeting] = False
    durations = np.where(alone, took_ns, changed.weights.duration_ns)
    graph, recorded_ns = changed.graph, changed.graph.operations.took_ns
    recorded_ns[graph.collectives] = graph.transfer_ns
    # A rank that ended earlier than one transfer after the last arrived does so still.
    early_ns = recorded_ns[meeting] - graph.weights.edges.least_ns[transfers]
    times = transfer_ns[meeting] - early_ns
    return changed.with_times(duration_ns=durations).with_edges(transfers, np.maximum(times, 0))


def without(changed: Changed, chosen: Flags, is_gone: Flags) -> Changed:
    """Remove operations, which then take no time, and calls.

    They wait for their streams, and these for other streams, as before: what needs the result of a
    copy does not begin before that of which it was one.
    """
    graph, w, calls = changed.graph, changed.weights, len(changed.graph.calls)
    source, target = (changed.operation(slice(None), is_source=end) for end in (True, False))
    # A wait for a stream, also one that is inferred, then waits for the operation before; a wait
    # for the copy itself is removed.
    never = ~np.isin(w.edges.kind, kinds.WAITS_OF_STREAMS) & holds(chosen, target)
    never |= (w.edges.kind == kinds.DEFAULT_STREAMS) & holds(chosen, source)
    never |= holds(is_gone, target + calls) & (w.edges.kind != kinds.OTHER_THREAD)
    # The first operation of a stream still starts no earlier than its launch.
    is_first = np.append(True, np.diff(graph.operations.stream) != 0)[: len(chosen)]
    between = is_gone & after_each(is_gone) & (graph.weights.work_ns != NO_WORK)
    changed = changed.with_edges(never, NEVER).with_times(
        kind=np.where(chosen, GONE, w.kind),
        duration_ns=np.where(chosen, 0, w.duration_ns),
        launch=np.where(chosen & ~is_first, NOT_FOUND, w.launch),
        call_ns=np.where(is_gone, 0, w.call_ns),
        work_ns=np.where(between, 0, w.work_ns),
    )
    earlier = np.zeros(len(chosen), bool) if changed.gone is None else changed.gone
    changed = replace(changed.moving(chosen), gone=earlier | chosen)
    items = np.concatenate([np.flatnonzero(is_gone), calls + np.flatnonzero(chosen)])
    return changed.without_lag(np.concatenate([2 * items, 2 * items + 1]))
