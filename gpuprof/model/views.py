"""Tables of a reader's file as SQL in the words of the data model, column by column.

A query is given the columns that it names: a reader reads no others, and names are joined, and
patterns matched, only where they are asked for.
"""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Self

from gpuprof.model import borders, derived, schema

# What a column's bounds are checked against.
CHECKED_WITH: Final = {"end_ns": ("start_ns",), "bytes": ("start_ns", "end_ns")}
EVERY_COLUMN: Final = frozenset(
    column for spec in schema.BY_NAME.values() for column in spec.columns
)


# Tools write both times as 0 where they could not be collected; a null is of no use either.
NO_TIME: Final = '(t.start IS NULL OR t."end" IS NULL OR (t.start = 0 AND t."end" = 0))'


class StoredColumn(str):
    """SQL: a value as a reader's table holds it, or some bits of an integer.

    Args:
        name: The table's column.
        shift: How many low bits are left out.
        mask: Which of the others remain; -1 for all.
        alias: What the SQL calls the table.
        absent: The number that stands where there is none; None for no number.
    """

    __slots__ = ("absent", "alias", "mask", "name", "shift")
    name: str
    shift: int
    mask: int
    alias: str
    absent: int | None

    def __new__(
        cls,
        name: str,
        shift: int = 0,
        mask: int = -1,
        alias: str = "t",
        absent: int | None = None,
    ) -> Self:
        """Make the SQL."""
        sql = f'{alias}."{name}"'
        sql = f"({sql} >> {shift})" if shift else sql
        sql = sql if mask == -1 else f"({sql} & {mask})"
        self = super().__new__(cls, sql if absent is None else f"nullif({sql}, {absent})")
        self.name, self.shift, self.mask, self.alias = name, shift, mask, alias
        self.absent = absent
        return self

    def bits(self, shift: int, mask: int) -> Self:
        """Some bits of the same column."""
        return type(self)(self.name, shift, mask, self.alias)

    def without(self, absent: int) -> Self:
        """The same values, null where they are this number."""
        return type(self)(self.name, self.shift, self.mask, self.alias, absent)


class Trimmed(str):
    """SQL: a stored text without what some digits end it with, as ``_v`` and four of them.

    Args:
        column: The text.
        end: What is left out.
    """

    __slots__ = ("column", "end")
    column: StoredColumn
    end: re.Pattern[str]

    def __new__(cls, column: StoredColumn, mark: str, digits: int) -> Self:
        """Make the SQL: ``mark``, of plain letters, comes before so many digits."""
        end = f"{mark}[0-9]{{{digits}}}"
        self = super().__new__(cls, f"regexp_replace({column}, '{end}$', '')")
        self.column, self.end = column, re.compile(rf"{end}\Z")
        return self

    def trimmed(self, text: str | None) -> str | None:
        """The same of one text."""
        return None if text is None else self.end.sub("", text)


class StoredOr(str):
    """SQL: a stored value; where there is none, in rows of some kinds, a fallback.

    Args:
        first: The value; None for none in any row.
        kind: The column with the kind of a row.
        kinds: The kinds of rows in which the fallback stands for it.
        fallback: That value.
    """

    __slots__ = ("fallback", "first", "kind", "kinds")
    first: StoredColumn | None
    kind: StoredColumn
    kinds: tuple[int, ...]
    fallback: StoredColumn

    def __new__(
        cls,
        first: StoredColumn | None,
        kind: StoredColumn,
        kinds: Iterable[int],
        fallback: StoredColumn,
    ) -> Self:
        """Make the SQL."""
        numbers = tuple(kinds)
        listed = ", ".join(map(str, numbers)) or "NULL"
        value = f"CASE WHEN {kind} IN ({listed}) THEN {fallback} END"
        self = super().__new__(cls, value if first is None else f"coalesce({first}, {value})")
        self.first, self.kind, self.kinds, self.fallback = first, kind, numbers, fallback
        return self

    @property
    def columns(self) -> list[StoredColumn]:
        """What it is made of."""
        return [column for column in (self.first, self.kind, self.fallback) if column is not None]


class StoredWords(str):
    """SQL: words for the numbers of a stored column.

    Args:
        column: The numbers.
        words: Number to word.
    """

    __slots__ = ("column", "words")
    column: StoredColumn
    words: Mapping[int, str]

    def __new__(cls, sql: str, column: StoredColumn, words: Mapping[int, str]) -> Self:
        """Mark SQL that gives these words."""
        self = super().__new__(cls, sql)
        self.column, self.words = column, words
        return self


