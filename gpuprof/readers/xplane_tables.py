"""The tables of an XPlane profile, from the planes of its GPUs and hosts.

Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc (names and
values of events) and cupti_buffer_events.h (their details as text).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof import cuda, schema
from gpuprof.readers.narrow import (
    Coded,
    Flags,
    Integers,
    Lexicon,
    coded,
    column,
    gathered,
    narrowed_part,
)
from gpuprof.readers.xplane_events import Batch, batches
from gpuprof.xspace import Event, Line, Plane

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

GPU_PLANE: Final = re.compile(r"^/device:GPU:(\d{1,9})")

_STREAM: Final = re.compile(r"^Stream #(\d{1,18})")
_DETAIL: Final = re.compile(r"(\w+):(\S+)")
_CONTEXT: Final = re.compile(r"\$\$(\d+)")
# Digits of the largest number that every int64 column holds.
_LONGEST: Final = 18
_API_CALL: Final = re.compile(rb"\x12.cu(?:da)?[A-Z]", re.DOTALL)
_STEP: Final = "step_num"
_MEMORY_KINDS: Final = frozenset(cuda.CUPTI_MEMORY_KINDS.values())

# An event has the details of its kind only.
_DETAILS: Final = ("kernel_details", "memcpy_details", "memset_details")
_NUMBERS: Final = ("correlation_id", "cuda_graph_node_id", "cuda_graph_id")


@dataclass(frozen=True)
class Recorded:
    """What is read of a profile, without the file itself.

    Args:
        activities: What ran on the GPUs.
        api_calls: The host's calls.
        steps: The script's steps.
        devices: The GPUs that the profiler saw, whether they were used or not.
    """

    activities: "Activities"
    api_calls: pa.Table
    steps: pa.Table
    devices: pa.Table

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The tables of the data model."""
        recorded = {
            "kernels": schema.KERNELS.narrow(self.activities.kernels()),
            "memcpys": schema.MEMCPYS.narrow(self.activities.memcpys()),
            "memsets": schema.MEMSETS.narrow(self.activities.memsets()),
            "nvtx_ranges": self.steps,
        }
        # These two are there only where the profiler was told to, and in newer versions.
        optional = {
            "graph_launches": schema.GRAPH_LAUNCHES.narrow(self.activities.graph_launches()),
            "api_calls": self.api_calls,
        }
        told = {name: table for name, table in optional.items() if table.num_rows}
        return recorded | told | {"devices": self.devices}


def recorded(gpus: Sequence[Plane], hosts: Sequence[Plane]) -> Recorded:
    """What some planes tell.

    Raises:
        WireError: An event breaks off.
    """
    return Recorded(Activities(gpus), _api_calls(hosts), _steps(hosts), _devices(gpus))


