"""`gpuprof.record`: run a program and record what its devices do."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from gpuprof.api.arguments import Time, program_words, say
from gpuprof.api.options import MONITOR, REPEAT, TIMEOUT, WARMUP, WINDOW
from gpuprof.api.report import ReportResult, report
from gpuprof.api.result import Shown
from gpuprof.api.values import checked
from gpuprof.base.errors import RecordError, StoppedError, UsageError
from gpuprof.base.manifest import PROGRAM_LOG, Manifest, repeats
from gpuprof.base.signals import STATUS as STOPPED
from gpuprof.launch import AUTO
from gpuprof.launch.contract import Program
from gpuprof.launch.recording import Options
from gpuprof.launch.recording import record as record_once
from gpuprof.launch.repeating import record_repeatedly
from gpuprof.launch.run.program import executable, module, script
from gpuprof.launch.run.window import CaptureWindow
from gpuprof.readers.inputs import AnyPath
from gpuprof.show.notebook import Summary, run_summary

_PROGRAMS: Final = {"-m": module, "--": executable}


class RecordedRun(Shown):
    """A recorded run. It is a path, too: `gpuprof.report` and `gpuprof.compare` take it.

    Args:
        folder: Its folder, or the folder of several runs.
        manifest: What is known of it; of several runs, of the last one.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest

    def __fspath__(self) -> str:
        """The folder."""
        return os.fspath(self._folder)

    @property
    def folder(self) -> Path:
        """The folder with the recording, the program's output and the manifest."""
        return self._folder

    @property
    def manifest(self) -> Manifest:
        """The command, times, versions and warnings; of several runs, those of the last one."""
        return self._manifest

    @cached_property
    def runs(self) -> tuple[Path, ...]:
        """The folders of the runs: several where the program was repeated."""
        return repeats(self._folder) or (self._folder,)

    @property
    def output(self) -> str:
        """What the program printed; of several runs, the last one."""
        log = self.runs[-1] / PROGRAM_LOG
        return log.read_text(encoding="utf-8", errors="replace")

    def report(self, **options: Any) -> ReportResult:
        """The report of the run; of several runs, of the first one.

        Args:
            options: As `gpuprof.report` takes them.

        Raises:
            GpuprofError: Nothing was recorded.
        """
        return report(self.runs[0], **options)

    def _summary(self) -> Summary:
        return run_summary(self._folder, self._manifest, len(self.runs))


def record(  # noqa: PLR0913 - the options of the command
    *words: AnyPath | float,
    out: AnyPath | None = None,
    recorder: str = AUTO,
    variant: str | None = None,
    force: bool = False,
    timeout: Time | None = None,
    repeat: int | None = None,
    warmup: int = 0,
    monitor: Time = "1s",
    delay: Time | None = None,
    duration: Time | None = None,
    epochs: str | int | None = None,
    range: str | None = None,  # noqa: A002 - the command's word
    cuda_profiler: bool = False,
    placement: AnyPath | None = None,
) -> RecordedRun:
    """Run a program and record what its devices do, as `gpuprof record` does.

    The program runs as a process of its own; its output is shown at once.

    Args:
        words: A script and its arguments; or ``"-m"``, a module and its arguments; or ``"--"``,
            a program and its arguments.
        out: Folder for the run; by default, a new one under ``gpuprof-runs``.
        recorder: Profiler; ``auto`` takes one that works on this machine.
        variant: Label of the run in comparisons.
        force: Whether to replace the run in the folder.
        timeout: Stop a program that runs longer: text with a unit, as ``"2h"``, or integer
            nanoseconds, like all times.
        repeat: Record so many runs, with as many unrecorded ones between them.
        warmup: Run so many times before, and keep nothing.
        monitor: Time between two samples of GPUs and host; ``"0s"`` takes none.
        delay: Start to record after this time.
        duration: Record for this time; the program runs to its end.
        epochs: Record only these epochs: ``"2:4"`` for 2 and 3, or ``2``.
        range: Record only the first NVTX range of this name.
        cuda_profiler: Record only between cudaProfilerStart and cudaProfilerStop.
        placement: A file of `gpuprof place --output`, to place the model's parts by; needs the
            recorder ``tensorflow``.

    Raises:
        RecordError: It cannot record here, or the program failed. Its output and what was
            recorded are kept.
        StoppedError: Ctrl-C stopped the program. It is a KeyboardInterrupt, too.
        GpuprofError: The arguments do not fit together, or the folder cannot be used.
        TypeError: An argument is of another type.
    """
    program = _program(program_words("record", words))
    window = CaptureWindow(
        *map(checked, WINDOW, (delay, duration, epochs, range, cuda_profiler)),
    )
    options = Options(
        *(recorder, variant, None if out is None else Path(out), force, checked(TIMEOUT, timeout)),
        *(window, checked(MONITOR, monitor) or None),
        placement=None if placement is None else Path(placement),
    )
    count, warmups = checked(REPEAT, repeat), checked(WARMUP, warmup)
    try:
        if count is None and not warmups:
            folder, manifest = record_once(program, options, say)
        else:
            folder, manifest = record_repeatedly(program, options, count or 1, warmups, say)
    except KeyboardInterrupt as error:
        msg = "Ctrl-C stopped the recording, which was discarded"
        raise StoppedError(msg) from error
    for warning in manifest.warnings:
        say(f"Warning: {warning}")
    if manifest.exit_status:
        hint = f"Its output and what was recorded are in {folder}."
        if manifest.exit_status == STOPPED:
            msg = "Ctrl-C stopped the program"
            raise StoppedError(msg, hint)
        msg = f"the program ended with exit status {manifest.exit_status}"
        raise RecordError(msg, hint)
    return RecordedRun(folder, manifest)


def _program(words: tuple[str, ...]) -> Program:
    if words[0] not in _PROGRAMS:
        return script(words[0], words[1:])
    if len(words) == 1:
        msg = f"record needs a name after {words[0]}"
        raise UsageError(msg, 'Give it: gpuprof.record("-m", "package.train")')
    return _PROGRAMS[words[0]](words[1], words[2:])
