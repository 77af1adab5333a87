"""The changes of ``--what``: each gives edges other times, or removes or adds edges."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.units import say_ns
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.nvtx import ranges_like
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed
from gpuprof.predict import graph as kinds
from gpuprof.predict.build import graph_of
from gpuprof.predict.graph import APART, GONE, NEVER, NO_WORK, Graph, holds, is_before
from gpuprof.predict.host_changes import SYNCHRONISATIONS, after_each, drop_host, no_launch_cost
from gpuprof.predict.link_models import lasting, on_route, with_link
from gpuprof.predict.recorded import COLLECTIVE, COPY, Flags, Operations
from gpuprof.predict.replay import Changed

_SCALE: Final = re.compile(r"(.+):(\d*\.?\d+)")
_LINK: Final = re.compile(r"link(?:\[(.+)\])?=(.+)")


def apply(profile: Profile, changes: Sequence[str], bound: int) -> Changed:
    """Apply changes to the graph of a recording, one after the other.

    Args:
        profile: The recording.
        changes: As given with ``--what``.
        bound: `USUAL`, `SLOW` or `FAST` links.

    Raises:
        UsageError: A change is unknown, or matches nothing.
    """
    graph = graph_of(profile)
    changed = Changed(graph, graph.weights)
    for text in changes:
        name, _, value = text.partition("=")
        if (link := _LINK.fullmatch(text)) is not None:
            changed = with_link(changed, link[1], link[2], bound)
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
    chosen = operations.where(lambda label: expression.search(label.text) is not None)
    if not chosen.any():
        names = sorted(dict.fromkeys(label.text for label in operations.labels), key=len)[:3]
        msg = f"no kernel or copy matches {pattern}"
        raise UsageError(msg, f"Recorded names include: {', '.join(names)}.")
    return chosen


def _scale(_: Profile, changed: Changed, text: str) -> Changed:
    match = _SCALE.fullmatch(text)
    if match is None:
        msg = f"scale={text} has no factor"
        raise UsageError(msg, "Write scale=REGEX:0.5 to halve the time of what matches.")
    o = changed.graph.operations
    chosen, factor = _named(o, match[1]), float(match[2])
    took = o.took_ns
    moved = took.copy()
    moved[changed.graph.collectives] = changed.graph.transfer_ns
    faster = np.rint(moved * factor).astype(np.int64)
    words = f"operations that match {match[1]} ({chosen.sum():,}) take"
    changed = lasting(changed, chosen, took - moved + faster, faster)
    return changed.saying(f"{words} {factor:g} times as long, except for waiting for other ranks")


def _drop(profile: Profile, changed: Changed, text: str) -> Changed:
    graph = changed.graph
    o = graph.operations
    is_within = _calls_within(profile, graph, text)
    pattern, _, name = text.rpartition("@")
    if is_within.any():
        chosen = holds(is_within, o.call)
    elif pattern and (is_inside := _calls_within(profile, graph, name)).any():
        # Only these of a range: its calls that launch other work stay.
        chosen = _named(o, pattern) & holds(is_inside, o.call)
        if not chosen.any():
            msg = f"{name} launches no kernel or copy that matches {pattern}"
            raise UsageError(msg, "See gpuprof report --table ranges for what ranges launch.")
    else:
        chosen = _named(o, text)
    is_gone = is_within | _calls_of(graph, chosen)
    changed = _without(changed, chosen, is_gone)
    words = (
        f"operations of {text} ({chosen.sum():,}) and their calls ({is_gone.sum():,}) are removed"
    )
    start_ns = o.start_ns[~chosen]
    if len(start_ns) and (later_ns := int(start_ns.min() - o.start_ns.min())):
        words += f"; the recording begins {say_ns(later_ns)} later, with the first one that is left"
    return changed.saying(f"{words}; operations that use their results take as long as before")


def _calls_of(graph: Graph, chosen: Flags) -> Flags:
    """The calls that launch some operations and no others."""
    call, calls = graph.operations.call, len(graph.calls)
    launches = np.bincount(call[call != NOT_FOUND], minlength=calls)
    of_chosen = np.bincount(call[chosen & (call != NOT_FOUND)], minlength=calls)
    return np.asarray((launches > 0) & (of_chosen == launches))


def _calls_within(profile: Profile, graph: Graph, text: str) -> Flags:
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


def _without(changed: Changed, chosen: Flags, is_gone: Flags) -> Changed:
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


def _hide(_: Profile, changed: Changed, text: str) -> Changed:
    """Overlap copies with other work.

    Copies to a device run ahead: they follow one another on their route, and the operations after
    them still wait for them. Other copies follow their stream, and nothing waits for them.
    """
    graph = changed.graph
    o, first = graph.operations, len(graph.calls)
    chosen = on_route(o, text)
    is_early = chosen & o.where(lambda label: label.src == HOST)
    chained = np.zeros(len(o), bool)
    rows, is_next = _routes(o, chosen)
    before, after = rows[:-1][is_next], rows[1:][is_next]
    source, target = 2 * (first + before) + 1, 2 * (first + after)
    changed = changed.adding(kinds.STREAM, source, target)
    # Copies that overlap still wait for the same.
    chained[after] = is_before(graph.time_ns, source, target)
    changed = _bypassed(_returning(changed, chosen)[0], chosen, kinds.AWAITED)
    is_chained, is_late, w = is_early & chained, chosen & ~is_early, changed.weights
    source, target = (changed.operation(slice(None), is_source=end) for end in (True, False))
    is_never = holds(is_chained, target) | (holds(chosen, source) & (target < 0))
    is_never |= holds(is_late, source) & (target >= 0) & (target < len(o))
    changed = changed.with_edges(is_never, NEVER).with_times(
        launch=np.where(is_chained, NOT_FOUND, w.launch),
        follows=np.where(is_chained | after_each(is_late), 0, w.follows),
    )
    changed = changed.without_lag(2 * (first + np.flatnonzero(is_chained))).moving(chosen)
    return changed.saying(
        f"{text} copies ({chosen.sum():,}) overlap with other work and start as soon as their link"
        " is free, and their calls return at once; memory suffices for early copies, and no work"
        " slows down"
    )


def _returning(changed: Changed, copies: Flags) -> tuple[Changed, int]:
    """Let calls of copies take no longer than launches, and none wait for copies to a device.

    The call after that of such a copy goes on, too, if it waits for these alone, as PyTorch does
    for a copy that blocks. Returns how many calls those copies held up.
    """
    graph, w = changed.graph, changed.weights
    o, calls = graph.operations, len(graph.calls)
    is_launched = o.call != NOT_FOUND
    early = copies & o.where(lambda label: label.src == HOST)
    is_early, call = _calls_of(graph, early), w.edges.target // 2
    is_wait = np.isin(w.edges.kind, (*SYNCHRONISATIONS, kinds.COPY_CALL))
    is_of_copy = holds(early, changed.operation(slice(None), is_source=True))
    for_copies, for_others = (
        np.bincount(call[is_wait & of], minlength=calls) > 0 for of in (is_of_copy, ~is_of_copy)
    )
    is_next = after_each(is_early) & (graph.weights.work_ns != NO_WORK) & for_copies & ~for_others
    changed = changed.with_edges(is_wait & holds(is_early | is_next, call), NEVER)
    is_held = is_early & (for_copies | for_others) | is_next
    is_held[o.call[early & is_launched & o.where(lambda label: label.is_pageable)]] = True
    launches = o.call[o.where(lambda label: label.kind <= COLLECTIVE) & is_launched]
    if len(launches):
        usual_ns = int(np.median(narrowed(graph.calls.took_ns)[launches]))
        returning = np.minimum(graph.weights.call_ns, np.int64(usual_ns))
        is_free = _calls_of(graph, copies) | is_next
        changed = changed.with_times(call_ns=np.where(is_free, returning, w.call_ns))
    return changed, int(is_held.sum())


def _routes(o: Operations, chosen: Flags) -> tuple[Int64s, Flags]:
    """Some operations by route and start, and whether each but the first one is of the same."""
    rows = np.flatnonzero(chosen)
    texts = {text: number for number, text in enumerate(sorted({of.text for of in o.labels}))}
    text = np.array([texts[of.text] for of in o.labels], np.int64)[o.label[rows]]
    places = {
        place: n for n, place in enumerate(sorted({(s.process, s.device) for s in o.streams}))
    }
    place = np.array([places[s.process, s.device] for s in o.streams], np.int64)[o.stream[rows]]
    route = place * (len(texts) + 1) + text
    order = np.lexsort((o.start_ns[rows], route))
    return rows[order], np.diff(route[order]) == 0


def _bypassed(changed: Changed, chosen: Flags, *more_kinds: int) -> Changed:
    """Edges past some operations: from the one before them on their stream to what follows."""
    graph = changed.graph
    o, edges, first = graph.operations, graph.weights.edges, len(graph.calls)
    next_ones = np.flatnonzero(after_each(chosen) & (graph.weights.follows == APART))
    past = [(kinds.STREAM, next_ones - 1, 2 * (first + next_ones))]
    for kind in (*SYNCHRONISATIONS, *more_kinds):
        rows = changed.stored(kind, chosen, is_source=True)
        rows = rows[changed.weights.edges.least_ns[rows] != NEVER]
        past.append((kind, changed.operation(rows, is_source=True), edges.target[rows]))
    for kind, passed, target in past:
        from_ = _latest(o, ~chosen, passed)
        is_some = (from_ != NOT_FOUND) & ~holds(chosen, target // 2 - first)
        changed = changed.adding(kind, 2 * (first + from_[is_some]) + 1, target[is_some])
    return changed


def _latest(o: Operations, chosen: Flags, until: Int64s) -> Int64s:
    """The latest of some operations on the stream of others, up to these; `NOT_FOUND` for none."""
    rows = np.flatnonzero(chosen)
    place = np.searchsorted(rows, until, side="right") - 1
    latest = np.append(rows, NOT_FOUND)[place]
    return np.where(o.stream[latest] == o.stream[until], latest, NOT_FOUND)


def _streams(_: Profile, changed: Changed, text: str) -> Changed:
    graph = changed.graph
    o, edges, first = graph.operations, graph.weights.edges, len(graph.calls)
    chosen = _named(o, text)
    # The host needs what is copied to it, not what it copies to a device.
    copied = chosen & o.where(lambda label: label.kind == COPY and label.src == HOST)
    changed, held = _returning(changed, copied)
    changed = _bypassed(changed, chosen)
    # The host waits for the last one of them before what it waits for.
    for kind in SYNCHRONISATIONS:
        rows = changed.stored(kind, ~chosen, is_source=True)
        source = _latest(o, chosen, changed.operation(rows, is_source=True))
        rows, source = rows[source != NOT_FOUND], source[source != NOT_FOUND]
        changed = changed.adding(kind, 2 * (first + source) + 1, edges.target[rows])
    rows = np.flatnonzero(chosen)
    is_next = np.diff(o.stream[rows]) == 0
    source, target = 2 * (first + rows[:-1][is_next]) + 1, 2 * (first + rows[1:][is_next])
    changed = changed.adding(kinds.STREAM, source, target)
    # An operation without a launch would wait for nothing.
    is_apart = after_each(chosen) | (chosen & (o.call != NOT_FOUND))
    changed = changed.with_times(follows=np.where(is_apart, 0, changed.weights.follows))
    words = "the host still waits for them"
    if held:
        words += f", but {held:,} calls of copies return at once (from pinned memory)"
    return changed.moving(chosen).saying(
        f"operations that match {text} ({chosen.sum():,}) run on separate streams: {words},"
        " nothing on their old streams does, and concurrent work does not slow down"
    )


def _balance(_: Profile, changed: Changed) -> Changed:
    graph = changed.graph
    if not len(graph.collectives):
        msg = "there are no collectives to balance"
        raise UsageError(msg, "balance applies to kernels of NCCL and similar libraries.")
    duration_ns = changed.weights.duration_ns.astype(np.int64)
    duration_ns[graph.collectives] = graph.transfer_ns
    changed = changed.with_times(duration_ns=duration_ns)
    changed = changed.with_edges(changed.weights.edges.kind == kinds.TRANSFER, NEVER)
    words = (
        f"collectives ({len(graph.collectives):,}) take only their transfer time, where the"
        " recording gives it; the program's time is the mean over its devices"
    )
    return replace(changed, is_balanced=True).saying(words)


_WITH_VALUE: Final[dict[str, Callable[[Profile, Changed, str], Changed]]] = {
    "hide": _hide,
    "drop": _drop,
    "drop-host": drop_host,
    "scale": _scale,
    "streams": _streams,
}
_ALONE: Final[dict[str, Callable[[Profile, Changed], Changed]]] = {
    "balance": _balance,
    "no-launch-cost": no_launch_cost,
}
