"""``gpuprof plot``: one chart of one recording, of a comparison, or of measured times."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprof.cli.completion import chart_names, recordings
from gpuprof.cli.options import (
    chart_data_option,
    force_option,
    part_options,
    reading_options,
)
from gpuprof.cli.progress import watched

if TYPE_CHECKING:
    from gpuprof.render.charts.contract import Chart, Results


@click.command(name="plot", no_args_is_help=True)
@click.argument("name", metavar="CHART", required=False, shell_complete=chart_names)
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=recordings)
@click.option("-o", "--output", metavar="FILE", help="Picture file: .png, .svg or .pdf.")
@force_option
@chart_data_option
@reading_options
@part_options
@click.option("--list", "is_list", is_flag=True, help="List the charts and what they show.")
def command(
    *,
    name: str | None,
    files: tuple[str, ...],
    output: str | None,
    is_list: bool,
    **choices: Any,  # noqa: ANN401 - those of the options above
) -> None:
    """Draw a chart: timelines, transfers, variants, and more.

    CHART is one that --list lists. A chart of a recording takes one recording; several FILEs are
    its processes. A chart of a comparison takes recordings, the baseline first. A chart of a sweep
    takes the folder or results of a sweep, or a table of measured times: CSV or Parquet with the
    columns seconds_per_epoch (or seconds), devices or batch_size, and optionally label.

    \b
    Example:
      gpuprof plot --list
      gpuprof plot matrix train.sqlite -o matrix.png
      gpuprof plot placement runs/dual -o placement.svg
      gpuprof plot scaling times.csv -o scaling.svg
      gpuprof plot batch gpuprof-sweeps/train -o batch.svg
      gpuprof plot timeline train.sqlite --from 1.2s --to 1.4s -o timeline.svg
    """  # noqa: D301 - click reads the escape
    from gpuprof.render.charts import CHARTS, chart_named  # noqa: PLC0415 - start-up of --help
    from gpuprof.render.charts.drawing import drawing  # noqa: PLC0415
    from gpuprof.render.listing import charts_text  # noqa: PLC0415
    from gpuprof.render.output import write_stdout  # noqa: PLC0415

    if is_list:
        write_stdout(charts_text(CHARTS))
        return
    if not (name and files and output):
        msg = "plot needs a CHART, a FILE and -o PICTURE."
        raise click.UsageError(msg)
    chart = chart_named(name)
    is_forced, data_format = choices.pop("force"), choices.pop("data_format")
    target = drawing(chart, output, data_format, is_forced=is_forced, inputs=files)
    with watched("Reading", files):
        target.draw(_results(chart, files, **choices))


def _results(
    chart: "Chart",
    files: tuple[str, ...],
    reader: str | None,
    section: str | None,
    **part: Any,  # noqa: ANN401 - those of part_options
) -> "Results":
    from gpuprof.analyses.facts.parts import Part, part_of  # noqa: PLC0415 - start-up time of --help
    from gpuprof.comparisons import comparison, labelled  # noqa: PLC0415
    from gpuprof.readers import read_profile  # noqa: PLC0415
    from gpuprof.render.charts.results import (  # noqa: PLC0415
        of_comparison,
        of_recording,
        of_times,
    )
    from gpuprof.render.contract import COMPARISON, SWEEP  # noqa: PLC0415

    if chart.subject == SWEEP:
        if len(files) > 1:
            msg = f"{chart.name} takes one table of measured times, not {len(files)} files."
            raise click.UsageError(msg)
        return of_times(Path(files[0]))
    if chart.subject == COMPARISON:
        sections = {} if section is None else {"": section}
        return of_comparison(comparison(labelled(files, sections=sections)))
    return of_recording(part_of(read_profile(files, reader, section), Part(**part)), chart)
