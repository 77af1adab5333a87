"""Tables for programs: ``--format csv`` and ``tsv``, and copies from the Nsight Systems window."""

import csv
import re
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa

from gpuprof.readers.nsys_stats.blocks import Block, Cells, FaultError, is_heading
from gpuprof.readers.nsys_stats.text_tables import line_end, pieces, text

_END: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)|\n(?=Processing \[|SKIPPED: |NOTICE: )")


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
    match = _END.search(data, end_of_heading)
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
