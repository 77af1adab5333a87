"""Which fields of a report's events are read, by the names that an export gives them.

Field 1 of an event is its type, and one message in it says what it is. Beside what stands here:
104 samples, 106 scheduling, 109 mapped files; of 107, 7 its class and 9 a green context; of
kernels, 3 the mangled name, 18 and 19 local memory, 20 the grid's number, 22 shared memory as
executed, 23 the cache's configuration, 24 how it was launched; of calls, 15 and 20 their stacks; of
ranges, 4 their number, 6 a colour, 8 a category.
"""

from collections.abc import Mapping
from typing import Final

from gpuprof.native.nsys_reports import Fields, Path
from gpuprof.readers.nsys.export_schema import (
    CUDA_EVENT,
    DIAGNOSTICS,
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    RUNTIME,
    SYNCHRONIZATION,
)

CALLS, PROCESSES = "CALLS", "PROCESSES"
_ACTIVITY: Final[Mapping[str, Path]] = {
    "start": (107, 1), "end": (107, 2), "correlationId": (107, 3), "deviceId": (107, 4),
    "contextId": (107, 5), "streamId": (107, 6), "globalPid": (107, 8),
}  # fmt: skip
_LAUNCH: Final = {
    "demangledName": 1, "shortName": 2, "gridX": 10, "gridY": 11, "gridZ": 12, "blockX": 13,
    "blockY": 14, "blockZ": 15, "staticSharedMemory": 16, "dynamicSharedMemory": 17,
    "registersPerThread": 21, "graphNodeId": 27,
}  # fmt: skip
_COPY: Final = {
    "bytes": 1, "copyKind": 2, "srcKind": 4, "dstKind": 5, "srcDeviceId": 6, "dstDeviceId": 8,
}  # fmt: skip


def _activity(message: int, columns: Mapping[str, int]) -> Fields:
    inner = {name: (107, message, number) for name, number in columns.items()}
    return Fields((107, message), {**_ACTIVITY, **inner})


LAYOUT: Final = {
    KERNEL: _activity(101, _LAUNCH),
    MEMCPY: _activity(102, _COPY),
    MEMSET: _activity(103, {"bytes": 1, "memKind": 4}),
    SYNCHRONIZATION: _activity(105, {"eventId": 1, "syncType": 4})._replace(
        older={"syncType": (107, 105, 2)}
    ),
    CUDA_EVENT: _activity(106, {"eventId": 1}),
    GRAPH_TRACE: _activity(107, {}),
    CALLS: Fields(
        (108,),
        {
            "start": (108, 1), "end": (108, 2), "correlationId": (108, 3), "eventClass": (108, 6),
            "nameId": (108, 7), "returnValue": (108, 8), "globalTid": (108, 13),
        },
    ),
    NVTX: Fields(
        (102,),
        {
            "eventType": (102, 1), "start": (102, 2), "text": (102, 7), "globalTid": (102, 9),
            "end": (102, 10), "textId": (102, 12), "domainId": (102, 13), "isInNs": (102, 14),
        },
        frozenset({"text"}),
    ),
    DIAGNOSTICS: Fields(
        (110,), {"severity": (110, 3), "text": (110, 4)}, frozenset({"text"})
    ),
    PROCESSES: Fields(
        (113,), {"globalPid": (113, 2), "command": (113, 5), "name": (113, 6)},
        frozenset({"command", "name"}),
    ),
}  # fmt: skip
# Calls are told apart by their class (``ENUM_NSYS_EVENT_CLASS`` of an export).
CUDA: Final = (0, 1)  # runtime, driver
OS: Final = (27, 31, 32)  # calls, start and end of their tracing
OF_CALLS: Final = {RUNTIME: CUDA, "PROFILER_OVERHEAD": (3,), "OSRT_API": OS}
# Ranges of this domain are calls, for which the exporter has tables. That of UCX was in no report
# at hand.
MPI: Final = "MPI"
OF_MPI: Final = "MPI_OTHER_EVENTS"
PUSH_POP, START_END, DOMAIN_CREATED = 59, 60, 75
# What some events lack; each of the others stood in all of 600,000 events of 52 reports.
OPTIONAL: Final = frozenset({
    "graphNodeId", "srcDeviceId", "dstDeviceId", "memKind", "syncType", "text", "textId",
    "command", "name", (CALLS, "correlationId"), (NVTX, "end"),
})  # fmt: skip
