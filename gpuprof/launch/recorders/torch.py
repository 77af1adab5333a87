"""PyTorch's own profiler (Kineto) around an unmodified script, for GPUs without NVIDIA's tools.

`inject/gpuprof_torch.py` leaves ``torch-<pid>.json.gz``, one trace per process, and beside it
``torch-<pid>.info`` with the number of the GPU's events in it.
"""

from typing import Final

from gpuprof.launch.contract import Ended, LaunchedRun, Recorded, Recorder
from gpuprof.launch.recorders import in_process
from gpuprof.launch.recorders.in_process import no_gpu_activity
from gpuprof.launch.run.provenance import versions

NAME: Final = "torch"


def finish(run: LaunchedRun, _: Ended) -> Recorded:
    """Tell traces with work of GPUs from those without."""
    files = {}
    for trace in sorted(run.folder.glob(f"{NAME}-*.json.gz")):
        info = trace.with_suffix("").with_suffix(".info")
        files[trace.name] = bool(in_process.document(info).get("gpu_events", 0))
        info.unlink(missing_ok=True)
    return in_process.recorded(run, NAME, files, no_gpu_activity("PyTorch", files))


RECORDER: Final = Recorder(
    name=NAME,
    title="PyTorch's own profiler: kernels and copies of the GPUs that PyTorch uses",
    obstacle=lambda program: in_process.obstacle(program, NAME, "PyTorch"),
    finish=finish,
    # Else it reports each start and stop on stderr.
    environment=lambda run: in_process.environment(run, NAME, KINETO_LOG_LEVEL="7"),
    versions=lambda: versions("torch"),
    windows=in_process.WINDOWS,
)
