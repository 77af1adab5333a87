"""Columns of events of Nsight Systems reports, decoded from their blocks.

See ``reports.h``. Without the compiled functions the same is done in Python, with the same answers,
at a fiftieth of the speed.
"""

import ctypes
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.native import library
from gpuprof.native.pages import Texts, texts_listed

Int64s = npt.NDArray[np.int64]

FAULTS: Final = {
    3: "the size of a block is impossible",
    4: "a block does not inflate",
    5: "a field goes beyond its end",
    6: "a number has no end",
    7: "a field is of no kind, or of another than it has",
    8: "an event has no type, or is of two kinds",
}
_NO_MEMORY, _COLLIDING, _SIZE, _LZ4, _LENGTH, _VARINT, _WIRE_TYPE, _EVENT = range(1, 9)
_FIELDS: Final = 128
# Event types above are counted as this one.
LARGEST_TYPE: Final = 255
NO_VALUE: Final = -(1 << 63)
_MOST_RATIO: Final = 255
LONGEST_VARINT: Final = 10
_SEVEN_BITS: Final = 0x7F
_LEAST_MATCH: Final = 4
# All bits of a byte, and of half a byte.
_FULL_BYTE, _FULL_HALF = 255, 15
_NUMBER, _BYTES = 0, 2
_FIXED: Final = {1: 8, 5: 4}
_KINDS: Final = (_NUMBER, _BYTES, *_FIXED)
# Of a message, and of a column: the numbers of the fields that lead to it.
Path = tuple[int, ...]


class ReportError(Exception):
    """A block of a report breaks the rules of its format."""


class Fields(NamedTuple):
    """What is read of the events of one table.

    Args:
        message: The message that an event of it has.
        columns: Where its columns are.
        texts: Names of the columns that are texts; the others are integers.
        older: Where other versions have what stands in a column; the last that an event has counts.
    """

    message: Path
    columns: Mapping[str, Path]
    texts: frozenset[str] = frozenset()
    older: Mapping[str, Path] = {}


class Events(NamedTuple):
    """The events of some blocks.

    Args:
        columns: By table, its columns in the order of the layout, each with a value for every
            event; `NO_VALUE` where it has none. Texts are numbers of `texts`.
        texts: Different texts by their numbers.
        without_table: By type how many events are of no table.
    """

    columns: dict[str, Int64s]
    texts: list[bytes]
    without_table: Int64s


class _ReportLayout(ctypes.Structure):
    _fields_ = (
        *((n, ctypes.c_void_p) for n in ("steps", "tables", "is_text", "members", "bounds")),
        *((name, ctypes.c_int32) for name in ("slot_count", "table_count")),
    )


class _ReportRows(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.POINTER(ctypes.c_int64)),
        ("count", ctypes.c_size_t),
        ("room", ctypes.c_size_t),
    )


class Layout:
    """Which fields of an event go to which column; see ``ReportLayout`` in ``reports.h``.

    Args:
        tables: By name, what is read of each.
    """

    def __init__(self, tables: Mapping[str, Fields]) -> None:
        self.names = [*tables]
        slots: dict[Path, int] = {(1,): 0}
        texts: set[Path] = set()
        older: dict[Path, int] = {}
        for fields in tables.values():
            texts |= {fields.columns[name] for name in fields.texts}
            for name, path in fields.columns.items():
                slot = slots.setdefault(path, len(slots))
                if name in fields.older:
                    older[fields.older[name]] = slot
        of_slots = slots | older
        parents = {path[:length] for path in of_slots for length in range(len(path))}
        paths = {*parents, *(fields.message for fields in tables.values())}
        messages = {path: place for place, path in enumerate(sorted(paths, key=len))}
        self.steps = np.zeros((len(messages), _FIELDS), np.int16)
        for path, slot in of_slots.items():
            self.steps[messages[path[:-1]], path[-1]] = slot + 1
        for path, message in messages.items():
            if path:
                self.steps[messages[path[:-1]], path[-1]] = -message
        self.tables = np.full(len(messages), -1, np.int8)
        for table, fields in enumerate(tables.values()):
            self.tables[messages[fields.message]] = table
        self.is_text = np.array([path in texts for path in slots], np.uint8)
        self.members = [[slots[p] for p in f.columns.values()] for f in tables.values()]

    @cached_property
    def compiled(self) -> _ReportLayout:
        """The same for the compiled functions."""
        counts = [0, *map(len, self.members)]
        self._flat = np.concatenate([np.zeros(0), *self.members]).astype(np.int32)
        self._bounds = np.cumsum(counts).astype(np.int32)
        arrays = (self.steps, self.tables, self.is_text, self._flat, self._bounds)
        return _ReportLayout(*(a.ctypes.data for a in arrays), len(self.is_text), len(self.names))