class StoredRows(str):
    """SQL, from ``FROM`` on: the rows of a reader's table as they are, or nearly all of them.

    Args:
        table: The reader's table.
        are_timed: Whether rows are left out whose times are unknown, see `NO_TIME`.
        are_ordered: Whether rows are left out that end before they start.
        without: A column, and the number that it has in other rows that are left out.
        only: A column, and the numbers that it has in the rows; None for all rows.
        joins: SQL of joins, which only a query can do.
    """

    __slots__ = ("are_ordered", "are_timed", "joins", "only", "table", "without")
    table: str
    are_timed: bool
    are_ordered: bool
    without: tuple[str, int] | None
    only: tuple[str, tuple[int, ...]] | None
    joins: str

    def __new__(  # noqa: PLR0913 - conditions, all but the table optional
        cls,
        table: str,
        *,
        are_timed: bool = False,
        are_ordered: bool = False,
        without: tuple[str, int] | None = None,
        only: tuple[str, tuple[int, ...]] | None = None,
        joins: str = "",
    ) -> Self:
        """Make the SQL."""
        conditions = [f"NOT {NO_TIME}"] if are_timed else []
        conditions += ['t."end" >= t.start'] if are_ordered else []
        if without is not None:
            column, number = without
            conditions.append(f'try_cast(t."{column}" AS BIGINT) IS DISTINCT FROM {number}')
        if only is not None:
            conditions.append(f't."{only[0]}" IN ({", ".join(map(str, only[1]))})')
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        self = super().__new__(cls, f"FROM raw.{table} t {joins}{where}")
        self.table, self.without, self.only, self.joins = table, without, only, joins
        self.are_timed, self.are_ordered = are_timed, are_ordered
        return self

    @property
    def is_plain(self) -> bool:
        """Whether they are all rows of the table."""
        conditions = (self.are_timed, self.are_ordered, self.without, self.only, self.joins)
        return not any(conditions)


class RowSet(Enum):
    """Which rows of the reader's file are asked for: a table's, or further ones of its `View`."""

    TABLE = "table"
    RECORDED = "recorded"
    DOMAINS = "domains"


class Select(NamedTuple):
    """Rows of a reader's file in the words of the data model.

    Args:
        columns: Column -> SQL over what stands in ``source``; absent ones are null. A
            `StoredColumn` can be read without a query.
        source: What comes after the columns, from ``FROM`` on; perhaps `StoredRows`.
    """

    columns: dict[str, str]
    source: str

    def sql(self, names: Iterable[str]) -> str:
        """SQL: the rows with some of the columns, those that are here."""
        chosen = [f'{self.columns[name]} AS "{name}"' for name in names if name in self.columns]
        return f"SELECT {', '.join(chosen) or 'NULL AS none'} {self.source}"


@dataclass(frozen=True)
class View:
    """A table as SELECTs over what the reader's ``prepare`` made visible, one below the other.

    Args:
        selects: Its rows.
        names: Where the file numbers its names: ``name_id``, ``name`` and what else depends on
            the name alone, one row per number. Two numbers may mean one name, and a number none.
            ``selects`` then have a column ``name_id`` in place of these.
        is_costly: Whether its rows are better made once than for each query.
        recorded: The rows as they were recorded, before a join tells more of them; columns of
            integers, `StoredWords` of these and texts can be read without a query. None for no
            such rows.
        domains: Of NVTX ranges, the rows that name the domains of a process, as recorded.
        strings: Where ``recorded`` has numbers for texts, each text by its number, as ``names``.
    """

    selects: tuple[Select, ...]
    names: Select | None = None
    is_costly: bool = False
    recorded: Select | None = None
    domains: Select | None = None
    strings: Select | None = None

    @property
    def columns(self) -> frozenset[str]:
        """All columns of the rows."""
        return frozenset(name for select in self.selects for name in select.columns)

    def select_of(self, rows: RowSet) -> Select | None:
        """Where such rows come from; None where they come from nothing, or from several SELECTs."""
        if rows is not RowSet.TABLE:
            return self.recorded if rows is RowSet.RECORDED else self.domains
        return self.selects[0] if len(self.selects) == 1 else None

    @property
    def keeps_order(self) -> bool:
        """Whether two queries see its rows in the same order; DuckDB joins in any."""
        sources = [select.source for select in self.selects]
        return all(isinstance(source, StoredRows) and not source.joins for source in sources)

    def sql(self, names: Iterable[str]) -> str:
        """SQL: the rows with some of the columns."""
        columns = [*names]
        return " UNION ALL BY NAME ".join(select.sql(columns) for select in self.selects)


