"""Options that several commands share."""

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, Final

import click

FORMATS: Final = ("terminal", "markdown", "csv", "json")

_Command = Callable[..., Any]


def format_option(command: _Command) -> _Command:
    """``--format``."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="terminal",
        show_default=True,
        help="How the result is written; csv and json are in base units (ns, bytes).",
    )(command)


def output_options(command: _Command) -> _Command:
    """``-o``, ``--force`` and ``--wide``."""
    for option in (
        click.option("--wide", is_flag=True, help="Names in full, however wide that gets."),
        click.option("--force", is_flag=True, help="Replace outputs that exist already."),
        click.option(
            "-o",
            "--output",
            default="-",
            metavar="FILE",
            help="Where to write the result; - is standard output, the default.",
        ),
    ):
        command = option(command)
    return command


def reader_option(command: _Command) -> _Command:
    """``--reader``."""
    return click.option(
        "--reader",
        metavar="NAME",
        help="Format of the input where it cannot be recognised; see `gpuprof formats`.",
    )(command)


def page_options(output: str, *, is_wide: bool) -> dict[str, Any]:
    """Width and colour of what is written to: those of the terminal, else 80 and none."""
    is_terminal = output == "-" and sys.stdout.isatty()
    return {
        "width": shutil.get_terminal_size().columns
        if is_terminal or "COLUMNS" in os.environ
        else 80,
        "is_colour": is_terminal and not os.environ.get("NO_COLOR"),
        "is_wide": is_wide,
    }


def progress(message: str) -> None:
    """Say on a terminal's stderr what takes its time; say nothing to a file or a pipe."""
    if sys.stderr.isatty():
        click.echo(message, err=True)
