"""JAX's own profiler (XPlane) around an unmodified script, for GPUs without NVIDIA's tools.

`inject/gpuprof_jax.py` leaves one profile per process in ``jax-<pid>/``; it becomes
``jax-<pid>.xplane.pb`` here.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuprof.base.xspace import WireError, space
from gpuprof.launch.contract import Ended, LaunchedRun, Recorded, Recorder
from gpuprof.launch.recorders import in_process
from gpuprof.launch.run.provenance import versions

NAME: Final = "jax"
_GPU_PLANE: Final = "/device:GPU"


def _finish(run: LaunchedRun, _: Ended) -> Recorded:
    files = list(_brought_home(run.folder))
    full = [path.name for path in files if _has_gpu_work(path)]
    return in_process.recorded(run, NAME, "JAX", files=[path.name for path in files], full=full)


def _brought_home(folder: Path) -> Iterator[Path]:
    """Each process's profile beside its folder, which is then removed."""
    for raw in sorted(p for p in folder.glob(f"{NAME}-*") if p.is_dir()):
        for profile in sorted(raw.rglob("*.xplane.pb"))[:1]:
            yield profile.replace(folder / f"{raw.name}.xplane.pb")
        shutil.rmtree(raw, ignore_errors=True)


def _has_gpu_work(path: Path) -> bool:
    try:
        planes = space(path.read_bytes()).planes
    except (OSError, WireError):
        return False
    return any(plane.name.startswith(_GPU_PLANE) and list(plane.lines) for plane in planes)


RECORDER: Final = Recorder(
    name=NAME,
    title="JAX's own profiler: kernels and copies of the GPUs that JAX uses",
    obstacle=lambda program: in_process.obstacle(program, NAME, "JAX"),
    finish=_finish,
    # Else it reports each start and stop on stderr.
    environment=lambda run: in_process.environment(run, NAME, TF_CPP_MIN_LOG_LEVEL="1"),
    versions=lambda: versions("jax"),
    windows=in_process.WINDOWS,
)
