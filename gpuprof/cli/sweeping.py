"""``gpuprof sweep``: one program over a grid of options."""

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click

from gpuprof.api.options import PLAN
from gpuprof.base.errors import UsageError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.units import counted
from gpuprof.cli.commands import values_of
from gpuprof.cli.terminal import page, say
from gpuprof.launch import check_recorder, check_system
from gpuprof.show.output import write_stdout
from gpuprof.show.sweep_results import save, sweep_text
from gpuprof.sweeps.execution import commands, run_sweep
from gpuprof.sweeps.results import cells_to_compare, failed_cells
from gpuprof.sweeps.sweep_file import planned
from gpuprof.sweeps.sweep_folder import DEFAULT_PARENT

# The exit status where cells failed: the results hold the others.
_FAILED: Final = 5


def sweep(values: SimpleNamespace) -> int:
    """Run a sweep, or print its commands."""
    options: dict[str, Any] = {"baseline": dict(values.baseline), "figures": dict(values.figures)}
    names = [name for name, _ in values.grid]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        msg = f"--grid {repeated} is given twice"
        raise UsageError(msg, f"Give all its values in one option: --grid {repeated}=1,2")
    axes = {name: tuple(texts.split(",")) if texts else () for name, texts in values.grid}
    plan = planned(
        *(values.words, axes or None, options | values_of(values, PLAN)),
        grid="--grid",
        advice="Give a sweep.toml, or axes: --grid batch=64,128 -- train.py {batch}",
    )
    check_recorder(plan.recorder)
    target = values.folder or Path(DEFAULT_PARENT) / plan.name
    if values.dry_run:
        lines = list(commands(plan, plan.seed or 0, target))
        click.echo("\n".join(lines))
        order = "in random order" if plan.seed is None else "in this order"
        say(f"{counted(len(lines), 'run', 'runs')}, {order}; nothing was run")
        return 0
    check_system()
    outcome = run_sweep(plan, target, say, force=values.force, retry_failed=values.retry_failed)
    say(f"In {target}: {', '.join(save(outcome, target))}")
    failed = failed_cells(outcome)
    if failed:
        of_all = f"{failed} of {counted(len(outcome.cells), 'cell', 'cells')}"
        say(f"{of_all} failed or cannot be read; add --retry-failed to run failed cells again")
    pair = cells_to_compare(outcome)
    if plan.recorder != TIMING_ONLY and pair is not None:
        say("Next: " + shlex.join(["gpuprof", "compare", *(f"{target / cell}" for cell in pair)]))
    write_stdout(sweep_text(outcome, values.form, page(values)))
    return _FAILED if failed else 0
