"""The tables of an XPlane profile, from the planes of its GPUs and hosts.

Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc (names and
values of events) and cupti_buffer_events.h (their details as text).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof import cuda, schema
from gpuprof.readers.xplane_events import Events
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

GPU_PLANE: Final = re.compile(r"^/device:GPU:(\d+)")

_STREAM: Final = re.compile(r"^Stream #(\d+)")
_DETAIL: Final = re.compile(r"(\w+):(\S+)")
_CONTEXT: Final = re.compile(r"\$\$(\d+)")
_API_CALL: Final = re.compile(rb"\x12.cu(?:da)?[A-Z]", re.DOTALL)
_STEP: Final = "step_num"
_MEMORY_KINDS: Final = frozenset(cuda.CUPTI_MEMORY_KINDS.values())

Rows = npt.NDArray[np.intp]


def tables(gpus: Sequence["Streams"], hosts: Sequence[Plane]) -> dict[str, pa.Table]:
    """The tables of the activities, of the host's calls and of the script's steps."""
    recorded = {
        "kernels": _joined(schema.KERNELS, [gpu.kernels() for gpu in gpus]),
        "memcpys": _joined(schema.MEMCPYS, [gpu.memcpys() for gpu in gpus]),
        "memsets": _joined(schema.MEMSETS, [gpu.memsets() for gpu in gpus]),
        "nvtx_ranges": _joined(schema.NVTX_RANGES, [_steps(host) for host in hosts]),
    }
    # These two are there only where the profiler was told to, and in newer versions.
    optional = {
        "graph_launches": _joined(schema.GRAPH_LAUNCHES, [gpu.graph_launches() for gpu in gpus]),
        "api_calls": _joined(schema.API_CALLS, [_api_calls(host) for host in hosts]),
    }
    return recorded | {name: table for name, table in optional.items() if table.num_rows}


def _joined(table: schema.Schema, parts: Sequence[Mapping[str, Any]]) -> pa.Table:
    types = {name: table.arrow.field(name).type for name in table.columns}
    made = [
        pa.table({name: _array(values, types[name]) for name, values in part.items()})
        for part in parts
    ]
    if not made:
        return table.empty()
    # Long names are sorted as numbers, and become text once.
    return table.conform(pa.concat_tables(made).unify_dictionaries().sort_by("start_ns"))


def _array(values: object, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.DictionaryArray) else pa.array(values, kind)


class Streams:
    """What ran on the streams of one GPU: the columns of its tables."""

    def __init__(self, plane: Plane) -> None:
        numbered = [(_STREAM.match(line.name), line) for line in plane.lines]
        streams = [(int(match[1]), line) for match, line in numbered if match]
        match = GPU_PLANE.match(plane.name)
        self.device_id = int(match[1]) if match else 0
        self.stream_ids = np.array([stream_id for stream_id, _ in streams], np.int64)
        self.events = Events(plane, [line for _, line in streams])
        self._context_id = self.events.texts("context_id").parsed(_context_id, pa.int64())
        self._correlation_id = self.events.numbers("correlation_id")

    def kernels(self) -> dict[str, Any]:
        """Columns of the kernels."""
        apart = {*MEMCPY_KINDS, *OTHER_ACTIVITIES, MEMSET}
        rows = self.events.names.rows(lambda n: n not in apart and not n.startswith(GRAPH))
        details = self.events.texts("kernel_details").of(rows)
        axes = {
            f"{size}_{letter}": details.parsed(_Axis(size, axis), pa.int64())
            for size in ("grid", "block")
            for axis, letter in enumerate("xyz")
        }
        return {
            **self._place(rows),
            "name": self.events.names.of(rows).words,
            "registers_per_thread": details.parsed(_Number("regs"), pa.int64()),
            "static_shared_memory_bytes": details.parsed(_Number("static_shared"), pa.int64()),
            "dynamic_shared_memory_bytes": details.parsed(_Number("dynamic_shared"), pa.int64()),
            **axes,
            "graph_node_id": self.events.numbers("cuda_graph_node_id").take(rows),
        }

    def memcpys(self) -> dict[str, Any]:
        """Columns of the copies."""
        rows = self.events.names.rows(MEMCPY_KINDS.__contains__)
        details = self.events.texts("memcpy_details").of(rows)
        kinds = self.events.names.of(rows).parsed(MEMCPY_KINDS.get, pa.string())
        targets = details.parsed(_Number("dest"), pa.int64())
        here = pa.scalar(self.device_id, pa.int64())
        nowhere = pa.scalar(None, pa.int64())
        is_between = pc.is_in(kinds, pa.array(["PtoP", "DtoD"]))
        is_out, is_in = pc.equal(kinds, "DtoH"), pc.equal(kinds, "HtoD")
        return {
            **self._place(rows),
            "memcpy_kind": kinds,
            "src_memory_kind": details.parsed(_Word("kind_src"), pa.string()),
            "dst_memory_kind": details.parsed(_Word("kind_dst"), pa.string()),
            "bytes": details.parsed(_Number("size"), pa.int64()),
            # A copy between two devices is in the plane of the one that it starts on.
            "src_device_id": pc.if_else(pc.or_(is_between, is_out), here, nowhere),
            "dst_device_id": pc.if_else(is_between, targets, pc.if_else(is_in, here, nowhere)),
            "path": pc.if_else(pc.equal(kinds, "PtoP"), "direct", pa.scalar(None, pa.string())),
            "graph_node_id": self.events.numbers("cuda_graph_node_id").take(rows),
        }

    def memsets(self) -> dict[str, Any]:
        """Columns of the memsets."""
        rows = self.events.names.rows(MEMSET.__eq__)
        details = self.events.texts("memset_details").of(rows)
        return {
            **self._place(rows),
            "bytes": details.parsed(_Number("num_bytes"), pa.int64()),
            "memory_kind": details.parsed(_Word("kind"), pa.string()),
        }

    def graph_launches(self) -> dict[str, Any]:
        """Columns of CUDA graphs recorded as a whole."""
        rows = self.events.names.rows(lambda name: name.startswith(GRAPH))
        return {**self._place(rows), "graph_id": self.events.numbers("cuda_graph_id").take(rows)}

    def _place(self, rows: Rows) -> dict[str, Any]:
        start_ns = self.events.start_ns[rows]
        return {
            "start_ns": start_ns,
            "end_ns": start_ns + self.events.duration_ns[rows],
            "device_id": np.full(len(rows), self.device_id),
            "context_id": self._context_id.take(rows),
            "stream_id": self.stream_ids[self.events.line[rows]],
            "correlation_id": self._correlation_id.take(rows),
        }


@dataclass(frozen=True)
class _Number:
    """The number after a word of an event's details, such as ``regs:38``."""

    word: str

    def __call__(self, details: str) -> int | None:
        """None where the details do not have it."""
        text = dict(_DETAIL.findall(details)).get(self.word, "")
        return int(text) if text.isdecimal() else None


