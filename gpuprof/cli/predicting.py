"""What was not recorded: ``gpuprof predict`` after a change, ``gpuprof place`` elsewhere."""

from types import SimpleNamespace

import click

from gpuprof.cli.chosen import reading
from gpuprof.cli.terminal import page
from gpuprof.place.machines import machine
from gpuprof.place.proposal import proposal, timed_proposal
from gpuprof.predict.predict import predict as predicted
from gpuprof.show.charts import save
from gpuprof.show.output import check_apart, check_suffix, prepare, write_stdout
from gpuprof.show.page.prediction_page import prediction_page
from gpuprof.show.placement_search import as_json, as_text, placement_text, schedule
from gpuprof.show.prediction import critical_paths, prediction_text


def predict(values: SimpleNamespace) -> None:
    """Write how long a step takes after changes."""
    to = {"is_forced": values.force, "inputs": values.files}
    target = prepare(values.output, **to)
    figure = prepare(check_suffix(values.picture), **to) if values.picture else None
    html = prepare(values.page, **to) if values.page else None
    check_apart([target, figure, html])
    with reading(values) as profile:
        result = predicted(profile, values.changes)
        if figure is not None:
            save(critical_paths(result), figure, is_dark=values.is_dark)
        if html is not None:
            html.write_text(prediction_page(result, profile, has_full_names=values.full_names))
        text = prediction_text(result, profile.origin, values.form, page(values))
    target.write_text(text)


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
