"""What ran on the streams of the GPUs of an XPlane profile: kernels, copies, memsets and graphs.

With ROCm's roctracer a copy is ``CopyDeviceToDevice`` on a line such as ``Stream #3(MemcpyOther)``,
with ``kind:Unknown size:655360 dest:0 async:1`` as its details, of which ``dest`` is no number of
HIP's.
Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc and, of ROCm,
rocm_collector.cc and rocm_tracer_v1.cc (names and values of events).
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.native.xspace import Plane
from gpuprof.readers.common.compact_columns import (
    Coded,
    Flags,
    Integers,
    Lexicon,
    coded,
    column,
    gathered,
    listed,
    narrowed_part,
)
from gpuprof.readers.xplane.event_columns import Batch, batches

MEMCPY_KINDS: Final = {
    "MemcpyH2D": "HtoD",
    "MemcpyD2H": "DtoH",
    "MemcpyD2D": "DtoD",
    "MemcpyP2P": "PtoP",
    "MemcpyOther": cuda.UNKNOWN,
}
# What else the profiler puts on a stream's line; every other name is a kernel's.
OTHER_ACTIVITIES: Final = frozenset(
    {"MemoryAlloc", "MemoryFree", "MemoryResidency", "Overhead", "UnifiedMemory", "Generic"}
)
MEMSET, GRAPH = "Memset", "CudaGraph"

GPU_PLANE: Final = re.compile(r"^/device:GPU:(\d{1,4})(?!\d)")
_STREAM: Final = re.compile(r"^Stream #(\d{1,18})")

# The plane of HIP calls. In versions with roctracer, launching calls have the names of their
# kernels, so the name of the call is unknown.
HIP_CALLS_PLANE: Final = "/host:ROCTRACER"
_HIP_LAUNCH: Final = "hip*LaunchKernel"
# Kernels that HIP's runtime copies and fills with.
_HIP_KERNEL: Final = "__amd_rocclr_"
_AMD: Final = "AMD"
# What a copy of pinned memory may be called.
_VAGUE: Final = frozenset({"DtoD", cuda.UNKNOWN})
_KINDS: Final = [*cuda.MEMCPY_KINDS.values()]

# Tables of activities, and where allocations, markers and the like go.
KERNELS, MEMCPYS, MEMSETS, GRAPHS, IGNORED = range(5)
# What an event with these details is. A copy by a kernel has those of both, and is a copy.
_DETAILS: Final = {
    "memcpy_details": MEMCPYS,
    "memset_details": MEMSETS,
    "memalloc_details": IGNORED,
    "memfree_details": IGNORED,
    "kernel_details": KERNELS,
}
_NO_DETAILS: Final = -1
# Details are text: "regs:38 grid:160,1,1" (cupti_buffer_events.h).
_DETAIL: Final = re.compile(r"(\w+):(\S+)")
_CONTEXT: Final = re.compile(r"\$\$(\d+)")
# Digits of the largest number that every int64 column holds.
_LONGEST: Final = 18
_MEMORY_KINDS: Final = frozenset(cuda.CUPTI_MEMORY_KINDS.values())
_SOME_ROWS: Final = 1 << 14
_NUMBERS: Final = ("correlation_id", "cuda_graph_node_id", "cuda_graph_id")


def device_id(plane: Plane) -> int:
    """The number of a GPU by the name of its plane."""
    match = GPU_PLANE.match(plane.name)
    return int(match[1]) if match else 0


class GpuActivities:
    """What ran on the streams of some GPUs, in the order of its start.

    Raises:
        WireError: An event breaks off.
    """

    def __init__(self, gpus: Iterable[Plane]) -> None:
        self._names, self._contexts, self._details = Lexicon(), Lexicon(), Lexicon()
        read = (part for plane in gpus for part in self._read(plane))
        self._parts = deque(map(narrowed_part, read))
        self._count = sum(len(part["start_ns"]) for part in self._parts)

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    @cached_property
    def _columns(self) -> dict[str, Integers]:
        # Only when the file is no longer in memory, and no part stays beside its column.
        return gathered(self._parts.popleft() for _ in range(len(self._parts)))

    def _read(self, plane: Plane) -> Iterator[dict[str, Integers | Flags]]:
        streams = ((line, match) for line in plane.lines if (match := _STREAM.match(line.name)))
        for line, match in streams:
            for batch in batches(plane, line, ("context_id", *_DETAILS, *_NUMBERS)):
                details = np.full(len(batch), -1, np.int64)
                table = np.full(len(batch), _NO_DETAILS, np.int8)
                # The last ones count most.
                for name, of_table in reversed(_DETAILS.items()):
                    codes = batch.texts(name, self._details)
                    details = np.where(codes >= 0, codes, details)
                    table = np.where(codes >= 0, of_table, table)
                yield {
                    "start_ns": batch.start_ns,
                    "duration_ns": batch.duration_ns,
                    "name": batch.names(self._names),
                    "context_id": batch.texts("context_id", self._contexts),
                    "details": details,
                    "table": table,
                    "device_id": np.full(len(batch), device_id(plane)),
                    "stream_id": np.full(len(batch), int(match[1])),
                    **numbers(batch, _NUMBERS),
                }

    @property
    def devices(self) -> int:
        """How many devices did any work."""
        return len(np.unique(self._columns.get("device_id", np.zeros(0, np.int64))))

    @cached_property
    def _tables(self) -> Integers:
        """The table of each, by its name and by what its details are of."""
        names, details = self._names.texts, (_NO_DETAILS, *range(IGNORED + 1))
        tables = np.array([[_table(name, kind) for kind in details] for name in names], np.int8)
        if not self._columns:
            return np.zeros(0, np.int8)
        kinds = self._columns["table"] + np.int8(1)
        # Indices are widened to 64 bits: those of some rows at a time.
        rows = (slice(first, first + _SOME_ROWS) for first in range(0, len(self), _SOME_ROWS))
        return np.concatenate([tables[self._columns["name"][some], kinds[some]] for some in rows])

    def _chosen(self, table: int) -> "Chosen":
        """Those of one table."""
        texts = {"name": self._names, "context_id": self._contexts, "details": self._details}
        return Chosen(
            self._columns,
            {name: lexicon.texts for name, lexicon in texts.items()},
            self._tables == table,
        )

    def kernels(self) -> pa.Table:
        """The kernels."""
        chosen = self._chosen(KERNELS)
        axes = {
            f"{size}_{letter}": chosen.details.mapped(partial(axis, size, place)).array(pa.int64())
            for size in ("grid", "block")
            for place, letter in enumerate("xyz")
        }
        return chosen.table(
            name=chosen.names.array(pa.string()),
            registers_per_thread=chosen.detail("regs"),
            static_shared_memory_bytes=chosen.detail("static_shared"),
            dynamic_shared_memory_bytes=chosen.detail("dynamic_shared"),
            **axes,
            graph_node_id=chosen.number("cuda_graph_node_id"),
        )

    def memcpys(self) -> pa.Table:
        """The copies of CUDA."""
        chosen = self._chosen(MEMCPYS)
        device, kinds = chosen.column("device_id"), chosen.names.mapped(_memcpy_kind)
        is_between, is_in = kinds.are("PtoP", "DtoD"), kinds.are("HtoD")
        target = chosen.details.mapped(partial(number, "dest")).integers(missing=-1)
        return chosen.copies(
            kinds,
            # A copy between two devices is in the plane of the one that it starts on.
            src_device_id=column(device, is_between | kinds.are("DtoH")),
            dst_device_id=column(
                np.where(is_in, device, target), is_in | (is_between & (target >= 0))
            ),
        )

    def memcpys_of_rocm(self, directions: Mapping[int, str]) -> pa.Table:
        """The copies of ROCm; those between devices it does not tell from others.

        Args:
            directions: The directions of copies, by the correlation ids of their calls.
        """
        chosen = self._chosen(MEMCPYS)
        ids, has_id = chosen.column("correlation_id"), chosen.column("has correlation_id")
        named = chosen.names.mapped(_memcpy_kind)
        numbers = np.array([_KINDS.index(kind) for kind in named.values], np.int64)[named.codes]
        # Where a name is vague, the call may tell the kind.
        for row in np.flatnonzero(named.are(*_VAGUE) & has_id.astype(np.bool_)):
            if (kind := directions.get(int(ids[row]))) is not None:
                numbers[row] = _KINDS.index(kind)
        kinds = coded(_KINDS, numbers)
        device = chosen.column("device_id")
        is_local = kinds.are("DtoD") & (self.devices <= 1)
        return chosen.copies(
            kinds,
            src_device_id=column(device, is_local | kinds.are("DtoH")),
            dst_device_id=column(device, is_local | kinds.are("HtoD")),
        )

    def memsets(self) -> pa.Table:
        """The memsets."""
        chosen = self._chosen(MEMSETS)
        return chosen.table(
            bytes=chosen.detail("num_bytes"), memory_kind=chosen.memory_kind("kind")
        )

    def graph_launches(self) -> pa.Table:
        """CUDA graphs recorded as a whole."""
        chosen = self._chosen(GRAPHS)
        return chosen.table(graph_id=chosen.number("cuda_graph_id"))


@dataclass(frozen=True)
class Chosen:
    """Some activities or calls.

    Args:
        columns: As `GpuActivities` has them.
        texts: What the numbers in columns of texts stand for.
        is_chosen: Which of them are chosen; places would take eight times as much memory.
    """

    columns: Mapping[str, Integers]
    texts: Mapping[str, list[str]]
    is_chosen: Flags

    @cached_property
    def names(self) -> Coded:
        """Each one's name."""
        return self._coded("name")

    @cached_property
    def details(self) -> Coded:
        """The details of each as text, such as ``regs:38``."""
        return self._coded("details")

    def detail(self, word: str) -> pa.Array:
        """The number after a word of the details."""
        return self.details.mapped(partial(number, word)).array(pa.int64())

    def memory_kind(self, word: str) -> pa.Array:
        """The kind of memory after a word of the details."""
        return self.details.mapped(partial(memory_kind, word)).array(pa.string())

    def number(self, name: str) -> pa.Array:
        """A value that only some have."""
        return column(self.column(name), self.column(f"has {name}").astype(np.bool_))

    def table(self, **columns: pa.Array) -> pa.Table:
        """The columns of all activities, and some more."""
        start_ns = self.column("start_ns")
        contexts = self._coded("context_id").mapped(context_id)
        place = {
            "start_ns": pa.array(start_ns),
            "end_ns": pa.array(start_ns + self.column("duration_ns")),
            "device_id": pa.array(self.column("device_id")),
            "context_id": contexts.array(pa.int64()),
            "stream_id": pa.array(self.column("stream_id")),
            "correlation_id": self.number("correlation_id"),
        }
        return pa.table(place | columns)

    def copies(self, kinds: Coded, **ends: pa.Array) -> pa.Table:
        """The columns of copies.

        Args:
            kinds: Their memcpy kinds.
            ends: Their source and destination devices.
        """
        return self.table(
            memcpy_kind=kinds.array(pa.string()),
            src_memory_kind=self.memory_kind("kind_src"),
            dst_memory_kind=self.memory_kind("kind_dst"),
            bytes=self.detail("size"),
            **ends,
            path=kinds.mapped({"PtoP": "direct"}.get).array(pa.string()),
            graph_node_id=self.number("cuda_graph_node_id"),
        )

    def _coded(self, name: str) -> Coded:
        return coded(self.texts[name], self.column(name))

    def column(self, name: str) -> Integers:
        """One column; empty where there are no activities."""
        if not self.columns:
            return np.zeros(0, np.int64)
        values: Integers = self.columns[name][self.is_chosen]
        return values


