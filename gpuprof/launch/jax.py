"""JAX's own profiler (XPlane) around an unmodified script, for GPUs without NVIDIA's tools.

`inject/gpuprof_jax.py` leaves one profile per process in ``jax-<pid>/``; it becomes
``jax-<pid>.xplane.pb`` here.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuprof.errors import RecordError
from gpuprof.launch import embedded
from gpuprof.launch.contract import Ended, Program, Recorded, Recorder, Run
from gpuprof.launch.gpus import described_gpus, why_no_gpu
from gpuprof.xspace import WireError, planes

NAME: Final = "jax"
_LOG_LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
_GPU_PLANE: Final = "/device:GPU"


def _obstacle(program: Program) -> RecordError | None:
    return embedded.obstacle(program, NAME, "jax", "JAX")


def _environment(run: Run) -> dict[str, str]:
    # Else it reports each start and stop on stderr.
    quiet = {} if _LOG_LEVEL in os.environ else {_LOG_LEVEL: "1"}
    return {**embedded.environment(run, NAME), **quiet}


def _finish(run: Run, _: Ended) -> Recorded:
    is_loaded = embedded.was_loaded(run.folder)
    said = embedded.notes(run.folder, NAME)
    files = list(_brought_home(run.folder))
    full = tuple(path.name for path in files if _has_gpu_work(path))
    nothing = embedded.why_nothing(
        is_loaded=is_loaded,
        files=[path.name for path in files],
        said=said,
        title="JAX",
        why_no_gpu=why_no_gpu(),
    )
    return Recorded(
        recordings=full,
        nothing_recorded=None if full else nothing,
        warnings=tuple(said),
        devices=described_gpus(),
    )


def _brought_home(folder: Path) -> Iterator[Path]:
    """Each process's profile beside its folder, which is then removed."""
    for raw in sorted(p for p in folder.glob(f"{NAME}-*") if p.is_dir()):
        for found in sorted(raw.rglob("*.xplane.pb"))[:1]:
            yield found.replace(folder / f"{raw.name}.xplane.pb")
        shutil.rmtree(raw, ignore_errors=True)


def _has_gpu_work(path: Path) -> bool:
    try:
        found = planes(path.read_bytes())
    except (OSError, WireError):
        return False
    return any(plane.name.startswith(_GPU_PLANE) and list(plane.lines) for plane in found)


RECORDER: Final = Recorder(
    name=NAME,
    title="JAX's own profiler: kernels and copies of the GPUs that JAX uses",
    obstacle=_obstacle,
    finish=_finish,
    environment=_environment,
    versions=lambda: embedded.versions("jax"),
    windows=embedded.WINDOWS,
)
