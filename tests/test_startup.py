"""What a process of gpuprof's own imports and how it ends, in processes of their own."""

import subprocess
import sys
from importlib.util import find_spec

import nsys_export
import pytest
from commands import ROOT

from gpuprof import native
from gpuprof.__main__ import run
from gpuprof.base import startup

PROGRAM = """
import atexit, sys, threading, time
from gpuprof.base import startup

class Object:
    def __del__(self):
        print("taken apart")

an_object = Object()
atexit.register(print, "removed")
print("written")
"""


def ended(code):
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.stderr == ""
    return process.returncode, process.stdout.split("\n")[:-1]


@pytest.mark.parametrize("status", [0, 4])
def test_what_is_temporary_is_removed_and_nothing_else_taken_apart(status):
    assert ended(f"startup.end({status})") == (status, ["written", "removed"])


@pytest.mark.parametrize(
    "awaited",
    [
        "threading.Thread(target=time.sleep, args=(0.2,)).start(); startup.end(3)",
        "sys.setprofile(lambda *_: None); startup.end(3); sys.setprofile(None)",
        "startup.end(None)",
    ],
)
def test_where_something_is_left_to_do_python_ends_the_process(awaited):
    assert ended(awaited) == (0, ["written", "removed", "taken apart"])


def test_a_command_ends_so(monkeypatch):
    statuses = []
    monkeypatch.setattr(startup, "prepare", lambda: None)
    monkeypatch.setattr(startup, "end", statuses.append)
    monkeypatch.setattr(sys, "argv", ["gpuprof", "--version"])

    with pytest.raises(SystemExit):
        run()

    assert statuses == [0]


OTHERS = (
    "base.manifest", "findings.costs", "predict.effects", "analyses.trace_notes", "facts.launches",
    "readers.nvprof.database", "show.csv", "show.json",
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        pytest.param(
            [],
            ["pandas", "pyarrow.compute", "matplotlib", "msgspec", "numpy.ma"]
            + [f"gpuprof.{name}" for name in ("readers.kineto.trace_file", "comparisons")]
            + [f"gpuprof.show.{name}" for name in ("charts", "page")],
            marks=pytest.mark.skipif(
                # Rows of Python objects, which other ways hand over, Arrow imports pandas for.
                native.library() is None, reason="nothing was compiled here"
            ),
            id="report",
        ),
        pytest.param(
            ["--table", "kernel_summary"],
            ["numpy.ma", *(f"gpuprof.{name}" for name in OTHERS)],
            id="one-table",
        ),
    ],
)  # fmt: skip
def test_a_report_on_a_database_imports_nothing_that_it_does_not_need(tmp_path, options, idle):
    kernels, devices = [nsys_export.kernel(0, 9)], [{"id": 0, "name": "A100"}]
    tables = {nsys_export.KERNEL: kernels, "TARGET_INFO_GPU": devices}
    path = nsys_export.write(tmp_path / "x.sqlite", tables)
    code = (
        # NumPy 1 imports all of itself.
        "import atexit, sys, numpy; of_numpy = {*sys.modules}; from gpuprof.cli import main; "
        f"atexit.register(lambda: print(sorted({{*{idle}}} & sys.modules.keys() - of_numpy))); "
        "main(['report', *sys.argv[1:]])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, path, *options], capture_output=True, check=True
    )

    assert all(find_spec(name) for name in idle)
    assert done.stdout.endswith(b"\n[]\n")