def _table(name: str, details: int) -> int:
    """The table of activities of a name whose details are of a table."""
    if details == KERNELS and not name.startswith(_HIP_KERNEL):
        return KERNELS
    if name in OTHER_ACTIVITIES or cuda.is_hip_order(name):
        return IGNORED
    if name.startswith(GRAPH):
        return GRAPHS
    if name == MEMSET or cuda.is_hip_memset(name):
        return MEMSETS
    is_copy = name in MEMCPY_KINDS or cuda.hip_memcpy_kind(name) is not None
    if is_copy or details == MEMCPYS:
        return MEMCPYS
    # Calls that allocate or wait stand among the activities of roctracer.
    by_name = IGNORED if cuda.is_hip_call(name) else KERNELS
    return by_name if details == _NO_DETAILS else details


def _memcpy_kind(name: str) -> str:
    return MEMCPY_KINDS.get(name) or cuda.hip_memcpy_kind(name) or cuda.UNKNOWN


def numbers(batch: Batch, names: Iterable[str]) -> dict[str, Integers | Flags]:
    """Values that only some events have, and whether they do."""
    values = {name: batch.numbers(name) for name in names}
    return {name: numbers for name, (numbers, _) in values.items()} | {
        f"has {name}": is_known for name, (_, is_known) in values.items()
    }


