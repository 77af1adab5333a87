"""A Parquet file within another file: each query reads only its columns and its window of time.

The file keeps, for each group of rows, the first and the last start.
"""

import errno
import io
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof.columns import Kinds, Streamed, Window

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BATCH_ROWS: Final = 65_536
_TIME: Final = "start_ns"
# What the error says where another program replaces or writes the file.
CHANGED: Final = "it changed while it was read"
State = tuple[int, int, int]


class FilePart(io.RawIOBase):
    """A part of a file, opened for each call: a drive that goes away is an error, not a signal.

    Args:
        path: The file.
        begin: Where in it the part begins, in bytes.
        size: How long it is, in bytes.
        state: What tells the file from one that replaces it; None for how it is now.
    """

    def __init__(self, path: Path, begin: int, size: int, state: "State | None" = None) -> None:
        self.path, self.begin, self.size, self._place = path, begin, size, 0
        self._state = state or _state(path.stat())

    def again(self) -> "FilePart":
        """The same part, with a place of its own."""
        return FilePart(self.path, self.begin, self.size, self._state)

    def readable(self) -> bool:
        """As Python's protocol of files has it."""
        return True

    def seekable(self) -> bool:
        """As above."""
        return True

    def tell(self) -> int:
        """As above."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As above."""
        self._place = offset + {os.SEEK_CUR: self._place, os.SEEK_END: self.size}.get(whence, 0)
        return self._place

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """As above.

        Raises:
            OSError: The file cannot be read, or has been replaced.
        """
        part = memoryview(buffer)[: max(self.size - self._place, 0)]
        with self.path.open("rb", buffering=0) as file:
            if _state(os.fstat(file.fileno())) != self._state:
                raise OSError(errno.ESTALE, CHANGED)
            file.seek(self.begin + self._place)
            count = file.readinto(part)
        self._place += count
        return count


def _state(about: os.stat_result) -> State:
    return about.st_ino, about.st_size, about.st_mtime_ns


def opened(part: FilePart, texts: Collection[str], metadata: Any = None) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A Parquet file whose columns of texts are read as dictionaries.

    Raises:
        pyarrow.ArrowException: It is damaged.
        OSError: It is damaged, or cannot be read.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that other formats do not need

    return pq.ParquetFile(
        part, metadata=metadata, read_dictionary=[*texts], page_checksum_verification=True
    )


class ParquetColumns(Streamed):
    """The columns of a table as the last query named them; DuckDB sees the others as null.

    Nothing of it stays in memory: each query decodes it anew, some rows at a time.

    Args:
        part: Its file.
        metadata: Of that file, as Arrow read it.
        kinds: The columns that queries see, with their types.
    """

    def __init__(self, part: FilePart, metadata: Any, kinds: Kinds) -> None:  # noqa: ANN401 - as above
        self._part, self._metadata = part, metadata
        self._texts = [name for name, kind in kinds.items() if kind == pa.string()]
        arrow = opened(part.again(), self._texts, metadata).schema_arrow
        super().__init__(kinds, {name: arrow.field(name).type for name in kinds})
        self._groups: Sequence[int] = range(metadata.num_row_groups)

    def load(self, names: Collection[str], window: Window | None = None) -> None:
        """What the next query reads: columns, and from when to when."""
        super().load(names)
        self._groups = self._within(window)

    def _within(self, window: Window | None) -> list[int]:
        """The groups of rows that may lie in a window."""
        groups = range(self._metadata.num_row_groups)
        return [group for group in groups if self._overlaps(group, window)]

    def _overlaps(self, group: int, window: Window | None) -> bool:
        if window is None or _TIME not in self.kinds:
            return True
        about, (least, most) = self._metadata.row_group(group), window
        place = self._metadata.schema.names.index(_TIME)
        times = about.column(place).statistics
        return times is None or not times.has_min_max or (times.min < most and least <= times.max)

    def pieces(
        self, names: Sequence[str], window: Window | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns in pieces, of the groups of rows that may lie in a window."""
        return self._read(names, self._within(window))

    def _loaded(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._read(names, self._groups)

    def _read(self, names: Sequence[str], groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
        file = opened(self._part.again(), self._texts, self._metadata)
        for batch in file.iter_batches(_BATCH_ROWS, groups, [*names]):
            yield batch.select([*names])
