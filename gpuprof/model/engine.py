"""DuckDB, which answers every query."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gpuprof.base import machine

if TYPE_CHECKING:
    import duckdb

# DuckDB draws it among the results on stdout when a query takes long, terminal or not.
NO_BAR: Final = "SET enable_progress_bar = false"
_OPEN: Final[Mapping[str, str | bool]] = MappingProxyType({})


def connect(settings: Mapping[str, str | bool] = _OPEN) -> "duckdb.DuckDBPyConnection":
    """A connection of its own, which asks nobody else for anything.

    Args:
        settings: DuckDB's, beside those of all connections.
    """
    import duckdb  # noqa: PLC0415 - 0.1 s that a summary of a text file does not need

    names = ("autoinstall_known_extensions", "autoload_known_extensions")
    connection = duckdb.connect(config={**dict.fromkeys(names, False), **settings})
    # A notebook without ipywidgets has no bar, and refuses to have it turned off.
    with suppress(duckdb.InvalidInputException):
        connection.execute(NO_BAR)
    _distrust(connection)
    _leave_memory(connection)
    _leave_cores(connection)
    return connection


def literal(value: object) -> str:
    """SQL: a text."""
    return "'" + str(value).replace("'", "''") + "'"


def quoted(name: str) -> str:
    """SQL: a name."""
    return '"' + name.replace('"', '""') + '"'


def _distrust(connection: "duckdb.DuckDBPyConnection") -> None:
    """Turn off an optimiser that takes two SQLite tables with the same columns for one.

    DuckDB 1.5 reads the first of them twice: kernels that ran side by side were counted again
    in the place of those that ran one by one.
    """
    faulty = "common_subplan"
    if connection.execute(f"FROM duckdb_optimizers() WHERE name = '{faulty}'").fetchall():
        connection.execute(f"SET disabled_optimizers = '{faulty}'")


def _leave_memory(connection: "duckdb.DuckDBPyConnection") -> None:
    """Let DuckDB spill at half of the memory: what it hands over needs room beside it."""
    # By itself it takes 80 % of what this machine, or its container, has.
    ((usual,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    amount, unit = usual.split()
    part = 50 / 80 / machine.process_count()
    connection.execute(f"SET memory_limit = '{float(amount) * part:.3f}{unit}'")


def _leave_cores(connection: "duckdb.DuckDBPyConnection") -> None:
    """Let DuckDB take no cores that are those of other workers."""
    if machine.process_count() > 1:
        connection.execute(f"SET threads = {machine.thread_count(machine.core_count())}")
