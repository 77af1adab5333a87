"""GPU operations and CUDA calls as arrays, each operation with the call that launched it.

Of ten million operations and calls each column is as narrow as its values, what belongs to a name,
a stream or a thread is held once for it, and pieces of a table are read one after the other.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import is_communication, is_waiting
from gpuprof.facts.collective_parts import PARTS_READS, collective_parts
from gpuprof.facts.copies import COPY_READS, among, copy_rows
from gpuprof.facts.host_clock import HOST_READS, HostClock, host_clock
from gpuprof.facts.launches import Ids, by_time
from gpuprof.facts.numbers import (
    NOT_FOUND,
    UNNAMED,
    Growing,
    Names,
    Numbers,
    groups,
    index_kind,
    names_by_number,
    pieces,
    read_columns,
)
from gpuprof.facts.rank_matching import clock_shifts
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST, UNKNOWN, movement
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import Pairs
from gpuprof.model.profile import Profile
from gpuprof.model.words import narrowed

Flags = npt.NDArray[np.bool_]
# The call with each process and correlation id, or `NOT_FOUND`.
CallOf = Callable[[Numbers, Numbers], Numbers]

_PLACED: Final = (
    "start_ns", "end_ns", "process_id", "device_id", "context_id", "stream_id", "correlation_id",
)  # fmt: skip
_CALLED: Final = ("start_ns", "end_ns", "process_id", "thread_id", "correlation_id")
RECORDED_READS: Final = reads(
    HOST_READS,
    PARTS_READS,
    COPY_READS,
    memcpys="context_id stream_id",
    api_calls=" ".join((*_CALLED, "name_id")),
    **dict.fromkeys(("kernels", "memsets", "graph_launches"), " ".join((*_PLACED, "name_id"))),
)
# cudaMemcpy_v3020 is cudaMemcpy.
_VERSION: Final = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
# Kinds of operations.
KERNEL, COLLECTIVE, COPY, MEMSET = range(4)

# Of tables whose operations are all of one name.
_NAMED: Final = {"memsets": ("memset", MEMSET), "graph_launches": ("CUDA graph", KERNEL)}
_ENDS: Final = {HOST: "host", UNKNOWN: "?"}
_UNKNOWN_SIZE: Final = -1


class Thread(NamedTuple):
    """A thread of the host, and where its calls begin and end."""

    process: int
    thread_id: int
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Calls:
    """Outermost CUDA calls, by process, thread and start; one element each.

    Args:
        start_ns: Start, on the clock of the operations.
        end_ns: End, on the same clock.
        threads: Their threads.
        label: Index into ``labels``.
        labels: Names of calls.
        clock: What sets other times of their hosts on the same clock.
    """

    start_ns: Int64s
    end_ns: Int64s
    threads: Sequence[Thread]
    label: Numbers
    labels: Sequence[str]
    clock: HostClock

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    @property
    def took_ns(self) -> Int64s:
        """How long each took."""
        return self.end_ns - self.start_ns

    @property
    def is_waiting(self) -> Flags:
        """Whether each is synchronous by its name."""
        return np.array([*map(is_waiting, self.labels)], bool)[self.label]

    def thread(self, calls: Numbers) -> Int64s:
        """The place of the thread of some calls among ``threads``."""
        return np.searchsorted([of.high for of in self.threads], calls, side="right")

    def process(self, calls: Numbers) -> Int64s:
        """The process of some calls."""
        return np.array([of.process for of in self.threads], np.int64)[self.thread(calls)]


class Stream(NamedTuple):
    """A stream, and where its operations begin and end; ``stream_id`` is perhaps `UNKNOWN`."""

    process: int
    device: int
    context: int
    stream_id: int
    low: int
    high: int


class Label(NamedTuple):
    """What operations of one name have in common; two labels may have the same text.

    Args:
        text: The name of kernels, and of copies kind and route: ``PtoP 0->1``.
        kind: `KERNEL`, `COLLECTIVE`, `COPY` or `MEMSET`.
        src: Device at the source of a copy, or `facts.HOST`.
        dst: Device at its destination.
        is_peer: Whether it is a copy between two devices, or half of one.
        is_staged: Whether it is half of a copy between two devices.
        is_pageable: Whether it is a copy of pageable memory.
    """

    text: str
    kind: int
    src: int = UNKNOWN
    dst: int = UNKNOWN
    is_peer: bool = False
    is_staged: bool = False
    is_pageable: bool = False


@dataclass(frozen=True, eq=False)
class Operations:
    """Kernels, copies, memsets and whole graphs by stream and start, one element each.

    Args:
        start_ns: Start on the device.
        end_ns: End on the device.
        stream: Index into ``streams``.
        streams: Their streams.
        label: Index into ``labels``.
        labels: What they are.
        copied_bytes: Of copies alone, in their order; -1 where unknown.
        call: Index of the call that launched it; `NOT_FOUND` where unknown.
        peer_ids: Correlation ids of copies between devices alone, in their order.
        shifts_ns: Device to what was added to its times, where the clocks of ranks are apart.
    """

    start_ns: Int64s
    end_ns: Int64s
    stream: Numbers
    streams: Sequence[Stream]
    label: Numbers
    labels: Sequence[Label]
    copied_bytes: Numbers
    call: Numbers
    peer_ids: Numbers
    shifts_ns: Mapping[int, int]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    @property
    def took_ns(self) -> Int64s:
        """How long each ran."""
        return self.end_ns - self.start_ns

    @property
    def bytes(self) -> Int64s:
        """The bytes of each copy; -1 where unknown, and of other operations."""
        sizes = np.full(len(self), _UNKNOWN_SIZE)
        sizes[self.where(lambda label: label.kind == COPY)] = self.copied_bytes
        return sizes

    def where(self, test: Callable[[Label], bool]) -> Flags:
        """Which of them have a label that passes a test."""
        return np.array([test(label) for label in self.labels], bool)[self.label]

    def ends(self) -> tuple[Int64s, Int64s]:
        """The devices at the source and at the destination of each."""
        ends = np.array([(of.src, of.dst) for of in self.labels], np.int64).reshape(-1, 2)
        return ends[self.label, 0], ends[self.label, 1]

    @property
    def kind(self) -> npt.NDArray[np.int8]:
        """The kind of each."""
        return np.array([label.kind for label in self.labels], np.int8)[self.label]

    @property
    def device(self) -> Int64s:
        """The device of each."""
        return np.array([of.device for of in self.streams], np.int64)[self.stream]

    @property
    def process(self) -> Int64s:
        """The process that launched each."""
        return np.array([of.process for of in self.streams], np.int64)[self.stream]

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that they run on."""
        return tuple(sorted({of.device for of in self.streams}))


