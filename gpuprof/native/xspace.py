"""XSpace files, which TensorFlow's, JAX's and XLA's profilers write (``*.xplane.pb``), decoded.

Only what a protocol buffer's wire format needs, so that no protobuf runtime is required.
Source: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from struct import unpack_from
from typing import Final

PS_PER_NS: Final = 1_000

# A part of a file is a view of it, not a copy.
Octets = bytes | memoryview
Field = tuple[int, int | Octets]
Stat = int | float | str | bytes

# How the wire has a value.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
KINDS: Final = frozenset({VARINT, FIXED64, BYTES, FIXED32})

# Field numbers of xplane.proto's messages; a map's entry has its key and its value.
_SPACE_PLANES, _SPACE_ERRORS, _SPACE_WARNINGS, _SPACE_HOSTS = 1, 2, 3, 4
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_START_NS, _LINE_EVENTS, _LINE_DISPLAY_NAME = 1, 2, 3, 4, 11
EVENT_METADATA, EVENT_OFFSET_PS, EVENT_DURATION_PS, EVENT_STATS = 1, 2, 3, 4
_METADATA_NAME, _METADATA_DISPLAY_NAME, _METADATA_STATS = 2, 4, 5
STAT_METADATA, STAT_DOUBLE, STAT_UINT64, STAT_INT64, STAT_TEXT, STAT_REFERENCE = 1, 2, 3, 4, 5, 7
_KEY, _VALUE = 1, 2

_EVENT_TAG = _LINE_EVENTS << 3 | BYTES
_TOP_BIT, _LONGEST_SHIFT = 0x80, 63
_LARGEST: Final = (1 << 31) - 1
_DOUBLE_BYTES: Final = 8


class WireError(ValueError):
    """Bytes that are no protocol buffer of this kind; the position is in the text."""


@dataclass(frozen=True)
class EventMetadata:
    """What all events of one kind share: ``name:Type`` for TensorFlow's operations."""

    name: str
    display_name: str
    stats: Mapping[str, Stat]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a line; ``start_ns`` counts from the origin of the line's plane."""

    metadata: EventMetadata
    start_ns: int
    duration_ps: int
    raw_stats: tuple[Octets, ...]

    @property
    def end_ns(self) -> int:
        """End, half-open."""
        return self.start_ns + self.duration_ps // PS_PER_NS


@dataclass(frozen=True)
class Line:
    """One thread of the host or one stream of a device.

    Args:
        line_id: Number of the thread or stream.
        name: Its name.
        start_ns: What its events' times count from.
        data: The line's message.
        begins: Where in it each event's message begins.
        ends: Where each ends.
    """

    line_id: int
    name: str
    start_ns: int
    data: Octets = field(repr=False)
    begins: "array[int]" = field(repr=False)
    ends: "array[int]" = field(repr=False)

    def raw_events_with(self, mark: bytes) -> Iterator[bytes]:
        """The messages of those events that hold some bytes, which is fast where few do."""
        last = -1
        for match in re.finditer(re.escape(mark), self.data):
            place = bisect_right(self.begins, match.start()) - 1
            if place > last and match.end() <= self.ends[place]:
                yield bytes(self.data[self.begins[place] : self.ends[place]])
                last = place


