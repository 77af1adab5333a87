"""``gpuprof compare``: variants side by side; ``gpuprof baseline``: runs to compare with later."""

from types import SimpleNamespace

import click

from gpuprof.cli.chosen import further_outputs, labelled_files, note_unread
from gpuprof.cli.terminal import page, watched
from gpuprof.comparisons import comparison, labelled
from gpuprof.comparisons.gate import checks, fail, parse
from gpuprof.comparisons.measure import baselines
from gpuprof.comparisons.measure.labelled_runs import check_repeats, runs_of
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write
from gpuprof.show import COMPARISON, renderer_named
from gpuprof.show.cells import clean
from gpuprof.show.comparison import junit
from gpuprof.show.output import prepare


def compare(values: SimpleNamespace) -> None:
    """Write a comparison, its charts, its page and its tests."""
    if values.junit is not None and not values.conditions:
        msg = "--junit needs conditions: give at least one by --fail-if."
        raise click.UsageError(msg)
    gates = [*map(parse, values.conditions)]
    inputs = (*values.files, *(file for _, file in values.labels))
    to = {"is_forced": values.force, "inputs": inputs}
    target = prepare(values.output, **to)
    tests = None if values.junit is None else prepare(values.junit, **to)
    further = further_outputs(values, COMPARISON, inputs, (target, tests))
    recordings = labelled_files(values)
    # Of the label or file before it, or of all.
    by_label = (text.rpartition("=") for text in values.sections)
    sections = {label: section for label, _, section in by_label}
    with watched(f"Reading {len(recordings)} recordings", values.files):
        variants = labelled(recordings, values.baseline, sections)
        unread = (profile.unread for profiles in variants.values() for profile in profiles)
        note_unread(unread, shows_notes=values.form != "csv")
        result = comparison(
            *(variants, values.baseline, dict(values.epoch_seconds)),
            range_text=values.range_text,
            skip_steps=values.skip_steps,
        )
        tables = ("kernels",) if values.is_kernels else ()
        text = renderer_named(values.form).comparison(result, page(values, tables))
        if further is not None:
            further.write_comparison(result, has_full_names=values.full_names)
    target.write_text(text)
    outcomes = checks(result, gates)
    if tests is not None:
        tests.write_text(junit(result, outcomes))
    fail(outcomes)


def save(values: SimpleNamespace) -> None:
    """Save runs under a name."""
    name = values.name
    baselines.check_name(name)
    place = baselines.user_folder() if values.is_user else baselines.project_folder()
    with watched(f"Reading {len(values.runs)} recordings"):
        profiles = [
            profile
            for run in values.runs
            for profile in runs_of(run, values.reader, values.section)
        ]
        check_repeats(f"baseline {name}", profiles)
        saved = baselines.save_baseline(name, profiles, place, write, is_forced=values.force)
    click.echo(f"Saved {name}: {saved.size}, in {saved.folder}", err=True)


def list_baselines(_: SimpleNamespace) -> None:
    """List the baselines with their runs, size and folder."""
    saved = baselines.baselines()
    if not saved:
        click.echo("No baselines. Save one with `gpuprof baseline save NAME RUN`.", err=True)
    for baseline in saved:
        click.echo(f"{baseline.name}: {baseline.size}, {baseline.folder}")


def show_baseline(values: SimpleNamespace) -> None:
    """Show what is known of each run of a baseline."""
    for run in baselines.saved_baseline(values.name).runs:
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


def remove(values: SimpleNamespace) -> None:
    """Remove a baseline and its files."""
    removed = baselines.remove_baseline(values.name)
    click.echo(f"Removed {values.name} from {removed.folder.parent}", err=True)
