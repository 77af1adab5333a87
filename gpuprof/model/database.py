"""SQL over the tables of one recording, whose columns are read as queries name them.

A table is visible under its name, restricted to the recording's selection, and without that as
``unrestricted.NAME``; the names of kernels and API calls also by their numbers, as
``kernels_names``.
"""

import re
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from gpuprof.base import signals
from gpuprof.base.errors import ROOM, CorruptFileError, GpuprofError, InputError
from gpuprof.model import borders, columns, derived, schema, sessions, stored
from gpuprof.model.selection import Selection
from gpuprof.model.views import (
    EVERY_COLUMN,
    RowSet,
    Select,
    StoredColumn,
    StoredRows,
    StoredWords,
    Table,
    Trimmed,
    View,
    names_of,
)
from gpuprof.model.words import Words

if TYPE_CHECKING:
    import duckdb

Source: TypeAlias = pa.Table | View

_BATCH_ROWS: Final = 128 * 1024
_NAME, _NAME_ID = "name", "name_id"
# What DuckDB says where it cannot write what does not fit into memory.
_FULL: Final = "No space left"
# What DuckDB says where Ctrl-C ended a query, or what hands over its rows.
INTERRUPTED: Final = ("Query interrupted", "INTERRUPT Error", "KeyboardInterrupt")
_WORD: Final = re.compile(r"\w+")
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
# SQL that takes columns without naming them.
_UNNAMED: Final = re.compile(
    r"(?:\bselect|\bdistinct|\ball|,|\.)\s*\*(?!\s*from\s*\()|\bcolumns\s*\(|\bnatural\b|\bunion\s+(?:all\s+)?by\s+name\b"
    r"|(?:^|\()\s*from\b|^\s*(?!select\b|with\b|\()\w",
    re.IGNORECASE,
)


class Loader(Protocol):
    """What reads the columns of a reader's file before a query runs."""

    def load(self, sql: str, window: tuple[int, int] | None) -> None:
        """Read the columns that SQL over ``raw.NAME`` names, and what was expected with them.

        Of rows that start outside the window, given in ns, none is needed.
        """


class Failure(NamedTuple):
    """What is said about a query that failed.

    Args:
        source: The reader's file, for messages.
        of_file: What an exception says about the file; None where the file is not at fault.
    """

    source: Path
    of_file: Callable[[Exception], GpuprofError | None]


