"""Text for a terminal: what matters first, in 80 columns, colours only where they can be shown."""

import io
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from gpuprof.analyses.reports import Report
from gpuprof.base.short_texts import cut, shortened, shortened_apart
from gpuprof.base.units import bound
from gpuprof.show import Page
from gpuprof.show.cells import clean, folded, shown_once
from gpuprof.show.overview import Grid, findings_lines, report_grids

if TYPE_CHECKING:
    from gpuprof.comparisons import Comparison

_GAP: Final = 2
_SCREEN: Final = 48
_MORE: Final = "More: --table NAME (--list), --all, --per-step, --range, --device, --from, --to."
_KERNELS: Final = 20  # Of each candidate; csv and json have all.
_LEAST: Final = 12  # No name is cut shorter than this,
_LEAST_ALONE: Final = 0.4  # nor a long one than this part of a page where no other is,
_WORD: Final = re.compile(r"[\w-]{0,28}")  # nor a word such as synchronising_call,
_SHORT: Final = 0.27  # nor what takes less of a page, such as PtoP through the host.
_KEYS_SHARE: Final = 0.55  # Of a page, for the names that every block of columns begins with.
_LABEL: Final = 60  # No label takes more of a sentence.
_HEADING_LINES: Final = 6
_GLUE: Final = "\ue000"  # Holds a figure to its unit: Rich breaks lines at any kind of space.
_HEADING_WIDTH: Final = 24  # So wide is a column for its heading to break into two lines.
_LONGEST_WORD: Final = 14  # Of a heading, such as communication.
_NAME_LINES: Final = 3  # A name that needs more is cut at its end.
_BULLET: Final = "   - "
_COMMAND_LINES: Final = 2


def report(result: Report, page: Page) -> str:
    """Where the recording comes from, what its time went to, and its notes.

    Findings are whole, and tables yield to them: as many are shown as a screen has room for with
    the rows that they need at least. Of these, the last one is cut first.
    """
    grids = report_grids(result, page)
    if page.tables is not None:
        return _report(result, grids, page)
    # Notes stand below, and push out no table.
    alone = replace(result, notes=())
    least = [grid.cut(_SCREEN) for grid in grids]

    def surplus_of(places: Sequence[int]) -> int:
        """As `_surplus`; of too many rows, which take a line each, nothing is laid out."""
        some = [least[place] for place in places]
        rows = sum(len(grid.rows) for grid in some)
        return rows if rows > _SCREEN else _surplus(_report(alone, some, page))

    surpluses = [surplus_of([place]) for place in range(len(grids))]
    chosen: list[int] = []
    for place in sorted(range(len(grids)), key=lambda place: (place > 0, surpluses[place])):
        places = sorted([*chosen, place])
        if not chosen or surplus_of(places) <= 0:
            chosen = places
    shown = [grids[place] for place in chosen]
    left_out = [grid for place, grid in enumerate(grids) if place not in chosen]
    for place in reversed(range(len(shown))):
        surplus = _surplus(_report(result, shown, page, left_out))
        if surplus > 0:
            shown[place] = shown[place].cut(surplus)
    return _report(result, shown, page, left_out)


def _surplus(text: str) -> int:
    """The lines that are more than a screen has."""
    return text.count("\n") - _SCREEN


def _report(
    result: Report, grids: Sequence[Grid], page: Page, left_out: Sequence[Grid] = ()
) -> str:
    console = _console(page)
    origin = result.origin
    _say(console, f"{origin.source}: {origin.recorder}, read as {origin.reader}", "bold")
    if origin.command:
        _say(console, cut(f"Command: {clean(origin.command)}", _COMMAND_LINES * page.width))
    if page.tables is None and (lines := findings_lines(result)):
        console.print()
        for line, parts in lines:
            _say(console, line, "bold")
            # Parts stand indented below their line.
            for part in parts:
                wrapped = _glued(part).wrap(console, console.width - len(_BULLET))
                bullets = chain([_BULLET], repeat(" " * len(_BULLET)))
                shown = [
                    Text(b).append_text(text) for b, text in zip(bullets, wrapped, strict=False)
                ]
                console.print(*shown, sep="\n", soft_wrap=True)
    for grid in grids:
        _show(console, grid, page)
    _notes(console, result.notes)
    if page.tables is None:
        console.print()
        if left_out:
            names = " ".join(f"--table {grid.table}" for grid in left_out)
            _say(console, f"Without room here: {names}.", "dim")
        _say(console, _MORE, "dim")
    return _text(console)


