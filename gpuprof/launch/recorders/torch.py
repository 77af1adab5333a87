"""PyTorch's own profiler (Kineto) around an unmodified script, for GPUs without NVIDIA's tools.

`inject/gpuprof_torch.py` leaves ``torch-<pid>.json.gz``, one trace per process, and beside it
``torch-<pid>.info`` with the number of the GPU's events in it.
"""

from typing import Final

from gpuprof.errors import RecordError
from gpuprof.launch.contract import Ended, Program, Recorded, Recorder, Run
from gpuprof.launch.recorders import embedded

NAME: Final = "torch"


def _obstacle(program: Program) -> RecordError | None:
    return embedded.obstacle(program, NAME, "torch", "PyTorch")


def _environment(run: Run) -> dict[str, str]:
    # Else it reports each start and stop on stderr.
    return embedded.environment(run, NAME, KINETO_LOG_LEVEL="7")


def _finish(run: Run, _: Ended) -> Recorded:
    traces = sorted(run.folder.glob(f"{NAME}-*.json.gz"))
    infos = {trace.name: trace.with_suffix("").with_suffix(".info") for trace in traces}
    seen = {name: embedded.told(info).get("gpu_events", 0) for name, info in infos.items()}
    for info in infos.values():
        info.unlink(missing_ok=True)
    full = [name for name, events in seen.items() if events]
    return embedded.recorded(run, NAME, "PyTorch", files=tuple(seen), full=full)


RECORDER: Final = Recorder(
    name=NAME,
    title="PyTorch's own profiler: kernels and copies of the GPUs that PyTorch uses",
    obstacle=_obstacle,
    finish=_finish,
    environment=_environment,
    versions=lambda: embedded.versions("torch"),
    windows=embedded.WINDOWS,
)
