"""The choice of a recorder: the requested one, or the best one that can record here."""

from collections.abc import Sequence
from typing import Final

from gpuprof.base.errors import MissingToolError, UsageError
from gpuprof.launch import AUTO
from gpuprof.launch.contract import Program, Recorder
from gpuprof.launch.run.gpus import gpus, why_no_gpu
from gpuprof.launch.run.program import imports

_FOR_GPUS: Final = ("nsys", "cupti", "nvprof")
# Recorder, name for people, and packages whose import tells that a program uses it.
_FRAMEWORKS: Final = (
    ("tensorflow", "TensorFlow", frozenset({"tensorflow", "keras", "tf_keras"})),
    ("torch", "PyTorch", frozenset({"torch", "torchvision", "lightning", "pytorch_lightning"})),
    ("jax", "JAX", frozenset({"jax", "flax", "equinox", "optax"})),
)


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
    return recorder, "as requested"


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
    """A GPU profiler where there is a GPU, else the profiler of a framework."""
    reasons = [f"found an NVIDIA GPU ({gpus()[0].name})" if gpus() else why_no_gpu()]
    hint = None
    for recorder in [by_name[n] for n in (_FOR_GPUS if gpus() else ()) if n in by_name]:
        obstacle = recorder.obstacle(program)
        reason = recorder.doubt() if obstacle is None else obstacle.message
        if reason is None:
            return recorder, "; ".join(reasons)
        reasons.append(reason)
        hint = obstacle.hint if obstacle else hint
    for name, title, is_imported in _frameworks(program):
        obstacle = by_name[name].obstacle(program) if name in by_name else None
        if name in by_name and obstacle is None:
            use = (
                f"the program imports {title}"
                if is_imported
                else f"only activity of {title} will be recorded"
            )
            return by_name[name], "; ".join([*reasons, use])
        if obstacle is not None:
            reasons.append(obstacle.message)
            hint = obstacle.hint
    msg = f"no recorder works here: {'; '.join(dict.fromkeys(reasons))}"
    raise MissingToolError(msg, hint)


def _frameworks(program: Program) -> list[tuple[str, str, bool]]:
    """Recorder, title and whether the program imports it: those that it does come first."""
    imported = imports(program)
    frameworks = [(name, title, bool(imported & names)) for name, title, names in _FRAMEWORKS]
    return sorted(frameworks, key=lambda framework: not framework[2])
