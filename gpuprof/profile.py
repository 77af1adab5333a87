"""One recording: where it came from, and its tables.

A reader gives each table either as Arrow data or as SQL over its own file. All tables can be
queried in SQL under their names of the data model, so that an analysis reads from a large
file only the columns it needs, and never knows which format it reads.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import pyarrow as pa

from gpuprof import borders, engine, schema, signals
from gpuprof.errors import (
    ROOM,
    CorruptFileError,
    GpuprofError,
    InputError,
    MissingTableError,
)

if TYPE_CHECKING:
    import duckdb
    import pandas as pd


_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Origin:
    """Where a recording came from, and what its tool said about it.

    Args:
        tool_version: Version of the tool that recorded; None where the file does not tell.
        exporter_version: Version of the tool that wrote the file from a recording, where it is
            not the recording itself.
    """

    source: Path
    reader: str
    tool: str
    tool_version: str | None = None
    schema_version: str | None = None
    command: str | None = None
    recorded_at: str | None = None
    epoch_ns: int | None = None
    variant: str | None = None
    start_resolution_ns: int = 1
    warnings: tuple[str, ...] = ()
    exporter_version: str | None = None

    @property
    def recorder(self) -> str:
        """The tool and its version, for people; else the version that exported the file."""
        if self.tool_version:
            return f"{self.tool} {self.tool_version}"
        exporter = f" (exported by {self.exporter_version})" if self.exporter_version else ""
        return self.tool + exporter

    def fault(self) -> str | None:
        """The first field that no recording can have, as the end of a sentence; None for none."""
        texts = [(name, getattr(self, name)) for name in _TEXTS]
        others = [(name, value) for name, value in texts if not isinstance(value, str | None)]
        others += [("warnings", text) for text in self.warnings if not isinstance(text, str)]
        epoch_ns = 0 if self.epoch_ns is None else self.epoch_ns
        if not isinstance(epoch_ns, int) or abs(epoch_ns) > schema.LARGEST:
            others.append(("epoch_ns", epoch_ns))
        return f"{others[0][0]} is {repr(others[0][1])[:40]}" if others else None


_TEXTS = (
    "reader", "tool", "tool_version", "schema_version", "command", "recorded_at", "variant",
    "exporter_version",
)  # fmt: skip


@dataclass(frozen=True)
class View:
    """A table as a SELECT over what the reader's ``prepare`` made visible.

    Args:
        sql: Its columns have the names of the schema; absent ones become null.
        names: Where the file numbers its names, a SELECT of ``name_id``, ``name`` and what
            else depends on the name alone, one row per number; ``sql`` then has a column
            ``name_id`` in place of these, so that a query that asks for no name joins none,
            and a pattern is matched once per name (see `Profile.tagged`).
    """

    sql: str
    names: str | None = None


@dataclass(frozen=True)
class Part:
    """The part of a recording that is looked at.

    Args:
        windows: Sorted, disjoint windows ``[start, end)`` in ns; an activity belongs to the
            one in which it starts. None for all times.
        device_id: The one device; a copy belongs to each of its ends. None for all devices.
    """

    windows: tuple[tuple[int, int], ...] | None = None
    device_id: int | None = None


_BATCH_ROWS = 128 * 1024
# What DuckDB says where it cannot write what does not fit into memory.
_FULL = "No space left"
# What DuckDB says where Ctrl-C ended a query, or what hands over its rows.
_INTERRUPTED = ("Query interrupted", "INTERRUPT Error", "KeyboardInterrupt")


class Loader(Protocol):
    """What reads the columns of a reader's file as queries name them."""

    def show(self, sql: str) -> None:
        """Make the file's tables visible that a view names."""

    def load(self, sql: str) -> None:
        """Read the columns that a query reads which is about to run."""


class _Opened(NamedTuple):
    """A profile's own connection.

    Args:
        connection: It sees all tables.
        loader: Reads what a query needs before it runs; None where DuckDB reads by itself.
        is_shared: Whether other connections see what the reader made visible.
    """

    connection: "duckdb.DuckDBPyConnection"
    loader: Loader | None
    is_shared: bool


