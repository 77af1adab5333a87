"""Run a program under a profiler: each recorder is one file and one line in `RECORDERS`.

Recording and analysing share only a file on disk.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpuprof.launch.contract import Recorder

AUTO: Final = "auto"
# Name of a recorder -> its module in recorders, which is imported when a program is recorded.
RECORDERS: Final = {
    "nsys": "nsys",
    "cupti": "cupti",
    "nvprof": "nvprof",
    "tensorflow": "tensorflow",
    "torch": "torch",
    "jax": "jax",
    "none": "timing_only",
}


def all_recorders() -> "list[Recorder]":
    """Every recorder."""
    return [import_module(f"gpuprof.launch.recorders.{m}").RECORDER for m in RECORDERS.values()]
