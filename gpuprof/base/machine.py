"""What of this machine a process may take: workers of one job share it."""

import importlib.util
import os
from pathlib import Path
from typing import Final

from gpuprof.base.errors import MissingToolError

_STATUS: Final = "/proc/{}/status"
# What a process reads through the page cache is not its own.
_PRIVATE: Final = ("RssAnon:", "RssShmem:")
_MOST: Final = "VmHWM:"
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


def check_measurable() -> None:
    """See that the memory of other processes can be measured here.

    Raises:
        MissingToolError: It cannot.
    """
    if not _fields("self") and importlib.util.find_spec("psutil") is None:
        msg = "--memory-limit needs the package psutil on this system"
        raise MissingToolError(msg, "Install it: pip install psutil")


def memory_bytes(process_id: int | str) -> int:
    """The memory that a process takes now beside files that it reads; 0 where it has ended."""
    fields = _fields(process_id)
    if fields:
        return sum(fields.get(name, 0) for name in _PRIVATE)
    try:
        psutil = importlib.import_module("psutil")
        rss_bytes: int = psutil.Process(process_id).memory_info().rss
    except Exception:  # noqa: BLE001 - it is not installed, or the process has ended
        return 0
    return rss_bytes


def peak_bytes() -> int:
    """The most memory that this process has taken so far; 0 where the system does not say."""
    return _fields("self").get(_MOST, 0)


def _fields(process_id: int | str) -> dict[str, int]:
    """The fields of a process' memory as Linux names them, in bytes; empty where there are none."""
    try:
        lines = Path(_STATUS.format(process_id)).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    return {name: int(kibibytes) * 1024 for name, kibibytes, _ in sizes}
