"""What of this machine a process may take: workers of one job share it."""

import os
from typing import Final

# How many processes share the machine; unset for one.
PROCESSES: Final = "GPUPROF_PROCESSES"


def process_count() -> int:
    """How many processes share the machine."""
    text = os.environ.get(PROCESSES, "")
    return max(int(text), 1) if text.isdecimal() else 1


def core_count() -> int:
    """How many cores all processes have together that share the machine."""
    # Of a container, or of a job of a cluster, only some are given to it.
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def thread_count(most: int) -> int:
    """How many threads this process should run at most."""
    return min(max(core_count() // process_count(), 1), most)
