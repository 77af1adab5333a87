"""CUPTI's records, made from the dtypes of its own package, all the way into tables."""

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
import threading
import time
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from commands import ROOT, python
from recorded_runs import record, script, words

from gpuprof import read_profile
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.launch.contract import Ended, LaunchedRun, Program
from gpuprof.launch.recorders.cupti import RECORDER
from gpuprof.launch.recorders.in_process import INJECT
from gpuprof.launch.run.gpus import driver_cuda

T0 = 1_760_000_000_000_000_000
needs_cupti = pytest.mark.skipif(find_spec("cupti") is None, reason="cupti-python is not installed")
BUFFERS = []
WITHOUT_GPU = Path(__file__).with_name("without_gpu")


def text(value):
    """Where a C string lies, which must live as long as the records."""
    BUFFERS.append(ctypes.create_string_buffer(value.encode()))
    return ctypes.addressof(BUFFERS[-1])


def made(cls, **values):
    cupti = importlib.import_module("cupti.cupti")
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls).lstrip("_")
    names = {
        "ActivityAPI": "activity_api_dtype",
        "ActivityMemcpyPtoP4": "activity_memcpy_pto_p4_dtype",
    }
    row = np.zeros(1, getattr(cupti, names.get(cls, f"{snake}_dtype")))
    for name, value in values.items():
        row[name] = value
    BUFFERS.append(row)
    return getattr(cupti, cls).from_data(row)


def place(start, end, correlation, **more):
    return {
        "start": T0 + start, "end": T0 + end, "device_id": 0, "context_id": 1, "stream_id": 7,
        "correlation_id": correlation, **more,
    }  # fmt: skip


def marker(flags, at, number, name=0, domain=0):
    record = made(
        "ActivityMarker2", kind=12, flags_=flags, timestamp=T0 + at, id=number, name=name,
        domain=domain,
    )  # fmt: skip
    record.object_id.pt.process_id, record.object_id.pt.thread_id = 42, 43
    return record


def records():
    return [
        made("ActivityKernel13", kind=10, **place(100, 200, 1), grid_x=4, grid_y=2, grid_z=1,
             block_x=128, block_y=1, block_z=1, registers_per_thread=32, static_shared_memory=64,
             dynamic_shared_memory=1024, name=text("_Z5saxpyPf")),
        made("ActivityKernel9", kind=10, **place(200, 260, 2), name=text("gemm"),
             graph_node_id=2**63 + 5),
        made("ActivityKernel13", kind=10, **place(0, 0, 3) | {"start": 0, "end": 0},
             name=text("without_time")),
        made("ActivityMemcpy7", kind=1, **place(10, 50, 4), bytes=4096, copy_kind=1, src_kind=1,
             dst_kind=3),
        made("ActivityMemcpy5", kind=1, **place(300, 340, 5), bytes=2048, copy_kind=2, src_kind=3,
             dst_kind=2),
        made("ActivityMemcpyPtoP4", kind=22, **place(260, 200_290, 6), bytes=2**33, copy_kind=10,
             src_kind=3, dst_kind=3, src_device_id=0, dst_device_id=1),
        made("ActivityMemset5", kind=2, **place(60, 70, 7), bytes=512, memory_kind=3),
        made("ActivityAPI", kind=5, start=T0, end=T0 + 9, process_id=42, thread_id=43,
             correlation_id=4, cbid=41),
        made("ActivityAPI", kind=4, start=T0 + 90, end=T0 + 95, process_id=42, thread_id=43,
             correlation_id=1, cbid=307),
        made("ActivityAPI", kind=5, start=T0 + 96, end=T0 + 97, process_id=42, thread_id=43,
             correlation_id=8, cbid=99_999),
        marker(2, 5, 1, text("epoch 0"), text("gpuprof")),
        marker(4, 400, 1),
        marker(2, 6, 2, text("never ended")),
        made("ActivitySynchronization2", kind=38, type=3, start=T0 + 350, end=T0 + 360,
             correlation_id=9, context_id=1, stream_id=7),
        made("ActivityMemory4", kind=49),
    ]  # fmt: skip


