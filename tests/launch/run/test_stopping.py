"""A profiler comes to its end although its program is stopped by force, unless it hangs."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from recorded_runs import ENVIRONMENT, script, start

from gpuprof.base.manifest import RUN_DIR_VARIABLE, read_manifest
from gpuprof.launch import recording
from gpuprof.launch.recorders import nsys
from gpuprof.launch.run import process, program_signals
from gpuprof.launch.run.process import ProgramOutput

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

PATIENCE_S = 60


@pytest.fixture
def folder(tmp_path):
    """A run's folder; what names it does not outlive the test."""
    yield tmp_path
    program_signals.kill_processes_of(str(tmp_path))


@pytest.fixture
def impatient(monkeypatch):
    for module in (program_signals, process, recording):
        monkeypatch.setattr(module, "SAVING_SECONDS", 0.3)
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(process, "_SILENT_SECONDS", 0)


# As nsys does, it adopts orphans.
ADOPTS = "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)"


def until(is_so):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def run(folder, program, profiler, say=lambda _: None, **options):
    """Run a program under a profiler, both in Python."""
    code = (
        "import ctypes, os, pathlib, subprocess, sys, time; "
        f"{ADOPTS}; subprocess.run(sys.argv[1:]); {profiler}"
    )
    with Path("log").open("wb") as log, Path("recorder.log").open("wb") as recorder_log:
        wrapping = process.Wrapping(
            lambda words: [sys.executable, "-c", code, *words], recorder_log, say=say
        )
        environment = {**ENVIRONMENT, RUN_DIR_VARIABLE: str(folder)}
        words = [sys.executable, "-c", program]
        return process.run_program(words, environment, ProgramOutput(log), wrapping, **options)


IGNORES = (
    "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; "
    "print('trains', flush=True); time.sleep(600)"
)
HANGS = "open('hangs', 'w').close(); time.sleep(600)"


def signal_when(is_so, *numbers):
    """Signal this process, whose run is under way as long as the profiler hangs."""

    def wait_and_send():
        until(is_so)
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(0.2)

    thread = threading.Thread(target=wait_and_send)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]], ids=["SIGTERM", "SIGINT twice"]
)
@pytest.mark.usefixtures("impatient")
def test_a_profiler_that_hangs_is_ended_after_a_word(folder, numbers):
    said = []
    sender = signal_when(Path("hangs").exists, *numbers)
    ended = run(folder, "pass", HANGS, said.append)
    sender.join()

    assert (ended.exit_status, ended.interrupted, ended.timed_out) == (137, True, False)
    assert said == ["The profiler is saving the recording; stop again to discard it"]
    assert program_signals.processes_of(str(folder)) == []


@pytest.mark.parametrize("stream", ["pipe", "terminal"])
def test_a_run_is_kept_if_nobody_reads_any_more_what_is_said(stream):
    code = "import time; print('begun', flush=True); time.sleep(1); raise SystemExit(7)"
    reader, writer = os.pipe() if stream == "pipe" else pty.openpty()
    command = [sys.executable, "-m", "gpuprof", "record", "--recorder", "none", "-o", "run"]
    streams = {"stdout": writer, "stderr": writer}
    with subprocess.Popen([*command, *script(code)], env=ENVIRONMENT, **streams) as recorded:
        os.close(writer)
        assert b"Recording with" in os.read(reader, 100)
        os.close(reader)

    assert recorded.returncode == 7
    assert read_manifest(Path("run")).exit_status == 7


@pytest.mark.usefixtures("impatient")
def test_a_profiler_that_hangs_does_not_outlive_the_timeout(folder):
    ended = run(folder, "pass", HANGS, timeout_seconds=0.1)

    assert ended.exit_status == 137
    assert program_signals.processes_of(str(folder)) == []


def test_a_profiler_outlives_its_program_that_is_stopped_by_force(folder, monkeypatch):
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.2)
    ended = run(folder, IGNORES, "open('report', 'w').close()", timeout_seconds=1)

    assert ended.timed_out
    assert Path("report").exists()


LEAVES_ONE = (
    "import pathlib, subprocess; child = subprocess.Popen(['sleep', '600'], start_new_session=True,"
    " stdout=-3, stderr=-3, stdin=-3); pathlib.Path('child').write_text(str(child.pid))"
)
WAITS = "child = int(pathlib.Path('child').read_text()); os.waitpid(child, 0)"


@pytest.mark.usefixtures("impatient")
def test_what_a_program_leaves_running_is_named_and_stopped_by_ctrl_c(folder):
    said = []

    def say(line):
        said.append(line)
        os.kill(os.getpid(), signal.SIGINT)

    ended = run(folder, LEAVES_ONE, WAITS, say)

    child = f"{Path('child').read_text()} (sleep)"
    waits = "The program has ended, and its profiler waits for what it has left running"
    assert ended.exit_status == 0
    assert said == [f"{waits}: {child}; Ctrl-C stops it"]


@pytest.mark.usefixtures("impatient")
def test_a_profiler_that_hangs_before_the_program_starts_is_ended(folder):
    sender = signal_when(Path("hangs").exists, signal.SIGTERM)
    with Path("log").open("wb") as log:
        wrapping = process.Wrapping(lambda _: [sys.executable, "-c", f"import time; {HANGS}"], log)
        environment = {**ENVIRONMENT, RUN_DIR_VARIABLE: str(folder)}
        ended = process.run_program(["true"], environment, ProgramOutput(log), wrapping)
    sender.join()

    assert ended.exit_status == 137


@pytest.fixture
def hanging_nsys(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nsys").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


@pytest.mark.parametrize("timeout_ns", [None, 1], ids=["SIGTERM", "timeout"])
@pytest.mark.usefixtures("impatient", "hanging_nsys")
def test_an_export_that_hangs_is_ended(folder, timeout_ns):
    said = []
    with recording._Patience(folder, timeout_ns, said.append) as patience:  # noqa: SLF001
        if timeout_ns is None:
            patience.handle(signal.SIGTERM, None)
        assert not nsys._export(folder)  # noqa: SLF001

    assert said == ([] if timeout_ns else ["Saving the recording; stop again to discard it"])


@pytest.mark.profilers
def test_nsys_keeps_its_report_of_a_program_that_ignores_all_signals(tmp_path):
    run_folder = str(tmp_path / "run")
    child = start("nsys", script(IGNORES))

    def program_has_ended():
        child.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        return not any(map(is_program, program_signals.processes_of(run_folder)))

    assert child.stdout.readline() == "trains\n"
    until(program_has_ended)
    child.communicate(timeout=PATIENCE_S)

    assert child.returncode == 137
    assert read_manifest(tmp_path / "run").recordings == ("nsys.sqlite",)
    assert (tmp_path / "run" / "nsys.nsys-rep").exists()
    until(lambda: not program_signals.processes_of(run_folder))


def is_program(process_id):
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
        return words[1:2] == [b"script.py"]
    return False
