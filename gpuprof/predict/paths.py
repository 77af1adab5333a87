"""The critical path of a program, from its end back to its start, and a typical step beside it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.facts.launches import ALL_THREADS
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.nvtx import named_parts
from gpuprof.facts.range_launches import open_at
from gpuprof.facts.step_windows import masked
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import Int64s, covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Flag, Id, Ns, Schema, Text
from gpuprof.predict import graph as kinds
from gpuprof.predict.changes import spans_like
from gpuprof.predict.graph import DURATION, GONE, TRANSFER, Graph
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
        opened = open_at(ranges.start_ns[its], ranges.end_ns[its], started, is_outermost=False)
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


STEP_TIMELINE: Final = Schema(
    "step_timeline",
    "an operation of a typical step, or what its critical path spends elsewhere",
    {
        "path": Text("before or after.", required=True),
        "device_id": Id("CUDA device ordinal; null where unknown or of no device."),
        "stream_id": Id("Stream; null where unknown."),
        "kind": Text("As in critical_path.", required=True),
        "name": Text("As in critical_path.", required=True),
        "start_ns": Ns("Start, since the recording's origin.", required=True),
        "end_ns": Ns("End.", required=True),
        "operation": Id("The same number before and after; null for no operation."),
        "is_on_path": Flag("Whether it is on the critical path.", required=True),
    },
)
STRETCHES: Final = Schema(
    "stretches",
    "one stretch of a critical path within one step",
    {
        "path": Text("before or after.", required=True),
        "kind": Text("As in critical_path.", required=True),
        "name": Text("As in critical_path.", required=True),
        "start_ns": Ns("Since the step began.", required=True),
        "end_ns": Ns("Since the step began.", required=True),
    },
)
# A path, the number of the part that each of its stretches is of, and the parts (`paths.named`).
PathInStep = tuple[Path, Int64s, list[PathPart]]
# Places of operations, and when each starts and ends.
StepTimes = tuple[Int64s, Int64s, Int64s]
# A step of more is not looked at operation by operation.
_MOST: Final = 20_000


def step_times(
    replayed: Replay, devices: tuple[int, ...], first_ns: int, last_ns: int
) -> StepTimes:
    """The operations that some devices began between two measured times; none of too many.

    Returns:
        Places of those that the replay does not remove, and when each starts and ends in it.
    """
    graph, o = replayed.graph, replayed.graph.operations
    is_its = (o.start_ns >= first_ns) & (o.start_ns < last_ns)
    rows = np.flatnonzero(is_its)
    rows = rows[np.isin(o.device_of(rows), devices) & (replayed.weights.kind[rows] != GONE)]
    rows = rows[: len(rows) if len(rows) <= _MOST else 0]
    starts = graph.starts.start + 2 * rows
    return rows, replayed.at(starts), replayed.at(starts + 1)


def stretches(name: str, in_step: PathInStep, step_ns: int) -> Iterator[dict[str, Any]]:
    """The rows of `STRETCHES`: a path within a typical step, scaled to what a step takes."""
    along, numbers, parts = in_step
    ends = np.cumsum(along.until_ns - along.since_ns)
    ends = np.rint(ends * (step_ns / max(ends[-1:].sum(), 1))).astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    columns = (column.tolist() for column in (numbers, starts[: len(ends)], ends))
    for number, start_ns, end_ns in zip(*columns, strict=True):
        kind, text = parts[number]
        yield {"path": name, "kind": kind, "name": text, "start_ns": start_ns, "end_ns": end_ns}


def steps_rows(
    graph: Graph,
    in_step: Mapping[str, PathInStep],
    before: tuple[Path, StepTimes],
    after: tuple[Path, StepTimes] | None,
) -> Iterator[dict[str, Any]]:
    """The rows of `STEP_TIMELINE`: the step as recorded, and as predicted where that differs.

    Of each the operations, then what else its path goes through; none where they are too many.
    """
    o, shown = graph.operations, {"before": before[1]}
    if after is not None and after is not before:
        shown["after"] = after[1]
    for name, times in shown.items():
        along, numbers, parts = in_step[name]
        is_operation = np.isin(along.kinds, (DURATION, TRANSFER))
        on_path = {*(along.instants[is_operation] // 2 - len(graph.calls)).tolist()}
        for row, start, end in zip(*(column.tolist() for column in times), strict=True):
            stream, operation = o.streams[int(o.stream[row])], o.labels[int(o.label[row])]
            yield {
                "path": name,
                "device_id": if_known(stream.device), "stream_id": if_known(stream.stream_id),
                "kind": OF_OPERATIONS[operation.kind], "name": operation.text,
                "start_ns": start, "end_ns": end, "operation": row, "is_on_path": row in on_path,
            }  # fmt: skip
        is_shown = ~is_operation & (along.until_ns > along.since_ns) & (len(times[0]) > 0)
        for place in np.flatnonzero(is_shown).tolist():
            kind, text = parts[int(numbers[place])]
            yield {
                "path": name, "kind": kind, "name": text, "start_ns": int(along.since_ns[place]),
                "end_ns": int(along.until_ns[place]), "is_on_path": True,
            }  # fmt: skip
