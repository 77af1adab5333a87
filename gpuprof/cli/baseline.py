"""``gpuprof baseline``: runs to compare with later, by name."""

import click

from gpuprof.cli.completion import recordings
from gpuprof.cli.options import reading_options
from gpuprof.cli.progress import watched


@click.group(name="baseline", no_args_is_help=True)
def command() -> None:
    """Save runs under a name, to compare later runs with.

    A baseline is a folder of small gpuprof files under .gpuprof/baselines of the project, or of
    the user with --user. `gpuprof compare NAME new` and --baseline NAME take it.

    \b
    Example:
      gpuprof baseline save main runs/main
      gpuprof compare runs/branch --baseline main --fail-if "step_ns > 1.05x"
    """


@command.command(name="save")
@click.argument("name")
@click.argument("runs", nargs=-1, required=True, type=click.Path(), shell_complete=recordings)
@click.option("--user", "is_user", is_flag=True, help="Save for all projects of this user.")
@click.option("--force", is_flag=True, help="Replace a baseline of this name.")
@reading_options
def save(  # noqa: PLR0913 - one parameter per option
    *,
    name: str,
    runs: tuple[str, ...],
    is_user: bool,
    force: bool,
    reader: str | None,
    section: str | None,
) -> None:
    """Save RUNS under NAME.

    Several runs are repeats, which show how much of a difference is noise.

    \b
    Example:
      gpuprof baseline save main runs/main
      gpuprof baseline save main a.sqlite b.sqlite c.sqlite --force
    """
    from gpuprof.comparisons.measure.baselines import (  # noqa: PLC0415 - start-up time
        check_name,
        project_folder,
        save_baseline,
        user_folder,
    )
    from gpuprof.comparisons.measure.labelled_runs import check_repeats, runs_of  # noqa: PLC0415
    from gpuprof.readers.gpuprof.write_gpuprof_file import write  # noqa: PLC0415

    check_name(name)
    place = user_folder() if is_user else project_folder()
    with watched(f"Reading {len(runs)} recordings"):
        profiles = [profile for run in runs for profile in runs_of(run, reader, section)]
        check_repeats(f"baseline {name}", profiles)
        saved = save_baseline(name, profiles, place, write, is_forced=force)
    click.echo(f"Saved {name}: {saved.size}, in {saved.folder}", err=True)


@command.command(name="list")
def list_all() -> None:
    """List the baselines with their runs, size and folder.

    \b
    Example:
      gpuprof baseline list
    """
    from gpuprof.comparisons.measure.baselines import baselines  # noqa: PLC0415 - start-up time

    saved = baselines()
    if not saved:
        click.echo("No baselines. Save one with `gpuprof baseline save NAME RUN`.", err=True)
    for baseline in saved:
        click.echo(f"{baseline.name}: {baseline.size}, {baseline.folder}")


@command.command(name="show")
@click.argument("name")
def show(*, name: str) -> None:
    """Show the tool, variant, command and date of each run of NAME.

    \b
    Example:
      gpuprof baseline show main
    """
    from gpuprof.comparisons.measure.baselines import saved_baseline  # noqa: PLC0415 - start-up time
    from gpuprof.readers import read_profile  # noqa: PLC0415
    from gpuprof.show.cells import clean  # noqa: PLC0415

    for run in saved_baseline(name).runs:
        origin = read_profile(run).origin
        facts = {
            "tool": origin.recorder,
            "read as": origin.reader,
            "variant": origin.variant,
            "command": origin.command,
            "recorded": origin.recorded_at,
        }
        click.echo(f"{run}")
        for word, text in facts.items():
            click.echo(f"  {word}: {'n/a' if text is None else clean(text)}")


@command.command(name="remove")
@click.argument("name")
def remove(*, name: str) -> None:
    """Remove NAME and its files.

    \b
    Example:
      gpuprof baseline remove main
    """
    from gpuprof.comparisons.measure.baselines import remove_baseline  # noqa: PLC0415 - start-up time

    removed = remove_baseline(name)
    click.echo(f"Removed {name} from {removed.folder.parent}", err=True)
