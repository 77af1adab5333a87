"""Options that name the part of a run to record, under the names of `Window`'s fields."""

from typing import Final

import click

from gpuprof.cli.options import in_order, time_option


def _epochs(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    from gpuprof.launch.run.window import parse_epochs  # noqa: PLC0415 - start-up time of --help

    try:
        return None if text is None else parse_epochs(text)
    except ValueError as error:
        msg = f"{error}; give it as 2:4 for epochs 2 and 3, or as 2"
        raise click.BadParameter(msg) from error


window_options: Final = in_order(
    time_option(
        *("--delay", "delay_ns"),
        "Start to record after this time, such as 90s; the program runs from the start.",
    ),
    time_option(
        *("--duration", "duration_ns"),
        "Record for this time; the program runs to its end.",
    ),
    click.option(
        "--epochs",
        metavar="A:B",
        callback=_epochs,
        help="Record only epochs A to B - 1, as marked by gpuprof.epoch(); 0 is the first.",
    ),
    click.option(
        "--range",
        "range_name",
        metavar="NAME",
        help="Record only the first NVTX range of this name, or NAME@DOMAIN.",
    ),
    click.option(
        "--cuda-profiler",
        is_flag=True,
        help="Record only between cudaProfilerStart and cudaProfilerStop.",
    ),
)
