"""The tables of an XPlane profile, from the planes of its GPUs and hosts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.base.json_values import integer
from gpuprof.base.xspace import Plane
from gpuprof.model import schema
from gpuprof.readers.common import rocm
from gpuprof.readers.common.compact_columns import (
    Flags,
    Integers,
    Lexicon,
    gathered,
    listed,
    narrowed_part,
)
from gpuprof.readers.xplane import rocm as xplane_rocm
from gpuprof.readers.xplane.activities import Activities, Chosen, device_id, numbers
from gpuprof.readers.xplane.events import batches

_API_CALL: Final = re.compile(rb"\x12.(?:cu(?:da)?[A-Z]|(?:__)?hip[A-Z])", re.DOTALL)
_STEP: Final = "step_num"
_TIMES: Final = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Recorded:
    """What is read of a profile, without the file itself.

    Args:
        activities: What ran on the GPUs.
        api_calls: The host's calls.
        steps: The script's steps.
        devices: The GPUs that the profiler saw, whether they were used or not.
    """

    activities: Activities
    api_calls: pa.Table
    steps: pa.Table
    devices: pa.Table
    is_rocm: bool

    @cached_property
    def _directions(self) -> Mapping[int, str]:
        """The directions of copies by the correlation ids of their HIP calls."""
        return xplane_rocm.directions(self.api_calls) if self.is_rocm else {}

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The tables of the data model."""
        activities = self.activities
        copies = (
            activities.memcpys_of_rocm(self._directions) if self.is_rocm else activities.memcpys()
        )
        recorded = {
            "kernels": schema.KERNELS.narrow(activities.kernels()),
            "memcpys": schema.MEMCPYS.narrow(copies),
            "memsets": schema.MEMSETS.narrow(activities.memsets()),
            "nvtx_ranges": self.steps,
        }
        # These two are there only where the profiler was told to, and in newer versions.
        optional = {
            "graph_launches": schema.GRAPH_LAUNCHES.narrow(activities.graph_launches()),
            "api_calls": self.api_calls,
        }
        filled = {name: table for name, table in optional.items() if table.num_rows}
        return recorded | filled | {"devices": self.devices}

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know."""
        if not self.is_rocm:
            return []
        copies = self.tables["memcpys"]
        kinds = listed(copies["memcpy_kind"].combine_chunks()) if copies.num_rows else []
        ids = (
            listed(copies["correlation_id"].combine_chunks())
            if "correlation_id" in copies.column_names
            else [None] * len(kinds)
        )
        local = [-1 if n is None else n for k, n in zip(kinds, ids, strict=True) if k == "DtoD"]
        return [*rocm.notes(local, self._directions.keys(), self.activities.devices)]


def recorded(gpus: Sequence[Plane], hosts: Sequence[Plane]) -> Recorded:
    """What some planes tell.

    Raises:
        WireError: An event breaks off.
    """
    is_rocm = xplane_rocm.is_rocm(gpus, hosts)
    devices = schema.DEVICES.table([_device(plane) for plane in gpus])
    return Recorded(Activities(gpus), _api_calls(hosts), _steps(hosts), devices, is_rocm)


def _api_calls(hosts: Iterable[Plane]) -> pa.Table:
    names = Lexicon()
    read = (part for host in hosts for part in _calls(host, names))
    columns = gathered([*map(narrowed_part, read)])
    is_chosen = np.ones(len(columns.get("name", ())), np.bool_)
    calls = Chosen(columns, {"name": names.texts}, is_chosen)
    apis = calls.names.mapped(cuda.api)
    start_ns = calls.column("start_ns")
    table = pa.table(
        {
            "start_ns": pa.array(start_ns),
            "end_ns": pa.array(start_ns + calls.column("duration_ns")),
            "api": apis.array(pa.string()),
            "name": calls.names.array(pa.string()),
            "thread_id": pa.array(calls.column("thread_id")),
            "correlation_id": calls.number("correlation_id"),
        }
    )
    return schema.API_CALLS.narrow(table)


def _calls(host: Plane, names: Lexicon) -> Iterator[dict[str, Integers | Flags]]:
    is_of_hip = host.name == xplane_rocm.CALLS_PLANE
    kinds = None if is_of_hip else host.event_metadata_with(_API_CALL)
    for line in host.lines if kinds is None or kinds else ():
        for batch in batches(host, line, ("correlation_id",), kinds):
            yield {
                "start_ns": batch.start_ns,
                "duration_ns": batch.duration_ns,
                "name": batch.names(names, xplane_rocm.call_name if is_of_hip else str),
                "thread_id": np.full(len(batch), line.line_id),
                **numbers(batch, ("correlation_id",)),
            }


def _steps(hosts: Iterable[Plane]) -> pa.Table:
    """The script's steps, which have a number: ``train#5``."""
    steps = [
        {
            "start_ns": event.start_ns,
            "end_ns": event.end_ns,
            "text": f"{event.metadata.name}#{host.stats_of(event).get(_STEP)!s}",
            "domain": "",
            "range_kind": "annotation",
            "thread_id": line.line_id,
        }
        for host in hosts
        for line in host.lines
        for event in host.events_with(line, _STEP)
    ]
    if any(step["start_ns"] not in _TIMES or step["end_ns"] not in _TIMES for step in steps):
        msg = "the time of a step is too large"
        raise OverflowError(msg)
    return schema.NVTX_RANGES.table(sorted(steps, key=lambda row: row["start_ns"]))


def _amount(value: object) -> int | None:
    """A number that a column holds and that is not below 0; None for any other value."""
    try:
        amount = integer(value)
    except OverflowError:
        return None
    return amount if amount is not None and amount >= 0 else None


def _device(plane: Plane) -> dict[str, Any]:
    numbers = {name: _amount(value) for name, value in plane.stats.items()}
    major, minor = (numbers.get(f"compute_cap_{part}") for part in ("major", "minor"))
    return {
        "device_id": device_id(plane),
        "total_memory_bytes": numbers.get("memory_size"),
        "memory_bandwidth_bytes_per_s": numbers.get("memory_bandwidth"),
        "compute_capability": None if major is None else f"{major}.{minor or 0}",
        "multiprocessors": numbers.get("core_count") or None,
    }
