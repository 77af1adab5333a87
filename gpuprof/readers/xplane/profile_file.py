"""XPlane profiles (``*.xplane.pb``) of TensorFlow and JAX: what ran on each stream of each GPU.

Written by ``tf.profiler`` from TensorFlow 2.2 and by ``jax.profiler``; times count from the
start of the profile.
Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    InputError,
    UnknownFormatError,
)
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.native.xspace import WireError, space
from gpuprof.readers.common.gunzip import MAGIC as GZIP_MAGIC
from gpuprof.readers.input_format import Reader
from gpuprof.readers.xplane import hip_names, plane_tables
from gpuprof.readers.xplane.gpu_activities import GPU_PLANE, GpuActivities

_HOST: Final = "/host:"
_TPU: Final = "/device:TPU"
_ENVIRONMENT: Final = "Task Environment"
# Any other number is not nanoseconds since 1970.
_TIMES: Final = range(1 << 62)
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
        origin, devices, make_tables = _recorded(path)
    except (WireError, OverflowError) as error:
        msg = f"{path}: not a complete XPlane file ({error})"
        raise CorruptFileError(msg, "Was it cut short, or copied as text?") from error
    # The file is no longer in memory when the tables are made.
    tables, notes = make_tables()
    origin = replace(origin, warnings=(*origin.warnings, *notes))
    return Profile(origin, tables | {"devices": devices})


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
    is_rocm = hip_names.is_rocm(gpus, hosts)
    activities, api_calls = GpuActivities(gpus), plane_tables.api_calls(hosts)
    steps = plane_tables.steps(hosts)
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
        epoch_ns=next((s for s in starts if isinstance(s, int) and s in _TIMES), None),
        warnings=tuple(f"The profiler reported: {t}" for t in (*profile.errors, *profile.warnings)),
        host=profile.hosts[0] or None if len(profile.hosts) == 1 else None,
    )
    tables = partial(plane_tables.tables, activities, api_calls, steps, is_rocm=is_rocm)
    return origin, plane_tables.devices(gpus), tables


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
