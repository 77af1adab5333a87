"""One way into SQLite files for every reader: read only, each column once, as queries name it.

The user's file is never written, and no file is made beside it. Rows of small queries come through
Python's own sqlite3. Columns of a table come from its pages where that is certain, else row by row,
and stay in memory for all who ask.

The compiled functions know plain tables of integers and texts. What they do not know (texts in
UTF-16, REAL, a column that was added later with a default, views, which may be any query, and
columns that hold other types than their tool writes) comes through Python's sqlite3, which casts
each value and bounds the work. Both give the same values.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary, finalize

import pyarrow as pa

from gpuprof.base.errors import ROOM, CorruptFileError, GpuprofError, InputError, excerpt
from gpuprof.model.spilling import InMemory, KeptColumns, Kinds, Packed
from gpuprof.native import pages
from gpuprof.readers.inputs import Stamp, changed, check_unchanged, stamp

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
_UNDECODED: Final = "decode to UTF-8"  # says sqlite3 of a text that it cannot
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

_ROWID: Final = -1
# Bytes that are shown as they are of a text that is no UTF-8.
_PLAIN: Final = frozenset(range(32, 127)) - frozenset(b"\\'\"")
_HINT: Final = "Export the file again; was it edited?"

_ANY: Final[Mapping[str, Kinds]] = {}
# One value per row each.
Columns = dict[str, InMemory]


class Declared(NamedTuple):
    """A column as the file declares it.

    Args:
        root: The root page of its table.
        name: Its name.
        place: Its place in the table.
        kind: Its type, in capitals.
        key: Its place in the primary key, from 1; 0 where it is outside the key.
        default: SQL of its default.
        hidden: Not 0 where rows do not hold it.
        is_required: 1 where SQLite wrote no NULL into it.
    """

    root: int
    name: str
    place: int
    kind: str
    key: int
    default: str | None
    hidden: int
    is_required: int


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
        size_bytes: How large it is, with what waits to be written into it.
        is_utf_8: Whether its texts are in UTF-8.
        columns: Table (or view) name to its columns' names and Arrow types.
        declared: Table name to its columns' declarations, where its rows have ids.
        keep: Holds a temporary copy while this object lives.
    """

    path: Path
    opened: Path
    uri: str
    stamp: Stamp
    size_bytes: int
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
        with nullcontext(self._session) if self._session else self.connected() as connection:
            connection.text_factory = str
            try:
                return connection.execute(sql).fetchall()
            except sqlite3.OperationalError as error:
                if _UNDECODED not in str(error):
                    raise
            connection.text_factory = readable  # to call it for each text takes longer
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
                partial(self.read, name),
                partial(self.most_rows, name),
            )
            table = self._kept_tables.setdefault(name, table)
        return table

    def read(self, table: str, kinds: Kinds) -> Columns:
        """Columns of a table in the order of its rows, numbers in the fewest bytes that hold them.

        Args:
            table: A table or a view.
            kinds: The wanted columns, with the type of what each holds: int64, float64, string or
                binary, which is given as the text of its hexadecimal digits.

        Raises:
            CorruptFileError: The file breaks while it is read, or a column has another type.
            InputError: Another program writes the file, or memory does not suffice.
        """
        if (fields := self.decoded_fields(table, kinds)) is None:
            return self.by_rows(table, kinds)
        try:
            with self.connected() as connection, self._locked(connection) as descriptor:
                try:
                    decoded = pages.decode(descriptor, self.declared[table][0].root, fields)
                except MemoryError as error:
                    msg = f"{self.path} needs more memory than is available"
                    raise InputError(msg, ROOM) from error
        except pages.NotDecodedError:
            return self.by_rows(table, kinds)
        by_name = zip(kinds.items(), decoded, strict=True)
        return {name: _of_pages(values, kind) for (name, kind), values in by_name}

    @contextmanager
    def _locked(self, connection: sqlite3.Connection) -> Iterator[int]:
        """A descriptor of the file; SQLite's lock of a connection keeps writers out meanwhile."""
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

    def decoded_fields(self, table: str, kinds: Kinds) -> list[pages.Field] | None:
        """How the compiled functions decode columns; None where SQLite itself must read them."""
        columns = self.declared.get(table, [])
        # Rows may wait in a file beside it, be those of a view, have no ids, or lack values.
        if self.keep is not None or not columns or any(column.hidden for column in columns):
            return None
        declared = {column.name: column for column in columns}
        keys, fields = sum(column.key > 0 for column in columns), []
        for name, kind in kinds.items():
            column = declared[name]
            if column.default not in {None, "NULL"} or pa.types.is_floating(kind):
                return None
            if pa.types.is_string(kind) and not self.is_utf_8:
                return None
            # SQLite stores a key of this very type as the row's id, and NULL in its place.
            is_id = column.key == keys == 1 and column.kind == "INTEGER"
            holds = {pa.string(): pages.TEXTS, pa.binary(): pages.BYTES}.get(kind, pages.INTEGERS)
            fields.append(pages.Field(_ROWID if is_id else column.place, holds))
        return fields

    def by_rows(self, table: str, kinds: Kinds) -> Columns:
        """The same through Python's sqlite3, whatever the file holds.

        Raises:
            CorruptFileError: The file breaks while it is read, or a column has another type.
            InputError: Another program writes the file.
        """
        where, before = f"{self.path}, table {table}", 0
        as_text = {pa.string(): "CAST({} AS TEXT)", pa.binary(): "CAST(lower(hex({})) AS TEXT)"}
        columns = (as_text.get(kind, "{}").format(quoted(name)) for name, kind in kinds.items())
        types = {n: pa.string() if pa.types.is_binary(kind) else kind for n, kind in kinds.items()}
        parts: dict[str, list[pa.Array]] = {
            name: [pa.array([], kind)] for name, kind in types.items()
        }
        for rows in self.bounded_rows(f"SELECT {', '.join(columns)} FROM {quoted(table)}"):
            for (name, kind), values in zip(types.items(), zip(*rows, strict=True), strict=True):
                try:
                    # Told a type, Arrow would cut 1.5 to 1.
                    parts[name].append(pa.array(values).cast(kind))
                except (pa.ArrowException, OverflowError):
                    for row, value in enumerate(values, before + 1):
                        try:
                            parts[name].append(pa.array([value]).cast(kind))
                        except (pa.ArrowException, OverflowError) as error:
                            msg = f"{where}: column {name} holds {excerpt(value)} in row {row:,}"
                            raise CorruptFileError(msg, _HINT) from error
            before += len(rows)
        return {name: pa.concat_arrays(arrays) for name, arrays in parts.items()}

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
        try:
            check_unchanged(self.opened, self.stamp)
            with self._connection() as connection:
                yield connection
            check_unchanged(self.opened, self.stamp)
        except _BREAKS as error:
            raise self.failure(error) or self._damage() from error

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """The same without a word on what breaks.

        Raises:
            KeyboardInterrupt: Ctrl-C ended a query: it reaches Python while it counts steps.
        """
        steps_left = _FEW_STEPS + _STEPS_PER_BYTE * self.size_bytes

        def count_steps() -> bool:
            nonlocal steps_left
            steps_left -= _STEPS_AT_ONCE
            return steps_left < 0  # ends the query

        connection = sqlite3.connect(
            self.uri, uri=True, timeout=_LOCK_WAIT_S, check_same_thread=False
        )
        connection.text_factory = readable
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.set_progress_handler(count_steps, _STEPS_AT_ONCE)
        try:
            with closing(connection):
                yield connection
        except sqlite3.Error as error:
            if _STOPPED in str(error) and steps_left >= 0:
                raise KeyboardInterrupt from error
            raise

    def _damage(self) -> GpuprofError:
        """The first table that cannot be read to its end.

        Raises:
            InputError: The file has changed, which explains what was found in it.
        """
        check_unchanged(self.opened, self.stamp)
        where, why = f"{self.path}", "it cannot be opened"
        for table in self.columns:
            try:
                with self._connection() as connection:
                    for _ in connection.execute(f"SELECT * FROM {quoted(table)}"):
                        pass
            except _BREAKS as error:
                where, why = f"{self.path}, table {table}", str(error) or "a size beyond all memory"
                break
        return CorruptFileError(
            f"{where}: the database is damaged ({why})",
            "Copy or export the file again; if it was still being written, wait for its end.",
        )


