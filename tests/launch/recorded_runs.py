"""`gpuprof record` in a process of its own, into the folder ``run``, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import commands

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
# With the recorders of tests beside those of gpuprof.
PLAIN_GPUPROF = HERE / "plain_gpuprof.py"
GPUPROF = [sys.executable, str(PLAIN_GPUPROF)]
ENVIRONMENT = {**os.environ, "PYTHONPATH": commands.PYTHONPATH}
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)
# A program that waits for Ctrl-C, and then takes its time.
WAITS = """
import sys, time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.4)
    print("cleaned up")
    sys.exit(5)
"""


def words(recorder, program, *options):
    return [*GPUPROF, "record", "--recorder", recorder, "-o", "run", *options, *program]


def script(code, *arguments):
    Path("script.py").write_text(code)
    return ["script.py", *arguments]


def record(recorder, program, *options, **variables):
    """A run that ended."""
    return gpuprof(*words(recorder, program, *options)[2:], **variables)


def gpuprof(*arguments, **variables):
    """Any command that ended, with the recorders of tests, in the folder of the test."""
    ours = {k: v for k, v in ENVIRONMENT.items() if os.environ.get(k) != v} | variables
    ours.pop("PYTHONPATH", None)
    return commands.gpuprof(*arguments, cwd=Path.cwd(), program=PLAIN_GPUPROF, **ours)


def start(recorder, program, *options):
    """The same while it runs, in a group of processes of its own."""
    return subprocess.Popen(
        words(recorder, program, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def manifest(folder="run"):
    return json.loads(Path(folder, "manifest.json").read_text(encoding="utf-8"))
