"""NVIDIA's tools on PATH: what they print, their versions, and what comes with nsys."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

_IMPORTER: Final = "QdstrmImporter"
_PATIENCE_S: Final = 20
_SCRIPT_BYTES: Final = 4096


def printed(tool: str, *words: str) -> str:
    """What a tool prints to either stream, such as its help; empty where it cannot be run."""
    path = shutil.which(tool)
    return "" if path is None else _printed(path, *words)


@cache
def _printed(*words: str) -> str:
    try:
        process = subprocess.run(  # noqa: S603 - a tool of the user's own PATH, words of ours
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{process.stdout}\n{process.stderr}"


def version(tool: str) -> str | None:
    """A tool's version, such as 2023.4.4.54; None where it is not on PATH or does not say."""
    number = re.search(r"\d+(?:\.\d+)+", printed(tool, "--version"))
    return number[0] if number else None


def importer() -> str | None:
    """The importer of nsys' streams: on PATH, where nsys' help names a file, or beside nsys."""
    named = re.search(r"'(/\S+/host-[\w-]+)/", printed("nsys", "profile", "--help"))
    nsys = shutil.which("nsys")
    beside = sorted(Path(nsys).resolve().parent.parent.glob("host-*")) if nsys else []
    places = [None, *([named[1]] if named else []), *beside]
    programs = (shutil.which(_IMPORTER, path=place) for place in places)
    return next(filter(None, programs), None)


def newest_cuda() -> tuple[int, int] | None:
    """The newest CUDA that nsys brings a tracer for; None where that is unknown."""
    path = shutil.which("nsys")
    if path is None:
        return None
    program = Path(path).resolve()
    try:
        # Some packages start it by a script that names it.
        with program.open("rb") as file:
            named = re.search(rb"(/\S+/target-[\w-]+)/nsys", file.read(_SCRIPT_BYTES))
    except OSError:
        return None
    folder = Path(named[1].decode()) if named else program.parent
    names = (path.name for path in folder.glob("libcupti.so.*"))
    versions = [re.fullmatch(r"libcupti\.so\.(\d+)\.(\d+)", name) for name in names]
    return max(((int(v[1]), int(v[2])) for v in versions if v), default=None)
