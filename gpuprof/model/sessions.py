"""Connections to DuckDB with what is planned on them, for files that are read one after another.

To open a connection and to plan views takes DuckDB longer than to answer queries to a small file.
So, within `passed_on`, a file takes over the connection of a file before it that is done, if its
tables are the same SELECTs over the same columns.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from gpuprof.model import engine
from gpuprof.model.columns import Shown, Table

if TYPE_CHECKING:
    import duckdb

# Files of one job are of one kind, and of each there is a part or two beside the whole.
_MOST: Final = 4


@dataclass(eq=False)
class Session:
    """A connection, and what DuckDB knows by now.

    Args:
        connection: The connection.
        shape: What files have in common that it serves; None for those of one file.
        created: SQL by the name of a view.
        types: Types of the columns of a table's rows, by table and column.
        asked_for: Columns that were asked for, by table: its view has them all.
        copied: Tables whose rows are kept, of the file whose turn it is.
        shown: The reader's tables; None before the first file's turn.
    """

    connection: "duckdb.DuckDBPyConnection"
    shape: object = None
    created: dict[str, str] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    asked_for: dict[str, set[str]] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    shown: Shown | None = None

    def show(self, tables: Mapping[str, Table]) -> Shown:
        """Make the reader's tables of a file visible."""
        if self.shown is None:
            self.shown = Shown(tables, self.connection)
        else:
            self.shown.turn_to(tables)
        return self.shown

    def forget(self, rows: Sequence[str]) -> None:
        """Let go of the content of a file.

        Args:
            rows: Names of its tables in memory.
        """
        for name in self.copied:
            self.connection.execute(f'DROP TABLE unrestricted."rows of {name}"')
        self.copied.clear()
        for name in rows:
            self.connection.unregister(f"rows of {name}")
        if self.shown is not None:
            self.shown.turn_to({})


_idle: list[Session] | None = None


@contextmanager
def passed_on() -> Iterator[None]:
    """Files that are read meanwhile leave their sessions to others."""
    global _idle  # noqa: PLW0603 - readers open sessions deep within
    earlier, _idle = _idle, []
    try:
        yield
    finally:
        _idle = earlier


def _taken_over(shape: object) -> Session | None:
    """A session that served files of this shape; None where none is idle."""
    idle: list[Session] = [] if _idle is None else _idle
    for session in [*idle]:
        if session.shape == shape:
            try:
                idle.remove(session)
            except ValueError:  # another thread has taken it
                continue
            return session
    return None


def opened(shape: object) -> Session:
    """A session that no file uses: one that served files of this shape, or a new one."""
    taken = _taken_over(shape) if shape is not None else None
    if taken is not None:
        return taken
    session = Session(engine.connect(), shape)
    # DuckDB would spill into the folder that the user is in; it makes this one when it spills, and
    # removes it where it is closed in order.
    spill = Path(tempfile.gettempdir()) / f"gpuprof-{uuid4().hex}"
    weakref.finalize(session, shutil.rmtree, spill, ignore_errors=True)
    session.connection.execute(f"SET temp_directory = {engine.literal(spill)}")
    session.connection.execute("CREATE SCHEMA unrestricted")
    return session


def leave(session: Session, rows: Sequence[str]) -> None:
    """Leave a session to the next file of its shape.

    Args:
        session: The session.
        rows: Names of the tables in memory that it showed.
    """
    if _idle is None or session.shape is None or len(_idle) >= _MOST:
        return
    with suppress(Exception):  # what a failed query leaves behind is of no use
        session.forget(rows)
        _idle.append(session)
