"""The one representation of a recording's events: tables of equally long columns of numbers.

A reader gives what its file holds, column by column and in pieces (`Stored`), and from which of
these, by which function of arrays, each column of the data model is made (`Computed`). Words are
numbers beside the list of different words, and what is unknown is `UNKNOWN`. Rows that the table
leaves out, the selection and the bounds of the schema have one place each: `Table.pieces`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.arrow_values import CODED_TEXTS, as_arrow
from gpuprof.model.borders import check_bounds, check_values, fault
from gpuprof.model.data_model import NVTX_RANGES
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Intervals, intersection, union
from gpuprof.model.schema import LONGEST_NS, TEXT, Column, Schema
from gpuprof.model.stored import OF_ARRAYS, Beside, InMemory, Numbers, Stored, Window
from gpuprof.model.words import ByNumber, Names, Values, Words

Flags = npt.NDArray[np.bool_]

_START, _END, _NAME, _NAME_ID = "start_ns", "end_ns", "name", "name_id"
NO_TEXTS: Final[Mapping[str, Words]] = {}


# A copy belongs to each of its ends.
ENDS: Final = ("device_id", "src_device_id", "dst_device_id")


@dataclass(frozen=True)
class Selection:
    """Some of a recording's activities.

    Args:
        windows: Sorted, disjoint windows ``[start, end)`` in ns; an activity belongs to the one
            in which it starts, a range to all that it reaches into. None for all times.
        device_id: The one device; a copy belongs to each of its ends. None for all devices.
        is_reached: Whether activities belong to all windows that they reach into, as ranges do.
    """

    windows: tuple[tuple[int, int], ...] | None = None
    device_id: int | None = None
    is_reached: bool = False

    @property
    def extent(self) -> tuple[int, int] | None:
        """From the start of the first window to the end of the last; None for all times."""
        return (self.windows[0][0], self.windows[-1][1]) if self.windows else None

    def holds(self, instants: Numbers) -> Flags:
        """Which instants are in one of the windows."""
        if self.windows is None:
            return np.ones(len(instants), bool)
        if (instants[1:] >= instants[:-1]).all():
            # As mostly: then the borders of windows, which are few, are looked for.
            places = np.searchsorted(instants, self._borders)
            lengths = np.diff(places, prepend=0, append=len(instants))
            return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
        is_held: Flags = np.searchsorted(self._borders, instants, side="right") % 2 == 1
        return is_held

    def reached_by(self, start_ns: Numbers, end_ns: Numbers) -> Flags:
        """Which activities, or instants, reach into one of the windows."""
        starts, ends = self._borders[::2], self._borders[1::2]
        # The first window that ends after the start: no other one that is met is met earlier.
        window = np.searchsorted(ends, start_ns, side="right")
        last_ns = np.maximum(end_ns - 1, start_ns)
        is_reached: Flags = np.append(starts, np.iinfo(np.int64).max)[window] <= last_ns
        return is_reached

    def within(self, second: "Selection") -> "Selection":
        """What belongs to both."""
        windows = self.windows if second.windows is None else second.windows
        if None not in (self.windows, second.windows):
            shared = intersection(self._set, second._set)  # noqa: SLF001 - of the same class
            windows = tuple(zip(shared.start.tolist(), shared.end.tolist(), strict=True))
        devices = {self.device_id, second.device_id} - {None}
        if len(devices) > 1:
            return Selection((), self.device_id)
        return Selection(windows, next(iter(devices), None), self.is_reached or second.is_reached)

    @property
    def _set(self) -> Intervals:
        return union(self._borders[::2], self._borders[1::2])

    @cached_property
    def _borders(self) -> npt.NDArray[np.int64]:
        """Start and end of each window: from one border to the next is in one, or in none."""
        return np.array(self.windows, np.int64).reshape(-1)

    def columns(self, schema: Schema) -> frozenset[str]:
        """Those of a table's columns by which its rows are chosen."""
        columns, is_reached = schema.columns, self.is_reached or schema.name == NVTX_RANGES.name
        timed = {_START, *([_END] if is_reached else ())} if self.windows is not None else set()
        placed = {*ENDS} if self.device_id is not None and "device_id" in columns else set()
        return frozenset((timed | placed) & {*columns})


EVERYTHING: Final = Selection()


class Choice(NamedTuple):
    """Some rows of a table, of which other columns are then made.

    Args:
        by: The columns by which they are chosen.
        rows: Of these, as arrays in which `UNKNOWN` stands for null, the places of the rows.
    """

    by: tuple[str, ...]
    rows: Callable[..., Numbers]


