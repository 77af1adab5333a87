"""GPU operations and CUDA calls as arrays, each operation with the call that launched it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import is_communication, is_waiting
from gpuprof.facts.collective_parts import PARTS_READS, collective_parts
from gpuprof.facts.copies import COPY_READS, among, copy_rows
from gpuprof.facts.host_clock import HOST_READS, HostClock, host_clock
from gpuprof.facts.numbers import (
    NOT_FOUND,
    UNNAMED,
    Numbers,
    columns_of,
    distinct,
    groups,
    names_by_number,
    numbered,
    pair_places,
    read_columns,
)
from gpuprof.facts.rank_matching import clock_shifts
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST, UNKNOWN, movement
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words

Flags = npt.NDArray[np.bool_]

_PLACED: Final = (
    "start_ns", "end_ns", "process_id", "device_id", "context_id", "stream_id", "correlation_id",
)  # fmt: skip
_CALLED: Final = (
    "start_ns", "end_ns", "process_id", "thread_id", "correlation_id",
)  # fmt: skip
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
# Bytes, ends, and whether it is a peer copy, half of a staged copy, and a copy of pageable memory.
_NO_COPY: Final = (-1, UNKNOWN, UNKNOWN, 0, 0, 0)
_ENDS: Final = {HOST: "host", UNKNOWN: "?"}


@dataclass(frozen=True, eq=False)
class Calls:
    """Outermost CUDA calls, by process, thread and start; one element each.

    Args:
        start_ns: Start, on the clock of the operations.
        end_ns: End, on the same clock.
        process: Its process.
        thread_id: Its thread.
        thread: A number for its process and thread.
        is_waiting: Whether it is synchronous by its name.
        label: Index into ``labels``.
        labels: Names of calls.
        clock: What sets other times of their hosts on the same clock.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Int64s
    thread_id: Int64s
    thread: Numbers
    is_waiting: Flags
    label: Numbers
    labels: Sequence[str]
    clock: HostClock

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Operations:
    """Kernels, copies, memsets and whole graphs by stream and start, one element each.

    Args:
        start_ns: Start on the device.
        end_ns: End on the device.
        process: The process that launched it.
        device: The device it ran on.
        stream_id: The stream as the recording numbers it; perhaps `UNKNOWN`.
        stream: A number for its process, device, context and stream.
        kind: `KERNEL`, `COLLECTIVE`, `COPY` or `MEMSET`.
        label: Index into ``labels``.
        labels: Names of kernels, and of copies kind and route: ``PtoP 0->1``.
        bytes: Of copies; -1 where unknown.
        src: Device at the source of a copy, or `facts.HOST`.
        dst: Device at its destination.
        is_peer: Whether it is a copy between two devices, or half of one.
        is_staged: Whether it is half of a copy between two devices.
        is_pageable: Whether it is a copy of pageable memory.
        call: Index of the call that launched it; `NOT_FOUND` where unknown.
        correlation: Its correlation id.
        shifts_ns: Device to what was added to its times, where the clocks of ranks are apart.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Int64s
    device: Int64s
    stream_id: Int64s
    stream: Numbers
    kind: Int64s
    label: Numbers
    labels: Sequence[str]
    bytes: Int64s
    src: Int64s
    dst: Int64s
    is_peer: Flags
    is_staged: Flags
    is_pageable: Flags
    call: Int64s
    correlation: Int64s
    shifts_ns: Mapping[int, int]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    @property
    def took_ns(self) -> Int64s:
        """How long each ran."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False)
class Recorded:
    """Operations and calls of a recording, and the calls of each correlation id.

    Args:
        ids: Process and correlation id, sorted, of all calls; none twice.
        outer: The outermost call of each of these.
    """

    operations: Operations
    calls: Calls
    ids: Int64s
    outer: Int64s

    def call_of(self, process: Numbers, correlation: Numbers) -> Int64s:
        """The outermost call with each process and correlation id, or `NOT_FOUND`."""
        return _looked_up(self.ids, self.outer, process, correlation)


def recorded(profile: Profile) -> Recorded:
    """All operations and calls of the whole recording."""
    return profile.unrestricted.once(_recorded)


