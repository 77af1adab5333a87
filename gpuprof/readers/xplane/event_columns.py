"""Events of an XPlane's lines as columns, decoded side by side: one step for all, not one each.

A profile holds millions of events of a few fields. Decoding field after field of one event in
Python takes 13 us an event; here the first fields of many events are decoded together, then the
second ones, and so on, each in a few operations on whole arrays. A batch is small enough for the
processor's cache, and only the values that are asked for are looked into.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base import xspace
from gpuprof.base.xspace import PS_PER_NS, Line, Plane, WireError
from gpuprof.readers.common.compact_columns import Flags, Integers, Lexicon

_Octets = npt.NDArray[np.uint8]

_IS_KIND: Final = np.isin(np.arange(8), [*xspace.KINDS])
# Profilers write the key of an event or value before all else.
_KEY_TAG: Final = xspace.EVENT_METADATA << 3 | xspace.VARINT
_LONGEST: Final = 10
_SEVEN_BITS: Final = 0x7F
# So many zeros after the end let every field be looked at without asking whether it is there.
_PADDING: Final = bytes(2 * _LONGEST)
_BATCH_EVENTS: Final = 1 << 14


@dataclass(frozen=True)
class _Fields:
    """The fields of many messages: which message, which field, and its number or its place.

    Args:
        message: Which message it is of.
        number: Its number.
        kind: How its value is written, such as `xspace.VARINT`.
        value: A number, or where the bytes begin.
        size: How many bytes there are.
    """

    message: Integers
    number: Integers
    kind: Integers
    value: Integers
    size: Integers

    def of(self, number: int, kind: int = xspace.VARINT) -> "_Fields":
        """The fields of one number; those that are written in another way are none."""
        return self.where((self.number == number) & (self.kind == kind))

    def needed(self, number: int) -> "_Fields":
        """The fields of one number, which must be written as numbers.

        Raises:
            WireError: One is not.
        """
        fields = self.where(self.number == number)
        if (fields.kind != xspace.VARINT).any():
            msg = "a time of an event is not a number"
            raise WireError(msg)
        return fields

    def where(self, chosen: Flags) -> "_Fields":
        """Some of the fields."""
        columns = (self.message, self.number, self.kind, self.value, self.size)
        return _Fields(*(column[chosen] for column in columns))

    def spread(self, count: int) -> Integers:
        """Their values, one for each of the messages; 0 where a message has none."""
        values = np.zeros(count, np.int64)
        values[self.message] = self.value
        return values


@dataclass(frozen=True)
class _Messages:
    """Messages in a part of a line that begins at ``base``: where in it each begins and ends."""

    text: bytes
    base: int
    begin: Integers
    end: Integers

    @property
    def octets(self) -> _Octets:
        """The text as numbers."""
        return np.frombuffer(self.text, np.uint8)


class Batch:
    """Some events of one line.

    Attributes:
        start_ns: Start, since the origin of the file.
        duration_ns: Duration.

    Args:
        plane: The plane of the line.
        line: The line.
        messages: The events.
        value_names: Names of the values that will be asked for.

    Raises:
        WireError: An event breaks off.
    """

    def __init__(
        self, plane: Plane, line: Line, messages: _Messages, value_names: Collection[str]
    ) -> None:
        self._plane, self._text = plane, messages.text
        fields, count = _fields(messages), len(messages.begin)
        offset_ps, duration_ps = (
            fields.needed(n) for n in (xspace.EVENT_OFFSET_PS, xspace.EVENT_DURATION_PS)
        )
        self._metadata_id = fields.of(xspace.EVENT_METADATA).spread(count)
        self.start_ns: Integers = line.start_ns + offset_ps.spread(count) // PS_PER_NS
        self.duration_ns: Integers = duration_ps.spread(count) // PS_PER_NS
        stats = fields.of(xspace.EVENT_STATS, xspace.BYTES)
        keys = [key for name in value_names for key in plane.stat_keys.get(name, ())]
        stats = stats.where(_may_have(messages.octets, stats.value, keys))
        values = replace(messages, begin=stats.value, end=stats.value + stats.size)
        self._values = _fields(values)
        self._name = self._values.of(xspace.STAT_METADATA).spread(len(stats.message))
        self._event = stats.message

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.start_ns)

    def names(self, lexicon: Lexicon, shown: Callable[[str], str] = str) -> Integers:
        """Each event's name, as it is to be shown, as its number in a lexicon."""
        kinds = self._plane.event_metadata
        return lexicon.codes_of_keys(
            self._metadata_id, lambda key: shown(kinds[key].name if key in kinds else "")
        )

    def numbers(self, name: str) -> tuple[Integers, Flags]:
        """Each event's integer value of this name, and whether it has one."""
        chosen = self._of(name)
        numbers, is_known = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        for number in (xspace.STAT_UINT64, xspace.STAT_INT64):
            fields = chosen.of(number)
            numbers[fields.message] = fields.value
            is_known[fields.message] = True
        return numbers, is_known

    def texts(self, name: str, lexicon: Lexicon) -> Integers:
        """Each event's text of this name, in the event or referred to; -1 where it has none."""
        chosen = self._of(name)
        codes = np.full(len(self), -1, np.int64)
        names = self._plane.stat_names
        referred = chosen.of(xspace.STAT_REFERENCE)
        inline = chosen.of(xspace.STAT_TEXT, xspace.BYTES)
        codes[referred.message] = lexicon.codes_of_keys(
            referred.value, lambda key: names.get(key, "")
        )
        places = zip(inline.value.tolist(), (inline.value + inline.size).tolist(), strict=True)
        texts = (self._text[begin:end].decode("utf-8", "replace") for begin, end in places)
        codes[inline.message] = lexicon.codes(texts, len(inline.message))
        return codes

    def _of(self, name: str) -> _Fields:
        """The fields of the values of this name, with the event as their message."""
        names = self._name[self._values.message]
        is_named = np.isin(names, self._plane.stat_keys.get(name, ()))
        fields = self._values.where(is_named & (self._values.number != xspace.STAT_METADATA))
        return replace(fields, message=self._event[fields.message])


