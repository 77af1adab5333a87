"""What a change means: operations and calls by name, route or range; and those without any time."""

import re
from dataclasses import replace
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.nvtx import ranges_like
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import GONE, NEVER, NO_WORK, TRANSFER, Graph, holds
from gpuprof.predict.recorded import COPY, Flags, Operations
from gpuprof.predict.replay import Changed

# Copies that a message lists.
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
        names = sorted(dict.fromkeys(label.text for label in operations.labels), key=len)[:3]
        msg = f"no kernel or copy matches {pattern}"
        raise UsageError(msg, f"Recorded names include: {', '.join(names)}.")
    return chosen


def on_route(o: Operations, route: str | None) -> Flags:
    """Copies of a kind or route; without one, copies between devices.

    Raises:
        UsageError: There are none.
    """
    if route is None:
        chosen = o.where(lambda label: label.is_peer)
    elif "->" in route:
        src, dst = (_end(part.strip()) for part in route.split("->", 1))
        chosen = o.where(lambda of: (of.kind, of.src, of.dst) == (COPY, src, dst))
    else:
        chosen = o.where(lambda of: of.kind == COPY and of.text.split(" ")[0].startswith(route))
    if chosen.any():
        return chosen
    msg = f"no copies {route or 'between devices'} were recorded"
    copies = sorted({label.text for label in o.labels if label.kind == COPY})
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
    """Give some operations other durations, and collectives of several ranks other transfers."""
    transfers = changed.stored(TRANSFER, chosen)
    meeting = changed.operation(transfers)
    # A collective ends one transfer after the last rank arrived, not after its own start.
    alone = chosen.copy()
    alone[meeting] = False
    durations = np.where(alone, took_ns, changed.weights.duration_ns)
    times = took_ns if transfer_ns is None else transfer_ns
    return changed.with_times(duration_ns=durations).with_edges(transfers, times[meeting])


def without(changed: Changed, chosen: Flags, is_gone: Flags) -> Changed:
    """Remove operations, which then take no time and wait for their streams only, and calls."""
    graph, w, calls = changed.graph, changed.weights, len(changed.graph.calls)
    source, target = (changed.operation(slice(None), is_source=end) for end in (True, False))
    # A wait for a stream, also one that is inferred, then waits for the operation before; a wait
    # for the copy itself is removed.
    never = holds(chosen, target) | (
        (w.edges.kind == kinds.DEFAULT_STREAMS) & holds(chosen, source)
    )
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
