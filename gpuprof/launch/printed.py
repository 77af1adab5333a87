"""A profiler's command as ``gpuprof record`` would run it, to run it without gpuprof."""

import shlex
import sys
from pathlib import Path

from gpuprof.base.errors import UsageError
from gpuprof.launch import AUTO, all_recorders
from gpuprof.launch.choice import named
from gpuprof.launch.contract import LaunchedRun, Program
from gpuprof.launch.run.window import CaptureWindow, check_window

_BY_DEFAULT = "nsys"


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
    recorder = named(_BY_DEFAULT if name == AUTO else name, all_recorders())
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
