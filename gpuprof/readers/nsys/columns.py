"""An export's tables, and how their columns become those of the data model; any may be absent."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.base import cuda
from gpuprof.model import borders
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import is_any_of, pair_places
from gpuprof.model.stored import Stored
from gpuprof.model.table import Computed, Flags, Part, read_for
from gpuprof.model.words import Names
from gpuprof.readers.nsys import export_schema

FIRST_ROWS: Final = 100_000
_KIND: Final = re.compile(r"^CUDA_(MEMCPY_KIND|MEMOPR_MEMORY_KIND)_")
_LOW_24_BITS: Final = 0xFFFFFF
TIMES: Final[dict[str, Computed | str]] = {"start_ns": "start", "end_ns": "end"}
Numbers = npt.NDArray[Any]
# How columns of the data model are made; None for what an export cannot give.
Columns = dict[str, Computed | str | None]


class Export:
    """An export's tables, whichever files they lie in, and what numbers in them mean.

    Attributes:
        path: What the user named.
        reader: Name of the reader.
        columns: Table name to the names of its columns.
        most_rows: Table name to about how many rows it holds, where that is known.
        required: Table name to those of its columns in which no row has null, where that is known.
        recorder_version: Version of nsys that recorded, where the tables are of a report.
        stored: What a table of this name holds.
    """

    path: Path
    reader: str
    columns: Mapping[str, frozenset[str]]
    most_rows: Mapping[str, int] = {}
    required: Mapping[str, frozenset[str]] = {}
    recorder_version: str | None = None
    stored: Callable[[str], Stored]

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there with these columns."""
        return table in self.columns and self.columns[table].issuperset(columns)

    def pick(self, table: str, *names: str) -> str | None:
        """The first of these columns that the table has."""
        have = self.columns.get(table, ())
        return next((name for name in names if name in have), None)

    def has_rows(self, table: str) -> bool:
        """Whether a table has any row."""
        return next(self.stored(table).pieces([*self.columns[table]][:1]), None) is not None

    def opened(self, table: str) -> Stored:
        """The rows of a table for who reads it from now on."""
        return self.stored(table)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a small table, None where there is no value."""
        pieces = self.stored(table).pieces(columns)
        return [row for of in pieces for row in zip(*(c.listed for c in of), strict=True)]

    def select(self, table: str, **kinds: type | UnionType) -> list[Any]:
        """Rows of a small table whose values are of these types; none where a column is absent."""
        if not self.has(table, *kinds):
            return []
        return borders.rows_of(self.rows(table, *kinds), *kinds.values())

    def untimed(self, table: str) -> int:
        """How many rows of a table have no times: an end before the start counts as none.

        nsys writes rows in the order of their start, so that those without times come first: a
        large table is counted whole only where its first rows hold one.
        """
        rows = untimed = 0
        for piece in self.stored(table).pieces(["start", "end"]):
            start, end = (column.filled for column in piece)
            is_known = (start != UNKNOWN) & (end != UNKNOWN) & ((start != 0) | (end != 0))
            untimed += int((~is_known | (end < start)).sum())
            rows += len(start)
            if not untimed and rows >= FIRST_ROWS:
                break
        return untimed

    @cached_property
    def untimed_rows(self) -> Mapping[str, int]:
        """By table how many rows have no time or end before they start.

        Any other table's rows that end before they start are the file's fault.
        """
        timed = filter(self.columns.__contains__, export_schema.TIMED)
        return {table: count for table in timed if (count := self.untimed(table))}

    @cached_property
    def texts(self) -> Names:
        """The texts of the file by their numbers, read when they are first asked for.

        Raises:
            CorruptFileError: Two have one number, or one has none.
        """
        numbers: list[int] = []
        texts: list[str | None] = []
        if (strings := export_schema.STRINGS) in self.columns:
            for number, text in self.stored(strings).pieces(["id", "value"]):
                numbers += number.filled.tolist()
                texts += text.listed
            borders.check_keys(self.path, strings, "id", np.array(numbers, np.int64))
        return Names(numbers, {"name": texts})

    @cached_property
    def memcpy_kinds(self) -> Mapping[int, str]:
        """Numbers of ``copyKind`` to words."""
        return self._words_of("ENUM_CUDA_MEMCPY_OPER", cuda.MEMCPY_KINDS)

    @cached_property
    def memory_kinds(self) -> Mapping[int, str]:
        """The same for ``srcKind``, ``dstKind`` and ``memKind``."""
        return self._words_of("ENUM_CUDA_MEM_KIND", cuda.NSYS_MEMORY_KINDS)

    def _words_of(self, table: str, default: Mapping[int, str]) -> Mapping[int, str]:
        """By the file's own enum, so that a renumbering cannot mislabel a copy."""
        words = {word.upper(): word for word in default.values()}
        return {
            number: words.get(_KIND.sub("", name), cuda.UNKNOWN)
            for number, name in self.select(table, id=int, name=str)
        } or default

    @cached_property
    def backtrace_class(self) -> int:
        """The ``eventClass`` of rows that repeat calls, by the file's own enum where it has one."""
        rows = self.select(export_schema.EVENT_CLASSES, id=int, name=str)
        numbers = (number for number, name in rows if name == export_schema.BACKTRACE)
        return next(numbers, export_schema.BACKTRACE_CLASS)

    @cached_property
    def device_numbers(self) -> list[tuple[int, int, int | str]]:
        """Process, its number of a device, and which GPU that is: its number, or its bus id."""
        mapped, old, _ = export_schema.GPUS
        if self.has(mapped, "pid", "cudaId", "gpuId"):
            return self.select(mapped, pid=int, cudaId=int, gpuId=int | str)
        return self.select(old, pid=int, deviceId=int, pciBusId=int | str)

    @cached_property
    def machine_numbers(self) -> Mapping[tuple[int, int], int]:
        """The machine's number of the device of a process and ordinal, where processes disagree.

        Nothing where a number means the same GPU to all, and a GPU has the same number for all.
        """
        rows = {*self.device_numbers}
        ordinals = {ordinal for _, ordinal, _ in rows}
        gpus = {gpu for _, _, gpu in rows}
        if len(ordinals) == len(gpus) == len({(ordinal, gpu) for _, ordinal, gpu in rows}):
            return {}
        places = {gpu: place for place, gpu in enumerate(sorted(gpus, key=str))}
        return {
            (process, ordinal): gpu if isinstance(gpu, int) else places[gpu]
            for process, ordinal, gpu in rows
        }


