"""Options that several commands share."""

import os
import shutil
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprof.base.errors import UsageError
from gpuprof.base.units import duration_ns, instant_ns, parse_decimal_bytes
from gpuprof.cli.completion import named_charts, recordings

if TYPE_CHECKING:
    from gpuprof.show import Page

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], _Command]

# Ends of the names of files that `gpuprof export` writes.
_EXPORTED: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".pftrace": "perfetto",
    ".et": "chakra",
}


def in_order(*options: _Decorator) -> _Decorator:
    """Several options as one decorator, in the order in which --help lists them."""
    return lambda command: reduce(lambda inner, option: option(inner), options[::-1], command)


def parsed(parse: Callable[[str], object], advice: str) -> Callable[..., object]:
    """A callback for an option's text: what `parse` makes of it; None where it is not given.

    Args:
        parse: Raises ValueError, which says what is wrong with a text.
        advice: How to write it instead.
    """

    def callback(_context: click.Context, _option: click.Parameter, text: str | None) -> object:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            msg = f"{error}; {advice}"
            raise click.BadParameter(msg) from error

    return callback


def time_option(
    name: str,
    parameter: str,
    described: str,
    default: str | None = None,
    parse: Callable[[str], int] = duration_ns,
) -> _Decorator:
    """An option that takes a time with its unit; the command gets nanoseconds."""
    return click.option(
        name,
        parameter,
        metavar="TIME",
        callback=parsed(parse, "write a time as 10m, 1.5s, 20ms or 300us"),
        default=default,
        show_default=default is not None,
        help=described,
    )


def pairs(
    _context: click.Context,
    _option: click.Parameter,
    texts: tuple[str, ...],
    *,
    may_be_empty: bool = False,
) -> tuple[tuple[str, str], ...]:
    """Each ``NAME=VALUE`` as a name and a value, split at the first sign."""
    return tuple(pair(text, text.find("="), may_be_empty=may_be_empty) for text in texts)


def pair(text: str, place: int, *, may_be_empty: bool = False) -> tuple[str, str]:
    """What stands before and after the sign at a place."""
    name, value = text[: max(place, 0)], text[place + 1 :]
    if not name or not (value or may_be_empty):
        msg = f"{text} is not of the form NAME=VALUE"
        raise click.BadParameter(msg)
    return name, value


def _labels(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Each ``LABEL=FILE``; either may hold the sign, as in ``lr=0.1=run.sqlite``."""
    return tuple(pair(text, _end_of_label(text)) for text in texts)


def _end_of_label(text: str) -> int:
    """The first sign that a file's name follows, else the last one before a folder's name."""
    places = [place for place, sign in enumerate(text) if sign == "="]
    folder = text.find("/") if "/" in text else len(text)
    last = max((place for place in places if place < folder), default=text.find("="))
    # Without an error for a name that is too long.
    is_file = os.path.exists
    return next((place for place in places if is_file(text[place + 1 :])), last)


def format_option(described: str, *formats: str) -> _Decorator:
    """``--format``: the first of the formats is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=described,
    )


def _recording_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    """The name of a gpuprof file, which is none of another tool's file."""
    suffix = Path(name).suffix
    # A name that ends in / is that of a data set's folder.
    if suffix in _EXPORTED and not name.endswith("/"):
        msg = f"{name} ends in {suffix}, but this command writes gpuprof's own format"
        export = f"`gpuprof export FILE --to {_EXPORTED[suffix]}`"
        raise UsageError(msg, f"Let the name end in .gpuprof, or use {export}.")
    return name


def folder_option(described: str) -> _Decorator:
    """``-o`` of commands that make a folder."""
    return click.option(
        "-o",
        "--output",
        "folder",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help=described,
    )


