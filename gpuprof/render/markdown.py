"""Markdown: tables for an issue or a pull request."""

import re
from collections.abc import Sequence
from typing import Final

from gpuprof.comparisons import Comparison
from gpuprof.render.cells import clean
from gpuprof.render.contract import Page, Renderer
from gpuprof.render.overview import Grid, comparison_grid, findings_lines, report_grids
from gpuprof.reports import Report

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|])")


def report(result: Report, page: Page) -> str:
    """The overview under headings, or the tables that were asked for."""
    origin = result.origin
    parts = [f"# {_escaped(str(origin.source))}", f"{origin.tool}, read as {origin.reader}."]
    if page.tables is None:
        parts += ["  \n".join(map(_escaped, lines)) for lines in [findings_lines(result)] if lines]
    parts += [_table(grid) for grid in report_grids(result, page.tables)]
    return _joined(parts, result.notes)


def comparison(result: Comparison, _: Page) -> str:
    """The verdict, then the variants."""
    return grids_text(result.verdict, [comparison_grid(result)], result.notes)


def grids_text(headline: str, grids: Sequence[Grid], notes: Sequence[str]) -> str:
    """A sentence, tables, and notes."""
    return _joined([f"**{_escaped(headline)}**", *map(_table, grids)], notes)


def _joined(parts: list[str], notes: Sequence[str]) -> str:
    listed = "\n".join(f"- {_escaped(clean(note))}" for note in notes)
    return "\n\n".join([*parts, *([listed] if listed else [])]) + "\n"


def _table(grid: Grid) -> str:
    """Names are indented with what markdown keeps, and escaped, whoever wrote them."""
    rules = [":--" if i in grid.name_columns else "--:" for i in range(len(grid.header))]
    lines = [grid.header, rules, *grid.rows]
    text = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
    return f"## {grid.title}\n\n{text}" if grid.title else text


def _cell(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return "&nbsp;" * indent + _escaped(" ".join(text.split()).removesuffix(" -"))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


RENDERER: Final = Renderer("markdown", "tables for an issue or a pull request", report, comparison)
