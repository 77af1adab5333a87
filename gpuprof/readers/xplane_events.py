"""Events of an XPlane's lines as columns, decoded side by side: one step for all, not one each.

A profile holds millions of events of a few fields. Decoding field after field of one event in
Python takes 13 us an event; here the first fields of all events are decoded together, then the
second ones, and so on, each in a few operations on whole arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.xspace import PS_PER_NS, Line, Plane, WireError

Integers = npt.NDArray[np.int64]
_Octets = npt.NDArray[np.uint8]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_METADATA, _OFFSET_PS, _DURATION_PS, _STATS = 1, 2, 3, 4
_STAT_METADATA, _STAT_TEXT, _STAT_REFERENCE = 1, 5, 7
_NUMBERS: Final = (3, 4)  # uint64_value and int64_value
_LONGEST: Final = 10
_SEVEN_BITS: Final = 0x7F
# So many zeros after the end let every field be looked at without asking whether it is there.
_PADDING: Final = bytes(2 * _LONGEST)


@dataclass(frozen=True)
class _Fields:
    """The fields of many messages: which message, which field, and its number or its place."""

    message: Integers
    number: Integers
    value: Integers
    size: Integers

    def of(self, number: int) -> "_Fields":
        """The fields of one number."""
        found = self.number == number
        columns = (self.message, self.number, self.value, self.size)
        return _Fields(*(column[found] for column in columns))

    def spread(self, count: int) -> Integers:
        """Their values, one for each of the messages; 0 where a message has none."""
        values = np.zeros(count, np.int64)
        values[self.message] = self.value
        return values


@dataclass(frozen=True)
class Coded:
    """A text for each event, each different one held once.

    Args:
        texts: The different ones.
        codes: Each event's place among them; -1 where it has none.
    """

    texts: list[str]
    codes: Integers

    def parsed(self, parse: Callable[[str], Any], dtype: pa.DataType) -> pa.Array:
        """What each event's text means; null where it has none."""
        return pa.array([parse(text) for text in self.texts], dtype).take(
            pa.array(self.codes, mask=self.codes < 0)
        )

    @property
    def words(self) -> pa.DictionaryArray:
        """The texts themselves, each different one held once."""
        codes = pa.array(self.codes.astype(np.int32), mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.texts, pa.string()))

    def rows(self, wanted: Callable[[str], bool]) -> npt.NDArray[np.intp]:
        """The events whose text is wanted."""
        chosen = np.array([*(wanted(text) for text in self.texts), False], np.bool_)
        return np.flatnonzero(chosen[self.codes])

    def of(self, rows: npt.NDArray[np.intp]) -> "Coded":
        """The texts of some events."""
        return Coded(self.texts, self.codes[rows])


