"""TensorFlow's own profiler on the script's devices, for machines without GPU tools.

`inject/gpuprof_tensorflow.py` records it from inside; what that leaves is condensed here after the
program ended, without TensorFlow (`tensorflow_digest`).
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gpuprof.launch.contract import Ended, LaunchedRun, Recorded, Recorder
from gpuprof.launch.recorders import in_process, tensorflow_digest
from gpuprof.launch.run.provenance import versions

NAME: Final = "tensorflow"


def _finish(run: LaunchedRun, _: Ended) -> Recorded:
    """Condense what each process left, and say what there is or why there is nothing."""
    started = in_process.was_loaded(run.folder)
    documents = list(_condensed(run.folder))
    full = {name: document for name, document in documents if document["functions"]}
    warnings = [n for _, d in documents for n in d["notes"]]
    warnings += in_process.notes(run.folder, NAME)
    warnings += in_process.silent(run.folder, [name for name, _ in documents])
    process = next(iter(full.values()), {}).get("process", {})
    return Recorded(
        recordings=tuple(full),
        nothing_recorded=None if full else _why_nothing(started, warnings, documents),
        warnings=tuple(dict.fromkeys(warnings)),
        devices=tuple({"name": name} for name in process.get("devices", [])),
    )


def _why_nothing(
    started: bool,  # noqa: FBT001 - a fact, not a switch
    warnings: list[str],
    documents: list[tuple[str, dict[str, Any]]],
) -> str:
    if not started:
        return in_process.NOT_LOADED
    if not documents:
        return "the program did not use TensorFlow"
    if not warnings:
        return "TensorFlow ran no tf.function"
    return f"no run of a tf.function was recorded; {warnings[0]}"


def _condensed(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each process's document, written beside its raw folder, which is then removed."""
    for raw in sorted(p for p in folder.glob(tensorflow_digest.FOLDERS) if p.is_dir()):
        document = tensorflow_digest.digest(raw)
        path = raw.with_suffix(".json")
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(raw, ignore_errors=True)
        yield path.name, document


RECORDER: Final = Recorder(
    name=NAME,
    title="TensorFlow's own profiler: operations and copies between its devices, no GPU needed",
    obstacle=lambda program: in_process.obstacle(program, NAME, "TensorFlow"),
    finish=_finish,
    # Else it reports each start and stop on stderr.
    environment=lambda run: in_process.environment(run, NAME, TF_CPP_MIN_LOG_LEVEL="1"),
    versions=lambda: versions("tensorflow", "tensorflow-cpu"),
    windows=in_process.WINDOWS,
)
