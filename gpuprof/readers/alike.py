"""The same queries to several recordings.

To open a connection and plan a query takes DuckDB longer than to answer it for a small file. So
files whose tables are the same SELECTs over the same columns, such as those of the ranks of one
job, share a connection, which reads one of them after another.
"""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from gpuprof.model.columns import Kinds, Streamed, Table, Tables, Window
from gpuprof.model.profile import Profile
from gpuprof.model.spilling import BATCH_ROWS
from gpuprof.model.views import View


class Recordings:
    """Several recordings, to which the same queries are put."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        # Threads take turns with the connections.
        self._turn = threading.Lock()

    def query(self, profile: Profile, sql: str) -> pa.Table:
        """The result for one of them.

        Raises:
            GpuprofError: Its file breaks its format's rules where the query reads it.
        """
        if not isinstance(profile.prepare, Tables):
            return profile.query(sql)
        tables = profile.prepare.make()
        try:
            with self._turn:
                return self._group(profile, profile.prepare, tables).query(tables, sql)
        except Exception:  # noqa: BLE001 - asked by itself, it says what is wrong
            return replace(profile).query(sql)

    def _group(self, profile: Profile, prepare: Tables, tables: Mapping[str, Table]) -> "_Group":
        group = next((group for group in self._groups if group.takes(profile, tables)), None)
        if group is None:
            group = _Group(profile, prepare, tables)
            self._groups.append(group)
        return group


class _Group:
    """A connection for recordings that are alike."""

    def __init__(self, first: Profile, prepare: Tables, tables: Mapping[str, Table]) -> None:
        self._views = _views(first)
        self._turns = {name: _InTurn(table.kinds) for name, table in tables.items()}
        # What is asked of one is asked once, so that no copy need be kept for the next query.
        sources = {name: replace(view, is_costly=False) for name, view in self._views.items()}
        shown = Tables(lambda: self._turns, prepare.settle)
        self._profile = Profile(first.origin, sources, shown)

    def takes(self, profile: Profile, tables: Mapping[str, Table]) -> bool:
        """Whether one plan of a query serves this one, too."""
        kinds = {name: table.kinds for name, table in tables.items()}
        planned_kinds = {name: table.kinds for name, table in self._turns.items()}
        return _views(profile) == self._views and kinds == planned_kinds

    def query(self, tables: Mapping[str, Table], sql: str) -> pa.Table:
        """The result for one of them."""
        for name, turn in self._turns.items():
            turn.table = tables[name]
        try:
            return self._profile.query(sql)
        finally:
            for turn in self._turns.values():
                turn.table = None


def _views(profile: Profile) -> dict[str, View]:
    """The tables that take a query."""
    return {name: rows for name, rows in profile.sources.items() if isinstance(rows, View)}


class _InTurn(Streamed):
    """A table of one after another of several files, of the same types for all of them."""

    def __init__(self, kinds: Kinds) -> None:
        super().__init__(kinds, kinds)
        self.table: Table | None = None

    def load(self, names: Collection[str], _: Window | None = None) -> None:
        """Read now what the next query reads, so that it meets no error."""
        super().load(names)
        if self.table is not None:
            self.table.load(names, None)

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[pa.RecordBatch]:
        """Columns of all rows of the file whose turn it is."""
        for batch in self.table.pieces(names) if self.table else ():
            for low in range(0, len(batch), BATCH_ROWS):
                yield batch.slice(low, BATCH_ROWS)