@dataclass(frozen=True)
class _Axis:
    """One of the three numbers after a word, such as ``grid:160,1,1``."""

    word: str
    axis: int

    def __call__(self, details: str) -> int | None:
        """None where the details do not have them."""
        texts = dict(_DETAIL.findall(details)).get(self.word, "").split(",")
        return int(texts[self.axis]) if len(texts) == len("xyz") else None


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
    return int(match[1]) if match else None


def _api_calls(host: Plane) -> dict[str, Any]:
    kinds = host.event_metadata_with(_API_CALL)
    found = _host_events(host, lambda line: host.events(line, kinds)) if kinds else []
    return {
        **_host_place(found),
        "api": ["runtime" if e.metadata.name.startswith("cuda") else "driver" for _, e in found],
        "name": [kinds[event.metadata_id].name for _, event in found],
        "correlation_id": [host.stats_of(event).get("correlation_id") for _, event in found],
    }


def _steps(host: Plane) -> dict[str, Any]:
    """The script's steps, which have a number: ``train#5``."""
    found = _host_events(host, lambda line: host.events_with(line, _STEP))
    numbers = [host.stats_of(event).get(_STEP) for _, event in found]
    names = [event.metadata.name for _, event in found]
    return {
        **_host_place(found),
        "text": [f"{name}#{number!s}" for name, number in zip(names, numbers, strict=True)],
        "domain": [""] * len(found),
        "range_kind": ["annotation"] * len(found),
    }


def _host_events(host: Plane, of: Callable[[Line], Iterable[Event]]) -> list[tuple[Line, Event]]:
    return [(line, event) for line in host.lines for event in of(line)]


def _host_place(found: Sequence[tuple[Line, Event]]) -> dict[str, Any]:
    return {
        "start_ns": [event.start_ns for _, event in found],
        "end_ns": [event.end_ns for _, event in found],
        "thread_id": [line.line_id for line, _ in found],
    }


def devices(gpus: Sequence[Plane]) -> pa.Table:
    """The GPUs that the profiler saw, whether they were used or not."""
    return schema.DEVICES.table([_device(plane) for plane in gpus])


def _device(plane: Plane) -> dict[str, Any]:
    match = GPU_PLANE.match(plane.name)
    major, minor = (plane.stats.get(f"compute_cap_{part}") for part in ("major", "minor"))
    return {
        "device_id": int(match[1]) if match else 0,
        "total_memory_bytes": plane.stats.get("memory_size"),
        "memory_bandwidth_bytes_per_s": plane.stats.get("memory_bandwidth"),
        "compute_capability": None if major is None else f"{major!s}.{minor!s}",
    }