def _recorded(profile: Profile) -> Recorded:
    calls, ids, outer = _read_calls(profile)
    words = Words()
    parts = [*_operations(profile, words)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    label, start, end, process, device, context, stream_id, correlation, *copy_columns = (
        columns or [np.empty(0, np.int64)] * 15
    )
    kind, size, src, dst, peer, staged, pageable = copy_columns
    labels = [str(text) for text in words.words]
    is_collective = np.array([*map(is_communication, labels)], bool)[label]
    kind[is_collective & (kind == KERNEL)] = COLLECTIVE
    streams = np.zeros(len(start), np.int64)
    for column in (process, device, context, stream_id):
        places = numbered(column).astype(np.int64)
        streams = numbered(streams * (int(places.max(initial=0)) + 1) + places).astype(np.int64)
    order = np.lexsort((end, start, streams))
    operations = Operations(
        start_ns=start[order],
        end_ns=end[order],
        process=process[order],
        device=device[order],
        stream_id=stream_id[order],
        stream=numbered(streams[order]).astype(np.int64),
        kind=kind[order],
        label=label[order],
        labels=labels,
        bytes=size[order],
        src=src[order],
        dst=dst[order],
        is_peer=peer[order] == 1,
        is_staged=staged[order] == 1,
        is_pageable=pageable[order] == 1,
        call=_looked_up(ids, outer, process[order], correlation[order]),
        correlation=correlation[order],
        shifts_ns={},
    )
    operations, clock = _on_one_clock(profile, operations)
    start, end = (clock.on_devices(ns, calls.process) for ns in (calls.start_ns, calls.end_ns))
    calls = replace(calls, start_ns=start, end_ns=end, clock=clock)
    return Recorded(operations, calls, ids, outer)


def _on_one_clock(profile: Profile, o: Operations) -> tuple[Operations, HostClock]:
    """Operations on the clock of the first rank, and what sets the times of hosts on it."""
    clock, shifts = host_clock(profile), dict[int, int]()
    if (o.kind == COLLECTIVE).any() and (o.device != o.device[0]).any():
        shifts = clock_shifts(collective_parts(profile).offsets)
    if not shifts:
        return o, clock
    added, of_processes = np.zeros(len(o), np.int64), dict(clock.shifts_ns)
    for device, shift_ns in shifts.items():
        added[o.device == device] = shift_ns
        for process in np.unique(o.process[o.device == device]).tolist():
            of_host = clock.shifts_ns.get(process, 0)
            of_processes[process] = None if of_host is None else of_host + shift_ns
    start, end = o.start_ns + added, o.end_ns + added
    return replace(o, start_ns=start, end_ns=end, shifts_ns=shifts), HostClock(of_processes)


def _operations(profile: Profile, words: Words) -> Iterator[list[Int64s]]:
    """The columns of all operations table by table; labels are places among ``words``."""
    if profile.has("kernels"):
        kernels = _named(profile, "kernels", words, _PLACED)
        yield [*kernels, *_same(len(kernels[0]), KERNEL, *_NO_COPY)]
    if profile.has("memcpys"):
        yield _copies(profile, words)
    for table in filter(profile.has, _NAMED):
        name, kind = _NAMED[table]
        rows = read_columns(profile, table, *_PLACED)
        (label,) = _same(len(rows[0]), words.place(name))
        yield [label, *(c.astype(np.int64) for c in rows), *_same(len(label), kind, *_NO_COPY)]


def _same(rows: int, *values: int) -> list[Int64s]:
    """So many rows that are alike, in a column for each value."""
    return [np.full(rows, value, np.int64) for value in values]


def _named(profile: Profile, table: str, words: Words, columns: Sequence[str]) -> list[Int64s]:
    """The place among ``words`` of the name of each row of a table, and columns of it."""
    names = names_by_number(profile, table)
    parts = profile.integers(table, "name_id", *columns)
    name_id, *rows = columns_of(parts, 1 + len(columns))
    place, texts = names.places.of(name_id), names.distinct
    different = distinct(place)
    numbers = np.array([words.place(texts[number]) for number in different.tolist()], np.int64)
    return [numbers[np.searchsorted(different, place)], *(c.astype(np.int64) for c in rows)]


def _copies(profile: Profile, words: Words) -> list[Int64s]:
    """The columns of the rows of ``memcpys``."""
    copies = copy_rows(profile)
    context, stream = read_columns(profile, "memcpys", "context_id", "stream_id")
    src, dst = (np.where(end == UNKNOWN, copies.device, end) for end in (copies.src, copies.dst))
    label = np.empty(len(src), np.int64)
    for rows in groups(copies.kind, copies.is_staged, copies.is_peer, src, dst):
        first = rows[0]
        kind = copies.kinds[copies.kind[first]] or UNNAMED
        is_staged, is_peer = copies.is_staged[first] == 1, copies.is_peer[first] == 1
        ends = (_ENDS.get(int(end[first]), str(end[first])) for end in (src, dst))
        name = movement(kind, is_staged=is_staged, is_peer=is_peer)
        label[rows] = words.place(f"{name} {'->'.join(ends)}")
    is_pageable = among(copies.src_memory, copies.src_memories, {"pageable"})
    is_pageable |= among(copies.dst_memory, copies.dst_memories, {"pageable"})
    place = copies.start_ns, copies.end_ns, copies.process, copies.device, context, stream
    size = np.where(copies.bytes == UNKNOWN, -1, copies.bytes)
    of_copies = size, src, dst, copies.is_peer, copies.is_staged, is_pageable
    columns = (label, *place, copies.correlation, *_same(len(label), COPY), *of_copies)
    return [column.astype(np.int64) for column in columns]


def _read_calls(profile: Profile) -> tuple[Calls, Int64s, Int64s]:
    """The outermost calls; sorted process and correlation ids, and the outermost call of each."""
    if not profile.has("api_calls"):
        none = np.empty(0, np.int64)
        calls = Calls(none, none, none, none, none, none.astype(bool), none, [], HostClock())
        return calls, np.empty((2, 0), np.int64), none
    words = Words()
    name, start, end, process, thread, correlation = _named(profile, "api_calls", words, _CALLED)
    lane = numbered(process).astype(np.int64) * (len(np.unique(thread)) + 1) + numbered(thread)
    order = np.lexsort((-end, start, lane))
    start, end, lane = start[order], end[order], lane[order]
    is_outer = np.ones(len(order), bool)
    for low, high in runs(lane):
        # A call that ends no later than an earlier one is nested in it.
        is_outer[low + 1 : high] = end[low + 1 : high] > np.maximum.accumulate(end[low : high - 1])
    outer = np.cumsum(is_outer) - 1
    label = name[order][is_outer]
    labels = [_VERSION.sub("", str(text)) for text in words.words]
    calls = Calls(
        start_ns=start[is_outer],
        end_ns=end[is_outer],
        process=process[order][is_outer],
        thread_id=thread[order][is_outer],
        thread=numbered(lane[is_outer]).astype(np.int64),
        is_waiting=np.array([*map(is_waiting, labels)], bool)[label],
        label=label,
        labels=labels,
        clock=HostClock(),
    )
    with_id = np.flatnonzero(correlation[order] >= 0)
    ids = np.stack([process[order], correlation[order]])[:, with_id]
    # Where several calls have the same id, the earliest launched.
    by_id = np.lexsort((start[with_id], ids[1], ids[0]))
    ids = ids[:, by_id]
    is_first = np.append(True, (ids[:, 1:] != ids[:, :-1]).any(axis=0))[: len(by_id)]
    return calls, ids[:, is_first], outer[with_id][by_id][is_first]


def runs(values: Numbers) -> list[tuple[int, int]]:
    """Where each run of equal values begins and ends."""
    borders = np.flatnonzero(np.diff(values)) + 1
    bounds = [0, *borders.tolist(), len(values)]
    return [*pairwise(bounds)] if len(values) else []


def _looked_up(ids: Int64s, outer: Int64s, process: Numbers, correlation: Numbers) -> Int64s:
    # `NOT_FOUND` as an index is the last one.
    return np.append(outer, NOT_FOUND)[pair_places(ids, process, correlation)]
