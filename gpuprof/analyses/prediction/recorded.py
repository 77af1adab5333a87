"""GPU operations and CUDA calls as arrays, each operation with the call that launched it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.calls import NOT_FOUND, pair_places
from gpuprof.analyses.facts.groups import Numbers, numbered
from gpuprof.analyses.facts.growing import columns_of
from gpuprof.cuda import is_communication, is_waiting
from gpuprof.facts import HOST, UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

Flags = npt.NDArray[np.bool_]

_PLACED: Final = "start_ns end_ns process_id device_id context_id stream_id correlation_id"
RECORDED_READS: Final = reads(
    kernels=f"{_PLACED} name",
    memcpys=f"{_PLACED} memcpy_kind src_memory_kind dst_memory_kind path src_device_id"
    " dst_device_id bytes",
    memsets=_PLACED,
    graph_launches=_PLACED,
    api_calls="start_ns end_ns process_id thread_id correlation_id name",
)
# cudaMemcpy_v3020 is cudaMemcpy.
_VERSION: Final = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
# Clocks disagree where more than this share of work starts before its launch; or where none starts
# so soon after it, and more than this share of calls return before the work they wait for ends.
_MOST_EARLY: Final = 0.05
_SOON_NS: Final = 1_000_000
_MOST_RETURNED: Final = 0.5
_LEAST_LAUNCHES: Final = 100
# The time of the fastest launches.
_LAUNCH_NS: Final = 5_000
# Kinds of operations.
KERNEL, COLLECTIVE, COPY, MEMSET = range(4)

_ENDS: Final = f"CASE {{0}} WHEN {HOST} THEN 'host' WHEN {UNKNOWN} THEN '?' ELSE {{0}}::VARCHAR END"
_SRC: Final = f"coalesce(src, device_id, {UNKNOWN})"
_DST: Final = f"coalesce(dst, device_id, {UNKNOWN})"
_COPY_LABEL: Final = f"movement || ' ' || {_ENDS.format(_SRC)} || '->' || {_ENDS.format(_DST)}"
_OF_COPIES: Final = (
    f"coalesce(bytes, -1), {_SRC}, {_DST}, is_peer::INT, is_staged::INT,"
    " ('pageable' IN (src_memory_kind, dst_memory_kind) IS TRUE)::INT"
)
_NO_COPY: Final = f"-1, {UNKNOWN}, {UNKNOWN}, 0, 0, 0"
# Table -> SQL of an operation's label; of its kind; of its bytes, ends, and whether it is a peer
# copy, half of a staged copy, and a copy of pageable memory.
_TABLES: Final[Mapping[str, tuple[str, str, str]]] = {
    "kernels": ("name", str(KERNEL), _NO_COPY),
    "memcpys": (
        _COPY_LABEL,
        str(COPY),
        _OF_COPIES,
    ),
    "memsets": ("'memset'", str(MEMSET), _NO_COPY),
    "graph_launches": ("'CUDA graph'", str(KERNEL), _NO_COPY),
}


@dataclass(frozen=True, eq=False)
class Calls:
    """Outermost CUDA calls, by process, thread and start; one element each.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        process: Its process.
        thread_id: Its thread.
        thread: A number for its process and thread.
        is_waiting: Whether it is synchronous by its name.
        label: Index into ``labels``.
        labels: Names of calls.
        shift_ns: Added to their times, where the clocks of host and devices disagree.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Int64s
    thread_id: Int64s
    thread: Numbers
    is_waiting: Flags
    label: Numbers
    labels: Sequence[str]
    shift_ns: int = 0

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
    labels = _Labels()
    parts = [_read_operations(profile, t, labels) for t in _TABLES if profile.has(t)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    label, start, end, process, device, context, stream_id, correlation, *copy_columns = (
        columns or [np.empty(0, np.int64)] * 15
    )
    kind, size, src, dst, peer, staged, pageable = copy_columns
    # Names are told apart here: a query that does is another view, which takes longer to make.
    is_collective = np.array([is_communication(text) for text in labels.texts], bool)[label]
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
        labels=labels.texts,
        bytes=size[order],
        src=src[order],
        dst=dst[order],
        is_peer=peer[order] == 1,
        is_staged=staged[order] == 1,
        is_pageable=pageable[order] == 1,
        call=_looked_up(ids, outer, process[order], correlation[order]),
        correlation=correlation[order],
    )
    shift = _shift_ns(operations, calls)
    if shift:
        start, end = calls.start_ns + shift, calls.end_ns + shift
        calls = replace(calls, start_ns=start, end_ns=end, shift_ns=shift)
    return Recorded(operations, calls, ids, outer)