def events(data: bytes, layout: Layout) -> Events:
    """The events of some blocks.

    Raises:
        ReportError: A block breaks the rules of its format.
        MemoryError: There is not enough memory.
    """
    functions = library()
    if functions is None:
        return _Decoder(layout).events(data)
    texts, rows = Texts(functions), (_ReportRows * len(layout.names))()
    without_table = np.zeros(LARGEST_TYPE + 1, np.int64)
    sizes = ctypes.c_char_p(data), ctypes.c_size_t(len(data))
    arrays = ctypes.c_void_p(texts.handle), ctypes.c_void_p(without_table.ctypes.data)
    try:
        status = functions.report_events(*sizes, ctypes.byref(layout.compiled), rows, *arrays)
        if status == _COLLIDING:
            return _Decoder(layout).events(data)
        _check(status)
        columns = {}
        for name, table, members in zip(layout.names, rows, layout.members, strict=True):
            shape = table.count, len(members)
            values = np.ctypeslib.as_array(table.values, shape) if table.count else np.empty(shape)
            columns[name] = np.array(values.T, np.int64, order="C")
        return Events(columns, texts_listed(texts.handle), without_table)
    finally:
        for table in rows:
            functions.report_release(ctypes.byref(table))


def texts(data: bytes) -> list[bytes]:
    """The texts of some blocks, in their order.

    Raises:
        ReportError: A block breaks the rules of its format.
        MemoryError: There is not enough memory.
    """
    functions = library()
    if functions is None:
        return [text for message in blocks(data) for text in _first_fields(message)]
    texts = Texts(functions)
    handle, size = ctypes.c_void_p(texts.handle), ctypes.c_size_t(len(data))
    _check(functions.report_texts(ctypes.c_char_p(data), size, handle))
    return texts_listed(texts.handle)


def _check(status: int) -> None:
    if status == _NO_MEMORY:
        raise MemoryError
    if status:
        raise ReportError(FAULTS[status])


