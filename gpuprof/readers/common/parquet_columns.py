"""A Parquet file within another file: each question reads only its columns and its window of time.

The file keeps, for each group of rows, the first and the last start.
"""

import errno
import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, GpuprofError
from gpuprof.base.machine import in_turn
from gpuprof.model.arrow_values import values
from gpuprof.model.borders import DAMAGE
from gpuprof.model.schema import numpy_dtype
from gpuprof.model.spilling import InMemory, KeptColumns, Kinds, Packed
from gpuprof.model.stored import Window
from gpuprof.model.words import Values
from gpuprof.readers.inputs import Stamp, changed, stamp

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BATCH_ROWS: Final = 262_144
# Of a group that is decoded at once.
_MOST_ROWS: Final = 1 << 20
# Of a larger table, wide columns take more room than decoding them again takes time.
_MOST_KEPT: Final = 1 << 20
_NARROW_BITS: Final = 8
# Nearly every question asks for names.
_NAME_ID: Final = "name_id"
_NAME_BITS: Final = 16
_TIME: Final = "start_ns"
_TIMES: Final = (_TIME, "end_ns")
# What the error says where another program replaces or writes the file.
CHANGED: Final = "it changed while it was read"


class FilePart(io.RawIOBase):
    """A part of a file, opened for each call: a drive that goes away is an error, not a signal.

    Args:
        path: The file.
        begin: Where in it the part begins, in bytes.
        size: How long it is, in bytes.
        before: The file's stamp when the part was found in it.
    """

    def __init__(self, path: Path, begin: int, size: int, before: Stamp) -> None:
        self.path, self.begin, self.size, self._place = path, begin, size, 0
        self._before = before

    @classmethod
    def of_file(cls, path: Path) -> "FilePart":
        """All of a file as it is now."""
        about = path.stat()
        return cls(path, 0, about.st_size, stamp(about))

    def again(self) -> "FilePart":
        """The same part, with a place of its own."""
        return FilePart(self.path, self.begin, self.size, self._before)

    def readable(self) -> bool:
        """As Python's protocol of files has it."""
        return True

    def seekable(self) -> bool:
        """As above."""
        return True

    def tell(self) -> int:
        """As above."""
        return self._place

    def seek(self, offset: int, relative_to: int = os.SEEK_SET) -> int:
        """As above."""
        self._place = offset + {os.SEEK_CUR: self._place, os.SEEK_END: self.size}.get(
            relative_to, 0
        )
        return self._place

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """As above.

        Raises:
            OSError: The file cannot be read, or has been replaced.
        """
        part = memoryview(buffer)[: max(self.size - self._place, 0)]
        with self.path.open("rb", buffering=0) as file:
            if stamp(os.fstat(file.fileno())) != self._before:
                raise OSError(errno.ESTALE, CHANGED)
            file.seek(self.begin + self._place)
            count = file.readinto(part)
        self._place += count
        return count


