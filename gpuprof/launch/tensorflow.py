"""TensorFlow's own profiler on the script's devices, for machines without GPU tools.

A ``sitecustomize`` that comes first on PYTHONPATH waits for the script to import TensorFlow,
then records it from inside (`inject/gpuprof_tensorflow.py`); the script is not touched. What it
leaves is condensed here after the program ended, without TensorFlow (`tensorflow_digest`).
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gpuprof.errors import MissingToolError, RecordError
from gpuprof.launch import tensorflow_digest
from gpuprof.launch.contract import Ended, Program, Recorded, Recorder, Run
from gpuprof.launch.window import Window, in_seconds
from gpuprof.manifest import RUN_DIR_VARIABLE

INJECT: Final = Path(__file__).parent / "inject"
PYTHON_STARTED: Final = "python-started"
_LOG_LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"


def _obstacle(program: Program) -> RecordError | None:
    """Why TensorFlow's profiler cannot record a program."""
    interpreter = Path(program.arguments[0])
    if program.source is None and not interpreter.name.startswith("python"):
        msg = f"the recorder tensorflow needs a Python program, and {interpreter.name} is none"
        return RecordError(msg, "Record it with --recorder nsys.")
    # Another interpreter has packages of its own, which only running it would show.
    if str(interpreter) == sys.executable and find_spec("tensorflow") is None:
        msg = "TensorFlow is not installed here"
        return MissingToolError(msg, "pip install 'gpuprof-toolkit[tensorflow]'")
    return None


def _environment(run: Run) -> dict[str, str]:
    """Put the recorder first on PYTHONPATH, and name the run's folder to it."""
    others = os.environ.get("PYTHONPATH")
    path = f"{INJECT}{os.pathsep}{others}" if others else str(INJECT)
    # At level 0 TensorFlow reports each start and stop of its profiler on stderr.
    quiet = {} if _LOG_LEVEL in os.environ else {_LOG_LEVEL: "1"}
    place = {"PYTHONPATH": path, RUN_DIR_VARIABLE: str(run.folder.absolute())}
    return {**place, **quiet, **_window(run.window)}


def _window(window: Window) -> dict[str, str]:
    """As `inject/gpuprof_window.py` reads it."""
    times = {
        "GPUPROF_DELAY_SECONDS": window.delay_ns,
        "GPUPROF_DURATION_SECONDS": window.duration_ns,
    }
    given = {name: in_seconds(ns) for name, ns in times.items() if ns is not None}
    return {**given, **window.environment()}


def _versions() -> Mapping[str, str]:
    for package in ("tensorflow", "tensorflow-cpu"):
        try:
            return {"tensorflow": version(package)}
        except PackageNotFoundError:
            continue
    return {}


def _finish(run: Run, _: Ended) -> Recorded:
    """Condense what each process left, and say what there is or why there is nothing."""
    started = (run.folder / PYTHON_STARTED).exists()
    (run.folder / PYTHON_STARTED).unlink(missing_ok=True)
    documents = list(_condensed(run.folder))
    full = {name: document for name, document in documents if document["functions"]}
    warnings = [n for _, d in documents for n in d["notes"]]
    found = next(iter(full.values()), {})
    devices = [{"name": name} for name in found.get("process", {}).get("devices", [])]
    return Recorded(
        recordings=tuple(full),
        nothing_recorded=None if full else _why_nothing(started, warnings, documents),
        warnings=tuple(dict.fromkeys(warnings)),
        devices=tuple(devices),
    )


def _why_nothing(
    started: bool,  # noqa: FBT001 - a fact, not a switch
    warnings: list[str],
    documents: list[tuple[str, dict[str, Any]]],
) -> str:
    if not started:
        return (
            "the recorder was not loaded: no Python started, or one that ignores PYTHONPATH"
            " (python -I, -E or -S)"
        )
    if not documents:
        return "the program did not use TensorFlow"
    return (
        f"no tf.function was seen to run; {warnings[0]}"
        if warnings
        else ("TensorFlow ran no tf.function")
    )


def _condensed(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each process's document, written beside its raw folder, which is then removed."""
    for raw in sorted(p for p in folder.glob(tensorflow_digest.FOLDERS) if p.is_dir()):
        document = tensorflow_digest.digest(raw)
        path = raw.with_suffix(".json")
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(raw, ignore_errors=True)
        yield path.name, document


RECORDER: Final = Recorder(
    name="tensorflow",
    title="TensorFlow's own profiler: operations and copies between its devices, no GPU needed",
    obstacle=_obstacle,
    finish=_finish,
    environment=_environment,
    versions=_versions,
    windows=frozenset(("delay_ns", "duration_ns", "epochs")),
)