class Message:
    """A message without a layout: its values by the numbers of their fields.

    Whoever asks for a value gets a `ReportError` where it is none.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._inner: dict[int, list[Message]] = {}

    @cached_property
    def _values(self) -> dict[int, list[int | bytes]]:
        values: dict[int, list[int | bytes]] = {}
        for number, _, value in fields(self._data):
            values.setdefault(number, []).append(value)
        return values

    def integer(self, number: int, missing: int = 0) -> int:
        """The last integer of this number."""
        values = [value for value in self._values.get(number, ()) if isinstance(value, int)]
        return values[-1] if values else missing

    def integers(self, number: int) -> list[int]:
        """All integers of this number."""
        return [value for value in self._values.get(number, ()) if isinstance(value, int)]

    def texts(self, number: int) -> list[str]:
        """All texts of this number."""
        values = self._values.get(number, ())
        return [value.decode("utf-8", "replace") for value in values if isinstance(value, bytes)]

    def text(self, number: int) -> str | None:
        """The last text of this number."""
        return next(iter(self.texts(number)[-1:]), None)

    def messages(self, *path: int) -> "list[Message]":
        """All messages at the end of a path of numbers."""
        inner = self._inner.get(path[0])
        if inner is None:
            values = self._values.get(path[0], ())
            inner = [Message(value) for value in values if isinstance(value, bytes)]
            self._inner[path[0]] = inner
        return [m for i in inner for m in i.messages(*path[1:])] if path[1:] else inner


def fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """The fields of a message: number, wire type, and a signed integer of 64 bits or bytes.

    Raises:
        ReportError: It is no message.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = varint(message, at)
        number, kind = key >> 3, key & 7
        if not number or kind not in _KINDS:
            raise ReportError(FAULTS[_WIRE_TYPE])
        if kind == _NUMBER:
            value, at = varint(message, at)
            yield number, kind, value - (value >> 63 << 64)
            continue
        size = _FIXED.get(kind, 0)
        if not size:
            size, at = varint(message, at)
        if size > end - at:
            raise ReportError(FAULTS[_LENGTH])
        yield number, kind, message[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends.

    Raises:
        ReportError: It has no end, or more than 64 bits.
    """
    if at < len(data) and data[at] <= _SEVEN_BITS:  # as most are
        return data[at], at + 1
    value = 0
    for place, byte in enumerate(data[at : at + LONGEST_VARINT]):
        value |= (byte & _SEVEN_BITS) << 7 * place
        if byte <= _SEVEN_BITS:
            if value >> 64:
                break
            return value, at + place + 1
    raise ReportError(FAULTS[_VARINT])


def inflated(packed: bytes, size: int) -> bytes:
    """An LZ4 block unpacked, which must be of this size.

    Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.

    Raises:
        ReportError: It is not.
    """
    out, at, end = bytearray(), 0, len(packed)
    while at < end:
        token, at = packed[at], at + 1
        literals, at = _lz4_length(packed, token >> 4, at)
        if literals > end - at or literals > size - len(out):
            raise ReportError(FAULTS[_LZ4])
        out += packed[at : at + literals]
        at += literals
        if at == end:
            break
        distance, at = int.from_bytes(packed[at : at + 2], "little"), at + 2
        length, at = _lz4_length(packed, token & 15, at)
        length += _LEAST_MATCH
        if at > end or not 0 < distance <= len(out) or length > size - len(out):
            raise ReportError(FAULTS[_LZ4])
        match = out[-distance:][:length]
        out += (match * (length // len(match) + 1))[:length]
    if len(out) != size:
        raise ReportError(FAULTS[_LZ4])
    return bytes(out)


def _lz4_length(packed: bytes, length: int, at: int) -> tuple[int, int]:
    """A length of 4 bits, to which bytes are added as long as they are 255."""
    byte = _FULL_BYTE if length == _FULL_HALF else 0
    while byte == _FULL_BYTE:
        if at >= len(packed):
            raise ReportError(FAULTS[_LZ4])
        byte, at = packed[at], at + 1
        length += byte
    return length, at


def blocks(data: bytes) -> Iterator[bytes]:
    """The messages of some blocks, unpacked.

    Raises:
        ReportError: A block breaks the rules of its format.
    """
    at = 0
    while at < len(data):
        packed, at = varint(data, at)
        unpacked, at = varint(data, at)
        if packed > len(data) - at or unpacked > packed * _MOST_RATIO:
            raise ReportError(FAULTS[_SIZE])
        if not unpacked:
            raise ReportError(FAULTS[_LZ4])
        block, at = inflated(data[at : at + packed], unpacked), at + packed
        size, start = varint(block, 0)
        if size != len(block) - start:
            raise ReportError(FAULTS[_LENGTH])
        yield block[start:]


def _first_fields(message: bytes, *, are_all: bool = False) -> Iterator[bytes]:
    """The bytes in field 1, which may have to be the only one."""
    for number, kind, value in fields(message):
        if number == 1 and kind == _BYTES and isinstance(value, bytes):
            yield value
        elif number == 1 or are_all:
            raise ReportError(FAULTS[_WIRE_TYPE])


class _Decoder:
    """What ``report_events`` does, in Python."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._steps = [{int(f): int(row[f]) for f in np.flatnonzero(row)} for row in layout.steps]
        self._tables, self._is_text = layout.tables.tolist(), layout.is_text.tolist()
        self._texts: dict[bytes, int] = {}

    def events(self, data: bytes) -> Events:
        rows: list[list[list[int]]] = [[] for _ in self._layout.names]
        without_table = np.zeros(LARGEST_TYPE + 1, np.int64)
        for message in blocks(data):
            for event in _first_fields(message, are_all=True):
                self._slots, self._table = [NO_VALUE] * len(self._is_text), -1
                self._read(0, event)
                if self._slots[0] < 0:
                    raise ReportError(FAULTS[_EVENT])
                if self._table < 0:
                    without_table[min(self._slots[0], LARGEST_TYPE)] += 1
                    continue
                members = self._layout.members[self._table]
                rows[self._table].append([self._slots[slot] for slot in members])
        columns = {
            name: np.array(of_table, np.int64).reshape(len(of_table), len(members)).T
            for name, of_table, members in zip(
                self._layout.names, rows, self._layout.members, strict=True
            )
        }
        return Events(columns, [*self._texts], without_table)

    def _read(self, message: int, data: bytes) -> None:
        if self._tables[message] >= 0 <= self._table:
            raise ReportError(FAULTS[_EVENT])
        self._table = max(self._table, self._tables[message])
        for number, kind, value in fields(data):
            step = self._steps[message].get(number, 0)
            if not step:
                continue
            is_bytes = step < 0 or self._is_text[step - 1]
            if kind != (_BYTES if is_bytes else _NUMBER):
                raise ReportError(FAULTS[_WIRE_TYPE])
            if isinstance(value, int):
                self._slots[step - 1] = value
                if value == NO_VALUE:
                    raise ReportError(FAULTS[_VARINT])
            elif step < 0:
                self._read(-step, value)
            else:
                self._slots[step - 1] = self._texts.setdefault(value, len(self._texts))
