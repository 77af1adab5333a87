"""A sweep from its plan to its results: its runs one at a time, each under `gpuprof record`."""

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
from gpuprof.sweeps.plan import Plan, SweepRun, ordered_runs, runs_of
from gpuprof.sweeps.results import Results, results
from gpuprof.sweeps.sweep_folder import (
    failure,
    forget,
    has_ended,
    note_failure,
    open_sweep,
    remove_sweep,
    working_in,
)

_MINUTE: Final = 60
_HOUR: Final = 3600

Say = Callable[[str], None]


def run_sweep(
    plan: Plan,
    folder: Path,
    say: Say,
    *,
    force: bool = False,
    retry_failed: bool = False,
) -> Results:
    """Execute the runs of a sweep that have not ended yet, and give the results of all.

    A cell that failed once does not run again. A run that Ctrl-C or SIGTERM stops counts as not
    run.

    Args:
        plan: The sweep.
        folder: Its folder, created or resumed.
        say: Takes lines of progress.
        force: Whether to remove the sweep in the folder first.
        retry_failed: Whether to run failed cells again.

    Raises:
        GpuprofError: The folder holds something else, or another sweep is running in it.
        KeyboardInterrupt: It was stopped; the unfinished run is dropped.
    """
    if force:
        remove_sweep(folder)
    seed = open_sweep(folder, plan)
    if retry_failed:
        for run in ordered_runs(plan, seed):
            if has_ended(folder, run) and failure(folder, run):
                forget(folder, run)
    # SIGTERM stops a sweep as Ctrl-C does.
    with (
        working_in(folder, say) as lock,
        handling(signal.default_int_handler, [signal.SIGTERM]),
    ):
        runs = list(ordered_runs(plan, seed))
        waiting = [run for run in runs if not has_ended(folder, run)]
        if len(waiting) < len(runs):
            say(f"{len(runs) - len(waiting)} of {len(runs)} runs are already complete")
        seconds: list[float] = []
        for place, run in enumerate(waiting, 1):
            title = f"[{place}/{len(waiting)}] {run.cell.name}"
            if any(has_ended(folder, r) and failure(folder, r) for r in runs_of(plan, run.cell)):
                say(f"{title}: skipped, because a run of it failed")
                continue
            say(f"{title}, {'warm-up' if run.is_warm_up else 'run'} {run.number} ...")
            began = time.monotonic()
            _run(plan, folder, run, lock)
            seconds.append(time.monotonic() - began)
            why = failure(folder, run)
            how = f"failed: {why[0]}" if why else format_seconds(seconds[-1])
            remaining_s = sum(seconds) / len(seconds) * (len(waiting) - place)
            say(f"    {how}" + (f"; about {_span(remaining_s)} left" if remaining_s else ""))
    return results(plan, folder)


def commands(plan: Plan, seed: int, folder: Path) -> Iterator[str]:
    """The command of each run in order, quoted for a shell."""
    for run in ordered_runs(plan, seed):
        yield shlex.join(["gpuprof", *_words(plan, folder, run)])


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
        process = subprocess.Popen(
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


def _span(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h"
