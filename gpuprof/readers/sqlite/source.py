"""One way into SQLite files for every reader: read only, each column once, as queries name it.

The user's file is never written, and no file is made beside it. Columns come as `table_columns`
says, and stay in memory for all later queries; rows of small queries come through Python's own
sqlite3.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary, finalize

import pyarrow as pa

from gpuprof.base.errors import ROOM, CorruptFileError, GpuprofError, InputError
from gpuprof.model.spilling import KeptColumns
from gpuprof.readers.inputs import Stamp, changed, check_unchanged, stamp
from gpuprof.readers.sqlite import table_columns
from gpuprof.readers.sqlite.table_columns import Declared, quoted, readable

MAGIC: Final = b"SQLite format 3\x00"
# More of these, as objects of Python, do not fit into a processor's cache.
_BATCH_ROWS: Final = 4_096
_LOCK_WAIT_S: Final = 2.0
# A name that is a BLOB is damage, which is reported when the table is read.
_NAMES: Final = "SELECT CAST(name AS TEXT) FROM sqlite_master WHERE type IN ('table', 'view')"
# Of a table whose rows have ids, its root page, of others none; then what `Declared` has.
_COLUMNS: Final = (
    "SELECT CAST(m.name AS TEXT), CASE WHEN m.type = 'table' AND typeof(m.name) = 'text'"
    " AND m.sql NOT LIKE '%WITHOUT%ROWID%' THEN m.rootpage END, c.name, c.cid, upper(c.type),"
    " c.pk, c.dflt_value, c.hidden, c.[notnull]"
    " FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c WHERE m.type IN ('table', 'view')"
)
# Messages of SQLite where the file is at fault, not the query.
_FAULTS: Final = ("malformed", "disk i/o", "not a database")
# SQLite's steps: a row of a table takes fewer than one per byte. A second and more for each 10**8.
_FEW_STEPS: Final = 100_000_000
_STEPS_PER_BYTE: Final = 100
_STEPS_AT_ONCE: Final = 100_000
# What SQLite says where it was stopped after these.
_STOPPED: Final = "interrupted"
_FEW_ROWS: Final = 10_000
# A cell on a page with its pointer.
_LEAST_BYTES_OF_A_ROW: Final = 6
# No text or blob that is read is longer, or is made so by a view.
_LONGEST_VALUE: Final = 1 << 28
_HEADER_BYTES: Final = 100
_ENCODING: Final = slice(56, 60)
_UTF_8: Final = 1
# What a file that breaks raises, row by row or in a small query; a damaged size asks for too much.
_BREAKS: Final = (sqlite3.Error, UnicodeDecodeError, MemoryError)

_Kinds = Mapping[str, Mapping[str, pa.DataType]]
_ANY: Final[_Kinds] = {}


@dataclass(eq=False)
class SqliteFile:
    """A SQLite file that is opened anew for each use, and only for reading.

    Every use raises `InputError` where the file is no longer what it was when it was opened first:
    what was read before and what would be read now are of two recordings.

    Args:
        path: The user's file, as messages name it.
        opened: What is opened: the file itself, or a copy where SQLite would write.
        uri: How SQLite opens it.
        stamp: Of the file that is opened, before anything of it was read.
        is_utf_8: Whether its texts are in UTF-8.
        columns: Table (or view) name to its columns' names and Arrow types.
        declared: Table name to its columns' declarations, where its rows have ids.
        keep: Holds a temporary copy while this object lives.
    """

    path: Path
    opened: Path
    uri: str
    stamp: Stamp
    is_utf_8: bool
    columns: dict[str, dict[str, pa.DataType]] = field(default_factory=dict, repr=False)
    declared: dict[str, list[Declared]] = field(default_factory=dict, repr=False)
    keep: "_WithWal | None" = field(default=None, repr=False)
    _last_ids: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _kept_tables: WeakValueDictionary[str, KeptColumns] = field(
        default_factory=WeakValueDictionary, init=False, repr=False
    )
    _session: sqlite3.Connection | None = field(default=None, init=False, repr=False)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small query.

        Raises:
            CorruptFileError: The file breaks while it is read.
            InputError: Another program holds it locked.
        """
        if self._session is not None:
            return self._session.execute(sql).fetchall()
        with self.connected() as connection:
            return connection.execute(sql).fetchall()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Have one connection answer `rows`: each reads what tables there are, which takes longer.

        Nothing else may ask the file meanwhile.
        """
        with self.connected() as connection:
            self._session = connection
            try:
                yield
            finally:
                self._session = None

    def most_rows(self, table: str) -> int:
        """How many rows a table held at most when that was first asked, by its last id.

        0 for one whose rows have no ids.
        """
        if table not in self._last_ids and table in self.declared:
            ((last,),) = self.rows(f"SELECT max(rowid) FROM {quoted(table)}")
            self._last_ids[table] = last or 0
        return self._last_ids.get(table, 0)

    def stored(self, name: str) -> KeptColumns:
        """What a table holds, read when it is asked for; shared by all who ask meanwhile."""
        table = self._kept_tables.get(name)
        if table is None:
            table = KeptColumns(
                self.columns[name],
                partial(table_columns.read, self, name),
                partial(self.most_rows, name),
            )
            table = self._kept_tables.setdefault(name, table)
        return table

    def bounded_rows(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query that may be a view's, which can make any number of them, in pieces.

        Raises:
            CorruptFileError: The file breaks while it is read, or makes more rows than its size.
            InputError: Another program holds it locked.
        """
        allowed = _FEW_ROWS + self.size_bytes // _LEAST_BYTES_OF_A_ROW
        with self.connected() as connection:
            cursor = connection.execute(sql)
            while rows := cursor.fetchmany(_BATCH_ROWS):
                yield rows
                allowed -= len(rows)
                if allowed < 0:
                    raise _endless(self.path)

    @contextmanager
    def locked(self, connection: sqlite3.Connection) -> Iterator[int]:
        """A descriptor of the file; SQLite's lock of a connection keeps writers out meanwhile.

        Raises:
            InputError: Another program has changed the file.
        """
        connection.execute("BEGIN")
        # To read anything takes the lock that keeps writers out; this reads no tables' names.
        connection.execute("PRAGMA schema_version").fetchone()
        # The lock goes with the first descriptor of the file that is closed: this one.
        descriptor = os.open(self.opened, os.O_RDONLY)
        try:
            yield descriptor
            if stamp(os.fstat(descriptor)) != self.stamp:
                raise changed(self.path)
        finally:
            os.close(descriptor)

    def failure(self, error: Exception) -> GpuprofError | None:
        """What a failed query says about the file; None where the file is not at fault."""
        text = str(error).lower()
        if "locked" in text:
            msg = f"{self.path} is locked by another program"
            hint = (
                "Is it still being exported? Wait for that, or close the program that has it open."
            )
            return InputError(msg, hint)
        if _STOPPED in text:
            return _endless(self.path)
        return self._damage() if any(fault in text for fault in _FAULTS) else None

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write, nor work longer than the file's size allows.

        Raises:
            CorruptFileError: The file breaks in its use.
            InputError: Another program holds it locked, or has changed it.
        """
        steps = _Steps(self.size_bytes)
        try:
            check_unchanged(self.opened, self.stamp)
            with closing(self._connect(steps)) as connection:
                yield connection
            check_unchanged(self.opened, self.stamp)
        except _BREAKS as error:
            steps.pass_on_ctrl_c(error)
            raise self.failure(error) or self._damage() from error

    def _connect(self, steps: "_Steps") -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.uri, uri=True, timeout=_LOCK_WAIT_S, check_same_thread=False
        )
        connection.text_factory = readable
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.set_progress_handler(steps.taken, _STEPS_AT_ONCE)
        return connection

    @property
    def size_bytes(self) -> int:
        """How large the file is, with what waits to be written into it."""
        wal = self.opened.with_name(f"{self.opened.name}-wal")
        return self.stamp.size_bytes + (wal.stat().st_size if wal.exists() else 0)

    def _damage(self) -> GpuprofError:
        """The first table that cannot be read to its end.

        Raises:
            InputError: The file has changed, which explains what was found in it.
        """
        check_unchanged(self.opened, self.stamp)
        where, why = f"{self.path}", "it cannot be opened"
        for table in self.columns:
            steps = _Steps(self.size_bytes)
            try:
                with closing(self._connect(steps)) as connection:
                    for _ in connection.execute(f"SELECT * FROM {quoted(table)}"):
                        pass
            except _BREAKS as error:
                steps.pass_on_ctrl_c(error)
                where, why = f"{self.path}, table {table}", str(error) or "a size beyond all memory"
                break
        return CorruptFileError(
            f"{where}: the database is damaged ({why})",
            "Copy or export the file again; if it was still being written, wait for its end.",
        )


def open_sqlite(path: Path, kinds: _Kinds = _ANY) -> SqliteFile:
    """Open a SQLite file for reading and see which tables it has.

    Args:
        path: The file.
        kinds: By table and column, the types of the columns to read; others are as declared.

    Raises:
        CorruptFileError: It is cut short or damaged.
        InputError: It cannot be opened, or another program holds it locked.
    """
    file = _unseen(path)
    for table, root, *about in file.rows(_COLUMNS):
        column = Declared(root, *about)
        if root is not None:
            file.declared.setdefault(table, []).append(column)
        if not column.hidden:
            kind = kinds.get(table, {}).get(column.name, _affinity(column.kind))
            file.columns.setdefault(table, {})[column.name] = kind or pa.string()
    return file


def tables_in(path: Path) -> frozenset[str]:
    """The tables and views of a SQLite file by their names; none of a file that is no database.

    Raises:
        CorruptFileError: It is cut short or damaged.
        InputError: It cannot be opened, or another program holds it locked.
    """
    with path.open("rb") as file:
        is_database = file.read(len(MAGIC)) == MAGIC
    return frozenset(name for (name,) in _unseen(path).rows(_NAMES)) if is_database else frozenset()


def _unseen(path: Path) -> SqliteFile:
    """A file whose tables are not known yet."""
    try:
        with path.open("rb") as opened:
            about, head = os.fstat(opened.fileno()), opened.read(_HEADER_BYTES)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    # The header tells the length where it was kept up.
    page = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65_536 if page == 1 else page)
    is_kept_up, is_whole = head[24:28] == head[92:96], len(head) == _HEADER_BYTES
    if not is_whole or (is_kept_up and about.st_size < expected):
        total = f" of {expected:,}" if is_whole else ""
        msg = f"{path} is cut short: it ends after {about.st_size:,}{total} bytes"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.")
    is_utf_8 = int.from_bytes(head[_ENCODING], "big") == _UTF_8
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        # SQLite would make a -shm file beside the user's to read what waits in the -wal.
        copy = _WithWal(path, wal, stamp(about))
        uri = copy.path.as_uri() + "?mode=ro"
        return SqliteFile(path, copy.path, uri, stamp(copy.path.stat()), is_utf_8, keep=copy)
    # In WAL mode SQLite makes files beside the database unless told that nobody writes it.
    still = "&immutable=1" if head[18:20] == b"\x02\x02" else ""
    uri = f"{path.absolute().as_uri()}?mode=ro{still}"
    return SqliteFile(path, path, uri, stamp(about), is_utf_8)


@cache
def _affinity(declared: str) -> pa.DataType | None:
    """SQLite's own rules for a type in capitals; None for what is none of these."""
    if "INT" in declared:
        return pa.int64()
    if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
        return pa.float64()
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return pa.string()
    return None


