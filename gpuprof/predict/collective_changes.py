"""Changes of collectives: ranks that do not wait for each other, and several made one."""

import re
from dataclasses import replace
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.units import say_ns
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.phases import steps_by_phase
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import NEVER, Graph, holds
from gpuprof.predict.host_changes import spans_like
from gpuprof.predict.link_models import fitted
from gpuprof.predict.recorded import COLLECTIVE, Flags
from gpuprof.predict.replay import Changed
from gpuprof.predict.selected import calls_of, lasting, named, without

_COUNTED: Final = re.compile(r"(.+):([1-9]\d*)")
# Without sizes, the share of the shortest collective that is latency: usually, at least, at most.
_LATENCIES: Final = (0.5, 0.0, 1.0)


def balance(profile: Profile, changed: Changed) -> Changed:
    """Let collectives take only their transfers: no rank waits for another.

    Raises:
        UsageError: There are no collectives.
    """
    graph = changed.graph
    if not len(graph.collectives):
        msg = "there are no collectives to balance"
        hint = "balance applies to kernels of NCCL and similar libraries"
        if spans_like(profile, "MPI_*")[0].size:
            hint += "; for MPI, drop-host='MPI_*' leaves out its calls, transfers included"
        raise UsageError(msg, f"{hint}.")
    duration_ns = changed.weights.duration_ns.astype(np.int64)
    duration_ns[graph.collectives] = graph.transfer_ns
    changed = changed.with_times(duration_ns=duration_ns)
    changed = changed.with_edges(changed.weights.edges.kind == kinds.TRANSFER, NEVER)
    words = (
        f"collectives ({len(graph.collectives):,}) take only their transfer time, where the"
        " recording gives it; the program's time is the mean over its devices"
    )
    return replace(changed, is_balanced=True).saying(words)


def merge(profile: Profile, changed: Changed, text: str) -> Changed:
    """Make collectives that follow each other on a stream within a step one, where the last was.

    Raises:
        UsageError: None match, nothing tells which belong together, or none can be made one.
    """
    graph, o = changed.graph, changed.graph.operations
    match = _COUNTED.fullmatch(text)
    pattern, most = (match[1], int(match[2])) if match else (text, 0)
    chosen = named(o, pattern) & (o.kind == COLLECTIVE)
    away, into = _made_one(profile, changed, chosen, most)
    if not len(away):
        msg = f"no collectives that match {pattern} can be made one"
        hint = "They must follow each other on a stream within a step, and nothing may wait for one"
        raise UsageError(msg, f"{hint} of them before the last begins.")
    transfer_ns, size = o.took_ns, np.full(len(o), UNKNOWN)
    transfer_ns[graph.collectives], size[graph.collectives] = graph.transfer_ns, graph.message_bytes
    is_timed = chosen & (transfer_ns > 0)
    is_sized = is_timed & (size > 0)
    shortest_ns = int(transfer_ns[is_timed].min(initial=np.iinfo(np.int64).max))
    if link := fitted(size[is_sized], transfer_ns[is_sized], "fitted to their sizes"):
        latency_ns, words = min(link.latency_ns, shortest_ns), link.words
    else:
        latency_ns = _LATENCIES[changed.bound] * shortest_ns
        words = f"0 to {say_ns(shortest_ns)}, the shortest, as their sizes do not tell it"
    merged_ns = transfer_ns.astype(np.float64)
    np.add.at(merged_ns, into, transfer_ns[away] - latency_ns)
    merged = np.rint(np.maximum(merged_ns, transfer_ns)).astype(np.int64)
    is_away, is_one = (np.isin(np.arange(len(o)), rows) for rows in (away, into))
    changed = lasting(changed, is_one, o.took_ns - transfer_ns + merged, merged)
    changed = _after_the_last(without(changed, is_away, calls_of(graph, is_away)), away, into)
    inferred = changed.stored(kinds.AWAITED, is_away, is_source=True)
    if len(inferred):
        words += f"; inferred waits for one of them ({len(inferred):,}) are none"
    return changed.with_edges(inferred, NEVER).saying(
        f"collectives that match {pattern} ({len(away) + is_one.sum():,}) become"
        f" {is_one.sum():,}, each where the last of them began, and pay latency once: {words}"
    )


