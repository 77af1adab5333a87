"""Tables for other programs: ``--format json``, ``hdoc`` and ``htable``.

They are decoded some rows at a time: as Python's objects a table takes many times its text.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import cuda, json_input
from gpuprof.readers.nsys_stats.blocks import Block, Cells, FaultError, is_heading
from gpuprof.readers.nsys_stats.text_tables import columns, text

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
        cells.add(_columns(rows, headings))
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


def _columns(rows: Sequence[dict[str, Any]], headings: Sequence[str]) -> list[pa.Array]:
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
