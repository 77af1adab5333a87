"""The changes of ``--what``: each gives edges other times, or removes or adds edges.

Those of what the host does, and of collectives; those of operations are in `operation_changes`, and
of links in `link_models`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.units import counted, say_ns
from gpuprof.facts.launches import ALL_THREADS
from gpuprof.facts.numbers import NOT_FOUND, read_columns
from gpuprof.facts.nvtx import like, ranges_like
from gpuprof.model.derived import HOST, UNKNOWN
from gpuprof.model.intervals import Int64s, covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words
from gpuprof.predict import graph as kinds
from gpuprof.predict.build import graph_of
from gpuprof.predict.graph import NEVER, NO_WORK, Graph, holds
from gpuprof.predict.link_models import fitted, with_link
from gpuprof.predict.operation_changes import faults, gpu, hide, returning, scale, steps_of, streams
from gpuprof.predict.recorded import COLLECTIVE, COPY, KERNEL, Calls, Flags
from gpuprof.predict.replay import (
    Changed,
    after_each,
    calls_of,
    calls_within,
    lasting,
    named,
    without,
)

# A thread may wait for another one in a pause of this length.
_HANDED_OVER_NS: Final = 100_000
# Less of what is left out is not worth a word.
_MUCH: Final = 0.1
# A CUDA graph has no host work between two launches, except for pauses of this length.
_GRAPH_PAUSE_NS: Final = 1_000_000
_MESSAGES: Final = ("mpi", "ucx")
_HOST_CALLS: Final = ("process_id", "thread_id", "start_ns", "end_ns")


def drop_host(profile: Profile, changed: Changed, text: str) -> Changed:
    """Leave out what the host does in ranges, operations or host calls, but for CUDA calls.

    Raises:
        UsageError: Nothing recorded has such a name, or nothing of it is between CUDA calls, or
            there are none.
    """
    graph = changed.graph
    calls, (process, thread, *times, _) = graph.calls, spans_like(profile, text)[0]
    if not len(process):
        msg = f"no range, operation or host call is named {text}"
        raise UsageError(msg, "* matches anything; see gpuprof report --table ranges.")
    if not len(calls):
        msg = f"no CUDA calls were recorded: what waits for {text} is unknown"
        raise UsageError(msg, "Record the CUDA API as well.")
    won_ns, beside_ns = _between_calls(calls, process, thread, times)
    if not won_ns.any():
        msg = f"the host does nothing in {text} between CUDA calls"
        raise UsageError(msg, "Name ranges or calls of a thread that launches work.")
    w = changed.weights
    edges, target = w.edges, w.edges.target // 2
    # A thread that waited there for another one waits no more, if that is most of its pause.
    pause_ns = np.append(0, calls.start_ns[1:] - calls.end_ns[:-1])
    never = (edges.kind == kinds.OTHER_THREAD) & holds(2 * won_ns > pause_ns, target)
    work_ns = np.where(w.work_ns == NO_WORK, NO_WORK, np.maximum(w.work_ns - won_ns, 0))
    pauses_words = counted(int((won_ns > 0).sum()), "pause", "pauses")
    words = "other threads or processes do it, and are done in time"
    # Threads hand over work by queues of their own, which are not recorded.
    other_ns = int((beside_ns - won_ns)[pause_ns >= _HANDED_OVER_NS].sum())
    if other_ns > _MUCH * won_ns.sum():
        words += f"; pauses of other threads meanwhile ({say_ns(other_ns)}) stay, though they"
        words += " may be waits for it"
    return (
        changed.with_edges(never, NEVER)
        .with_times(work_ns=work_ns)
        .saying(
            f"the host takes no time in {text} between CUDA calls ({say_ns(int(won_ns.sum()))} in"
            f" {pauses_words}): {words}"
        )
    )


def _between_calls(
    calls: Calls, process: Int64s, thread: Int64s, times: Sequence[Int64s]
) -> tuple[Int64s, Int64s]:
    """How long before each call some spans of its thread last, and those of its process."""
    of_thread_ns, of_process_ns = np.zeros((2, len(calls)), np.int64)
    for of in calls.threads:
        is_of_process = process == of.process
        is_its = is_of_process & ((thread == of.thread_id) | (thread == ALL_THREADS))
        since, until = calls.end_ns[of.low : of.high - 1], calls.start_ns[of.low + 1 : of.high]
        for its, lasted_ns in ((is_its, of_thread_ns), (is_of_process, of_process_ns)):
            spans = union(*(ns[its] + calls.clock.of(of.process) for ns in times))
            inside_ns = covered_within(spans, since, np.maximum(since, until))
            lasted_ns[of.low + 1 : of.high] = inside_ns
    return of_thread_ns, of_process_ns


def spans_like(profile: Profile, text: str) -> tuple[Int64s, list[str]]:
    """Ranges, and host calls, of a name: process, thread, start, end and name, a row of each.

    The names are the second part.
    """
    spans, words, of = [np.empty((5, 0), np.int64)], list[str](), profile.unrestricted
    if of.has("nvtx_ranges"):
        its = ranges_like(of, text)
        spans.append(np.stack([its.process, its.thread, its.start_ns, its.end_ns, its.label]))
        words += [label for label, _, _ in its.labels]
    if of.has("host_calls"):
        names = {"name": Words()}
        *columns, name = read_columns(of, "host_calls", *_HOST_CALLS, *names, texts=names)
        called, expression = [word or "" for word in names["name"].words], like(text)
        is_alike = np.array([expression.fullmatch(word) is not None for word in called], bool)[name]
        spans.append(np.stack([*columns, name + len(words)])[:, is_alike])
        words += called
    return np.concatenate(spans, axis=1), words


def no_launch_cost(profile: Profile, changed: Changed) -> Changed:
    """Let calls that wait for nothing take no time, nor the host between them.

    Raises:
        UsageError: No CUDA calls were recorded.
    """
    graph, w = changed.graph, changed.weights
    calls = graph.calls
    if not len(calls):
        msg = "no CUDA calls were recorded: the cost of launches is unknown"
        raise UsageError(msg, "Record the CUDA API as well.")
    waits = w.edges.target[np.isin(w.edges.kind, (*kinds.SYNCHRONISATIONS, kinds.COPY_CALL))] // 2
    # The recording's time starts with its first operation: calls before it win nothing.
    is_free = ~calls.is_waiting & (calls.start_ns >= graph.operations.start_ns.min())
    is_free[waits] = False
    is_between = is_free & after_each(is_free & ~_before_messages(profile, graph))
    is_between &= (graph.weights.work_ns < _GRAPH_PAUSE_NS) & (graph.weights.work_ns != NO_WORK)
    is_short = is_free & (graph.weights.call_ns < _GRAPH_PAUSE_NS)
    full = (w.edges.kind == kinds.FULL_QUEUE) & holds(is_free, w.edges.target // 2)
    changed = changed.with_edges(full, NEVER).with_times(
        call_ns=np.where(is_short, 0, w.call_ns), work_ns=np.where(is_between, 0, w.work_ns)
    )
    return changed.without_lag(2 * np.flatnonzero(is_free) + 1).saying(
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
    for of in calls.threads:
        on = (process == of.process) & (thread == of.thread_id)
        when = since[on] + calls.clock.of(of.process)
        place = np.searchsorted(calls.start_ns[of.low : of.high], when, side="right")
        is_before[of.low + place[place > 0] - 1] = True
    return is_before


_COUNTED: Final = re.compile(r"(.+):([1-9]\d*)")
# Without sizes, the share of the shortest collective that is latency: usually, at least, at most.
_LATENCIES: Final = (0.5, 0.0, 1.0)


def balance(profile: Profile, changed: Changed) -> Changed:
    """Let collectives take only their transfers: no rank waits for another.

    Where one thread launches the work of several devices, it waits for all of them: their kernels
    take as long together on each.

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
    duration_ns, took_ns = changed.weights.duration_ns.astype(np.int64), changed.transfer_ns
    duration_ns[graph.collectives] = took_ns[graph.collectives]
    shares, is_kernel = _shares_of_work(graph), graph.operations.kind == KERNEL
    for device, share in shares.items():
        its = is_kernel & (graph.operations.device == device)
        for times_ns in (duration_ns, took_ns):
            times_ns[its] = np.rint(share * times_ns[its])
    changed = changed.with_times(duration_ns=duration_ns)
    changed = changed.with_edges(changed.weights.edges.kind == kinds.TRANSFER, NEVER)
    words = (
        f"collectives ({len(graph.collectives):,}) take only their transfer time, where the"
        " recording gives it; the program's time is the mean over its devices"
    )
    if shares:
        words += f", of which one thread launches the work of {len(shares)}: their kernels take"
        words += " equally long"
    return replace(changed, is_balanced=True, times_ns=(took_ns, took_ns)).saying(words)


