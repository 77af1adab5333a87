"""Records JAX from inside the user's process with its own profiler.

Into ``<run folder>/jax-<pid>/`` when the program ends in order or its part to record is over.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from gpuprof_recording import MOST_SECONDS, Recording
from gpuprof_window import WINDOW


def install(run_dir: str) -> None:
    """Record what comes after ``import jax``."""
    recording = JaxRecording(run_dir)
    recording.carefully(recording.begin)


class JaxRecording(Recording):  # type: ignore[misc]  # beside it, in no package
    """One profile."""

    name = "jax"
    title = "JAX"

    def __init__(self, run_dir: str) -> None:
        super().__init__(run_dir)
        self.lock = threading.RLock()
        self.is_on = False

    def prepare(self) -> None:
        """Look when the script starts a profiler."""
        import jax  # the script has imported it

        self.profiler = jax.profiler
        self.start_trace, self.stop_trace = jax.profiler.start_trace, jax.profiler.stop_trace
        # `jax.profiler.trace` looks the name up in the module that defines it.
        defining: Any = sys.modules[self.start_trace.__module__]
        for module in (self.profiler, defining):
            module.start_trace = self._start_users_own

    def start_or_stop(self) -> None:
        """Start if the window is open and nothing runs, stop if it has closed."""
        with self.lock:
            if not self.is_on and WINDOW.is_open():
                options = self.profiler.ProfileOptions()
                # Every Python call would be an event.
                options.python_tracer_level = 0
                self.start_trace(str(self.path), profiler_options=options)
                self.is_on = True
                timer = threading.Timer(MOST_SECONDS, self.carefully, (self._stop_in_time,))
                timer.daemon = True
                timer.start()
            elif self.is_on and not WINDOW.is_open():
                self.stop()

    def stop(self) -> None:
        """Write the profile."""
        with self.lock:
            self.is_over = True
            if self.is_on:
                self.is_on = False
                self.stop_trace()

    def _stop_in_time(self) -> None:
        with self.lock:
            if self.is_on:
                self.stop()
                self.note_bound()

    def _start_users_own(self, *args: Any, **kwargs: Any) -> Any:
        """Let the script's own profiler work: two cannot, and its is the one asked for."""
        with self.lock:
            if self.is_on:
                self.carefully(self.stop)
                self.carefully(self.note_users_own)
            self.is_over = True
        return self.start_trace(*args, **kwargs)
