"""Records TensorFlow from inside the user's process: profiler windows and the graphs that ran.

Into ``<run folder>/tensorflow-<pid>/``: ``process.json`` (versions, devices), ``windows.jsonl``
(one line per profiler window, whose file lies in the folder that it names), ``graphs.jsonl``
(one line per graph that TensorFlow ran, see `gpuprof_tensorflow_graphs`), ``notes.jsonl`` and,
when the program came to its end in order, ``end.json``. Bounded in memory by the length of a
window and on disk by ever longer pauses between windows. Needs nothing but TensorFlow; an error
in here ends the recording with a note, never the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gpuprof_placement
import gpuprof_tensorflow_fit
from gpuprof_ending import at_end
from gpuprof_tensorflow_graphs import Functions
from gpuprof_window import WINDOW, process_name

WINDOW_SECONDS = float(os.environ.get("GPUPROF_WINDOW_SECONDS", "2"))
# About a million events: seconds of reading afterwards. Later windows come ever more rarely.
CONTINUOUS_BYTES = 32 * 1024 * 1024
LONGEST_PAUSE_SECONDS = 300.0


def install(run_dir: str) -> None:
    """Record from the moment on which TensorFlow sets up its devices.

    Not earlier: a script may divide them into logical devices until then.
    """
    try:
        from tensorflow.python.eager.context import Context  # it is imported

        original = Context.ensure_initialized

        def ensure_initialized(self: Any) -> None:
            original(self)
            # Called before every eager operation: get out of the way after the first.
            Context.ensure_initialized = original
            recording = TensorFlowRecording(Path(run_dir) / process_name("tensorflow"), self)
            try:
                recording.begin()
            except Exception as error:  # noqa: BLE001 - the user's program goes on
                recording.note(f"recording did not start: {error}")

        Context.ensure_initialized = ensure_initialized
        if "GPUPROF_PLACEMENT" in os.environ:
            _place(os.environ["GPUPROF_PLACEMENT"], Path(run_dir))
        gpuprof_tensorflow_fit.watch()
    except Exception as error:  # noqa: BLE001 - the user's program goes on, whatever happens
        print(f"gpuprof: TensorFlow is not recorded: {error}", file=sys.stderr)  # noqa: T201


def _place(placement: str, run_dir: Path) -> None:
    """Place the model as a file says; what does not come to pass is noted for the manifest."""
    notes = run_dir / f"{process_name('tensorflow')}.notes"

    def note(text: str) -> None:
        with contextlib.suppress(OSError), notes.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    try:
        gpuprof_placement.apply(placement, note)
    except Exception as error:  # noqa: BLE001 - the user's program goes on
        note(f"the placement was not applied: {_first_line(error)}")


class TensorFlowRecording:
    """Successive windows of TensorFlow's profiler, in a thread, until the program ends."""

    def __init__(self, folder: Path, context: Any) -> None:
        self.folder = folder
        self.context = context
        self.functions = Functions(context)
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.ending = threading.Event()
        self.windows = 0
        self.bytes = 0
        self.pause_seconds = 0.0
        self.open_since_ns: int | None = None
        self.users_own = False
        self.noted: set[str] = set()

    def begin(self) -> None:
        """Collect graphs, open the first window and keep opening new ones."""
        import tensorflow as tf  # the script has imported it
        from tensorflow.python.profiler import profiler_v2

        self.folder.mkdir(parents=True)
        self.context.enable_graph_collection()
        self.start, self.stop = profiler_v2.start, profiler_v2.stop
        devices = [d.name.removeprefix("/device:") for d in self.context.list_logical_devices()]
        self._append(
            "process.json",
            {
                "process_id": self.pid,
                "parent_process_id": os.getppid(),
                "command": [sys.executable, *sys.argv],
                "tensorflow_version": tf.__version__,
                "python_version": sys.version.split()[0],
                "devices": devices,
                "start_unix_ns": time.time_ns(),
                "soft_placement": bool(self.context.soft_device_placement),
            },
        )
        self._step_aside_for_the_users_profiler(tf, profiler_v2)
        WINDOW.tell(self._open_or_close)
        self._open()
        at_end(self.end)
        threading.Thread(target=self._rotate, name="gpuprof", daemon=True).start()

    def note(self, text: str) -> None:
        """Keep a sentence on the recording's quality, once."""
        if text in self.noted:
            return
        self.noted.add(text)
        self._append("notes.jsonl", {"note": text})

    def end(self) -> None:
        """Close the last window and say that the program came to its end."""
        self.ending.set()
        with self.lock:
            self._close()
            self._export_graphs()
        self._append("end.json", {"ended_unix_ns": time.time_ns()})

    def _rotate(self) -> None:
        while not self.ending.wait(WINDOW_SECONDS):
            if os.getpid() != self.pid:
                return
            with self.lock:
                if self.ending.is_set():
                    return
                self._close()
            if self.pause_seconds and self.ending.wait(self.pause_seconds):
                return
            with self.lock:
                if self.ending.is_set():
                    return
                self._open()
                self._export_graphs()

    def _open_or_close(self) -> None:
        """The part of the run that is to be recorded has begun, or is over."""
        with self.lock:
            if self.ending.is_set():
                return
            if WINDOW.is_open():
                self._open()
            else:
                self._close()
                self._export_graphs()

    def _open(self) -> None:
        if self.users_own or self.open_since_ns is not None or not WINDOW.is_open():
            return
        self.windows += 1
        try:
            self.start(str(self._window()))
            self.open_since_ns = time.time_ns()
        except Exception as error:  # noqa: BLE001 - such as a profiler that is already at work
            self.note(f"a window could not be opened: {_first_line(error)}")

    def _close(self) -> None:
        if self.open_since_ns is None:
            return
        start_ns, self.open_since_ns = self.open_since_ns, None
        stop_ns = time.time_ns()
        try:
            self.stop()
        except Exception as error:  # noqa: BLE001 - such as a full disk
            self.note(f"a window could not be kept: {_first_line(error)}")
            return
        self.bytes += sum(p.stat().st_size for p in self._window().rglob("*") if p.is_file())
        times = {"start_unix_ns": start_ns, "stop_unix_ns": stop_ns}
        self._append("windows.jsonl", {"folder": self._window().name, **times})
        if self.bytes > CONTINUOUS_BYTES:
            longer = max(2 * self.pause_seconds, WINDOW_SECONDS)
            self.pause_seconds = min(longer, LONGEST_PAUSE_SECONDS)

    def _window(self) -> Path:
        return self.folder / f"window-{self.windows:05}"

    def _export_graphs(self) -> None:
        """Write the graphs that ran for the first time since the last call."""
        try:
            graphs = self.context.export_run_metadata().function_graphs
            for graph in self.functions.describe(graphs):
                self._append("graphs.jsonl", graph)
        except Exception as error:  # noqa: BLE001 - the windows alone are worth having
            self.note(f"graphs could not be collected: {_first_line(error)}")

    def _step_aside_for_the_users_profiler(self, tf: Any, profiler: Any) -> None:
        """Let the script's own profiler work: two cannot, and its is the one asked for."""

        def start(*args: Any, **kwargs: Any) -> Any:
            with self.lock:
                self._close()
                self.users_own = True
                self.note("the script ran TensorFlow's profiler itself; not recorded meanwhile")
            return self.start(*args, **kwargs)

        def stop(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.stop(*args, **kwargs)
            finally:
                self.users_own = False

        for module in (profiler, tf.profiler.experimental):
            module.start, module.stop = start, stop

    def _append(self, name: str, row: dict[str, Any]) -> None:
        try:
            with (self.folder / name).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError:
            # A full disk or a folder that is gone: nothing can be kept, the program goes on.
            self.ending.set()


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
