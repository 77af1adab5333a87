"""Tables for people: ``--format column`` (a row of dashes) and ``table`` (boxes)."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from gpuprof.readers.nsys_stats_blocks import Block, FaultError, block, is_heading

_DASHES: Final = re.compile(r"-+")
_BLANK_LINE: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)")
# Starts like a row of any of the tables: a share, a time or a size, and another number.
_ROW: Final = re.compile(r"^\s*[\d.,']+%?\s+[\d.,']+(?:\s|$)")
_BOX_END: Final = re.compile(rb"\n(?![ \t]*[|+])")


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
    above = _line_before(data, start)
    headings = [above[a:b] for a, b in spans]
    if not is_heading(headings):
        return None, end_of_dashes
    match = _BLANK_LINE.search(data, end_of_dashes)
    end = match.start() if match else len(data)
    lines = text(data[end_of_dashes + 1 : end]).split("\n") if end > end_of_dashes else []
    layout = _layout(spans, headings)
    rows = _rows(lines, layout)
    rest = lines[len(rows) :]
    is_row = bool(rest) and _is_row(rest[0], layout)
    is_cut = is_row and len(rest) == 1 and end >= len(data.rstrip())
    if is_row and not is_cut:
        message = f'a row does not fit its table: "{rest[0].strip()[:60]}"'
        raise FaultError(start, message, len(rows) + 1)
    found = replace(block(start, headings, _columns(rows, len(spans))), is_cut=is_cut)
    return found, end - len("\n".join(rest).encode()) if rest else end


def _layout(spans: Sequence[tuple[int, int]], headings: Sequence[str]) -> re.Pattern[str]:
    """A row: cells as wide as the dashes, blanks between them, and a name if there is one."""
    parts = [f"[ ]{{{spans[0][0]}}}"]
    for (a, b), (following, _) in itertools.pairwise(spans):
        parts.append(f"(.{{{b - a}}})[ ]{{{following - b}}}")
    is_name = headings[-1].strip() in ("Name", "Operation")
    return re.compile("".join(parts) + (r"(.*\S.*)" if is_name else "(.*)") + r"\Z")


def _rows(lines: Sequence[str], layout: re.Pattern[str]) -> list[tuple[str, ...]]:
    """Cells of the lines up to the first that is no row."""
    rows = []
    for line in lines:
        match = layout.match(line)
        if match is None or not match[1].strip()[:1].isdigit():
            break
        rows.append(match.groups())
    return rows


def _is_row(line: str, layout: re.Pattern[str]) -> bool:
    """Whether a line must be a row that was damaged, and not output that follows the table."""
    match = layout.match(line)
    return _ROW.match(line) is not None or (match is not None and not is_heading(match.groups()))


def box_block(data: bytes, start: int) -> tuple[Block | None, int]:
    """The table whose upper border begins at a byte, and where it ends.

    Returns:
        None for a box of something else, such as nvidia-smi's.

    Raises:
        FaultError: A row does not fit its table.
    """
    match = _BOX_END.search(data, start)
    end = match.start() if match else len(data)
    lines = text(data[start:end]).split("\n")
    edges = [match.start() for match in re.finditer(r"\+", lines[0])]
    spans = [(a + 1, b) for a, b in itertools.pairwise(edges)]
    headings = _boxed(lines[1], edges, spans) if len(lines) > 1 else None
    if headings is None or not is_heading(headings):
        return None, line_end(data, start)
    rows = []
    for number, line in enumerate(lines[2:], start=2):
        if line.lstrip().startswith("+"):
            continue
        row = _boxed(line, edges, spans)
        if row is None and (number < len(lines) - 1 or end < len(data)):
            raise FaultError(start, f'a row does not fit its table: "{line[:60]}"', number)
        if row is not None:
            rows.append(row)
    is_closed = lines[-1].strip().startswith("+") and len(lines[-1]) >= len(lines[0].rstrip())
    found = block(start + len(lines[0].encode()) + 1, headings, _columns(rows, len(spans)))
    return replace(found, is_cut=not is_closed), end


def _boxed(
    line: str, edges: Sequence[int], spans: Sequence[tuple[int, int]]
) -> tuple[str, ...] | None:
    """Cells of a line with a bar under each corner of the border; None where one is not."""
    if len(line) <= edges[-1] or any(line[edge] != "|" for edge in edges):
        return None
    return tuple(line[a:b] for a, b in spans)


def _columns(rows: Sequence[tuple[str, ...]], width: int) -> list[pa.Array]:
    if not rows:
        return [pa.array([], pa.string())] * width
    return [pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)]


def text(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 is replaced, since names alone can hold it."""
    return data.decode("utf-8", errors="replace")


def line_end(data: bytes, start: int) -> int:
    """The byte of the line's end, or of the file's."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _line_before(data: bytes, start: int) -> str:
    end = max(start - 1, 0)
    return text(data[data.rfind(b"\n", 0, end) + 1 : end])
