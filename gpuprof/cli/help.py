"""The documentation in the terminal: its pages, the manual page, and completion in shells.

The pages lie in ``gpuprof/docs`` as Markdown; a picture is shown by its description.
"""

import io
import re
import textwrap
from collections.abc import Iterator
from importlib import resources
from inspect import cleandoc
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
