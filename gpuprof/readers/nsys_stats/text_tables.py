"""Tables of text: ``--format column`` (a row of dashes), ``table`` (boxes), ``csv`` and ``tsv``."""

import csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from typing import Final

import pyarrow as pa

from gpuprof.readers.nsys_stats.blocks import Block, Cells, FaultError, is_heading

_CSV_END: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)|\n(?=Processing \[|SKIPPED: |NOTICE: )")
_DASHES: Final = re.compile(r"-+")
_BLANK_LINE: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)")
# Starts like a row of any of the tables: a share, a time or a size, and another number.
_ROW: Final = re.compile(r"^\s*[\d.,']+%?\s+[\d.,']+(?:\s|$)")
_PIECE_BYTES: Final = 1 << 18
_BOX_END: Final = re.compile(rb"\n(?![ \t]*[|+])")

_Row = tuple[str, ...]


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
    ends = [0, *(end for _, end in spans[:-1])]
    gaps = [slice(end, begin) for end, (begin, _) in zip(ends, spans, strict=True)]
    blanks = tuple(" " * (gap.stop - gap.start) for gap in gaps)
    fields = [*itertools.starmap(slice, spans[:-1]), slice(spans[-1][0], None)]
    cells_of = _cells_between(gaps, blanks, fields)
    has_name = headings[-1].strip() in ("Name", "Operation")

    def row_of(line: str) -> _Row | None:
        row = cells_of(line)
        return row if row and (row[-1].strip() or not has_name) else None

    def whole_row_of(line: str) -> _Row | None:
        row = row_of(line)
        return row if row and row[0].strip()[:1].isdigit() else None

    cells = Cells(headings)
    count, at, remainder = _take_rows(cells, data, (end_of_dashes + 1, end), whole_row_of)
    # A row that was damaged, and not output that follows the table.
    row = row_of(remainder)
    is_row = _ROW.match(remainder) is not None or (row is not None and not is_heading(row))
    is_cut = is_row and line_end(data, at) >= end and not data[end:].strip()
    if is_row and not is_cut:
        message = f'a row does not fit its table: "{remainder.strip()[:60]}"'
        raise FaultError(start, message, count + 1)
    return replace(cells.block(start), is_cut=is_cut), at


def box_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose upper border begins at a byte, and where it ends.

    Returns:
        None for a box of something else, such as nvidia-smi's.

    Raises:
        FaultError: A row does not fit its table.
    """
    match = _BOX_END.search(data, start)
    end = match.start() if match else len(data)
    border = text(data[start : line_end(data, start)])
    edges = [match.start() for match in re.finditer(r"\+", border)]
    bars, fields = (slice(edge, edge + 1) for edge in edges), itertools.pairwise(edges)
    # A bar is under each corner of the border.
    cells_of = _cells_between([*bars], ("|",) * len(edges), [slice(a + 1, b) for a, b in fields])
    begin = min(line_end(data, start) + 1, end)
    end_of_heading = line_end(data, begin)
    headings = cells_of(text(data[begin:end_of_heading]))
    if headings is None or not is_heading(headings):
        return None, line_end(data, start)
    cells = Cells(headings)
    count, at, remainder = _take_rows(
        cells,
        data,
        (end_of_heading + 1, end),
        lambda line: () if line.lstrip().startswith("+") else cells_of(line),
    )
    is_last = line_end(data, at) >= len(data)
    if remainder and not is_last:
        raise FaultError(start, f'a row does not fit its table: "{remainder[:60]}"', count + 2)
    last = text(data[data.rfind(b"\n", start, end) + 1 : end])
    is_closed = last.strip().startswith("+") and len(last) >= len(border.rstrip())
    return replace(cells.block(begin), is_cut=not is_closed), end


def _cells_between(
    gaps: Sequence[slice], expected: tuple[str, ...], fields: Sequence[slice]
) -> Callable[[str], _Row | None]:
    """Takes the cells out of lines in whose gaps stands what is expected there; None of others."""
    gaps_of, cells_of = itemgetter(*gaps), itemgetter(*fields)
    return lambda line: cells_of(line) if gaps_of(line) == expected else None


def _take_rows(
    cells: Cells, data: bytes, place: tuple[int, int], row_of: Callable[[str], _Row | None]
) -> tuple[int, int, str]:
    """Add the cells of lines as long as these are rows, or borders, which have no cells.

    Returns:
        How many lines these are; the byte at which the next one begins, and its text, which is
        empty where the place ends.
    """
    count, end = 0, place[1]
    at = min(place[0], end)
    for piece in pieces(data, at, end):
        lines = text(piece).split("\n")
        rows = [*itertools.takewhile(lambda row: row is not None, map(row_of, lines))]
        cells.add(columns([row for row in rows if row], cells.width))
        count += len(rows)
        at += sum(len(line) + 1 for line in piece.split(b"\n")[: len(rows)])
        if len(rows) < len(lines):
            return count, at, text(data[at : line_end(data, at)])
    return count, min(at, end), ""


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


def csv_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose heading begins at a byte, and where it ends.

    Returns:
        None for a table of something else.

    Raises:
        FaultError: A row has another number of cells than the heading.
    """
    end_of_heading = line_end(data, start)
    heading = text(data[start:end_of_heading])
    delimiter = "\t" if "\t" in heading else ","
    headings = [cell.strip().strip('"') for cell in heading.split(delimiter)]
    if not is_heading(headings):
        return None, end_of_heading
    match = _CSV_END.search(data, end_of_heading)
    end = match.start() if match else len(data)
    begin = min(end_of_heading + 1, end)
    last = data.rfind(b"\n", begin, end) + 1 or begin
    is_cut = False
    if match is None:
        # Only a file's last line can be cut off. Whoever reads the table refuses what is no CSV.
        with suppress(csv.Error):
            of_last = next(csv.reader([text(data[last:end])], delimiter=delimiter), headings)
            is_cut = last < end and len(of_last) != len(headings)
    cells = Cells(headings)
    lines = 0
    for piece in pieces(data, begin, last if is_cut else end):
        cells.add(_columns(piece, delimiter, (start, lines), len(headings)))
        lines += piece.count(b"\n") + 1
    return replace(cells.block(start), is_cut=is_cut), end


def _columns(rows: bytes, delimiter: str, place: tuple[int, int], width: int) -> list[pa.Array]:
    """Cells by column of rows that begin so many lines after the line at a byte."""
    ragged: list[tuple[int, int]] = []

    def note(row: "pa_csv.InvalidRow") -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    from pyarrow import csv as pa_csv  # noqa: PLC0415 - recognising a file does not need it

    start, lines = place
    names = [str(number) for number in range(width)]
    if not rows.strip():
        return [pa.array([], pa.string())] * width
    try:
        table = pa_csv.read_csv(
            pa.py_buffer(text(rows).encode()),
            pa_csv.ReadOptions(column_names=names, use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise FaultError(start, f"the table cannot be read as CSV: {error}") from error
    if ragged:
        number, cells = ragged[0]
        message = f"expected {width} cells as in the heading, found {cells}"
        raise FaultError(start, message, lines + number)
    return [table.column(name).combine_chunks() for name in names]
