"""Records CUDA from inside the user's process with NVIDIA's cupti-python.

Into ``<run folder>/cupti-<pid>/``: ``<table>.rows`` (fixed rows of 64-bit integers, columns as in
`COLUMNS`), ``texts.jsonl`` (kernel, range and API names by number) and ``process.json``; appended
to by a thread. CUPTI hands over full buffers only (by `cuptiActivityFlushPeriod`, too), so a killed
program loses what is in those of its threads. To flush them from a thread may hang the program:
with its own lock held CUPTI waits for Python's, whose holder may wait for CUPTI's in a CUDA call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

from gpuprof_ending import at_end
from gpuprof_window import WINDOW, process_name

# NVIDIA's documentation recommends 1 to 10 MB; each thread of the program fills its own.
BUFFER_BYTES = 1 << 20
DRAIN_SECONDS = 0.5
# For records that CUPTI hands over in a thread of its own after it was asked for the last ones.
HANDOVER_SECONDS, QUIET_SECONDS = 2.0, 0.05
# Of cuptiActivityFlushAll: also buffers with activities that have not ended.
FORCED = 1
# Numbers of CUpti_ActivityKind.
MEMCPY, MEMSET, DRIVER, RUNTIME, CONCURRENT_KERNEL = 1, 2, 4, 5, 10
MARKER, MEMCPY2, SYNCHRONIZATION = 12, 22, 38

_PLACE = ("start", "end", "device_id", "context_id", "stream_id", "correlation_id")
COLUMNS: dict[str, tuple[str, ...]] = {
    "kernels": (
        *_PLACE, "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
        "registers_per_thread", "static_shared_memory", "dynamic_shared_memory",
        "graph_node_id", "name",
    ),
    "memcpys": (*_PLACE, "bytes", "copy_kind", "src_kind", "dst_kind", "graph_node_id"),
    "peer_memcpys": (
        *_PLACE, "bytes", "copy_kind", "src_kind", "dst_kind", "graph_node_id", "src_device_id",
        "dst_device_id",
    ),
    "memsets": (*_PLACE, "bytes", "memory_kind"),
    "api_calls": ("start", "end", "kind", "process_id", "thread_id", "correlation_id", "name"),
    "markers": ("timestamp", "id", "flags_", "process_id", "thread_id", "name", "domain"),
    "synchronizations": ("start", "end", "context_id", "stream_id", "correlation_id", "type"),
}  # fmt: skip
TABLES = {
    CONCURRENT_KERNEL: "kernels",
    MEMCPY: "memcpys",
    MEMCPY2: "peer_memcpys",
    MEMSET: "memsets",
    DRIVER: "api_calls",
    RUNTIME: "api_calls",
    MARKER: "markers",
    SYNCHRONIZATION: "synchronizations",
}
# Another client of CUPTI in this process: only one can be.
_PROFILER_VARIABLES = ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")


# Where a script starts a profiler of its framework.
PROFILERS = {
    "torch": ("torch.profiler", "profile", "start"),
    "tensorflow": ("tensorflow.python.profiler.profiler_v2", None, "start"),
    "jax": ("jax.profiler", None, "start_trace"),
}


def install(run_dir: str) -> CuptiRecording:
    """Record this process from now on."""
    recording = CuptiRecording(Path(run_dir) / process_name("cupti"))
    try:
        recording.begin()
    except Exception as error:  # noqa: BLE001 - the user's program goes on
        recording.note(f"CUPTI does not record: {str(error) or type(error).__name__}")
    return recording


class Rows:
    """CUPTI's records as rows of integers, by table; the thread that has them is CUPTI's own.

    Names are numbers; each is in ``new_texts`` once.
    """

    def __init__(self, api_name: Callable[[int, int], str]) -> None:
        self.text_numbers: dict[str, int] = {}
        self.new_texts: list[str] = []
        self.tables: dict[str, list[tuple[int, ...]]] = {name: [] for name in COLUMNS}
        self.api_name = api_name
        # Texts become numbers, and a marker's process lies deeper in its record.
        converted = {
            "api_calls": {"name"},
            "markers": {"name", "domain", "process_id", "thread_id"},
        }
        self.getters = {
            table: attrgetter(*(c for c in columns if c not in converted.get(table, {"name"})))
            for table, columns in COLUMNS.items()
        }
        self.api_numbers: dict[tuple[int, int], int] = {}

    def add(self, records: list[Any]) -> None:
        """Take what CUPTI has completed; of kinds that are not kept, nothing."""
        for record in records:
            table = TABLES.get(record.kind)
            if table is None:
                continue
            row = self.getters[table](record)
            if table == "kernels":
                row += (self.number(record.name),)
            elif table == "api_calls":
                key = record.kind, record.cbid
                if key not in self.api_numbers:
                    self.api_numbers[key] = self.number(self.api_name(*key))
                row += (self.api_numbers[key],)
            elif table == "markers":
                place = record.object_id.pt
                texts = self.number(record.name), self.number(record.domain)
                row += (place.process_id, place.thread_id, *texts)
            self.tables[table].append(row)

    def take(self) -> tuple[dict[str, list[tuple[int, ...]]], list[str]]:
        """What came since the last call: rows by table, and names."""
        taken = self.tables, self.new_texts
        self.tables, self.new_texts = {name: [] for name in COLUMNS}, []
        return taken

    def number(self, text: str | None) -> int:
        """The number of a name."""
        text = text or ""
        number = self.text_numbers.get(text)
        if number is None:
            number = self.text_numbers[text] = len(self.text_numbers)
            self.new_texts.append(text)
        return number


class CuptiRecording:
    """CUPTI's activities of this process, until it ends or another profiler wants them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid = os.getpid()
        # The main thread may be handed records when a signal ends the program.
        self.lock = threading.RLock()
        self.draining = threading.Lock()
        self.ending = threading.Event()
        self.is_on = False
        self.received = 0
        self.cupti: Any = None

    def begin(self) -> None:
        """Listen, and start as soon as the part to record has begun."""
        variables = [name for name in _PROFILER_VARIABLES if name in os.environ]
        if variables:
            self.note(
                f"another profiler is active ({variables[0]} is set), so CUPTI does not record"
            )
            return
        from cupti import cupti  # noqa: PLC0415 - 0.2 s that only this recorder needs

        self.prepare(cupti)
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self.completed)
        WINDOW.tell(self.look)
        self.look()
        at_end(self.end)
        threading.Thread(target=self._drain_in_turn, name="gpuprof", daemon=True).start()

    def prepare(self, cupti: Any) -> None:
        """Make the folder, and be ready for records."""
        self.cupti = cupti
        self.rows = Rows(self._api_name)
        self.folder.mkdir()
        process = {
            "format": "gpuprof-cupti",
            "format_version": 1,
            "process_id": self.pid,
            "python_version": sys.version.split()[0],
            "started_unix_ns": time.time_ns(),
            "columns": COLUMNS,
        }
        (self.folder / "process.json").write_text(json.dumps(process), encoding="utf-8")

    def look(self) -> None:
        """Start or stop, if it is time to."""
        is_open = WINDOW.is_open() and not self.ending.is_set()
        if is_open == self.is_on or os.getpid() != self.pid:
            return
        self.is_on = is_open
        for kind in TABLES:
            (self.cupti.activity_enable if is_open else self.cupti.activity_disable)(kind)

    def end(self) -> None:
        """Bring home what is left; nothing more is recorded."""
        if os.getpid() != self.pid or self.ending.is_set():
            return
        try:
            self.cupti.activity_flush_all(FORCED)
        except Exception as error:  # noqa: BLE001 - the user's program goes on
            if uses_gpu():
                self.note(f"CUPTI did not hand over its last records: {error}")
        self.ending.set()
        self.look()
        # Until nothing more comes; for the first record of a program on a GPU, longer.
        until, received = time.monotonic() + HANDOVER_SECONDS, 0
        is_due = bool(self.received) or uses_gpu()
        while is_due and time.monotonic() < until and (not received or received != self.received):
            received = self.received
            time.sleep(QUIET_SECONDS)
        with contextlib.suppress(Exception):
            dropped = ctypes.c_size_t()
            self.cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
            if dropped.value:
                self.note(f"CUPTI dropped {dropped.value} records: sums are too small")
        if not self.received and uses_gpu():
            self.note(
                "the program used a GPU, but CUPTI handed over no record of it;"
                " try --recorder torch or jax"
            )
        self.drain()

    def watch(self, framework: str) -> None:
        """Step aside when the script starts its framework's profiler: CUPTI serves one."""
        module, owner, name = PROFILERS[framework]
        place: Any = importlib.import_module(module)
        place = getattr(place, owner) if owner else place
        original = getattr(place, name)

        @functools.wraps(original)
        def start(*args: Any, **kwargs: Any) -> Any:
            if self.is_on:
                self.end()
                note = f"the script ran the profiler of {framework}; "
                self.note(f"{note}CUPTI recorded nothing from there on")
            return original(*args, **kwargs)

        setattr(place, name, start)

    def note(self, text: str) -> None:
        """Keep a sentence on the recording's quality."""
        with contextlib.suppress(OSError):
            path = self.folder.with_suffix(".notes")
            with path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")

    def completed(self, records: list[Any]) -> None:
        """Take the records of a buffer that CUPTI has filled; it calls this in its own thread."""
        with self.lock:
            self.received += len(records)
            self.rows.add(records)

    def _drain_in_turn(self) -> None:
        while not self.ending.wait(DRAIN_SECONDS):
            if os.getpid() != self.pid:
                return
            self.drain()

    def drain(self) -> None:
        """Append what has come; a full disk ends the recording, not the program."""
        import numpy as np  # noqa: PLC0415 - cupti-python has imported it

        with self.draining:  # a name's number is its place in the file
            with self.lock:
                taken, texts = self.rows.take()
            with contextlib.suppress(OSError):
                # Names before the rows that name them.
                if texts:
                    with (self.folder / "texts.jsonl").open("a", encoding="utf-8") as file:
                        file.writelines(json.dumps(text) + "\n" for text in texts)
                for table, rows in taken.items():
                    if rows:
                        with (self.folder / f"{table}.rows").open("ab") as file:
                            # Ids of graph nodes are unsigned and may use all 64 bits.
                            file.write(np.array(rows, np.uint64).tobytes())
                return
            self.ending.set()

    def _api_name(self, kind: int, cbid: int) -> str:
        cbids = self.cupti.DriverApiTraceCbid if kind == DRIVER else self.cupti.RuntimeApiTraceCbid
        try:
            return str(cbids(cbid).name)
        except ValueError:
            return f"unknown {cbid}"


def uses_gpu() -> bool:
    """Whether this process has a primary context of CUDA, as what runs kernels has."""
    with contextlib.suppress(OSError, AttributeError):
        cuda = ctypes.CDLL("libcuda.so.1")
        count, flags, is_active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
        # Without cuInit, which the program has called if it uses a GPU: an error, and no device.
        cuda.cuDeviceGetCount(ctypes.byref(count))
        for device in range(count.value):
            cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(is_active))
            if is_active.value:
                return True
    return False
