"""The pages of the documentation, as text for a terminal.

They lie in ``gpuprof/docs`` as Markdown; a picture is shown by its description.
"""

import io
import re
import textwrap
from importlib import resources
from typing import TYPE_CHECKING, ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from gpuprof.base.errors import UsageError, one_of
from gpuprof.cli import PAGES

if TYPE_CHECKING:
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
    "glossary",
    "changes",
)
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_PAGE_LINK: Final = re.compile(r"\[([^\]]+)\]\((\w+)\.md(?:#[^)]*)?\)")
_PLACE_LINK: Final = re.compile(r"\[([^\]]+)\]\(#[^)]*\)")
_WIDEST: Final = 100  # Longer lines are hard to read.


def topics_text() -> str:
    """Every topic with the title of its page, a line each."""
    width = max(map(len, TOPICS)) + 2
    lines = [f"  {topic:<{width}}{_source(topic).splitlines()[0][2:]}" for topic in TOPICS]
    return "\n".join(["Topics of `gpuprof help TOPIC`:", *lines, ""])


def page_text(topic: str, page: "Page") -> str:
    """A page as text.

    Args:
        topic: A topic, or a command, which stands for its page.
        page: Width and colour of the terminal.

    Raises:
        UsageError: There is no such topic.
    """
    name = PAGES.get(topic, topic)
    if name not in TOPICS:
        msg = f"there is no help on {topic}"
        raise UsageError(msg, one_of("Topics", topic, sorted({*TOPICS, *PAGES})))
    console = Console(
        file=io.StringIO(),
        width=min(page.width, _WIDEST),
        color_system="standard" if page.is_colour else None,
        force_terminal=page.is_colour,
        legacy_windows=False,
        theme=Theme({"markdown.code": "cyan"}),  # Rich's own has a black background
    )
    with console.capture() as captured:
        console.print(_Markdown(_with_plain_links(_source(name)), hyperlinks=False), crop=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().strip().splitlines())


def _source(topic: str) -> str:
    return (resources.files("gpuprof") / "docs" / f"{topic}.md").read_text(encoding="utf-8")


def _with_plain_links(markdown: str) -> str:
    """Links to pages as the command that shows them, pictures as their descriptions."""
    text = _PICTURE.sub(r"(Picture: \1)", markdown)
    return _PLACE_LINK.sub(r"\1", _PAGE_LINK.sub(r"\1 (`gpuprof help \2`)", text))


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
