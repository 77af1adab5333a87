"""Tables for people: ``--format column`` (a row of dashes) and ``table`` (boxes)."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final, TypeGuard

import pyarrow as pa

from gpuprof.readers.nsys_stats.blocks import Block, Cells, FaultError, is_heading

_DASHES: Final = re.compile(r"-+")
_BLANK_LINE: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)")
# Starts like a row of any of the tables: a share, a time or a size, and another number.
_ROW: Final = re.compile(r"^\s*[\d.,']+%?\s+[\d.,']+(?:\s|$)")
_PIECE_BYTES: Final = 1 << 18
_ROWS_AT_ONCE: Final = 1 << 10
_BOX_END: Final = re.compile(rb"\n(?![ \t]*[|+])")

# The cells of a line; None where it does not fit.
_RowOf = Callable[[str], tuple[str, ...] | None]


def column_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose row of dashes begins at a byte, and where it ends.

    The dashes are as wide as the columns, so that a name may hold blanks and commas.

    Returns:
        None for a table of something else.

    Raises:
        FaultError: A row does not fit its table.
    """
    end_of_dashes = line_end(data, start)
    spans = [match.span() for match in _DASHES.finditer(text(data[start:end_of_dashes]))]
    before = max(start - 1, 0)
    above = text(data[data.rfind(b"\n", 0, before) + 1 : before])
    headings = [above[a:b] for a, b in spans]
    if not is_heading(headings):
        return None, end_of_dashes
    match = _BLANK_LINE.search(data, end_of_dashes)
    end = match.start() if match else len(data)
    row_of, cells = _row_between(spans, headings), Cells(headings)

    def is_whole(row: tuple[str, ...] | None) -> TypeGuard[tuple[str, ...]]:
        return row is not None and row[0].strip()[:1].isdigit()

    at, count = min(end_of_dashes + 1, end), 0
    for piece in pieces(data, at, end):
        lines = text(piece).split("\n")
        rows = [row for row in itertools.takewhile(is_whole, map(row_of, lines)) if row]
        cells.add(columns(rows, len(spans)))
        count += len(rows)
        at += sum(len(line) + 1 for line in piece.split(b"\n")[: len(rows)])
        if len(rows) < len(lines):
            break
    remainder = text(data[at : line_end(data, at)]) if at < end else ""
    row = row_of(remainder)
    # A row that was damaged, and not output that follows the table.
    is_row = _ROW.match(remainder) is not None or (row is not None and not is_heading(row))
    is_cut = is_row and line_end(data, at) >= end and not data[end:].strip()
    if is_row and not is_cut:
        message = f'a row does not fit its table: "{remainder.strip()[:60]}"'
        raise FaultError(start, message, count + 1)
    return replace(cells.block(start), is_cut=is_cut), min(at, end)


def _row_between(spans: Sequence[tuple[int, int]], headings: Sequence[str]) -> _RowOf:
    """Cells as wide as the dashes, blanks between them, and a name if there is one."""
    ends = [0, *(end for _, end in spans[:-1])]
    gaps = [slice(end, begin) for end, (begin, _) in zip(ends, spans, strict=True)]
    blanks = tuple(" " * (gap.stop - gap.start) for gap in gaps)
    gaps_of = itemgetter(*gaps)
    cells_of = itemgetter(*itertools.starmap(slice, spans[:-1]), slice(spans[-1][0], None))
    has_name = headings[-1].strip() in ("Name", "Operation")

    def row(line: str) -> tuple[str, ...] | None:
        if gaps_of(line) != blanks:
            return None
        cells: tuple[str, ...] = cells_of(line)
        return cells if cells[-1].strip() or not has_name else None

    return row


def box_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose upper border begins at a byte, and where it ends.

    Returns:
        None for a box of something else, such as nvidia-smi's.

    Raises:
        FaultError: A row does not fit its table.
    """
    match = _BOX_END.search(data, start)
    end = match.start() if match else len(data)
    last = data.count(b"\n", start, end)
    lines = (line for piece in pieces(data, start, end) for line in text(piece).split("\n"))
    border, line = next(lines), next(lines, "")
    edges = [match.start() for match in re.finditer(r"\+", border)]
    bars_of = itemgetter(*edges)
    cells_of = itemgetter(*(slice(a + 1, b) for a, b in itertools.pairwise(edges)))

    def row_of(line: str) -> tuple[str, ...] | None:
        # A bar is under each corner of the border.
        is_row = len(line) > edges[-1] and {*bars_of(line)} == {"|"}
        return cells_of(line) if is_row else None

    headings = row_of(line)
    if headings is None or not is_heading(headings):
        return None, line_end(data, start)
    cells = Cells(headings)
    for first in range(2, last + 1, _ROWS_AT_ONCE):
        rows = []
        for number, line in enumerate(itertools.islice(lines, _ROWS_AT_ONCE), first):
            row = None if line.lstrip().startswith("+") else row_of(line)
            if row is not None:
                rows.append(row)
            elif not line.lstrip().startswith("+") and (number < last or end < len(data)):
                raise FaultError(start, f'a row does not fit its table: "{line[:60]}"', number)
        cells.add(columns(rows, len(headings)))
    is_closed = line.strip().startswith("+") and len(line) >= len(border.rstrip())
    block = cells.block(start + len(border.encode()) + 1)
    return replace(block, is_cut=not is_closed), end


def columns(rows: Sequence[Sequence[str]], width: int) -> list[pa.Array]:
    """Cells by column of rows of so many cells."""
    if not rows:
        return [pa.array([], pa.string())] * width
    return [pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)]


def pieces(data: bytes, begin: int, end: int) -> Iterator[bytes]:
    """A part of a text in pieces of some lines, without the last line's end."""
    while begin < end:
        stop = begin + _PIECE_BYTES
        stop = end if stop >= end else data.find(b"\n", stop, end)
        stop = end if stop < 0 else stop
        yield data[begin:stop]
        begin = stop + 1


def text(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 is replaced, since names alone can hold it."""
    return data.decode("utf-8", errors="replace")


def line_end(data: bytes, start: int) -> int:
    """The byte of the line's end, or of the file's."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end