def _shares_of_work(graph: Graph) -> dict[int, float]:
    """How long kernels would take of what they do, by device, if devices of one thread were equal.

    Of devices whose kernels the same thread launches, most of them; others are not in it.
    """
    o, of_thread = graph.operations, dict[int, dict[int, int]]()
    devices = np.unique(o.device[graph.collectives]).tolist()
    for device in devices if len(graph.calls) else ():
        rows = np.flatnonzero((o.device == device) & (o.kind == KERNEL) & (o.call != NOT_FOUND))
        if len(rows):
            thread = int(np.bincount(graph.calls.thread(o.call[rows])).argmax())
            took_ns = int((o.end_ns[rows] - o.start_ns[rows]).sum())
            of_thread.setdefault(thread, {})[device] = max(took_ns, 1)
    return {
        device: sum(took_ns.values()) / len(took_ns) / took_ns[device]
        for took_ns in of_thread.values()
        if len(took_ns) > 1
        for device in took_ns
    }


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
    transfer_ns, size = changed.transfer_ns, np.full(len(o), UNKNOWN)
    size[graph.collectives] = graph.message_bytes
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
    changed = lasting(changed, is_one, changed.took_ns - transfer_ns + merged, merged)
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

    At most ``most`` become one; 0 stands for all of a step.

    Raises:
        UsageError: All of a step are to become one, and nothing tells steps.
    """
    graph, o = changed.graph, changed.graph.operations
    step = steps_of(profile, graph, chosen)
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


_BALANCE, _HIDE = "balance", "hide="
# Other changes are then of what is left without waits: of transfers, and of kernels without faults.
_FIRST: Final = (_BALANCE, "faults=0")
_LINK: Final = re.compile(r"link(?:\[(.+)\])?=(.+)")
# Changes that leave open what something takes: the range is from their slow to their fast times.
OPEN: Final = ("link", "merge=", "faults=", "gpu=")


def apply(profile: Profile, changes: Sequence[str], bound: int) -> Changed:
    """Apply changes to the graph of a recording, one after the other; see `_FIRST`.

    Links are those of ``bound``: `USUAL`, `SLOW` or `FAST`.

    Raises:
        UsageError: A change is unknown, or matches nothing.
    """
    graph = graph_of(profile)
    changed = Changed(graph, graph.weights, bound)
    for text in sorted(_hiding_at_once(changes), key=lambda text: text not in _FIRST):
        name, _, value = text.partition("=")
        if (link := _LINK.fullmatch(text)) is not None:
            changed = with_link(changed, link[1], link[2])
        elif name in _WITH_VALUE and value:
            changed = _WITH_VALUE[name](profile, changed, value)
        elif text in _ALONE:
            changed = _ALONE[text](profile, changed)
        else:
            msg = f"there is no change {text}"
            raise UsageError(msg, "See `gpuprof predict --help` for the list of changes.")
    return changed


def _hiding_at_once(changes: Sequence[str]) -> Sequence[str]:
    """Changes of which one hides all copies: those hidden later would still hold up others."""
    hidden = [text for text in changes if text.startswith(_HIDE)]
    if not hidden:
        return changes
    first = changes.index(hidden[0])
    routes = dict.fromkeys(text.removeprefix(_HIDE) for text in hidden)
    later = [text for text in changes[first:] if text not in hidden]
    return [*changes[:first], _HIDE + "|".join(routes), *later]


def _drop(profile: Profile, changed: Changed, text: str) -> Changed:
    graph = changed.graph
    o = graph.operations
    is_within = calls_within(profile, graph, text)
    pattern, _, name = text.rpartition("@")
    if is_within.any():
        chosen = holds(is_within, o.call)
    elif pattern and (is_inside := calls_within(profile, graph, name)).any():
        # Only these of a range: its calls that launch other work stay.
        chosen = named(o, pattern) & holds(is_inside, o.call)
        if not chosen.any():
            msg = f"{name} launches no kernel or copy that matches {pattern}"
            raise UsageError(msg, "See gpuprof report --table ranges for what ranges launch.")
    else:
        chosen = named(o, text)
    is_gone = is_within | calls_of(graph, chosen)
    # Nor does the host wait for a number that it does not read.
    with_host = chosen & o.where(lambda of: of.kind == COPY and HOST in {of.src, of.dst})
    changed, _, waiting = returning(changed, with_host, with_host)
    changed = without(changed, chosen, is_gone)
    words = (
        f"operations of {text} ({chosen.sum():,}) and their calls ({is_gone.sum():,}) are removed"
    )
    if waiting:
        words += f"; calls after them that wait for these alone ({waiting:,}) go on"
    first_ns = int(o.start_ns.min())
    later_ns = int(o.start_ns.min(where=~chosen, initial=np.iinfo(np.int64).max)) - first_ns
    if later_ns and not chosen.all():
        words += f"; the recording begins {say_ns(later_ns)} later, with the first one that is left"
    return changed.saying(f"{words}; operations that use their results take as long as before")


_WITH_VALUE: Final[dict[str, Callable[[Profile, Changed, str], Changed]]] = {
    "hide": hide,
    "drop": _drop,
    "drop-host": drop_host,
    "merge": merge,
    "faults": faults,
    "gpu": gpu,
    "scale": scale,
    "streams": streams,
}
_ALONE: Final[dict[str, Callable[[Profile, Changed], Changed]]] = {
    _BALANCE: balance,
    "no-launch-cost": no_launch_cost,
}