class Events:
    """The events of some lines of one plane.

    Attributes:
        line: Each event's line, as its place among the lines.
        start_ns: Start, since the origin of the file.
        duration_ns: Duration.

    Raises:
        WireError: An event breaks off.
    """

    def __init__(self, plane: Plane, lines: Sequence[Line]) -> None:
        counts = [len(line.begins) for line in lines]
        bases = np.repeat(np.cumsum([0, *(len(line.data) for line in lines)])[:-1], counts)
        begin = bases + np.fromiter(chain.from_iterable(ln.begins for ln in lines), np.int64)
        end = bases + np.fromiter(chain.from_iterable(ln.ends for ln in lines), np.int64)
        self._plane = plane
        self._text = b"".join([*(line.data for line in lines), _PADDING])
        self._octets = np.frombuffer(self._text, np.uint8)
        fields = _fields(self._octets, begin, end)
        count = len(begin)
        origins = np.array([line.start_ns for line in lines], np.int64)
        self.line: Integers = np.repeat(np.arange(len(lines)), counts)
        self.metadata_id = fields.of(_METADATA).spread(count)
        offset_ns = fields.of(_OFFSET_PS).spread(count) // PS_PER_NS
        self.start_ns: Integers = np.repeat(origins, counts) + offset_ns
        self.duration_ns: Integers = fields.of(_DURATION_PS).spread(count) // PS_PER_NS
        self._stats = fields.of(_STATS)

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.line)

    @cached_property
    def names(self) -> "Coded":
        """Each event's name."""
        kinds = self._plane.event_metadata
        keys, codes = np.unique(self.metadata_id, return_inverse=True)
        return Coded([kinds[key].name if key in kinds else "" for key in keys.tolist()], codes)

    def numbers(self, name: str) -> pa.Array:
        """Each event's integer value of this name; null where it has none."""
        chosen = self._values(name)
        numbers, missing = np.zeros(len(self), np.int64), np.ones(len(self), np.bool_)
        for number in _NUMBERS:
            found = chosen.of(number)
            numbers[found.message] = found.value
            missing[found.message] = False
        return pa.array(numbers, mask=missing)

    def texts(self, name: str) -> "Coded":
        """Each event's text of this name, be it in the event or referred to."""
        chosen = self._values(name)
        codes = np.full(len(self), -1, np.int64)
        references = chosen.of(_STAT_REFERENCE)
        keys, codes[references.message] = np.unique(references.value, return_inverse=True)
        known = [self._plane.stat_names.get(key, "") for key in keys.tolist()]
        own = chosen.of(_STAT_TEXT)
        seen: dict[bytes, int] = {}
        places = zip(own.value.tolist(), (own.value + own.size).tolist(), strict=True)
        found = (seen.setdefault(self._text[b:e], len(known) + len(seen)) for b, e in places)
        codes[own.message] = np.fromiter(found, np.int64, len(own.message))
        return Coded([*known, *(text.decode("utf-8", "replace") for text in seen)], codes)

    @cached_property
    def _decoded(self) -> tuple[_Fields, Integers]:
        """The fields of all values, and which name each value has."""
        values = self._stats
        fields = _fields(self._octets, values.value, values.value + values.size)
        return fields, fields.of(_STAT_METADATA).spread(len(values.message))

    def _values(self, name: str) -> _Fields:
        """The fields of the values of this name, with the event as their message."""
        fields, names = self._decoded
        keys = [key for key, text in self._plane.stat_names.items() if text == name]
        found = np.isin(names[fields.message], keys) & (fields.number != _STAT_METADATA)
        event = self._stats.message[fields.message[found]]
        return _Fields(event, fields.number[found], fields.value[found], fields.size[found])


def _fields(octets: _Octets, start: Integers, end: Integers) -> _Fields:
    """All fields of messages that lie in one text.

    Raises:
        WireError: A message breaks off, or is no protocol buffer.
    """
    message, at, stop = np.arange(len(start)), start, end
    rounds = []
    while True:
        there = at < stop
        message, at, stop = message[there], at[there], stop[there]
        if not message.size:
            break
        tag, at = _varints(octets, at)
        kind = tag & 7
        number, after = _varints(octets, at)
        fixed = np.where(kind == _FIXED64, 8, 4)
        is_fixed = (kind == _FIXED64) | (kind == _FIXED32)
        if not (is_fixed | (kind == _VARINT) | (kind == _BYTES)).all():
            msg = "an event has a field of no kind"
            raise WireError(msg)
        begin = np.where(is_fixed, at, after)
        size = np.where(kind == _VARINT, 0, np.where(is_fixed, fixed, number))
        if ((size < 0) | (size > stop - begin)).any():
            msg = "an event has a field that goes beyond its end"
            raise WireError(msg)
        rounds.append((message, tag >> 3, np.where(kind == _VARINT, number, begin), size))
        at = begin + size
    columns = zip(*rounds, strict=True) if rounds else [[np.zeros(0, np.int64)]] * 4
    return _Fields(*(np.concatenate(list(column)) for column in columns))


def _varints(octets: _Octets, at: Integers) -> tuple[Integers, Integers]:
    """The numbers at these positions, as signed ones, and the positions after them."""
    octet = octets[at]
    number = (octet & _SEVEN_BITS).astype(np.int64)
    at = at + 1
    rest = np.flatnonzero(octet > _SEVEN_BITS)
    for shift in range(7, 7 * _LONGEST, 7):
        if not rest.size:
            break
        octet = octets[at[rest]]
        number[rest] |= (octet & _SEVEN_BITS).astype(np.int64) << shift
        at[rest] += 1
        rest = rest[octet > _SEVEN_BITS]
    return number, at