def recorded(profile: Profile) -> tuple[Operations, Calls, CallOf]:
    """All operations and calls of the whole recording; and the outermost call of each id."""
    calls, call_of = _calls(profile)
    o, clock, shifts = _operations(profile, call_of), host_clock(profile), dict[int, int]()
    if len(o.devices) > 1 and any(label.kind == COLLECTIVE for label in o.labels):
        shifts = clock_shifts(collective_parts(profile).offsets)
    if shifts:
        # All on the clock of the first rank.
        added = np.array([shifts.get(of.device, 0) for of in o.streams], np.int64)[o.stream]
        start, end = o.start_ns + added, o.end_ns + added
        o = replace(o, start_ns=start, end_ns=end, shifts_ns=shifts)
        of_processes = dict(clock.shifts_ns)
        for process, device in {(of.process, of.device) for of in o.streams if of.device in shifts}:
            of_host = clock.shifts_ns.get(process, 0)
            of_processes[process] = None if of_host is None else of_host + shifts[device]
        clock = HostClock(of_processes)
    if clock.shifts_ns:
        processes = calls.process(np.arange(len(calls)))
        start, end = (clock.on_devices(ns, processes) for ns in (calls.start_ns, calls.end_ns))
        calls = replace(calls, start_ns=start, end_ns=end, clock=clock)
    return o, calls, call_of


def _gathered(parts: Iterator[Sequence[Numbers]]) -> list[Any]:
    """Columns that come in pieces, each as one array."""
    columns: list[Growing] = []
    for part in parts:
        columns = columns or [Growing() for _ in part]
        for column, values in zip(columns, part, strict=True):
            column.add(values)
    return [column.values for column in columns]