def comparison(result: "Comparison", page: Page) -> str:
    """The verdict first, then the variants."""
    from gpuprof.show.comparison import comparison_grids, kernel_grids  # noqa: PLC0415 - start-up time

    grids = []
    if page.tables is not None:
        grids = kernel_grids(result, _KERNELS, has_full_names=page.has_full_names)
    # Runs that were only timed have no kernels.
    grids = grids or comparison_grids(result)
    labels = [clean(label) for label in result.variants.column("variant").to_pylist()]
    long = [] if page.is_wide else [label for label in labels if len(label) > _LABEL]
    looks = shortened_apart(long, _LABEL, shortened)

    def short(text: str) -> str:
        """Without labels that would fill a screen."""
        text = clean(text)
        for label, look in zip(long, looks, strict=True):
            text = text.replace(label, look)
        return text

    titled = [replace(grid, title=short(grid.title)) for grid in grids]
    return grids_text(short(result.verdict), titled, [*map(short, result.notes)], page)


def grids_text(headline: str, grids: Sequence[Grid], notes: Sequence[str], page: Page) -> str:
    """A sentence, tables, and notes."""
    console = _console(page)
    _say(console, headline, "bold")
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
    text = console.file.getvalue().replace(_GLUE, " ")
    return "\n".join([*map(str.rstrip, text.splitlines()), ""])


def _say(console: Console, text: str, style: str = "") -> None:
    """Lines, without what names in them would do to a terminal."""
    console.print(_glued(text, style), soft_wrap=False)


def _glued(text: str, style: str = "") -> Text:
    lines = "\n".join(map(clean, text.split("\n")))
    return Text(bound(lines).replace("\N{NO-BREAK SPACE}", _GLUE), style=style)


def _notes(console: Console, notes: Sequence[str]) -> None:
    for number, note in enumerate(notes):
        if number == 0:
            console.print()
        _say(console, f"Note: {note}", "yellow")


def _show(console: Console, grid: Grid, page: Page) -> None:
    """A table, its lines as they are: Rich lays out ten thousand rows in half a minute."""
    console.print()
    if grid.title:
        _say(console, grid.title, "bold underline")
    if not grid.rows:
        _say(console, "none")
        return
    if grid.lines and not page.is_wide:
        _say(console, "\n".join(grid.lines))
        return
    # Without what names would do to a terminal.
    cells = map(partial(shown_once, show=clean), grid.columns)
    rows = tuple(zip(*cells, strict=True))
    grid = replace(grid, header=tuple(map(clean, grid.header)), rows=rows)
    widths, least = _widths(grid, page)
    sentences: list[str] = []
    if grid.sentences and not page.is_wide and _taken(widths, widths) > page.width:
        grid, sentences = _apart(grid)
        widths, least = _widths(grid, page)
    for block in _blocks(grid, widths, least, page):
        fitting = _fitting(grid, block, widths, least, page)
        for line in _heading(grid, fitting, page):
            console.print(Text(line, "bold"), soft_wrap=True)
        console.file.write("\n".join([*_lines(grid, fitting), ""]))
    for sentence in sentences:
        lines = textwrap.wrap(bound(sentence), page.width, subsequent_indent="  ")
        _say(console, "\n".join(lines))


def _lines(grid: Grid, widths: Mapping[int, int]) -> Iterator[str]:
    """The rows; names that do not fit into their columns in a few lines, cut if these are many."""
    columns, heights = [], [1] * len(grid.rows)
    for column, width in widths.items():
        texts, cells = grid.distinct[column], grid.columns[column]
        looks = [[text] for text in texts]
        if max(map(_cell_len, texts)) > width:
            looks = [_wrapped(look, width) for look in shortened_apart(texts, _NAME_LINES * width)]
        lines = {
            text: [_padded(grid, column, line, width) for line in look]
            for text, look in zip(texts, looks, strict=True)
        }
        columns.append((cells, lines, [" " * width]))
        if max(map(len, lines.values())) > 1:
            heights = [*map(max, heights, (len(lines[text]) for text in cells))]
    filled = []
    for cells, lines, blank in columns:
        # What is alike is one list, however many rows there are.
        tall = {
            (text, height): lines[text] + blank * (height - len(lines[text]))
            for text, height in {*zip(cells, heights, strict=True)}
        }
        of_rows = map(tall.__getitem__, zip(cells, heights, strict=True))
        filled.append(chain.from_iterable(of_rows))
    return map((" " * _GAP).join, zip(*filled, strict=True))


def _wrapped(text: str, width: int) -> list[str]:
    """A text in a few lines, all with its indent, broken between words if so they hold it."""
    taken = _cell_len(text)
    if taken <= width:
        return text.split("\n")
    words = text.lstrip()
    indent = " " * min(len(text) - len(words), width // 2)
    room = (width - len(indent)) // (2 if taken > len(text) else 1)
    lines = folded(words, room).split("\n")
    if len(lines) > _NAME_LINES:
        words = cut(words, _NAME_LINES * room)
        lines = [words[start : start + room] for start in range(0, len(words), room)]
    return [indent + line for line in lines]


def _apart(grid: Grid) -> tuple[Grid, list[str]]:
    """A table whose rows have numbers, and its sentences, each after those: ``1-3, 7: ...``."""
    shown = [c for c in range(len(grid.header)) if c not in grid.sentences]
    numbers_of: dict[str, list[int]] = {}
    rows = []
    for number, row in enumerate(grid.rows, start=1):
        text = "; ".join(row[c] for c in grid.sentences if row[c])
        numbers_of.setdefault(text, []).append(number)
        rows.append((str(number), *(row[c] for c in shown)))
    sentences = []
    for text, numbers in numbers_of.items():
        of_text = {*numbers}
        firsts, lasts = ([n for n in numbers if n + by not in of_text] for by in (-1, 1))
        ends = (str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))
        sentences.append(f"{', '.join(ends)}: {text}")
    header = ("#", *(grid.header[c] for c in shown))
    names, keys = (
        tuple(place for place, c in enumerate(shown, start=1) if c in columns)
        for columns in (grid.name_columns, grid.keys)
    )
    return Grid(grid.title, header, tuple(rows), (0, *names), keys=keys), sentences


