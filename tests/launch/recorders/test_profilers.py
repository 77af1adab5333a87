"""The recorders of NVIDIA's tools: their words, and real runs of both without a GPU."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from recorded_runs import WAITS, manifest, record, script, start

from gpuprof import read_profile
from gpuprof.base import nsight
from gpuprof.base.errors import EmptyRecordingError
from gpuprof.launch.contract import Ended, LaunchedRun, Program
from gpuprof.launch.recorders import nsys, nvprof
from gpuprof.launch.run.gpus import Gpu, gpus

EACH_TOOL = pytest.mark.parametrize(
    "tool", [pytest.param(tool, marks=pytest.mark.profilers(tool)) for tool in ("nsys", "nvprof")]
)
NO_GPU = pytest.mark.skipif(bool(gpus()), reason="shows what is said where there is no GPU")


@pytest.fixture
def run(tmp_path):
    return LaunchedRun(Program(("python", "train.py")), tmp_path)


HELP_2023 = """
    -t, --trace=

       Possible values are 'cuda', 'nvtx', 'cublas', 'cublas-verbose', 'mpi', 'osrt', 'cudnn',
       'opengl', 'python-gil' or 'none'.
       Select the API(s) to trace. Multiple APIs can be selected, separated by commas only
"""


@pytest.mark.parametrize(
    ("help_text", "trace", "graphs"),
    [
        (HELP_2023 + "--cuda-graph-trace=", "cuda,nvtx,cublas,cudnn,mpi", True),
        ("an unknown help", "cuda,nvtx,cublas,cudnn", False),
    ],
    ids=["2023", "unknown"],
)
def test_nsys_traces_what_the_version_offers(run, monkeypatch, help_text, trace, graphs):
    monkeypatch.setattr(nsight, "printed", lambda *_: help_text)
    words = nsys.command(run, ("python", "train.py"))

    assert f"--trace={trace}" in words
    assert ("--cuda-graph-trace=node" in words) == graphs
    assert {"--sample=none", "--cpuctxsw=none"} <= set(words)
    assert words[-2:] == ["python", "train.py"]


def test_nsys_is_started_again_only_where_the_program_did_not_run(run):
    lost = "Connection to Agent lost. This is most likely a bug."
    (run.folder / "recorder.log").write_text(lost)

    assert nsys.failed_to_start(run, Ended(1, 0.1, 0))
    assert not nsys.failed_to_start(run, Ended(1, 0.1, 10))
    (run.folder / nsys.REPORT).touch()
    assert not nsys.failed_to_start(run, Ended(1, 0.1, 0))


def test_nsys_without_a_report_is_told_with_its_own_words(run):
    said = "Collecting\r10 %\rImportation failed.\nError {\n/tmp/x\n"
    (run.folder / "recorder.log").write_text(said)

    recorded = nsys.finish(run, Ended(0, 1.0, 5))
    assert recorded.nothing_recorded == "nsys wrote no report: Importation failed."


def test_nsys_that_met_a_full_disk_raises_it(run):
    (run.folder / "recorder.log").write_text("Failed to create x: No space left on device.\n")

    with pytest.raises(OSError, match="No space left on device"):
        nsys.finish(run, Ended(0, 1.0, 5))


def test_nsys_imports_again_what_it_left_raw(run, monkeypatch):
    importer = run.folder / "QdstrmImporter"
    importer.write_text('#!/bin/sh\ncp "${1#--input-file=}" "${2#--output-file=}"\n')
    importer.chmod(0o755)
    monkeypatch.setattr(nsight, "printed", lambda *_: f"See '{run.folder}/host-linux-x64/x.json'")
    (run.folder / "host-linux-x64").mkdir()
    importer.rename(run.folder / "host-linux-x64/QdstrmImporter")
    (run.folder / nsys.RAW).write_text("raw")
    monkeypatch.setattr(nsys, "_export", lambda _: False)
    recorded = nsys.finish(run, Ended(0, 1.0, 5))

    assert (run.folder / nsys.REPORT).read_text() == "raw"
    assert not (run.folder / nsys.RAW).exists()
    assert recorded.nothing_recorded == ("nsys could not export its report; nsys.nsys-rep is kept")


def export(path, kernels):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        if kernels:
            database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1)")
        database.commit()


@pytest.mark.parametrize("kernels", [True, False])
def test_nsys_export_without_gpu_work_is_told_from_one_with_it(run, monkeypatch, kernels):
    (run.folder / nsys.REPORT).touch()
    export(run.folder / nsys.EXPORT, kernels)
    monkeypatch.setattr(nsys, "_export", lambda _: True)
    monkeypatch.setattr(nsys, "why_no_gpu", lambda: "no NVIDIA driver here")
    recorded = nsys.finish(run, Ended(0, 1.0, 5, interrupted=True))

    nothing = "nsys recorded no GPU work: no NVIDIA driver here"
    assert recorded.nothing_recorded == (None if kernels else nothing)
    assert recorded.recordings == ("nsys.sqlite",)
    assert recorded.warnings == ("The run was stopped before its end.",)


@pytest.mark.parametrize(
    ("said", "own", "status"),
    [
        ("======== Error: Application returned non-zero code 7", 9, 7),
        ("==12== Error: Application received signal 11", 15, 139),
        ("==12== Profiling result:", 0, 0),
        ("", 137, 137),
    ],
    ids=["status", "signal", "success", "nvprof-was-killed"],
)
def test_nvprof_gives_back_the_programs_status(run, said, own, status):
    (run.folder / "nvprof-12.log").write_text(said)

    assert nvprof.finish(run, Ended(own, 1.0, 5)).exit_status == status


def test_nvprof_warnings_reach_the_manifest(run):
    (run.folder / "nvprof-12.log").write_text(
        "======== Warning: nvprof is not supported on devices with compute capability 8.0\n"
        "======== Warning: No profile data collected.\n"
    )

    assert nvprof.finish(run, Ended(0, 1.0, 5)).warnings == (
        'nvprof warned: "nvprof is not supported on devices with compute capability 8.0"',
    )


def test_nvprof_refuses_gpus_that_it_cannot_profile(monkeypatch):
    monkeypatch.setattr(nvprof.shutil, "which", lambda _: "/usr/bin/nvprof")
    monkeypatch.setattr(nvprof, "gpus", lambda: (Gpu("NVIDIA H200", (9, 0), 1),))
    obstacle = nvprof.obstacle(Program(("python",)))

    assert obstacle.message == (
        "nvprof cannot profile NVIDIA H200 (compute capability 9.0); it supports up to 7.5"
    )
    monkeypatch.setattr(nvprof, "gpus", lambda: (Gpu("Tesla T4", (7, 5), 1),))
    assert nvprof.obstacle(Program(("python",))) is None


def test_nvprof_file_names_escape_the_folders_percent_signs(tmp_path):
    words = nvprof.command(LaunchedRun(Program(("a",)), tmp_path / "50%h"), ("a",))

    assert f"{tmp_path}/50%%h/nvprof-%p.nvvp" in words


REAL = """
import sys, gpuprof
for _ in range(2):
    with gpuprof.epoch():
        for _ in range(3):
            with gpuprof.step(): pass