@pytest.fixture
def recording(monkeypatch, tmp_path):
    """The recorder inside a process, without a process or a GPU."""
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    monkeypatch.syspath_prepend(str(INJECT))
    one = importlib.import_module("gpuprof_cupti").CuptiRecording(tmp_path / "cupti-42")
    one.pid = 42
    one.prepare(importlib.import_module("cupti.cupti"))
    (tmp_path / "python-started").touch()
    return one


def finished(folder):
    return RECORDER.finish(LaunchedRun(Program(("python", "t.py")), folder), Ended(0, 1.0, 0))


@needs_cupti
class TestSyntheticRecords:
    @pytest.fixture
    def profile(self, recording, tmp_path):
        all_records = records()
        recording.completed(all_records[:4])
        recording.drain()
        recording.completed(all_records[4:])
        recording.drain()
        got = finished(tmp_path)
        assert (got.recordings, got.nothing_recorded) == (("cupti-42",), None)
        assert not list((tmp_path / "cupti-42").glob("*.rows"))
        return read_profile(tmp_path / "cupti-42")

    def rows(self, profile, table, *columns):
        return profile.query(f"SELECT {', '.join(columns)} FROM {table} ORDER BY start_ns")

    def test_kernels_have_their_names_sizes_and_graph_nodes(self, profile):
        rows = self.rows(
            profile, "kernels", "start_ns", "end_ns", "name", "grid_x", "block_x", "process_id",
            "registers_per_thread", "dynamic_shared_memory_bytes", "graph_node_id",
        ).to_pylist()  # fmt: skip

        assert [tuple(row.values()) for row in rows] == [
            (100, 200, "saxpy(float*)", 4, 128, 42, 32, 1024, None),
            (200, 260, "gemm", 0, 0, 42, 0, 0, 5 - 2**63),
        ]

    def test_copies_have_kinds_bytes_and_ends(self, profile):
        rows = self.rows(
            profile, "memcpys", "memcpy_kind", "bytes", "src_memory_kind", "dst_memory_kind",
            "src_device_id", "dst_device_id", "path",
        ).to_pylist()  # fmt: skip

        assert [tuple(row.values()) for row in rows] == [
            ("HtoD", 4096, "pageable", "device", None, 0, None),
            ("PtoP", 2**33, "device", "device", 0, 1, "direct"),
            ("DtoH", 2048, "device", "pinned", 0, None, None),
        ]

    def test_calls_are_named_and_ranges_paired(self, profile):
        calls = self.rows(profile, "api_calls", "api", "name", "start_ns", "thread_id")
        ranges = self.rows(profile, "nvtx_ranges", "text", "domain", "start_ns", "end_ns")

        assert [tuple(row.values()) for row in calls.to_pylist()] == [
            ("runtime", "cudaMemcpyAsync", 0, 43),
            ("driver", "cuLaunchKernel", 90, 43),
            ("runtime", "unknown 99999", 96, 43),
        ]
        assert [tuple(row.values()) for row in ranges.to_pylist()] == [
            ("epoch 0", "gpuprof", 5, 400)
        ]

    def test_the_rest_is_there_and_times_count_from_the_first(self, profile):
        memsets = self.rows(profile, "memsets", "bytes", "memory_kind", "start_ns").to_pylist()
        waits = self.rows(profile, "synchronizations", "sync_kind", "stream_id").to_pylist()

        assert memsets == [{"bytes": 512, "memory_kind": "device", "start_ns": 60}]
        assert waits == [{"sync_kind": "stream", "stream_id": 7}]
        assert profile.origin.epoch_ns == T0

    def test_a_killed_program_keeps_its_whole_rows(self, recording, tmp_path):
        recording.completed(records()[:2])
        recording.drain()
        rows = tmp_path / "cupti-42" / "kernels.rows"
        rows.write_bytes(rows.read_bytes()[:-3])
        texts = tmp_path / "cupti-42" / "texts.jsonl"
        texts.write_text(texts.read_text()[:-3])
        finished(tmp_path)

        profile = read_profile(tmp_path / "cupti-42")
        assert profile.table("kernels")["name"].to_pylist() == ["saxpy(float*)"]

    def test_calls_without_gpu_work_are_nothing_recorded(self, recording, tmp_path):
        recording.completed([r for r in records() if r.kind == 5])
        recording.drain()
        got = finished(tmp_path)

        assert got.recordings == ()
        assert got.nothing_recorded.startswith("CUPTI recorded no GPU work: ")
        with pytest.raises(EmptyRecordingError):
            read_profile(tmp_path / "cupti-42")

    def test_a_note_of_the_recorder_is_the_reason(self, recording, tmp_path):
        recording.note("the program used a GPU, but CUPTI handed over no record of it")

        assert finished(tmp_path).nothing_recorded == (
            "CUPTI recorded no GPU work: "
            "the program used a GPU, but CUPTI handed over no record of it"
        )

    def test_a_missing_file_is_said(self, recording, tmp_path):
        recording.completed(records())
        recording.drain()
        finished(tmp_path)
        (tmp_path / "cupti-42" / "kernels.parquet").unlink()

        with pytest.raises(CorruptFileError, match="table kernels: its file is missing or damaged"):
            read_profile(tmp_path / "cupti-42")

    def test_a_full_disk_ends_the_recording_not_the_program(self, recording):
        (recording.folder / "kernels.rows").symlink_to("/dev/full")
        recording.completed(records())
        recording.drain()

        assert recording.ending.is_set()


