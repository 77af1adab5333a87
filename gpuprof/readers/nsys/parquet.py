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

from gpuprof import borders, engine
from gpuprof.errors import CorruptFileError, GpuprofError, InputError
from gpuprof.profile import Profile
from gpuprof.readers.contract import Reader
from gpuprof.readers.nsys import recording, tables
from gpuprof.readers.nsys.recording import CANNOT, GIVES, Export

if TYPE_CHECKING:
    import duckdb

NAME: Final = "nsys-parquet"
_SUFFIXES: Final = (".parquet", ".arrow")
_MARKS: Final = ("StringIds", *tables.TIMED)
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
    return recording.profile(export_in(path, path, NAME))


def export_in(folder: Path, path: Path, reader: str) -> Export:
    """The tables of a folder.

    Args:
        folder: Where they lie.
        path: What the user named.
        reader: Name of the reader that asks.

    Raises:
        CorruptFileError: A file is cut short.
    """
    # Of a table in both types, the first one counts.
    paths = {f.stem: f for s in reversed(_SUFFIXES) for f in folder.glob(f"*{s}") if f.is_file()}
    names = paths.keys() & {*tables.USED, recording.SYSTEM}
    files = _Files(path, {table: paths[table] for table in sorted(names)})
    columns = {table: frozenset(schema.names) for table, schema in files.schemas.items()}
    return Export(path, reader, columns, files.rows, files.prepare, files.failure)


@dataclass(frozen=True)
class _Files:
    """The files of a folder that are read, by the name of their table."""

    path: Path
    paths: Mapping[str, Path] = field(repr=False)

    @cached_property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of every table, after a look at the end of its file.

        Raises:
            CorruptFileError: One is cut short, or is no table that nsys writes.
        """
        schemas = {}
        for table, file in self.paths.items():
            try:
                schemas[table] = _schema(self._where(table), file)
            except borders.DAMAGE as error:
                msg = f"{self._where(table)}: its file is cut short or damaged"
                raise CorruptFileError(msg, _HINT) from error
            borders.check_names(self._where(table), schemas[table])
        return schemas

    def prepare(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make all tables visible to DuckDB as ``raw.NAME``."""
        connection.execute("CREATE SCHEMA raw")
        for table, file in self.paths.items():
            rows = self.recast.get(table)
            if rows is None and file.suffix == ".parquet":
                source = f"read_parquet({engine.literal(file)})"
            else:
                source = f'"file of {table}"'
                connection.register(f"file of {table}", _mapped(file) if rows is None else rows)
            connection.execute(f'CREATE VIEW raw."{table}" AS SELECT * FROM {source}')

    @cached_property
    def recast(self) -> Mapping[str, pa.Table]:
        """The tables in which a column is of another type than nsys writes, cast and in memory.

        Raises:
            CorruptFileError: A value cannot be of the type that is expected.
        """
        recast = {}
        for table, columns in self.schemas.items():
            kinds = _kinds(table, columns)
            if borders.unlike(columns, kinds):
                rows = _read(self.paths[table]).select([n for n in columns.names if n in kinds])
                recast[table] = borders.cast(self._where(table), rows, kinds)
        return recast

    def _where(self, table: str) -> str:
        return f"{self.path}, table {table}"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small query.

        Raises:
            CorruptFileError: A file breaks while it is read.
        """
        try:
            return self._connection.execute(sql).fetchall()
        except GpuprofError:
            raise
        except Exception as error:  # DuckDB raises what its parts raise
            fault = self.failure(error)
            if fault is None:
                raise
            raise fault from error

    def failure(self, error: Exception) -> GpuprofError | None:
        """What a failed query says about the files; None where they are not at fault."""
        import duckdb  # noqa: PLC0415 - a query has run, so that it is loaded

        of_files = (duckdb.Error, pa.ArrowException, OSError, UnicodeDecodeError)
        ours = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
        if not isinstance(error, of_files) or isinstance(
            error, (*ours, duckdb.OutOfMemoryException)
        ):
            return None
        return CorruptFileError(f"{self.path}: one of its files is damaged", _HINT)

    @cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        connection = engine.connect()
        self.prepare(connection)
        connection.execute("SET schema = 'raw'")
        return connection


def _schema(where: str, file: Path) -> pa.Schema:
    if file.suffix == ".parquet":
        from pyarrow import parquet  # noqa: PLC0415 - 0.05 s that only this format needs

        with parquet.ParquetFile(file) as opened:
            borders.check_growth(where, opened.metadata, file.stat().st_size)
            return opened.schema_arrow
    if not file.read_bytes().endswith(_END_OF_STREAM):
        msg = "it is cut short"
        raise pa.ArrowInvalid(msg)
    return _mapped(file).schema


def _kinds(table: str, columns: pa.Schema) -> dict[str, pa.DataType]:
    """The types that are expected of the columns; any integer may stand for another."""
    kinds = {n: kind for n, kind in tables.KINDS.get(table, {}).items() if n in columns.names}
    integers = {f.name: f.type for f in columns if pa.types.is_integer(f.type)}
    return {
        n: integers.get(n, kind) if pa.types.is_integer(kind) else kind for n, kind in kinds.items()
    }


def _read(file: Path) -> pa.Table:
    if file.suffix == ".parquet":
        from pyarrow import parquet  # noqa: PLC0415 - as above

        return parquet.read_table(file)
    return _mapped(file)


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
