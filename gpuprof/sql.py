"""A user's question in SQL: one SELECT over the documented tables, to which all else is closed.

DuckDB gets the columns that the statement reads, as Arrow data, and neither files, network nor
settings.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.analyses import ANALYSES, LONG, analysis_named
from gpuprof.base import json_input, machine, signals
from gpuprof.base.errors import ROOM, InputError, MissingTableError, QueryError, one_of
from gpuprof.facts import derived_tables
from gpuprof.model import data_model
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLAG, FLOAT, INT, TEXT, Column

if TYPE_CHECKING:
    import duckdb

SQL_TYPES: Final = {INT: "BIGINT", FLOAT: "DOUBLE", TEXT: "VARCHAR", FLAG: "BOOLEAN"}
# https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
_CLOSED: Final[Mapping[str, str | bool]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
}
_WORD: Final = re.compile(r"\w+")
# DuckDB's words for names that it does not know.
_NO_TABLE: Final = re.compile(r"Table with name \"?(.+?)\"? does not exist")
_NO_COLUMN: Final = re.compile(r"(?:Referenced column|a column named) \"(.+?)\"")
_KIND: Final = re.compile(r"^[\w ]+ Error: ")
# What it says where Ctrl-C ended a query.
_INTERRUPTED: Final = ("Query interrupted", "INTERRUPT Error", "KeyboardInterrupt")
# What it says where it cannot write what does not fit into memory.
_FULL: Final = "No space left"
# Before the name of an analysis: some recorded tables have the same.
_ANSWER: Final = "answer of "
_MOST_NAMES: Final = 12


class _Readable(NamedTuple):
    """A table that a statement can read.

    Args:
        name: As the statement calls it.
        columns: Its columns.
        rows: Some of them, one at least, so that rows can be counted.
    """

    name: str
    columns: Mapping[str, Column]
    rows: Callable[[Collection[str]], pa.Table]


def query(profile: Profile, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """What a SELECT in DuckDB's dialect answers about a recording.

    It can name the tables and columns that ``gpuprof formats --schema`` lists: those that were
    recorded, in ns and bytes, what is derived from them, and the answers of analyses. What was
    recorded is also ``recorded.NAME``, as an analysis may have its name. Recorded rows come by
    start where the statement orders nothing.

    Args:
        profile: The recording.
        sql: One SELECT.

    Returns:
        The names of the columns, and the rows as Python values; None for null.

    Raises:
        QueryError: It is no single SELECT, names what there is not, or reads a file.
        MissingTableError: It names a table that was not recorded, or an analysis that needs one.
        GpuprofError: The recording is damaged, or the memory too small.
    """
    with _answered(profile, sql) as (names, result):
        return names, result.fetchall()


def query_table(profile: Profile, sql: str) -> pa.Table:
    """The same as a table, in which sums of integers are integers.

    Raises:
        GpuprofError: As of `query`.
    """
    with _answered(profile, sql) as (_, result):
        table = result.to_arrow_table()
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and not field.type.scale:
            # DuckDB adds up 64-bit integers in 128 bits.
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, field.name, table[place].cast(pa.int64()))
    return table


@contextmanager
def _answered(profile: Profile, sql: str) -> Iterator[tuple[list[str], Any]]:
    """The names of a result's columns, and DuckDB's result while its connection is there."""
    _check(sql)
    tables = _tables(profile, {*_WORD.findall(sql.lower())})
    # By itself, DuckDB would spill into the folder that the user is in.
    with TemporaryDirectory(prefix="gpuprof-") as folder, _errors(profile, tables, sql):
        connection = connect({"temp_directory": folder})
        with closing(connection), signals.interrupting(connection):
            create(connection, tables)
            for name, columns in reads(connection, sql).items():
                fill(connection, name, tables[name], columns)
            connection.execute("SET lock_configuration = true")
            result = connection.sql(sql)
            names = [column[0] for column in result.description]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                msg = f"two columns of the result are called {twice}"
                raise QueryError(msg, f"Name one of them, as in {twice} AS other.")
            yield names, result


def _check(sql: str) -> None:
    """See that it is one SELECT, before anything is read."""
    import duckdb  # 0.1 s that only a query needs

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(_first_line(error)) from error
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        kind_names = " and ".join(kinds) or "nothing"
        msg = f"a query is one SELECT, not {kind_names}"
        raise QueryError(msg, "It reads the recording's tables, and changes nothing.")


def _tables(profile: Profile, words: set[str]) -> dict[str, _Readable]:
    """What was recorded, what is derived, and answers of the analyses that a statement names."""
    tables = {}
    for name in profile.sources:
        columns = {**data_model.BY_NAME[name].columns, **derived_tables.COLUMNS.get(name, {})}
        rows = partial(_recorded_rows, profile, name, columns)
        tables[name] = _Readable(name, columns, rows)
    computed = dict(derived_tables.TABLES if derived_tables.SOURCE in profile.sources else {})
    for name in (ANALYSES | LONG).keys() & words:
        analysis = analysis_named(name)
        if not analysis.missing(profile):
            computed[f"{_ANSWER}{name}"] = analysis.schema, analysis.run
    for name, (spec, function) in computed.items():
        rows = partial(_made_rows, profile, function)
        tables[name] = _Readable(spec.name, spec.columns, rows)
    return tables


def _recorded_rows(
    profile: Profile, name: str, columns: Mapping[str, Column], chosen: Collection[str]
) -> pa.Table:
    names = [column for column in columns if column in chosen] or [*columns][:1]
    return derived_tables.with_derived(profile, name, names)


def _made_rows(
    profile: Profile, function: Callable[[Profile], pa.Table], _: Collection[str]
) -> pa.Table:
    return profile.once(function)


def connect(settings: Mapping[str, str | bool]) -> "duckdb.DuckDBPyConnection":
    """A connection of its own, which asks nobody else for anything.

    Args:
        settings: DuckDB's, beside those of all connections.
    """
    import duckdb  # loaded by now

    connection = duckdb.connect(config={**_CLOSED, **settings})
    # DuckDB draws a bar among the results on stdout when a query takes long, terminal or not. A
    # notebook without ipywidgets has none, and refuses to have it turned off.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    # DuckDB 1.5 takes two tables with the same columns for one, and reads the first of them twice.
    faulty = "common_subplan"
    if connection.execute(f"FROM duckdb_optimizers() WHERE name = '{faulty}'").fetchall():
        connection.execute(f"SET disabled_optimizers = '{faulty}'")
    # Spill at half of the memory, as what DuckDB hands over needs room beside it. By itself it
    # takes 80 % of what this machine, or its container, has.
    ((usual,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    amount, unit = usual.split()
    part = 50 / 80 / machine.process_count()
    connection.execute(f"SET memory_limit = '{float(amount) * part:.3f}{unit}'")
    if machine.process_count() > 1:  # the cores of other workers
        connection.execute(f"SET threads = {machine.thread_count(machine.core_count())}")
    return connection


def create(connection: "duckdb.DuckDBPyConnection", tables: Mapping[str, _Readable]) -> None:
    """Make all tables without rows: as ``recorded.KEY``, and by the name that a statement says."""
    connection.execute("CREATE SCHEMA recorded")
    for key, table in tables.items():
        columns = ", ".join(f'"{c}" {SQL_TYPES[s.dtype]}' for c, s in table.columns.items())
        connection.execute(f'CREATE TABLE recorded."{key}" ({columns})')
        view = f'SELECT * FROM recorded."{key}"'
        connection.execute(f'CREATE OR REPLACE VIEW main."{table.name}" AS {view}')


def reads(connection: "duckdb.DuckDBPyConnection", sql: str) -> dict[str, set[str]]:
    """The columns that a statement reads, by table, as DuckDB plans it.

    Of its optimisers only the one that leaves out columns runs: others leave out empty tables,
    and keep apart what conditions read.
    """
    ((before,),) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    optimisers = connection.execute("FROM duckdb_optimizers() WHERE name <> 'unused_columns'")
    names = ",".join(name for (name,) in optimisers.fetchall())
    connection.execute(f"SET disabled_optimizers = '{names}'")
    ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
    connection.execute(f"SET disabled_optimizers = '{before}'")
    columns_of: dict[str, set[str]] = {}
    nodes = json_input.loads(plan)
    while nodes:
        node = nodes.pop()
        nodes += node["children"]
        details = node["extra_info"]
        if "Table" in details:
            columns = details.get("Projections") or []
            columns = [columns] if isinstance(columns, str) else columns
            table = details["Table"].partition("recorded.")[2].strip('"')
            columns_of.setdefault(table, set()).update(columns)
    return columns_of


def fill(
    connection: "duckdb.DuckDBPyConnection", key: str, table: _Readable, chosen: Collection[str]
) -> None:
    """Put rows in the place of a table; columns that no plan reads are there, without values."""
    rows = table.rows(chosen)
    connection.register(f"rows of {key}", rows)
    there = {c: '"' + c.replace('"', '""') + '"' for c in rows.column_names}
    columns = ", ".join(
        f'{there.get(c, "NULL")}::{SQL_TYPES[s.dtype]} AS "{c}"' for c, s in table.columns.items()
    )
    connection.execute(f'DROP TABLE recorded."{key}"')
    connection.execute(f'CREATE VIEW recorded."{key}" AS SELECT {columns} FROM "rows of {key}"')


@contextmanager
def _errors(profile: Profile, tables: Mapping[str, _Readable], sql: str) -> Iterator[None]:
    """Raise what DuckDB says about a statement in one line, with the nearest names."""
    import duckdb  # loaded by now

    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:
        if any(sign in str(error) for sign in _INTERRUPTED):
            raise KeyboardInterrupt from error
        raise
    except duckdb.PermissionException as error:
        msg = "a query reads the tables of the recording alone, no files and addresses"
        raise QueryError(msg, "Name tables as `gpuprof formats --schema` lists them.") from error
    except duckdb.Error as error:
        text = str(error)
        if isinstance(error, duckdb.OutOfMemoryException) or _FULL in text:
            msg = f"{profile.origin.source} needs more memory, or more room for temporary files"
            raise InputError(msg, ROOM) from error
        if match := _NO_TABLE.search(text):
            raise _no_table(profile, match[1]) from error
        if match := _NO_COLUMN.search(text):
            words = {*_WORD.findall(sql.lower())}
            columns = [c for table in tables.values() if table.name in words for c in table.columns]
            msg = f"there is no column {match[1]}"
            raise QueryError(msg, _nearest("Columns", match[1], columns)) from error
        raise QueryError(_first_line(error)) from error


def _no_table(profile: Profile, name: str) -> MissingTableError | QueryError:
    """What is wrong with the name of a table."""
    lower_name, derived = name.lower(), derived_tables.TABLES
    lacking: str | None = ""
    if lower_name in data_model.BY_NAME or lower_name in derived:
        lacking = derived_tables.SOURCE if lower_name in derived else lower_name
    elif lower_name in ANALYSES | LONG:
        lacking = analysis_named(lower_name).missing(profile)
    if not lacking:
        names = [*profile.sources, *derived, *ANALYSES]
        return QueryError(f"there is no table {name}", _nearest("Tables", name, names))
    needed = "" if lacking == lower_name else f", which {name} needs"
    msg = f"{profile.origin.source} has no {lacking} table{needed}"
    return MissingTableError(msg, f"It has {', '.join(profile.sources)}.")


def _nearest(title: str, name: str, names: Sequence[str]) -> str:
    return one_of(title, name.lower(), [*dict.fromkeys(names)], _MOST_NAMES)


def _first_line(error: Exception) -> str:
    """What DuckDB says, without the kind of error before it and the place in the query after it."""
    line = str(error).partition("\n")[0]
    return f"the query fails: {_KIND.sub('', line)}"