class Computed(NamedTuple):
    """How a column is made of those of a file.

    Args:
        reads: Columns of the file.
        make: Of these, as arrays in which `UNKNOWN` stands for null, the same of this column; or
            one value for all rows.
        words: What its numbers mean; None for a column of numbers.
    """

    reads: tuple[str, ...]
    make: Callable[..., Any]
    words: Callable[[], Sequence[str | None]] | None = None


def read_for(column: Computed | str) -> tuple[str, ...]:
    """The columns of a file that one is made of, or that is it."""
    return (column,) if isinstance(column, str) else column.reads


def constant(word: str) -> Computed:
    """A column of one word."""
    return Computed((), lambda: 0, lambda: (word,))


def translated(column: str, words: Mapping[int, str], null: str | None = None) -> Computed:
    """Words for a tool's numbers; a number without a word is unknown.

    Args:
        column: The numbers.
        words: Number to word.
        null: What stands where there is no number.
    """
    distinct = [*dict.fromkeys([*words.values(), "unknown", null])]
    place = {word: place for place, word in enumerate(distinct)}
    places = {number: place[word] for number, word in words.items()} | {UNKNOWN: place[null]}
    by_number = ByNumber([*places], [*places.values()], place["unknown"])
    return Computed((column,), by_number.of, lambda: distinct)


@dataclass(eq=False)
class Part:
    """Rows of a table of the data model, made of those of a file's table.

    Args:
        stored: What the file holds.
        columns: How each column is made, or the name of the file's that is it; absent ones are
            null.
        keep: Which rows are the table's: by functions that give flags.
        is_whole: Whether functions need all rows at once, as they look from one to others; asked
            when rows are. None where they do not.
        has_all_rows: Whether all rows were read, and none was left out.
        checked: The columns that were found to be within their bounds.
    """

    stored: Stored
    columns: Mapping[str, Computed | str]
    keep: tuple[Computed, ...] = ()
    is_whole: Callable[[], bool] | None = None
    has_all_rows: bool = False
    checked: set[str] = field(default_factory=set)

    def reads(self, names: Iterable[str]) -> list[str]:
        """The file's columns that these are computed from, and those that choose rows."""
        reads: dict[str, None] = {}
        columns: list[Computed | str | None] = [*map(self.columns.get, names)]
        for of in [*columns, *(() if self.has_all_rows else self.keep)]:
            reads |= {} if of is None else dict.fromkeys(read_for(of))
        # The count of rows needs at least one column.
        return [*reads] or [next(r for of in self.columns.values() for r in read_for(of))]

    def column(self, name: str, spec: Column | None, of_file: Mapping[str, Values]) -> Values:
        """A column of the data model, made of those of rows of the file; one of these at least."""
        computed, rows = self.columns.get(name), len(next(iter(of_file.values())).numbers)
        if computed is None:
            if spec is not None and spec.dtype == TEXT:
                return Values(np.zeros(rows, np.int8), None, (None,))
            return Values(np.full(rows, UNKNOWN, np.int8), np.ones(rows, bool))
        if isinstance(computed, str):
            return of_file[computed]
        columns = [of_file[read] for read in computed.reads]
        numbers = computed.make(*map(_plain, columns))
        numbers = np.full(rows, numbers) if np.ndim(numbers) == 0 else numbers
        if computed.words is not None:
            return Values(numbers, None, computed.words())
        if spec is not None and spec.required and all(of.is_null is None for of in columns):
            return Values(numbers)
        is_null = numbers == UNKNOWN
        return Values(numbers, is_null if is_null.any() else None)

    @property
    def looks_around(self) -> bool:
        """Whether functions look from one row to others, so that they need all at once."""
        return self.is_whole is not None and self.is_whole()

    def pieces(self, reads: Sequence[str], window: Window | None) -> Iterator[dict[str, Values]]:
        """Columns of the file by their names, in pieces; all rows in one where that is needed."""
        # What is whole looks at rows outside of a window, too.
        is_whole = self.looks_around
        pieces = self.stored.pieces(reads, None if is_whole else window)
        if is_whole:
            in_one = [joined(column) for column in zip(*pieces, strict=True)]
            pieces = iter([in_one] if in_one else [])
        return (dict(zip(reads, stored, strict=True)) for stored in pieces)

    def columns_of(
        self, names: Iterable[str], spec: Mapping[str, Column], of_file: Mapping[str, Values]
    ) -> dict[str, Values]:
        """Some of these, times in 64 bits: differences may take more room than they do."""
        columns = {name: self.column(name, spec.get(name), of_file) for name in names}
        for name in {_START, _END} & columns.keys():
            numbers = columns[name].numbers.astype(np.int64, copy=False)
            columns[name] = columns[name]._replace(numbers=numbers)
        return columns


