"""SQLite exports of Nsight Systems: ``nsys export --type sqlite`` and ``nsys stats``' own.

Without metadata (nsys 2019 to 2021) and schema 2.9 to 3.25 (2022.2 to 2026.2).
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gpuprof.model.profile import Profile
from gpuprof.model.spilling import KeptColumns
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.columns import FIRST_ROWS, Export
from gpuprof.readers.nsys.export import CANNOT, GIVES, profile
from gpuprof.readers.sqlite.source import (
    MAGIC,
    Rows,
    SqliteFile,
    is_sqlite,
    open_sqlite,
    tables_in,
)
from gpuprof.readers.sqlite.table_columns import quoted

NAME: Final = "nsys-sqlite"
# Every export has this table.
_MARK: Final = "StringIds"
_UNTIMED: Final = 'start IS NULL OR "end" IS NULL OR (start = 0 AND "end" = 0) OR "end" < start'


def read(path: Path) -> Profile:
    """Read a SQLite export.

    Raises:
        CorruptFileError: The database is damaged or lacks columns.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
        InputError: It cannot be opened.
    """
    with export_of(path, path, NAME) as export:
        return profile(export)


class SqliteExport(Export):
    """An export's tables in a database, which SQLite itself asks where it knows soonest."""

    def __init__(self, file: SqliteFile, path: Path, reader: str, rows: Rows) -> None:
        self.path, self.reader, self._file = path, reader, file
        self.columns = {table: frozenset(names) for table, names in file.columns.items()}
        self.most_rows = file.most_rows(
            (t for t in export_schema.EVENTS if t in self.columns), rows
        )
        self._rows: Rows | None = rows

    def close(self) -> None:
        """Let go of the connection; another one is opened where more is asked."""
        self._rows = None

    def stored(self, table: str) -> KeptColumns:
        """What a table holds."""
        return self._file.stored(table)

    def has_rows(self, table: str) -> bool:
        """Whether a table has any row."""
        return bool(self._answer(f"SELECT 1 FROM {quoted(table)} LIMIT 1"))

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a small table, None where there is no value."""
        return self._answer(f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)}")

    def untimed(self, table: str) -> int:
        """As of any export, counted by SQLite: it decodes no column for that."""
        count = "SELECT count(*) FROM"
        first = f'(SELECT start, "end" FROM {quoted(table)} LIMIT {FIRST_ROWS})'
        ((untimed,),) = self._answer(f"{count} {first} WHERE {_UNTIMED}")
        if untimed and self.most_rows.get(table, FIRST_ROWS + 1) > FIRST_ROWS:
            ((untimed,),) = self._answer(f"{count} {quoted(table)} WHERE {_UNTIMED}")
        return int(untimed)

    def _answer(self, sql: str) -> list[tuple[Any, ...]]:
        return (self._rows or self._file.rows)(sql)


@contextmanager
def export_of(database: Path, path: Path, reader: str) -> Iterator[SqliteExport]:
    """The tables of a database, which answers small queries meanwhile.

    Args:
        database: The file.
        path: What the user named.
        reader: Name of the reader that asks.

    Raises:
        CorruptFileError: The database is damaged.
        InputError: It cannot be opened.
    """
    file = open_sqlite(database, export_schema.KINDS)
    with file.query_session() as rows:
        export = SqliteExport(file, path, reader, rows)
        try:
            yield export
        finally:
            export.close()


READER: Final = Reader(
    NAME,
    "Nsight Systems export, SQLite",
    "nsys 2019.5 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises=lambda head: head.startswith(MAGIC) and _MARK.encode() in head,
    # In a large database, not all definitions lie in the first pages.
    searches=lambda path: is_sqlite(path) and _MARK in tables_in(path),
)