@dataclass(frozen=True)
class Plane:
    """One device's or one host's events; each part is decoded when it is asked for.

    Args:
        name: Such as ``/device:GPU:0`` or ``/host:CPU``.
        parts: The fields of the plane's message that are messages themselves, by number.
    """

    name: str
    parts: Mapping[int, Sequence[Octets]] = field(repr=False)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Threads of the host or streams of a device."""
        return tuple(_line(entry) for entry in self.parts.get(_PLANE_LINES, ()))

    @cached_property
    def event_metadata(self) -> Mapping[int, EventMetadata]:
        """The kinds of events by their key."""
        entries = self.parts.get(_PLANE_EVENTS, ())
        return dict(_event_metadata(entry, self.stat_names) for entry in entries)

    def event_metadata_with(self, mark: re.Pattern[bytes]) -> Mapping[int, EventMetadata]:
        """Those kinds of events whose raw bytes have a mark, which is fast for a few of many."""
        entries = (e for e in self.parts.get(_PLANE_EVENTS, ()) if mark.search(e))
        return dict(_event_metadata(entry, self.stat_names) for entry in entries)

    @cached_property
    def stat_names(self) -> Mapping[int, str]:
        """Names of values by their key; also texts that values refer to."""
        names = {}
        for key, value in map(_map_entry, self.parts.get(_PLANE_STATS, ())):
            texts = (_text(_bytes(part)) for n, part in fields(value) if n == _METADATA_NAME)
            names[key] = next(texts, "")
        return names

    @cached_property
    def stat_keys(self) -> Mapping[str, Sequence[int]]:
        """Keys of values by their name."""
        keys: dict[str, list[int]] = {}
        for key, name in self.stat_names.items():
            keys.setdefault(name, []).append(key)
        return keys

    @cached_property
    def stats(self) -> Mapping[str, Stat]:
        """The plane's own values by name."""
        return dict(_stat(e, self.stat_names) for e in self.parts.get(_PLANE_OWN_STATS, ()))

    def events(self, line: Line, metadata_ids: Collection[int] | None = None) -> Iterator[Event]:
        """The events of a line as the file has them, which is in no particular order.

        Args:
            line: A line of this plane.
            metadata_ids: Keys of ``event_metadata``; other events are skipped, which is fast.

        Raises:
            WireError: An event breaks off.
        """
        for begin, end in zip(line.begins, line.ends, strict=True):
            raw = bytes(line.data[begin:end])
            # The key is the first field of an event, which is how every profiler writes it.
            key = 0 if metadata_ids is None or raw[:1] != b"\x08" else varint(raw, 1)[0]
            if metadata_ids is None or key in metadata_ids:
                yield self._event(line, raw)

    def events_with(self, line: Line, name: str) -> Iterator[Event]:
        """The events of a line that have a value of this name, which is fast where few do.

        Raises:
            WireError: An event breaks off.
        """
        for key in self.stat_keys.get(name, ()):
            mark = b"\x08" + encoded(key)
            for raw in line.raw_events_with(mark):
                if name in self.stats_of(event := self._event(line, raw)):
                    yield event

    def stats_of(self, event: Event) -> dict[str, Stat]:
        """An event's own values by name."""
        return dict(_stat(raw, self.stat_names) for raw in event.raw_stats)

    def _event(self, line: Line, raw: bytes) -> Event:
        metadata_id = offset_ps = duration_ps = 0
        stats = []
        for number, value in fields(raw):
            if number == EVENT_METADATA:
                metadata_id = _int(value)
            elif number == EVENT_OFFSET_PS:
                offset_ps = signed(_int(value))
            elif number == EVENT_DURATION_PS:
                duration_ps = signed(_int(value))
            elif number == EVENT_STATS:
                stats.append(_bytes(value))
        metadata = self.event_metadata.get(metadata_id, _UNKNOWN)
        return Event(metadata, line.start_ns + offset_ps // PS_PER_NS, duration_ps, tuple(stats))


_UNKNOWN: Final = EventMetadata("", "", {})


@dataclass(frozen=True)
class Space:
    """A whole file.

    Args:
        planes: Its planes.
        errors: What the profiler said, without the names of hosts.
        warnings: What else it said, as errors.
        hosts: The names of the hosts that were profiled.
    """

    planes: tuple[Plane, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    hosts: tuple[str, ...]


def space(data: bytes) -> Space:
    """An XSpace file.

    Raises:
        WireError: The bytes break off or are no protocol buffer.
    """
    parts = _parts(memoryview(data))
    hosts = tuple(map(_text, parts.get(_SPACE_HOSTS, ())))
    return Space(
        tuple(
            Plane(_text(plane.get(_PLANE_NAME, [b""])[-1]), plane)
            for plane in map(_parts, parts.get(_SPACE_PLANES, ()))
        ),
        tuple(_without(hosts, entry) for entry in parts.get(_SPACE_ERRORS, ())),
        tuple(_without(hosts, entry) for entry in parts.get(_SPACE_WARNINGS, ())),
        hosts,
    )


def _without(hosts: Sequence[str], entry: Octets) -> str:
    """A message without the host's name before it."""
    text = _text(entry)
    heads = (f"{host}: " for host in hosts)
    return text.removeprefix(next((head for head in heads if text.startswith(head)), ""))


def fields(data: Octets) -> Iterator[Field]:
    """The fields of one message in the order of the file: number and value.

    Numbers are unsigned as the wire has them (see `signed`); fixed ones come as their bytes.

    Raises:
        WireError: The bytes break off or are no protocol buffer.
    """
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        # Most numbers are of one byte, and calls are what costs here.
        if tag < _TOP_BIT:
            position += 1
        else:
            tag, position = varint(data, position)
        kind = tag & 7
        if kind not in KINDS:
            msg = f"byte {position}: {kind} is an unknown kind of field"
            raise WireError(msg)
        if kind in (FIXED64, FIXED32):
            number = 8 if kind == FIXED64 else 4
        elif position < end and data[position] < _TOP_BIT:
            number = data[position]
            position += 1
        else:
            number, position = varint(data, position)
        if kind == VARINT:
            yield tag >> 3, number
            continue
        if position + number > end:
            msg = f"byte {position}: a field of {number} bytes goes beyond the end"
            raise WireError(msg)
        yield tag >> 3, data[position : position + number]
        position += number


def varint(data: Octets, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it.

    Raises:
        WireError: It breaks off.
    """
    number = shift = 0
    start = position
    while position < len(data) and shift <= _LONGEST_SHIFT:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < _TOP_BIT:
            return number, position
        shift += 7
    msg = f"byte {start}: a number breaks off"
    raise WireError(msg)


def encoded(number: int) -> bytes:
    """A number, not negative, as the wire has it: the opposite of `varint`."""
    if number < _TOP_BIT:
        return bytes((number,))
    octets = bytearray()
    while number >= _TOP_BIT:
        octets.append(number & 0x7F | _TOP_BIT)
        number >>= 7
    return bytes([*octets, number])


def signed(number: int) -> int:
    """An int64 from the unsigned number on the wire."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _parts(data: Octets) -> dict[int, list[Octets]]:
    """The fields of a message that are texts or messages themselves, by number."""
    parts: dict[int, list[Octets]] = {}
    for number, value in fields(data):
        if not isinstance(value, int):
            parts.setdefault(number, []).append(value)
    return parts


def _line(data: Octets) -> Line:
    numbers: dict[int, int] = {}
    texts: dict[int, Octets] = {}
    begins, ends = array("I"), array("I")
    if len(data) > _LARGEST:
        msg = f"a line of {len(data)} bytes is larger than a protocol buffer can be"
        raise WireError(msg)
    position = 0
    while position < len(data):
        if data[position] == _EVENT_TAG:
            position = _keep_events(data, position, begins, ends)
            continue
        tag, after = varint(data, position)
        number, position = varint(data, after)
        if tag & 7 == VARINT:
            numbers[tag >> 3] = number
            continue
        if tag & 7 != BYTES or position + number > len(data):
            msg = f"byte {after}: a line breaks off"
            raise WireError(msg)
        texts[tag >> 3] = data[position : position + number]
        position += number
    name = texts.get(_LINE_DISPLAY_NAME) or texts.get(_LINE_NAME, b"")
    start_ns = signed(numbers.get(_LINE_START_NS, 0))
    return Line(signed(numbers.get(_LINE_ID, 0)), _text(name), start_ns, data, begins, ends)


def _keep_events(data: Octets, position: int, begins: "array[int]", ends: "array[int]") -> int:
    """Keep where the events lie that begin at a position, and say where another field begins."""
    # It loads NumPy, which who only names the format does not need.
    from gpuprof.native.xspace_events import event_places  # noqa: PLC0415

    position, (begin, end) = event_places(data, position)
    begins.frombytes(begin.tobytes())
    ends.frombytes(end.tobytes())
    size = len(data)
    while position < size and data[position] == _EVENT_TAG:
        length, position = varint(data, position + 1)
        if length > size - position:
            msg = f"byte {position}: an event goes beyond the end"
            raise WireError(msg)
        begins.append(position)
        position += length
        ends.append(position)
    return position


def _event_metadata(entry: Octets, names: Mapping[int, str]) -> tuple[int, EventMetadata]:
    key, value = _map_entry(entry)
    texts: dict[int, Octets] = {}
    stats = []
    for number, part in fields(value):
        if isinstance(part, int):
            continue
        if number == _METADATA_STATS:
            stats.append(_stat(part, names))
        else:
            texts[number] = part
    name, display = texts.get(_METADATA_NAME, b""), texts.get(_METADATA_DISPLAY_NAME, b"")
    return key, EventMetadata(_text(name), _text(display), dict(stats))


def _map_entry(entry: Octets) -> tuple[int, Octets]:
    key: int = 0
    value: Octets = b""
    for number, part in fields(entry):
        if number == _KEY:
            key = _int(part)
        elif number == _VALUE:
            value = _bytes(part)
    return key, value


def _stat(raw: Octets, names: Mapping[int, str]) -> tuple[str, Stat]:
    name = ""
    value: Stat = b""
    for number, part in fields(raw):
        if number == STAT_METADATA:
            name = names.get(_int(part), "")
        elif number == STAT_DOUBLE and not isinstance(part, int) and len(part) == _DOUBLE_BYTES:
            (value,) = unpack_from("<d", part)
        elif not isinstance(part, int):
            value = _text(part) if number == STAT_TEXT else bytes(part)
        elif number == STAT_REFERENCE:  # the value is the name of another stat
            value = names.get(part, "")
        else:
            value = signed(part) if number == STAT_INT64 else part
    return name, value


def _int(value: int | Octets) -> int:
    if not isinstance(value, int):
        msg = "bytes where a number is expected"
        raise WireError(msg)
    return value


def _bytes(value: int | Octets) -> Octets:
    if isinstance(value, int):
        msg = "a number where bytes are expected"
        raise WireError(msg)
    return value


def _text(value: Octets) -> str:
    return str(value, "utf-8", "replace")