class Activities:
    """What ran on the streams of some GPUs, in the order of its start.

    Raises:
        WireError: An event breaks off.
    """

    def __init__(self, gpus: Iterable[Plane]) -> None:
        self._names, self._contexts, self._details = Lexicon(), Lexicon(), Lexicon()
        read = (part for plane in gpus for part in self._read(plane))
        self._parts = [*map(narrowed_part, read)]

    def __len__(self) -> int:
        """How many there are."""
        return sum(len(part["start_ns"]) for part in self._parts)

    @cached_property
    def _columns(self) -> dict[str, Integers]:
        # Only when the file is no longer in memory.
        return gathered(self._parts)

    def _read(self, plane: Plane) -> Iterator[dict[str, Integers | Flags]]:
        for line in plane.lines:
            match = _STREAM.match(line.name)
            if match:
                place = {"device_id": _device_id(plane), "stream_id": int(match[1])}
                for batch in batches(plane, line, ("context_id", *_DETAILS, *_NUMBERS)):
                    yield self._part(batch) | {
                        name: np.full(len(batch), number) for name, number in place.items()
                    }

    def _part(self, batch: Batch) -> dict[str, Integers | Flags]:
        details = (batch.texts(name, self._details) for name in _DETAILS)
        return {
            "start_ns": batch.start_ns,
            "duration_ns": batch.duration_ns,
            "name": batch.names(self._names),
            "context_id": batch.texts("context_id", self._contexts),
            "details": np.maximum.reduce([*details]),
            **_numbers(batch, _NUMBERS),
        }

    def _chosen(self, wanted: Callable[[str], bool]) -> "_Chosen":
        """Those whose name is wanted."""
        is_wanted = np.array([*map(wanted, self._names.texts), False], np.bool_)
        names = self._columns.get("name", np.zeros(0, np.int64))
        texts = {"name": self._names, "context_id": self._contexts, "details": self._details}
        return _Chosen(
            self._columns,
            {name: lexicon.texts for name, lexicon in texts.items()},
            np.flatnonzero(is_wanted[names]),
        )

    def kernels(self) -> pa.Table:
        """The kernels."""
        apart = {*MEMCPY_KINDS, *OTHER_ACTIVITIES, MEMSET}
        chosen = self._chosen(lambda n: n not in apart and not n.startswith(GRAPH))
        axes = {
            f"{size}_{letter}": chosen.detail(_Axis(size, axis))
            for size in ("grid", "block")
            for axis, letter in enumerate("xyz")
        }
        return chosen.table(
            name=chosen.names.array(pa.string()),
            registers_per_thread=chosen.detail(_Number("regs")),
            static_shared_memory_bytes=chosen.detail(_Number("static_shared")),
            dynamic_shared_memory_bytes=chosen.detail(_Number("dynamic_shared")),
            **axes,
            graph_node_id=chosen.number("cuda_graph_node_id"),
        )

    def memcpys(self) -> pa.Table:
        """The copies."""
        chosen = self._chosen(MEMCPY_KINDS.__contains__)
        device, kinds = chosen.column("device_id"), chosen.names.mapped(MEMCPY_KINDS.get)
        is_between, is_in = kinds.are("PtoP", "DtoD"), kinds.are("HtoD")
        target = chosen.details.mapped(_Number("dest")).integers(missing=-1)
        return chosen.table(
            memcpy_kind=kinds.array(pa.string()),
            src_memory_kind=chosen.word(_Word("kind_src")),
            dst_memory_kind=chosen.word(_Word("kind_dst")),
            bytes=chosen.detail(_Number("size")),
            # A copy between two devices is in the plane of the one that it starts on.
            src_device_id=column(device, is_between | kinds.are("DtoH")),
            dst_device_id=column(
                np.where(is_in, device, target), is_in | (is_between & (target >= 0))
            ),
            path=kinds.mapped({"PtoP": "direct"}.get).array(pa.string()),
            graph_node_id=chosen.number("cuda_graph_node_id"),
        )

    def memsets(self) -> pa.Table:
        """The memsets."""
        chosen = self._chosen(MEMSET.__eq__)
        return chosen.table(
            bytes=chosen.detail(_Number("num_bytes")), memory_kind=chosen.word(_Word("kind"))
        )

    def graph_launches(self) -> pa.Table:
        """CUDA graphs recorded as a whole."""
        chosen = self._chosen(lambda name: name.startswith(GRAPH))
        return chosen.table(graph_id=chosen.number("cuda_graph_id"))


@dataclass(frozen=True)
class _Chosen:
    """Some of the activities.

    Args:
        columns: As `Activities` has them.
        texts: What the numbers in columns of texts stand for.
        rows: The places of those that are chosen.
    """

    columns: Mapping[str, Integers]
    texts: Mapping[str, list[str]]
    rows: Integers

    @cached_property
    def names(self) -> Coded:
        """Each one's name."""
        return self._coded("name")

    @cached_property
    def details(self) -> Coded:
        """What the profiler says of each as text, such as ``regs:38``."""
        return self._coded("details")

    def detail(self, number: Callable[[str], int | None]) -> pa.Array:
        """A number of the details."""
        return self.details.mapped(number).array(pa.int64())

    def word(self, word: Callable[[str], str | None]) -> pa.Array:
        """A word of the details."""
        return self.details.mapped(word).array(pa.string())

    def number(self, name: str) -> pa.Array:
        """A value that only some have."""
        return column(self.column(name), self.column(f"has {name}").astype(np.bool_))

    def table(self, **columns: pa.Array) -> pa.Table:
        """The columns of all activities, and some more."""
        start_ns = self.column("start_ns")
        contexts = self._coded("context_id").mapped(_context_id)
        place = {
            "start_ns": pa.array(start_ns),
            "end_ns": pa.array(start_ns + self.column("duration_ns")),
            "device_id": pa.array(self.column("device_id")),
            "context_id": contexts.array(pa.int64()),
            "stream_id": pa.array(self.column("stream_id")),
            "correlation_id": self.number("correlation_id"),
        }
        return pa.table(place | columns)

    def _coded(self, name: str) -> Coded:
        return coded(self.texts[name], self.column(name))

    def column(self, name: str) -> Integers:
        """One column; empty where there are no activities."""
        found: Integers = self.columns[name][self.rows] if self.columns else self.rows
        return found


