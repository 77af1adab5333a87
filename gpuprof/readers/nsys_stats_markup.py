"""Tables for other programs: ``--format json``, ``hdoc`` and ``htable``."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import pyarrow as pa

from gpuprof.readers.nsys_stats_blocks import Block, Cells, FaultError, is_heading
from gpuprof.readers.nsys_stats_text import text


def json_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose bracket is at a byte, and where it ends.

    Returns:
        None for something else in JSON.

    Raises:
        FaultError: The JSON is cut off or broken.
    """
    # Numbers stay as printed: a float would lose digits of a time.
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    rest = text(data[start:])
    try:
        rows, length = decoder.raw_decode(rest)
    except json.JSONDecodeError as error:
        message = f"the JSON is cut off or broken: {error.msg}"
        raise FaultError(start + len(rest[: error.pos].encode()), message) from error
    except RecursionError as error:
        raise FaultError(start, "the JSON is nested too deep") from error
    end = start + len(rest[:length].encode())
    if not rows or not all(isinstance(row, dict) for row in rows) or not is_heading([*rows[0]]):
        return None, end
    headings = [*rows[0]]
    cells = Cells(headings)
    cells.add([pa.array([_cell(row.get(key)) for row in rows], pa.string()) for key in headings])
    return replace(cells.block(start), has_lines=False), end


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def html_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The HTML table that begins at a byte, and where it ends.

    Returns:
        None for a table of something else.

    Raises:
        FaultError: The table is cut off, or a row has another number of cells.
    """
    end = data.find(b"</table>", start)
    parser = _Table()
    parser.feed(text(data[start : end if end >= 0 else len(data)]))
    if not parser.rows or not is_heading(parser.rows[0]):
        return None, start + 1
    if end < 0:
        raise FaultError(start, "the HTML table is cut off")
    headings, *rows = parser.rows
    if any(len(row) != len(headings) for row in rows):
        raise FaultError(start, "a row of the HTML table has another number of cells")
    cells = Cells(headings)
    cells.add(
        [pa.array([row[number] for row in rows], pa.string()) for number in range(len(headings))]
    )
    return replace(cells.block(start), has_lines=False), end


class _Table(HTMLParser):
    """Rows of the cells of one table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._is_in_cell = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a row or a cell."""
        del attrs
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        if tag in ("td", "th"):
            self._is_in_cell = False

    def handle_data(self, data: str) -> None:
        """Add to the cell."""
        if self._is_in_cell and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data
