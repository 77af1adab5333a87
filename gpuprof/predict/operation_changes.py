"""Changes of operations: how long they take, and what waits for them.

They take other times by a factor, without page faults or on another GPU; copies are hidden, and
streams are separate.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.gpu_models import GPUS, GpuModel, gpu_named
from gpuprof.base.units import say_ns
from gpuprof.facts.kernel_kinds import COPY as COPY_KERNEL
from gpuprof.facts.kernel_kinds import ELEMENTWISE, LAYOUT, kind_of
from gpuprof.facts.numbers import NOT_FOUND, read_columns
from gpuprof.facts.operator_calls import gpu_models
from gpuprof.facts.phases import steps_by_phase
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s, covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words, narrowed
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import APART, NEVER, NO_WORK, Graph, holds, is_before
from gpuprof.predict.link_models import FAST, SLOW, USUAL
from gpuprof.predict.recorded import COLLECTIVE, COPY, KERNEL, MEMSET, Flags, Label, Operations
from gpuprof.predict.replay import (
    Changed,
    after_each,
    calls_of,
    from_host,
    lasting,
    named,
    on_route,
    without,
)

_SCALE: Final = re.compile(r"(.+):(\d*\.?\d+)")
# Other blocks of a kernel can go on while a fault is handled: it waits for a part of that time.
_STALLED: Final = {USUAL: 0.75, SLOW: 0.5, FAST: 1.0}
# Kernels as short as that do not fill a GPU: a larger one need not be faster.
_SMALL_NS: Final = 10_000
_OF_MEMORY: Final = frozenset({ELEMENTWISE, LAYOUT, COPY_KERNEL})


def scale(_: Profile, changed: Changed, text: str) -> Changed:
    """Let operations take longer or shorter by a factor.

    Raises:
        UsageError: There is no factor, or nothing matches.
    """
    match = _SCALE.fullmatch(text)
    if match is None:
        msg = f"scale={text} has no factor"
        raise UsageError(msg, "Write scale=REGEX:0.5 to halve the time of what matches.")
    o = changed.graph.operations
    chosen, factor = named(o, match[1]), float(match[2])
    took, moved = changed.took_ns, changed.transfer_ns
    faster = np.rint(moved * factor).astype(np.int64)
    words = f"operations that match {match[1]} ({chosen.sum():,}) take"
    changed = lasting(changed, chosen, took - moved + faster, faster)
    earlier = np.ones(len(o)) if changed.factor is None else changed.factor
    changed = replace(changed, factor=np.where(chosen, factor * earlier, earlier))
    return changed.saying(f"{words} {factor:g} times as long, except for waiting for other ranks")


def faults(profile: Profile, changed: Changed, text: str) -> Changed:
    """Remove what page faults and migrations of managed memory take.

    Raises:
        UsageError: Neither was recorded, or another number of them is meant.
    """
    if text != "0":
        msg = f"there is no change faults={text}"
        raise UsageError(msg, "faults=0 removes page faults and migrations of managed memory.")
    o = changed.graph.operations
    is_migration = o.where(lambda label: label.kind == COPY and label.text.startswith("UVM"))
    start, end, device, processor = np.empty((4, 0), np.int64)
    if profile.unrestricted.has("page_faults"):
        of = {"processor": Words(["gpu"])}
        names = ("start_ns", "end_ns", "device_id", *of)
        columns = read_columns(profile.unrestricted, "page_faults", *names, texts=of)
        start, end, device, processor = (column.astype(np.int64) for column in columns)
    is_of_gpu = processor == 0
    if not (is_migration.any() or is_of_gpu.any()):
        msg = f"{profile.origin.source} has no page faults of a GPU and no migrations"
        hint = "nsys profile --cuda-um-gpu-page-faults=true records those of managed memory."
        raise UsageError(msg, hint)
    stalled_ns = np.zeros(len(o), np.int64)
    for number in o.devices:
        its, moved = is_of_gpu & (device == number), is_migration & (o.device == number)
        shift_ns, rows = o.shifts_ns.get(number, 0), (o.device == number) & (o.kind == KERNEL)
        handled = union(
            np.append(start[its] + shift_ns, o.start_ns[moved]),
            np.append(end[its] + shift_ns, o.end_ns[moved]),
        )
        stalled_ns[rows] = covered_within(handled, o.start_ns[rows], o.end_ns[rows])
    is_stalled = stalled_ns > 0
    won_ns = np.rint(_STALLED[changed.bound] * stalled_ns).astype(np.int64)
    changed = lasting(changed, is_stalled, np.maximum(changed.took_ns - won_ns, 0))
    words = (
        f"kernels ({is_stalled.sum():,}) save half to all of the {say_ns(int(stalled_ns.sum()))}"
        " in which page faults and migrations are handled beside them, and migrations"
        f" ({is_migration.sum():,}) are removed; pages are where they are needed in time, and the"
        " host's own faults stay"
    )
    return without(changed, is_migration, np.zeros(len(changed.graph.calls), bool)).saying(words)


def gpu(profile: Profile, changed: Changed, text: str) -> Changed:
    """Let kernels, memsets and local copies take what another GPU's peak rates allow.

    Raises:
        UsageError: There is no such GPU, or that of a device is unknown.
    """
    there = gpu_named(text)
    if there is None:
        msg = f"there is no GPU {text}"
        raise UsageError(msg, f"GPUs: {', '.join(gpu.name for gpu in GPUS)}.")
    o, here = changed.graph.operations, gpu_models(profile)
    if missing := [device for device in o.devices if device not in here]:
        msg = f"{profile.origin.source} names no GPU of known rates as device {missing[0]}"
        raise UsageError(msg, f"Known are: {', '.join(gpu.name for gpu in GPUS)}.")
    ratios = {device: _ratios(here[device], there) for device in o.devices}
    on = [ratios[of.device] for of in o.streams]
    memory, least, most = (
        np.array(values)[o.stream]
        for values in ([its[0] for its in on], [*map(min, on)], [*map(max, on)])
    )
    took = changed.took_ns
    # A larger GPU need not be faster for what does not fill this one.
    slow = np.where(took < _SMALL_NS, np.maximum(most, 1), most)
    usual = np.sqrt(least * most)
    times = np.where(o.where(_is_of_memory), memory, (usual, slow, least)[changed.bound])
    is_there = o.where(lambda of: of.kind in {KERNEL, MEMSET} or _is_of_memory(of))
    changed = lasting(changed, is_there, np.rint(took * times).astype(np.int64))
    return changed.saying(
        f"kernels, memsets and local copies ({is_there.sum():,}) take {least.min():.2f} to"
        f" {most.max():.2f} times as long on {there.name}, by the peaks of memory, fp32 and Tensor"
        f" Cores in data sheets; those of memory alone {memory.min():.2f}; kernels under"
        f" {say_ns(_SMALL_NS)} perhaps no less than here; links, launches and the host stay"
    )


def _ratios(here: GpuModel, there: GpuModel) -> list[float]:
    """How much longer work takes that one peak rate bounds, that of memory first."""
    rates = [(here.bytes_per_s, there.bytes_per_s), (here.flops_per_s, there.flops_per_s)]
    tensor = (here.half_flops_per_s, there.half_flops_per_s)
    tf32 = (here.tf32_flops_per_s, there.tf32_flops_per_s)
    return [a / b for a, b in (*rates, tensor, tf32) if a and b]


def _is_of_memory(label: Label) -> bool:
    """Whether work is known to be bound by memory: local copies, and kernels of copies' kinds."""
    if label.kind == COPY:
        return label.src == label.dst >= 0
    return label.kind == KERNEL and kind_of(label.text) in _OF_MEMORY


