"""``gpuprof predict``: the effect of a change, before anybody makes it."""

import click

from gpuprof.cli.options import (
    output_options,
    reading_options,
    recording_argument,
    room,
    tables_format_option,
)
from gpuprof.cli.progress import reading


@click.command(name="predict", no_args_is_help=True)
@recording_argument
@click.option(
    "--what",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help="A change from the list above; repeat to apply several together.",
)
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    help="Plot the critical path of one step, as recorded and as predicted, to a .png, .svg or"
    " .pdf file.",
)
@tables_format_option
@output_options
@reading_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    changes: tuple[str, ...],
    picture: str | None,
    form: str,
    output: str,
    force: bool,
    wide: bool,
    full_names: bool,
    reader: str | None,
    section: str | None,
) -> None:
    """Predict how long a step takes after a change.

    Replays the recording with a faster link, fewer copies, copies that overlap with kernels, and
    so on. Each prediction has a range, its assumptions, and the share of the recording that the
    replay cannot explain. Above 5 % of the span, the reason is printed instead of a prediction.
    Without --what, the critical path is shown.

    \b
    CHANGE is one of:
      link=NAME        copies between devices over nvlink2, nvlink3, nvlink4,
                       pcie3, pcie4, pcie5, or staged through the host
      link=4us,24GB/s  over a link of this latency and bandwidth
      link[0->1]=NAME  copies of one route, or of one kind: link[HtoD]=pcie5
      hide=HtoD        copies of a kind or route overlap with other work
      drop=NAME        remove what NVTX ranges of this name launch (* matches
                       anything), else kernels or copies that match the REGEX
      scale=REGEX:0.5  kernels and copies that match take half the time
      streams=REGEX    kernels and copies that match run on separate streams
      balance          no rank waits for another in collectives
      no-launch-cost   launches take no time on the host, as with CUDA graphs

    \b
    Example:
      gpuprof predict train.sqlite --what link=nvlink3
      gpuprof predict train.sqlite --what hide=HtoD --what "scale=gemm:0.5"
      gpuprof predict train.sqlite --what balance --plot balance.png
    """
    from gpuprof.predict.predict import predict  # noqa: PLC0415 - start-up of --help
    from gpuprof.show.output import check_apart, check_suffix, prepare  # noqa: PLC0415
    from gpuprof.show.prediction import critical_paths, prediction_text  # noqa: PLC0415

    target = prepare(output, is_forced=force, inputs=files)
    figure = prepare(check_suffix(picture), is_forced=force, inputs=files) if picture else None
    check_apart([target, figure])
    page = room(output, is_wide=wide, has_full_names=full_names)
    with reading(files, reader, section) as profile:
        result = predict(profile, changes)
        if figure is not None:
            from gpuprof.show.charts.drawing import figure_of, save  # noqa: PLC0415 - 0.5 s

            save(figure_of(critical_paths(result)), figure)
        text = prediction_text(result, profile.origin, form, page)
    target.write_text(text)
