"""Record one run: check everything first, run the program, then save the recording."""

import os
import platform
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, Self

from gpuprof import __version__
from gpuprof.base.errors import OutputError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import (
    PROGRAM_LOG,
    RECORDER_LOG,
    RUN_DIR_VARIABLE,
    Manifest,
    begin_manifest,
    finish_manifest,
)
from gpuprof.base.secrets import allowed_variables, make_private, masked_text, masked_words
from gpuprof.base.signals import handling
from gpuprof.base.units import NS_PER_S
from gpuprof.launch import AUTO, all_recorders, check_system
from gpuprof.launch.choice import chosen
from gpuprof.launch.contract import Ended, LaunchedRun, Program, Recorded, Recorder
from gpuprof.launch.run.folder import Claim, check_folder, claimed, default_folder, make_folder
from gpuprof.launch.run.marks import marked, mean_seconds, seconds_per_step
from gpuprof.launch.run.monitor import INTERVAL_NS, monitoring
from gpuprof.launch.run.process import ProgramOutput, Wrapping, run_program
from gpuprof.launch.run.program import environment_of, placement_environment
from gpuprof.launch.run.program_signals import SAVING_SECONDS, kill_processes_of
from gpuprof.launch.run.provenance import driver_versions, git_state, packages
from gpuprof.launch.run.window import WHOLE_RUN, CaptureWindow, check_window

_ATTEMPTS: Final = 2
_BLOCK_BYTES: Final = 4096


@dataclass(frozen=True)
class Options:
    """How to record.

    Args:
        recorder: Name of a recorder, or ``auto`` for the one that can record here.
        variant: Label of the run in comparisons; by default the name of its folder.
        folder: Where to; by default a new one under ``gpuprof-runs``.
        force: Whether to replace a run that is in the folder already.
        timeout_ns: After which the program is stopped; None for never.
        window: The part of the run to record.
        monitor_ns: Between two samples of GPUs and host; None for none.
        placement: A file of `gpuprof place`, which the program's model is placed by.
    """

    recorder: str = AUTO
    variant: str | None = None
    folder: Path | None = None
    force: bool = False
    timeout_ns: int | None = None
    window: CaptureWindow = WHOLE_RUN
    monitor_ns: int | None = INTERVAL_NS
    placement: Path | None = None


def record(program: Program, options: Options, say: Callable[[str], None]) -> tuple[Path, Manifest]:
    """Run a program under a recorder, and write a run folder.

    Args:
        program: What to run.
        options: How.
        say: Takes a line for the person who waits, before the program starts.

    Returns:
        The run's folder, and what its manifest says.

    Raises:
        UsageError: There is no such recorder, or it cannot record this part of a run.
        RecordError: It cannot record here.
        InputError: There is no placement in the file.
        OutputError: The folder cannot be created, exists already, or cannot be written.
    """
    check_system()
    recorder, reason = chosen(options.recorder, program, all_recorders())
    check_window(options.window, recorder.name, recorder.windows)
    placement = placement_environment(options.placement, recorder.name)
    folder = options.folder or default_folder(program, options.variant)
    check_folder(folder, force=options.force)
    manifest = _first_manifest(recorder, program, options.variant or folder.resolve().name)
    make_folder(folder, force=options.force)
    with claimed(folder) as claim:
        with _removed_on_failure(folder, claim):
            begin_manifest(folder, manifest)
            say(f"Recording with {recorder.name} ({reason}) into {folder}")
            run = LaunchedRun(program, folder.resolve(), manifest.variant, options.window)
            with monitoring(run.folder, options.monitor_ns):
                ended = _run(run, recorder, placement, options, say)
        with (
            _Patience(run.folder, options.timeout_ns, say) as patience,
            handling(patience.handle),
            _saving(folder, claim),
        ):
            claim.check()
            recorded = recorder.finish(run, ended)
            manifest = _last_manifest(manifest, run, ended, recorded)
            if options.recorder == AUTO and recorded.nothing_recorded and manifest.epochs:
                # The user asked for no recorder, and the epochs are worth a report.
                say(f"Warning: {recorded.nothing_recorded}")
                manifest = replace(manifest, recorder=TIMING_ONLY)
            claim.check()
            _mask_log(run.folder / RECORDER_LOG)
            make_private(run.folder)
            finish_manifest(run.folder, manifest)
    return folder, manifest


def _mask_log(log: Path) -> None:
    """Mask secrets in what the profiler printed: nvprof prints the command."""
    text = log.read_bytes().decode(errors="surrogateescape")
    if (masked := masked_text(text)) == text:
        return
    # In place: on a full disk there may be no room for another one.
    with log.open("r+b", buffering=0) as file:
        file.write(masked.encode(errors="surrogateescape"))
        file.truncate()


