"""Which NVIDIA GPUs are here, from the driver's own library; no tool needs to be installed."""

import ctypes
import re
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

_LIBRARY: Final = "libcuda.so.1"
_DRIVER_FILE: Final = Path("/proc/driver/nvidia/version")
# CUdevice_attribute of cuda.h.
_MAJOR: Final = 75
_MINOR: Final = 76
_NAME_BYTES: Final = 256


class Gpu(NamedTuple):
    """One GPU; the compute capability as (major, minor)."""

    name: str
    compute_capability: tuple[int, int]
    total_memory_bytes: int


@cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs that a program started here would see; none without NVIDIA's driver."""
    cuda = _driver()
    count = ctypes.c_int()
    if cuda is None or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    listed = []
    for ordinal in range(count.value):
        name = ctypes.create_string_buffer(_NAME_BYTES)
        major, minor, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
        cuda.cuDeviceGetName(name, _NAME_BYTES, ordinal)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, ordinal)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, ordinal)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), ordinal)
        capability = major.value, minor.value
        listed.append(Gpu(name.value.decode(errors="replace"), capability, memory.value))
    return tuple(listed)


def described_gpus() -> tuple[dict[str, Any], ...]:
    """The GPUs as the manifest lists them; the compute capability such as "7.5"."""
    return tuple(
        {**gpu._asdict(), "compute_capability": "{}.{}".format(*gpu.compute_capability)}
        for gpu in gpus()
    )


def has_driver() -> bool:
    """Whether NVIDIA's driver is here."""
    return _driver() is not None


def driver_version() -> str | None:
    """The version of NVIDIA's driver, such as 550.54.15; None where there is none."""
    return found_in(r"Kernel Module.*?(\d+\.\d+(?:\.\d+)?)", _DRIVER_FILE)


def found_in(pattern: str, path: Path) -> str | None:
    """What a pattern finds first in a file of the kernel; None where it is not there."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA that the driver runs, such as (12, 4); None where there is no driver."""
    cuda, version = _driver(), ctypes.c_int()
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(version)):
        return None
    # 1000 * major + 10 * minor, as cuda.h says.
    return version.value // 1000, version.value % 1000 // 10


def peers() -> dict[tuple[int, int], bool]:
    """Whether one GPU can reach another's memory directly, for each two of `gpus`."""
    cuda, can, reaches = _driver(), ctypes.c_int(), {}
    for pair in permutations(range(len(gpus())), 2):
        is_known = not cuda.cuDeviceCanAccessPeer(ctypes.byref(can), *pair)
        reaches[pair] = is_known and bool(can.value)
    return reaches


def why_no_gpu() -> str:
    """Why a profiler can have seen no GPU work, in a few words."""
    if _driver() is None:
        return "no NVIDIA driver here"
    return "the program ran no kernel and copied nothing" if gpus() else "no NVIDIA GPU here"


def _driver() -> Any:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
