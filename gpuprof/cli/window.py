"""Options that name the part of a run to record."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from gpuprof.cli.options import time_in_ns
from gpuprof.launch.run.window import Window, parse_epochs


def window_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--delay``, ``--duration``, ``--epochs``, ``--range`` and ``--cuda-profiler``."""

    @wraps(command)
    def with_window(
        *,
        delay_ns: int | None,
        duration_ns: int | None,
        epochs: tuple[int, int] | None,
        range_name: str | None,
        cuda_profiler: bool,
        **others: Any,  # noqa: ANN401 - the command's own
    ) -> Any:  # noqa: ANN401 - the command's own
        window = Window(delay_ns, duration_ns, epochs, range_name, cuda_profiler)
        return command(window=window, **others)

    for option in reversed((
        click.option(
            "--delay",
            "delay_ns",
            metavar="TIME",
            callback=time_in_ns,
            help="Record only after this time, as 90s; the program runs from the start.",
        ),
        click.option(
            "--duration",
            "duration_ns",
            metavar="TIME",
            callback=time_in_ns,
            help="Record only for this time; the program runs to its end.",
        ),
        click.option(
            "--epochs",
            metavar="A:B",
            callback=_epochs,
            help="Record only epochs A to B - 1 of those that gpuprof.epoch() marks; 0 is the "
            "first.",
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
    )):  # fmt: skip
        with_window = option(with_window)
    return with_window


def _epochs(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    try:
        return None if text is None else parse_epochs(text)
    except ValueError as error:
        msg = f"{error}; give it as 2:4 for epochs 2 and 3, or as 2"
        raise click.BadParameter(msg) from error
