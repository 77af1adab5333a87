"""Records PyTorch from inside the user's process with its own profiler, Kineto.

Into ``<run folder>/torch-<pid>.json.gz`` when the program ends in order or its part to record is
over. Kineto can be stopped only where it was started, in the main thread: at the next step of an
optimizer or mark of `gpuprof`.
"""

from __future__ import annotations

import functools
import json
import threading
import time
import warnings
from typing import Any

from gpuprof_recording import MOST_SECONDS, Recording
from gpuprof_window import WINDOW


def install(run_dir: str) -> None:
    """Record what comes after ``import torch``."""
    recording = TorchRecording(run_dir)
    recording.carefully(recording.begin)


class TorchRecording(Recording):  # type: ignore[misc]  # beside it, in no package
    """One trace."""

    name = "torch"
    title = "PyTorch"

    def __init__(self, run_dir: str) -> None:
        super().__init__(run_dir)
        self.thread = threading.get_ident()
        self.profiler: Any = None
        self.started = 0.0

    def prepare(self) -> None:
        """Look whenever an optimizer steps, and when the script starts a profiler."""
        import torch  # the script has imported it
        from torch.optim import optimizer

        self.torch = torch
        self.profile = torch.profiler.profile
        for profile, name in (
            (torch.profiler.profile, "start"),
            (torch.autograd.profiler.profile, "__enter__"),
        ):
            setattr(profile, name, self._aside(getattr(profile, name)))
        optimizer.register_optimizer_step_post_hook(lambda *_: self.look())

    def start_or_stop(self) -> None:
        """Start or stop, if it is time to; only in the thread that started."""
        if threading.get_ident() != self.thread:
            return
        if self.profiler is None and WINDOW.is_open():
            activities = self.torch.profiler.supported_activities()
            self.profiler = self.profile(activities=activities)
            with warnings.catch_warnings():
                # Of several cycles, as PyTorch 2.11 says of each profiler; this has one.
                warnings.filterwarnings("ignore", ".*clears events at the end of each cycle")
                self.profiler.start()
            self.started = time.monotonic()
        elif self.profiler is not None and not WINDOW.is_open():
            self.stop()
        elif self.profiler is not None and time.monotonic() - self.started > MOST_SECONDS:
            self.stop()
            self.note_bound()

    def stop(self) -> None:
        """Write the trace, and how many events of GPUs are in it."""
        self.is_over = True
        if self.profiler is None:
            return
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        on_gpu = self.torch.autograd.DeviceType.CUDA
        events = profiler.profiler.kineto_results.events()
        count = sum(event.device_type() == on_gpu for event in events)
        self.path.with_suffix(".info").write_text(json.dumps({"gpu_events": count}))
        profiler.export_chrome_trace(str(self.path.with_suffix(".json.gz")))

    def _aside(self, original: Any) -> Any:
        """Let the script's own profiler work: two cannot, and its is the one asked for."""

        @functools.wraps(original)
        def start(users: Any, *args: Any, **kwargs: Any) -> Any:
            ours = (self.profiler, getattr(self.profiler, "profiler", None))
            if self.profiler is not None and not any(users is profiler for profiler in ours):
                self.carefully(self.stop)
                self.carefully(self.note_users_own)
            return original(users, *args, **kwargs)

        return start