def _widths(grid: Grid, page: Page) -> tuple[dict[int, int], dict[int, int]]:
    """How wide each column is, and how narrow it may become: figures and words stay whole."""
    widths, least = {}, {}
    alone = max(_LEAST, int(_LEAST_ALONE * page.width))
    for column, (heading, texts) in enumerate(zip(grid.header, grid.distinct, strict=True)):
        # Room for every cell, and for the heading in two lines.
        width = widths[column] = max(*map(_cell_len, texts), _heading_width(heading), 1)
        least[column] = width
        is_name = column in grid.name_columns and width > _SHORT * page.width
        if is_name and not all(map(_WORD.fullmatch, texts)):
            is_long = len(grid.name_columns) == 1 and width > alone
            least[column] = alone if is_long else min(width, _LEAST)
    return widths, least


@cache
def _heading_width(heading: str) -> int:
    """The least width at which a heading takes two lines, as far as a column is made so wide."""
    words = heading.split()
    least = min(max(map(len, words), default=1), _LONGEST_WORD)
    widths = range(least, _HEADING_WIDTH)
    return next((w for w in widths if folded(heading, w).count("\n") <= 1), _HEADING_WIDTH)


def _blocks(
    grid: Grid, widths: Mapping[int, int], least: Mapping[int, int], page: Page
) -> list[list[int]]:
    """The columns that fit beside each other; others go below, under the same names."""
    if page.is_wide or _taken(widths, widths) <= page.width:
        return [[*widths]]
    # Every block begins with names; those that take most of a line are shown once, numbers last.
    keys = sorted({*grid.name_columns, *grid.keys})
    while len(keys) > 1 and _taken(least, keys) > _KEYS_SHARE * page.width:
        keys.remove(max(keys, key=lambda column: (column not in grid.keys, column)))
    blocks: list[list[int]] = []
    for column in widths:
        if column in keys:
            continue
        if not blocks or _taken(least, [*blocks[-1], column]) > page.width:
            blocks.append([*keys])
        blocks[-1].append(column)
    return [*map(sorted, blocks or [[*widths]])]


def _fitting(
    grid: Grid,
    columns: Sequence[int],
    widths: Mapping[int, int],
    least: Mapping[int, int],
    page: Page,
) -> dict[int, int]:
    """The width of each column, those of names narrowed so that the page holds all.

    Where even that is too wide for the page, the terminal wraps: no figure is cut.
    """
    fitting = {column: widths[column] for column in columns}
    names = [] if page.is_wide else sorted({*grid.name_columns}.intersection(columns))
    for name in names:
        # A name may be a million characters long, and no column is wider than the page.
        fitting[name] = min(fitting[name], page.width)
    while names and _taken(fitting, columns) > page.width:
        widest = max(names, key=lambda c: fitting[c] - least[c])
        if fitting[widest] <= least[widest]:
            break
        fitting[widest] -= 1
    return fitting


def _taken(widths: Mapping[int, int], columns: Collection[int]) -> int:
    return sum(map(widths.__getitem__, columns)) + _GAP * (len(columns) - 1)


def _heading(grid: Grid, widths: Mapping[int, int], page: Page) -> list[str]:
    """The lines of the headings, about as many as there may be, which stand on the first row."""
    folds = []
    for column, width in widths.items():
        text = grid.header[column]
        text = text if page.is_wide else shortened(text, _HEADING_LINES * width)
        lines = folded(text, width).split("\n")
        folds.append([_padded(grid, column, line, width) for line in lines])
    height = max(map(len, folds))
    for fold, width in zip(folds, widths.values(), strict=True):
        fold[:0] = [" " * width] * (height - len(fold))
    return [(" " * _GAP).join(line).rstrip() for line in zip(*folds, strict=True)]


def _padded(grid: Grid, column: int, text: str, width: int) -> str:
    """A cell as wide as its column, names left, figures right; wide characters take two columns."""
    taken = _cell_len(text)
    cell = text if taken <= width else set_cell_size(text, width)
    room = " " * (width - taken)
    return cell + room if column in grid.name_columns else room + cell


def _cell_len(text: str) -> int:
    """The columns that a text takes; nearly all are of plain letters, which need no look-up."""
    return len(text) if text.isascii() else cell_len(text)
