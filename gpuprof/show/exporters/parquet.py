"""Tables of the data model as Parquet, with the unit and meaning of each column."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa

SUFFIX: Final = ".parquet"


def write_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    """Write the rows of one table.

    Raises:
        OSError: The file cannot be written.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that only this exporter needs

    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
