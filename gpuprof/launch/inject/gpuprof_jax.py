"""Records JAX from inside the user's process with its own profiler.

Into ``<run folder>/jax-<pid>/`` when the program ends in order or its part to record is over. The
profiler keeps all in memory until then: without a part that was asked for it records for
``GPUPROF_MOST_SECONDS``. An error in here ends the recording with a note, never the program.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

from gpuprof_window import WINDOW, process_name

MOST_SECONDS = float(os.environ.get("GPUPROF_MOST_SECONDS", "60"))


def install(run_dir: str) -> None:
    """Record what comes after ``import jax``."""
    recording = Recording(Path(run_dir) / process_name("jax"))
    recording.carefully(recording.begin)


class Recording:
    """One profile, from when the window opens to when it closes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.is_on = False
        self.is_over = False

    def begin(self) -> None:
        """Start, or wait for the part that is to be recorded."""
        import jax  # noqa: PLC0415 - the script has imported it

        self.profiler = jax.profiler
        self.start_trace, self.stop_trace = jax.profiler.start_trace, jax.profiler.stop_trace
        self._step_aside_for_the_users_profiler()
        WINDOW.tell(self.look)
        atexit.register(self.carefully, self.end)
        self._look()

    def look(self) -> None:
        """Start or stop, if it is time to."""
        if not self.is_over and os.getpid() == self.pid:
            self.carefully(self._look)

    def end(self) -> None:
        """The program ends."""
        if os.getpid() == self.pid:  # a forked child inherits the handler, not the recording
            self.stop()

    def stop(self) -> None:
        """Keep what was recorded; nothing more is."""
        with self.lock:
            self.is_over = True
            if self.is_on:
                self.is_on = False
                self.stop_trace()

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
                self.note(f"JAX is not recorded any more: {str(error).splitlines()[0]}")

    def _look(self) -> None:
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

    def _stop_in_time(self) -> None:
        with self.lock:
            if self.is_on:
                self.stop()
                self.note(
                    f"JAX's profiler keeps all in memory: only the first {MOST_SECONDS:g} s were "
                    "recorded; --delay, --duration and --epochs choose others."
                )

    def _step_aside_for_the_users_profiler(self) -> None:
        """Let the script's own profiler work: two cannot, and its is the one asked for."""

        def start_trace(*args: Any, **kwargs: Any) -> Any:
            with self.lock:
                if self.is_on:
                    self.carefully(self.stop)
                    said = "the script ran JAX's profiler itself; not recorded from there on"
                    self.carefully(lambda: self.note(said))
                self.is_over = True
            return self.start_trace(*args, **kwargs)

        # `jax.profiler.trace` looks the name up in the module that defines it.
        defining: Any = sys.modules[self.start_trace.__module__]
        for module in (self.profiler, defining):
            module.start_trace = start_trace
