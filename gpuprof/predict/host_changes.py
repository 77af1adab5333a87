"""Changes of what the host does: its work without some ranges or calls, and free launches."""

from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.units import counted, say_ns
from gpuprof.facts.launches import ALL_THREADS
from gpuprof.facts.numbers import read_columns
from gpuprof.facts.nvtx import like, ranges_like
from gpuprof.model.intervals import Int64s, covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words
from gpuprof.predict import graph as kinds
from gpuprof.predict.graph import NEVER, NO_WORK, Graph, holds
from gpuprof.predict.recorded import Flags
from gpuprof.predict.replay import Changed
from gpuprof.predict.selected import after_each

# Calls that wait, as recorded or by their names.
SYNCHRONISATIONS: Final = (kinds.SYNCHRONISATION, kinds.SYNCHRONISATION_BY_NAME)
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
    won_ns = np.zeros(len(calls), np.int64)
    for of in calls.threads:
        is_its = (process == of.process) & ((thread == of.thread_id) | (thread == ALL_THREADS))
        spans = union(*(ns[is_its] + calls.clock.of(of.process) for ns in times))
        since, until = calls.end_ns[of.low : of.high - 1], calls.start_ns[of.low + 1 : of.high]
        won_ns[of.low + 1 : of.high] = covered_within(spans, since, np.maximum(since, until))
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
    return (
        changed.with_edges(never, NEVER)
        .with_times(work_ns=work_ns)
        .saying(
            f"the host takes no time in {text} between CUDA calls ({say_ns(int(won_ns.sum()))} in"
            f" {pauses_words}): other threads or processes do it, and are done in time"
        )
    )


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
    waits = w.edges.target[np.isin(w.edges.kind, (*SYNCHRONISATIONS, kinds.COPY_CALL))] // 2
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
