"""A user's question in SQL: one SELECT over the documented tables, to which all else is closed.

DuckDB gets the columns that the statement reads, and neither files, network nor settings.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses import ANALYSES, LONG, analysis_named
from gpuprof.base import signals
from gpuprof.base.errors import InputError, MissingTableError, QueryError, one_of
from gpuprof.model import derived, queries, schema
from gpuprof.model.profile import Profile

# https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
_CLOSED: Final[Mapping[str, str | bool]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
_WORD: Final = re.compile(r"\w+")
# DuckDB's words for names that it does not know.
_NO_TABLE: Final = re.compile(r"Table with name \"?(.+?)\"? does not exist")
_NO_COLUMN: Final = re.compile(r"(?:Referenced column|a column named) \"(.+?)\"")
_KIND: Final = re.compile(r"^[\w ]+ Error: ")
# Before the name of an analysis: some recorded tables have the same.
_ANSWER: Final = "answer of "
_MOST_NAMES: Final = 12


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
    connection = queries.connect(_CLOSED)
    tables = _tables(profile, {*_WORD.findall(sql.lower())})
    with _errors(profile, tables, sql), signals.interrupting(connection):
        queries.create(connection, tables)
        for name, columns in queries.reads(connection, sql).items():
            queries.fill(connection, name, tables[name], _rows(profile, name, columns))
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
    import duckdb  # start-up time

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(_first_line(error)) from error
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        kind_names = " and ".join(kinds) or "nothing"
        msg = f"a query is one SELECT, not {kind_names}"
        raise QueryError(msg, "It reads the recording's tables, and changes nothing.")


def _tables(profile: Profile, words: set[str]) -> dict[str, schema.Schema]:
    """The recorded tables, and under `_ANSWER` those of the analyses that a statement names."""
    analyses = [analysis_named(name) for name in (ANALYSES | LONG).keys() & words]
    answers = {f"{_ANSWER}{a.name}": a.schema for a in analyses if not a.missing(profile)}
    return {name: schema.BY_NAME[name] for name in profile.sources} | answers


def _rows(profile: Profile, name: str, columns: set[str]) -> pa.Table:
    """Some columns of a table, one at least, so that rows can be counted."""
    if name.startswith(_ANSWER):
        return profile.once(analysis_named(name.removeprefix(_ANSWER)).run)
    return queries.rows(profile, name, columns)


@contextmanager
def _errors(profile: Profile, tables: Mapping[str, schema.Schema], sql: str) -> Iterator[None]:
    """Raise what DuckDB says about a statement in one line, with the nearest names."""
    import duckdb  # loaded by now

    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:
        if any(sign in str(error) for sign in queries.INTERRUPTED):
            raise KeyboardInterrupt from error
        raise
    except duckdb.OutOfMemoryException as error:
        msg = f"the query needs more memory ({_first_line(error)})"
        raise InputError(msg, "Ask for fewer columns or rows.") from error
    except duckdb.PermissionException as error:
        msg = "a query reads the tables of the recording alone, no files and addresses"
        raise QueryError(msg, "Name tables as `gpuprof formats --schema` lists them.") from error
    except duckdb.Error as error:
        text = str(error)
        if match := _NO_TABLE.search(text):
            raise _no_table(profile, match[1]) from error
        if match := _NO_COLUMN.search(text):
            words = {*_WORD.findall(sql.lower())}
            named = [spec for spec in tables.values() if spec.name in words]
            columns = [c for spec in named for c in (*spec.columns, *derived.facts(spec.name))]
            columns += [c for n, r in derived.RELATIONS.items() if n in words for c in r.columns]
            msg = f"there is no column {match[1]}"
            raise QueryError(msg, _nearest("Columns", match[1], columns)) from error
        raise QueryError(_first_line(error)) from error


def _no_table(profile: Profile, name: str) -> MissingTableError | QueryError:
    """What is wrong with the name of a table."""
    lower_name = name.lower()
    if lower_name in schema.BY_NAME or lower_name in derived.RELATIONS:
        lacking = (
            derived.RELATIONS[lower_name].of if lower_name in derived.RELATIONS else lower_name
        )
    else:
        lacking = (
            analysis_named(lower_name).missing(profile) if lower_name in ANALYSES | LONG else ""
        )
    if not lacking:
        names = [*profile.sources, *derived.RELATIONS, *ANALYSES]
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
