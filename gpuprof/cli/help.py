"""What a newcomer asks for: pages of documentation, the manual page, completion, a demonstration.

The pages lie in ``gpuprof/docs`` as Markdown; a picture is shown by its description.
"""

import contextlib
import io
import re
import shlex
import textwrap
from collections.abc import Iterator
from importlib import resources
from inspect import cleandoc
from pathlib import Path
from textwrap import fill
from types import SimpleNamespace
from typing import ClassVar, Final

import click
from click.shell_completion import get_completion_class
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from gpuprof import __version__
from gpuprof.base.errors import UsageError, one_of
from gpuprof.cli import cli
from gpuprof.cli.commands import COMMANDS, PAGES
from gpuprof.cli.terminal import page
from gpuprof.show import Page
from gpuprof.show.output import prepare_folder, write_stdout

# In the order in which they are listed.
TOPICS: Final = (
    "install",
    "record",
    "report",
    "findings",
    "ranks",
    "statistics",
    "compare",
    "ci",
    "predict",
    "place",
    "sweep",
    "show",
    "query",
    "experiments",
    "formats",
    "json",
    "python",
    "extend",
    "speed",
    "limits",
    "related",
    "glossary",
    "changes",
)
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_PAGE_LINK: Final = re.compile(r"\[([^\]]+)\]\((\w+)\.md(?:#[^)]*)?\)")
_PLACE_LINK: Final = re.compile(r"\[([^\]]+)\]\(#[^)]*\)")
_WIDEST: Final = 100  # Longer lines are hard to read.
# A shell without zsh's own completion has no compdef yet.
_ZSH_COMPDEF: Final = "    compdef _gpuprof_completion"
_ZSH_BEGIN: Final = (
    _ZSH_COMPDEF,
    f"    (( $+functions[compdef] )) || {{ autoload -U compinit; compinit -i }}\n{_ZSH_COMPDEF}",
)


def show_page(values: SimpleNamespace) -> None:
    """Show a page, the list of pages, or the manual page."""
    if values.is_manual:
        click.echo(manual(), nl=False)
    elif values.topic is None:
        width = max(map(len, TOPICS)) + 2
        titles = [f"  {topic:<{width}}{_source(topic).splitlines()[0][2:]}" for topic in TOPICS]
        click.echo("\n".join(["Topics of `gpuprof help TOPIC`:", *titles]))
    else:
        click.echo_via_pager(page_text(values.topic, page()))


def completion(values: SimpleNamespace) -> None:
    """Print the code for a shell."""
    of_shell = get_completion_class(values.shell)
    assert of_shell is not None  # noqa: S101 - click knows the shells of the choice
    source = of_shell(cli, {}, "gpuprof", "_GPUPROF_COMPLETE").source()
    click.echo(source.replace(*_ZSH_BEGIN))


def page_text(topic: str, room: Page) -> str:
    """A page as text.

    Args:
        topic: A topic, or a command, which stands for its page.
        room: Width and colour of the terminal.

    Raises:
        UsageError: There is no such topic.
    """
    name = PAGES.get(topic, topic)
    if name not in TOPICS:
        msg = f"there is no help on {topic}"
        raise UsageError(msg, one_of("Topics", topic, sorted({*TOPICS, *PAGES})))
    console = Console(
        file=io.StringIO(),
        width=min(room.width, _WIDEST),
        color_system="standard" if room.is_colour else None,
        force_terminal=room.is_colour,
        legacy_windows=False,
        theme=Theme({"markdown.code": "cyan"}),  # Rich's own has a black background
    )
    # Links to pages as the command that shows them, pictures as their descriptions.
    text = _PICTURE.sub(r"(Picture: \1)", _source(name))
    text = _PLACE_LINK.sub(r"\1", _PAGE_LINK.sub(r"\1 (`gpuprof help \2`)", text))
    with console.capture() as captured:
        console.print(_Markdown(text, hyperlinks=False), crop=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().strip().splitlines())


def _source(topic: str) -> str:
    return (resources.files("gpuprof") / "docs" / f"{topic}.md").read_text(encoding="utf-8")


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield Text("")
        yield self.text


class _UnbrokenCode(CodeBlock):
    """Lines of commands and of output stay whole, however narrow the terminal is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = textwrap.indent(str(self.text).rstrip(), "    ")
        yield Text(code, no_wrap=True, overflow="ignore")


class _FoldedTable(TableElement):
    """A word that is wider than its column goes on in the next line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {
        "heading_open": _LeftHeading,
        "fence": _UnbrokenCode,
        "table_open": _FoldedTable,
    }


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
        # Lines stay as they are where click leaves them so.
        is_kept = paragraph.startswith("\b")
        raw_lines = (".nf", *map(_escaped, paragraph.splitlines()[1:]), ".fi")
        yield from (".PP", *(raw_lines if is_kept else [_escaped(" ".join(paragraph.split()))]))
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option):
            yield from (".TP", f"\\fB{_escaped(record[0])}\\fR", _escaped(record[1]))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            yield from _section(subcommand, context) if subcommand else ()


def _escaped(text: str) -> str:
    """A line that roff prints as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


_RECORDINGS: Final = ("direct.gpuprof", "staged.gpuprof")
_WHAT_THEY_ARE: Final = (
    "Two GPUs train one model. In {folder}/direct.gpuprof they copy to each other directly, in "
    "{folder}/staged.gpuprof through the host. Both recordings were drawn by a script, and their "
    "times are invented."
)
_TOUR: Final = (
    ("How much slower is the second one, and where does the time go?",
     "compare {folder}/direct.gpuprof {folder}/staged.gpuprof"),
    ("What should change?", "report {folder}/staged.gpuprof"),
    ("What would a link of 40 GB/s win?", "predict {folder}/staged.gpuprof --what link=3us,40GB/s"),
)  # fmt: skip
_NEXT: Final = (
    ("view {folder}/staged.gpuprof", "the report as a page in the browser"),
    ("doctor", "what can be recorded on this machine"),
    ("help", "the documentation"),
)
_SHOWN_LINES: Final = 16


def demo(values: SimpleNamespace) -> None:
    """Write the recordings, run each command of the tour, and print how its answer begins."""
    folder = str(Path(values.folder))
    prepare_folder(folder, _is_demo, is_forced=True).save(_write)
    places = {"folder": shlex.quote(folder)}
    write_stdout(fill(_WHAT_THEY_ARE.format(**places), 80, break_long_words=False) + "\n")
    for question, words in _TOUR:
        command = words.format(**places)
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            cli.main(shlex.split(command), "gpuprof", standalone_mode=False)
        lines = answer.getvalue().splitlines()
        shown = [*lines[:_SHOWN_LINES], *(["..."] if len(lines) > _SHOWN_LINES else [])]
        write_stdout("\n".join(["", question, f"$ gpuprof {command}", *shown, ""]))
    commands = [(f"gpuprof {words.format(**places)}", meaning) for words, meaning in _NEXT]
    width = max(len(command) for command, _ in commands)
    lines = [f"  {command:<{width}}  {meaning}\n" for command, meaning in commands]
    write_stdout("\n" + "".join(["The commands above print more. Next:\n", *lines]))


def _is_demo(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} <= {*_RECORDINGS}


def _write(folder: Path) -> None:
    for name in _RECORDINGS:
        recording = resources.files("gpuprof") / "docs" / "recordings" / name
        (folder / name).write_bytes(recording.read_bytes())