@needs_cupti
class TestAnotherProfiler:
    @pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
    def test_cupti_steps_aside_when_the_script_starts_one(self, recording, monkeypatch, framework):
        # Stands for the framework, whose own profiler must start once CUPTI is off.
        module, owner, name = importlib.import_module("gpuprof_cupti").PROFILERS[framework]
        started = []
        place = types.SimpleNamespace(**{name: lambda: started.append(recording.is_on)})
        fake = types.SimpleNamespace(**{owner: place}) if owner else place
        monkeypatch.setitem(sys.modules, module, fake)
        recording.is_on, recording.pid = True, os.getpid()
        recording.cupti = types.SimpleNamespace(
            activity_flush_all=lambda _: None, activity_disable=lambda _: None
        )
        recording.watch(framework)
        getattr(place, name)()
        getattr(place, name)()

        assert started == [False, False]
        assert notes(recording.folder.parent) == [
            f"the script ran the profiler of {framework}; CUPTI recorded nothing from there on"
        ]


@pytest.mark.parametrize("is_child", [False, True])
def test_only_the_process_that_records_ends_the_recording(monkeypatch, tmp_path, is_child):
    """A child that was forked has the parent's recording in memory, and must not touch it."""
    monkeypatch.syspath_prepend(str(INJECT))
    recording = importlib.import_module("gpuprof_cupti").CuptiRecording(tmp_path / "cupti-42")
    if is_child:
        recording.pid = os.getpid() + 1
    events = []
    recording.is_on = True
    recording.cupti = types.SimpleNamespace(
        activity_flush_all=lambda flag: events.append(("flushed", flag)),
        activity_disable=lambda _: events.append("off"),
    )
    monkeypatch.setattr(recording, "drain", lambda: events.append("drained"))

    recording.end()
    recording.end()

    assert recording.ending.is_set() == (not is_child)
    expected = [] if is_child else [("flushed", 1), *["off"] * 8, "drained"]
    assert events == expected


class Driver:
    """CUDA's driver, as a program leaves it that has a context on one of its GPUs, or none."""

    def __init__(self, *contexts):
        self.contexts = contexts

    def cuDeviceGetCount(self, count):  # noqa: N802 - the driver's name
        count._obj.value = len(self.contexts)  # noqa: SLF001 - what byref() points to

    def cuDevicePrimaryCtxGetState(self, device, _, is_active):  # noqa: N802
        is_active._obj.value = self.contexts[device]  # noqa: SLF001


