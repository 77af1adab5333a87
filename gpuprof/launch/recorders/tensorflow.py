"""TensorFlow's own profiler on the script's devices, for machines without GPU tools.

`inject/gpuprof_tensorflow.py` records it from inside; what that leaves is condensed here after the
program ended, without TensorFlow (`tensorflow_digest`).
"""

import json
import shutil
from typing import Final

from gpuprof.launch.contract import Ended, LaunchedRun, Recorded, Recorder
from gpuprof.launch.recorders import in_process, tensorflow_digest
from gpuprof.launch.run.provenance import versions

NAME: Final = "tensorflow"


def finish(run: LaunchedRun, _: Ended) -> Recorded:
    """Condense what each process left, and say what there is or why there is nothing."""
    is_loaded = in_process.was_loaded(run.folder)
    documents = {}
    for raw in sorted(p for p in run.folder.glob(tensorflow_digest.FOLDERS) if p.is_dir()):
        path = raw.with_suffix(".json")
        documents[path.name] = tensorflow_digest.digest(raw)
        path.write_text(json.dumps(documents[path.name], indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(raw, ignore_errors=True)
    full = {name: document for name, document in documents.items() if document["functions"]}
    warnings = [note for document in documents.values() for note in document["notes"]]
    warnings += in_process.notes(run.folder, NAME)
    warnings += in_process.silent(run.folder, [*documents])
    nothing = None
    if not is_loaded:
        nothing = in_process.NOT_LOADED
    elif not documents:
        nothing = "the program did not use TensorFlow"
    elif not full and not warnings:
        nothing = "TensorFlow ran no tf.function"
    elif not full:
        nothing = f"no run of a tf.function was recorded; {warnings[0]}"
    process = next(iter(full.values()), {}).get("process", {})
    return Recorded(
        recordings=tuple(full),
        nothing_recorded=None if full else nothing,
        warnings=tuple(dict.fromkeys(warnings)),
        devices=tuple({"name": name} for name in process.get("devices", [])),
    )


RECORDER: Final = Recorder(
    name=NAME,
    title="TensorFlow's own profiler: operations and copies between its devices, no GPU needed",
    obstacle=lambda program: in_process.obstacle(program, NAME, "TensorFlow"),
    finish=finish,
    # Else it reports each start and stop on stderr.
    environment=lambda run: in_process.environment(run, NAME, TF_CPP_MIN_LOG_LEVEL="1"),
    versions=lambda: versions("tensorflow", "tensorflow-cpu"),
    windows=in_process.WINDOWS,
)
