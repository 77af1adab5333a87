"""A page as one file: template, styles and scripts, and a policy that lets nothing else in."""

import base64
import hashlib
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from gpuprof import __version__
from gpuprof.base.short_texts import shortened, shortened_apart
from gpuprof.base.units import bound
from gpuprof.show.cells import clean, pieces
from gpuprof.show.page import figures
from gpuprof.show.page.figures import Figure
from gpuprof.show.page.tables import PageTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jinja2

# What is said of a finding, or of several that are mended in one place.
Card = dict[str, Any]
_TABLE: Final = re.compile(r"--table (\w+)")
# As `bound` keeps them together, with a share in brackets behind.
_FIGURE: Final = re.compile(
    r"([+-]?\d[\d,.]*\N{NO-BREAK SPACE}[%\w/]+(?: \([+-]?\d[\d,.]*\N{NO-BREAK SPACE}%\))?)"
)
_LONGEST_NAME: Final = 160
FOLDER: Final = Path(__file__).parent
_STYLES: Final = ("uplot/uPlot.min.css", "page.css")
_SCRIPTS: Final = (
    "uplot/uPlot.iife.min.js",
    "units.js",
    "tables.js",
    "lines.js",
    "columns.js",
    "in_sight.js",
    "timeline.js",
    "ranks.js",
    "operations.js",
    "page.js",
)


class Document(NamedTuple):
    """What a page says.

    Args:
        title: Of the window.
        heading: What was looked at.
        verdict: What came out, a sentence or two each, the headline first.
        figures: Charts, in their order.
        tables: Tables, in their order.
        notes: What a reader must know to trust the figures, and what is unknown.
        provenance: Where each recording comes from: name to value.
        cards: Findings, as in `gpuprof.show.page.recording_page`.
        more: How many more findings there are; empty for none.
    """

    title: str
    heading: str
    verdict: tuple[str, ...]
    figures: tuple[Figure, ...]
    tables: tuple[PageTable, ...]
    notes: tuple[str, ...]
    provenance: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...] = ()
    more: str = ""


def templates(**settings: Any) -> "jinja2.Environment":
    """The templates of this folder, in which what recordings say is escaped."""
    import jinja2  # 50 ms that only pages and notebooks need

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        **settings,
    )
    environment.filters["used"] = figures.used
    return environment


def html(document: Document) -> str:
    """The page: one file that needs no other and may ask for none."""
    environment = templates()
    titles = {table.key: table.title for table in document.tables if table.key}
    environment.filters |= {
        "bound": bound,
        # A name may be broken after what parts its words, and is cut where it is endless.
        "breakable": lambda name: Markup("<wbr>").join(pieces(shortened(name, _LONGEST_NAME))),
        "apart": lambda names: shortened_apart([*map(clean, names)], _LONGEST_NAME),
        "linked": partial(_linked, titles),
        "figures_strong": _figures_strong,
        "level": figures.level,
        "curve": figures.curve,
    }
    environment.globals.update(across=figures.ACROSS, down=figures.DOWN, margin=figures.MARGIN)
    style, script = (
        "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names)
        for names in (_STYLES, _SCRIPTS)
    )
    # Only this very style and script count; nothing is loaded, sent or embedded.
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("page.html.jinja").render(
        page=document, titles=titles, style=style, script=script, policy=policy,
        version=__version__,
    )  # fmt: skip


def _figures_strong(text: str) -> Markup:
    """A text in which figures with their units stand out."""
    strong = Markup("<strong>{}</strong>")
    pieces_of_text = _FIGURE.split(bound(text))
    return Markup().join(
        strong.format(piece) if place % 2 else piece for place, piece in enumerate(pieces_of_text)
    )


def _linked(titles: "Mapping[str, str]", text: str) -> Markup:
    """A text in which each ``--table NAME`` is a link to that table, if it is on the page.

    Args:
        titles: Name to title of the tables on the page.
        text: What a recording or a finding says.
    """
    link = Markup('see <a href="#table-{}">{}</a>')
    # Outside of names come the names that the pattern caught.
    pieces_of_text = _TABLE.split(bound(text))
    return Markup().join(
        piece
        if place % 2 == 0
        else link.format(piece, titles[piece])
        if piece in titles
        else f"--table {piece}"
        for place, piece in enumerate(pieces_of_text)
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
