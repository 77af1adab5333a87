"""Windows and macOS read what Linux recorded: nothing of Linux is needed to import gpuprof."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = """
import os, platform, signal, sys
for name in ("fcntl", "pty", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
for name in ("killpg", "getpgid", "waitid", "P_PID", "WEXITED", "WNOWAIT", "getuid"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP"):
    delattr(signal, name)
platform.system = lambda: "SYSTEM"
import gpuprof, gpuprof.annotate, gpuprof.cli, gpuprof.cli.record, gpuprof.readers
with gpuprof.epoch(), gpuprof.step():
    pass
gpuprof.cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("system", ["Windows", "Darwin"])
def test_recording_elsewhere_is_refused_and_all_else_imports(tmp_path, system):
    (tmp_path / "script.py").touch()
    completed = subprocess.run(
        [sys.executable, "-c", ELSEWHERE.replace("SYSTEM", system), "record", "script.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
        timeout=60,
        check=False,
    )

    assert completed.returncode == 1
    assert completed.stderr.splitlines() == [
        f"Error: recording needs Linux; this is {system}",
        "Hint: Record on Linux; the run's folder can be read anywhere.",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["script.py"]
