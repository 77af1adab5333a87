"""SQLite exports of Nsight Systems: ``nsys export --type sqlite`` and ``nsys stats``' own.

Without metadata (nsys 2019 to 2021) and schema 2.9 to 3.25 (2022.2 to 2026.2).
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gpuprof.model.profile import Profile
from gpuprof.model.spilling import KeptColumns
from gpuprof.model.stored import Stored
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.columns import FIRST_ROWS, Export
from gpuprof.readers.nsys.export import CANNOT, GIVES, profile
from gpuprof.readers.sqlite.source import MAGIC, SqliteFile, open_sqlite, quoted, tables_in

NAME: Final = "nsys-sqlite"
# Every export has this table.
_MARK: Final = "StringIds"
# To decode columns of fewer rows takes longer than to ask SQLite; of 90,000 it takes half.
_FEW_ROWS: Final = 4096
# Of activities, what hardly anyone does without who reads any of them: to decode these later takes
# another pass over the pages, which takes longer than they do.
_USUAL: Final = (
    *("deviceId", "streamId", "correlationId", "globalPid", "demangledName"),
    *("copyKind", "bytes", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
)
_UNTIMED: Final = 'start IS NULL OR "end" IS NULL OR (start = 0 AND "end" = 0) OR "end" < start'


def read(
    path: Path,
    database: Path | None = None,
    reader: str = NAME,
    recorder_version: str | None = None,
) -> Profile:
    """Read a SQLite export.

    Args:
        path: What the user named.
        database: The export of that; None where it is one.
        reader: Name of the reader that asks.
        recorder_version: Version of nsys that recorded; None where the export tells it.

    Raises:
        CorruptFileError: The database is damaged or lacks columns.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
        InputError: It cannot be opened.
    """
    file = open_sqlite(database or path, export_schema.KINDS)
    export = _SqliteExport(file, path, reader, recorder_version)
    # Small tables come on one connection; where more is asked for later, on others.
    with file.session():
        events = file.declared.keys() & {*export_schema.EVENTS}
        export.most_rows = {table: file.most_rows(table) for table in events}
        # Later each would need another connection, which takes longer than to ask.
        for asked_later in (export_schema.STRINGS, export_schema.SYNCHRONIZATION):
            file.most_rows(asked_later)
        with suppress(Exception):  # what fails is left to who asks for it
            _ = export.memcpy_kinds, export.memory_kinds, export.backtrace_class
        return profile(export)


class _SqliteExport(Export):
    """An export's tables in a database, which SQLite itself asks where it knows soonest."""

    def __init__(
        self, file: SqliteFile, path: Path, reader: str, recorder_version: str | None
    ) -> None:
        self.path, self.reader, self.recorder_version = path, reader, recorder_version
        self._file, self.stored, self._decoded = file, file.stored, dict[str, KeptColumns]()
        self.columns = {table: frozenset(names) for table, names in file.columns.items()}
        self.required = {
            table: frozenset(column.name for column in columns if column.is_required)
            for table, columns in file.declared.items()
        }

    def opened(self, table: str) -> Stored:
        """As of any export, with the columns that were decoded before."""
        return self._decoded.pop(table, None) or self._file.stored(table)

    def has_rows(self, table: str) -> bool:
        """Whether a table has any row."""
        return bool(self._file.rows(f"SELECT 1 FROM {quoted(table)} LIMIT 1"))

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a small table, None where there is no value."""
        return self._file.rows(f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)}")

    def untimed(self, table: str) -> int:
        """As of any export, counted by SQLite where that takes less than to decode two columns."""
        rows, untimed = quoted(table), 1
        most_rows = self.most_rows.get(table, FIRST_ROWS + 1)
        if _FEW_ROWS < most_rows <= FIRST_ROWS:
            self._decoded[table] = self._file.stored(table)  # for who opens the table next
            self._decoded[table].expect(_USUAL)
            return super().untimed(table)
        if most_rows > FIRST_ROWS:
            first = f'SELECT start, "end" FROM {rows} LIMIT {FIRST_ROWS}'
            ((untimed,),) = self._file.rows(f"SELECT count(*) FROM ({first}) WHERE {_UNTIMED}")
        if untimed:
            ((untimed,),) = self._file.rows(f"SELECT count(*) FROM {rows} WHERE {_UNTIMED}")
        return int(untimed)


READER: Final = Reader(
    NAME,
    "Nsight Systems export, SQLite",
    "nsys 2019.5 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises=lambda head: head.startswith(MAGIC) and _MARK.encode() in head,
    # In a large database, not all definitions lie in the first pages.
    searches=lambda path: _MARK in tables_in(path),
)
