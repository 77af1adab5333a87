"""What recorders inside a Python program have in common: how they get into it.

A ``sitecustomize`` that comes first on PYTHONPATH waits for the script to import a framework, then
records it from inside (`inject/`); the script is not touched.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gpuprof.base import json_input
from gpuprof.base.errors import MissingToolError, RecordError, install
from gpuprof.base.json_input import mapping
from gpuprof.base.manifest import RUN_DIR_VARIABLE
from gpuprof.launch.contract import LaunchedRun, Program, Recorded
from gpuprof.launch.run.gpus import described_gpus, why_no_gpu
from gpuprof.launch.run.marks import marked
from gpuprof.launch.run.window import in_seconds

INJECT: Final = Path(__file__).parent.parent / "inject"
PYTHON_STARTED: Final = "python-started"
# Which recorder `inject/sitecustomize.py` puts behind the import of its framework.
RECORDER_VARIABLE: Final = "GPUPROF_RECORDER"
WINDOWS: Final = frozenset(("delay_ns", "duration_ns", "epochs"))

NOT_LOADED: Final = (
    "the recorder was not loaded: no Python process started, or it ignored PYTHONPATH"
    " (python -I, -E or -S)"
)


def obstacle(program: Program, recorder: str, title: str) -> RecordError | None:
    """Why a framework's own profiler cannot record a program.

    Args:
        program: What is to be recorded.
        recorder: Name of the recorder, of the package that it needs, and of the extra for that.
        title: The framework's name for people.
    """
    interpreter = Path(program.arguments[0])
    if program.source is None and not interpreter.name.startswith("python"):
        msg = f"{interpreter.name} is not a Python program, which this recorder needs"
        return RecordError(msg, "Record it with --recorder nsys.")
    # Another interpreter has packages of its own, which only running it would show.
    if str(interpreter) == sys.executable and find_spec(recorder) is None:
        msg = f"{title} is not installed"
        return MissingToolError(msg, install(recorder))
    return None


def environment(run: LaunchedRun, recorder: str, **unless_set: str) -> dict[str, str]:
    """Put the recorder first on PYTHONPATH, and name the run's folder and its part to it.

    Args:
        run: What is recorded.
        recorder: Name of the recorder.
        unless_set: Further variables where the user has not set them.
    """
    python_path = os.environ.get("PYTHONPATH")
    times = {
        "GPUPROF_DELAY_SECONDS": run.window.delay_ns,
        "GPUPROF_DURATION_SECONDS": run.window.duration_ns,
    }
    return {
        "PYTHONPATH": f"{INJECT}{os.pathsep}{python_path}" if python_path else str(INJECT),
        RUN_DIR_VARIABLE: str(run.folder.absolute()),
        RECORDER_VARIABLE: recorder,
        **{name: in_seconds(ns) for name, ns in times.items() if ns is not None},
        **run.window.environment(),
        **{name: value for name, value in unless_set.items() if name not in os.environ},
    }


def notes(folder: Path, recorder: str) -> list[str]:
    """What the recorders inside the program's processes noted, each sentence once."""
    sentences: list[str] = []
    for path in sorted(folder.glob(f"{recorder}-*.notes")):
        sentences += path.read_text(encoding="utf-8", errors="replace").splitlines()
        path.unlink()
    return list(dict.fromkeys(sentences))


def silent(folder: Path, files: Sequence[str]) -> list[str]:
    """Whether processes that marked epochs left none of these files, in a sentence."""
    recorded_processes = {
        int(number) for name in files for number in re.findall(r"-(\d+)(?:\.|$)", name)
    }
    _, processes, _ = marked(folder)
    numbers = [process["process_id"] for process in processes]
    lacking = [number for number in numbers if number not in recorded_processes]
    if not recorded_processes or not lacking:
        return []
    count = f"{len(lacking)} of {len(numbers)}"
    return [f"{count} processes that marked epochs have no recording: they were forked or killed"]


def document(path: Path) -> dict[str, Any]:
    """The object that a recorder inside the program left in a file; empty where it broke off."""
    try:
        return mapping(json_input.load(path)) or {}
    except (OSError, ValueError):
        return {}


def recorded(
    run: LaunchedRun,
    recorder: str,
    files: Mapping[str, bool],
    nothing: Callable[[Sequence[str]], str],
    noted: Sequence[str] = (),
) -> Recorded:
    """What a recorder inside the program left of a run.

    Args:
        run: What was recorded.
        recorder: Name of the recorder.
        files: The recordings of the run's processes, and whether each holds what it is for.
        nothing: Why none does, by the warnings.
        noted: Warnings in the recordings themselves.
    """
    # Whether any Python loaded the recorder; the sign of it is taken away.
    is_loaded = (started := run.folder / PYTHON_STARTED).exists()
    started.unlink(missing_ok=True)
    sentences = (*noted, *notes(run.folder, recorder), *silent(run.folder, [*files]))
    warnings = tuple(dict.fromkeys(sentences))
    full = tuple(name for name, is_full in files.items() if is_full)
    return Recorded(
        recordings=full,
        nothing_recorded=None if full else nothing(warnings) if is_loaded else NOT_LOADED,
        warnings=warnings,
        devices=described_gpus(),
    )


def no_gpu_activity(title: str, files: Collection[str]) -> Callable[[Sequence[str]], str]:
    """Why a framework's own profiler recorded no GPU, by the warnings."""
    if not files:
        return lambda warnings: "; ".join([f"{title}'s profiler recorded nothing", *warnings])
    is_kept = f"{', '.join(files)} {'are' if len(files) > 1 else 'is'} kept"
    return lambda _: f"{title}'s profiler recorded no GPU activity: {why_no_gpu()}; {is_kept}"