def hide(profile: Profile, changed: Changed, text: str) -> Changed:
    """Let copies of a kind or route overlap with other work.

    Copies to a device run ahead: they follow one another on their route, and the operations after
    them still wait for them. Other copies follow their stream, and nothing waits for them, but for
    what they waited for, and for those of the step before.
    """
    graph = changed.graph
    o, first = graph.operations, len(graph.calls)
    chosen = on_route(o, text)
    is_early = chosen & from_host(o)
    chained = np.zeros(len(o), bool)
    rows, is_next = _routes(o, chosen)
    before, after = rows[:-1][is_next], rows[1:][is_next]
    source, target = 2 * (first + before) + 1, 2 * (first + after)
    changed = changed.adding(kinds.STREAM, source, target)
    # Copies that overlap still wait for the same.
    chained[after] = is_before(graph.time_ns, source, target)
    is_chained, is_late = is_early & chained, chosen & ~is_early
    changed = returning(changed, chosen, is_early)[0]
    changed = _bypassed(changed, chosen, *kinds.WAITS_OF_STREAMS)
    changed = _one_step_behind(profile, _after_other_streams(changed, is_late), is_late)
    w = changed.weights
    source, target = (changed.operation(slice(None), is_source=end) for end in (True, False))
    is_never = holds(is_chained, target) | (holds(chosen, source) & (target < 0))
    is_never |= holds(is_late, source) & (target >= 0) & (target < len(o))
    changed = changed.with_edges(is_never, NEVER).with_times(
        launch=np.where(is_chained, NOT_FOUND, w.launch),
        follows=np.where(is_chained | after_each(is_late), 0, w.follows),
    )
    changed = changed.without_lag(2 * (first + np.flatnonzero(is_chained))).moving(chosen)
    copies = f"{text.replace('|', ' and ')} copies"
    return changed.saying(
        f"{copies} ({chosen.sum():,}) overlap with other work and start as soon as their link is"
        " free, and their calls return at once; memory suffices for early copies, and no work"
        " slows down"
    )


