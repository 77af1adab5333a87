"""XPlane profiles of ROCm: HIP's names of activities, and directions that only the calls tell.

With roctracer a copy is ``CopyDeviceToDevice`` on a line such as ``Stream #3(MemcpyOther)``, with
``kind:Unknown size:655360 dest:0 async:1`` as its details, of which ``dest`` is no number of HIP's.
Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/rocm_tracer_v1.cc and
rocm_collector.cc.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.native.xspace import Plane
from gpuprof.readers.common.compact_columns import Coded, Flags, Integers, coded, listed

# The plane of HIP calls. In versions with roctracer, launching calls have the names of their
# kernels, so the name of the call is unknown.
CALLS_PLANE: Final = "/host:ROCTRACER"
LAUNCH: Final = "hip*LaunchKernel"
# Kernels that HIP's runtime copies and fills with.
RUNTIME_KERNEL: Final = "__amd_rocclr_"

_VENDOR: Final = "AMD"
# What a copy of pinned memory may be called.
_VAGUE: Final = frozenset({"DtoD", cuda.UNKNOWN})
_KINDS: Final = [*cuda.MEMCPY_KINDS.values()]


def is_rocm(gpus: Iterable[Plane], hosts: Iterable[Plane]) -> bool:
    """Whether a profile is of ROCm; old ones do not name the vendor of a device."""
    is_of_amd = any(plane.stats.get("device_vendor") == _VENDOR for plane in gpus)
    return is_of_amd or any(plane.name == CALLS_PLANE for plane in hosts)


def call_name(name: str) -> str:
    """The name of a call in the plane of calls, where launches have the names of kernels."""
    return name if cuda.is_hip_call(name) else LAUNCH


def directions(api_calls: pa.Table) -> dict[int, str]:
    """The memcpy kinds that calls ask for, by their correlation id."""
    if not {"name", "correlation_id"} <= set(api_calls.column_names):
        return {}
    names, ids = (listed(api_calls[n].combine_chunks()) for n in ("name", "correlation_id"))
    kinds = {name: cuda.hip_call_kind(name) for name in set(names)}
    pairs = zip(ids, map(kinds.get, names), strict=True)
    return {number: kind for number, kind in pairs if number is not None and kind is not None}


def as_requested(
    kinds: Coded, ids: Integers, has_id: Flags, directions: Mapping[int, str]
) -> Coded:
    """The kinds of copies, where they are vague as their calls tell them."""
    numbers = np.array([_KINDS.index(kind) for kind in kinds.values], np.int64)[kinds.codes]
    for row in np.flatnonzero(kinds.are(*_VAGUE) & has_id):
        kind = directions.get(int(ids[row]))
        numbers[row] = numbers[row] if kind is None else _KINDS.index(kind)
    return coded(_KINDS, numbers)
