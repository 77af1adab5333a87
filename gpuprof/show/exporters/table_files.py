"""The tables of a recording in base units, as CSV or Parquet: a folder of files, or one file.

A cell of CSV is empty where a value is unknown. Parquet has the unit and meaning of each column.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof import __version__
from gpuprof.base.errors import UsageError, one_of
from gpuprof.model import data_model, schema
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.write_gpuprof_file import alone, batches_by_start
from gpuprof.show.csv import text_cell
from gpuprof.show.output import prepare, prepare_folder

# From the rows of a table, its columns and a path.
_Write = Callable[[Iterable[pa.RecordBatch], pa.Schema, Path], None]


class TableTarget:
    """A folder or a file, checked before the recording is read.

    Args:
        form: A name in `TABLES`, which ends the names of files.
        output: A folder, or the file of the one table.
        table: The one table; None for all.
        is_forced: Whether what exists may be replaced: of a folder only one of such tables.
        inputs: What is read: these are never replaced.

    Raises:
        UsageError: There is no such table, or a file's name is given for all tables.
        OutputError: The output cannot be written.
    """

    def __init__(
        self,
        form: str,
        output: str,
        inputs: Sequence[str],
        *,
        table: str | None,
        is_forced: bool,
    ) -> None:
        self._form, self._table = form, table
        if table is not None:
            if table not in data_model.BY_NAME:
                msg = f"there is no table {table}"
                raise UsageError(msg, one_of("Tables", table, [*data_model.BY_NAME]))
            self._file = prepare(output, is_forced=is_forced, inputs=inputs)
            return
        if Path(output).suffix == f".{form}":
            msg = f"{output} is one file, and a recording has a file for each table"
            raise UsageError(msg, "Give a folder, or one table: --table kernels")
        names = {f"{name}.{form}" for name in data_model.BY_NAME}
        self._folder = prepare_folder(
            output,
            lambda folder: {entry.name for entry in folder.iterdir()} <= names,
            is_forced=is_forced,
            inputs=inputs,
        )

    def write(self, profile: Profile) -> tuple[str, ...]:
        """Write the table, or all that were recorded; all files whole, or none.

        Raises:
            GpuprofError: The table was not recorded, or a file cannot be written.
        """

        def write_table(name: str, path: Path) -> None:
            columns = described(data_model.BY_NAME[name])
            TABLES[self._form](table_rows(profile, name), columns, path)

        def write_all(folder: Path) -> None:
            for name in filter(profile.has, data_model.BY_NAME):
                write_table(name, folder / f"{name}.{self._form}")

        if self._table is None:
            self._folder.save(write_all)
        else:
            profile.require(self._table)
            self._file.save(partial(write_table, self._table), "a table")
        return ()


def table_rows(profile: Profile, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a table by their start, so that they need not fit into memory.

    Returns:
        Batches with exactly the columns of `described`; null where unknown.

    Raises:
        GpuprofError: The recording breaks its format's rules.
    """
    spec = data_model.BY_NAME[name]
    for batch in batches_by_start(alone(profile, name), name, spec.columns):
        arrays = [batch.column(column).cast(kind) for column, kind in spec.kinds.items()]
        yield pa.RecordBatch.from_arrays(arrays, schema=described(spec))


def described(spec: schema.Schema) -> pa.Schema:
    """The columns of a table with unit and meaning as metadata."""
    fields = [
        pa.field(
            name,
            kind,
            nullable=not spec.columns[name].required,
            metadata={"unit": spec.columns[name].unit, "description": spec.columns[name].meaning},
        )
        for name, kind in spec.kinds.items()
    ]
    return pa.schema(fields, {"table": spec.name, "written_by": f"gpuprof {__version__}"})


def _write_csv(batches: Iterable[pa.RecordBatch], columns: pa.Schema, path: Path) -> None:
    """Texts steer no terminal and are no formula; each distinct text is looked at once."""
    from pyarrow import csv  # noqa: PLC0415 - only this format needs it

    def safe(column: pa.Array) -> pa.Array:
        if not pa.types.is_string(column.type):
            return column
        encoded = column.dictionary_encode()
        texts = [text_cell(text) for text in encoded.dictionary.to_pylist()]
        return pa.array(texts, column.type).take(encoded.indices)

    with csv.CSVWriter(path, columns) as writer:
        for batch in batches:
            arrays = [*map(safe, batch.columns)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=columns))


def _write_parquet(batches: Iterable[pa.RecordBatch], columns: pa.Schema, path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that only this format needs

    with pq.ParquetWriter(path, columns, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


TABLES: Final[dict[str, _Write]] = {"csv": _write_csv, "parquet": _write_parquet}