def _shift_ns(operations: Operations, calls: Calls) -> int:
    """How far the host's clock is behind that of the devices; 0 where they agree.

    They disagree where work starts before its launch, or where none starts soon after its launch
    although calls that wait for work return before it ends. Then the least time from a launch to
    its work is set to the usual one. Recordings of several processes are left as they are.
    """
    launched = np.flatnonzero(operations.call != NOT_FOUND)
    if len(launched) < _LEAST_LAUNCHES or len(np.unique(operations.process)) > 1:
        return 0
    call = operations.call[launched]
    late = operations.start_ns[launched] - calls.start_ns[call]
    is_off = (late < 0).mean() > _MOST_EARLY
    if not is_off and late.min() > _SOON_NS:
        order = np.argsort(calls.start_ns[call], kind="stable")
        waiting = np.flatnonzero(calls.is_waiting)
        at = np.searchsorted(calls.start_ns[call[order]], calls.start_ns[waiting]) - 1
        ends = operations.end_ns[launched[order[np.maximum(at, 0)]]]
        is_early = (ends > calls.end_ns[waiting])[at >= 0]
        is_off = len(is_early) > 0 and is_early.mean() > _MOST_RETURNED
    return int(late.min()) - _LAUNCH_NS if is_off else 0


def _read_operations(profile: Profile, table: str, labels: "_Labels") -> list[Any]:
    label, kind, of_copies = _TABLES[table]
    ids = (f"coalesce({n}, {UNKNOWN})" for n in _PLACED.split()[2:])
    sql = f"SELECT {label}, start_ns, end_ns, {', '.join(ids)}, {kind}, {of_copies} FROM {table}"
    return labels.read(profile, sql, 15)


class _Labels:
    """Texts, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The text of each number."""
        return [*self._numbers]

    def read(self, profile: Profile, sql: str, columns: int) -> list[Int64s]:
        """The columns of a query as arrays, the first one of texts as their numbers."""
        parts = ([self._numbered(b.column(0)), *b.columns[1:]] for b in profile.batches(sql))
        gathered = columns_of(([np.from_dlpack(c) for c in part] for part in parts), columns)
        return [column.astype(np.int64) for column in gathered]

    def _numbered(self, column: pa.Array) -> Int64s:
        coded = column.dictionary_encode(null_encoding="encode")
        texts = (text or "unnamed" for text in coded.dictionary.to_pylist())
        numbers = [self._numbers.setdefault(text, len(self._numbers)) for text in texts]
        number: Int64s = np.array(numbers, np.int64)[np.from_dlpack(coded.indices)]
        return number


def _read_calls(profile: Profile) -> tuple[Calls, Int64s, Int64s]:
    """The outermost calls; sorted process and correlation ids, and the outermost call of each."""
    if not profile.has("api_calls"):
        none = np.empty(0, np.int64)
        calls = Calls(none, none, none, none, none, none.astype(bool), none, [])
        return calls, np.empty((2, 0), np.int64), none
    names = _Labels()
    name, start, end, process, thread, correlation = names.read(
        profile,
        f"SELECT name, start_ns, end_ns, coalesce(process_id, {UNKNOWN}),"
        f" coalesce(thread_id, {UNKNOWN}), coalesce(correlation_id, {UNKNOWN}) FROM api_calls",
        6,
    )
    lane = numbered(process).astype(np.int64) * (len(np.unique(thread)) + 1) + numbered(thread)
    order = np.lexsort((-end, start, lane))
    start, end, lane = start[order], end[order], lane[order]
    is_outer = np.ones(len(order), bool)
    for low, high in runs(lane):
        # A call that ends no later than an earlier one is nested in it.
        is_outer[low + 1 : high] = end[low + 1 : high] > np.maximum.accumulate(end[low : high - 1])
    outer = np.cumsum(is_outer) - 1
    label = name[order][is_outer]
    labels = [_VERSION.sub("", text) for text in names.texts]
    calls = Calls(
        start_ns=start[is_outer],
        end_ns=end[is_outer],
        process=process[order][is_outer],
        thread_id=thread[order][is_outer],
        thread=numbered(lane[is_outer]).astype(np.int64),
        is_waiting=np.array([*map(is_waiting, labels)], bool)[label],
        label=label,
        labels=labels,
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