def batches(
    plane: Plane, line: Line, value_names: Collection[str], kinds: Collection[int] | None = None
) -> Iterator[Batch]:
    """The events of a line as the file has them, some thousand at a time.

    Args:
        plane: The plane of the line.
        line: The line.
        value_names: Names of the values that will be asked for.
        kinds: Keys of ``event_metadata``; other events are left out. None for all.

    Raises:
        WireError: An event breaks off.
    """
    begins, ends = np.asarray(line.begins), np.asarray(line.ends)
    for first in range(0, len(begins), _BATCH_EVENTS):
        begin = begins[first : first + _BATCH_EVENTS].astype(np.int64)
        end = ends[first : first + _BATCH_EVENTS].astype(np.int64)
        base = int(begin[0])
        text = bytes(line.data[base : end[-1]]) + _PADDING
        begin, end = begin - base, end - base
        if kinds is not None:
            is_chosen = _may_have(np.frombuffer(text, np.uint8), begin, kinds)
            begin, end = begin[is_chosen], end[is_chosen]
        if len(begin):
            yield Batch(plane, line, _Messages(text, base, begin, end), value_names)


def _may_have(octets: _Octets, begin: Integers, keys: Collection[int]) -> Flags:
    """Which messages have one of these keys, or do not begin with their key."""
    numbers, _ = _varints(octets, begin + 1)
    is_other: Flags = octets[begin] != _KEY_TAG
    return is_other | np.isin(numbers, [*keys])


def _fields(messages: _Messages) -> _Fields:
    """All fields of messages.

    Raises:
        WireError: A message breaks off, or is no protocol buffer.
    """
    octets, base = messages.octets, messages.base
    message, at, stop = np.arange(len(messages.begin)), messages.begin, messages.end
    rounds = []
    while True:
        there = at < stop
        if not there.all():
            message, at, stop = message[there], at[there], stop[there]
        if not message.size:
            break
        tag, at = _varints(octets, at)
        number, after = _varints(octets, at)
        kind = tag & 7
        _refuse(base + at, ~_IS_KIND[kind], "a field of an event is of no kind")
        begin, size = after, np.where(kind == xspace.VARINT, 0, number)
        if (is_fixed := (kind == xspace.FIXED64) | (kind == xspace.FIXED32)).any():
            fixed = np.where(kind == xspace.FIXED64, 8, 4)
            begin, size = np.where(is_fixed, at, after), np.where(is_fixed, fixed, size)
        is_beyond = (size < 0) | (size > stop - begin)
        _refuse(base + at, is_beyond, "a field of an event goes beyond its end")
        value = np.where(kind == xspace.VARINT, number, begin)
        rounds.append((message, tag >> 3, kind.astype(np.int8), value, size))
        at = begin + size
    columns = zip(*rounds, strict=True) if rounds else [[np.zeros(0, np.int64)]] * 5
    return _Fields(*(np.concatenate(list(column)) for column in columns))


def _refuse(at: Integers, is_wrong: Flags, fault: str) -> None:
    if is_wrong.any():
        msg = f"byte {at[is_wrong.argmax()]} of a line: {fault}"
        raise WireError(msg)


def _varints(octets: _Octets, at: Integers) -> tuple[Integers, Integers]:
    """The numbers at these positions, as signed ones, and the positions after them."""
    octet = octets[at]
    number = (octet & _SEVEN_BITS).astype(np.int64)
    at = at + 1
    unfinished = np.flatnonzero(octet > _SEVEN_BITS)
    for shift in range(7, 7 * _LONGEST, 7):
        if not unfinished.size:
            break
        octet = octets[at[unfinished]]
        number[unfinished] |= (octet & _SEVEN_BITS).astype(np.int64) << shift
        at[unfinished] += 1
        unfinished = unfinished[octet > _SEVEN_BITS]
    return number, at