class Table:
    """A table of the data model.

    Args:
        schema: Its columns and their bounds.
        parts: Its rows, one part below the other.
        names: What the numbers of names mean, where the file numbers them: its rows have
            ``name_id`` in place of these columns. None where it does not.
        of_names: The columns that depend on the name alone, where the file numbers the names.
    """

    def __init__(
        self,
        schema: Schema,
        parts: Sequence[Part],
        names: Callable[[], Names] | None = None,
        of_names: Collection[str] = (_NAME,),
    ) -> None:
        self.schema, self.parts, self._names = schema, parts, names
        self._of_file, self._names_of_arrays = parts, frozenset[str]()
        self.of_names = frozenset(() if names is None else of_names)
        self._read_names: Names | None = None

    @property
    def names(self) -> Names:
        """The names by their numbers; where the file does not number them, all in their order."""
        if self._read_names is None:
            # No cached property: of a job, the names of files are read by other threads, which
            # Python 3.11 lets wait for each other.
            words = self._all_words.words if self._names is None else ()
            of_rows = Names(range(len(words)), {_NAME: words})
            self._read_names = of_rows if self._names is None else self._names()
        return self._read_names

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""
        for part in self.parts:
            part.stored.expect(self._stored(part, names))

    def release(self, but: Collection[str]) -> None:
        """Let go of what the file's columns hold that none of these is made of.

        Where one of the columns that are held as arrays is none of these, they all are.
        """
        if not self._names_of_arrays.issubset(but):
            self.parts, self._names_of_arrays = self._of_file, frozenset()
        for part in self.parts:
            part.stored.release(self._stored(part, but) if but else ())

    def hold(self, rows: int, columns: Mapping[str, Callable[[slice], Numbers]]) -> None:
        """Take columns without nulls from arrays that are in memory anyway, not from the file.

        Args:
            rows: How many rows the table has. Nothing happens where it leaves out any of its
                file's, or has several parts.
            columns: What gives some rows of each column.
        """
        part = self.parts[0]
        if len(self.parts) > 1 or not part.has_all_rows:
            return
        self._names_of_arrays = frozenset(columns)
        from_arrays = {OF_ARRAYS + name: of_rows for name, of_rows in columns.items()}
        columns_beside = {**part.columns, **{name: OF_ARRAYS + name for name in columns}}
        self.parts = [
            replace(part, stored=Beside(part.stored, rows, from_arrays), columns=columns_beside)
        ]
        self.release([*self.schema.columns, _NAME_ID])

    def _stored(self, part: Part, names: Collection[str]) -> list[str]:
        declared = {*self.schema.columns, _NAME_ID}.intersection(names)
        return part.reads(self._of_rows([*declared]))

    def holds(self, name: str) -> bool:
        """Whether any row may have a value in a column."""
        return name in self.of_names or any(name in part.columns for part in self.parts)

    def rows_known(self) -> int:
        """How many rows it has at most; 0 for unknown."""
        return sum(part.stored.rows_known() for part in self.parts)

    def pieces(
        self,
        names: Sequence[str],
        selection: Selection = EVERYTHING,
        *,
        choice: Choice | None = None,
        is_checked: bool = True,
    ) -> Iterator[list[Values]]:
        """Columns of the selected rows in pieces, ``name_id`` among them, or of some of these.

        Raises:
            BeyondBoundsError: A value is beyond its bounds.
        """
        spec, selected_by = self.schema.columns, selection.columns(self.schema)
        chosen_by = () if choice is None else choice.by
        needed = [*dict.fromkeys((*self._of_rows([*names, *chosen_by]), *selected_by))]
        needed += [_START] if _END in needed and _START not in needed else []
        for part in self.parts:
            unchecked = [name for name in needed if is_checked and name not in part.checked]
            keep, reads = () if part.has_all_rows else part.keep, part.reads(needed)
            # What reaches into a window may start before it.
            window = None if _END in selected_by else selection.extent
            has_all_rows, pieces = True, part.pieces(reads, window)
            # Of rows that are chosen, what neither tells which they are nor was checked comes last.
            is_last = choice is not None and not part.looks_around
            of_all = {*unchecked, *selected_by, *self._of_rows(chosen_by), _START}
            first = [name for name in needed if not is_last or name in of_all]
            last = [name for name in needed if name not in first]
            for stored in pieces:
                columns, of_file = part.columns_of(first, spec, stored), stored if last else {}
                is_kept = [of.make(*(_plain(stored[n]) for n in of.reads)) for of in keep]
                is_kept += _chosen(selection, selected_by, columns)
                if is_kept and not (is_row := np.logical_and.reduce(is_kept)).all():
                    columns, of_file = _taken(np.flatnonzero(is_row), columns, of_file)
                    has_all_rows = False
                self._check(unchecked, columns)
                if choice is not None:
                    rows = choice.rows(*(self._named(n, columns).filled for n in chosen_by))
                    columns, of_file = _taken(rows, columns, of_file)
                    columns |= part.columns_of(last, spec, of_file)
                yield [self._named(name, columns) for name in names]
            if selection == EVERYTHING:
                part.checked.update(unchecked)
                part.has_all_rows = has_all_rows

    def _check(self, names: Collection[str], columns: Mapping[str, Values]) -> None:
        for name in names:
            check_values(self.schema.columns.get(name), columns[name])
        if _END in names:
            durations = columns[_END].numbers - columns[_START].numbers
            check_bounds(durations, 0, LONGEST_NS)

    def _named(self, name: str, columns: Mapping[str, Values]) -> Values:
        """A column of these rows, or one that follows from their names or these' numbers."""
        if name in self.of_names:
            return self.names.column(name, columns[_NAME_ID].filled)
        if name == _NAME_ID and self._names is None:
            return Values(self._all_words.numbers(columns[_NAME]))
        return columns[name]

    def _of_rows(self, names: Sequence[str]) -> list[str]:
        """The columns of rows that these are made of."""
        if self._names is None:
            return [*dict.fromkeys(_NAME if name == _NAME_ID else name for name in names)]
        return [*dict.fromkeys(_NAME_ID if n in self.of_names else n for n in names)]

    @cached_property
    def _all_words(self) -> Words:
        """The names of all rows in their order."""
        words = Words()
        for (column,) in self.pieces([_NAME], is_checked=False):
            words.numbers(column)
        return Words(sorted(words.words, key=lambda name: name or ""))

    def arrow(
        self,
        names: Sequence[str],
        selection: Selection = EVERYTHING,
        *,
        has_dictionaries: bool = False,
    ) -> pa.Table:
        """Columns of the schema as Arrow data of its types, texts as dictionaries if asked for."""
        kinds = [self.schema.kinds[name] for name in names]
        if has_dictionaries:
            kinds = [CODED_TEXTS if kind == pa.string() else kind for kind in kinds]
        parts = []
        for piece in self.pieces(names, selection):
            columns = [as_arrow(c, kind) for c, kind in zip(piece, kinds, strict=True)]
            parts.append(pa.Table.from_arrays(columns, [*names]))
        if not parts:
            return pa.Table.from_batches([], pa.schema(list(zip(names, kinds, strict=True))))
        return pa.concat_tables(parts).unify_dictionaries()

    def fault(self) -> str | None:
        """The first value that no recording holds, found by reading all rows."""
        before = 0
        columns = [name for name in self.schema.columns if self.holds(name)]
        for piece in self.pieces(columns, is_checked=False):
            rows = pa.Table.from_arrays([as_arrow(column) for column in piece], columns)
            if (problem := fault(self.schema, rows, before)) is not None:
                return problem
            before += rows.num_rows
        return None


