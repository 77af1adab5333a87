"""Markdown: tables for an issue or a pull request."""

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuprof.analyses.reports import Report
from gpuprof.show import Page
from gpuprof.show.cells import clean
from gpuprof.show.overview import Grid, findings_lines, report_grids

if TYPE_CHECKING:
    from gpuprof.comparisons import Comparison

_KERNELS: Final = 10
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~]|&(?=#?\w+;))")
# What GitHub makes links or mails of in text, whether escaped or not.
_LINKED: Final = re.compile(
    r"(@|#(?=\d)|(?<![A-Za-z0-9])(?:(?:https?|ftp|mailto|xmpp)(?=:)|www(?=\.)))", re.IGNORECASE
)


def report(result: Report, page: Page) -> str:
    """The overview under headings, or the tables that were asked for."""
    origin = result.origin
    lines = [
        text
        for line, of_line in (findings_lines(result) if page.tables is None else ())
        for text in (_escaped(line), *(f"   - {_escaped(part)}" for part in of_line))
    ]
    parts = [
        f"# {_escaped(str(origin.source))}",
        _escaped(f"{origin.tool}, read as {origin.reader}."),
        *(["  \n".join(lines)] if lines else []),
        *map(_table, report_grids(result, page)),
    ]
    return _joined(parts, result.notes)


def comparison(result: "Comparison", page: Page) -> str:
    """For a pull request: verdict, warnings and a short table; all else folds away."""
    from gpuprof.show.comparison import (  # noqa: PLC0415 - start-up time
        comparison_grids,
        kernel_grids,
        short_grid,
    )

    kernels = [
        grid
        for grid in kernel_grids(result, _KERNELS, has_full_names=page.has_full_names)
        if grid.rows
    ]
    differ = [row["warning"] for row in result.comparability.to_pylist() if row["is_known"]]
    notes = [note for note in result.notes if note not in differ]
    figures, *split = comparison_grids(result)
    parts = [
        f"**{_escaped(result.verdict)}**",
        *(f"> **Warning:** {_escaped(warning)}" for warning in differ),
        _table(short_grid(result)),
        *(_folded(grid.title, _table(replace(grid, title=""))) for grid in (*split, *kernels)),
        _folded("All figures", _table(replace(figures, title=""))),
        *([_folded("Notes", "\n".join(f"- {_escaped(n)}" for n in notes))] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def _folded(title: str, text: str) -> str:
    """What a click unfolds; the empty lines let what is inside be markdown."""
    return (
        f"<details><summary>{_inert(html.escape(clean(title)))}</summary>\n\n{text}\n\n</details>"
    )


def grids_text(headline: str, grids: Sequence[Grid], notes: Sequence[str], _: Page) -> str:
    """A sentence, tables, and notes."""
    return _joined([f"**{_escaped(headline)}**", *map(_table, grids)], notes)


def _joined(parts: list[str], notes: Sequence[str]) -> str:
    listed = "\n".join(f"- {_escaped(note)}" for note in notes)
    return "\n\n".join([*parts, *([listed] if listed else [])]) + "\n"


def _table(grid: Grid) -> str:
    """Names are indented with what markdown keeps, and escaped, whoever wrote them."""
    rules = [":--" if i in grid.name_columns else "--:" for i in range(len(grid.header))]
    lines = [grid.header, rules, *grid.rows]
    text = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
    return f"## {_escaped(grid.title)}\n\n{text}" if grid.title else text


def _cell(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return "&nbsp;" * indent + _escaped(" ".join(text.split()).removesuffix(" -"))


def _escaped(text: str) -> str:
    """Text that markdown shows as it is, whoever wrote it."""
    return _inert(_SPECIAL.sub(r"\\\1", clean(text)))


def _inert(text: str) -> str:
    """Text in which GitHub sees no names of people, addresses, numbers of issues, or formulas.

    Source: https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/writing-mathematical-expressions
    for the dollar sign.
    """
    return _LINKED.sub(r"\1<!-- -->", text).replace("$", "<span>$</span>")
