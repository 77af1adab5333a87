"""`gpuprof record` in a process of its own, into the folder ``run``, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
# With the recorders of tests beside those of gpuprof.
GPUPROF = [sys.executable, str(HERE / "plain_gpuprof.py")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)


def words(recorder, program, *options):
    return [*GPUPROF, "record", "--recorder", recorder, "-o", "run", *options, *program]


def script(code, *arguments):
    Path("script.py").write_text(code)
    return ["script.py", *arguments]


def record(recorder, program, *options, check=False, **keywords):
    how = {"capture_output": True, "text": True, "timeout": 120, "env": ENVIRONMENT}
    return subprocess.run(words(recorder, program, *options), check=check, **how | keywords)


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
