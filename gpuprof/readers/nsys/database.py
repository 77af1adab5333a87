"""SQLite exports of Nsight Systems: ``nsys export --type sqlite`` and ``nsys stats``' own.

Without metadata (nsys 2019 to 2021) and schema 2.9 to 3.25 (2022.2 to 2026.2).
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.model import schema
from gpuprof.model.profile import Profile
from gpuprof.model.spilling import batches
from gpuprof.model.stored import Values, values
from gpuprof.model.views import View
from gpuprof.native.pages import NotDecodedError
from gpuprof.readers.contract import Reader
from gpuprof.readers.nsys import recording, tables
from gpuprof.readers.nsys.recording import CANNOT, GIVES, Export
from gpuprof.readers.sqlite import table as sqlite_table
from gpuprof.readers.sqlite.source import MAGIC, SqliteFile, is_sqlite, open_sqlite, tables_in

NAME: Final = "nsys-sqlite"
# Every export has this table.
_MARK: Final = "StringIds"
_SMALL: Final = ("devices", "runs")


def read(path: Path) -> Profile:
    """Read a SQLite export.

    Raises:
        CorruptFileError: The database is damaged or lacks columns.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
        InputError: It cannot be opened.
    """
    with export_of(path, path, NAME) as export:
        profile = recording.profile(export)
        return replace(profile, sources={**profile.sources, **dict(_small_tables(profile, export))})


def _small_tables(profile: Profile, export: Export) -> Iterator[tuple[str, pa.Table]]:
    """Tables of few rows, which SQLite reads sooner than DuckDB plans a query.

    Those that hold what they should not stay as they are: whoever asks for them is told.
    """
    for name in _SMALL:
        view = profile.sources.get(name)
        if not isinstance(view, View) or any(t in view.selects[0].source for t in tables.EVENTS):
            continue
        spec = schema.BY_NAME[name]
        names = [name for name in spec.columns if name in view.columns]
        sql = view.sql(names).replace("raw.", "")
        with suppress(sqlite3.Error, TypeError, ValueError, OverflowError):
            rows = [dict(zip(names, row, strict=True)) for row in export.rows(sql)]
            table = spec.table(rows)
            if spec.fault(table) is None:
                yield name, table


@contextmanager
def export_of(database: Path, path: Path, reader: str) -> Iterator[Export]:
    """The tables of a database, which answers small queries meanwhile.

    Args:
        database: The file.
        path: What the user named.
        reader: Name of the reader that asks.

    Raises:
        CorruptFileError: The database is damaged.
        InputError: It cannot be opened.
    """
    file = open_sqlite(database, tables.KINDS)
    columns = {table: frozenset(names) for table, names in file.columns.items()}
    with file.query_session() as rows:
        most = file.most_rows((table for table in tables.EVENTS if table in columns), rows)
        few = [table for table, count in most.items() if count <= recording.FIRST_ROWS]
        yield Export(
            path,
            reader,
            columns,
            rows,
            file.prepare,
            file.failure,
            file.filled,
            most,
            integers=lambda table, names: _integers(file, table, names) if table in few else None,
        )


def _integers(file: SqliteFile, table: str, names: Sequence[str]) -> list[list[Values]] | None:
    """Columns of a table, piece by piece; None where the compiled functions do not read them."""
    try:
        columns = sqlite_table.from_pages(file, table, dict.fromkeys(names, pa.int64()))
    except (sqlite_table.NotReadError, NotDecodedError):
        return None
    pieces = batches(columns, len(columns[names[0]]))
    return [[*map(values, piece.columns)] for piece in pieces]


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
