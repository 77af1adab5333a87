"""What tables and columns an export of Nsight Systems has, of those that are read.

The same tables come as SQLite, Parquet and Arrow files. They appear only with data, and
their columns grow with versions (2019.5 to 2026.2).
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT: Final = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
GRAPH_TRACE: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX: Final = "NVTX_EVENTS"
OVERHEADS: Final = {"PROFILER_OVERHEAD": "profiler", "CUPTI_ACTIVITY_KIND_OVERHEAD": "cuda"}
# Table -> the library whose calls it holds.
HOST_CALLS: Final = {
    **dict.fromkeys((f"MPI_{kind}_EVENTS" for kind in ("P2P", "COLLECTIVES", "OTHER")), "mpi"),
    "MPI_START_WAIT_EVENTS": "mpi",
    **dict.fromkeys(("UCP_EVENTS", "UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS"), "ucx"),
    "OSRT_API": "os",
}
# Table -> what touched the pages.
PAGE_FAULTS: Final = {f"CUDA_UM_{p.upper()}_PAGE_FAULT_EVENTS": p for p in ("gpu", "cpu")}
GPU_METRICS: Final = "GPU_METRICS"
METRIC_NAMES: Final = "TARGET_INFO_GPU_METRICS"
MEMORY_USAGE: Final = "CUDA_GPU_MEMORY_USAGE_EVENTS"
MEMORY_OPERATIONS: Final = "ENUM_CUDA_DEV_MEM_EVENT_OPER"
STRINGS: Final = "StringIds"
EVENT_CLASSES: Final = "ENUM_NSYS_EVENT_CLASS"
GPUS: Final = ("TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_GPU")
# Warnings and errors of nsys on the quality of a recording, by their severity.
DIAGNOSTICS: Final = "DIAGNOSTIC_EVENT"
WARNING, ERROR = 2, 3
PROCESSES: Final = ("TARGET_INFO_CUDA_STREAM", "TARGET_INFO_CUDA_CONTEXT_INFO")
# Activities of the GPU, whose times CUPTI may fail to collect.
TIMED: Final = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
EVENTS: Final = (*TIMED, RUNTIME, NVTX)
# The columns without which a table says nothing.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    KERNEL: ("start", "end"),
    MEMCPY: ("start", "end", "bytes", "copyKind"),
    MEMSET: ("start", "end"),
    RUNTIME: ("start", "end", "nameId"),
    SYNCHRONIZATION: ("start", "end"),
    CUDA_EVENT: ("eventId", "correlationId"),
    GRAPH_TRACE: ("start", "end"),
    NVTX: ("start", "end", "eventType"),
    STRINGS: ("id", "value"),
}
# Names of all tables that a profile is made from, as patterns of `nsys export --tables`.
USED: Final = (
    *NEEDED,
    *GPUS,
    *PROCESSES,
    *OVERHEADS,
    *HOST_CALLS,
    *PAGE_FAULTS,
    GPU_METRICS,
    METRIC_NAMES,
    MEMORY_USAGE,
    MEMORY_OPERATIONS,
    "PROCESSES",
    DIAGNOSTICS,
    "META_DATA_EXPORT",
    "META_DATA_CAPTURE",
    "EXPORT_META_DATA",
    "TARGET_INFO_SESSION_START_TIME",
    "ENUM_CUDA_MEMCPY_OPER",
    "ENUM_CUDA_MEM_KIND",
    EVENT_CLASSES,
)
# With --cudabacktrace, rows of this class repeat calls of others to carry their stacks.
BACKTRACE: Final = "TRACE_PROCESS_EVENT_CUDABACKTRACE"
BACKTRACE_CLASS: Final = 67
# The types of the columns that are read, by their names; a MEMSET's "value" is another one.
_TEXTS: Final = ("value", "name", "text", "busLocation", "pciBusId", "utcTime", "metricName")
_NUMBERS: Final = (
    "start", "end", "id", "bytes", "copyKind", "nameId", "eventType", "demangledName", "shortName",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
    "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId", "graphExecId",
    "deviceId", "contextId", "streamId", "correlationId", "globalPid", "globalTid", "srcKind",
    "dstKind", "memKind", "srcDeviceId", "dstDeviceId", "syncType", "domainId", "textId", "cudaId",
    "pid", "processId", "gpuId", "totalMemory", "globalMemorySize", "memoryBandwidth",
    "globalMemoryBandwidth", "clockRate", "computeMajor", "computeMinor", "smMajor", "smMinor",
    "computeCapabilityMajor", "computeCapabilityMinor", "smCount", "numMultiprocessors", "severity",
    "utcEpochNs",
    "eventClass", "returnValue", "eventId", "numberOfPageFaults", "typeId", "metricId",
    "memoryOperationType", "address",
)  # fmt: skip
_OF_ACTIVITIES: Final = dict.fromkeys(_NUMBERS, pa.int64()) | {"text": pa.string()}
KINDS: Final = (
    dict.fromkeys(USED, _OF_ACTIVITIES | dict.fromkeys(_TEXTS, pa.string()))
    | dict.fromkeys(
        (*EVENTS, SYNCHRONIZATION, CUDA_EVENT, *OVERHEADS, *HOST_CALLS, *PAGE_FAULTS),
        _OF_ACTIVITIES,
    )
    | {GPU_METRICS: dict.fromkeys(("timestamp", "typeId", "metricId", "value"), pa.int64())}
)
# How exports of nsys and databases of nvprof name what a kernel was launched with.
KERNEL_COLUMNS: Final = {
    **{f"{size}_{axis.lower()}": f"{size}{axis}" for size in ("grid", "block") for axis in "XYZ"},
    "registers_per_thread": "registersPerThread",
    "static_shared_memory_bytes": "staticSharedMemory",
    "dynamic_shared_memory_bytes": "dynamicSharedMemory",
}
