"""The tables of an XPlane profile, from the planes of its GPUs and hosts."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.base.json_values import integer
from gpuprof.model import schema
from gpuprof.native.xspace import Plane
from gpuprof.readers.common import vague_copies
from gpuprof.readers.common.compact_columns import (
    Lexicon,
    gathered,
    listed,
    narrowed_part,
)
from gpuprof.readers.xplane import hip_names
from gpuprof.readers.xplane.event_columns import batches
from gpuprof.readers.xplane.gpu_activities import Chosen, GpuActivities, device_id, numbers

_API_CALL: Final = re.compile(rb"\x12.(?:cu(?:da)?[A-Z]|(?:__)?hip[A-Z])", re.DOTALL)
_STEP: Final = "step_num"
_TIMES: Final = range(-(1 << 63), 1 << 63)


def tables(
    activities: GpuActivities, api_calls: pa.Table, steps: pa.Table, *, is_rocm: bool
) -> tuple[dict[str, pa.Table], list[str]]:
    """The tables of activities, calls and steps, and what a reader of the numbers must know."""
    if is_rocm:
        directions = hip_names.directions(api_calls)
        copies = activities.memcpys_of_rocm(directions)
    else:
        directions, copies = {}, activities.memcpys()
    recorded = {
        "kernels": schema.KERNELS.narrow(activities.kernels()),
        "memcpys": schema.MEMCPYS.narrow(copies),
        "memsets": schema.MEMSETS.narrow(activities.memsets()),
        "nvtx_ranges": steps,
    }
    # These two are there only where the profiler was told to, and in newer versions.
    optional = {
        "graph_launches": schema.GRAPH_LAUNCHES.narrow(activities.graph_launches()),
        "api_calls": api_calls,
    }
    recorded |= {name: table for name, table in optional.items() if table.num_rows}
    if not is_rocm:
        return recorded, []
    kinds, ids = (listed(copies[n].combine_chunks()) for n in ("memcpy_kind", "correlation_id"))
    local = [-1 if n is None else n for k, n in zip(kinds, ids, strict=True) if k == "DtoD"]
    return recorded, [*vague_copies.notes(local, directions.keys(), activities.devices)]


def devices(gpus: Sequence[Plane]) -> pa.Table:
    """The GPUs that the profiler saw, whether they were used or not."""
    rows = []
    for plane in gpus:
        plane_stats = {name: _amount(value) for name, value in plane.stats.items()}
        major, minor = (plane_stats.get(f"compute_cap_{part}") for part in ("major", "minor"))
        row = {
            "device_id": device_id(plane),
            "total_memory_bytes": plane_stats.get("memory_size"),
            "memory_bandwidth_bytes_per_s": plane_stats.get("memory_bandwidth"),
            "compute_capability": None if major is None else f"{major}.{minor or 0}",
            "multiprocessors": plane_stats.get("core_count") or None,
        }
        rows.append(row)
    return schema.DEVICES.table(rows)


def api_calls(hosts: Iterable[Plane]) -> pa.Table:
    """The host's calls.

    Raises:
        WireError: An event breaks off.
    """
    names, parts = Lexicon(), []
    for host in hosts:
        is_of_hip = host.name == hip_names.CALLS_PLANE
        kinds = None if is_of_hip else host.event_metadata_with(_API_CALL)
        for line in host.lines if kinds is None or kinds else ():
            for batch in batches(host, line, ("correlation_id",), kinds):
                part = {
                    "start_ns": batch.start_ns,
                    "duration_ns": batch.duration_ns,
                    "name": batch.names(names, hip_names.call_name if is_of_hip else str),
                    "thread_id": np.full(len(batch), line.line_id),
                    **numbers(batch, ("correlation_id",)),
                }
                parts.append(narrowed_part(part))
    columns = gathered(parts)
    is_chosen = np.ones(len(columns.get("name", ())), np.bool_)
    calls = Chosen(columns, {"name": names.texts}, is_chosen)
    start_ns = calls.column("start_ns")
    table = pa.table(
        {
            "start_ns": pa.array(start_ns),
            "end_ns": pa.array(start_ns + calls.column("duration_ns")),
            "api": calls.names.mapped(cuda.api).array(pa.string()),
            "name": calls.names.array(pa.string()),
            "thread_id": pa.array(calls.column("thread_id")),
            "correlation_id": calls.number("correlation_id"),
        }
    )
    return schema.API_CALLS.narrow(table)


def steps(hosts: Iterable[Plane]) -> pa.Table:
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
