"""``gpuprof place``: where the operations of a step should run."""

from types import SimpleNamespace

import click

from gpuprof.cli.chosen import reading
from gpuprof.cli.terminal import page
from gpuprof.place.proposal import proposal, timed_proposal
from gpuprof.place.simulate import machine
from gpuprof.show.charts.figure import save
from gpuprof.show.output import check_apart, check_suffix, prepare, write_stdout
from gpuprof.show.placement_search import as_json, as_text, placement_text, schedule


def place(values: SimpleNamespace) -> None:
    """Print where the operations of a step should run, and write the placement."""
    imagined = None if values.gpus is None else machine(values.gpus, values.link)
    if values.chart is not None and imagined is None:
        msg = "--chart plots the time of a step: it needs --gpus"
        raise click.UsageError(msg)
    target, picture = (
        None if path is None else prepare(path, is_forced=values.force, inputs=values.files)
        for path in (values.output, values.chart and check_suffix(values.chart))
    )
    check_apart([target, picture])
    with reading(values) as profile:
        proposed = proposal(profile, frozenset(values.pinned))
        times = None if imagined is None else timed_proposal(proposed, imagined)
        name = str(profile.origin.source)
    if target is not None:
        target.write_text(placement_text(proposed, times))
    if picture is not None and times is not None:
        save(schedule(proposed, times), picture, is_dark=values.is_dark)
    is_json = values.form == "json"
    write_stdout(as_json(proposed, times) if is_json else as_text(name, proposed, times, page()))