def number(word: str, details: str) -> int | None:
    """The number after a word of an event's details, such as ``regs:38``; None without it."""
    return _integer(dict(_DETAIL.findall(details)).get(word, ""))


def axis(word: str, place: int, details: str) -> int | None:
    """One of the three numbers after a word, such as ``grid:160,1,1``; None without them."""
    texts = dict(_DETAIL.findall(details)).get(word, "").split(",")
    return _integer(texts[place]) if len(texts) == len("xyz") else None


def memory_kind(word: str, details: str) -> str | None:
    """The kind of memory after a word, such as ``kind_src:pageable``; None without it."""
    kind = dict(_DETAIL.findall(details)).get(word)
    return kind if kind is None or kind in _MEMORY_KINDS else cuda.UNKNOWN


def context_id(text: str) -> int | None:
    """The number of a context such as ``$$5``; None where it is none."""
    match = _CONTEXT.fullmatch(text)
    return _integer(match[1]) if match else None


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST else None


def is_of_rocm(gpus: Iterable[Plane], hosts: Iterable[Plane]) -> bool:
    """Whether a profile is of ROCm; old ones do not name the vendor of a device."""
    is_of_amd = any(plane.stats.get("device_vendor") == _AMD for plane in gpus)
    return is_of_amd or any(plane.name == HIP_CALLS_PLANE for plane in hosts)


def hip_call_name(name: str) -> str:
    """The name of a call in the plane of calls, where launches have the names of kernels."""
    return name if cuda.is_hip_call(name) else _HIP_LAUNCH


def hip_directions(api_calls: pa.Table) -> dict[int, str]:
    """The memcpy kinds that calls ask for, by their correlation id."""
    if not {"name", "correlation_id"} <= set(api_calls.column_names):
        return {}
    names, ids = (listed(api_calls[n].combine_chunks()) for n in ("name", "correlation_id"))
    kinds = {name: cuda.hip_call_kind(name) for name in set(names)}
    pairs = zip(ids, map(kinds.get, names), strict=True)
    return {number: kind for number, kind in pairs if number is not None and kind is not None}