def _endless(path: Path) -> CorruptFileError:
    return CorruptFileError(
        f"{path}: a query takes more work than a recording of its size: one of its views may never"
        " end",
        "Export it again: exports have tables, not views.",
    )


class _WithWal:
    """A database and its -wal in a temporary folder, for as long as this object lives."""

    def __init__(self, path: Path, wal: Path, before: Stamp) -> None:
        folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            stamps = before, stamp(wal.stat())
            for file in (path, wal):
                shutil.copy2(file, folder)
            if (stamp(path.stat()), stamp(wal.stat())) != stamps:
                raise changed(path)
        except OSError as error:
            msg = f"{path} and its -wal cannot be copied to {folder}: {error.strerror}"
            raise InputError(msg, ROOM) from error
        self.path = folder / path.name


class _Steps:
    """Ends a query that takes more steps than one of a file of a size may."""

    def __init__(self, size_bytes: int) -> None:
        self._left = _FEW_STEPS + _STEPS_PER_BYTE * size_bytes

    def taken(self) -> bool:
        """Count the next steps; whether the query ends here."""
        self._left -= _STEPS_AT_ONCE
        return self._left < 0

    def pass_on_ctrl_c(self, error: BaseException) -> None:
        """Raise Ctrl-C anew where it ended the query: it reaches Python while it counts steps.

        Raises:
            KeyboardInterrupt: The query was stopped, and not for its number of steps.
        """
        if _STOPPED in str(error) and self._left >= 0:
            raise KeyboardInterrupt from error
