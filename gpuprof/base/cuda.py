"""The words of CUDA and CUPTI, with those of HIP: kinds, labels, calls, communication kernels.

Sources: CUPTI's ``CUpti_ActivityMemcpyKind`` and ``CUpti_ActivityMemoryKind``, and the tables
``ENUM_CUDA_MEMCPY_OPER`` and ``ENUM_CUDA_MEM_KIND`` inside exports of Nsight Systems. Of HIP:
``hipMemcpyKind`` and the calls of hip_runtime_api.h; ROCclr's names of operations
(https://github.com/ROCm/clr, rocclr/platform/activity.cpp), which roctracer's records bear; and
``rocprofiler_memory_copy_operation_t`` of rocprofiler-sdk.
"""

import re
from functools import lru_cache
from typing import Final

UNKNOWN: Final = "unknown"

# Kinds 0 to 10 are CUPTI's; 11 to 13 exist in Nsight Systems only.
MEMCPY_KINDS: Final = {
    0: UNKNOWN,
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UVM_HtoD",
    12: "UVM_DtoH",
    13: "UVM_DtoD",
}

# The two tools number memory kinds differently: a shared table would call every pageable
# copy of an nvprof file "pinned".
NSYS_MEMORY_KINDS: Final = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device_static",
    6: "managed_static",
    7: UNKNOWN,
}
# What CUPTI numbers as a wait's kind (CUpti_ActivitySynchronizationType).
SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
CUPTI_MEMORY_KINDS: Final = {
    0: UNKNOWN,
    1: "pageable",
    2: "pinned",
    3: "device",
    4: "array",
    5: "managed",
    6: "device_static",
    7: "managed_static",
}
_MEMORY_KINDS: Final = frozenset(CUPTI_MEMORY_KINDS.values())

# On one device these stay inside its memory; between two devices DtoD is peer traffic.
LOCAL_MEMCPY_KINDS: Final = frozenset({"DtoD", "DtoA", "AtoD", "AtoA", "HtoH"})
HOST_MEMCPY_KINDS: Final = frozenset({"HtoD", "DtoH", "HtoA", "AtoH", "UVM_HtoD", "UVM_DtoH"})
PEER_MEMCPY_KINDS: Final = frozenset({"PtoP", "UVM_DtoD"})

_SHORT: Final = r"(?:HtoD|DtoH|DtoD|PtoP|HtoA|AtoH|AtoA|AtoD|DtoA|HtoH)"
_LONG: Final = r"(?:Host|Device|Peer|Array)-to-(?:Host|Device|Peer|Array)"
_MEMCPY_LABEL: Final = re.compile(
    rf"^\[(CUDA|Unified)\s+(Unified\s+)?(Memory\s+)?[Mm]emcpy\s+(Unified\s+)?({_SHORT}|{_LONG})\]$"
)
_MEMSET_LABEL: Final = re.compile(r"^\[CUDA (?:Unified Memory )?[Mm]emset\]$")

# Operations of HIP, and the kernels that its runtime copies and fills with where no engine does.
_HIP_MEMCPY: Final = re.compile(
    r"^(?:Copy(Host|Device)To(Host|Device)(?:2D|(Peer))?"
    r"|MEMORY_COPY_(HOST|DEVICE)_TO_(HOST|DEVICE))$"
)
_HIP_OTHER_MEMCPY: Final = re.compile(
    r"^(?:Copy(?:Image|ImageToBuffer|BufferToImage)|SvmMemcpy|MEMORY_COPY_NONE"
    r"|__amd_rocclr_copy\w*)(?:\.kd)?$"
)
_HIP_MEMSET: Final = re.compile(r"^(?:FillBuffer|SvmMemFill|__amd_rocclr_fill\w*)(?:\.kd)?$")
_HIP_NO_WORK: Final = frozenset(
    {"Marker", "InternalMarker", "Barrier", "StreamWait", "StreamWrite"}
)
_HIP_MEMCPY_KINDS: Final = {0: "HtoH", 1: "HtoD", 2: "DtoH", 3: "DtoD", 1024: "DtoD"}
_HIP_CALL: Final = re.compile(r"^(?:__)?hip[A-Z]\w*$")
_HIP_COPY_CALL: Final = re.compile(r"^hipMemcpy([HDA]to[HDA])?(Peer)?")

# Calls that return when work on a device has ended; synchronous copies wait as well.
_WAITING_CALLS: Final = re.compile(
    r"Synchronize|(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol|Peer)?$|(cuda|hip)Memset$"
    r"|cuMemcpy(HtoD|DtoH|DtoD)?(_v2)?$|hipMemcpy(HtoD|DtoH|DtoD|HtoA|AtoH|WithStream)$"
    r"|(cuda|hip)Free$|cuMemFree(_v2)?$"
)
# Calls that put work onto a device.
LAUNCHING_CALLS: Final = re.compile(r"^(?:cu|cuda|hip)[A-Z]?\w*(?:Launch|Memcpy|Memset)")
# Those of single kernels, which leave one unless the stream is captured as a graph.
KERNEL_LAUNCHES: Final = re.compile(r"^(?:cu|cuda|hip)[A-Za-z]*Launch(?:Cooperative)?Kernel")
BEGINS_CAPTURE: Final = re.compile(r"^(?:cu|cuda|hip)[A-Za-z]*BeginCapture")

