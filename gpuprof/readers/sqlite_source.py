"""One way into SQLite files for every reader: read only, fast where DuckDB's scanner is there.

With the package ``duckdb-extension-sqlite-scanner`` of the same version as DuckDB (extra
``fast``), DuckDB reads the file itself. Without it, Python's own sqlite3 hands over the rows.
Both give the same tables. The user's file is never written, and no file is made beside it.

A table whose columns are declared otherwise than its tool declares them, and a view, which may be
any query, also come through sqlite3: there each value is cast, and a view's work is bounded.
"""

import json
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof import engine, json_input
from gpuprof.errors import ROOM, CorruptFileError, GpuprofError, InputError

if TYPE_CHECKING:
    import duckdb

MAGIC: Final = engine.SQLITE_MAGIC
_BATCH_ROWS: Final = 65_536
_LOCK_WAIT_S: Final = 2.0
# A name that is a BLOB is damage, which whoever reads the table is told of.
_COLUMNS: Final = (
    "SELECT CAST(m.name AS TEXT), m.type = 'view', c.name, c.type, c.\"notnull\" FROM"
    " sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type IN ('table', 'view')"
)
# Tables, not views, whose rows have ids.
_NUMBERED: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%WITHOUT ROWID%'"
)
# Bytes that DuckDB shows as they are when a BLOB becomes text.
_PLAIN: Final = frozenset(range(32, 127)) - frozenset(b"\\'\"")
# What SQLite and DuckDB's scanner say of a file that is at fault, not the query.
_FAULTS: Final = ("malformed", "disk i/o", "not a database")
# What DuckDB says where a column is declared as, or holds, another type than its tool gives it.
_OTHER_TYPE: Final = ("mismatch", "no function matches", "conversion error")
_MISMATCH: Final = "type mismatch"
# SQLite's steps: a row of a table takes fewer than one per byte. A second and more for each 10**8.
_FEW_STEPS: Final = 100_000_000
_STEPS_PER_BYTE: Final = 100
_STEPS_AT_ONCE: Final = 100_000
# What SQLite says where it was stopped after these.
_STOPPED: Final = "interrupted"
_FEW_ROWS: Final = 10_000
# No text or blob that is read is longer, or is made so by a view.
_LONGEST_VALUE: Final = 1 << 28
_LONGEST_SHOWN: Final = 40
# What a file that breaks raises, row by row or in a small query; a damaged size asks for too much.
_BREAKS: Final = (sqlite3.Error, UnicodeDecodeError, MemoryError)

_Kinds = Mapping[str, Mapping[str, pa.DataType]]
_ANY: Final[_Kinds] = {}


