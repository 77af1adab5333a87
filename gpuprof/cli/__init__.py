"""The command line: one command per file, and one place where errors become text."""

import io
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NoReturn

import click

from gpuprof import __version__
from gpuprof.base import signals, startup
from gpuprof.base.errors import GpuprofError
from gpuprof.cli.partial import status_of

# Command name -> "module:function"; imported when the command runs, so that --help stays fast.
COMMANDS: Final[dict[str, str]] = {
    "record": "gpuprof.cli.record:command",
    "report": "gpuprof.cli.report:command",
    "compare": "gpuprof.cli.compare:command",
    "baseline": "gpuprof.cli.baseline:command",
    "doctor": "gpuprof.cli.doctor:command",
    "monitor": "gpuprof.cli.monitor:command",
    "predict": "gpuprof.cli.predict:command",
    "sweep": "gpuprof.cli.sweep:command",
    "place": "gpuprof.cli.place:command",
    "plot": "gpuprof.cli.plot:command",
    "view": "gpuprof.cli.view:command",
    "query": "gpuprof.cli.query:command",
    "export": "gpuprof.cli.export:command",
    "formats": "gpuprof.cli.formats:command",
    "convert": "gpuprof.cli.convert:command",
    "slice": "gpuprof.cli.slice:command",
    "cache": "gpuprof.cli.cache:command",
    "pack": "gpuprof.cli.pack:pack",
    "unpack": "gpuprof.cli.pack:unpack",
    "help": "gpuprof.cli.help:command",
    "completion": "gpuprof.cli.completion:command",
}
# Command name -> the page of the documentation that explains it: `gpuprof help PAGE`.
PAGES: Final[dict[str, str]] = {
    "record": "record",
    "report": "report",
    "compare": "compare",
    "baseline": "ci",
    "doctor": "record",
    "monitor": "record",
    "predict": "predict",
    "sweep": "sweep",
    "place": "place",
    "plot": "show",
    "view": "show",
    "query": "query",
    "export": "show",
    "formats": "formats",
    "convert": "formats",
    "slice": "formats",
    "cache": "formats",
    "pack": "record",
    "unpack": "record",
    "help": "install",
    "completion": "install",
}


class _Commands(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), function)
        command.epilog = f"Documentation: gpuprof help {PAGES[cmd_name]}"
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return status_of(ctx, super().invoke(ctx))
        except KeyboardInterrupt as error:
            raise click.Abort from error  # click itself would print an empty line first
        except RuntimeError as error:
            # What DuckDB makes of Ctrl-C while it opens a recording.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise click.Abort from error
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = " or ".join(get_close_matches(args[0], COMMANDS, cutoff=0.7))
            if not near:
                raise
            msg = f"{error.message} Did you mean {near}?"
            raise click.UsageError(msg, ctx) from error


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpuprof")
def cli() -> None:
    """Say what moving data between devices costs a training run."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit status; every error becomes text here."""
    if arguments is None:
        startup.prepare()  # the process is ours alone
        startup.keep_freed_memory()
        signals.remove_before_end()
    _write_utf8()
    try:
        status = cli.main(args=arguments, prog_name="gpuprof", standalone_mode=False)
        sys.stdout.flush()
    except GpuprofError as error:
        status = _say(error.message, error.hint, error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = error.exit_code
    except click.ClickException as error:
        status = _say(error.format_message(), _hint(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        if signals.was_pressed():
            signals.end()
        signals.say_stopped()
        status = signals.STATUS
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has left; a second flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status if isinstance(status, int) else 0)


def _write_utf8() -> None:
    """Pipes and files get UTF-8, as ``-o`` writes it; terminals what they can show of a name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = None if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def _hint(error: click.ClickException) -> str | None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"See `{context.command_path} --help`." if context else None


def _say(message: str, hint: str | None, status: int) -> int:
    click.echo(f"Error: {_printable(message)}", err=True)
    if hint:
        click.echo(f"Hint: {_printable(hint)}", err=True)
    return status


def _printable(text: str) -> str:
    """Lines without what would steer a terminal, as names in recordings may."""
    lines = text.split("\n")
    if all(line.isprintable() for line in lines):
        return text
    from gpuprof.show.cells import clean  # noqa: PLC0415 - few messages need it

    return "\n".join(map(clean, lines))
