"""XPlane profiles (``*.xplane.pb``) of TensorFlow and JAX: what ran on each stream of each GPU.

Written by ``tf.profiler`` from TensorFlow 2.2 and by ``jax.profiler``; times count from the
start of the profile.
Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    InputError,
    UnknownFormatError,
)
from gpuprof.base.xspace import Plane, Space, WireError, space
from gpuprof.model.profile import Origin, Profile
from gpuprof.readers.common.gunzip import MAGIC as GZIP_MAGIC
from gpuprof.readers.input_format import Reader
from gpuprof.readers.xplane import activities
from gpuprof.readers.xplane import tables as xplane_tables

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
        origin, recorded = _recorded(path, space(_content(path)))
    except (WireError, OverflowError) as error:
        msg = f"{path}: not a complete XPlane file ({error})"
        raise CorruptFileError(msg, "Was it cut short, or copied as text?") from error
    # The file is no longer in memory when the tables are made.
    tables = recorded.tables
    return Profile(replace(origin, warnings=(*origin.warnings, *recorded.notes)), tables)


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    if data.startswith(GZIP_MAGIC) or _BROWSER.match(data):
        msg = f"{path} is the profiler's excerpt for a browser, cut to a million events"
        raise UnknownFormatError(msg, "Read the .xplane.pb file beside it.")
    return data


def _recorded(path: Path, profile: Space) -> tuple[Origin, xplane_tables.Recorded]:
    gpus = [plane for plane in profile.planes if activities.GPU_PLANE.match(plane.name)]
    hosts = [plane for plane in profile.planes if plane.name.startswith(_HOST)]
    recorded = xplane_tables.recorded(gpus, hosts)
    if not len(recorded.activities):
        raise _empty(path, profile, gpus)
    origin = Origin(
        source=path,
        reader=READER.name,
        tool="xprof",
        epoch_ns=_epoch_ns(profile),
        warnings=tuple(f"The profiler reported: {t}" for t in (*profile.errors, *profile.warnings)),
        host=profile.hosts[0] or None if len(profile.hosts) == 1 else None,
    )
    return origin, recorded


def _empty(path: Path, profile: Space, gpus: Sequence[Plane]) -> EmptyRecordingError:
    reason = f": {profile.errors[0]}" if profile.errors else ""
    if gpus:
        return EmptyRecordingError(f"{path}: nothing was recorded on its GPUs{reason}", _HINT)
    if any(plane.name.startswith(_TPU) for plane in profile.planes):
        return EmptyRecordingError(f"{path} is a profile of a TPU and has no GPU activity")
    msg = f"{path} has no GPU activity: only the host was profiled{reason}"
    return EmptyRecordingError(msg, _HINT)


def _epoch_ns(profile: Space) -> int | None:
    """Unix time that times count from, which profiles tell since 2023."""
    for plane in profile.planes:
        start_ns = plane.stats.get("profile_start_time") if plane.name == _ENVIRONMENT else None
        if isinstance(start_ns, int) and start_ns in _TIMES:
            return start_ns
    return None


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