def _operations(profile: Profile, call_of: CallOf) -> Operations:
    labels: list[Label] = []
    # Process and device, context and stream, and both of each stream.
    devices, contexts, stream_pairs = Pairs(), Pairs(), Pairs()
    columns = _gathered(
        (
            start,
            narrowed(end - start),
            stream_pairs.learn(devices.learn(process, device), contexts.learn(context, stream)),
            narrowed(label),
            narrowed(size),
            correlation,
        )
        for place, label, size in _places(profile, labels)
        for start, end, process, device, context, stream, correlation in [place]
    )
    nothing: list[Any] = [np.empty(0, np.int64)] * 6
    start, took, stream, label, size, correlation = columns or nothing
    of_device, of_context = stream_pairs.values
    places = np.concatenate([devices.values[:, of_device], contexts.values[:, of_context]])
    numbers = np.lexsort(places[::-1])
    stream = _renumbered(numbers, stream)
    order = by_time(start)
    order = order[np.argsort(stream[order], kind="stable")]
    start, stream, took = start[order], stream[order], took[order]
    is_alike = (start[1:] == start[:-1]) & (stream[1:] == stream[:-1])
    if (is_alike & (took[1:] < took[:-1])).any():
        within = np.lexsort((took, start, stream))
        order, start, stream, took = order[within], start[within], stream[within], took[within]
    bounds = np.searchsorted(stream, np.arange(len(numbers) + 1)).tolist()
    used = np.flatnonzero(np.bincount(label, minlength=len(labels)))
    of_streams = [*map(Stream, *places[:, numbers].tolist(), bounds[:-1], bounds[1:])]
    correlation = correlation[order]
    call = np.empty(len(order), np.int32)
    process = np.array([of.process for of in of_streams], np.int64)
    for rows in pieces(len(order)):
        call[rows] = call_of(process[stream[rows]], correlation[rows])
    operations = Operations(
        start_ns=start,
        end_ns=start + took,
        stream=stream,
        streams=of_streams,
        label=_renumbered(used, label)[order],
        labels=[labels[number] for number in used.tolist()],
        copied_bytes=size[:0],
        call=call,
        peer_ids=correlation[:0],
        shifts_ns={},
    )
    return replace(
        operations,
        copied_bytes=size[order[operations.where(lambda of: of.kind == COPY)]],
        peer_ids=correlation[operations.where(lambda of: of.is_peer)],
    )


def _renumbered(chosen: Int64s, numbers: Numbers) -> Numbers:
    """Numbers of all rows by the places of these among some, in few bits."""
    place = np.zeros(int(chosen.max(initial=-1)) + 1, np.int64)
    place[chosen] = np.arange(len(chosen))
    kind = np.min_scalar_type(max(len(chosen) - 1, 0))
    renumbered: Numbers = place.astype(kind)[numbers]
    return renumbered


def _places(
    profile: Profile, labels: list[Label]
) -> Iterator[tuple[Sequence[Numbers], Numbers, Numbers]]:
    """The columns `_PLACED`, label and bytes of operations table by table, in pieces.

    Adds what the labels mean to ``labels``.
    """
    if profile.has("kernels"):
        names = names_by_number(profile, "kernels")
        kinds = (COLLECTIVE if is_communication(text) else KERNEL for text in names.distinct)
        labels += map(Label, names.distinct, kinds)
        for name, *place in profile.columns("kernels", "name_id", *_PLACED):
            yield place, names.places.of(name), np.full(len(name), _UNKNOWN_SIZE, np.int8)
    if profile.has("memcpys"):
        yield _copies(profile, labels)
    for table in filter(profile.has, _NAMED):
        labels.append(Label(*_NAMED[table]))
        for place in profile.columns(table, *_PLACED):
            label = np.full(len(place[0]), len(labels) - 1)
            yield place, label, np.full(len(label), _UNKNOWN_SIZE, np.int8)


def _copies(profile: Profile, labels: list[Label]) -> tuple[Sequence[Numbers], Numbers, Numbers]:
    """The same of ``memcpys``."""
    copies = copy_rows(profile)
    context, stream = read_columns(profile, "memcpys", "context_id", "stream_id")
    src, dst = (np.where(end == UNKNOWN, copies.device, end) for end in (copies.src, copies.dst))
    label = np.empty(len(src), np.int64)
    is_pageable = among(copies.src_memory, copies.src_memories, {"pageable"})
    is_pageable |= among(copies.dst_memory, copies.dst_memories, {"pageable"})
    alike = (copies.kind, copies.is_staged, copies.is_peer, src, dst, is_pageable.astype(np.int8))
    for rows in groups(*alike):
        kind, staged, peer, of_src, of_dst, pageable = (int(c[rows[0]]) for c in alike)
        is_staged, is_peer = staged == 1, peer == 1
        name = movement(copies.kinds[kind] or UNNAMED, is_staged=is_staged, is_peer=is_peer)
        route = "->".join(_ENDS.get(end, str(end)) for end in (of_src, of_dst))
        label[rows] = len(labels)
        text = f"{name} {route}"
        labels.append(Label(text, COPY, of_src, of_dst, is_peer, is_staged, pageable == 1))
    place = copies.start_ns, copies.end_ns, copies.process, copies.device, context, stream
    size = np.where(copies.bytes == UNKNOWN, _UNKNOWN_SIZE, copies.bytes)
    return (*place, copies.correlation), label, size