class Database:
    """The tables of one recording, or of a selection of it, for queries.

    Args:
        sources: Table name -> Arrow data or `View`.
        selection: What of them the bare names show.
        prepare: Makes the reader's file visible to views on a fresh connection; returns what
            reads its columns, or None where DuckDB reads them by itself.
        failure: How the failure of a query is reported.
        words: By table, what numbers the names that the reader's file does not number; each is
            made when it is first needed, for all selections of the recording.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        selection: Selection,
        prepare: "Callable[[duckdb.DuckDBPyConnection], Loader | None]",
        failure: Failure,
        words: dict[str, Words],
    ) -> None:
        self._sources, self._selection, self._failure = sources, selection, failure
        self._words = words
        self._prepare = prepare
        self._tables = prepare.make() if isinstance(prepare, columns.Tables) else {}
        self._in_memory = {
            name: columns.InMemory(source)
            for name, source in sources.items()
            if isinstance(source, pa.Table) and source.num_rows
        }
        self._views = {name: _view(name, source) for name, source in sources.items()}
        # By table, the columns of its rows that were asked for or announced: a view that has them
        # all serves the next query as it is.
        self._asked_for: dict[str, set[str]] = {name: set() for name in sources}
        # By table, the columns of integers that were found to be within their bounds.
        self._checked: dict[tuple[RowSet, str], set[str]] = {}
        # Tables all of whose rows in the reader's file are shown.
        self._undivided: set[tuple[RowSet, str]] = set()
        # Threads take turns with the connection.
        self._turn = threading.RLock()

    @property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        return self._session.connection

    @property
    def _loader(self) -> Loader | None:
        return self._opened[1]

    @property
    def _session(self) -> sessions.Session:
        return self._opened[0]

    @cached_property
    def _opened(self) -> tuple[sessions.Session, Loader | None]:
        """For the first query: integers that a file holds as they are need none."""
        # DuckDB imports pandas to register a table: not for one that is empty.
        rows = {name: of.rows for name, of in self._in_memory.items()}
        session = sessions.opened(self._shape(rows))
        weakref.finalize(self, sessions.leave, session, [*rows])
        loader = self._shown(session)
        for name, source in rows.items():
            session.connection.register(f"rows of {name}", source)
        for name, names in self._asked_for.items():
            session.asked_for.setdefault(name, set()).update(names)
        self._asked_for = session.asked_for
        return session, loader

    def _shape(self, rows: Mapping[str, pa.Table]) -> object:
        """What another recording must have in common for the same views; None for nothing."""
        if not isinstance(self._prepare, columns.Tables):
            return None
        kinds = {name: table.kinds for name, table in self._tables.items()}
        columns_of = {name: table.schema for name, table in rows.items()}
        return self._views, kinds, columns_of, self._prepare.settle

    def _shown(self, session: sessions.Session) -> Loader | None:
        """What makes the reader's tables visible to queries; None where DuckDB reads them."""
        if not isinstance(self._prepare, columns.Tables):
            return self._prepare(session.connection)
        if session.shown is None:
            self._prepare.settle(session.connection)
        return session.show(self._tables)

    def query(self, sql: str) -> pa.Table:
        """The result of a SQL query.

        Raises:
            GpuprofError: The reader's file breaks its format's rules where the query reads it.
        """
        with self._turn, self._file_errors(self._connection):
            return self._relation(sql).to_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The result of a SQL query piece by piece; the next query ends it."""
        with self._turn, self._file_errors(self._connection):
            yield from self._relation(sql).to_arrow_reader(_BATCH_ROWS)

    def values(self, table: str, names: Sequence[str]) -> Iterator[list[stored.Values]]:
        """Columns of integers in pieces, as arrays of any width.

        They come without a query where the reader's file holds them as they are. Names that it
        does not number get the numbers of `names`.
        """
        rows = self._sources[table]
        if isinstance(rows, pa.Table) and not rows.num_rows:
            return
        texts: dict[str, Words] = {}
        if _NAME_ID in names and self._views[table].names is None:
            texts = {_NAME: self._name_words(table)}
            names = [_NAME if name == _NAME_ID else name for name in names]
        planned = self._plan(RowSet.TABLE, table, names, texts or None)
        if planned is not None:
            yield from self._pieces(RowSet.TABLE, table, names, *planned)
        else:
            yield from self._queried(table, names, texts)

    def stored_columns(
        self, rows: RowSet, table: str, names: Sequence[str], texts: Mapping[str, Words]
    ) -> Iterator[list[stored.Values]] | None:
        """Columns of integers, and numbers of words, without a query where the file has them so.

        None for further rows of a file that does not; see `views.View`.

        Args:
            rows: Which rows.
            table: The table.
            names: Its columns.
            texts: What numbers the words of those of the columns that hold texts.
        """
        source = self._sources[table]
        if isinstance(source, pa.Table) and not source.num_rows:
            return iter(())
        planned = self._plan(rows, table, names, texts)
        if planned is not None:
            return self._pieces(rows, table, names, *planned)
        return self._queried(table, names, texts) if rows is RowSet.TABLE else None

    def _queried(
        self, table: str, names: Sequence[str], texts: Mapping[str, Words]
    ) -> Iterator[list[stored.Values]]:
        """The same columns by a query."""
        with self._binding(table):
            for batch in self.batches(f'SELECT {", ".join(names)} FROM "{table}"'):
                yield [
                    stored.Values(texts[name].numbers(column), None)
                    if name in texts
                    else stored.values(column)
                    for name, column in zip(names, batch.columns, strict=True)
                ]

    def rows(self, table: str, names: Sequence[str], order: str) -> pa.Table:
        """Columns of a table as Arrow data, by a query.

        Args:
            table: The table.
            names: Columns of its schema.
            order: SQL, from ``ORDER BY`` on; empty for any order.
        """
        with self._binding(table):
            return self.query(f'SELECT {", ".join(names)} FROM "{table}"{order}')

    @contextmanager
    def _binding(self, table: str) -> Iterator[None]:
        """Refuse a file whose columns do not take what the views of its format do with them."""
        import duckdb  # noqa: PLC0415 - start-up time

        try:
            yield
        except duckdb.BinderException as error:
            fault = f"table {table}: its columns are not of the types that its format has"
            raise corrupt(self._failure.source, fault) from error

    def words(self, table: str, column: str) -> Mapping[int, str]:
        """What the numbers of a column of words mean; nothing for a null column."""
        select = self._views[table].recorded
        words = select.columns.get(column) if select is not None else None
        return words.words if isinstance(words, StoredWords) else {}

    def _pieces(
        self,
        rows: RowSet,
        table: str,
        names: Sequence[str],
        plan: stored.Plan,
        source: columns.Pieces,
    ) -> Iterator[list[stored.Values]]:
        key = rows, table
        checked = self._checked.setdefault(key, set())
        # A file that is read anew may have changed.
        plan = plan._replace(
            is_checked=source.is_read_once and plan.columns.keys() <= checked,
            takes_all=source.is_read_once and key in self._undivided,
        )
        left_out = 0
        try:
            with self._file_errors():
                for batch in source.pieces(plan.names, self._selection.extent):
                    part = plan.part(batch, names)
                    left_out += len(batch) - len(part[0].numbers)
                    yield part
            checked.update(plan.columns)
            self._undivided.update([] if left_out else [key])
        except stored.BeyondBoundsError as error:
            raise self._impossible(table) from error

    def names(self, table: str) -> pa.Table:
        """The columns ``name_id`` and ``name`` of a table.

        Numbers may be of any width, and texts a dictionary.
        """
        view = self._views[table]
        names, select = [_NAME_ID, _NAME], view.names or view.strings
        if select is None:
            words = self._name_words(table).words
            columns_of = [schema.integers([*range(len(words))]), schema.texts([*words])]
            return pa.Table.from_arrays(columns_of, names)
        text = None if select is None else select.columns["name"]
        if select is not None and isinstance(text, Trimmed):
            select = select._replace(columns=select.columns | {"name": text.column})
        plain = None if select is None else stored.as_they_are(select, names)
        source = None if plain is None else self._tables.get(plain[0])
        if plain is None or source is None:
            return self.query(f"SELECT {', '.join(names)} FROM unrestricted.{names_of(table)}")
        with self._file_errors():
            pieces = [*source.pieces(plain[1])]
        kinds = [piece.schema for piece in pieces] or [
            pa.schema([(names[0], pa.int64()), (names[1], pa.string())])
        ]
        rows = pa.Table.from_batches(pieces, kinds[0]).rename_columns(names)
        if not isinstance(text, Trimmed):
            return rows
        texts = schema.texts([*map(text.trimmed, rows["name"].to_pylist())])
        return rows.set_column(1, "name", texts)

    def _name_words(self, table: str) -> Words:
        """What numbers the names of a table whose file does not: all names of the recording."""
        if table not in self._words:
            names, source = Words(), self._in_memory.get(table)
            if source is not None:
                batches = source.pieces([_NAME])
            elif isinstance(self._sources[table], View):
                batches = self.batches(f'SELECT DISTINCT {_NAME} FROM unrestricted."{table}"')
            else:
                batches = iter(())
            for batch in batches:
                names.numbers(batch.column(0))
            in_order = Words(sorted(names.words, key=lambda name: name or ""))
            # Of two threads that count at once, the numbers of the first are valid.
            self._words.setdefault(table, in_order)
        return self._words[table]

    def rows_known(self, table: str) -> int:
        """How many rows the reader's table has at most; 0 for unknown."""
        selects = self._views[table].selects
        rows = selects[0].source if len(selects) == 1 else None
        source = self._tables.get(rows.table) if isinstance(rows, StoredRows) else None
        with self._file_errors():
            return 0 if source is None else source.rows_known()

    def needs_query(self, table: str, names: Sequence[str]) -> bool:
        """Whether columns of integers are not as they are in the reader's file."""
        return self._plan(RowSet.TABLE, table, names) is None

    def _plan(
        self,
        rows: RowSet,
        table: str,
        names: Sequence[str],
        texts: Mapping[str, Words] | None = None,
    ) -> tuple[stored.Plan, columns.Pieces] | None:
        """How to take columns from the reader's file without a query; None where it takes one."""
        source = self._sources[table]
        if isinstance(source, View):
            select = source.select_of(rows)
        elif rows is RowSet.TABLE:
            select = Select({c: StoredColumn(c) for c in source.column_names}, StoredRows(table))
        else:
            select = None
        if select is None:
            return None
        plan = stored.plan(select, schema.BY_NAME[table], names, self._selection, texts)
        if plan is None:
            return None
        of: Mapping[str, columns.Pieces] = (
            self._tables if isinstance(source, View) else self._in_memory
        )
        pieces = of.get(plan.rows.table)
        return None if pieces is None else (plan, pieces)

    def expect(self, reads: Mapping[str, Collection[str]]) -> None:
        """Announce columns by table, so that each table of the file is read in one pass."""
        for name in reads.keys() & self._views.keys():
            table = Table(name, self._views[name], {*reads[name]})
            self._asked_for[name].update(table.of_rows)
            for sql in table.reads:
                columns.expect(self._tables, sql)

    def _relation(self, sql: str) -> "duckdb.DuckDBPyRelation":
        import duckdb  # noqa: PLC0415 - loaded by now

        code = _TEXT.sub("''", sql)
        words = {*_WORD.findall(code.lower())}
        self._show(words | EVERY_COLUMN if _UNNAMED.search(code) else words)
        try:
            return self._connection.sql(sql)
        except duckdb.BinderException:
            # Columns may be named in a way that is not seen here.
            self._show(words | EVERY_COLUMN)
            return self._connection.sql(sql)

    def _show(self, words: AbstractSet[str]) -> None:
        """Make visible what a query names; one that names no table may list them all."""
        relations = {name: derived.RELATIONS[name] for name in derived.RELATIONS.keys() & words}
        words = frozenset(words).union(*(relation.words for relation in relations.values()))
        named = [name for name in self._views if {name, names_of(name)} & words]
        for name in named or self._views:
            spec = schema.BY_NAME[name].columns
            table = Table(name, self._views[name], words | self._selection.columns(spec))
            if names_of(name) in words:
                if self._loader is not None:
                    self._loader.load(table.names, None)
                self._create(f'unrestricted."{names_of(name)}"', table.names)
                if name not in words:
                    continue
            self._load(table, None if "unrestricted" in words else self._selection.extent)
            self._asked_for[name].update(table.of_rows)
            shown = replace(table, words=table.words | self._asked_for[name])
            self._create(f'unrestricted."{name}"', shown.sql(self._rows(shown)))
            condition = self._selection.condition(spec)
            self._create(f'main."{name}"', f'SELECT * FROM unrestricted."{name}"{condition}')
        for name, relation in relations.items():
            if relation.of in self._views:
                self._create(f'main."{name}"', relation.sql)

    def _load(self, table: Table, window: tuple[int, int] | None) -> None:
        if self._loader is not None and table.name not in self._session.copied:
            for sql in table.reads:
                self._loader.load(sql, window)

    def _rows(self, table: Table) -> str:
        """SQL: the rows of a table, of a costly one from a copy that is made once."""
        if table.name in self._session.copied:
            return f'SELECT * FROM unrestricted."rows of {table.name}"'
        if table.name not in self._session.types:
            no_rows = f"SELECT * FROM ({table.view.sql(table.view.columns)}) LIMIT 0"
            empty = self._connection.sql(no_rows)
            self._session.types[table.name] = dict(
                zip(empty.columns, map(str, empty.types), strict=True)
            )
        rows = table.rows(self._session.types[table.name])
        if not table.view.is_costly:
            return rows
        self._connection.execute(f'CREATE TABLE unrestricted."rows of {table.name}" AS {rows}')
        self._session.copied.add(table.name)
        return self._rows(table)

    def _create(self, view: str, sql: str) -> None:
        if self._session.created.get(view) == sql:
            return
        self._connection.execute(f"CREATE OR REPLACE VIEW {view} AS {sql}")
        # A view fails whose own views have other columns than when it was made.
        self._session.created = {
            n: s for n, s in self._session.created.items() if view not in s
        } | {view: sql}

    @contextmanager
    def _file_errors(self, *connections: "duckdb.DuckDBPyConnection") -> Iterator[None]:
        """Raise a query's failure as the error about the reader's file that it means."""
        try:
            with signals.interrupting(*connections):
                yield
        except GpuprofError:
            raise
        except Exception as error:  # DuckDB raises what its extensions raise
            if any(sign in str(error) for sign in INTERRUPTED):
                raise KeyboardInterrupt from error
            cause = self._cause(error)
            fault = self._refusal(cause) or self._failure.of_file(cause) or self._excess(cause)
            if fault is None:
                raise
            raise fault from error

    def _cause(self, error: Exception) -> Exception:
        """What ended a stream that a query read, of which DuckDB tells only the text."""
        streams = (t for t in self._tables.values() if isinstance(t, columns.Streamed))
        causes = (stream.error for stream in streams if stream.error is not None)
        return next((cause for cause in causes if str(cause) in str(error)), error)

    def _refusal(self, error: Exception) -> GpuprofError | None:
        """Which value ended a query, if the bounds of a table, or a part, did."""
        if isinstance(error, GpuprofError):
            return error
        name = borders.refused_by(error)
        return None if name is None else self._impossible(name)

    def _impossible(self, name: str) -> GpuprofError:
        """Which value of a table no recording holds."""
        source = self._sources[name]
        if isinstance(source, pa.Table):
            fault = schema.BY_NAME[name].fault(source)
        else:
            with self._turn, self._file_errors(self._connection):
                fault = self._fault(name, source)
        return corrupt(
            self._failure.source, f"table {name}: {fault or 'its values are impossible'}"
        )

    def _fault(self, name: str, view: View) -> str | None:
        """The first value of a file's table that no recording holds, found by reading it all.

        Raises:
            CorruptFileError: A value is of another type.
        """
        spec = schema.BY_NAME[name]
        sql = view.sql(column for column in spec.columns if column in view.columns)
        if self._loader is not None:
            self._loader.load(sql, None)
        where, before = f"{self._failure.source}, table {name}", 0
        for batch in self._connection.sql(sql).to_arrow_reader(_BATCH_ROWS):
            rows = borders.cast(where, pa.Table.from_batches([batch]), spec.kinds, before)
            if (fault := spec.fault(rows, before)) is not None:
                return fault
            before += batch.num_rows
        return None

    def _excess(self, error: Exception) -> GpuprofError | None:
        """What a query says that failed at a value, or at the machine, and not at its words."""
        import duckdb  # noqa: PLC0415 - a query has run, so that it is loaded

        if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or _FULL in str(error):
            msg = f"{self._failure.source} needs more memory, or more room for temporary files"
            return InputError(msg, ROOM)
        of_values = (duckdb.ConversionException, duckdb.OutOfRangeException)
        if not isinstance(error, of_values):
            return None
        return corrupt(self._failure.source, "a number is too large, or none")


def _view(name: str, source: Source) -> View:
    if isinstance(source, View):
        return source
    if not source.num_rows:
        return View((Select({}, "WHERE false"),))
    columns = {column: f'"{column}"' for column in source.column_names}
    return View((Select(columns, f'FROM "rows of {name}"'),))


def corrupt(source: Path, fault: str) -> CorruptFileError:
    """The error of a file that holds what no recording can."""
    return CorruptFileError(f"{source}, {fault}", borders.HINT)
