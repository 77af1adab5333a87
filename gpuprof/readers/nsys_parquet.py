"""Folders that ``nsys export --type parquetdir`` or ``arrowdir`` makes: one file per table.

Since nsys 2023.4. Names and meanings are those of the SQLite export; settings of the recording
(``META_DATA_CAPTURE``) are not in them, so that neither command nor "traced, but empty" is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof import engine
from gpuprof.errors import CorruptFileError, GpuprofError, InputError
from gpuprof.profile import Profile
from gpuprof.readers import nsys_recording, nsys_tables
from gpuprof.readers.contract import Reader
from gpuprof.readers.nsys_recording import CANNOT, GIVES, Export

if TYPE_CHECKING:
    import duckdb

NAME: Final = "nsys-parquet"
_SUFFIXES: Final = (".parquet", ".arrow")
_MARKS: Final = ("StringIds", *nsys_tables.TIMED)
_TIMES: Final = frozenset({"start", "end"})
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
    return nsys_recording.profile(export_in(path, path, NAME))


def export_in(folder: Path, path: Path, reader: str) -> Export:
    """The tables of a folder.

    Args:
        folder: Where they lie.
        path: What the user named.
        reader: Name of the reader that asks.

    Raises:
        CorruptFileError: A file is cut short.
    """
    files = _Files(path, {table: _file(folder, table) for table in _tables_in(folder)})
    columns = {table: frozenset(files.schema_of(table).names) for table in files.paths}
    return Export(path, reader, columns, files.rows, files.prepare, files.failure)


@dataclass(frozen=True)
class _Files:
    """The files of a folder that are read, by the name of their table."""

    path: Path
    paths: Mapping[str, Path] = field(repr=False)

    def schema_of(self, table: str) -> pa.Schema:
        """The columns of a table, after a look at the end of its file.

        Raises:
            CorruptFileError: It is cut short, or its times are no integers.
        """
        try:
            found = _schema(self.paths[table])
        except (pa.ArrowInvalid, OSError) as error:
            msg = f"{self.path}, table {table}: the file is damaged ({_line(error)})"
            raise CorruptFileError(msg, _HINT) from error
        for column in found:
            if column.name in _TIMES and not pa.types.is_integer(column.type):
                msg = f"{self.path}, table {table}: column {column.name} holds {column.type}"
                raise CorruptFileError(msg, _HINT)
        return found

    def prepare(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make all tables visible to DuckDB as ``raw.NAME``."""
        connection.execute("CREATE SCHEMA raw")
        for table, file in self.paths.items():
            if file.suffix == ".parquet":
                source = "read_parquet('" + str(file).replace("'", "''") + "')"
            else:
                source = f'"file of {table}"'
                connection.register(f"file of {table}", _mapped(file))
            connection.execute(f'CREATE VIEW raw."{table}" AS SELECT * FROM {source}')

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small query.

        Raises:
            CorruptFileError: A file breaks while it is read.
        """
        try:
            return self._connection.execute(sql).fetchall()
        except Exception as error:  # DuckDB raises what its parts raise
            told = self.failure(error)
            if told is None:
                raise
            raise told from error

    def failure(self, error: Exception) -> GpuprofError | None:
        """What a failed query says about the files; None where they are not at fault."""
        import duckdb  # noqa: PLC0415 - a query has run, so that it is loaded

        ours = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
        if isinstance(error, (*ours, duckdb.OutOfMemoryException)):
            return None
        return CorruptFileError(f"{self.path}: a file is damaged ({_line(error)})", _HINT)

    @cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        connection = engine.connect()
        self.prepare(connection)
        connection.execute("SET schema = 'raw'")
        return connection


def _tables_in(folder: Path) -> list[str]:
    names = {file.stem for file in folder.iterdir() if file.suffix in _SUFFIXES}
    return sorted(names & {*nsys_tables.USED, nsys_recording.SYSTEM})


def _file(folder: Path, table: str) -> Path:
    files = (folder / f"{table}{suffix}" for suffix in _SUFFIXES)
    return next(file for file in files if file.exists())


def _schema(file: Path) -> pa.Schema:
    if file.suffix == ".parquet":
        from pyarrow import parquet  # noqa: PLC0415 - 0.05 s that only this format needs

        return parquet.read_schema(file)
    if not file.read_bytes().endswith(_END_OF_STREAM):
        msg = "it is cut short"
        raise pa.ArrowInvalid(msg)
    return _mapped(file).schema


def _mapped(file: Path) -> pa.Table:
    """An Arrow file's table without a copy of its values."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_stream(source).read_all()


def _line(error: Exception) -> str:
    return str(error).split("\n")[0]


def _recognises_folder(path: Path) -> bool:
    return any((path / f"{mark}{suffix}").exists() for mark in _MARKS for suffix in _SUFFIXES)


READER: Final = Reader(
    NAME,
    "Nsight Systems export, folder of Parquet or Arrow files",
    "nsys 2023.4 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises_folder=_recognises_folder,
)