def _numbers(batch: Batch, names: Iterable[str]) -> dict[str, Integers | Flags]:
    """Values that only some events have, and whether they do."""
    found = {name: batch.numbers(name) for name in names}
    return {name: numbers for name, (numbers, _) in found.items()} | {
        f"has {name}": is_known for name, (_, is_known) in found.items()
    }


@dataclass(frozen=True)
class _Number:
    """The number after a word of an event's details, such as ``regs:38``."""

    word: str

    def __call__(self, details: str) -> int | None:
        """None where the details do not have it."""
        return _integer(dict(_DETAIL.findall(details)).get(self.word, ""))


@dataclass(frozen=True)
class _Axis:
    """One of the three numbers after a word, such as ``grid:160,1,1``."""

    word: str
    axis: int

    def __call__(self, details: str) -> int | None:
        """None where the details do not have them."""
        texts = dict(_DETAIL.findall(details)).get(self.word, "").split(",")
        return _integer(texts[self.axis]) if len(texts) == len("xyz") else None


@dataclass(frozen=True)
class _Word:
    """The kind of memory after a word, such as ``kind_src:pageable``."""

    word: str

    def __call__(self, details: str) -> str | None:
        """None where the details do not have it."""
        text = dict(_DETAIL.findall(details)).get(self.word)
        return text if text is None or text in _MEMORY_KINDS else cuda.UNKNOWN


def _context_id(text: str) -> int | None:
    match = _CONTEXT.fullmatch(text)
    return _integer(match[1]) if match else None


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST else None


def _api_calls(hosts: Iterable[Plane]) -> pa.Table:
    names = Lexicon()
    read = (part for host in hosts for part in _calls(host, names))
    columns = gathered([*map(narrowed_part, read)])
    every = np.arange(len(columns.get("name", ())))
    found = _Chosen(columns, {"name": names.texts}, every)
    apis = found.names.mapped(lambda name: "runtime" if name.startswith("cuda") else "driver")
    start_ns = found.column("start_ns")
    calls = pa.table(
        {
            "start_ns": pa.array(start_ns),
            "end_ns": pa.array(start_ns + found.column("duration_ns")),
            "api": apis.array(pa.string()),
            "name": found.names.array(pa.string()),
            "thread_id": pa.array(found.column("thread_id")),
            "correlation_id": found.number("correlation_id"),
        }
    )
    return schema.API_CALLS.narrow(calls)


def _calls(host: Plane, names: Lexicon) -> Iterator[dict[str, Integers | Flags]]:
    kinds = host.event_metadata_with(_API_CALL)
    for line in host.lines if kinds else ():
        for batch in batches(host, line, ("correlation_id",), kinds):
            yield {
                "start_ns": batch.start_ns,
                "duration_ns": batch.duration_ns,
                "name": batch.names(names),
                "thread_id": np.full(len(batch), line.line_id),
                **_numbers(batch, ("correlation_id",)),
            }


def _steps(hosts: Iterable[Plane]) -> pa.Table:
    """The script's steps, which have a number: ``train#5``."""
    found = [_step(host, line, event) for host in hosts for line, event in _step_events(host)]
    return schema.NVTX_RANGES.table(sorted(found, key=lambda row: row["start_ns"]))


def _step_events(host: Plane) -> Iterator[tuple[Line, Event]]:
    return ((line, event) for line in host.lines for event in host.events_with(line, _STEP))


def _step(host: Plane, line: Line, event: Event) -> dict[str, Any]:
    return {
        "start_ns": event.start_ns,
        "end_ns": event.end_ns,
        "text": f"{event.metadata.name}#{host.stats_of(event).get(_STEP)!s}",
        "domain": "",
        "range_kind": "annotation",
        "thread_id": line.line_id,
    }


def _devices(gpus: Iterable[Plane]) -> pa.Table:
    return schema.DEVICES.table([_device(plane) for plane in gpus])


def _device(plane: Plane) -> dict[str, Any]:
    major, minor = (plane.stats.get(f"compute_cap_{part}") for part in ("major", "minor"))
    return {
        "device_id": _device_id(plane),
        "total_memory_bytes": plane.stats.get("memory_size"),
        "memory_bandwidth_bytes_per_s": plane.stats.get("memory_bandwidth"),
        "compute_capability": None if major is None else f"{major!s}.{minor!s}",
    }


def _device_id(plane: Plane) -> int:
    match = GPU_PLANE.match(plane.name)
    return int(match[1]) if match else 0
