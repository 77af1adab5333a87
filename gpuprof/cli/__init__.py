"""The command line, and the one place where errors become text.

commands -> the function that a command runs (reporting, comparing, ...) -> show
"""

import codecs
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import click

from gpuprof import __version__
from gpuprof.base import signals, startup
from gpuprof.base.errors import GpuprofError
from gpuprof.cli.commands import COMMANDS

# Letters that a message shows on either side of one that is not UTF-8.
_AROUND: Final = 20
_SPELLED_OUT: Final = "gpuprof.spelled_out"


class _Commands(click.Group):
    """A group in the order of its commands, where a mistyped command names the near ones."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        with _pipe_may_close():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with _pipe_may_close():
            return super().invoke(ctx)

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


@contextmanager
def _pipe_may_close() -> Iterator[None]:
    """End well where the reader of a pipe (`| head`) has left, which click takes for a failure."""
    try:
        yield
    except BrokenPipeError as error:
        _forget_stdout()
        raise click.exceptions.Exit(0) from error


def _forget_stdout() -> None:
    """Let nothing more go to standard output: a second flush at exit must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(
    cls=_Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="gpuprof")
def cli() -> None:
    """Say what moving data between devices costs a training run."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit status; every error becomes text here."""
    if arguments is None:
        startup.prepare()  # the process is ours alone
        signals.remove_before_end()
    _write_utf8()
    try:
        status = cli.main(args=arguments, prog_name="gpuprof", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = error.exit_code
    except BrokenPipeError:
        _forget_stdout()
        status = 0
    except (GpuprofError, click.ClickException, OSError, UnicodeEncodeError) as error:
        status = _say_error(error)
    except (click.Abort, KeyboardInterrupt):
        if signals.was_pressed():
            signals.end()
        signals.say_stopped()
        status = signals.STATUS
    sys.exit(status if isinstance(status, int) else 0)


def _write_utf8() -> None:
    """Pipes and files get UTF-8, as ``-o`` writes it; terminals what they can show of a name."""
    codecs.register_error(_SPELLED_OUT, _spelled_out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = None if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors=_SPELLED_OUT)


def _spelled_out(error: UnicodeError) -> tuple[str, int]:
    """What a terminal cannot show: ``us`` for microseconds, else the codes of letters."""
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - the streams are written
    text = error.object[error.start : error.end].replace("µ", "u")
    return text.encode("ascii", "backslashreplace").decode(), error.end


def _say_error(error: Exception) -> int:
    match error:
        case GpuprofError():
            return _say(error.message, error.hint, error.exit_status)
        case click.ClickException():
            context = getattr(error, "ctx", None)
            hint = f"See `{context.command_path} --help`." if context else None
            return _say(error.format_message(), hint, error.exit_code)
        case OSError() if error.filename is not None:
            # Its folder is closed, or no file can have such a name.
            return _say(f"{error.filename}: {error.strerror}", None, 1)
        case UnicodeEncodeError():
            # Of a name, which the system takes for bytes; Arrow, for one, opens files by text only.
            near = error.object[max(0, error.start - _AROUND) : error.end + _AROUND]
            return _say(f"a name is not in UTF-8: ..{near}..", "Rename the file or the folder.", 1)
    raise error


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
