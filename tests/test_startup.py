"""How a process of gpuprof's own ends, in processes of their own."""

import subprocess
import sys

import pytest
from commands import ROOT

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
