"""What recorders have in common that keep one stretch of a run, with a framework's profiler.

The profiler keeps all in memory until it is stopped: without a part that was asked for it records
for ``GPUPROF_MOST_SECONDS``. An error in a recorder ends the recording with a note, never the
program.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuprof_ending import at_end
from gpuprof_window import WINDOW, process_name

MOST_SECONDS = float(os.environ.get("GPUPROF_MOST_SECONDS", "60"))


class Recording:
    """One stretch, from when the window opens to when it closes."""

    name = ""
    title = ""

    def __init__(self, run_dir: str) -> None:
        self.path = Path(run_dir) / process_name(self.name)
        self.pid = os.getpid()
        self.is_over = False

    def begin(self) -> None:
        """Start, or wait for the part that is to be recorded."""
        self.prepare()
        WINDOW.tell(self.look)
        at_end(lambda: self.carefully(self.stop))
        self.start_or_stop()

    def look(self) -> None:
        """Start or stop, if it is time to."""
        if not self.is_over and os.getpid() == self.pid:
            self.carefully(self.start_or_stop)

    def note(self, text: str) -> None:
        """Keep a sentence on the recording's quality."""
        with self.path.with_suffix(".notes").open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def note_bound(self) -> None:
        """Say that it was stopped for its memory."""
        self.note(
            f"{self.title}'s profiler keeps events in memory, so only the first {MOST_SECONDS:g} s "
            "were recorded; --delay, --duration and --epochs select another part."
        )

    def note_users_own(self) -> None:
        """Say that the script's own profiler came first."""
        self.note(f"the script ran {self.title}'s profiler itself; not recorded from there on")

    def carefully(self, do: Callable[[], Any]) -> None:
        """Do something that must not break the user's program."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the user's program goes on
            self.is_over = True
            with contextlib.suppress(OSError, IndexError):
                self.note(f"{self.title} is not recorded any more: {str(error).splitlines()[0]}")

    def prepare(self) -> None:
        """Take hold of the framework, which the script has imported."""
        raise NotImplementedError

    def start_or_stop(self) -> None:
        """Start if the window is open and nothing runs, stop if it has closed."""
        raise NotImplementedError

    def stop(self) -> None:
        """Keep what was recorded; nothing more is."""
        raise NotImplementedError
