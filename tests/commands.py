"""The real command in a process of its own, as a user runs it."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
# Of programs that tests start, and of those that these start.
PYTHONPATH = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'lean'}"
PUBLISHED = ROOT / "sample_logs" / "nvprof" / "published"
SINGLE, DUAL, EXAGGERATED = (
    str(PUBLISHED / f"{name}.txt") for name in ("single", "dual", "exaggerated")
)


def gpuprof(*arguments, cwd=ROOT, stdout=None, program=None, **environment):
    """Run ``gpuprof`` with arguments; the process that ended, with text of both streams.

    What Python reads when it starts needs a start of its own; all else starts from a process that
    has imported the package, which takes an eighth of the time. A program of Python that stands
    for it runs before that.
    """
    words = [*map(str, arguments)]
    kept = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}}
    names = kept | {"PYTHONPATH": PYTHONPATH} | environment
    if os.name != "posix" or any(name.startswith("PYTHON") for name in environment):
        return subprocess.run(
            [sys.executable, *([program] if program else ["-m", "gpuprof"]), *words],
            cwd=cwd, env=names, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        out, errors = (Path(folder, name) for name in ("stdout", "stderr"))
        out.touch()
        errors.touch()
        streams = {"stdout": str(out if stdout is None else stdout.name), "stderr": str(errors)}
        request = {"arguments": words, "folder": str(cwd), "environment": names} | streams
        server = _server(program)
        print(json.dumps(request), file=server.stdin, flush=True)
        status = int(server.stdout.readline())
        texts = (path.read_text(encoding="utf-8") for path in (out, errors))
        return subprocess.CompletedProcess(words, status, *texts)


def python(*words, cwd=None, check=True, **environment):
    """Run Python with these words in a process of its own; it ended, with text of both streams."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True, text=True, timeout=300, check=check,
    )  # fmt: skip


def printed_by(code, *words):
    """What a program of Python prints in a process of its own, which fails where that does."""
    return python("-c", code, *words).stdout


def started(*arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **environment):
    """``gpuprof`` with arguments in a process of its own, while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "gpuprof", *map(str, arguments)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=stdout, stderr=stderr, text=True,
    )  # fmt: skip


@cache
def _server(program):
    """The process that commands are forked from; it ends with that of the tests."""
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("command_server.py"), *filter(None, [program])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
    )
    atexit.register(server.communicate)
    return server
