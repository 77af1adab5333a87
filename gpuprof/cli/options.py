"""Options that several commands share."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from gpuprof.units import duration_ns

FORMATS: Final = ("terminal", "markdown", "csv", "json")

_Command = Callable[..., Any]


def recording_argument(command: _Command) -> _Command:
    """``FILE...``: one recording; several files are those of its processes."""
    return click.argument("files", nargs=-1, required=True, metavar="FILE...")(command)


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


def recording_output_options(command: _Command) -> _Command:
    """``-o`` and ``--force`` of commands that write gpuprof's own file."""
    force = click.option("--force", is_flag=True, help="Replace the output if it exists already.")
    output = click.option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="The file to write; its name should end in .gpuprof.",
    )
    return output(force(command))


def folder_option(described: str) -> Callable[[_Command], _Command]:
    """``-o`` of commands that make a folder."""
    return click.option(
        "-o",
        "--output",
        "folder",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help=described,
    )


def reader_option(command: _Command) -> _Command:
    """``--reader``."""
    return click.option(
        "--reader",
        metavar="NAME",
        help="Format of the input where it cannot be recognised; see `gpuprof formats`.",
    )(command)


def section_option(command: _Command) -> _Command:
    """``--section`` of commands that take one recording."""
    return click.option(
        "--section",
        metavar="N",
        help="Which recording of a file that holds several, such as a log of several runs: its "
        "number, its process, a part of its name, or all to add them up.",
    )(command)


def part_options(command: _Command) -> _Command:
    """``--from``, ``--to``, ``--range`` and ``--device``."""
    for option in (
        click.option("--device", "device_id", type=int, metavar="N", help="Only this device."),
        click.option(
            "--range",
            "range_text",
            metavar="NAME",
            help="Only while the work that NVTX ranges or operations of this text launched runs; "
            "* is anything.",
        ),
        click.option(
            "--to",
            "to_ns",
            callback=time_in_ns,
            metavar="TIME",
            help="Only before this time; it is not part of it.",
        ),
        click.option(
            "--from",
            "from_ns",
            callback=time_in_ns,
            metavar="TIME",
            help="Only from this time since the recording's origin, as 1.5s, 20ms or 300us.",
        ),
    ):
        command = option(command)
    return command


def time_in_ns(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """A time with its unit, in nanoseconds."""
    try:
        return None if text is None else duration_ns(text)
    except ValueError as error:
        msg = f"{error}; write a time as 10m, 1.5s, 20ms or 300us"
        raise click.BadParameter(msg) from error


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


def named(files: Sequence[str]) -> str:
    """How a message names the files of a recording."""
    return files[0] if len(files) == 1 else f"{len(files)} files"


def chart_options(command: _Command) -> _Command:
    """``--chart`` and ``--chart-data`` of commands that draw what they say."""
    chart = click.option(
        "--chart",
        "charts",
        multiple=True,
        metavar="[NAME=]FILE",
        help="Draw a chart into a .png, .svg or .pdf file; repeat for more. "
        "`gpuprof plot --list` names them.",
    )
    return chart(chart_data_option(command))


def chart_data_option(command: _Command) -> _Command:
    """``--chart-data``."""
    return click.option(
        "--chart-data",
        "data_format",
        type=click.Choice(("csv", "json")),
        help="Write what is drawn beside each picture, in base units.",
    )(command)


def page_option(command: _Command) -> _Command:
    """``--html``."""
    return click.option(
        "--html",
        "page",
        metavar="FILE",
        help="Write all of it as a page for a browser, too: one file that needs no other.",
    )(command)
