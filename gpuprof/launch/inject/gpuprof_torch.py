"""Records PyTorch from inside the user's process with its own profiler, Kineto.

Into ``<run folder>/torch-<pid>.json.gz`` when the program ends in order or its part to record is
over. Kineto keeps all in memory until then: without a part that was asked for it records for
``GPUPROF_MOST_SECONDS``, as it can be stopped only where it was started, in the main thread: at the
next step of an optimizer or mark of `gpuprof`. An error in here ends the recording with a note,
never the program.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from gpuprof_window import WINDOW, process_name

MOST_SECONDS = float(os.environ.get("GPUPROF_MOST_SECONDS", "60"))


def install(run_dir: str) -> None:
    """Record what comes after ``import torch``."""
    recording = Recording(Path(run_dir) / process_name("torch"))
    recording.carefully(recording.begin)


class Recording:
    """One trace, from when the window opens to when it closes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self.thread = threading.get_ident()
        self.profiler: Any = None
        self.started = 0.0
        self.is_over = False

    def begin(self) -> None:
        """Start, or wait for the part that is to be recorded."""
        import torch  # noqa: PLC0415 - the script has imported it
        from torch.optim import optimizer  # noqa: PLC0415

        self.torch = torch
        self.profile = torch.profiler.profile
        self._step_aside_for_the_users_profiler(torch)
        optimizer.register_optimizer_step_post_hook(lambda *_: self.look())
        WINDOW.tell(self.look)
        atexit.register(self.carefully, self.end)
        self._look()

    def look(self) -> None:
        """Start or stop, if it is time to; only in the thread that started."""
        if not self.is_over and threading.get_ident() == self.thread and os.getpid() == self.pid:
            self.carefully(self._look)

    def end(self) -> None:
        """The program ends."""
        if os.getpid() == self.pid:  # a forked child inherits the handler, not the recording
            self.stop()

    def stop(self) -> None:
        """Keep what was recorded; nothing more is."""
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

    def note(self, text: str) -> None:
        """Keep a sentence on the recording's quality."""
        with self.path.with_suffix(".notes").open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def carefully(self, do: Any) -> None:
        """Do something that must not break the user's program."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the user's program goes on
            self.is_over = True
            with contextlib.suppress(OSError, IndexError):
                self.note(f"PyTorch is not recorded any more: {str(error).splitlines()[0]}")

    def _look(self) -> None:
        if self.profiler is None and WINDOW.is_open():
            activities = self.torch.profiler.supported_activities()
            self.profiler = self.profile(activities=activities)
            self.profiler.start()
            self.started = time.monotonic()
        elif self.profiler is not None and not WINDOW.is_open():
            self.stop()
        elif self.profiler is not None and time.monotonic() - self.started > MOST_SECONDS:
            self.stop()
            self.note(
                f"PyTorch's profiler keeps all in memory: only the first {MOST_SECONDS:g} s were "
                "recorded; --delay, --duration and --epochs choose others."
            )

    def _step_aside_for_the_users_profiler(self, torch: Any) -> None:
        """Let the script's own profiler work: two cannot, and its is the one asked for."""
        for profile, name in (
            (torch.profiler.profile, "start"),
            (torch.autograd.profiler.profile, "__enter__"),
        ):
            setattr(profile, name, self._aside(getattr(profile, name)))

    def _aside(self, original: Any) -> Any:
        @functools.wraps(original)
        def start(users: Any, *args: Any, **kwargs: Any) -> Any:
            if self.profiler is not None and not self._is_own(users):
                self.carefully(self.stop)
                self.carefully(self._note_users_own)
            return original(users, *args, **kwargs)

        return start

    def _is_own(self, profiler: Any) -> bool:
        return profiler is self.profiler or profiler is getattr(self.profiler, "profiler", None)

    def _note_users_own(self) -> None:
        self.note("the script ran PyTorch's profiler itself; not recorded from there on")
