"""Tables for programs: ``--format csv`` and ``tsv``, and copies from the Nsight Systems window."""

import re
from dataclasses import replace
from typing import Final

import pyarrow as pa

from gpuprof.readers.nsys_stats_blocks import Block, FaultError, block, is_heading
from gpuprof.readers.nsys_stats_text import line_end, text

_END: Final = re.compile(rb"\n[ \t]*(?=\n|\Z)|\n(?=Processing \[|SKIPPED: |NOTICE: )")
_RAGGED: Final = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


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
    rows = data[end_of_heading + 1 : end]
    columns, is_cut = _columns(rows, delimiter, start, len(headings), is_last=match is None)
    return replace(block(start, headings, columns), is_cut=is_cut), end


def _columns(
    rows: bytes, delimiter: str, start: int, width: int, *, is_last: bool
) -> tuple[list[pa.Array], bool]:
    """Cells by column, and whether the last row is cut off."""
    ragged: list[tuple[int, int]] = []

    def note(row: "pa_csv.InvalidRow") -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    from pyarrow import csv as pa_csv  # noqa: PLC0415 - recognising a file does not need it

    names = [str(number) for number in range(width)]
    if not rows.strip():
        return [pa.array([], pa.string())] * width, False
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
    lines = table.num_rows + len(ragged)
    is_cut = is_last and len(ragged) == 1 and not rows.endswith(b"\n") and ragged[0][0] == lines
    if ragged and not is_cut:
        number, cells = ragged[0]
        message = f"expected {width} cells as in the heading, found {cells}"
        raise FaultError(start, message, number)
    return [table.column(name).combine_chunks() for name in names], is_cut
