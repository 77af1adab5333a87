"""The manual page, made from the help of every command: roff with the macros of ``man``."""

from collections.abc import Iterator
from inspect import cleandoc

import click

from gpuprof import __version__
from gpuprof.cli import COMMANDS, cli


def manual() -> str:
    """The manual page ``gpuprof.1``."""
    context = click.Context(cli, info_name="gpuprof", **cli.context_settings)
    commands = [cli.get_command(context, name) for name in COMMANDS]
    lines = [
        f'.TH GPUPROF 1 "" "gpuprof {__version__}" "User Commands"',
        ".SH NAME",
        f"gpuprof \\- {_escaped((cli.help or '').rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B gpuprof",
        ".I COMMAND",
        "[OPTIONS] [ARGS]",
        ".SH COMMANDS",
        *(line for command in commands if command for line in _section(command, context)),
        ".SH SEE ALSO",
        "\\fBgpuprof help\\fR lists the pages of the documentation.",
    ]
    return "\n".join([*lines, ""])


def _section(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f".SS {_escaped(' '.join(usage.split()))}"
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield from _paragraph(paragraph)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option):
            yield from (".TP", f"\\fB{_escaped(record[0])}\\fR", _escaped(record[1]))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            yield from _section(subcommand, context) if subcommand else ()


def _paragraph(text: str) -> Iterator[str]:
    """A paragraph, or its lines as they are where click leaves them so."""
    yield ".PP"
    if text.startswith("\b"):
        yield from (".nf", *map(_escaped, text.splitlines()[1:]), ".fi")
    else:
        yield _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    """A line that roff prints as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
