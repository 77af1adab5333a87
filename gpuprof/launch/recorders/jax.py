"""JAX's own profiler (XPlane) around an unmodified script, for GPUs without NVIDIA's tools.

`inject/gpuprof_jax.py` leaves one profile per process in ``jax-<pid>/``; it becomes
``jax-<pid>.xplane.pb`` here.
"""

import shutil
from contextlib import suppress
from typing import Final

from gpuprof.launch.contract import Ended, LaunchedRun, Recorded, Recorder
from gpuprof.launch.recorders import in_process
from gpuprof.launch.recorders.in_process import no_gpu_activity
from gpuprof.launch.run.provenance import versions
from gpuprof.native.xspace import WireError, space

NAME: Final = "jax"
_GPU_PLANE: Final = "/device:GPU"


def finish(run: LaunchedRun, _: Ended) -> Recorded:
    """Put each process's profile beside its folder, which is removed."""
    files = {}
    for raw in sorted(p for p in run.folder.glob(f"{NAME}-*") if p.is_dir()):
        for profile in sorted(raw.rglob("*.xplane.pb"))[:1]:
            path = profile.replace(run.folder / f"{raw.name}.xplane.pb")
            files[path.name] = False
            with suppress(OSError, WireError):
                planes = space(path.read_bytes()).planes
                on_gpu = (plane for plane in planes if plane.name.startswith(_GPU_PLANE))
                files[path.name] = any(list(plane.lines) for plane in on_gpu)
        shutil.rmtree(raw, ignore_errors=True)
    return in_process.recorded(run, NAME, files, no_gpu_activity("JAX", files))


RECORDER: Final = Recorder(
    name=NAME,
    title="JAX's own profiler: kernels and copies of the GPUs that JAX uses",
    obstacle=lambda program: in_process.obstacle(program, NAME, "JAX"),
    finish=finish,
    # Else it reports each start and stop on stderr.
    environment=lambda run: in_process.environment(run, NAME, TF_CPP_MIN_LOG_LEVEL="1"),
    versions=lambda: versions("jax"),
    windows=in_process.WINDOWS,
)