def _made_one(
    profile: Profile, changed: Changed, chosen: Flags, most: int
) -> tuple[Int64s, Int64s]:
    """The collectives that become a part of a later one each, and these later ones.

    Args:
        profile: The recording.
        changed: The graph so far.
        chosen: The collectives that may be made one.
        most: How many become one at most; 0 for all of a step.

    Raises:
        UsageError: All of a step are to become one, and nothing tells steps.
    """
    graph, o = changed.graph, changed.graph.operations
    step = _steps_of(profile, graph, chosen)
    if not most and (step == NOT_FOUND).all():
        msg = "nothing marks or repeats steps, so that it is unknown which collectives are of one"
        raise UsageError(msg, "merge=REGEX:4 makes every four that follow each other one.")
    edges, source = graph.weights.edges, changed.operation(slice(None), is_source=True)
    # What is of one step on the first rank is so on all of them.
    of = changed.stored(kinds.TRANSFER, chosen)
    member, meeting = changed.operation(of), np.full(len(o), NOT_FOUND)
    _, first, meeting[member] = np.unique(edges.source[of], return_index=True, return_inverse=True)
    step[member] = step[member[first]][meeting[member]]
    rows = np.flatnonzero(chosen & ((step != NOT_FOUND) | (most > 0)))
    begins = np.append(True, (np.diff(rows) != 1) | (np.diff(step[rows]) != 0))[: len(rows)]
    begins[1:] |= np.diff(o.stream[rows]) != 0
    begins = _on_all_ranks(begins, meeting[rows])
    if most:
        number = np.arange(len(rows))
        begins |= (number - np.maximum.accumulate(np.where(begins, number, 0))) % most == 0
    run, is_last = np.cumsum(begins) - 1, np.append(begins[1:], True)[: len(rows)]
    last = rows[is_last]
    # What waits for the end of one of them would wait for the last; inferred waits are no proof.
    waited_ns = np.full(len(o), np.iinfo(np.int64).max)
    is_wait = (edges.source % 2 == 1) & holds(chosen, source) & (edges.kind != kinds.AWAITED)
    np.minimum.at(waited_ns, source[is_wait], graph.time_ns[edges.target[is_wait]])
    is_early = (waited_ns[rows] < o.start_ns[last[run]]) & ~is_last
    is_kept = _on_all_ranks(np.bincount(run, is_early) > 0, meeting[last])
    is_away = ~is_last & ~is_kept[run]
    return rows[is_away], last[run[is_away]]


def _steps_of(profile: Profile, graph: Graph, chosen: Flags) -> Int64s:
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


def _on_all_ranks(flags: Flags, meeting: Int64s) -> Flags:
    """Whether the flag of a collective is set on any of its ranks."""
    is_any = np.bincount(meeting + 1, flags) > 0
    return np.asarray(flags | ((meeting != NOT_FOUND) & is_any[meeting + 1]))


def _after_the_last(changed: Changed, away: Int64s, into: Int64s) -> Changed:
    """Let a later collective wait for what others waited for, and be waited for in their place."""
    graph = changed.graph
    o, edges, first = graph.operations, graph.weights.edges, len(graph.calls)
    later = np.zeros(len(o), np.int64)
    later[away] = 2 * (first + into)
    for is_source, ends in ((True, edges.source), (False, edges.target)):
        instant = holds(later, changed.operation(slice(None), is_source=is_source))
        rows = np.flatnonzero((instant > 0) & (ends % 2 == is_source))
        for kind in np.unique(edges.kind[rows]).tolist():
            its = rows[edges.kind[rows] == kind]
            source = instant[its] + 1 if is_source else edges.source[its]
            target = edges.target[its] if is_source else instant[its]
            changed = changed.adding(kind, source, target)
    return changed
