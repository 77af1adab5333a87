"""Execute the remaining runs of a sweep, one at a time, each under `gpuprof record`."""

import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from gpuprof.base.signals import handling
from gpuprof.base.units import format_seconds
from gpuprof.sweeps.folder import Failure, failure, forget, has_ended, note_failure, working_in
from gpuprof.sweeps.grid import SweepRun, ordered_runs, runs_of
from gpuprof.sweeps.plan import Plan

_MINUTE: Final = 60
_HOUR: Final = 3600

Say = Callable[[str], None]


def execute(plan: Plan, folder: Path, seed: int, say: Say) -> None:
    """Execute the runs that have not ended yet.

    A cell that failed once does not run again. A run that Ctrl-C or SIGTERM stops counts as not
    run.

    Args:
        plan: The sweep.
        folder: Its folder, from `open_sweep`.
        seed: Of the order.
        say: Takes lines of progress.

    Raises:
        OutputError: Another sweep is running in the folder.
        KeyboardInterrupt: It was stopped; the unfinished run is dropped.
    """
    # SIGTERM stops a sweep as Ctrl-C does.
    with (
        working_in(folder, say) as lock,
        handling(signal.default_int_handler, [signal.SIGTERM]),
    ):
        runs = list(ordered_runs(plan, seed))
        waiting = [run for run in runs if not has_ended(folder, run)]
        if len(waiting) < len(runs):
            say(f"{len(runs) - len(waiting)} of {len(runs)} runs are already complete")
        progress = _Progress(len(waiting), say)
        for run in waiting:
            cell_runs = runs_of(plan, run.cell)
            if any(
                has_ended(folder, cell_run) and failure(folder, cell_run) for cell_run in cell_runs
            ):
                progress.skipped(run)
                continue
            progress.begins(run)
            _run(plan, folder, run, lock)
            progress.ended(failure(folder, run))


def commands(plan: Plan, seed: int, folder: Path) -> Iterator[str]:
    """The command of each run in order, quoted for a shell."""
    for run in ordered_runs(plan, seed):
        yield shlex.join(["gpuprof", *_words(plan, folder, run)])


def retry_failed(plan: Plan, folder: Path) -> None:
    """Forget the runs that failed, so that they run again."""
    for run in ordered_runs(plan, 0):
        if has_ended(folder, run) and failure(folder, run):
            forget(folder, run)


def _words(plan: Plan, folder: Path, run: SweepRun) -> list[str]:
    """``record`` with its options, then the cell's command."""
    program = list(run.cell.words)
    if not program[0].endswith(".py") and program[0] != "-m":
        program.insert(0, "--")
    return [
        *("record", "--force", "--recorder", plan.recorder, "--variant", run.cell.name),
        *("-o", str(folder / run.folder), *program),
    ]


def _run(plan: Plan, folder: Path, run: SweepRun, lock: IO[bytes]) -> None:
    forget(folder, run)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        # A session of its own: Ctrl-C reaches it through here, once, and a kill of the sweep
        # lets it end in order. It holds the lock as long as it lives.
        process = subprocess.Popen(  # noqa: S603 - running what the user names is the purpose
            [sys.executable, "-m", "gpuprof", *_words(plan, folder, run)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
        )
        try:
            process.wait()
        except KeyboardInterrupt:
            # What a shell starts in the background ignores Ctrl-C, and so does what that starts.
            is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            process.send_signal(signal.SIGTERM if is_ignored else signal.SIGINT)
            process.wait()
            forget(folder, run)
            raise
        if not has_ended(folder, run):
            log.seek(0)
            errors = [line for line in log.read().splitlines() if line.startswith("Error: ")]
            status = f"gpuprof record ended with exit status {process.returncode}"
            note_failure(folder, run, errors[-1].removeprefix("Error: ") if errors else status)


class _Progress:
    """A line per run, with the estimated time left."""

    def __init__(self, count: int, say: Say) -> None:
        self._count = count
        self._say = say
        self._done = 0
        self._ran = 0
        self._seconds = 0.0
        self._began = 0.0

    def begins(self, run: SweepRun) -> None:
        kind = "warm-up" if run.is_warm_up else "run"
        self._say(f"[{self._done + 1}/{self._count}] {run.cell.name}, {kind} {run.number} ...")
        self._began = time.monotonic()

    def ended(self, why: Failure | None) -> None:
        took = time.monotonic() - self._began
        self._done += 1
        self._ran += 1
        self._seconds += took
        how = f"failed: {why.reason}" if why else format_seconds(took)
        seconds_left = self._seconds / self._ran * (self._count - self._done)
        self._say(f"    {how}" + (f"; about {_span(seconds_left)} left" if seconds_left else ""))

    def skipped(self, run: SweepRun) -> None:
        self._done += 1
        self._say(
            f"[{self._done}/{self._count}] {run.cell.name}: skipped, because a run of it failed"
        )


def _span(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h"
