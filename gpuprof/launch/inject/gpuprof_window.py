"""Says inside a recorded program whether its recorder is to record now.

By time since the program's start (``GPUPROF_DELAY_SECONDS``, ``GPUPROF_DURATION_SECONDS``) or by
the epochs that `gpuprof.epoch` marks (``GPUPROF_EPOCHS``, such as 2:4 for epochs 2 and 3). It
must work in any Python 3.8 or newer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_STARTED = time.monotonic()


class RecordingWindow:
    """Opens and closes once; its recorder is told when."""

    def __init__(self) -> None:
        self.delay = float(os.environ.get("GPUPROF_DELAY_SECONDS", "0"))
        self.duration = float(os.environ.get("GPUPROF_DURATION_SECONDS", "inf"))
        self.by_epochs = "GPUPROF_EPOCHS" in os.environ
        self.in_epochs = False
        self.listeners: list[Callable[[], None]] = []

    def is_open(self) -> bool:
        """Whether to record now."""
        if self.by_epochs:
            return self.in_epochs
        return self.delay <= time.monotonic() - _STARTED < self.delay + self.duration

    def tell(self, listener: Callable[[], None]) -> None:
        """Call this whenever the window has opened or closed."""
        self.listeners.append(listener)
        for seconds in (self.delay, self.delay + self.duration):
            seconds_left = seconds - (time.monotonic() - _STARTED)
            if 0 < seconds_left < threading.TIMEOUT_MAX and not self.by_epochs:
                timer = threading.Timer(seconds_left, listener)
                timer.daemon = True
                timer.start()

    def set_in_epochs(self, is_in: bool) -> None:  # noqa: FBT001 - the state itself
        """`gpuprof.epoch` has come into the epochs to record, or out of them."""
        self.in_epochs = is_in
        for listener in self.listeners:
            listener()


WINDOW = RecordingWindow()


# As launchers tell a process its place in the job: torchrun, MPI, PMI, Slurm, Horovod.
_RANKS = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
    "HOROVOD_RANK", "SLURM_PROCID",
)  # fmt: skip


def process_name(recorder: str) -> str:
    """What this process calls its files: ``torch-rank1-4711``, or without a rank it lacks."""
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name, "").isdecimal()), None)
    return f"{recorder}-{os.getpid()}" if rank is None else f"{recorder}-rank{rank}-{os.getpid()}"
