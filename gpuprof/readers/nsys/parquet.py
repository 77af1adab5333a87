"""Folders that ``nsys export --type parquetdir`` or ``arrowdir`` makes: one file per table.

Since nsys 2023.4. Names and meanings are those of the SQLite export; settings of the recording
(``META_DATA_CAPTURE``) are not in them, so that neither command nor "traced, but empty" is known.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.model import borders
from gpuprof.model.profile import Profile
from gpuprof.model.stored import InMemory, Stored, Window
from gpuprof.model.words import Values
from gpuprof.readers.common.parquet_columns import (
    FilePart,
    ParquetColumns,
    ParquetFile,
    fault,
    opened,
)
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.columns import Export
from gpuprof.readers.nsys.export import CANNOT, GIVES, SYSTEM, profile

NAME: Final = "nsys-parquet"
_SUFFIXES: Final = (".parquet", ".arrow")
_MARKS: Final = ("StringIds", *export_schema.TIMED)
# An Arrow stream that was written to its end has this there.
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_HINT: Final = "Export the report again: nsys export --type parquetdir FILE."


def read(path: Path) -> Profile:
    """Read a folder of Parquet or Arrow files.

    Raises:
        CorruptFileError: A file is cut short or lacks columns.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
        InputError: It is no folder.
    """
    if not path.is_dir():
        msg = f"{path} is no folder"
        raise InputError(msg, "Give the folder that nsys exported, not a file in it.")
    return profile(_Folder(path))


class _Folder(Export):
    """The files of a folder that are read, by the name of their table.

    Raises:
        CorruptFileError: A file is cut short.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.reader = folder, NAME
        self._fault = partial(fault, folder, f"{folder}: one of its files is damaged", _HINT)
        # Of a table in both types, the first one counts.
        in_folder = [file for s in reversed(_SUFFIXES) for file in folder.glob(f"*{s}")]
        files = {file.stem: file for file in in_folder if file.is_file()}
        names = sorted(files.keys() & {*export_schema.USED, SYSTEM})
        self._files = {table: files[table] for table in names}
        self._schemas = {}
        for table in names:
            where = self._where(table)
            try:
                self._schemas[table] = _schema(where, files[table])
            except borders.DAMAGE as error:
                msg = f"{where}: its file is cut short or damaged"
                raise CorruptFileError(msg, _HINT) from error
            borders.check_names(where, self._schemas[table])
        self.columns = {table: frozenset(of.names) for table, of in self._schemas.items()}
        events = [table for table in export_schema.EVENTS if table in files]
        self.most_rows = {table: self.stored(table).rows_known() for table in events}

    def stored(self, table: str) -> Stored:
        """What a table holds; in memory where a column is of another type than nsys writes.

        Raises:
            CorruptFileError: A value cannot be of the type that is expected.
        """
        file, columns = self._files[table], self._schemas[table]
        # Any integer may stand for another.
        integers = {f.name: f.type for f in columns if pa.types.is_integer(f.type)}
        kinds = {
            name: integers.get(name, kind) if pa.types.is_integer(kind) else kind
            for name, kind in export_schema.KINDS.get(table, {}).items()
            if name in columns.names
        }
        try:
            part, is_parquet = FilePart.of_file(file), file.suffix == ".parquet"
            if borders.unlike(columns, kinds):
                all_rows = opened(part, ()).read(use_threads=False) if is_parquet else _mapped(file)
                rows = all_rows.select([name for name in columns.names if name in kinds])
                return InMemory(borders.cast(self._where(table), rows, kinds))
            if not is_parquet:
                return _Mapped(_mapped(file))
            texts = [field.name for field in columns if pa.types.is_string(field.type)]
            parquet = opened(part, texts)
        except borders.DAMAGE as error:
            raise self._fault(error) or error from error
        all_kinds = {field.name: kinds.get(field.name, field.type) for field in columns}
        packed = ParquetFile(part, parquet.metadata, parquet.schema_arrow)
        return ParquetColumns([packed], all_kinds, self._fault)

    def _where(self, table: str) -> str:
        return f"{self.path}, table {table}"


class _Mapped(InMemory):
    """The rows of an Arrow file, which may be written anew once they are read."""

    def pieces(self, names: Sequence[str], window: Window | None = None) -> Iterator[list[Values]]:
        """Columns of all rows, copied."""
        for piece in super().pieces(names, window):
            yield [column._replace(numbers=column.numbers.copy()) for column in piece]


def _schema(where: str, file: Path) -> pa.Schema:
    if file.suffix == ".parquet":
        parquet = opened(part := FilePart.of_file(file), ())
        borders.check_growth(where, parquet.metadata, part.size)
        return parquet.schema_arrow
    if not file.read_bytes().endswith(_END_OF_STREAM):
        msg = "it is cut short"
        raise pa.ArrowInvalid(msg)
    return _mapped(file).schema


def _mapped(file: Path) -> pa.Table:
    """An Arrow file's table without a copy of its values."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_stream(source).read_all()


READER: Final = Reader(
    NAME,
    "Nsight Systems export, folder of Parquet or Arrow files",
    "nsys 2023.4 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises_folder=lambda path: any(
        (path / f"{mark}{suffix}").exists() for mark in _MARKS for suffix in _SUFFIXES
    ),
)
