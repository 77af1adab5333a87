"""TensorFlow's own profiler on the script's devices, for machines without GPU tools.

`inject/gpuprof_tensorflow.py` records it from inside; what that leaves is condensed here after the
program ended, without TensorFlow (`tensorflow_digest`).
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpuprof.launch.contract import Ended, LaunchedRun, Recorded, Recorder
from gpuprof.launch.recorders import in_process, tensorflow_digest
from gpuprof.launch.run.provenance import versions

NAME: Final = "tensorflow"


def finish(run: LaunchedRun, _: Ended) -> Recorded:
    """Condense what each process left, and say what there is or why there is nothing."""
    documents = {}
    for raw in sorted(p for p in run.folder.glob(tensorflow_digest.FOLDERS) if p.is_dir()):
        path = raw.with_suffix(".json")
        documents[path.name] = tensorflow_digest.digest(raw)
        path.write_text(json.dumps(documents[path.name], indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(raw, ignore_errors=True)
    files = {name: bool(document["functions"]) for name, document in documents.items()}
    noted = [note for document in documents.values() for note in document["notes"]]

    def nothing(warnings: Sequence[str]) -> str:
        if not documents:
            return "the program did not use TensorFlow"
        return (
            f"no run of a tf.function was recorded; {warnings[0]}"
            if warnings
            else "TensorFlow ran no tf.function"
        )

    recorded = in_process.recorded(run, NAME, files, nothing, noted)
    processes = [documents[name]["process"] for name in recorded.recordings[:1]]
    names = (name for process in processes for name in process.get("devices", []))
    return replace(recorded, devices=tuple({"name": name} for name in names))


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
