"""Columns of files, each read once and kept: in memory up to a budget, else in temporary files.

The files are read, not mapped: a damaged file raises an error, never a signal.
"""

import os
import sys
import tempfile
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary, finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base import machine
from gpuprof.base.errors import ROOM, InputError, UsageError
from gpuprof.base.units import parse_decimal_bytes
from gpuprof.model import arrow_values
from gpuprof.model.stored import Window
from gpuprof.model.words import Values
from gpuprof.native import pages

# Names the budget, as ``300MB``.
BUDGET: Final = "GPUPROF_MEMORY"
BATCH_ROWS: Final = 262_144
# By default the budget is this part of the memory: DuckDB may take half, and results need room.
_PART: Final = 4
# Where the budget is used up, this part of it is read at once.
_PART_AT_ONCE: Final = 2
_MOST_BYTES_PER_VALUE: Final = 8
# Where Linux limits the memory of a group of processes, by the kind that /proc names.
_GROUPS: Final = {
    "": ("/sys/fs/cgroup", "memory.max"),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_VALUES: Final = "values"
_PLACES: Final = 256


class Packed:
    """A column in memory, in few bytes for each row; whoever reads it gets its values.

    Args:
        parts: Numbers, piece by piece; null is the least one of their type.
        meanings: By part, what the numbers from 0 to 127 stand for, or what they are distances
            from, see `pages.Decoded`; None where they stand for themselves.
        has_nulls: Whether a value is null.
        words: What the numbers of all parts mean, null among them; None for a column of numbers.
    """

    def __init__(
        self,
        parts: Sequence[npt.NDArray[Any]],
        meanings: Sequence[npt.NDArray[Any] | None] | None = None,
        *,
        has_nulls: bool = False,
        words: Sequence[str | None] | None = None,
    ) -> None:
        # Null is the place -128, which is 128 places from the end of 256.
        tables = [
            np.resize(m, _PLACES) if m is not None and len(m) > 1 and part.dtype == np.int8 else m
            for part, m in zip(parts, meanings or [None] * len(parts), strict=True)
        ]
        packed, self._has_nulls = [*zip(parts, tables, strict=True)], has_nulls
        # The parts with what they mean, and up to which row each of them goes.
        self._parts = packed, [*accumulate(map(len, parts))]
        kinds = [part.dtype if m is None else np.dtype(np.int64) for part, m in packed]
        self._kind = np.result_type(np.int8, *kinds)
        self._words, self._is_used = words, False
        self._bytes = sum([part.nbytes for part in parts]) + sum(map(sys.getsizeof, words or ()))
        self.type = pa.from_numpy_dtype(self._kind) if words is None else pa.string()

    def __len__(self) -> int:
        """How many rows it has."""
        _, ends = self._parts
        return ends[-1] if ends else 0

    def get_total_buffer_size(self) -> int:
        """How many bytes it takes in memory."""
        return self._bytes

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The numbers of some rows that follow one another, or that lie at some places."""
        if isinstance(rows, slice):
            return self._between(*rows.indices(len(self))[:2])[0]
        numbers, by_place = np.empty(len(rows), self._kind), np.argsort(rows, kind="stable")
        parts, ends = self._parts
        first = np.searchsorted(rows[by_place], [0, *ends])
        for place in np.flatnonzero(np.diff(first)).tolist():
            start = ends[place] - len(parts[place][0])
            of_part = by_place[first[place] : first[place + 1]]
            of_all, _ = self._between(start, ends[place])
            numbers[of_part] = of_all[rows[of_part] - start]
        return numbers

    def slices(self, step: int) -> Iterator[Values]:
        """Its values in pieces of so many rows, whatever the parts are."""
        if self._is_used and len(self) <= step:
            self._unpack()
        self._is_used = True
        for low in range(0, len(self), step):
            numbers, is_null = self._between(low, min(low + step, len(self)))
            has_nulls = is_null is not None and is_null.any()
            yield Values(numbers, is_null if has_nulls else None, self._words)

    def _unpack(self) -> None:
        """Keep the numbers themselves, as those of a small table are asked for again and again."""
        parts, _ = self._parts
        is_packed = len(parts) > 1 or any(meaning is not None for _, meaning in parts)
        if is_packed and not self._has_nulls:
            numbers, _ = self._between(0, len(self))
            self._bytes += numbers.nbytes - sum(part.nbytes for part, _ in parts)
            self._parts = [(numbers, None)], [len(numbers)]

    def _between(
        self, low: int, high: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """The numbers from one row up to another, and which of them are null."""
        numbers = np.empty(max(high - low, 0), self._kind)
        is_null = np.zeros(len(numbers), bool) if self._has_nulls else None
        parts, ends = self._parts
        last = bisect_left(ends, high) if low < high else -1
        for place in range(bisect_right(ends, low), last + 1):
            part, meaning = parts[place]
            start = ends[place] - len(part)
            some = part[max(low - start, 0) : high - start]
            rows = slice(max(start - low, 0), max(start - low, 0) + len(some))
            if meaning is None and len(some) == len(numbers):
                numbers = some  # as mostly: nothing is copied
            elif meaning is None:
                numbers[rows] = some
            else:
                pages.spread(some, meaning, numbers[rows], max(low - start, 0))
            if is_null is not None:
                np.equal(some, np.iinfo(some.dtype).min, out=is_null[rows])
        return numbers, is_null


InMemory: TypeAlias = pa.Array | pa.ChunkedArray | Packed


class _Budget:
    """What the budget has room for, beside the columns that are in memory."""

    def __init__(self) -> None:
        self._columns: WeakValueDictionary[int, InMemory] = WeakValueDictionary()
        self._most_bytes = 0
        self._counting = threading.Lock()

    def add(self, values: InMemory, size: int) -> None:
        """Count a column from now on until it is let go."""
        with self._counting:
            self._columns[id(values)] = values
            self._most_bytes += size

    def free_bytes(self, needed: int) -> int:
        """The bytes that are free for sure; where they are fewer than needed, all that are free."""
        budget = _budget_bytes()
        with self._counting:
            if budget - self._most_bytes < needed:
                # Those that were let go count no more: to ask all each time takes a job of many
                # files more than to read them.
                columns = (reference() for reference in self._columns.valuerefs())
                self._most_bytes = sum(
                    int(of.get_total_buffer_size()) for of in columns if of is not None
                )
            return budget - self._most_bytes


_budget: Final = _Budget()


class Spilled:
    """A column in a temporary file, which goes with this object, at the latest with the process.

    Args:
        values: The column.

    Raises:
        InputError: The file cannot be written, as on a full disk.
    """

    def __init__(self, values: InMemory) -> None:
        self.type, self._rows, folder = values.type, len(values), tempfile.gettempdir()
        schema = pa.schema([(_VALUES, self.type)])
        if isinstance(values, Packed):
            pieces: Iterator[pa.Array] = map(arrow_values.as_arrow, values.slices(BATCH_ROWS))
        else:  # a file has one dictionary of a column
            chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
            pieces = _slices(pa.chunked_array(chunks, values.type).unify_dictionaries())
        try:
            descriptor, self._path = tempfile.mkstemp(".arrow", "gpuprof-", folder)
            finalize(self, Path(self._path).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for piece in pieces:
                    writer.write_batch(pa.record_batch([piece], schema))
        except OSError as error:
            msg = f"{folder} has no room for what does not fit into memory: {error.strerror}"
            raise InputError(msg, ROOM) from error

    def __len__(self) -> int:
        """How many rows it has."""
        return self._rows

    def slices(self) -> Iterator[Values]:
        """Its values in pieces of `BATCH_ROWS`."""
        with pa.OSFile(self._path) as file:
            reader = pa.ipc.open_file(file)
            for place in range(reader.num_record_batches):
                yield arrow_values.values(reader.get_batch(place).column(_VALUES))


Column: TypeAlias = InMemory | Spilled


def slices(values: Column) -> Iterator[Values]:
    """A column in pieces of `BATCH_ROWS`."""
    if isinstance(values, Packed):
        return values.slices(BATCH_ROWS)
    if isinstance(values, Spilled):
        return values.slices()
    return map(arrow_values.values, _slices(values))


def _slices(values: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    for low in range(0, len(values), BATCH_ROWS):
        piece = values.slice(low, BATCH_ROWS)
        chunks = piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece]
        yield chunks[0] if len(chunks) == 1 else piece.combine_chunks()


def _budget_bytes() -> int:
    text = os.environ.get(BUDGET)
    if not text:
        return _memory_bytes() // _PART // machine.process_count()
    try:
        return parse_decimal_bytes(text)
    except ValueError as error:
        msg = f"{BUDGET} is no size: {error}"
        raise UsageError(msg, f"Write {BUDGET}=300MB or 1.5GB.") from error


@cache
def _memory_bytes() -> int:
    """What the machine has, or what a group of processes may take that this one is in."""
    limits = [sys.maxsize]
    with suppress(AttributeError, OSError, ValueError):  # Windows does not tell
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError):
        for line in _MEMBERSHIP.read_text(encoding="utf-8").splitlines():
            _, kind, group = line.split(":", 2)
            root, name = _GROUPS.get(kind, ("", ""))
            folder = Path(root + group)
            for place in (folder, *folder.parents) if root else ():
                with suppress(OSError, ValueError):  # there is none
                    limits.append(int((place / name).read_text(encoding="utf-8")))
    return min(limits)


Kinds = Mapping[str, pa.DataType]
# One value per row each: integers of any width, texts perhaps as a dictionary.
Read = Callable[[Kinds], Mapping[str, InMemory]]


class KeptColumns:
    """The columns of a table of a file that were asked for so far.

    They stay in memory or, where they do not fit, in temporary files.

    Args:
        kinds: Every column, with its type: int64, float64, bool or string.
        read: Reads some columns, all of the same length.
        most_rows: How many rows there are at most, known without reading them; 0 for unknown.
    """

    def __init__(self, kinds: Kinds, read: Read, most_rows: Callable[[], int] = lambda: 0) -> None:
        self.kinds, self._read, self._most_rows = kinds, read, most_rows
        self._columns: Mapping[str, Column] = {}
        self._expected: set[str] = set()
        # Of two threads that need a column, the later one waits for the earlier one.
        self._reading = threading.Lock()
        # Of two threads that keep columns at once, neither drops those of the other.
        self._keeping = threading.Lock()

    def rows_known(self) -> int:
        """How many rows it has at most; 0 for unknown."""
        return max(map(len, self._columns.values()), default=0) or self._most_rows()

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""
        self._expected.update(names)

    def release(self, but: Collection[str]) -> None:
        """Let go of all columns but some, expected ones too: who asks has them read anew."""
        with self._reading, self._keeping:
            self._expected.intersection_update(but)
            self._columns = {name: of for name, of in self._columns.items() if name in but}

    @property
    def missing(self) -> Kinds:
        """The columns that are expected and not yet read."""
        names = self._expected.difference(self._columns)
        return {name: kind for name, kind in self.kinds.items() if name in names}

    def keep(self, columns: Mapping[str, InMemory]) -> None:
        """Keep columns, in files those for which the budget has no room.

        Raises:
            InputError: A file cannot be written.
            UsageError: The budget is no size.
        """
        placed: dict[str, Column] = {}
        sizes = {name: int(values.get_total_buffer_size()) for name, values in columns.items()}
        room = _budget.free_bytes(sum(sizes.values()))
        for name, values in columns.items():
            if sizes[name] > room:
                placed[name] = Spilled(values)
            else:
                placed[name] = values
                _budget.add(values, sizes[name])
                room -= sizes[name]
        with self._keeping:
            self._columns = {**self._columns, **placed}

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[list[Values]]:
        """Columns of all rows in pieces."""
        with self._reading:
            if not self._columns.keys() >= {*names}:
                self._expected.update(names)
                kinds = [*self.missing.items()]
                rows = self._most_rows() if len(kinds) > 1 else 0
                while kinds:
                    # As many in each pass as there is room for, and one at least.
                    free_bytes = _budget.free_bytes(len(kinds) * _MOST_BYTES_PER_VALUE * rows)
                    room = max(free_bytes, _budget_bytes() // _PART_AT_ONCE)
                    count = max(1, room // (_MOST_BYTES_PER_VALUE * rows)) if rows else len(kinds)
                    self.keep(self._read(dict(kinds[:count])))
                    kinds = kinds[count:]
            columns = [*map(self._columns.__getitem__, names)]
        yield from map(list, zip(*map(slices, columns), strict=True))
