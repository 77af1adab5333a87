"""How columns of an export become those of the data model; any of them may be absent."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import pair_places
from gpuprof.model.table import Computed, Flags, NumberedNames, Part, Stored, constant
from gpuprof.model.words import ByNumber, Words
from gpuprof.readers.nsys.device_ordinals import MachineNumbers
from gpuprof.readers.nsys.export_schema import BACKTRACE_CLASS

_LOW_24_BITS: Final = 0xFFFFFF
TIMES: Final[dict[str, Computed | str]] = {"start_ns": "start", "end_ns": "end"}
Numbers = npt.NDArray[Any]
_Columns = dict[str, Computed | str]


@dataclass(frozen=True, eq=False)
class Tables:
    """What lies in one export.

    Args:
        columns: Table name to the names of its columns.
        stored: What a table of the file holds.
        strings: The texts of the file by their numbers.
        memcpy_kinds: Numbers of ``copyKind`` to words; the file's own where it has an enum.
        memory_kinds: The same for ``srcKind``, ``dstKind`` and ``memKind``.
        backtrace_class: The ``eventClass`` of rows that repeat calls, from the file's enum, too.
        mistimed: Tables with rows that have no time or end before they start, all of them
            counted. Any other's rows that end before they start are the file's fault.
        machine_numbers: The numbers of devices where processes number them in their own ways.
    """

    columns: Mapping[str, Collection[str]]
    stored: Callable[[str], Stored]
    strings: "Strings"
    memcpy_kinds: Mapping[int, str]
    memory_kinds: Mapping[int, str]
    backtrace_class: int = BACKTRACE_CLASS
    mistimed: Collection[str] = ()
    machine_numbers: MachineNumbers = field(default_factory=dict)

    def pick(self, table: str, *names: str) -> str | None:
        """The first of these columns that the table has."""
        have = self.columns.get(table, ())
        return next((name for name in names if name in have), None)

    def has(self, table: str, *names: str) -> bool:
        """Whether the table is there with these columns."""
        return {*names} <= {*self.columns.get(table, ())} and table in self.columns


class Strings:
    """The texts of a file by their numbers, read when they are first asked for.

    Args:
        read: Gives them; None where there are none.
    """

    def __init__(self, read: Callable[[], NumberedNames] | None) -> None:
        self._read = read

    @cached_property
    def numbered(self) -> NumberedNames:
        """Each number with its text."""
        return NumberedNames([], {"name": []}) if self._read is None else self._read()

    @cached_property
    def words(self) -> Words:
        """All texts, null first."""
        return Words([None, *self.numbered.columns["name"]])

    @cached_property
    def places(self) -> ByNumber:
        """The place among the words of each number's text."""
        numbers, columns = self.numbered
        return ByNumber(numbers, [self.words.place(text) for text in columns["name"]], 0)

    def computed(self, column: str | None, missing: str | None = None) -> Computed | None:
        """The texts of a column of numbers.

        Args:
            column: The numbers; None for none.
            missing: What stands where there is no text.
        """
        if self._read is None or column is None:
            return None if missing is None else constant(missing)

        def places_of(numbers: Numbers) -> Numbers:
            return self.places.of(numbers)

        @cache
        def words() -> list[str | None]:
            return [missing, *self.words.listed[1:]]

        return Computed((column,), places_of, words)


def part(
    of: Tables,
    table: str,
    columns: Mapping[str, Computed | str | None],
    *keep: Computed,
    is_whole: Callable[[], bool] = lambda: False,
) -> Part:
    """Rows of a table, with those of the columns that are made of what the export has."""
    there = {
        name: column
        for name, column in columns.items()
        if column is not None and of.has(table, *as_computed(column).reads)
    }
    return Part(of.stored(table), there, keep, is_whole)