def open_sqlite(path: Path, kinds: Mapping[str, Kinds] = _ANY) -> SqliteFile:
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
        uri, about_copy = copy.path.as_uri() + "?mode=ro", stamp(copy.path.stat())
        size_bytes = about_copy.size_bytes + wal.stat().st_size
        return SqliteFile(path, copy.path, uri, about_copy, size_bytes, is_utf_8, keep=copy)
    # In WAL mode SQLite makes files beside the database unless told that nobody writes it.
    still = "&immutable=1" if head[18:20] == b"\x02\x02" else ""
    uri = f"{path.absolute().as_uri()}?mode=ro{still}"
    return SqliteFile(path, path, uri, stamp(about), about.st_size, is_utf_8)


def _of_pages(decoded: pages.Decoded, kind: pa.DataType) -> Packed:
    parts, meanings, nulls, texts = decoded
    if texts is None:
        return Packed(parts, meanings, has_nulls=nulls > 0)
    words: list[str | None] = []
    if pa.types.is_binary(kind):
        words += map(bytes.hex, texts)
    else:
        with suppress(UnicodeDecodeError):  # all at once where none holds what stands between them
            words += b"\0".join(texts).decode().split("\0")
        if len(words) != len(texts):
            words = [*map(readable, texts)]
    return Packed(parts, words=[*words, None] if nulls else words)


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


def quoted(name: str) -> str:
    """SQL: a name."""
    return '"' + name.replace('"', '""') + '"'


def readable(text: bytes) -> str:
    r"""A text whose bytes need not be UTF-8: then the others as ``\xE4``.

    A name cut in the middle of a character is a name still, and two such names stay two.
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if b in _PLAIN else f"\\x{b:02X}" for b in text)


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
