"""A sweep from its plan to its results."""

from collections.abc import Callable
from pathlib import Path

from gpuprof.sweeps import execution
from gpuprof.sweeps.folder import open_sweep, remove_sweep
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.results import Results, results


def run_sweep(
    plan: Plan,
    folder: Path,
    say: Callable[[str], None],
    *,
    force: bool = False,
    retry_failed: bool = False,
) -> Results:
    """Execute the runs of a sweep that have not ended yet, and give the results of all.

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
        execution.retry_failed(plan, folder)
    execution.execute(plan, folder, seed, say)
    return results(plan, folder)
