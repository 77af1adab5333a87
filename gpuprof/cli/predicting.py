"""``gpuprof predict``: how long a step takes after a change."""

from types import SimpleNamespace

from gpuprof.cli.chosen import reading
from gpuprof.cli.terminal import page
from gpuprof.predict.predict import predict as predicted
from gpuprof.show.charts.figure import save
from gpuprof.show.output import check_apart, check_suffix, prepare
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
            from gpuprof.show.page.prediction_page import prediction_page  # noqa: PLC0415 - start-up

            html.write_text(prediction_page(result, profile, has_full_names=values.full_names))
        text = prediction_text(result, profile.origin, values.form, page(values))
    target.write_text(text)
