"""``gpuprof sweep``: one program over a grid of options."""

import shlex
from functools import partial
from pathlib import Path
from typing import Final

import click

from gpuprof.base.units import counted
from gpuprof.cli.options import folder_option, pairs, room, tables_format_option, wide_option

_Pairs = tuple[tuple[str, str], ...]
_pairs: Final = partial(pairs, may_be_empty=True)
_say: Final = partial(click.echo, err=True)
# The exit status where cells failed: the results hold the others.
_FAILED: Final = 5


@click.command(name="sweep", no_args_is_help=True)
@click.option(
    "--grid",
    multiple=True,
    callback=_pairs,
    metavar="NAME=A,B",
    help="An axis and its values; repeat for more.",
)
@click.option("--baseline", multiple=True, callback=_pairs, metavar="NAME=A",
              help="Cell that speed-ups are relative to; repeat for more axes.")  # fmt: skip
@click.option("--figure", "figures", multiple=True, callback=_pairs, metavar="NAME=PATTERN",
              help="A figure that the program prints: the group of this pattern.")  # fmt: skip
@click.option("--repeat", type=int, metavar="N", help="Runs of each cell; 1 by default.")
@click.option("--warmup", type=int, metavar="N", help="Runs before these that do not count.")
@click.option(
    "--skipped-epochs",
    type=int,
    metavar="N",
    help="First epochs of each run that do not count; 0: all do. By default, the warm-up does not.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Seed of the order of runs; by default drawn, and kept."
)
@click.option(
    "--recorder", metavar="NAME", help="Profiler, as in `gpuprof record`; none only times."
)
@folder_option("Folder of the sweep; by default, one under gpuprof-sweeps.")
@click.option("--force", is_flag=True, help="Replace the sweep in the folder.")
@click.option("--retry-failed", is_flag=True, help="Run failed cells again.")
@click.option("--dry-run", is_flag=True, help="Print the commands in order without running them.")
@wide_option
@tables_format_option
@click.argument("words", nargs=-1, metavar="SWEEP.TOML | -- SCRIPT [ARGS]...",
                type=click.UNPROCESSED)  # fmt: skip
def command(  # noqa: PLR0913 - one per option
    *,
    grid: _Pairs,
    baseline: _Pairs,
    figures: _Pairs,
    folder: Path | None,
    force: bool,
    retry_failed: bool,
    dry_run: bool,
    wide: bool,
    form: str,
    words: tuple[str, ...],
    **options: str | int | None,
) -> int:
    """Run a program over a grid of options.

    Each cell runs under `gpuprof record`, one run at a time, in a shuffled order. The same
    command continues a sweep that was stopped, and repeats no finished run. A cell that fails
    becomes a row with its reason, and the exit status is 5 then. The folder of the sweep gets the
    recordings, results as CSV and Parquet, and charts.

    \b
    Example:
      gpuprof sweep sweep.toml
      gpuprof sweep --grid placement=single,dual --grid batch=64,128 \\
        --baseline placement=single -- \\
        train.py --placement {placement} --batch {batch}
    """
    from gpuprof.base.labels import TIMING_ONLY  # noqa: PLC0415
    from gpuprof.launch import check_recorder, check_system  # noqa: PLC0415 - start-up time of --help
    from gpuprof.show.output import write_stdout  # noqa: PLC0415
    from gpuprof.show.sweep import save, sweep_text  # noqa: PLC0415
    from gpuprof.sweeps.command_line import planned  # noqa: PLC0415
    from gpuprof.sweeps.execution import commands  # noqa: PLC0415
    from gpuprof.sweeps.folder import DEFAULT_PARENT  # noqa: PLC0415
    from gpuprof.sweeps.results import cells_to_compare, failed_cells  # noqa: PLC0415
    from gpuprof.sweeps.run import run_sweep  # noqa: PLC0415

    plan = planned(words, grid, baseline=dict(baseline), figures=dict(figures), **options)
    check_recorder(plan.recorder)
    target = folder or Path(DEFAULT_PARENT) / plan.name
    if dry_run:
        lines = list(commands(plan, plan.seed or 0, target))
        click.echo("\n".join(lines))
        order = "in random order" if plan.seed is None else "in this order"
        _say(f"{counted(len(lines), 'run', 'runs')}, {order}; nothing was run")
        return 0
    check_system()
    outcome = run_sweep(plan, target, _say, force=force, retry_failed=retry_failed)
    _say(f"In {target}: {', '.join(save(outcome, target))}")
    failed = failed_cells(outcome)
    if failed:
        of_all = f"{failed} of {counted(len(outcome.cells), 'cell', 'cells')}"
        _say(f"{of_all} failed or cannot be read; add --retry-failed to run failed cells again")
    pair = cells_to_compare(outcome)
    if plan.recorder != TIMING_ONLY and pair is not None:
        _say("Next: " + shlex.join(["gpuprof", "compare", *(f"{target / cell}" for cell in pair)]))
    write_stdout(sweep_text(outcome, form, room("-", is_wide=wide)))
    return _FAILED if failed else 0