@dataclass(frozen=True)
class SqliteFile:
    """A SQLite file that is opened anew for each use, and only for reading.

    Args:
        path: The user's file, as messages name it.
        uri: How SQLite opens it: the file itself, or a copy where SQLite would write.
        columns: Table (or view) name to its columns' names and Arrow types.
        filled: Table name to the columns that are declared to hold no null.
        keep: Holds a temporary copy while this object lives.
        streamed: Tables whose rows sqlite3 must hand over: views, and tables with columns of
            other types than their tool declares.
    """

    path: Path
    uri: str
    columns: Mapping[str, Mapping[str, pa.DataType]] = field(repr=False)
    filled: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    keep: "_Copy | None" = field(default=None, repr=False)
    streamed: frozenset[str] = frozenset()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small query.

        Raises:
            CorruptFileError: The file breaks while it is read.
            InputError: Another program holds it locked.
        """
        try:
            with closing(self.connect()) as connection:
                return connection.execute(sql).fetchall()
        except _BREAKS as error:
            raise self.failure(error) or self._damage() from error

    def most_rows(self, tables: Iterable[str]) -> int:
        """How many rows tables hold at most, told by their last ids without reading them."""
        numbered = {name for (name,) in self.rows(_NUMBERED)}
        last = [f"SELECT max(rowid) FROM {_quoted(t)}" for t in tables if t in numbered]
        return sum(self.rows(sql)[0][0] or 0 for sql in last)

    def prepare(self, connection: "duckdb.DuckDBPyConnection") -> Callable[[str], None] | None:
        """Make all tables visible to DuckDB as ``raw.NAME``.

        Returns:
            What must be told each query before it runs; None where DuckDB reads by itself.
        """
        if self._attached(connection):
            return None
        connection.execute("CREATE SCHEMA raw")
        streams = [_Stream(self, table) for table in self.columns]
        for stream in streams:
            stream.show(connection)

        def herald(sql: str) -> None:
            (plan,) = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()
            scans = "\n".join(_arrow_scans(json_input.loads(plan[1])))
            for stream in streams:
                stream.expect(scans)

        return herald

    def failure(self, error: Exception) -> GpuprofError | None:
        """What a failed query says about the file; None where the file is not at fault."""
        if isinstance(error, UnicodeDecodeError):  # DuckDB quotes what it found in the file.
            return self._damage()
        text = str(error).lower()
        if "locked" in text:
            return _locked(self.path)
        if _STOPPED in text:
            return _endless(self.path)
        if any(sign in text for sign in _OTHER_TYPE):
            return self.mismatch()
        return self._damage() if any(fault in text for fault in _FAULTS) else None

    def _attached(self, connection: "duckdb.DuckDBPyConnection") -> bool:
        if "immutable" in self.uri or self.streamed or not engine.load_scanner(connection):
            return False
        connection.execute(f"ATTACH {engine.literal(self._file)} AS raw (TYPE sqlite, READ_ONLY)")
        return True

    @property
    def _file(self) -> Path:
        return self.path if self.keep is None else self.keep.path

    def connect(self) -> sqlite3.Connection:
        """A connection that cannot write, nor work longer than the file's size allows."""
        connection = sqlite3.connect(
            self.uri, uri=True, timeout=_LOCK_WAIT_S, check_same_thread=False
        )
        connection.text_factory = _decoded
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        steps = range((_FEW_STEPS + _STEPS_PER_BYTE * self.size_bytes) // _STEPS_AT_ONCE)
        allowed = iter(steps)
        connection.set_progress_handler(lambda: next(allowed, None) is None, _STEPS_AT_ONCE)
        return connection

    @property
    def size_bytes(self) -> int:
        """How large the file is, with what waits to be written into it."""
        wal = self._file.with_name(f"{self._file.name}-wal")
        return self._file.stat().st_size + (wal.stat().st_size if wal.exists() else 0)

    def _damage(self) -> GpuprofError:
        """The first table that cannot be read to its end."""
        where, why = f"{self.path}", "it cannot be opened"
        for table in self.columns:
            try:
                with closing(self.connect()) as connection:
                    for _ in connection.execute(f"SELECT * FROM {_quoted(table)}"):
                        pass
            except _BREAKS as error:
                where, why = f"{self.path}, table {table}", str(error) or "a size beyond all memory"
                break
        return CorruptFileError(
            f"{where}: the database is damaged ({why})",
            "Copy or export the file again; if it was still being written, wait for its end.",
        )

    def mismatch(self) -> GpuprofError:
        """The first cell that holds something else than its column is declared to hold."""
        for table, columns in self.columns.items():
            for column, kind in columns.items():
                row, value = self._first_of_another_type(table, column, kind)
                if value is not None:
                    msg = (
                        f"{self.path}, table {table}: column {column} holds {value} in row {row:,}"
                    )
                    return CorruptFileError(msg, "Export the file again; was it edited?")
        return CorruptFileError(f"{self.path}: a column holds another type than it declares")

    def _first_of_another_type(
        self, table: str, column: str, kind: pa.DataType
    ) -> tuple[int, str | None]:
        """The number of a row, and what it holds; None where every row holds what it may."""
        if table in self.streamed:
            return self._first_that_fails(table, column, kind)
        if kind == pa.string():
            return 0, None
        number = "('integer', 'null')" if kind == pa.int64() else "('real', 'null')"
        rows = self.rows(
            f"SELECT row, type FROM (SELECT row_number() OVER () AS row,"
            f" typeof({_quoted(column)}) AS type FROM {_quoted(table)})"
            f" WHERE type NOT IN {number} LIMIT 1"
        )
        return (rows[0][0], f"a {rows[0][1]}") if rows else (0, None)

    def _first_that_fails(
        self, table: str, column: str, kind: pa.DataType
    ) -> tuple[int, str | None]:
        with closing(self.connect()) as connection:
            cursor = connection.execute(f"SELECT {_quoted(column)} FROM {_quoted(table)}")
            for row, values in enumerate(cursor, 1):
                try:
                    _array(values, kind)
                except TypeError:
                    return row, repr(values[0])[:_LONGEST_SHOWN]
        return 0, None


def is_sqlite(path: Path) -> bool:
    """Whether a file says that it is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def open_sqlite(path: Path, kinds: _Kinds = _ANY) -> SqliteFile:
    """Open a SQLite file for reading and see which tables it has.

    Args:
        path: The file.
        kinds: By table and column, the types of what is read from it; others are as declared.

    Raises:
        CorruptFileError: It is cut short or damaged.
        InputError: It cannot be opened, or another program holds it locked.
    """
    _check_length(path)
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        # SQLite would make a -shm file beside the user's to read what waits in the -wal.
        copy = _Copy(path, wal)
        return _with_columns(
            SqliteFile(path, copy.path.as_uri() + "?mode=ro", {}, keep=copy), kinds
        )
    # In WAL mode SQLite makes files beside the database unless told that nobody writes it.
    still = _in_wal_mode(path)
    uri = path.absolute().as_uri() + "?mode=ro" + ("&immutable=1" if still else "")
    return _with_columns(SqliteFile(path, uri, {}), kinds)


def text(column: str) -> str:
    """SQL for a text column whose bytes need not be UTF-8: then as DuckDB shows a BLOB.

    A name cut in the middle of a character is a name still, and two such names stay two.
    """
    return f"coalesce(try(decode(encode({column}))), CAST(encode({column}) AS VARCHAR))"


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if b in _PLAIN else f"\\x{b:02X}" for b in raw)


def _with_columns(file: SqliteFile, kinds: _Kinds) -> SqliteFile:
    """The file with its tables and their columns."""
    columns: dict[str, dict[str, pa.DataType]] = {}
    filled: dict[str, set[str]] = {}
    streamed = set()
    for table, is_view, column, declared, is_filled in file.rows(_COLUMNS):
        as_declared = _affinity(declared)
        kind = kinds.get(table, {}).get(column, as_declared)
        columns.setdefault(table, {})[column] = kind or pa.string()
        filled.setdefault(table, set()).update([column] if is_filled else [])
        if table in kinds and (is_view or kind != as_declared):
            streamed.add(table)
    return replace(
        file,
        columns=columns,
        filled={t: frozenset(f) for t, f in filled.items()},
        streamed=frozenset(streamed),
    )


def _affinity(declared: str) -> pa.DataType | None:
    """SQLite's own rules, as DuckDB's scanner follows them; None for what is none of these."""
    declared = declared.upper()
    if "INT" in declared:
        return pa.int64()
    if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
        return pa.float64()
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return pa.string()
    return None


def _check_length(path: Path) -> None:
    """Compare the length that the header tells (where it was kept up) with the file's."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    page = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65_536 if page == 1 else page)
    kept_up = head[24:28] == head[92:96]
    if len(head) < 100 or (kept_up and size < expected):  # noqa: PLR2004 - SQLite's header
        total = f" of {expected:,}" if len(head) == 100 else ""  # noqa: PLR2004
        msg = f"{path} is cut short: it ends after {size:,}{total} bytes"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.")


def _in_wal_mode(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


def _endless(path: Path) -> CorruptFileError:
    return CorruptFileError(
        f"{path}: a query takes more work than a recording of its size: one of its views may never"
        " end",
        "Export it again: exports hold tables, and no views.",
    )


def _locked(path: Path) -> InputError:
    return InputError(
        f"{path} is locked by another program",
        "Is it still being exported? Wait for that, or close the program that has it open.",
    )


class _Copy:
    """A database and its -wal in a temporary folder, for as long as this object lives."""

    def __init__(self, path: Path, wal: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            for file in (path, wal):
                shutil.copy2(file, folder)
        except OSError as error:
            msg = f"{path} and its -wal cannot be copied to {folder}: {error.strerror}"
            raise InputError(msg, ROOM) from error
        self.path = folder / path.name


class _Stream:
    """A table as a stream of Arrow batches, of which only the expected columns are read.

    DuckDB starts it anew for each query, and takes all columns: the others are null.
    """

    def __init__(self, file: SqliteFile, table: str) -> None:
        self._file, self._table, self._columns = file, table, file.columns[table]
        # In a query's plan these name the column and its table.
        self._labels = {name: f"{table}.{name}." for name in self._columns}
        self._expected = frozenset(self._columns)
        self._schema = pa.schema([(self._labels[name], k) for name, k in self._columns.items()])

    def show(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the stream visible as a table of DuckDB."""
        stream = f"stream of {self._table}"
        connection.register(stream, self)
        names = ", ".join(f"{_quoted(self._labels[n])} AS {_quoted(n)}" for n in self._columns)
        connection.execute(
            f"CREATE VIEW raw.{_quoted(self._table)} AS SELECT {names} FROM {_quoted(stream)}"
        )

    def expect(self, scans: str) -> None:
        """Read only the columns that a query's plan names from now on."""
        self._expected = frozenset(n for n, label in self._labels.items() if label in scans)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        chosen = [name for name in self._columns if name in self._expected]
        names = ", ".join(map(_quoted, chosen)) or "NULL"
        with closing(self._file.connect()) as connection:
            cursor = connection.execute(f"SELECT {names} FROM {_quoted(self._table)}")
            allowed = _FEW_ROWS + self._file.size_bytes
            while rows := cursor.fetchmany(_BATCH_ROWS):
                allowed -= len(rows)
                if allowed < 0:  # A view may make any number of them.
                    raise sqlite3.OperationalError(_STOPPED)
                read = dict(zip(chosen, zip(*rows, strict=True), strict=False))
                yield pa.record_batch(
                    [
                        _array(read[name], kind) if name in read else pa.nulls(len(rows), kind)
                        for name, kind in self._columns.items()
                    ],
                    schema=self._schema,
                )


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """Values as Arrow data of their column's type; told a type, Arrow would cut 1.5 to 1.

    Raises:
        TypeError: A value is of another type, or of several.
    """
    try:
        return pa.array(values).cast(kind)
    except (pa.ArrowException, OverflowError) as error:
        raise TypeError(_MISMATCH) from error


def _arrow_scans(plan: list[dict[str, Any]]) -> Iterator[str]:
    """What a query's plan reads from streams, node by node."""
    for node in plan:
        if "ARROW" in node["name"]:
            yield json.dumps(node["extra_info"], ensure_ascii=False)
        yield from _arrow_scans(node["children"])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
