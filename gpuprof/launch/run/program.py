"""From the words of a command to a program that is there, and to its environment."""

import ast
import importlib.machinery
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuprof.base import json_input
from gpuprof.base.errors import InputError, UsageError
from gpuprof.base.json_input import mapping
from gpuprof.launch.contract import Program

_MOST_FILES: Final = 200
# Of the program, for `inject/gpuprof_placement.py`.
_PLACEMENT_VARIABLE: Final = "GPUPROF_PLACEMENT"
_PLACEMENT_FORMAT: Final = "gpuprof-placement"


def script(path: str, arguments: Sequence[str] = ()) -> Program:
    """A Python script, run by the interpreter that runs gpuprof.

    Raises:
        InputError: It is not there.
    """
    source = Path(path)
    if source.is_dir() and (source / "__main__.py").is_file():
        source = source / "__main__.py"
    if not source.is_file():
        msg = f"{path}: no such script"
        words = " ".join([path, *arguments])
        advice = f"To record an executable, put -- before it: gpuprof record -- {words}"
        raise InputError(msg, None if shutil.which(path) is None else advice)
    return Program((sys.executable, path, *arguments), source)


def module(name: str, arguments: Sequence[str] = ()) -> Program:
    """A Python module, as ``python -m`` runs it.

    Raises:
        InputError: There is none of this name.
    """
    # The whole name would import the packages above it; that is for the program to do.
    top = name.partition(".")[0]
    path = [str(Path.cwd()), *sys.path]
    spec = importlib.machinery.PathFinder.find_spec(top, path)
    if spec is None and top not in sys.stdlib_module_names:
        msg = f"{name}: no such module"
        raise InputError(msg, f"Looked in {Path.cwd()} and where {sys.executable} looks.")
    source = next((candidate for folder in path for candidate in _beside(Path(folder), name)), None)
    if source is not None and source.name == "__init__.py":
        main = source.with_name("__main__.py")
        source = main if main.is_file() else source
    return Program((sys.executable, "-m", name, *arguments), source)


def executable(name: str, arguments: Sequence[str] = ()) -> Program:
    """Any program, found as a shell finds it.

    Raises:
        InputError: It is not there or may not be run.
    """
    path = shutil.which(name)
    if path is None:
        reason = "is not executable" if Path(name).is_file() else "no such program"
        msg = f"{name}: {reason}"
        raise InputError(msg)
    sources = [Path(a) for a in arguments if a.endswith(".py") and Path(a).is_file()]
    return Program((path, *arguments), sources[0] if sources else None)


def imports(program: Program) -> frozenset[str]:
    """Top-level names of the modules that a Python program imports, by reading its sources.

    Follows the modules that lie beside it. What is imported by other means is not seen.
    """
    if program.source is None:
        return frozenset()
    names: set[str] = set()
    waiting, visited = [program.source], {program.source}
    while waiting and len(visited) < _MOST_FILES:
        try:
            nodes = ast.walk(ast.parse(waiting.pop().read_bytes()))
        except (OSError, SyntaxError, ValueError):
            continue  # it is no Python
        imported: list[str] = []
        for node in nodes:
            if isinstance(node, ast.Import):
                imported += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in imported:
            names.add(name.partition(".")[0])
            beside = [p for p in _beside(program.source.parent, name) if p not in visited]
            visited.update(beside)
            waiting += beside
    return frozenset(names)


def _beside(folder: Path, name: str) -> list[Path]:
    stem = folder.joinpath(*name.split("."))
    return [p for p in (stem.with_suffix(".py"), stem / "__init__.py") if p.is_file()]


def environment_of(additions: dict[str, str]) -> dict[str, str]:
    """The variables that a recorded program gets: all of ours, and these.

    Python's own buffering is off, so that output is shown as it comes and a crash loses none.
    """
    return {"PYTHONUNBUFFERED": "1", **os.environ, **additions}


def placement_environment(path: Path | None, recorder: str) -> dict[str, str]:
    """The variable that names a file of `gpuprof place` to the program; none without a file.

    Raises:
        UsageError: The recorder applies no placement.
        InputError: The file cannot be read, or `gpuprof place` did not write it.
    """
    if path is None:
        return {}
    if recorder != "tensorflow":
        msg = f"--placement needs the recorder tensorflow, not {recorder}"
        raise UsageError(msg, "Give --recorder tensorflow.")
    hint = "Write one with `gpuprof place RUN --output FILE`."
    try:
        document = mapping(json_input.load(path)) or {}
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg, hint) from error
    except ValueError as error:
        msg = f"{path} is not JSON: {error}"
        raise InputError(msg, hint) from error
    parts = [mapping(document.get(part)) for part in ("layers", "scopes")]
    devices = [device for part in parts if part is not None for device in part.values()]
    is_whole = None not in parts and all(isinstance(device, str) for device in devices)
    if document.get("format") != _PLACEMENT_FORMAT or not is_whole:
        msg = f"{path} is no placement"
        raise InputError(msg, hint)
    return {_PLACEMENT_VARIABLE: str(path.resolve())}
