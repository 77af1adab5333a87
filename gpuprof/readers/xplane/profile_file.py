"""XPlane profiles (``*.xplane.pb``) of TensorFlow and JAX: what ran on each stream of each GPU.

Written by ``tf.profiler`` from TensorFlow 2.2 and by ``jax.profiler``; times count from the
start of the profile.
Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    InputError,
    UnknownFormatError,
)
from gpuprof.base.json_input import integer
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.native.xspace import Plane, WireError, space
from gpuprof.readers.common import vague_copies
from gpuprof.readers.common.compact_columns import Lexicon, gathered, listed, narrowed_part
from gpuprof.readers.common.gunzip import MAGIC as GZIP_MAGIC
from gpuprof.readers.input_format import Reader
from gpuprof.readers.xplane.event_columns import batches
from gpuprof.readers.xplane.gpu_activities import (
    GPU_PLANE,
    HIP_CALLS_PLANE,
    Chosen,
    GpuActivities,
    device_id,
    hip_call_name,
    hip_directions,
    is_of_rocm,
    numbers,
)

_API_CALL: Final = re.compile(rb"\x12.(?:cu(?:da)?[A-Z]|(?:__)?hip[A-Z])", re.DOTALL)
_STEP: Final = "step_num"
_STEP_TIMES_NS: Final = range(-(1 << 63), 1 << 63)
_HOST: Final = "/host:"
_TPU: Final = "/device:TPU"
_ENVIRONMENT: Final = "Task Environment"
# Any other number is not nanoseconds since 1970.
_EPOCHS_NS: Final = range(1 << 62)
_HINT: Final = "Record again where the profiler finds CUPTI, with work on the GPU in between."
# A first plane whose name follows its length, at once or after the plane's number.
_FIRST_PLANE: Final = re.compile(
    rb"\n[\x00-\xff]{1,12}?\x12.(?:/host:|/device:|Task Environment)", re.DOTALL
)
_BROWSER: Final = re.compile(rb'^\{"displayTimeUnit":"ns","metadata":\{"highres-ticks":true\}')


def read(path: Path) -> Profile:
    """Read the profile of one host.

    Raises:
        InputError: The file cannot be read.
        CorruptFileError: It breaks off, or its bytes were changed on the way.
        EmptyRecordingError: No activity of a GPU is in it.
    """
    try:
        origin, gpus, make_tables = _recorded(path)
    except (WireError, OverflowError) as error:
        msg = f"{path}: not a complete XPlane file ({error})"
        raise CorruptFileError(msg, "Was it cut short, or copied as text?") from error
    # The file is no longer in memory when the tables are made.
    recorded, notes = make_tables()
    origin = replace(origin, warnings=(*origin.warnings, *notes))
    return Profile(origin, recorded | {"devices": gpus})


def _recorded(
    path: Path,
) -> tuple[Origin, pa.Table, Callable[[], tuple[dict[str, pa.Table], list[str]]]]:
    """What is read of the file itself; the tables of activities are made when they are called."""
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    if data.startswith(GZIP_MAGIC) or _BROWSER.match(data):
        msg = f"{path} is the profiler's excerpt for a browser, cut to a million events"
        raise UnknownFormatError(msg, "Read the .xplane.pb file beside it.")
    profile = space(data)
    gpus = [plane for plane in profile.planes if GPU_PLANE.match(plane.name)]
    hosts = [plane for plane in profile.planes if plane.name.startswith(_HOST)]
    is_rocm = is_of_rocm(gpus, hosts)
    activities, calls, ranges = GpuActivities(gpus), api_calls(hosts), steps(hosts)
    if not len(activities):
        reason = f": {profile.errors[0]}" if profile.errors else ""
        if not gpus and any(plane.name.startswith(_TPU) for plane in profile.planes):
            msg = f"{path} is a profile of a TPU and has no GPU activity"
            raise EmptyRecordingError(msg)
        nothing = "has no GPU activity: only the host was profiled"
        msg = f"{path}: nothing was recorded on its GPUs" if gpus else f"{path} {nothing}"
        raise EmptyRecordingError(msg + reason, _HINT)
    # Profiles tell since 2023 which Unix time their times count from.
    environments = (plane.stats for plane in profile.planes if plane.name == _ENVIRONMENT)
    starts = (stats.get("profile_start_time") for stats in environments)
    origin = Origin(
        source=path,
        reader=READER.name,
        tool="xprof",
        epoch_ns=next((s for s in starts if isinstance(s, int) and s in _EPOCHS_NS), None),
        warnings=tuple(f"The profiler reported: {t}" for t in (*profile.errors, *profile.warnings)),
        host=profile.hosts[0] or None if len(profile.hosts) == 1 else None,
    )
    make_tables = partial(tables, activities, calls, ranges, is_rocm=is_rocm)
    return origin, devices(gpus), make_tables


def tables(
    activities: GpuActivities, calls: pa.Table, ranges: pa.Table, *, is_rocm: bool
) -> tuple[dict[str, pa.Table], list[str]]:
    """The tables of activities, calls and steps, and what a reader of the numbers must know."""
    if is_rocm:
        directions = hip_directions(calls)
        copies = activities.memcpys_of_rocm(directions)
    else:
        directions, copies = {}, activities.memcpys()
    recorded = {
        "kernels": data_model.KERNELS.narrow(activities.kernels()),
        "memcpys": data_model.MEMCPYS.narrow(copies),
        "memsets": data_model.MEMSETS.narrow(activities.memsets()),
        "nvtx_ranges": ranges,
    }
    # These two are there only where the profiler was told to, and in newer versions.
    optional = {
        "graph_launches": data_model.GRAPH_LAUNCHES.narrow(activities.graph_launches()),
        "api_calls": calls,
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
    return data_model.DEVICES.table(rows)


def api_calls(hosts: Iterable[Plane]) -> pa.Table:
    """The host's calls.

    Raises:
        WireError: An event breaks off.
    """
    names, parts = Lexicon(), []
    for host in hosts:
        is_of_hip = host.name == HIP_CALLS_PLANE
        kinds = None if is_of_hip else host.event_metadata_with(_API_CALL)
        for line in host.lines if kinds is None or kinds else ():
            for batch in batches(host, line, ("correlation_id",), kinds):
                part = {
                    "start_ns": batch.start_ns,
                    "duration_ns": batch.duration_ns,
                    "name": batch.names(names, hip_call_name if is_of_hip else str),
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
    return data_model.API_CALLS.narrow(table)


def steps(hosts: Iterable[Plane]) -> pa.Table:
    """The script's steps, which have a number: ``train#5``."""
    rows = [
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
    if any(
        step["start_ns"] not in _STEP_TIMES_NS or step["end_ns"] not in _STEP_TIMES_NS
        for step in rows
    ):
        msg = "the time of a step is too large"
        raise OverflowError(msg)
    return data_model.NVTX_RANGES.table(sorted(rows, key=lambda row: row["start_ns"]))


def _amount(value: object) -> int | None:
    """A number that a column holds and that is not below 0; None for any other value."""
    try:
        amount = integer(value)
    except OverflowError:
        return None
    return amount if amount is not None and amount >= 0 else None


_GIVES: Final = (
    "kernels", "memcpys", "memsets", "graph_launches", "api_calls", "nvtx_ranges", "devices",
)  # fmt: skip
READER: Final = Reader(
    name="xplane",
    title="TensorFlow and JAX profiles (.xplane.pb)",
    versions="TensorFlow 2.2 and JAX 0.2 to today, on CUDA and ROCm",
    gives=_GIVES,
    cannot=(
        "Processes and ranges other than numbered steps are not recorded, nor are kinds of memory "
        "before 2021."
    ),
    read=read,
    recognises=lambda head: bool(_FIRST_PLANE.match(head) or _BROWSER.match(head)),
)