def first_known(*columns: str) -> Computed | str:
    """The first of some columns that is not null."""

    def make(first: Numbers, *further: Numbers) -> Numbers:
        for column in further:
            if (is_unknown := first == UNKNOWN).any():
                first = np.where(is_unknown, column, first)
        return first

    return Computed(columns, make) if len(columns) > 1 else columns[0]


def as_computed(column: Computed | str | None) -> Computed:
    """A column as one that is made, where it need not be there."""
    if isinstance(column, str):
        return Computed((column,), lambda numbers: numbers)
    return Computed(()) if column is None else column


def without(column: str, *absent: int) -> Computed:
    """A column, null where it is a number that stands for none."""
    return Computed((column,), lambda numbers: np.where(np.isin(numbers, absent), UNKNOWN, numbers))


def timed(of: Tables, table: str) -> list[Computed]:
    """Which rows have times, of which tools write both as 0 where they could not collect them."""
    is_ordered = table in of.mistimed

    def are_timed(start: Numbers, end: Numbers) -> Flags:
        flags: Flags = (start != UNKNOWN) & (end != UNKNOWN)
        if not start.all():
            flags &= (start != 0) | (end != 0)
        return flags & (end >= start) if is_ordered else flags

    return [Computed(("start", "end"), are_timed)]


def untimed_rows(start: Numbers, end: Numbers) -> int:
    """How many rows have no times: an end before the start would be taken off totals."""
    is_known = (start != UNKNOWN) & (end != UNKNOWN) & ((start != 0) | (end != 0))
    return int((~is_known | (end < start)).sum())


def place(of: Tables, table: str) -> dict[str, Computed | str | None]:
    """When and where an activity was, and which call started it."""
    return {
        **TIMES,
        "device_id": in_machine(of, table, "deviceId"),
        "context_id": "contextId",
        "stream_id": "streamId",
        "process_id": PROCESS,
        "correlation_id": "correlationId",
    }


def in_machine(of: Tables, table: str, device: Computed | str) -> Computed | str:
    """A device by its number in the machine, where processes number them in their own ways."""
    if not of.machine_numbers or not of.has(table, "globalPid"):
        return device
    pairs, numbers = sorted(of.machine_numbers), as_computed(device)
    ordered = np.array(pairs, np.int64).T
    gpus = np.array([of.machine_numbers[pair] for pair in pairs])

    def make(global_id: Numbers, *columns: Numbers) -> Numbers:
        ordinal: Numbers = (
            numbers.make(*columns) if numbers.make else np.full_like(global_id, UNKNOWN)
        )
        place = pair_places(ordered, low_bits(24)(global_id), ordinal)
        return np.where(place < 0, ordinal, gpus[place])

    return Computed(("globalPid", *numbers.reads), make)


def low_bits(shift: int) -> Callable[[Numbers], Numbers]:
    """24 bits of a global id, which holds machine, process and thread: 8 bits of each end."""

    def make(global_id: Numbers) -> Numbers:
        bits = global_id.astype(np.int64, copy=False) >> shift
        bits &= _LOW_24_BITS
        is_unknown = global_id == UNKNOWN
        return np.where(is_unknown, UNKNOWN, bits) if is_unknown.any() else bits

    return make


# Of activities and of what threads do: which process, and which thread.
PROCESS: Final = Computed(("globalPid",), low_bits(24))
THREAD: Final = {
    "process_id": Computed(("globalTid",), low_bits(24)),
    "thread_id": Computed(("globalTid",), low_bits(0)),
}


def columns_at_once(stored: Stored, names: Sequence[str | None]) -> list[Numbers]:
    """Columns of numbers of a table as one array each; None is one of unknown numbers."""
    there = [name for name in names if name is not None]
    parts = [[column.filled for column in piece] for piece in stored.pieces(there)]
    columns = dict(zip(there, map(np.concatenate, zip(*parts, strict=True)), strict=False))
    rows = len(next(iter(columns.values()), ()))
    none = np.full(rows, UNKNOWN)
    return [none if name is None else columns.get(name, none) for name in names]
