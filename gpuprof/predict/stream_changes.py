"""Changes of what waits for copies and kernels: hidden copies, and separate streams."""

import numpy as np

from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import APART, NEVER, NO_WORK, holds, is_before
from gpuprof.predict.host_changes import SYNCHRONISATIONS
from gpuprof.predict.recorded import COLLECTIVE, COPY, Flags, Operations
from gpuprof.predict.replay import Changed
from gpuprof.predict.selected import after_each, calls_of, named, on_route


def hide(_: Profile, changed: Changed, text: str) -> Changed:
    """Let copies of a kind or route overlap with other work.

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
    is_early, call = calls_of(graph, early), w.edges.target // 2
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
        is_free = calls_of(graph, copies) | is_next
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


def streams(_: Profile, changed: Changed, text: str) -> Changed:
    """Run operations on streams of their own, and let the host go on after copies to a device."""
    graph = changed.graph
    o, edges, first = graph.operations, graph.weights.edges, len(graph.calls)
    chosen = named(o, text)
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
