"""Tables of the data model as CSV in base units; an empty cell where a value is unknown."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.show.csv import text_cell

SUFFIX: Final = ".csv"


def write_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    """Write the rows of one table.

    Raises:
        OSError: The file cannot be written.
    """
    from pyarrow import csv  # noqa: PLC0415 - only this exporter needs it

    with csv.CSVWriter(path, schema) as writer:
        for batch in batches:
            columns = [_safe(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _safe(column: pa.Array) -> pa.Array:
    """Texts that steer no terminal and are no formula; each distinct text is looked at once."""
    if not pa.types.is_string(column.type):
        return column
    encoded = column.dictionary_encode()
    texts = [text_cell(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, column.type).take(encoded.indices)
