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
from gpuprof.facts.launches import LAUNCH_READS, launches
from gpuprof.facts.launching_calls import Launched
from gpuprof.facts.numbers import (
    NOT_FOUND,
    UNNAMED,
    Numbers,
    groups,
    index_kind,
    order_of,
    read_columns,
)
from gpuprof.facts.rank_matching import clock_shifts
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST, UNKNOWN, movement
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import Pairs
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.spilling import Packed
from gpuprof.model.words import NO_NAMES, narrowed
from gpuprof.native import arrays

Flags = npt.NDArray[np.bool_]

# In the order of operations that nothing else orders.
_TABLES: Final = ("kernels", "memcpys", "memsets", "graph_launches")
_PLACED: Final = ("start_ns", "end_ns", "process_id", "device_id", "context_id", "stream_id")
_CALLED: Final = ("start_ns", "end_ns", "process_id", "thread_id")
RECORDED_READS: Final = reads(
    HOST_READS,
    LAUNCH_READS,
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

    def that_began(
        self, launched: Mapping[tuple[int, int], Sequence[Launched]], count: int
    ) -> Numbers:
        """The call that launched each of so many rows, from `launched_by`, or `NOT_FOUND`."""
        call = np.full(count, NOT_FOUND, index_kind(len(self)))
        for of in self.threads:
            starts = np.ascontiguousarray(self.start_ns[of.low : of.high])
            shift_ns = self.clock.of(of.process)
            for rows, times, since_ns in launched.get((of.process, of.thread_id), ()):
                began_ns = Packed([times], [since_ns])[:] + np.int64(shift_ns)
                call[rows] = of.low - 1 + np.searchsorted(starts, began_ns, side="right")
        return call

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

    def device_of(self, rows: Int64s) -> Int64s:
        """The device of some."""
        return np.array([of.device for of in self.streams], np.int64)[self.stream[rows]]

    @property
    def process(self) -> Int64s:
        """The process that launched each."""
        return np.array([of.process for of in self.streams], np.int64)[self.stream]

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that they run on."""
        return tuple(sorted({of.device for of in self.streams}))


@once_per_recording
def calls_and_launches(profile: Profile) -> tuple[Calls, Numbers]:
    """The outermost calls on the host's clock, and that of each operation, table by table."""
    calls = _calls(profile)
    if not len(calls):
        return calls, np.empty(0, np.int32)
    all_launches = launches(profile)
    launched = {
        lane: [(all_launches.order[low:high], all_launches.launch_ns[low:high], None)]
        for lane, (low, high) in all_launches.bounds.items()
    }
    call, tables = (
        calls.that_began(launched, len(all_launches.activities)),
        all_launches.activities.tables,
    )
    return calls, np.concatenate([call[slice(*tables[name])] for name in _TABLES if name in tables])


def recorded(profile: Profile) -> tuple[Operations, Calls]:
    """All operations and calls of the whole recording."""
    calls, call = calls_and_launches(profile)
    # The graph has them from now on.
    profile.unrestricted.forget(calls_and_launches)
    o, clock, shifts = _operations(profile, call), host_clock(profile), dict[int, int]()
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
    return o, calls


def _in_order(columns: list[list[Numbers]], chosen: Int64s) -> tuple[list[Any], list[int]]:
    """Rows by group, start and second column; and where the groups begin, and the last one ends.

    Args:
        columns: Start, a second column, more of them, and the number of the group, in pieces.
        chosen: The numbers of the groups in their order.
    """
    place = np.empty(len(chosen), np.min_scalar_type(-len(chosen) - 1))
    place[chosen] = np.arange(len(chosen))
    group = [place[part] for part in columns.pop()]
    counts = np.zeros(len(chosen), np.int64)
    for part in group:
        counts += np.bincount(part, minlength=len(chosen))
    ordered = []
    while columns:
        # What one column's pieces took makes room for the next one's.
        ordered.append(arrays.grouped([*zip(columns.pop(0), group, strict=True)], counts))
    bounds = [0, *np.cumsum(counts).tolist()]
    for rows in map(slice, bounds[:-1], bounds[1:]):
        start, second = (column[rows] for column in ordered[:2])
        is_alike = start[1:] == start[:-1]
        if ((start[1:] < start[:-1]) | (is_alike & (second[1:] < second[:-1]))).any():
            order = order_of(start)
            if not np.diff(start[order]).all():
                order = np.lexsort((second, start))
            for column in ordered:
                column[rows] = column[rows][order]
    return ordered, bounds


def _operations(profile: Profile, call: Numbers) -> Operations:
    """All operations; ``call`` is the one of each, or empty where there are none."""
    labels: list[Label] = []
    # Process and device, context and stream, and both of each stream.
    devices, contexts, pairs, at = Pairs(), Pairs(), Pairs(), 0
    parts = (
        (
            start,
            narrowed(end - start),
            narrowed(label),
            np.arange(at, at := at + len(start), dtype=np.int32),
            pairs.learn(devices.learn(process, device), contexts.learn(context, stream)),
        )
        for (start, end, process, device, context, stream), label in _places(profile, labels)
    )
    columns: list[Any] = [*map(list, zip(*parts, strict=True))] or [[np.empty(0, np.int64)]] * 5
    of_device, of_context = pairs.values
    places = np.concatenate([devices.values[:, of_device], contexts.values[:, of_context]])
    chosen = np.lexsort(places[::-1])
    (start, took, label, row), bounds = _in_order(columns, chosen)
    used = np.flatnonzero(np.bincount(label, minlength=len(labels)))
    numbers = np.arange(len(chosen)).astype(np.min_scalar_type(max(len(chosen) - 1, 0)))
    operations = Operations(
        start_ns=start,
        end_ns=start + took,
        stream=np.repeat(numbers, np.diff(bounds)),
        streams=[*map(Stream, *places[:, chosen].tolist(), bounds[:-1], bounds[1:])],
        label=_renumbered(used, label),
        labels=[labels[number] for number in used.tolist()],
        copied_bytes=row[:0],
        call=call[row] if len(call) else np.full(len(row), NOT_FOUND, np.int32),
        peer_ids=row[:0],
        shifts_ns={},
    )
    is_copy = operations.where(lambda of: of.kind == COPY)
    if not is_copy.any():
        return operations
    copies, is_peer = copy_rows(profile), operations.where(lambda of: of.is_peer)
    first = row[is_copy].min()
    copied_bytes = narrowed(np.where(copies.bytes == UNKNOWN, _UNKNOWN_SIZE, copies.bytes))
    return replace(
        operations,
        copied_bytes=copied_bytes[row[is_copy] - first],
        peer_ids=copies.correlation[row[is_peer] - first],
    )


def _renumbered(chosen: Int64s, numbers: Numbers) -> Numbers:
    """Numbers of all rows by the places of these among some, in few bits."""
    place = np.zeros(int(chosen.max(initial=-1)) + 1, np.int64)
    place[chosen] = np.arange(len(chosen))
    kind = np.min_scalar_type(max(len(chosen) - 1, 0))
    renumbered: Numbers = place.astype(kind)[numbers]
    return renumbered


def _places(profile: Profile, labels: list[Label]) -> Iterator[tuple[Sequence[Numbers], Numbers]]:
    """The columns `_PLACED` and label of operations by `_TABLES`, in pieces.

    Adds what the labels mean to ``labels``.
    """
    if profile.has("kernels"):
        names = profile.loaded("kernels").names
        kinds = (COLLECTIVE if is_communication(text) else KERNEL for text in names.distinct)
        labels += map(Label, names.distinct, kinds)
        for name, *place in profile.columns("kernels", "name_id", *_PLACED):
            yield place, names.places.of(name)
    if profile.has("memcpys"):
        copies = copy_rows(profile)
        context, stream = read_columns(profile, "memcpys", "context_id", "stream_id")
        src, dst = (np.where(e == UNKNOWN, copies.device, e) for e in (copies.src, copies.dst))
        label = np.empty(len(src), np.int64)
        is_pageable = among(copies.src_memory, copies.src_memories, {"pageable"})
        is_pageable |= among(copies.dst_memory, copies.dst_memories, {"pageable"})
        alike = copies.kind, copies.is_staged, copies.is_peer, src, dst, is_pageable.astype(np.int8)
        for rows in groups(*alike):
            kind, staged, peer, of_src, of_dst, pageable = (int(c[rows[0]]) for c in alike)
            is_staged, is_peer = staged == 1, peer == 1
            name = movement(copies.kinds[kind] or UNNAMED, is_staged=is_staged, is_peer=is_peer)
            text = f"{name} {'->'.join(_ENDS.get(end, str(end)) for end in (of_src, of_dst))}"
            label[rows] = len(labels)
            labels.append(Label(text, COPY, of_src, of_dst, is_peer, is_staged, pageable == 1))
        place = [copies.start_ns, copies.end_ns, copies.process, copies.device, context, stream]
        yield place, label
    for table in filter(profile.has, _NAMED):
        labels.append(Label(*_NAMED[table]))
        for place in profile.columns(table, *_PLACED):
            yield place, np.full(len(place[0]), len(labels) - 1)


def _calls(profile: Profile) -> Calls:
    """The outermost calls, on the host's clock."""
    has_calls = profile.has("api_calls")
    threads, names = Pairs(), profile.loaded("api_calls").names if has_calls else NO_NAMES
    parts = (
        # Of calls that begin at once, the longest comes first.
        (start, narrowed(start - end), names.places.of(name), threads.learn(process, thread))
        for name, start, end, process, thread in (
            profile.columns("api_calls", "name_id", *_CALLED) if has_calls else ()
        )
    )
    columns: list[Any] = [*map(list, zip(*parts, strict=True))] or [[np.empty(0, np.int64)]] * 4
    chosen = np.lexsort(threads.values[::-1])
    (start, took, label), bounds = _in_order(columns, chosen)
    is_outer = np.ones(len(start), bool)
    end = start - took
    for low, high in pairwise(bounds):
        # A call that ends no later than an earlier one is nested in it.
        is_outer[low + 1 : high] = end[low + 1 : high] > np.maximum.accumulate(end[low : high - 1])
    if not is_outer.all():
        start, end, label = start[is_outer], end[is_outer], label[is_outer]
        bounds = np.append(0, np.cumsum(is_outer))[bounds].tolist()
    used = np.flatnonzero(np.bincount(label))
    return Calls(
        start_ns=start,
        end_ns=end,
        threads=[*map(Thread, *threads.values[:, chosen].tolist(), bounds[:-1], bounds[1:])],
        label=_renumbered(used, label),
        labels=[_VERSION.sub("", names.distinct[number]) for number in used.tolist()],
        clock=HostClock(),
    )
