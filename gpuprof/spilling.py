"""Columns of recordings: in memory up to a budget, beyond it in temporary files.

The files are read, not mapped: a damaged file raises an error, never a signal.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary, finalize

import pyarrow as pa

from gpuprof.errors import ROOM, InputError, UsageError
from gpuprof.units import parse_decimal_bytes

# Names the budget, as ``300MB``.
BUDGET: Final = "GPUPROF_MEMORY"
BATCH_ROWS: Final = 65_536
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

_Name = TypeVar("_Name")
InMemory: TypeAlias = pa.Array | pa.ChunkedArray

_in_memory: Final[WeakValueDictionary[int, InMemory]] = WeakValueDictionary()


class Spilled:
    """A column in a temporary file, which goes with this object, at the latest with the process.

    Args:
        values: The column.

    Raises:
        InputError: The file cannot be written, as on a full disk.
    """

    def __init__(self, values: InMemory) -> None:
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        # A file has one dictionary.
        column = pa.chunked_array(chunks, values.type).unify_dictionaries()
        self.type, self._rows, folder = column.type, len(column), tempfile.gettempdir()
        schema = pa.schema([(_VALUES, self.type)])
        try:
            descriptor, self._path = tempfile.mkstemp(".arrow", "gpuprof-", folder)
            finalize(self, Path(self._path).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for low in range(0, self._rows, BATCH_ROWS):
                    piece = column.slice(low, BATCH_ROWS).combine_chunks()
                    writer.write_batch(pa.record_batch([piece], schema))
        except OSError as error:
            msg = f"{folder} has no room for what does not fit into memory: {error.strerror}"
            raise InputError(msg, ROOM) from error

    def __len__(self) -> int:
        """How many rows it has."""
        return self._rows

    def slices(self) -> Iterator[pa.Array]:
        """Its values in pieces of `BATCH_ROWS`."""
        with pa.OSFile(self._path) as file:
            reader = pa.ipc.open_file(file)
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place).column(_VALUES)


Column: TypeAlias = InMemory | Spilled


def within_budget(columns: Mapping[str, InMemory]) -> dict[str, Column]:
    """The same columns, in files those for which the budget has no room.

    Raises:
        InputError: A file cannot be written.
        UsageError: The budget is no size.
    """
    placed: dict[str, Column] = {}
    room = _free_bytes()
    for name, values in columns.items():
        size = int(values.get_total_buffer_size())
        if size > room:
            placed[name] = Spilled(values)
        else:
            placed[name] = _in_memory[id(values)] = values
            room -= size
    return placed


def passes(names: Sequence[_Name], most_rows: Callable[[], int]) -> Iterator[Sequence[_Name]]:
    """The columns to read in one pass each: as many as there is room for, and one at least.

    Args:
        names: All of them.
        most_rows: How many rows they have at most; 0 for unknown.
    """
    rows = most_rows() if len(names) > 1 else 0
    while names:
        room = max(_free_bytes(), _budget_bytes() // _PART_AT_ONCE)
        count = max(1, room // (_MOST_BYTES_PER_VALUE * rows)) if rows else len(names)
        yield names[:count]
        names = names[count:]


def batches(columns: Mapping[str, Column | None], rows: int) -> Iterator[pa.RecordBatch]:
    """Columns in pieces of at most `BATCH_ROWS`; None is one of so many nulls."""
    has_spilled = any(isinstance(values, Spilled) for values in columns.values())
    step = BATCH_ROWS if has_spilled else max(rows, 1)
    slices = [
        _slices(pa.nulls(rows) if values is None else values, step) for values in columns.values()
    ]
    for arrays in zip(*slices, strict=True):
        yield from pa.Table.from_arrays([*arrays], [*columns]).to_batches(BATCH_ROWS)


def _slices(values: Column, step: int) -> Iterator[InMemory]:
    if isinstance(values, Spilled):
        return values.slices()
    return (values.slice(low, step) for low in range(0, len(values), step))


def _free_bytes() -> int:
    # Another thread may read columns meanwhile: the list of references is a copy.
    columns = (reference() for reference in _in_memory.valuerefs())
    used = sum(int(values.get_total_buffer_size()) for values in columns if values is not None)
    return _budget_bytes() - used


def _budget_bytes() -> int:
    text = os.environ.get(BUDGET)
    if not text:
        return _memory_bytes() // _PART
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