def part(
    of: Export,
    table: str,
    columns: Mapping[str, Computed | str | None],
    *keep: Computed,
    is_whole: Callable[[], bool] | None = None,
) -> Part:
    """Rows of a table, with those of the columns that are made of what the export has."""
    there = {
        name: column
        for name, column in columns.items()
        if column is not None and of.has(table, *read_for(column))
    }
    return Part(of.opened(table), there, keep, is_whole)


def first_known(*columns: str) -> Computed | str:
    """The first of some columns that is not null."""

    def make(first: Numbers, *further: Numbers) -> Numbers:
        for column in further:
            if (is_unknown := first == UNKNOWN).any():
                first = np.where(is_unknown, column, first)
        return first

    return Computed(columns, make) if len(columns) > 1 else columns[0]


def as_computed(column: Computed | str | None) -> Computed:
    """A column as one that is made; unknown where there is none."""
    if isinstance(column, str):
        return Computed((column,), lambda numbers: numbers)
    return Computed((), lambda: UNKNOWN) if column is None else column


def without(column: str, *absent: int) -> Computed:
    """A column, null where it is a number that stands for none."""
    return Computed(
        (column,), lambda numbers: np.where(is_any_of(numbers, absent), UNKNOWN, numbers)
    )


# Where no node of a graph is known, nsys writes 0.
GRAPH_NODE: Final[Columns] = {"graph_node_id": without("graphNodeId", 0)}


def timed(of: Export, table: str) -> list[Computed]:
    """Which rows have times, of which tools write both as 0 where they could not collect them."""
    is_ordered = table in of.untimed_rows

    def are_timed(start: Numbers, end: Numbers) -> Flags:
        if not is_ordered and start.min(initial=1) > 0 and end.min(initial=1) > 0:
            return np.ones(len(start), bool)  # as mostly
        flags: Flags = (start != UNKNOWN) & (end != UNKNOWN) & ((start != 0) | (end != 0))
        return flags & (end >= start) if is_ordered else flags

    return [Computed(("start", "end"), are_timed)]


def place(of: Export, table: str) -> dict[str, Computed | str | None]:
    """When and where an activity was, and which call started it."""
    return {
        **TIMES,
        "device_id": in_machine(of, table, "deviceId"),
        "context_id": "contextId",
        "stream_id": "streamId",
        "process_id": PROCESS,
        "correlation_id": "correlationId",
    }


def in_machine(of: Export, table: str, device: Computed | str) -> Computed | str:
    """A device by its number in the machine, where processes number them in their own ways."""
    if not of.machine_numbers or not of.has(table, "globalPid"):
        return device
    pairs, numbers = sorted(of.machine_numbers), as_computed(device)
    ordered = np.array(pairs, np.int64).T
    gpus = np.array([of.machine_numbers[pair] for pair in pairs])

    def make(global_id: Numbers, *columns: Numbers) -> Numbers:
        ordinal: Numbers = numbers.make(*columns)
        place = pair_places(ordered, low_bits(24)(global_id), ordinal)
        return np.where(place < 0, ordinal, gpus[place])

    return Computed(("globalPid", *numbers.reads), make)


def low_bits(shift: int) -> Callable[[Numbers], Numbers]:
    """24 bits of a global id, which holds machine, process and thread: 8 bits of each end."""

    def make(global_id: Numbers) -> Numbers:
        bits = np.empty(len(global_id), np.int32)
        np.right_shift(global_id, shift, out=bits, dtype=np.int64, casting="unsafe")
        bits &= _LOW_24_BITS
        if global_id.min(initial=0) < 0:
            bits[global_id == UNKNOWN] = UNKNOWN
        return bits

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
