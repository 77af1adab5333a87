"""Columns of a table of a SQLite file, decoded from its pages by several threads.

The caller holds a lock on the file that keeps writers out (see `readers.sqlite.source`).
Format: https://www.sqlite.org/fileformat2.html.
"""

import ctypes
import os
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base import machine
from gpuprof.native import library

Integers = npt.NDArray[np.signedinteger[Any]]

_STATUSES: Final = {
    1: "the database contradicts itself",
    2: "a layout or type that is not decoded",
    4: "the file ended, or reading it failed",
}
_NO_MEMORY: Final = 3
_HEADER_BYTES: Final = 100
_PAGES_AT_ONCE: Final = 1024
# Of large tables more, of which there still are so many pieces: each takes time of Python.
_MOST_AT_ONCE: Final = 4096
_LEAST_PIECES: Final = 32
_SMALLEST_PAGE: Final = 512
_LARGEST_PAGE: Final = 65_536
_LEAST_USABLE: Final = 480
_MOST_MEANINGS: Final = 127
# Of numbers that lie far apart, so many rows have a least one of their own.
BLOCK: Final = 256
# Of fewer numbers that lie far apart even so, no half is looked at.
_MOST_APART: Final = 1 << 14
_MOST_PAGES: Final = 2**32 - 2
_SMALL_BYTES: Final = 1 << 26
# Beyond four, threads wait for memory.
_MOST_THREADS: Final = 4


class NotDecodedError(Exception):
    """The pages hold what is not decoded here; SQLite itself may read the table."""


# Kinds of columns, as pages.h numbers them.
INTEGERS, TEXTS, BYTES = range(3)


class Field(NamedTuple):
    """One column to decode.

    Args:
        place: Its place in the table, from 0; -1 for the rowid.
        kind: What it holds; texts, and bytes, are given as numbers of distinct ones.
    """

    place: int
    kind: int = INTEGERS


class Decoded(NamedTuple):
    """The values of one field.

    Args:
        parts: One value per row, piece by piece, of as few bytes each as hold them. NULL is the
            least number of the type; of texts, how many texts there are.
        meanings: By part, what its values of 8 bits stand for; or the one number that its values
            are distances from, of 32 bits also one for each `BLOCK`; None where it holds the values
            themselves.
        nulls: How many are NULL.
        texts: Of texts or bytes, what each number stands for; else None.
    """

    parts: list[Integers]
    meanings: list[Integers | None]
    nulls: int
    texts: list[bytes] | None = None


class _Database(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_int32),
        ("page_size", ctypes.c_uint32),
        ("usable", ctypes.c_uint32),
        ("pages", ctypes.c_uint32),
        ("used", ctypes.c_void_p),
    )


class _Column(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("index", "kind")),
        ("values", ctypes.c_void_p),
        ("nulls", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("width", "meaning_count")),
        ("meanings", ctypes.c_void_p),
    )


_Ends = ctypes.POINTER(ctypes.c_uint64)


def texts_listed(handle: int) -> list[bytes]:
    """Texts that the compiled functions hold, by their number."""
    functions = library()
    if functions is None:
        return []
    count = functions.texts_count(handle)
    ends = ctypes.cast(functions.texts_ends(handle), _Ends)[:count]
    data = ctypes.string_at(functions.texts_bytes(handle), ends[-1] if ends else 0)
    return [*map(data.__getitem__, map(slice, [0, *ends], ends))]


