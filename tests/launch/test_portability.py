"""Windows and macOS read what Linux recorded: nothing of Linux is needed to import gpuprof."""

import pytest
from commands import SINGLE, python

ELSEWHERE = """
import os, platform, signal, sys
for name in ("fcntl", "pty", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
for name in ("killpg", "getpgid", "waitid", "P_PID", "WEXITED", "WNOWAIT", "getuid"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP"):
    delattr(signal, name)
platform.system = lambda: "SYSTEM"
import gpuprof, gpuprof.annotate, gpuprof.cli, gpuprof.cli.recording, gpuprof.readers
with gpuprof.epoch(), gpuprof.step():
    pass
"""
COMMAND = "gpuprof.cli.main(sys.argv[1:])"
LIBRARY = """
for call in (lambda: gpuprof.record("script.py"),
             lambda: gpuprof.sweep("script.py", "{a}", grid={"a": [1]})):
    try:
        call()
    except gpuprof.GpuprofError as error:
        print(error.message)
for name in {*gpuprof.__all__} - {"KerasCallback"}:  # which imports TensorFlow
    getattr(gpuprof, name)
print(gpuprof.report(sys.argv[1]).tables["totals"].empty)
"""


def _run(system, code, *arguments, folder):
    (folder / "script.py").touch()
    there = ELSEWHERE.replace("SYSTEM", system)
    return python("-c", there + code, *arguments, cwd=folder, check=False)


@pytest.mark.parametrize("system", ["Windows", "Darwin"])
def test_recording_elsewhere_is_refused_and_all_else_imports(tmp_path, system):
    completed = _run(system, COMMAND, "record", "script.py", folder=tmp_path)

    assert completed.returncode == 1
    assert completed.stderr.splitlines() == [
        f"Error: recording needs Linux; this is {system}",
        "Hint: Record on Linux; the run's folder can be read anywhere.",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["script.py"]


@pytest.mark.parametrize("system", ["Windows", "Darwin"])
def test_from_python_all_that_records_nothing_works_elsewhere(tmp_path, system):
    completed = _run(system, LIBRARY, SINGLE, folder=tmp_path)

    refusal = f"recording needs Linux; this is {system}\n"
    assert completed.stdout == 2 * refusal + "False\n", completed.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["script.py"]