def in_memory(schema: Schema, rows: pa.Table) -> Table:
    """A table that is in memory."""
    if not rows.num_rows:
        return Table(schema, [])
    return Table(schema, [Part(InMemory(rows), {name: name for name in rows.column_names})])


def _chosen(
    selection: Selection, columns: Collection[str], values: Mapping[str, Values]
) -> Iterator[Flags]:
    """Which rows start in the windows or reach into them, and which are of the device."""
    if selection.windows is not None and _START in columns:
        start = values[_START]
        yield (
            selection.reached_by(start.numbers, values[_END].numbers)
            if _END in columns
            else selection.holds(start.numbers)
        )
        if start.is_null is not None:
            yield ~start.is_null
    if selection.device_id is not None and (ends := {*columns} & {*ENDS}):
        yield np.logical_or.reduce([values[end].filled == selection.device_id for end in ends])


def _taken(rows: Numbers, *tables: Mapping[str, Values]) -> list[dict[str, Values]]:
    """Some rows of the columns of each table."""
    return [{name: column.take(rows) for name, column in of.items()} for of in tables]


def _plain(column: Values) -> Any:
    """What functions take: an array, or words with their numbers."""
    return column.filled if column.words is None else column


def joined(pieces: Sequence[Values]) -> Values:
    """A column in one piece."""
    if pieces[0].words is not None:
        words = Words()
        return Values(np.concatenate([words.numbers(of) for of in pieces]), None, words.words)
    numbers = np.concatenate([of.filled for of in pieces])
    if all(of.is_null is None for of in pieces):
        return Values(numbers)
    are_null = [
        np.zeros(len(of.numbers), bool) if of.is_null is None else of.is_null for of in pieces
    ]
    is_null = np.concatenate(are_null)
    return Values(numbers, is_null if is_null.any() else None)
