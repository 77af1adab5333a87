"""SQL over tables, for users: DuckDB gets the columns that a statement reads, as Arrow data."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.base import json_input, machine, signals
from gpuprof.base.errors import ROOM, InputError, QueryError
from gpuprof.model import derived
from gpuprof.model.schema import BY_NAME, FLAG, FLOAT, INT, TEXT, Schema

if TYPE_CHECKING:
    import duckdb

    from gpuprof.model.profile import Profile

SQL_TYPES: Final = {INT: "BIGINT", FLOAT: "DOUBLE", TEXT: "VARCHAR", FLAG: "BOOLEAN"}
# What DuckDB says where Ctrl-C ended a query.
INTERRUPTED: Final = ("Query interrupted", "INTERRUPT Error", "KeyboardInterrupt")
# What it says where it cannot write what does not fit into memory.
_FULL: Final = "No space left"
# Begins the names of tables that no selection restricts.
_UNRESTRICTED: Final = "unrestricted."
_OPEN: Final[Mapping[str, str | bool]] = MappingProxyType({})


def answer(profile: "Profile", sql: str) -> pa.Table:
    """The result of a query over a recording's tables.

    Those of the whole recording are ``unrestricted.NAME``.

    Raises:
        QueryError: It is no SQL, or names what there is not.
        GpuprofError: The reader's file breaks its format's rules where the query reads it, or
            memory does not suffice.
    """
    recordings = {"": profile}
    if "unrestricted" in sql.lower():
        recordings[_UNRESTRICTED] = profile.unrestricted
    tables = {f"{of}{n}": BY_NAME[n] for of, r in recordings.items() for n in r.sources}
    with TemporaryDirectory(prefix="gpuprof-") as folder, _errors(profile):
        # DuckDB would spill into the folder that the user is in.
        connection = connect({"temp_directory": folder})
        with closing(connection), signals.interrupting(connection):
            create(connection, tables)
            for name, columns in reads(connection, sql).items():
                spec = tables[name]
                of = recordings[name.removesuffix(spec.name)]
                fill(connection, name, spec, rows(of, spec.name, columns))
            return connection.sql(sql).to_arrow_table()


@contextmanager
def _errors(profile: "Profile") -> Iterator[None]:
    """Raise what DuckDB says of a query, or where Ctrl-C or the machine ended it."""
    import duckdb  # start-up time

    try:
        yield
    except Exception as error:
        if any(sign in str(error) for sign in INTERRUPTED):
            raise KeyboardInterrupt from error
        if isinstance(error, duckdb.OutOfMemoryException) or _FULL in str(error):
            msg = f"{profile.origin.source} needs more memory, or more room for temporary files"
            raise InputError(msg, ROOM) from error
        if isinstance(error, duckdb.ProgrammingError):
            line = str(error).partition("\n")[0]
            msg = f"the query fails: {line}"
            raise QueryError(msg) from error
        raise


def connect(settings: Mapping[str, str | bool] = _OPEN) -> "duckdb.DuckDBPyConnection":
    """A connection of its own, which asks nobody else for anything.

    Args:
        settings: DuckDB's, beside those of all connections.
    """
    import duckdb  # 0.1 s that only a query needs

    names = ("autoinstall_known_extensions", "autoload_known_extensions")
    connection = duckdb.connect(config={**dict.fromkeys(names, False), **settings})
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


def create(connection: "duckdb.DuckDBPyConnection", tables: Mapping[str, Schema]) -> None:
    """Make all tables without rows, and the columns and tables that are derived from them.

    Args:
        connection: Where.
        tables: By the name that a table has in ``recorded``; as a view it has its schema's.
    """
    connection.execute("CREATE SCHEMA recorded; CREATE SCHEMA unrestricted")
    for name, spec in tables.items():
        columns = ", ".join(f'"{c}" {SQL_TYPES[s.dtype]}' for c, s in spec.columns.items())
        connection.execute(f'CREATE TABLE recorded."{name}" ({columns})')
        further = "".join(f", {f.sql} AS {c}" for c, f in derived.facts(name).items())
        view = f'SELECT *{further} FROM recorded."{name}"'
        of = "unrestricted" if name.startswith(_UNRESTRICTED) else "main"
        connection.execute(f'CREATE OR REPLACE VIEW {of}."{spec.name}" AS {view}')
    for name, relation in derived.RELATIONS.items():
        if relation.of in tables:
            connection.execute(f'CREATE VIEW main."{name}" AS {relation.sql}')


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


def rows(profile: "Profile", name: str, columns: Iterable[str]) -> pa.Table:
    """Some columns of a table by its start; one at least, so that rows can be counted."""
    chosen = {*columns}
    spec = BY_NAME[name].columns
    names = [column for column in spec if column in chosen] or [*spec][:1]
    return profile.arrow(name, names, has_dictionaries=True)


def fill(connection: "duckdb.DuckDBPyConnection", name: str, spec: Schema, table: pa.Table) -> None:
    """Put rows in the place of a table; columns that no plan reads are there, without values."""
    connection.register(f"rows of {name}", table)
    there = {c: '"' + c.replace('"', '""') + '"' for c in table.column_names}
    columns = ", ".join(
        f'{there.get(c, "NULL")}::{SQL_TYPES[s.dtype]} AS "{c}"' for c, s in spec.columns.items()
    )
    connection.execute(f'DROP TABLE recorded."{name}"')
    connection.execute(f'CREATE VIEW recorded."{name}" AS SELECT {columns} FROM "rows of {name}"')