def _prepare_nothing(_: "duckdb.DuckDBPyConnection") -> None:
    """A profile whose tables are all in memory."""


def _no_failure(_: Exception) -> GpuprofError | None:
    """A profile that reads no file any more: a failed query is a bug."""
    return None


@dataclass(frozen=True)
class Section:
    """One of several recordings that follow one another in a file.

    Args:
        name: The command, comment or file by which the file tells it from the others; empty
            where it has none.
        process_id: Its process, where it is known.
        profile: This recording alone.
    """

    name: str
    process_id: int | None
    profile: "Profile" = field(repr=False)


@dataclass(frozen=True)
class Profile:
    """One recording, as every reader gives it and every analysis takes it.

    Args:
        origin: Where it came from.
        sources: Table name to Arrow data or `View`. An absent table was not recorded; a
            table with no rows was recorded, and nothing happened. Arrow data may be of narrower
            types than the schema's, and lack columns that are null (see `Schema.narrow`).
        prepare: Makes the reader's file visible to the views, on a fresh DuckDB connection;
            returns what reads its columns before each query, or None.
        failure: What a failed query says about the reader's file; None where it is a bug.
        part: The part of the recording that its tables are restricted to; None for all of it.
        whole: The recording that this is a part of; None where it is whole.
        stored: About how many events lie in the reader's file, where that is known.
        sections: The recordings of a file that holds several, which this one then adds up; see
            `gpuprof.readers.sections`.
    """

    origin: Origin
    sources: Mapping[str, pa.Table | View] = field(repr=False)
    prepare: "Callable[[duckdb.DuckDBPyConnection], Loader | None]" = field(
        default=_prepare_nothing, repr=False
    )
    failure: Callable[[Exception], GpuprofError | None] = field(default=_no_failure, repr=False)
    part: Part | None = None
    whole: "Profile | None" = field(default=None, repr=False)
    stored: int = 0
    sections: tuple[Section, ...] = field(default=(), repr=False)

    @property
    def events(self) -> int:
        """About how many events it holds; 0 where that is not known without reading them."""
        tables = (source for source in self.sources.values() if isinstance(source, pa.Table))
        return self.stored + sum(int(table.num_rows) for table in tables)

    def has(self, *names: str) -> bool:
        """Whether all these tables were recorded."""
        return all(name in self.sources for name in names)

    def require(self, *names: str) -> None:
        """Check that these tables were recorded.

        Raises:
            MissingTableError: One was not.
        """
        for name in names:
            if name not in self.sources:
                msg = f"{self.origin.source} has no {name} table (read as {self.origin.reader})"
                raise MissingTableError(
                    msg, "Record with `gpuprof record`, which keeps every activity."
                )

    def with_table(self, name: str, table: pa.Table) -> "Profile":
        """The same recording with one more table, or another in its place."""
        return replace(self, sources={**self.sources, name: table})

    def restricted(self, part: Part) -> "Profile":
        """A part of the recording, with only the tables that a part has.

        In queries the tables bear their names, and those of the whole recording the same with
        ``whole.`` before them: what launched an activity may have happened earlier.
        """
        whole = self.whole or self
        left = _TIMELESS if part.windows is not None else _OF_ALL_DEVICES
        kept = {name: source for name, source in self.sources.items() if name not in left}
        return replace(self, sources=kept, part=part, whole=whole)

    def query(self, sql: str) -> pa.Table:
        """The result of a SQL query (DuckDB's dialect) over the tables, by their names.

        Raises:
            GpuprofError: The reader's file breaks its format's rules where the query reads it.
        """
        with self._file_errors():
            return self._announced(sql).to_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The result of a SQL query piece by piece, so that it need not fit into memory.

        The next query ends it: read it to its end before.
        """
        if sql in self._ahead:
            yield from self._ahead.pop(sql)
            return
        with self._file_errors():
            yield from self._announced(sql).to_arrow_reader(_BATCH_ROWS)

    def side_by_side(self, *queries: str) -> list[list[pa.RecordBatch]]:
        """The results of several queries, read at once where the file can be.

        A table of SQLite is read by one thread, several by several.
        """
        if self._ahead.keys() >= {*queries} or not self._reads_aside(*queries):
            return [[*self.batches(sql)] for sql in queries]
        cursors = [self._cursor() for _ in queries]
        with self._file_errors(*cursors), ThreadPoolExecutor(max(len(queries), 1)) as pool:
            return [*pool.map(_read_aside, cursors, queries)]

    def read_ahead(self, *queries: str) -> None:
        """Read at once, where the file can be, what each will be asked for once soon."""
        if self._reads_aside(*queries):
            self._ahead.update(zip(queries, self.side_by_side(*queries), strict=True))

    def _reads_aside(self, *queries: str) -> bool:
        """Whether other connections than the first see what queries name."""
        with self._file_errors():
            self._show(*queries)
        connection, loader, _ = self._opened
        # Only the connection on which a table was registered sees it.
        # To its end: DuckDB 2 does nothing else before.
        ((registered,),) = connection.execute(_REGISTERED).fetchall()
        return loader is None and not registered

    @cached_property
    def _ahead(self) -> dict[str, list[pa.RecordBatch]]:
        return {}

    def keep(self, name: str) -> None:
        """Read a table once for all later queries, for one that many analyses ask for."""
        if isinstance(self.sources.get(name), View) and name not in self._kept:
            kept, connection = f'whole."kept {name}"', self._opened[0]
            with self._file_errors():
                self._announced(f"SELECT * FROM whole.{name}").create(kept)
            connection.execute(f"CREATE OR REPLACE VIEW whole.{name} AS SELECT * FROM {kept}")
            self._kept.add(name)

    @cached_property
    def _kept(self) -> set[str]:
        return set() if self._host is None else self._host._kept  # noqa: SLF001 - a profile, too

    def tagged(self, table: str, expression: str, column: str) -> str:
        """SQL for a table with one more column, which depends on ``name`` alone.

        A pattern is matched once per name, not once per row, where the file numbers its names.

        Args:
            table: A table with a column ``name``.
            expression: SQL over ``name``.
            column: Name of the new column.
        """
        if not self.numbers(table):
            return f'(SELECT *, {expression} AS {column} FROM "{table}")'
        return (
            f"(SELECT t.*, coalesce(n.name, 'unknown') AS name, n.{column}"
            f' FROM "{table}{_NUMBERED}" t LEFT JOIN'
            f' (SELECT name_id, name, {expression} AS {column} FROM whole."{table}{_NAMES}") n'
            " USING (name_id))"
        )

    def numbers(self, table: str) -> bool:
        """Whether the reader's file numbers the names of a table."""
        source = self.sources[table]
        return isinstance(source, View) and source.names is not None

    def once(self, function: "Callable[[Profile], _Result]") -> _Result:
        """What a pure function makes of this recording, computed once for all who ask.

        Raises:
            CorruptFileError: Its numbers add up to more than 64 bits hold.
        """
        if function not in self._results:
            try:
                self._results[function] = function(self)
            except OverflowError as error:
                fault = f"its numbers are too large to add up ({error})"
                raise _corrupt(self.origin.source, fault) from error
        result: _Result = self._results[function]
        return result

    def has_done(self, function: "Callable[[Profile], object]") -> bool:
        """Whether `once` has computed this already."""
        return function in self._results

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    def numbered(self, table: str) -> tuple[str, str] | None:
        """SQL for the rows of a table with ``name_id`` in place of names, and for the names.

        None where the file does not number its names. Two numbers may mean one name, and a
        number none.
        """
        if not self.numbers(table):
            return None
        return f'"{table}{_NUMBERED}"', f'whole."{table}{_NAMES}"'

    def names(self, table: str) -> str:
        """SQL for the names of a table, perhaps with others, in a column ``name``."""
        if not self.numbers(table):
            return f'(SELECT DISTINCT name FROM "{table}")'
        return f'(SELECT name FROM whole."{table}{_NAMES}")'

    def table(self, name: str) -> pa.Table:
        """A whole table as Arrow data with all columns of its schema, sorted by start.

        Raises:
            MissingTableError: It was not recorded.
        """
        self.require(name)
        source = self.sources[name]
        if isinstance(source, pa.Table) and self.part is None:
            return schema.BY_NAME[name].conform(source)
        columns = schema.BY_NAME[name].columns
        order = " ORDER BY start_ns" if "start_ns" in columns else ""
        return self.query(f'SELECT {", ".join(columns)} FROM "{name}"{order}')

    @property
    def tables(self) -> "Mapping[str, pd.DataFrame]":
        """Every recorded table as a DataFrame (Arrow-backed), made when it is asked for."""
        return _Frames(self)

    @contextmanager
    def _file_errors(self, *cursors: "duckdb.DuckDBPyConnection") -> Iterator[None]:
        """Say of a query that failed what it says about the reader's file."""
        try:
            with signals.interrupting(self._opened[0], *cursors):
                yield
        except GpuprofError:
            raise
        except Exception as error:  # DuckDB raises what its extensions raise
            if any(sign in str(error) for sign in _INTERRUPTED):
                raise KeyboardInterrupt from error
            fault = self._refusal(error) or self.failure(error) or self._excess(error)
            if fault is None:
                raise
            raise fault from error

    def _refusal(self, error: Exception) -> GpuprofError | None:
        """Which value ended a query, where the bounds of a table did.

        Raises:
            CorruptFileError: Another value of the table cannot be read at all.
        """
        name = borders.refused_by(error)
        if name is None:
            return None
        source = self.sources[name]
        if isinstance(source, pa.Table):
            fault = schema.BY_NAME[name].fault(source)
        else:
            with self._file_errors():
                fault = self._fault(name, source)
        return _corrupt(self.origin.source, f"table {name}: {fault or 'its values are impossible'}")

    def _fault(self, name: str, source: View) -> str | None:
        """The first value of a file's table that no recording holds, found by reading it all.

        Raises:
            CorruptFileError: A value is of another type.
        """
        connection, loader, _ = self._opened
        spec = schema.BY_NAME[name]
        present = connection.sql(f"SELECT * FROM ({source.sql}) LIMIT 0").columns
        columns = ", ".join(column for column in present if column in spec.columns)
        sql = f"SELECT {columns} FROM ({source.sql})"
        if loader is not None:
            loader.load(sql)
        where, kinds = f"{self.origin.source}, table {name}", spec.kinds
        before = 0
        for batch in connection.sql(sql).to_arrow_reader(_BATCH_ROWS):
            rows = borders.cast(where, pa.Table.from_batches([batch]), kinds, before)
            if (fault := spec.fault(rows, before)) is not None:
                return fault
            before += batch.num_rows
        return None

    def _excess(self, error: Exception) -> GpuprofError | None:
        """What a query says that failed at a value, or at the machine, and not at its words."""
        import duckdb  # noqa: PLC0415 - a query has run, so that it is loaded

        first = str(error).split("\n")[0]
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or _FULL in first:
            msg = f"{self.origin.source} needs more memory, or room beside it ({first})"
            return InputError(msg, ROOM)
        of_values = (duckdb.ConversionException, duckdb.OutOfRangeException)
        if not isinstance(error, of_values):
            return None
        return _corrupt(self.origin.source, f"a number is too large, or none ({first})")

    def _announced(self, sql: str) -> "duckdb.DuckDBPyRelation":
        self._show(sql)
        connection, loader, _ = self._opened
        if loader is not None:
            loader.load(sql)
        return connection.sql(sql)

    @cached_property
    def _opened(self) -> _Opened:
        if self._host is not None:
            # Not through the connection of the whole, which may be in the middle of a result.
            self._host._cursor().execute(f"CREATE SCHEMA {self._schema}")  # noqa: SLF001 - as above
            return _Opened(self._cursor(), None, is_shared=True)
        connection = engine.connect()
        # DuckDB would spill into the folder that the user is in; it makes this one when it
        # spills, and removes it where it is closed in order.
        spill = Path(tempfile.gettempdir()) / f"gpuprof-{uuid4().hex}"
        weakref.finalize(self, shutil.rmtree, spill, ignore_errors=True)
        connection.execute(f"SET temp_directory = {engine.literal(spill)}")
        loader = self.prepare(connection)
        ((registered,),) = connection.execute(_REGISTERED).fetchall()
        connection.execute("CREATE SCHEMA whole")
        return _Opened(connection, loader, is_shared=loader is None and not registered)

    @cached_property
    def _host(self) -> "Profile | None":
        """The whole recording, where this is a part that can be queried through its connection."""
        whole, sources = self.whole, self.sources.items()
        if whole is None or any(one is not whole.sources.get(name) for name, one in sources):
            return None
        is_in_memory = any(isinstance(one, pa.Table) and one.num_rows for _, one in sources)
        return None if is_in_memory or not whole._opened.is_shared else whole  # noqa: SLF001 - as above

    @cached_property
    def _schema(self) -> str:
        """Where the tables are found by their bare names, a part's beside those of the whole."""
        return "main" if self._host is None else f"part_{uuid4().hex}"

    def _cursor(self) -> "duckdb.DuckDBPyConnection":
        """One more connection that finds the same tables by the same names."""
        if self._host is None:
            cursor = self._opened[0].cursor()
            cursor.execute(engine.NO_BAR)
            return cursor
        cursor = self._host._cursor()  # noqa: SLF001 - as above
        cursor.execute(f"SET schema = '{self._schema}'")
        return cursor

    def _show(self, *queries: str, through: "duckdb.DuckDBPyConnection | None" = None) -> None:
        """Make the tables visible that queries name, or all where they name none."""
        connection = self._opened[0] if through is None else through
        text = " ".join(queries).lower()
        named = {name for name in self.sources if name in text} or {*self.sources}
        for name in named - self._shown.keys():
            self._shown[name] = self._views(connection, name)
            for view in self._shown[name]:
                chosen = f'SELECT * FROM whole."{view}"{self._condition(name)}'
                connection.execute(f'CREATE VIEW {self._schema}."{view}" AS {chosen}')

    def _views(self, connection: "duckdb.DuckDBPyConnection", name: str) -> tuple[str, ...]:
        """The views of a table of the whole recording, made where they are not there yet."""
        if self._host is None:
            source, loader = self.sources[name], self._opened.loader
            if loader is not None and isinstance(source, View):
                loader.show(f"{source.sql} {source.names or ''}")
            return self._expose(connection, name, source)
        self._host._show(name, through=connection)  # noqa: SLF001 - as above
        return self._host._shown[name]  # noqa: SLF001 - as above

    @cached_property
    def _shown(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _condition(self, name: str) -> str:
        """SQL: what the rows of a table must fulfil to belong to the part."""
        columns, conditions = schema.BY_NAME[name].columns, []
        if self.part and self.part.windows is not None and "start_ns" in columns:
            conditions.append(_starts_within(self.part.windows))
        if self.part and self.part.device_id is not None and "device_id" in columns:
            ends = [end for end in _ENDS if end in columns]
            conditions.append(f"{self.part.device_id} IN ({', '.join(ends)})")
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @staticmethod
    def _expose(
        connection: "duckdb.DuckDBPyConnection", name: str, source: pa.Table | View
    ) -> tuple[str, ...]:
        """Make a source visible as views of the whole recording; returns their names."""
        if isinstance(source, pa.Table) and source.num_rows:
            connection.register(f"rows of {name}", source)
            source = View(f'SELECT * FROM "rows of {name}"')
        # DuckDB imports pandas to register a table: not for one that is empty.
        view = source if isinstance(source, View) else _NO_ROWS
        if view.names is None:
            connection.execute(f'CREATE VIEW whole."{name}" AS {_typed(connection, name, view)}')
            return (name,)
        for part, sql in _numbered_views(connection, name, view).items():
            connection.execute(f'CREATE VIEW whole."{part}" AS {sql}')
        return name, f"{name}{_NUMBERED}"


def _starts_within(windows: Sequence[tuple[int, int]]) -> str:
    """SQL: whether an activity starts in one of many sorted windows."""
    if not windows:
        return "false"
    # A file in parts that are sorted by time is read from the first to the last.
    bounds = f"start_ns >= {windows[0][0]} AND start_ns < {windows[-1][1]}"
    return bounds if len(windows) == 1 else f"{bounds} AND {_halved(windows)}"


def _halved(windows: Sequence[tuple[int, int]]) -> str:
    """SQL: the same as a search by halves; one comparison after another takes minutes."""
    if len(windows) == 1:
        return f"(start_ns >= {windows[0][0]} AND start_ns < {windows[0][1]})"
    middle = len(windows) // 2
    sides = _halved(windows[:middle]), _halved(windows[middle:])
    return f"CASE WHEN start_ns < {windows[middle][0]} THEN {sides[0]} ELSE {sides[1]} END"


def _typed(
    connection: "duckdb.DuckDBPyConnection",
    name: str,
    source: View,
    without: frozenset[str] = frozenset(),
) -> str:
    """SQL: a source with the columns of its schema but for some; absent ones are null."""
    present = connection.sql(f"SELECT * FROM ({source.sql}) LIMIT 0")
    kinds = dict(zip(present.columns, map(str, present.types), strict=True))
    columns = [
        borders.checked(name, column, spec, kinds[column])
        if column in kinds
        else f"CAST(NULL AS {borders.SQL_TYPES[spec.dtype]}) AS {column}"
        for column, spec in schema.BY_NAME[name].columns.items()
        if column not in without
    ]
    columns += ["name_id"] if source.names else []
    return f"SELECT {', '.join(columns)} FROM ({source.sql})"


def _numbered_views(
    connection: "duckdb.DuckDBPyConnection", name: str, source: View
) -> dict[str, str]:
    """SQL by view: a table without its names, its names, and both together."""
    columns_of_names = connection.sql(f"SELECT * FROM ({source.names}) LIMIT 0").columns
    of_name = frozenset(columns_of_names) - {"name_id"}
    columns = ", ".join(
        "coalesce(n.name, 'unknown') AS name" if column == "name" else column
        for column in schema.BY_NAME[name].columns
    )
    return {
        f"{name}{_NUMBERED}": _typed(connection, name, source, of_name),
        f"{name}{_NAMES}": source.names or "",
        name: f"""SELECT {columns} FROM whole."{name}{_NUMBERED}"
            LEFT JOIN whole."{name}{_NAMES}" n USING (name_id)""",
    }


# What views of a table are called beside its own name.
_NUMBERED = " with numbers of names"
_NAMES = ", names"
_REGISTERED = "SELECT count(*) FROM duckdb_views() WHERE temporary AND NOT internal"
_NO_ROWS = View("SELECT NULL AS none WHERE false")
_ENDS = ("device_id", "src_device_id", "dst_device_id")
# Neither restricted to a window nor true of one.
_TIMELESS = {
    name
    for name, spec in schema.BY_NAME.items()
    if "start_ns" not in spec.columns and name not in {"devices", "links", "runs"}
}
# Sums over devices, or of devices that have other names.
_OF_ALL_DEVICES = {"activity_summary", "tensor_copies", "operations", "functions"}


def _read_aside(cursor: "duckdb.DuckDBPyConnection", sql: str) -> list[pa.RecordBatch]:
    """The result of a query on a connection of its own."""
    with cursor:
        return [*cursor.sql(sql).to_arrow_reader(_BATCH_ROWS)]


def _corrupt(source: Path, fault: str) -> CorruptFileError:
    return CorruptFileError(f"{source}, {fault}", borders.HINT)


class _Frames(Mapping[str, Any]):
    """The tables of a profile as DataFrames, each made on first use of its name."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self._profile.sources:
            raise KeyError(name)
        return to_frame(self._profile.table(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._profile.sources)

    def __len__(self) -> int:
        return len(self._profile.sources)


def to_frame(table: pa.Table) -> "pd.DataFrame":
    """A table as a DataFrame with Arrow-backed columns, so that integers stay integers."""
    import pandas as pd  # noqa: PLC0415 - 0.4 s that only the Python API needs

    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame
