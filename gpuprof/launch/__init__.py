"""Run a program under a profiler: each recorder is one file and one line in `RECORDERS`.

Recording and analysing share only a file on disk.
"""

import platform
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gpuprof.base.errors import RecordError, UsageError, one_of

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


def check_system() -> None:
    """Check that programs can be recorded on this operating system.

    Raises:
        RecordError: They cannot.
    """
    if platform.system() != "Linux":
        msg = f"recording needs Linux; this is {platform.system()}"
        raise RecordError(msg, "Record on Linux; the run's folder can be read anywhere.")


def check_recorder(name: str) -> None:
    """Check that there is a recorder of this name, or that it is ``auto``.

    Raises:
        UsageError: There is none.
    """
    recorders = [AUTO, *RECORDERS]
    if name not in recorders:
        msg = f"there is no recorder {name}"
        raise UsageError(msg, one_of("Recorders", name, recorders))
