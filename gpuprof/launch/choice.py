"""Which recorder: the one that was asked for, or the one that can record here."""

from collections.abc import Sequence
from typing import Final

from gpuprof.errors import MissingToolError, UsageError
from gpuprof.launch.contract import Program, Recorder
from gpuprof.launch.gpus import gpus, why_no_gpu
from gpuprof.launch.program import imports

AUTO: Final = "auto"
_FOR_GPUS: Final = ("nsys", "nvprof")
_EMBEDDED: Final = "tensorflow"
_TENSORFLOW_PACKAGES: Final = frozenset({"tensorflow", "keras", "tf_keras"})


def chosen(name: str, program: Program, recorders: Sequence[Recorder]) -> tuple[Recorder, str]:
    """The recorder of this name, or for ``auto`` the best one, and why in a few words.

    Raises:
        UsageError: There is none of this name.
        RecordError: It cannot record this program here; under ``auto``: none can.
    """
    if name == AUTO:
        return _best(program, {recorder.name: recorder for recorder in recorders})
    recorder = named(name, recorders)
    obstacle = recorder.obstacle(program)
    if obstacle is not None:
        raise obstacle
    return recorder, "as asked for"


def named(name: str, recorders: Sequence[Recorder]) -> Recorder:
    """The recorder of this name.

    Raises:
        UsageError: There is none.
    """
    for recorder in recorders:
        if recorder.name == name:
            return recorder
    msg = f"there is no recorder {name}"
    raise UsageError(msg, f"Recorders: {', '.join([AUTO, *(r.name for r in recorders)])}.")


def _best(program: Program, by_name: dict[str, Recorder]) -> tuple[Recorder, str]:
    """A GPU's profiler where there is a GPU, else the one that needs none."""
    obstacles = []
    here = f"an NVIDIA GPU is here ({gpus()[0].name})" if gpus() else _no_gpu()
    for recorder in [by_name[n] for n in (_FOR_GPUS if gpus() else ()) if n in by_name]:
        obstacle = recorder.obstacle(program)
        if obstacle is None:
            return recorder, here
        obstacles.append(obstacle)
    if _EMBEDDED in by_name:
        obstacle = by_name[_EMBEDDED].obstacle(program)
        if obstacle is None:
            return by_name[_EMBEDDED], "; ".join(
                [here, *(o.message for o in obstacles), _of(program)]
            )
        obstacles.append(obstacle)
    reasons = [o.message for o in obstacles]
    msg = f"nothing here can record: {'; '.join([here, *reasons])}"
    raise MissingToolError(msg, obstacles[-1].hint if obstacles else None)


def _no_gpu() -> str:
    return why_no_gpu()


def _of(program: Program) -> str:
    if imports(program) & _TENSORFLOW_PACKAGES:
        return "the program imports TensorFlow"
    return "only what the program does in TensorFlow will be seen"