print("50 %", end="")
sys.exit(7)
"""


@pytest.mark.usefixtures("in_an_empty_folder")
@EACH_TOOL
@NO_GPU
def test_real_profiler_records_a_real_script(tool):
    completed = record(tool, script(REAL))

    assert completed.stdout == "50 %"
    assert completed.returncode == 7
    assert completed.stderr.splitlines()[-3:] == [
        "The program ended with exit status 7",
        f"Warning: {tool} recorded no GPU work: no NVIDIA driver here",
        "Its output is in run",
    ]
    saved_manifest = manifest()
    assert saved_manifest["exit_status"] == 7
    assert [(e["epoch"], e["steps"]) for e in saved_manifest["epochs"]] == [(0, 3), (1, 3)]
    assert saved_manifest["versions"][tool][0].isdigit()
    with pytest.raises(EmptyRecordingError, match="no NVIDIA driver here"):
        read_profile("run")


@pytest.mark.profilers
@pytest.mark.usefixtures("in_an_empty_folder")
def test_real_nsys_keeps_the_marks_as_ranges():
    pytest.importorskip("nvtx", reason="nvtx is not installed")
    record("nsys", script(REAL))
    with closing(sqlite3.connect("run/nsys.sqlite")) as database:
        query = "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"
        ranges = database.execute(query).fetchone()[0]

    assert ranges == 8
    assert Path("run/nsys.nsys-rep").exists()


@pytest.mark.usefixtures("in_an_empty_folder")
@pytest.mark.parametrize(
    ("tool", "number", "status"),
    [
        pytest.param("nsys", signal.SIGINT, 5, marks=pytest.mark.profilers, id="nsys-ctrl-c"),
        pytest.param("nsys", signal.SIGTERM, 143, marks=pytest.mark.profilers, id="nsys-sigterm"),
        pytest.param(
            "nvprof", signal.SIGINT, 5, marks=pytest.mark.profilers("nvprof"), id="nvprof-ctrl-c"
        ),
    ],
)
def test_real_profiler_ends_in_order_after_the_program(tool, number, status):
    process = start(tool, script(WAITS))
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, number)
    out, _ = process.communicate(timeout=60)

    assert out == ("cleaned up\n" if number == signal.SIGINT else "")
    assert process.returncode == status
    assert manifest()["exit_status"] == status
    assert tool == "nvprof" or Path("run/nsys.sqlite").exists()
