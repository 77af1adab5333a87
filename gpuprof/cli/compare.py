"""``gpuprof compare``: variants of one program side by side."""

from pathlib import Path

import click

from gpuprof.cli.options import (
    chart_options,
    format_option,
    output_options,
    page_options,
    progress,
)


@click.command(name="compare", no_args_is_help=True)
@click.argument("files", nargs=-1, type=click.Path())
@format_option
@output_options
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=FILE",
    help="A recording with a name of its own; repeat for more.",
)
@click.option("--baseline", metavar="LABEL", help="Variant to compare with; else the first.")
@click.option(
    "--epoch-seconds",
    multiple=True,
    metavar="LABEL=S",
    help="Measured seconds per epoch of a variant; repeat for more.",
)
@chart_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    form: str,
    output: str,
    force: bool,
    wide: bool,
    labels: tuple[str, ...],
    baseline: str | None,
    epoch_seconds: tuple[str, ...],
    charts: tuple[str, ...],
    data_format: str | None,
) -> None:
    """Compare recordings of one program in several variants, such as device placements.

    Says how much the variants differ, how much of that is transfers, and of which kind. FILES
    may come from different tools and numbers of devices; the first one is the baseline.

    \b
    Example:
      gpuprof compare single.txt dual.txt
      gpuprof compare --label one=a.txt --label two=b.sqlite --chart variants.png
    """  # noqa: D301 - click reads the escape
    from gpuprof.comparisons import comparison, labelled  # noqa: PLC0415 - start-up time
    from gpuprof.render import renderer_named  # noqa: PLC0415
    from gpuprof.render.charts.contract import COMPARISON  # noqa: PLC0415
    from gpuprof.render.charts.drawing import drawing, named_chart  # noqa: PLC0415
    from gpuprof.render.charts.results import of_comparison  # noqa: PLC0415
    from gpuprof.render.contract import Page  # noqa: PLC0415
    from gpuprof.render.output import prepare  # noqa: PLC0415

    seconds = {label: _seconds(label, text) for label, text in map(_pair, epoch_seconds)}
    target = prepare(output, is_forced=force)
    drawings = [
        drawing(*named_chart(chart, COMPARISON), data_format, is_forced=force) for chart in charts
    ]
    recordings = _recordings(files, [_pair(label) for label in labels])
    progress(f"Reading {len(recordings)} recordings ...")
    result = comparison(labelled(recordings), baseline, seconds)
    page = Page(**page_options(output, is_wide=wide))
    text = renderer_named(form).comparison(result, page)
    for one in drawings:
        one.draw(of_comparison(result))
    target.write_text(text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name and value):
        msg = f"'{text}' is not of the form NAME=VALUE."
        raise click.UsageError(msg)
    return name, value


def _seconds(label: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = f"--epoch-seconds {label}={text}: '{text}' is no number of seconds."
        raise click.UsageError(msg) from None


def _recordings(
    files: tuple[str, ...], labels: list[tuple[str, str]]
) -> list[str | Path | tuple[str, str]]:
    """Files in their order, under their labels where they have one; then files only labelled."""
    named = {file: name for name, file in labels}
    rest = [(name, file) for name, file in labels if file not in files]
    return [*((named[file], file) if file in named else file for file in files), *rest]