# Kernels that move data between devices: NCCL in its three naming generations, RCCL, which has
# taken over NCCL's names, and the custom all-reduce kernels of inference servers.
_COMMUNICATION: Final = re.compile(
    r"\bnccl\w*kernel|\bncclsym|\brccl|msccl|cross_device_reduce|nvshmem|rocshmem"
    r"|(?:one|two)_?shot_?all_?reduce|all_?reduce_|allreduce_kernel|quickreduce::",
    re.IGNORECASE,
)
_REDUCTIONS: Final = ("allreduce", "all_reduce", "device_reduce", "quickreduce")


def memcpy_kind(label: str) -> str | None:
    """The memcpy kind that a label names, or None where the label is no copy's.

    Accepts every spelling that nvprof and Nsight Systems print: ``[CUDA memcpy HtoD]``,
    ``[CUDA memcpy Host-to-Device]``, ``[CUDA Unified Memory memcpy HtoD]``,
    ``[CUDA memcpy Unified Host-to-Device]``, ``[Unified Memory Memcpy HtoD]``.
    """
    match = _MEMCPY_LABEL.match(label)
    if match is None:
        return UNKNOWN if label.lower().startswith("[cuda memcpy") else None
    ends = match[5] if "-" not in match[5] else f"{match[5][0]}to{match[5].split('-to-')[1][0]}"
    unified = match[1] == "Unified" or match[2] or match[4]
    return f"UVM_{ends}" if unified else ends


def is_memset(label: str) -> bool:
    """Whether a label of nvprof or Nsight Systems names a memset."""
    return _MEMSET_LABEL.match(label) is not None


def memory_kind(words: str | None) -> str | None:
    """``Device Static``, in any case, as the data model's ``device_static``."""
    if words is None:
        return None
    kind = words.lower().replace(" ", "_")
    return kind if kind in _MEMORY_KINDS else UNKNOWN


def hip_memcpy_kind(name: str) -> str | None:
    """The memcpy kind that an operation of HIP names, or None where it is no copy.

    ``CopyDeviceToDevice`` is what ROCclr knows: pinned memory of the host is a device's to it
    (https://github.com/ROCm/roctracer/issues/45). See `hip_call_kind`.
    """
    match = _HIP_MEMCPY.match(name)
    if match is None:
        return UNKNOWN if _HIP_OTHER_MEMCPY.match(name) else None
    if match[3]:
        return "PtoP"
    source, target = match[1] or match[4], match[2] or match[5]
    return f"{source[0]}to{target[0]}"


def is_hip_memset(name: str) -> bool:
    """Whether an operation of HIP is a memset."""
    return _HIP_MEMSET.match(name) is not None


def is_hip_order(name: str) -> bool:
    """Whether an operation of HIP only orders others: a marker or a barrier."""
    return name in _HIP_NO_WORK


def hip_call_kind(name: str, kind: int | None = None) -> str | None:
    """The memcpy kind that a call of HIP asks for.

    Args:
        name: The call's.
        kind: Its argument, as in ``hipMemcpyKind``; None where unknown.

    Returns:
        None where it is no copy, or does not say.
    """
    match = _HIP_COPY_CALL.match(name)
    if match is None:
        return None
    return "PtoP" if match[2] else match[1] or _HIP_MEMCPY_KINDS.get(-1 if kind is None else kind)


def is_hip_call(name: str) -> bool:
    """Whether a call is one of HIP's API: ``hipLaunchKernel``, ``__hipPushCallConfiguration``."""
    return _HIP_CALL.match(name) is not None


def api(name: str) -> str:
    """Which API a call is of; HIP has but one."""
    return "runtime" if name.startswith(("cuda", "hip", "__hip")) else "driver"


@lru_cache(1 << 14)  # files of one job have the same names
def is_communication(kernel_name: str) -> bool:
    """Whether a kernel moves data between devices (such as NCCL) instead of computing."""
    # Most names have none of the words that the alternatives need: a tenth of the time.
    name = kernel_name.lower()
    may_be = "ccl" in name or "shmem" in name
    if not may_be and "reduce" in name:
        may_be = any(word in name for word in _REDUCTIONS)
    return may_be and _COMMUNICATION.search(kernel_name) is not None


# Transfers per second of one lane, in one direction, and the share that line coding leaves:
# 8b/10b, 128b/130b, and the flits of PCIe 6, with 242 bytes of data in 256.
_PCIE_LANES: Final = {
    1: (2_500_000_000, 8, 10),
    2: (5_000_000_000, 8, 10),
    3: (8_000_000_000, 128, 130),
    4: (16_000_000_000, 128, 130),
    5: (32_000_000_000, 128, 130),
    6: (64_000_000_000, 242, 256),
}


@lru_cache(1 << 14)
def is_waiting(name: str) -> bool:
    """Whether an API call returns when work on a device has ended."""
    return _WAITING_CALLS.search(name) is not None


def pcie_bytes_per_s(generation: int, lanes: int) -> int | None:
    """Peak of a PCIe link in one direction, before packet headers; None where not known.

    Source: PCI-SIG's base specifications, as summed up in https://pcisig.com/faq: 2.5, 5, 8, 16,
    32 and 64 GT/s for generations 1 to 6.
    """
    if generation not in _PCIE_LANES or lanes <= 0:
        return None
    rate, data, coded = _PCIE_LANES[generation]
    return rate * lanes * data // (8 * coded)
