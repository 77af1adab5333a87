"""``gpuprof place``: where the operations of a recorded training step should run."""

import click

from gpuprof.cli.options import (
    force_option,
    format_option,
    reading_options,
    recording_argument,
    room,
)
from gpuprof.cli.progress import reading


@click.command(name="place", no_args_is_help=True)
@recording_argument
@format_option("Format of the result; json is in base units.", "terminal", "json")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the placement as JSON, for use by a script.",
)
@force_option
@click.option(
    "--keep",
    "pinned",
    multiple=True,
    type=click.Choice(("forward", "variables")),
    help="Do not move these; repeat for both. Inputs never move.",
)
@click.option(
    "--gpus",
    metavar="2xK80",
    help="Also estimate the time of a step on these GPUs, and rank placements by it.",
)
@click.option(
    "--link",
    metavar="NAME",
    default="pcie3",
    show_default=True,
    help="Link between each two GPUs: pcie3 to 5, nvlink2 to 4, staged, or 4us,24GB/s.",
)
@click.option(
    "--chart",
    metavar="FILE",
    help="Plot the estimated step, as recorded and as proposed, to a .png, .svg or .pdf file.",
)
@reading_options
def command(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    form: str,
    output: str | None,
    force: bool,
    pinned: tuple[str, ...],
    gpus: str | None,
    link: str,
    chart: str | None,
    reader: str | None,
    section: str | None,
) -> None:
    """Find where the parts of a training step should run.

    Minimizes the bytes copied between devices or, with --gpus, the estimated time of a step. FILE
    is a recording by `gpuprof record --recorder tensorflow`. Gradients and updates move first, as
    TensorFlow does not place them with the forward pass; then variables; the forward pass only
    if that saves a lot. Prints the scopes to write.

    \b
    Example:
      gpuprof place runs/dual
      gpuprof place runs/dual --output placement.json
      gpuprof place runs/dual --gpus 2xK80 --link pcie3 --chart dual.svg
    """
    from gpuprof.place.machines import machine  # noqa: PLC0415 - start-up time
    from gpuprof.place.proposal import proposal, timed_proposal  # noqa: PLC0415
    from gpuprof.show.output import (  # noqa: PLC0415
        check_apart,
        check_suffix,
        prepare,
        write_stdout,
    )
    from gpuprof.show.placement_search import (  # noqa: PLC0415
        as_json,
        as_text,
        placement_text,
        schedule,
    )

    imagined = None if gpus is None else machine(gpus, link)
    if chart is not None and imagined is None:
        msg = "--chart plots the time of a step: it needs --gpus"
        raise click.UsageError(msg)
    target, picture = (
        None if path is None else prepare(path, is_forced=force, inputs=files)
        for path in (output, chart and check_suffix(chart))
    )
    check_apart([target, picture])
    with reading(files, reader, section) as profile:
        proposed = proposal(profile, frozenset(pinned))
        times = None if imagined is None else timed_proposal(proposed, imagined)
        name = str(profile.origin.source)
    if target is not None:
        target.write_text(placement_text(proposed, times))
    if picture is not None and times is not None:
        from gpuprof.show.charts.drawing import figure_of, save  # noqa: PLC0415 - 0.5 s

        save(figure_of(schedule(proposed, times)), picture)
    is_json = form == "json"
    write_stdout(as_json(proposed, times) if is_json else as_text(name, proposed, times, room("-")))