# One recording; several files are those of its processes.
recording_argument: Final = click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", shell_complete=recordings
)
tables_format_option: Final = format_option(
    "Format of the result; csv and json are in base units (ns, bytes).",
    *("terminal", "markdown", "csv", "json"),
)
wide_option: Final = click.option(
    "--wide", is_flag=True, help="Do not shorten names; lines can get long."
)
full_names_option: Final = click.option(
    "--full-names",
    is_flag=True,
    help="Show kernels with namespaces, template arguments and parameters.",
)
force_option: Final = click.option("--force", is_flag=True, help="Overwrite existing outputs.")
result_options: Final = in_order(
    click.option(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="File for the result; - is standard output, the default.",
    ),
    force_option,
    wide_option,
)
output_options: Final = in_order(result_options, full_names_option)
recording_output_options: Final = in_order(
    click.option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        callback=_recording_name,
        help="Output file; its name should end in .gpuprof.",
    ),
    force_option,
)
reading_options: Final = in_order(
    click.option(
        "--reader",
        metavar="NAME",
        help="Format of the input, if it is not recognised; see `gpuprof formats`.",
    ),
    click.option(
        "--section",
        metavar="N",
        help="Recording to read from a file that holds several, such as a log of several runs: its "
        "number, its process, a part of its name, or all to add them up.",
    ),
)
# Under the names of `RecordingPart`'s fields.
part_options: Final = in_order(
    time_option(
        *("--from", "from_ns"),
        "Start of the part, since the origin of the recording: 1.5s, 20ms or -300us.",
        parse=instant_ns,
    ),
    time_option("--to", "to_ns", "End of the part, exclusive.", parse=instant_ns),
    click.option(
        "--range",
        "range_text",
        metavar="NAME",
        help="Only the time in which the work of these NVTX ranges or operations runs: for each, "
        "from the first start to the last end of what it launched. * matches anything.",
    ),
    click.option(
        "--occurrence",
        type=int,
        metavar="N",
        help="Only one of the ranges of --range; 0 is the first.",
    ),
    click.option("--device", "device_id", type=int, metavar="N", help="Only this device."),
)
label_option: Final = click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_labels,
    metavar="NAME=FILE",
    help="A recording and its label. Recordings under one label are runs of one variant, which "
    "show how much of a difference is noise.",
)
baseline_option: Final = click.option(
    "--baseline",
    metavar="LABEL",
    help="Variant to compare with, or a saved baseline; by default, the first recording.",
)
skip_steps_option: Final = click.option(
    "--skip-steps",
    type=click.IntRange(min=0),
    metavar="N",
    help="Leave out the first N steps of each phase, 0 for none; by default, the warm-up.",
)
# Under the names of `gpuprof.ranks.engine.Settings`' fields.
job_options: Final = in_order(
    click.option(
        "--rank",
        type=click.IntRange(min=0),
        metavar="N",
        help="Only this rank of a job of several files.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read the files of a job in N processes; by default, one per core for more than 16 "
        "files.",
    ),
    click.option(
        "--memory-limit",
        "limit_bytes",
        metavar="SIZE",
        callback=parsed(parse_decimal_bytes, "write a size as 2GB or 500MB"),
        help="Memory of each worker process: 2GB. A file that needs more is left out.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Read the files on a Dask cluster: tcp://HOST:8786, or a scheduler file.",
    ),
    click.option(
        "--resume",
        "state",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Keep partial results in this folder, and go on from those of a run that was ended.",
    ),
)
chart_data_option: Final = click.option(
    "--chart-data",
    "data_format",
    type=click.Choice(("csv", "json")),
    help="Also write the data of each chart, in base units.",
)
chart_options: Final = in_order(
    click.option(
        "--chart",
        "charts",
        multiple=True,
        metavar="[NAME=]FILE",
        shell_complete=named_charts,
        help="Draw a chart to a .png, .svg or .pdf file; repeat for more. "
        "`gpuprof plot --list` lists charts.",
    ),
    chart_data_option,
)
page_option: Final = click.option(
    "--html",
    "page",
    metavar="FILE",
    help="Also write a page for a browser, as one file.",
)


def labelled_files(
    files: tuple[str, ...], labels: tuple[tuple[str, str], ...]
) -> "list[str | Path | tuple[str, str]]":
    """Files in their order, under their labels where they have one; then files only labelled."""
    named = {file: name for name, file in reversed(labels)}
    only_labelled = [
        (name, file) for name, file in labels if file not in files or named[file] != name
    ]
    return [*((named[file], file) if file in named else file for file in files), *only_labelled]


def room(
    output: str,
    *,
    is_wide: bool = False,
    tables: tuple[str, ...] | None = None,
    has_full_names: bool = False,
) -> "Page":
    """How much room there is: width and colour of the terminal, else 80 columns and none.

    Args:
        output: Where the result goes; ``-`` is standard output.
        is_wide: Whether no name is cut.
        tables: Names of the tables to show whole; None for the overview.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    from gpuprof.show import Page  # noqa: PLC0415 - start-up time of --help

    is_terminal = output == "-" and sys.stdout.isatty()
    has_width = is_terminal or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if has_width else 80
    is_dumb = os.environ.get("TERM") == "dumb"
    is_colour = is_terminal and not is_dumb and not os.environ.get("NO_COLOR")
    return Page(width, is_colour, is_wide, tables, has_full_names)
