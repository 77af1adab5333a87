"""The choice of a recorder: the requested one, or the best one; and how to run it elsewhere."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuprof.base.errors import MissingToolError, UsageError
from gpuprof.launch import AUTO, all_recorders, check_recorder
from gpuprof.launch.contract import LaunchedRun, Program, Recorder
from gpuprof.launch.run.gpus import gpus, why_no_gpu
from gpuprof.launch.run.program import imports
from gpuprof.launch.run.window import CaptureWindow, check_window

_FOR_GPUS: Final = ("nsys", "cupti", "nvprof")
# Whose command is printed for `auto`.
_PRINTED: Final = "nsys"
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
    by_name = {recorder.name: recorder for recorder in recorders}
    if name != AUTO:
        check_recorder(name)
        if (obstacle := by_name[name].obstacle(program)) is not None:
            raise obstacle
        return by_name[name], "as requested"
    # A GPU profiler where there is a GPU, else the profiler of a framework.
    reasons = [f"found an NVIDIA GPU ({gpus()[0].name})" if gpus() else why_no_gpu()]
    hint = None
    for recorder in [by_name[n] for n in (_FOR_GPUS if gpus() else ()) if n in by_name]:
        obstacle = recorder.obstacle(program)
        reason = recorder.doubt() if obstacle is None else obstacle.message
        if reason is None:
            return recorder, "; ".join(reasons)
        reasons.append(reason)
        hint = obstacle.hint if obstacle else hint
    imported = imports(program)
    # Those that the program imports come first.
    frameworks = sorted(_FRAMEWORKS, key=lambda framework: not imported & framework[2])
    for framework, title, names in (f for f in frameworks if f[0] in by_name):
        obstacle = by_name[framework].obstacle(program)
        if obstacle is None:
            use = f"only activity of {title} will be recorded"
            use = f"the program imports {title}" if imported & names else use
            return by_name[framework], "; ".join([*reasons, use])
        reasons.append(obstacle.message)
        hint = obstacle.hint
    msg = f"no recorder works here: {'; '.join(dict.fromkeys(reasons))}"
    raise MissingToolError(msg, hint)


def printed_command(name: str, program: Program, folder: Path | None, window: CaptureWindow) -> str:
    """One line for a shell; nothing is checked here, as it is to run elsewhere.

    Args:
        name: Of a recorder; ``auto`` stands for nsys.
        program: What it records; the interpreter that runs gpuprof becomes ``python3``.
        folder: Where its files go, made by the line itself; None for the current one.
        window: The part of the run to record.

    Raises:
        UsageError: There is no such recorder, it has no command, or cannot record this part.
    """
    check_recorder(name)
    by_name = {recorder.name: recorder for recorder in all_recorders()}
    recorder = by_name[_PRINTED if name == AUTO else name]
    if recorder.command is None:
        msg = f"the recorder {recorder.name} works inside the program and has no command"
        hint = "Install gpuprof there and record with it, or print the one of --recorder nsys."
        raise UsageError(msg, hint)
    python, *script_arguments = program.arguments
    words = ("python3" if python == sys.executable else python, *script_arguments)
    check_window(window, recorder.name, recorder.windows)
    run = LaunchedRun(program, folder or Path(), window=window)
    settings = [f"{key}={value}" for key, value in recorder.environment(run).items()]
    command = recorder.command(run, words)
    line = shlex.join(["env", *settings, *command] if settings else command)
    return line if folder is None else f"mkdir -p {shlex.quote(str(folder))} && {line}"
