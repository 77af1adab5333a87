"""SQLite exports of Nsight Systems: ``nsys export --type sqlite`` and ``nsys stats``' own.

Without metadata (nsys 2019 to 2021) and schema 2.9 to 3.25 (2022.2 to 2026.2).
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

from pathlib import Path
from typing import Final

from gpuprof.profile import Profile
from gpuprof.readers.contract import Reader
from gpuprof.readers.nsys import recording, tables
from gpuprof.readers.nsys.recording import CANNOT, GIVES, Export
from gpuprof.readers.sqlite.source import MAGIC, is_sqlite, open_sqlite

NAME: Final = "nsys-sqlite"
# Every export has this table.
_MARK: Final = "StringIds"


def read(path: Path) -> Profile:
    """Read a SQLite export.

    Raises:
        CorruptFileError: The database is damaged or lacks columns.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
        InputError: It cannot be opened.
    """
    return recording.profile(export_of(path, path, NAME))


def export_of(database: Path, path: Path, reader: str) -> Export:
    """The tables of a database.

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
    rows = file.most_rows(table for table in tables.EVENTS if table in columns)
    return Export(path, reader, columns, file.rows, file.prepare, file.failure, file.filled, rows)


READER: Final = Reader(
    NAME,
    "Nsight Systems export, SQLite",
    "nsys 2019.5 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises=lambda head: head.startswith(MAGIC) and _MARK.encode() in head,
    # In a large database, not all definitions lie in the first pages.
    searches=lambda path: is_sqlite(path) and _MARK in open_sqlite(path).columns,
)