class TestLastRecords:
    """What CUPTI still has when the program ends."""

    @pytest.fixture
    def ending(self, monkeypatch, tmp_path):
        monkeypatch.syspath_prepend(str(INJECT))
        module = importlib.import_module("gpuprof_cupti")
        monkeypatch.setattr(module, "HANDOVER_SECONDS", 0.3)
        one = module.CuptiRecording(tmp_path / "cupti-42")
        one.rows = types.SimpleNamespace(add=lambda _: None)
        monkeypatch.setattr(one, "drain", lambda: None)

        def end(flush, *contexts):
            monkeypatch.setattr(module.ctypes, "CDLL", lambda _: Driver(*contexts))
            one.cupti = types.SimpleNamespace(
                activity_flush_all=lambda _: flush(one), activity_disable=lambda _: None
            )
            one.end()
            return one.received, notes(tmp_path)

        return end

    def test_they_are_awaited_where_another_thread_hands_them_over(self, ending):
        def flush(recording):
            threading.Timer(0.1, recording.completed, (["a", "b"],)).start()

        assert ending(flush, 0, 1) == (2, [])

    def test_where_none_came_of_a_gpu_that_was_used_the_run_says_so(self, ending):
        received, [note] = ending(lambda _: None, 0, 1)

        assert (received, note.partition(";")[0]) == (
            0, "the program used a GPU, but CUPTI handed over no record of it",
        )  # fmt: skip

    def test_a_program_without_a_gpu_waits_for_none(self, ending, monkeypatch):
        monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waited"))

        assert ending(lambda _: None, 0, 0) == (0, [])

    @pytest.mark.parametrize("is_used", [True, False])
    def test_an_error_is_said_of_a_gpu_that_was_used(self, ending, is_used):
        error = RuntimeError("CUPTI_ERROR_UNKNOWN")

        def flush(recording):
            recording.received = int(is_used)
            raise error

        said = ["CUPTI did not hand over its last records: CUPTI_ERROR_UNKNOWN"]
        assert ending(flush, is_used) == (int(is_used), said * is_used)


def injected(folder, **variables):
    run = {"GPUPROF_RUN_DIR": str(folder), "GPUPROF_RECORDER": "cupti"} | variables
    return python("-c", "print('ran')", PYTHONPATH=str(INJECT), **run)


def notes(folder):
    return [line for p in folder.glob("cupti-*.notes") for line in p.read_text().splitlines()]


def test_cupti_steps_aside_for_another_profiler(tmp_path):
    completed = injected(tmp_path, CUDA_INJECTION64_PATH="/opt/libToolsInjection64.so")

    assert (completed.stdout, completed.stderr) == ("ran\n", "")
    assert notes(tmp_path) == [
        "another profiler is active (CUDA_INJECTION64_PATH is set), so CUPTI does not record"
    ]


@pytest.mark.skipif(driver_cuda() is not None, reason="shows what is said without a driver")
def test_a_program_without_a_driver_runs_as_it_would(tmp_path):
    completed = injected(tmp_path)

    assert (completed.stdout, completed.stderr) == ("ran\n", "")
    [note] = notes(tmp_path)
    assert note.startswith("CUPTI does not record: ")


@pytest.mark.skipif(driver_cuda() is not None, reason="shows what is said without a driver")
@pytest.mark.usefixtures("in_an_empty_folder")
def test_without_a_driver_the_recorder_refuses_before_the_program_starts():
    completed = record("cupti", script("open('ran', 'w')"))

    assert completed.returncode == 1
    assert completed.stderr.splitlines()[0] in {
        "Error: CUPTI needs NVIDIA's driver, and there is none here",
        "Error: cupti-python is not installed",
    }
    assert not Path("ran").exists()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Where a driver lies that has one GPU."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler is installed")
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = WITHOUT_GPU / "driver.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library.parent)


@pytest.mark.usefixtures("in_an_empty_folder")
class TestWholeRun:
    """`gpuprof record`, its driver and CUPTI replaced by what answers as they do."""

    @pytest.fixture
    def run(self, driver):
        def recorded(handed_over):
            # In a process of its own: the driver is looked for where it starts.
            paths = {"PYTHONPATH": f"{WITHOUT_GPU}:{ROOT}", "LD_LIBRARY_PATH": driver}
            command = words("cupti", script("print('ran')"))
            return python(*command[1:], HANDED_OVER=handed_over, **paths)

        return recorded

    def test_records_that_come_late_are_in_the_recording(self, run):
        assert run("late").stderr.splitlines()[1:] == [
            "Recorded in run",
            "Next: gpuprof report run",
        ]

        profile = read_profile("run")
        assert profile.table("kernels").select(["name", "end_ns"]).to_pylist() == [
            {"name": "saxpy", "end_ns": 1000}
        ]

    def test_a_gpu_without_records_is_said_once(self, run):
        assert run("never").stderr.endswith(
            " into run\n"
            "Warning: CUPTI recorded no GPU work: the program used a GPU, but CUPTI handed over no"
            " record of it; try --recorder torch or jax\n"
            "Its output is in run\n"
        )
