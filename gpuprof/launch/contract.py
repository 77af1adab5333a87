"""The contract of a recorder: what it needs, how it runs a program, and what it records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpuprof.base.errors import RecordError
from gpuprof.launch.run.window import WHOLE_RUN, CaptureWindow

# Signals are reported as shells do.
SIGNAL_BASE: Final = 128


@dataclass(frozen=True)
class Program:
    """What is recorded.

    Args:
        arguments: As it runs without a recorder, the interpreter first where it is Python.
        source: The Python file that runs; None for other programs or where unknown.
    """

    arguments: tuple[str, ...]
    source: Path | None = None


@dataclass(frozen=True)
class LaunchedRun:
    """One run that is about to start, or has ended."""

    program: Program
    folder: Path
    variant: str | None = None
    window: CaptureWindow = WHOLE_RUN


@dataclass(frozen=True)
class Ended:
    """How the process that was started ended: the profiler where there is one.

    Args:
        exit_status: Its exit status; `SIGNAL_BASE` + n where signal n ended it.
        wall_seconds: From its start to its end.
        output_bytes: What the program printed, both streams.
        interrupted: Whether a signal was passed on to it (Ctrl-C and the like).
        timed_out: Whether it was stopped because its time was over.
        log_error: Why what it printed was not kept to its end; None where it was.
    """

    exit_status: int
    wall_seconds: float
    output_bytes: int
    interrupted: bool = False
    timed_out: bool = False
    log_error: str | None = None


@dataclass(frozen=True)
class Recorded:
    """What a recorder brought home.

    Args:
        recordings: Files that readers read, relative to the run's folder.
        exit_status: The program's own where the profiler hides it; None for `Ended`'s.
        nothing_recorded: Why there is nothing to read, a sentence; None where there is.
        warnings: What a reader of the numbers must know, a sentence each.
        devices: What is known of the devices, one mapping each, with "name".
    """

    recordings: tuple[str, ...] = ()
    exit_status: int | None = None
    nothing_recorded: str | None = None
    warnings: tuple[str, ...] = ()
    devices: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Recorder:
    """One way to record a program.

    Args:
        name: As in ``--recorder``: ``nsys``.
        title: One line for people.
        obstacle: Why it cannot record this program here, and what to do about it, found
            before the program starts; None where it can.
        finish: Brings the recording home after the program ended: exports it, and says what
            is in it. Runs after a crash or Ctrl-C too, so it must accept missing files.
        command: Puts a profiler before the program's arguments; None where no profiler stands
            before it. What the profiler itself prints goes to ``recorder.log``, and signals go
            to the program alone, so that the profiler ends in order after it.
        environment: Variables to add to the program's environment.
        versions: Names and versions of its tools, for the manifest.
        retry: Whether it failed before the program ran, so that it may be started once more.
        doubt: Why it would record nothing here although it runs, so that ``auto`` takes another.
        windows: Fields of `Window` by which it can record a part of the run.
    """

    name: str
    title: str
    obstacle: Callable[[Program], RecordError | None]
    finish: Callable[[LaunchedRun, Ended], Recorded]
    command: Callable[[LaunchedRun, tuple[str, ...]], list[str]] | None = None
    environment: Callable[[LaunchedRun], Mapping[str, str]] = lambda _: {}
    versions: Callable[[], Mapping[str, str]] = field(default=dict)
    retry: Callable[[LaunchedRun, Ended], bool] = lambda *_: False
    doubt: Callable[[], str | None] = lambda: None
    windows: frozenset[str] = frozenset()