def returning(changed: Changed, copies: Flags, early: Flags) -> tuple[Changed, int, int]:
    """Let calls of copies take no longer than launches, and none wait for some of them.

    The call after that of one of these goes on, too, if it waits for such alone, as PyTorch does
    for a copy that blocks. Returns how many calls they held up, and of these that come after them.
    """
    graph, w = changed.graph, changed.weights
    o, calls = graph.operations, len(graph.calls)
    is_launched = o.call != NOT_FOUND
    is_early, call = calls_of(graph, early), w.edges.target // 2
    is_wait = np.isin(w.edges.kind, (*kinds.SYNCHRONISATIONS, kinds.COPY_CALL))
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
        free_ns = np.minimum(w.call_ns, np.int64(usual_ns))
        is_free = calls_of(graph, copies)
        changed = changed.with_times(call_ns=np.where(is_free, free_ns, w.call_ns))
    return changed, int(is_held.sum()), int(is_next.sum())


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


def _following(
    changed: Changed, chosen: Flags, *more_kinds: int
) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Kinds of edges from some operations to others and to calls: sources, and instants after."""
    graph = changed.graph
    first = len(graph.calls)
    next_ones = np.flatnonzero(after_each(chosen) & ~chosen & (graph.weights.follows == APART))
    yield kinds.STREAM, next_ones - 1, 2 * (first + next_ones)
    for kind in (*kinds.SYNCHRONISATIONS, *more_kinds):
        rows = changed.stored(kind, chosen, is_source=True)
        rows = rows[changed.weights.edges.least_ns[rows] != NEVER]
        target = graph.weights.edges.target[rows]
        is_other = ~holds(chosen, target // 2 - first)
        yield kind, changed.operation(rows, is_source=True)[is_other], target[is_other]


def _bypassed(changed: Changed, chosen: Flags, *more_kinds: int) -> Changed:
    """Edges past some operations: from the one before them on their stream to what follows."""
    graph = changed.graph
    for kind, passed, target in [*_following(changed, chosen, *more_kinds)]:
        from_ = _latest(graph.operations, ~chosen, passed)
        is_some = from_ != NOT_FOUND
        source = 2 * (len(graph.calls) + from_[is_some]) + 1
        changed = changed.adding(kind, source, target[is_some])
    return changed


def _after_other_streams(changed: Changed, chosen: Flags) -> Changed:
    """Edges past some operations: from what the last of them waited for on other streams."""
    waits = kinds.WAITS_OF_STREAMS
    rows = np.concatenate([changed.stored(kind, chosen) for kind in waits])
    rows = rows[np.argsort(changed.operation(rows), kind="stable")]
    source, waited = changed.weights.edges.source[rows], changed.operation(rows)
    is_waiting = np.isin(np.arange(len(chosen)), waited)
    for kind, passed, target in [*_following(changed, chosen, *waits)]:
        last = _latest(changed.graph.operations, is_waiting, passed)
        low, high = (np.searchsorted(waited, last, side=side) for side in ("left", "right"))
        # Each may have waited for several.
        for number in range(int((high - low).max(initial=0))):
            its = low + number < high
            changed = changed.adding(kind, source[low[its] + number], target[its])
    return changed


def _one_step_behind(profile: Profile, changed: Changed, copies: Flags) -> Changed:
    """Edges from the last of some copies of each step to what followed that of the next step.

    Buffers hold the copies of a step: a link that is busy for longer holds up the next one.
    """
    graph = changed.graph
    o, step = graph.operations, steps_of(profile, graph, copies)
    rows = np.flatnonzero(step != NOT_FOUND)
    is_last = np.append((np.diff(step[rows]) != 0) | (np.diff(o.stream[rows]) != 0), True)
    last = rows[is_last[: len(rows)]]
    is_next = (np.diff(step[last]) == 1) & (np.diff(o.stream[last]) == 0)
    before = np.full(len(o), NOT_FOUND)
    before[last[1:][is_next]] = last[:-1][is_next]
    for kind, passed, target in [*_following(changed, copies, *kinds.WAITS_OF_STREAMS)]:
        from_ = before[passed]
        is_some = from_ != NOT_FOUND
        source = 2 * (len(graph.calls) + from_[is_some]) + 1
        changed = changed.adding(kind, source, target[is_some])
    return changed


def _latest(o: Operations, chosen: Flags, until: Int64s) -> Int64s:
    """The latest of some operations on the stream of others, up to these; `NOT_FOUND` for none."""
    rows = np.flatnonzero(chosen)
    place = np.searchsorted(rows, until, side="right") - 1
    latest = np.append(rows, NOT_FOUND)[place]
    return np.where(o.stream[latest] == o.stream[until], latest, NOT_FOUND)


def _is_from_device(label: Label) -> bool:
    """Whether work sends what a device has: collectives, and copies other than from the host."""
    return label.kind == COLLECTIVE or (label.kind == COPY and label.src != HOST)


def _with_data(profile: Profile, changed: Changed, chosen: Flags) -> tuple[Changed, int]:
    """Edges of collectives and copies from a device on streams of their own, to what they need.

    And to what needs them all, which is what follows the last collective of a step: the number of
    these is the second part.
    """
    graph = changed.graph
    o, first = graph.operations, len(graph.calls)
    rows = np.flatnonzero(chosen & o.where(_is_from_device))
    before = _latest(o, ~chosen, rows)
    source, target = before[before != NOT_FOUND], rows[before != NOT_FOUND]
    changed = changed.adding(kinds.STREAM, 2 * (first + source) + 1, 2 * (first + target))
    collectives = chosen & (o.kind == COLLECTIVE)
    last = _last_of(steps_of(profile, graph, collectives), o, collectives)
    source, target = 2 * (first + last) + 1, 2 * (first + last + 1)
    return changed.adding(kinds.STREAM, source, target), len(last)


def _last_of(step: Int64s, o: Operations, chosen: Flags) -> Int64s:
    """The last of some operations on each stream in each step that another one follows there."""
    rows = np.flatnonzero(chosen)
    is_last = np.append((np.diff(step[rows]) != 0) | (np.diff(o.stream[rows]) != 0), True)
    rows = rows[is_last[: len(rows)]]
    rows = rows[rows + 1 < len(o)]
    is_followed = (o.stream[rows + 1] == o.stream[rows]) & ~chosen[rows + 1]
    return np.asarray(rows[is_followed], np.int64)


def steps_of(profile: Profile, graph: Graph, chosen: Flags) -> Int64s:
    """A number for the step of each chosen operation; `NOT_FOUND` outside of all steps."""
    o = graph.operations
    step = np.full(len(o), NOT_FOUND)
    for steps in steps_by_phase(profile.unrestricted):
        on = np.flatnonzero(chosen & np.isin(o.device, steps.phase.devices))
        begun_ns = o.start_ns[on] - o.shifts_ns.get(steps.phase.devices[0], 0)
        place = np.searchsorted(steps.start_ns, begun_ns, side="right") - 1
        is_inside = (place >= 0) & (begun_ns < steps.end_ns[place])
        step[on[is_inside]] = step.max(initial=NOT_FOUND) + 1 + place[is_inside]
    return step


def streams(profile: Profile, changed: Changed, text: str) -> Changed:
    """Run operations on streams of their own, and let the host go on after copies to a device.

    Collectives and copies from a device still wait for what is computed before them, and what comes
    after the last collective of a step for all of them, as an optimizer does.
    """
    graph = changed.graph
    o, edges, first = graph.operations, graph.weights.edges, len(graph.calls)
    chosen = named(o, text)
    # The host needs what is copied to it, not what it copies to a device.
    copied = chosen & from_host(o)
    changed, held_up = returning(changed, copied, copied)[:2]
    changed = _bypassed(changed, chosen)
    # The host waits for the last one of them before what it waits for.
    for kind in kinds.SYNCHRONISATIONS:
        rows = changed.stored(kind, ~chosen, is_source=True)
        source = _latest(o, chosen, changed.operation(rows, is_source=True))
        rows, source = rows[source != NOT_FOUND], source[source != NOT_FOUND]
        changed = changed.adding(kind, 2 * (first + source) + 1, edges.target[rows])
    rows = np.flatnonzero(chosen)
    is_next = np.diff(o.stream[rows]) == 0
    source, target = 2 * (first + rows[:-1][is_next]) + 1, 2 * (first + rows[1:][is_next])
    changed = changed.adding(kinds.STREAM, source, target)
    changed, followed = _with_data(profile, changed, chosen)
    # An operation without a launch would wait for nothing.
    is_apart = after_each(chosen) | (chosen & (o.call != NOT_FOUND))
    changed = changed.with_times(follows=np.where(is_apart, 0, changed.weights.follows))
    words, awaited = "the host still waits for them", "nothing"
    if followed:
        words = "the host and what follows the last collective of a step still wait for them"
        awaited = "nothing else"
    if held_up:
        words += f", but {held_up:,} calls of copies return at once (from pinned memory)"
    return changed.moving(chosen).saying(
        f"operations that match {text} ({chosen.sum():,}) run on separate streams: {words},"
        f" {awaited} on their old streams does, and concurrent work does not slow down"
    )
