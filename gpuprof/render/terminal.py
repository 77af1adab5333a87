"""Text for a terminal: what matters first, in 80 columns, colours only where they can be shown."""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuprof.comparisons import Comparison
from gpuprof.render.cells import clean, folded, shortened
from gpuprof.render.compared import comparison_grids
from gpuprof.render.compared_kernels import kernel_grids
from gpuprof.render.contract import Page, Renderer
from gpuprof.render.overview import Grid, findings_lines, report_grids
from gpuprof.reports import Report

_GAP: Final = 2
_ANY_WIDTH: Final = 100_000
_SCREEN: Final = 40
_MORE: Final = "More: --table NAME (--list), --all, --per-step, --range, --device, --from, --to."
_KERNELS: Final = 20  # Of each candidate; csv and json have all.
_LEAST: Final = 12  # No name is cut shorter than this.


def report(result: Report, page: Page) -> str:
    """Where the recording comes from, what its time went to, and its notes.

    The overview fits a screen: tables that name how many rows they need at least are cut to
    what there is room for, the last one first.
    """
    grids = report_grids(result, page.tables)
    text = _report(result, grids, page)
    if page.tables is not None:
        return text
    for place in reversed(range(len(grids))):
        surplus = text.count("\n") - _SCREEN
        if surplus <= 0:
            break
        grids[place] = _cut(grids[place], surplus)
        text = _report(result, grids, page)
    for findings in (2, 1):
        if text.count("\n") > _SCREEN:
            text = _report(result, grids, page, findings)
    return text


def _cut(grid: Grid, surplus: int) -> Grid:
    """A table with as many rows less, but for those that it needs, and a word of it."""
    whole = len(grid.rows)
    kept = max(whole - surplus, grid.least or whole)
    if kept >= whole:
        return grid
    return replace(grid, rows=grid.rows[:kept], title=f"{grid.title} ({kept} of {whole})")


def _report(result: Report, grids: Sequence[Grid], page: Page, findings: int | None = None) -> str:
    console = _console(page)
    origin = result.origin
    version = f" {origin.tool_version}" if origin.tool_version else ""
    _say(console, f"{origin.source}: {origin.tool}{version}, read as {origin.reader}", "bold")
    if origin.command:
        _say(console, shortened(clean(origin.command), page.width))
    if page.tables is None and (lines := findings_lines(result)[:findings]):
        console.print()
        for line in lines:
            _say(console, line, "bold")
    for grid in grids:
        _show(console, grid, page)
    _notes(console, result.notes)
    if page.tables is None:
        console.print()
        _say(console, _MORE, "dim")
    return _text(console)


def comparison(result: Comparison, page: Page) -> str:
    """The verdict first, then the variants."""
    grids = comparison_grids(result) if page.tables is None else kernel_grids(result, _KERNELS)
    return grids_text(result.verdict, grids, result.notes, page)


def grids_text(headline: str, grids: Sequence[Grid], notes: Sequence[str], page: Page) -> str:
    """A sentence, tables, and notes."""
    console = _console(page)
    _say(console, clean(headline), "bold")
    for grid in grids:
        _show(console, grid, page)
    _notes(console, notes)
    return _text(console)


def _console(page: Page) -> Console:
    """Rich, writing to memory: what it would find out about a terminal is fixed here."""
    return Console(
        file=io.StringIO(),
        width=page.width,
        force_terminal=page.is_colour,
        color_system="standard" if page.is_colour else None,
        no_color=not page.is_colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)  # noqa: S101 - set in _console
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=False)


def _notes(console: Console, notes: Sequence[str]) -> None:
    for number, note in enumerate(notes):
        if number == 0:
            console.print()
        _say(console, f"Note: {clean(note)}", "yellow")


def _show(console: Console, grid: Grid, page: Page) -> None:
    console.print()
    if grid.title:
        _say(console, grid.title, "bold underline")
    for columns in _blocks(grid, page):
        console.width = _ANY_WIDTH if page.is_wide else page.width
        console.print(_table(grid, columns, page))
    console.width = page.width


def _cells(grid: Grid, column: int) -> list[str]:
    """A column's cells, numbers and units each aligned, so that 9 ms is not read as 9 s."""
    cells = [row[column] for row in grid.rows]
    if column in grid.name_columns:
        return cells
    split = [cell.rpartition(" ") if cell[-1:].isalpha() else ("", "", cell) for cell in cells]
    width = max((len(unit) for number, _, unit in split if number), default=0)
    aligned = [
        f"{number} {unit:<{width}}" if number else f"{unit}{' ' * (width + 1 if width else 0)}"
        for number, _, unit in split
    ]
    longest = max(map(len, aligned), default=0)
    return [cell.rjust(longest) for cell in aligned]


def _width(grid: Grid, column: int) -> int:
    """Room for every cell, and for the longest word of the heading."""
    words = grid.header[column].split() or [""]
    longest = max(map(len, words))
    cells = max((len(cell) for cell in _cells(grid, column)), default=0)
    return max(cells, min(longest, _LEAST), 1)


def _blocks(grid: Grid, page: Page) -> list[list[int]]:
    """Columns that fit beside each other; what does not fit goes below, under its names."""
    columns = range(len(grid.header))
    widths = {c: _width(grid, c) for c in columns}
    least = {c: min(widths[c], _LEAST) if c in grid.name_columns else widths[c] for c in columns}
    blocks: list[list[int]] = []
    for column in columns:
        if column in grid.name_columns:
            continue
        if not blocks or (
            not page.is_wide
            and _taken([*grid.name_columns, *blocks[-1], column], least) > page.width
        ):
            blocks.append([])
        blocks[-1].append(column)
    return [sorted([*grid.name_columns, *block]) for block in blocks] or [list(columns)]


def _taken(columns: Sequence[int], widths: dict[int, int]) -> int:
    return sum(widths[c] for c in columns) + _GAP * (len(columns) - 1)


def _table(grid: Grid, columns: Sequence[int], page: Page) -> Table:
    widths = {c: _width(grid, c) for c in columns}
    names = [c for c in columns if c in grid.name_columns]
    while not page.is_wide and names and _taken(columns, widths) > page.width:
        widest = max(names, key=lambda c: widths[c])
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        is_name = column in grid.name_columns
        table.add_column(
            Text(folded(grid.header[column], widths[column])),
            justify="left" if is_name else "right",
            width=widths[column],
        )
    cells = [[shortened(c, widths[n]) for c in _cells(grid, n)] for n in columns]
    for row in zip(*cells, strict=True):
        table.add_row(*(Text(cell, no_wrap=True) for cell in row))
    return table


RENDERER: Final = Renderer("terminal", "for people, in the terminal", report, comparison)
