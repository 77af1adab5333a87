"""Tables in every format of `nsys stats`, found in text.

``--format column`` (a row of dashes) and ``table`` (boxes) are for people; ``csv``, ``tsv``,
``json``, ``hdoc`` and ``htable`` for programs. The last three are decoded some rows at a time: as
Python's objects a table takes many times its text.
"""

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from html import unescape
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import cuda, json_input
from gpuprof.readers.nsys_stats.blocks import Block, Cells, FaultError, is_heading

_CSV_END: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)|\n(?=Processing \[|SKIPPED: |NOTICE: )")
_DASHES: Final = re.compile(r"-+")
_BLANK_LINE: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)")
# Starts like a row of any of the tables: a share, a time or a size, and another number.
_ROW: Final = re.compile(r"^\s*[\d.,']+%?\s+[\d.,']+(?:\s|$)")
_PIECE_BYTES: Final = 1 << 18
_BOX_END: Final = re.compile(rb"\n(?![ \t]*[|+])")
# Longer than any row, and short beside a large file.
_WINDOW_BYTES: Final = 1 << 18
_COMMA: Final = re.compile(r"\s*,\s*")
_AFTER_ROW: Final = re.compile(rb"\s*([,\]])\s*")
# Columns of numbers that no sum is made of.
_OPTIONAL: Final = re.compile(
    r"^(?:Time|Avg|Average|Med|Min|Minimum|Max|Maximum|StdDev|Corr?I[dD]|Grd|Blk|Reg/Trd|StcSMem"
    r"|DymSMem|Throughput|Ctx|Strm)"
)
_NUMBER: Final = re.compile(r"^\s*[-+]?\d[\d.,eE+-]*\s*%?$")
_HTML_ROW: Final = b"<tr"
_HTML_CELL: Final = re.compile(r"<t[dh]\b[^>]*>(.*?)(?=</t[dh]>|<t[dh]\b|\Z)", re.DOTALL)
_TAG: Final = re.compile(r"</?[A-Za-z][^>]*>")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

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
    for piece in _pieces(data, at, end):
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


def _pieces(data: bytes, begin: int, end: int) -> Iterator[bytes]:
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
    for piece in _pieces(data, begin, last if is_cut else end):
        cells.add(_csv_columns(piece, delimiter, (start, lines), len(headings)))
        lines += piece.count(b"\n") + 1
    return replace(cells.block(start), is_cut=is_cut), end


def _csv_columns(rows: bytes, delimiter: str, place: tuple[int, int], width: int) -> list[pa.Array]:
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


def json_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose bracket is at a byte, and where it ends.

    Returns:
        None for something else in JSON.

    Raises:
        FaultError: The JSON is cut off or broken.
    """
    cells: Cells | None = None
    headings: list[str] = []
    end = start + 1
    for rows, end in _json_windows(data, start):
        if not all(isinstance(row, dict) for row in rows):
            return None, end
        if cells is None:
            headings = [*rows[0]]
            if not is_heading(headings):
                return None, end
            cells = Cells(headings)
        cells.add(_json_columns(rows, headings))
    return replace(cells.block(start), has_lines=False) if cells else None, end


def _json_windows(data: bytes, start: int) -> Iterator[tuple[list[Any], int]]:
    """Values of the list whose bracket is at a byte, some at a time, and where those end."""
    begin, is_last = start + 1, False
    while not is_last:
        # Up to the end of a row, so that no character is cut.
        stop = min(begin + _WINDOW_BYTES, len(data))
        raw = data[begin : data.rfind(b"}", begin, stop) + 1 or stop]
        window = raw.decode(errors="surrogateescape")
        values: list[Any] = []
        end, comma = 0, re.match(r"\s*", window)
        try:
            while comma is not None:
                value, end = json_input.first(window, comma.end())
                values.append(value)
                comma = _COMMA.match(window, end)
        except json.JSONDecodeError as error:
            if not values:
                fault = f"the JSON is cut off or broken: {error.msg}"
                if begin + len(raw) < len(data) and error.msg.startswith("Unterminated"):
                    # More text follows: no row was whole in a window.
                    fault = f"a row is longer than {_WINDOW_BYTES >> 10} KiB"
                raise FaultError(begin + _length(window[: error.pos]), fault) from error
        except json_input.JsonError as error:
            raise FaultError(begin, f"the JSON is {error}") from error
        end = begin + _length(window[:end])
        after = _AFTER_ROW.match(data, end)
        if after is None:
            raise FaultError(end, "the JSON is cut off or broken: Expecting ',' delimiter")
        begin, is_last = after.end(), after[1] == b"]"
        yield values, after.start(1) + is_last


def _length(window: str) -> int:
    return len(window.encode(errors="surrogateescape"))


def _json_columns(rows: Sequence[dict[str, Any]], headings: Sequence[str]) -> list[pa.Array]:
    """Cells by column; halves of characters, which no text can hold, are replaced."""
    is_optional = {heading: _OPTIONAL.match(heading) is not None for heading in headings}

    def printed(heading: str, value: object) -> str:
        if is_optional[heading]:  # a number that sums can do without; blank where it is none
            return value if isinstance(value, str) and _NUMBER.match(value) else ""
        # What is neither a text nor a number is of no known name.
        unknown_word = "" if value is None else cuda.UNKNOWN
        return value if isinstance(value, str) else unknown_word

    cells = [[printed(heading, row.get(heading)) for heading in headings] for row in rows]
    try:
        return columns(cells, len(headings))
    except UnicodeEncodeError:
        replaced = [[_SURROGATE.sub("\ufffd", cell) for cell in row] for row in cells]
        return columns(replaced, len(headings))


def html_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The HTML table that begins at a byte, and where it ends.

    Returns:
        None for a table of something else.

    Raises:
        FaultError: The table is cut off, or a row has another number of cells.
    """
    end = data.find(b"</table>", start)
    windows = _html_windows(data, start, end if end >= 0 else len(data))
    headings, *first = next(windows, [[""]])
    if not is_heading(headings):
        return None, start + 1
    if end < 0:
        raise FaultError(start, "the HTML table is cut off")
    cells = Cells(headings)
    for rows in itertools.chain([first], windows):
        if any(len(row) != len(headings) for row in rows):
            raise FaultError(start, "a row of the HTML table has another number of cells")
        cells.add(columns(rows, len(headings)))
    return replace(cells.block(start), has_lines=False), end


def _html_windows(data: bytes, begin: int, end: int) -> Iterator[list[list[str]]]:
    """The rows of a table, some at a time."""
    begin = data.find(_HTML_ROW, begin, end)
    while 0 <= begin < end:
        stop = begin + _WINDOW_BYTES
        # A row begins where the window ends.
        last = data.rfind(_HTML_ROW, begin + 1, stop) if stop < end else end
        stop = last if last > 0 else end
        _, *rows = text(data[begin:stop]).split(_HTML_ROW.decode())
        yield [[unescape(_TAG.sub("", cell)) for cell in _HTML_CELL.findall(row)] for row in rows]
        begin = stop
