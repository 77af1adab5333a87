"""Allocations and releases of memory (``nsys --cuda-memory-usage=true``).

CUPTI reports what is asked of CUDA, so an allocator that keeps blocks, such as PyTorch's, counts
with what it took. Host memory is that which CUDA allocated. Managed memory counts with the device
that it was allocated for, wherever its pages are.
Source: the export's own enums, and CUpti_ActivityMemory4 (https://docs.nvidia.com/cupti).
"""

from typing import Final

import numpy as np

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import pair_places
from gpuprof.model.table import Computed, Part
from gpuprof.readers.nsys.columns import (
    PROCESS,
    Columns,
    Export,
    Numbers,
    as_computed,
    columns_at_once,
    in_machine,
    low_bits,
    part,
)
from gpuprof.readers.nsys.export_schema import MEMORY_OPERATIONS, MEMORY_USAGE, RUNTIME

_OF_HOST: Final = {"pageable", "pinned"}
# The number of a release where the file does not name its own.
_RELEASE: Final = (1,)


def memory_events(of: Export) -> Part:
    """Every allocation and release, with the thread of the call that it was part of."""
    columns: Columns = {
        "start_ns": "start",
        "process_id": PROCESS,
        "device_id": _device(of),
        "bytes": _signed_bytes(of),
        "address": "address",
    }
    if of.has(RUNTIME, "globalTid", "correlationId"):
        columns["thread_id"] = _thread(of)
    # The threads are looked up for all rows at once.
    return part(of, MEMORY_USAGE, columns, is_whole=lambda: True)


def _device(of: Export) -> Computed | str:
    """Its number in the machine; unknown for memory of the host."""
    device = as_computed(in_machine(of, MEMORY_USAGE, "deviceId"))
    host_kinds = [number for number, kind in of.memory_kinds.items() if kind in _OF_HOST]

    def make(kind: Numbers, *columns: Numbers) -> Numbers:
        numbers = device.make(*columns) if device.make else columns[0]
        return np.where(np.isin(kind, host_kinds), UNKNOWN, numbers)

    return Computed(("memKind", *device.reads), make) if of.has(MEMORY_USAGE, "memKind") else device


def _signed_bytes(of: Export) -> Computed:
    operations = of.select(MEMORY_OPERATIONS, id=int, name=str)
    named = [number for number, name in operations if name.endswith("_DEALLOCATION")]

    def make(size: Numbers, operation: Numbers) -> Numbers:
        return np.where(np.isin(operation, named or _RELEASE), -size, size)

    return Computed(("bytes", "memoryOperationType"), make)


def _thread(of: Export) -> Computed:
    def make(process: Numbers, call: Numbers) -> Numbers:
        thread, calls = columns_at_once(of.stored(RUNTIME), ["globalTid", "correlationId"])
        is_asked = np.isin(calls, call)
        thread, calls = thread[is_asked], calls[is_asked]
        order = np.lexsort((calls, low_bits(24)(thread)))
        thread, calls = thread[order], calls[order]
        pairs = np.stack([low_bits(24)(thread), calls]).astype(np.int64)
        place = pair_places(pairs, low_bits(24)(process), call)
        # What is not found has the last place.
        return np.append(low_bits(0)(thread), UNKNOWN)[place]

    return Computed(("globalPid", "correlationId"), make)