def _calls(profile: Profile) -> tuple[Calls, CallOf]:
    """The outermost calls, and the outermost call with each process and correlation id."""
    has_calls = profile.has("api_calls")
    threads, names = Pairs(), names_by_number(profile, "api_calls") if has_calls else Names()
    rows = profile.columns("api_calls", "name_id", *_CALLED) if has_calls else ()
    columns = _gathered(
        (
            names.places.of(name),
            start,
            narrowed(end - start),
            threads.learn(process, thread).astype(np.int32),
            correlation,
        )
        for name, start, end, process, thread, correlation in rows
    )
    nothing: list[Any] = [np.empty(0, np.int64)] * 5
    label, start, took, thread, correlation = columns or nothing
    numbers = np.lexsort(threads.values[::-1])
    thread = _renumbered(numbers, thread)
    order: Int64s = np.argsort(thread, kind="stable")
    start, thread, took = start[order], thread[order], took[order]
    is_next, since_ns = thread[1:] == thread[:-1], np.diff(start)
    if (is_next & ((since_ns < 0) | ((since_ns == 0) & (took[1:] > took[:-1])))).any():
        within = np.lexsort((-took.astype(np.int64), start, thread))
        order, start, thread, took = order[within], start[within], thread[within], took[within]
    end, is_outer = start + took, np.ones(len(order), bool)
    bounds = np.searchsorted(thread, np.arange(len(numbers) + 1)).tolist()
    for low, high in pairwise(bounds):
        # A call that ends no later than an earlier one is nested in it.
        is_outer[low + 1 : high] = end[low + 1 : high] > np.maximum.accumulate(end[low : high - 1])
    outer: Numbers = np.cumsum(is_outer, dtype=index_kind(len(order))) - 1
    processes, thread_ids = threads.values[:, numbers]
    call_of = _by_id(narrowed(processes), thread, correlation[order], start, outer)
    label = label[order]
    if not is_outer.all():
        start, end, label = start[is_outer], end[is_outer], label[is_outer]
    bounds = np.append(0, np.cumsum(is_outer))[bounds].tolist()
    used = np.flatnonzero(np.bincount(label))
    texts = names.distinct
    calls = Calls(
        start_ns=start,
        end_ns=end,
        threads=[*map(Thread, processes.tolist(), thread_ids.tolist(), bounds[:-1], bounds[1:])],
        label=_renumbered(used, label),
        labels=[_VERSION.sub("", texts[number]) for number in used.tolist()],
        clock=HostClock(),
    )
    return calls, call_of


def _by_id(
    processes: Numbers, thread: Numbers, correlation: Numbers, start: Int64s, outer: Numbers
) -> CallOf:
    """The outermost call with each process and correlation id: of several, the earliest launched.

    Args:
        processes: The process of each thread.
        thread: The thread of each call.
        correlation: Its id.
        start: Its start.
        outer: The outermost call around it.
    """
    ids = Ids(processes[thread], correlation)
    first = np.full(ids.size + 1, NOT_FOUND, outer.dtype)

    def places(rows: slice) -> Int64s:
        return ids.of(processes[thread[rows]], correlation[rows])

    slices = [*pieces(len(thread))]
    for rows in reversed(slices):
        first[places(rows)[::-1]] = np.arange(rows.start, rows.stop)[::-1]
    for rows in slices:
        # Calls of several threads with the same id; `NOT_FOUND` is the last place.
        its = places(rows)
        for call in rows.start + np.flatnonzero(start[rows] < start[first[its]]):
            place = its[call - rows.start]
            if place != NOT_FOUND and start[call] < start[first[place]]:
                first[place] = call
    first[:-1] = np.where(first[:-1] == NOT_FOUND, NOT_FOUND, outer[first[:-1]])
    first[-1] = NOT_FOUND

    def call_of(process: Numbers, number: Numbers) -> Numbers:
        call: Numbers = first[ids.of(process, number)]
        return call

    return call_of