@dataclass(frozen=True)
class Table:
    """What a query sees of one table.

    Args:
        name: Name of the table in the data model.
        view: Its rows.
        words: Names of columns, among other words.
    """

    name: str
    view: View
    words: AbstractSet[str]

    @property
    def columns(self) -> list[str]:
        """The columns of the rows that are needed, in the order of the schema."""
        needed = {*self._needed}
        for column in self._needed:
            needed.update(CHECKED_WITH.get(column, ()))
        in_order = (*schema.BY_NAME[self.name].columns, "name_id")
        return [column for column in in_order if column in needed & self.view.columns]

    @property
    def of_rows(self) -> set[str]:
        """The columns asked for that stand in the rows, or are made of what does."""
        of_row = derived.OF_ROWS.get(self.name, {})
        return {c for c in self.words if c in self.view.columns or c in of_row}

    @property
    def reads(self) -> list[str]:
        """SQL over the reader's tables: what must be read of them."""
        needs_names = self._of_name or names_of(self.name) in self.words
        return [self.view.sql(self.columns), *([self.names] if self.names and needs_names else [])]

    def rows(self, types: Mapping[str, str]) -> str:
        """SQL: the rows as the data model has them, without what depends on names.

        A query that reads a value beyond a column's bounds fails; see `borders.checked`.

        Args:
            types: DuckDB's types of the view's columns.
        """
        spec, columns = schema.BY_NAME[self.name].columns, self.columns
        typed = [
            borders.checked(self.name, column, spec[column], types[column])
            if column in spec
            else f"CAST({column} AS BIGINT) AS {column}"
            for column in columns
        ]
        absent = (self._needed & spec.keys()) - self.view.columns - {*self._of_name}
        typed += [
            f"CAST(NULL AS {borders.SQL_TYPES[spec[column].dtype]}) AS {column}"
            for column in spec
            if column in absent
        ]
        return f"SELECT {', '.join(typed) or 'NULL AS none'} FROM ({self.view.sql(columns)})"

    def sql(self, rows: str) -> str:
        """SQL: all that is asked for, from the rows and the names."""
        if self._of_row:
            of_row = derived.OF_ROWS[self.name]
            values = ", ".join(f"{of_row[column].sql} AS {column}" for column in self._of_row)
            rows = f"SELECT *, {values} FROM ({rows})"
        if not self._of_name:
            return rows
        of_name = derived.OF_NAMES.get(self.name, {})
        named = [f"{of_name[c].sql} AS {c}" if c in of_name else c for c in self._of_name]
        if self.view.names is None:
            return f"SELECT *, {', '.join(named)} FROM ({rows})"
        unnamed = " REPLACE (coalesce(name, 'unknown') AS name)" if "name" in self._of_name else ""
        return (
            f"SELECT *{unnamed} FROM ({rows}) LEFT JOIN"
            f" (SELECT name_id, {', '.join(named)} FROM ({self.names})) USING (name_id)"
        )

    @property
    def names(self) -> str:
        """SQL: every name by its number, where the file numbers them; else empty."""
        names = self.view.names
        return "" if names is None else names.sql(names.columns)

    @property
    def _needed(self) -> AbstractSet[str]:
        """The columns that the rows have: of a costly table all."""
        spec = schema.BY_NAME[self.name].columns
        by = {"name" if self.view.names is None else "name_id"} if self._of_name else set()
        by |= {word for c in self._of_row for word in derived.OF_ROWS[self.name][c].words}
        return {*spec, "name_id"} if self.view.is_costly else {*self.words, *by}

    @property
    def _of_row(self) -> list[str]:
        """The columns asked for that are made of others of the row."""
        return [column for column in derived.OF_ROWS.get(self.name, {}) if column in self.words]

    @property
    def _of_name(self) -> list[str]:
        """The columns asked for that depend on the name alone and do not stand in the rows."""
        names = self.view.names.columns if self.view.names is not None else {}
        columns = (*names, *derived.OF_NAMES.get(self.name, {}))
        return [column for column in columns if column in self.words and column != "name_id"]


def names_of(table: str) -> str:
    """What the view is called that has every name of a table by its number."""
    return f"{table}_names"