class _Patience:
    """Ignores the first Ctrl-C while a recording is saved, and stops at the second.

    Saving gets as long as the program where that has a limit; after SIGTERM, which managers of
    jobs send once, a minute. Then the tools that save are killed, and what is there is kept.

    Args:
        folder: Of the run.
        timeout_ns: The limit of the program; None for none.
        say: Takes a line for the person who waits.
    """

    def __init__(self, folder: Path, timeout_ns: int | None, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._asked = False
        self._limits: list[threading.Timer] = []
        if timeout_ns is not None:
            self._limit(max(timeout_ns / NS_PER_S, SAVING_SECONDS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for limit in self._limits:
            limit.cancel()

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._say("Saving the recording; stop again to discard it")
        if number != signal.SIGINT:
            self._limit(SAVING_SECONDS)

    def _limit(self, seconds: float) -> None:
        limit = threading.Timer(seconds, kill_processes_of, [str(self._folder)])
        limit.daemon = True
        limit.start()
        self._limits.append(limit)


@contextmanager
def _removed_on_failure(folder: Path, claim: Claim) -> Iterator[None]:
    """Remove a run that could not be started."""
    try:
        yield
    except OSError as error:
        claim.check()
        shutil.rmtree(folder, ignore_errors=True)
        msg = f"{folder} cannot be written: {error.strerror}; the incomplete run was removed"
        raise OutputError(msg) from error
    except BaseException:
        if claim.is_there():
            shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _saving(folder: Path, claim: Claim) -> Iterator[None]:
    """Keep what was recorded where the run cannot be finished, unless it is to be discarded."""
    try:
        yield
    except OSError as error:
        claim.check()
        msg = f"{folder} cannot be finished: {error.strerror or error}"
        raise OutputError(msg, "What was recorded until then is kept in it.") from error
    except KeyboardInterrupt:
        if claim.is_there():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(
    run: LaunchedRun,
    recorder: Recorder,
    placement: Mapping[str, str],
    options: Options,
    say: Callable[[str], None],
) -> Ended:
    folder = {RUN_DIR_VARIABLE: str(run.folder)}
    environment = environment_of({**recorder.environment(run), **folder, **placement})
    seconds = None if options.timeout_ns is None else options.timeout_ns / NS_PER_S
    leaves = run.window.duration_ns is not None
    for attempt in range(1, _ATTEMPTS + 1):
        # Unbuffered, so that the log of a run that is killed is whole.
        with (
            (run.folder / PROGRAM_LOG).open("wb", buffering=0) as log,
            (run.folder / RECORDER_LOG).open("wb", buffering=0) as recorder_log,
        ):
            output, wrapping = ProgramOutput(log), None
            if recorder.command is not None:
                wrapping = Wrapping(partial(recorder.command, run), recorder_log, leaves, say)
            ended = run_program(run.program.arguments, environment, output, wrapping, seconds)
        if attempt == _ATTEMPTS or not recorder.retry(run, ended):
            break
    error = output.log_error
    return ended if error is None else replace(ended, log_error=error.strerror or str(error))


def _first_manifest(recorder: Recorder, program: Program, variant: str) -> Manifest:
    return Manifest(
        recorder=recorder.name,
        variant=variant,
        command=masked_words(program.arguments),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "gpuprof": __version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            **driver_versions(),
            **recorder.versions(),
        },
        packages=packages(program),
        environment=allowed_variables(os.environ),
        git=git_state(program),
    )


def _last_manifest(
    manifest: Manifest, run: LaunchedRun, ended: Ended, recorded: Recorded
) -> Manifest:
    epochs, processes, doubts = marked(run.folder)
    status = ended.exit_status if recorded.exit_status is None else recorded.exit_status
    warnings = [*recorded.warnings, *doubts]
    if ended.log_error is not None:
        warnings.append(f"{PROGRAM_LOG} is cut short: {ended.log_error}.")
    if shutil.disk_usage(run.folder).free < _BLOCK_BYTES:
        # A tool may have left half a file without an error.
        warnings.append("The disk was full at the end: what was recorded last may be missing.")
    if run.window.options_set:
        warnings.insert(0, f"Only a part of the run was recorded: {run.window.described()}.")
    if ended.timed_out:
        warnings.insert(0, "The program was stopped: it ran for longer than --timeout.")
    nothing = recorded.nothing_recorded
    return replace(
        manifest,
        wall_seconds=round(ended.wall_seconds, 3),
        exit_status=status,
        recordings=recorded.recordings,
        # Tools and programs quote commands in their errors.
        nothing_recorded=None if nothing is None else masked_text(nothing),
        devices=recorded.devices,
        epochs=epochs,
        processes=processes,
        seconds_per_epoch=mean_seconds(epochs),
        seconds_per_step=seconds_per_step(epochs),
        warnings=tuple(map(masked_text, warnings)),
    )