class Texts:
    """Distinct texts that one thread has met, held by the compiled functions."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self.handle = functions.texts_new()
        if not self.handle:
            raise MemoryError
        weakref.finalize(self, functions.texts_free, self.handle)


class _Room(local):
    """What one thread decodes into, used again for every piece."""

    values = np.empty(0, np.int64)


# Of small files, of which a job has hundreds, it is kept for the next table: new memory is cleared
# first, 2 MiB for each column, which takes as long as to decode a hundred thousand rows.
_KEPT_ROOM: Final = _Room()


# Numbers, how many are NULL, and what they stand for.
_Part = tuple[Integers, int, Integers | None]
# Some rows of every field in parts, with what its thread's numbers of texts mean.
_Piece = tuple[list[list[_Part]], Texts]


def decode(file: int, root: int, fields: Sequence[Field]) -> list[Decoded]:
    """Decode columns of a table.

    Args:
        file: Descriptor of the database, open for reading.
        root: The table's root page.
        fields: What to decode.

    Returns:
        The values of every field, in the order of the rows.

    Raises:
        NotDecodedError: The compiled functions are not there, or do not know the layout.
        MemoryError: There is not enough memory.
    """
    functions = library()
    if functions is None:
        msg = "the compiled functions were not built"
        raise NotDecodedError(msg)
    reader = _Reader(functions, file, tuple(fields))
    leaves = reader.leaves(root)
    at_once = max(_PAGES_AT_ONCE, min(_MOST_AT_ONCE, len(leaves) // _LEAST_PIECES))
    pieces = [leaves[at : at + at_once] for at in range(0, len(leaves), at_once)]
    most = min(_MOST_THREADS, len(pieces))
    threads = machine.thread_count(most) if most > 1 else 1
    if threads == 1:  # as in workers, and of small tables
        decoded = [*map(reader.piece, pieces)]
    else:
        pool = ThreadPoolExecutor(threads)
        try:
            decoded = [*pool.map(reader.piece, pieces)]
        finally:
            pool.shutdown(cancel_futures=True)  # as after Ctrl-C
    return [*_joined(decoded, fields)]


def spread(places: Integers, meanings: Integers, into: Integers, first: int = 0) -> None:
    """Write what numbers of a part stand for.

    Args:
        places: Places among 256 meanings, those below 0 counted from the end; or distances.
        meanings: The meanings; or what they are distances from, see `Decoded`.
        into: Where to write.
        first: The row of the part that these begin with.
    """
    if len(meanings) == 1:
        np.add(places, meanings, out=into)
    elif places.dtype == np.int32:
        blocks = meanings[first // BLOCK : (first + len(places) - 1) // BLOCK + 1]
        low = first % BLOCK
        np.add(places, np.repeat(blocks, BLOCK)[low : low + len(places)], out=into)
    elif (functions := library()) is None:
        into[:] = meanings[places]
    else:
        functions.spread_meanings(places, len(places), meanings, into)


class _Reader:
    """Decodes pieces of one table on any thread."""

    def __init__(self, functions: ctypes.CDLL, file: int, fields: tuple[Field, ...]) -> None:
        head = os.pread(file, _HEADER_BYTES, 0)
        page_size = int.from_bytes(head[16:18], "big")
        page_size = _LARGEST_PAGE if page_size == 1 else page_size
        usable = page_size - head[20] if len(head) == _HEADER_BYTES else 0
        is_power = page_size & (page_size - 1) == 0
        if not is_power or not page_size >= _SMALLEST_PAGE or usable < _LEAST_USABLE:
            msg = "a page size that SQLite does not have"
            raise NotDecodedError(msg)
        size_bytes = os.fstat(file).st_size
        pages = size_bytes // page_size
        if not 0 < pages < _MOST_PAGES:
            raise NotDecodedError(_STATUSES[2])
        self._functions, self._fields = functions, fields
        self._met = local()  # the texts that a thread has met
        self._room = _KEPT_ROOM if size_bytes <= _SMALL_BYTES else _Room()
        self._used = np.zeros(pages // 8 + 1, np.uint8)
        self._database = _Database(file, page_size, usable, pages, self._used.ctypes.data)
        self._most_rows = functions.most_rows(ctypes.byref(self._database))

    def leaves(self, root: int) -> npt.NDArray[np.uint32]:
        """Numbers of the pages that hold the rows, in their order."""
        numbers, count = np.empty(self._database.pages, np.uint32), ctypes.c_size_t()
        _check(
            self._functions.leaf_pages(
                ctypes.byref(self._database), root, numbers.ctypes.data, ctypes.byref(count)
            )
        )
        return numbers[: count.value].copy()

    def piece(self, leaves: npt.NDArray[np.uint32]) -> _Piece:
        """The rows of some pages."""
        most, count = len(leaves) * self._most_rows, len(self._fields)
        room, texts = self._room, vars(self._met).get("texts") or Texts(self._functions)
        self._met.texts = texts
        if len(room.values) < most * count:
            # Untouched memory costs nothing: a piece rarely has the most rows that it could.
            room.values = np.empty(most * count, np.int64)
        meanings = np.zeros((count, _MOST_MEANINGS), np.int64)
        columns = (_Column * count)(
            *(
                _Column(
                    *spec,
                    values=room.values[place * most :].ctypes.data,
                    meanings=meanings[place:].ctypes.data,
                )
                for place, spec in enumerate(self._fields)
            )
        )
        rows = ctypes.c_size_t()
        _check(
            self._functions.decode_leaves(
                ctypes.byref(self._database),
                leaves.ctypes.data,
                len(leaves),
                columns,
                count,
                texts.handle,
                ctypes.byref(rows),
            )
        )
        decoded = []
        for place, column in enumerate(columns):
            values = room.values[place * most :].view(f"i{column.width}")[: rows.value]
            if column.meaning_count:
                decoded.append([(values.copy(), column.nulls, meanings[place].copy())])
            else:
                decoded.append([*compact(values, column.nulls)])
        return decoded, texts


def compact(values: Integers, nulls: int = 0) -> Iterator[_Part]:
    """Copies, of 64-bit numbers that lie close together as distances from the least one.

    Returns:
        Numbers, how many are null, and what they are distances from, see `Decoded`; of numbers
        that lie far apart one for each half of them.
    """
    functions = library()
    if functions is None or values.dtype != np.int64 or nulls or not len(values):
        yield values.copy(), nulls, None
        return
    into, least = np.empty(len(values), np.int32), np.empty(len(values) // BLOCK + 1, np.int64)
    count = functions.distances(values, len(values), BLOCK, into, least)
    if count:
        yield into, nulls, least[:count].copy()
    elif len(values) > _MOST_APART:
        for half in np.array_split(values, 2):
            yield from compact(half, nulls)
    else:
        yield values.copy(), nulls, None


def _check(status: int) -> None:
    if status == _NO_MEMORY:
        raise MemoryError
    if status:
        raise NotDecodedError(_STATUSES[status])


def _joined(pieces: Sequence[_Piece], fields: Sequence[Field]) -> Iterator[Decoded]:
    """The values of every field, of all pieces; all texts in order, NULL after them."""
    has_texts = any(spec.kind != INTEGERS for spec in fields)
    threads = {id(met): met.handle for _, met in pieces if has_texts}
    by_thread = {key: texts_listed(handle) for key, handle in threads.items()}
    texts = sorted({text for listed in by_thread.values() for text in listed})
    number = {text: place for place, text in enumerate(texts)}
    kind = np.min_scalar_type(-len(texts) - 1)
    numbers = {
        key: np.array([*map(number.__getitem__, listed), len(texts)], kind)
        for key, listed in by_thread.items()
    }
    for place, spec in enumerate(fields):
        columns = [part for decoded, _ in pieces for part in decoded[place]]
        nulls, parts = sum(count for _, count, _ in columns), [values for values, *_ in columns]
        meanings = [meaning for *_, meaning in columns]
        if spec.kind == INTEGERS:
            yield Decoded(parts, meanings, nulls)
            continue
        # The least number of a type is NULL, which as an index is the last one here.
        by_piece = zip(pieces, parts, strict=True)
        codes = [numbers[id(met)][np.maximum(values, -1)] for (_, met), values in by_piece]
        yield Decoded(codes, meanings, nulls, texts)