def opened(part: FilePart, texts: Collection[str], metadata: Any = None) -> Any:
    """A Parquet file whose columns of texts are read as dictionaries.

    Raises:
        pyarrow.ArrowException: It is damaged.
        OSError: It is damaged, or cannot be read.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that other formats do not need

    # Arrow's own threads, which read ahead, can abort a process that ends meanwhile:
    # https://github.com/apache/arrow/issues/34314
    return pq.ParquetFile(
        part,
        metadata=metadata,
        read_dictionary=[*texts],
        page_checksum_verification=True,
        pre_buffer=False,
    )


def fault(path: Path, message: str, hint: str, error: Exception) -> GpuprofError | None:
    """What an error at reading says about a file; None where the file is not at fault.

    Args:
        path: The file.
        message: What is said of a damaged one.
        hint: What is to be done about it.
        error: The error; each page of the files carries a checksum.
    """
    if CHANGED in str(error):
        return changed(path)
    return CorruptFileError(message, hint) if isinstance(error, DAMAGE) else None


class ParquetFile(NamedTuple):
    """A Parquet file in the archive.

    Args:
        part: Where it lies.
        metadata: Of that file, as Arrow read it.
        columns: Its columns with their types, those of texts as dictionaries.
    """

    part: FilePart
    metadata: Any
    columns: pa.Schema


class _RowGroups(NamedTuple):
    """Groups of rows that are decoded together: their file, their numbers there, their rows."""

    file: ParquetFile
    numbers: list[int]
    rows: int


class ParquetColumns:
    """The columns of a table in Parquet files.

    They are decoded once and kept, unless a question needs a window of time alone. Of a large table
    only narrow ones are: each question decodes the others again, in batches of rows.

    Args:
        files: Those of its rows, one after another.
        kinds: Its columns, with their types.
        failure: What an error at reading says about the file; None where the file is not at fault.
        shift_ns: By how much the times in the files are later than those that are given.
    """

    def __init__(
        self,
        files: Sequence[ParquetFile],
        kinds: Kinds,
        failure: Callable[[Exception], GpuprofError | None],
        shift_ns: int = 0,
    ) -> None:
        self._files, self._failure, self._shift_ns = files, failure, shift_ns
        self._texts = [name for name, kind in kinds.items() if kind == pa.string()]
        # Of each column the type that holds it in all files.
        self._kinds = {}
        for name in kinds:
            its = [f.columns.field(name).type for f in files if name in f.columns.names]
            self._kinds[name] = max(its, key=lambda t: t.bit_width if pa.types.is_integer(t) else 0)
        rows = self.rows_known()
        kinds = {n: kind for n, kind in kinds.items() if rows <= _MOST_KEPT or self._is_narrow(n)}
        self._kept = KeptColumns(kinds, self._all, lambda: rows)

    def rows_known(self) -> int:
        """How many rows it has, as its files say."""
        return sum(int(file.metadata.num_rows) for file in self._files)

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed, if they are kept."""
        self._kept.expect(names)

    def release(self, but: Collection[str]) -> None:
        """Let go of all columns but some, if any are kept."""
        self._kept.release(but)

    def pieces(self, names: Sequence[str], window: Window | None = None) -> Iterator[list[Values]]:
        """Columns in pieces, of the groups of rows that may lie in a window.

        Integers are as narrow as their file has them.
        """
        in_memory = [name for name in names if window is None and name in self._kept.kinds]
        decoded = [name for name in names if name not in in_memory]
        sources = [self._kept.pieces(in_memory)] if in_memory else []
        if decoded:
            batches = self._batches(decoded, window)
            sources.append([*map(values, batch.columns)] for batch in batches)
        for piece in _side_by_side(sources):
            columns = dict(zip([*in_memory, *decoded], piece, strict=True))
            yield [columns[name] for name in names]

    def _is_narrow(self, name: str) -> bool:
        """Whether a column is of narrow integers, and has no nulls in any file."""
        kind, files = self._kinds[name], [file.columns for file in self._files]
        if any(name not in of.names or of.field(name).nullable for of in files):
            return False
        most_bits = _NAME_BITS if name == _NAME_ID else _NARROW_BITS
        is_narrow: bool = pa.types.is_signed_integer(kind) and kind.bit_width <= most_bits
        return is_narrow

    def _all(self, kinds: Kinds) -> Mapping[str, InMemory]:
        """Columns of all rows, in the pieces in which they are decoded."""
        if (rows := self.rows_known()) > _MOST_KEPT:
            return self._narrow(kinds, rows)
        pieces, columns = [*self._batches([*kinds])], {}
        for name in kinds:
            kind = self._kinds[name]
            # A cast loads pyarrow.compute.
            parts = [c if (c := piece[name]).type == kind else c.cast(kind) for piece in pieces]
            columns[name] = pa.chunked_array(parts, kind)
        return columns

    def _narrow(self, names: Collection[str], rows: int) -> dict[str, Packed]:
        """Columns of narrow integers."""
        # In one piece each: what decodes them leaves no gaps between pieces.
        columns = {name: np.empty(rows, numpy_dtype(self._kinds[name])) for name in names}
        low = 0
        for batch in self._batches([*columns]):
            for name, of_all in columns.items():
                room = of_all[low : low + len(batch)]
                room[:] = values(batch[name]).numbers[: len(room)]
            low += len(batch)
        return {name: Packed([of_all[:low]]) for name, of_all in columns.items()}

    def _batches(
        self, names: Sequence[str], window: Window | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the groups of rows that may lie in a window, a few groups at a time.

        Those of a large group are decoded when they are asked for.
        """

        def decoded(place: _RowGroups) -> Iterable[pa.RecordBatch]:
            batches = self._decoded(names, place)
            return batches if place.rows > _MOST_ROWS else [*batches]

        try:
            for batches in in_turn(decoded, self._chosen(window)):
                yield from batches
        except Exception as error:
            if isinstance(error, GpuprofError) or (fault := self._failure(error)) is None:
                raise
            raise fault from error

    def _chosen(self, window: Window | None) -> Iterator[_RowGroups]:
        """The groups of rows that may lie in a window, those of few rows together."""
        for file in self._files:
            some = _RowGroups(file, [], 0)
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                if not self._may_hold(file, group, window):
                    continue
                if some.rows and some.rows + group.num_rows > _BATCH_ROWS:
                    yield some
                    some = _RowGroups(file, [], 0)
                some = _RowGroups(file, [*some.numbers, number], some.rows + group.num_rows)
            if some.numbers:
                yield some

    def _may_hold(self, file: ParquetFile, group: Any, window: Window | None) -> bool:
        if window is None or _TIME not in file.columns.names:
            return True
        least, most = (end + self._shift_ns for end in window)
        times = group.column(file.metadata.schema.names.index(_TIME)).statistics
        return times is None or not times.has_min_max or (times.min < most and least <= times.max)

    def _decoded(self, names: Sequence[str], place: _RowGroups) -> Iterator[pa.RecordBatch]:
        file = place.file
        there = [name for name in names if name in file.columns.names]
        texts = [name for name in self._texts if name in there]
        reader = opened(file.part.again(), texts, file.metadata)
        for batch in reader.iter_batches(_BATCH_ROWS, place.numbers, there, use_threads=False):
            columns = {name: batch.column(name) for name in there}
            if self._shift_ns and not {*_TIMES}.isdisjoint(there):
                import pyarrow.compute as pc  # noqa: PLC0415 - 25 ms that few files need

                columns |= {
                    t: pc.subtract(columns[t], self._shift_ns) for t in _TIMES if t in there
                }
            arrays = [
                columns[n] if n in columns else pa.nulls(len(batch), self._kinds[n]) for n in names
            ]
            yield pa.RecordBatch.from_arrays(arrays, [*names])


def _side_by_side(sources: Sequence[Iterator[list[Values]]]) -> Iterator[list[Values]]:
    """Columns of the same rows, of which each source gives some, in pieces of its own."""
    pieces = [next(source, []) for source in sources]
    while all(pieces):
        rows = [len(piece[0].numbers) for piece in pieces]
        few = min(rows)
        yield [of if len(of.numbers) == few else of.take(slice(few)) for of in chain(*pieces)]
        for place, source in enumerate(sources):
            later = [of.take(slice(few, None)) for of in pieces[place]] if rows[place] > few else []
            pieces[place] = later or next(source, [])
