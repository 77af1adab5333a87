"""XSpace files, which TensorFlow's, JAX's and XLA's profilers write (``*.xplane.pb``), decoded.

Only what a protocol buffer's wire format needs, so that no protobuf runtime is required.
Source: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from struct import unpack_from
from typing import Final

PS_PER_NS: Final = 1_000

Field = tuple[int, int | bytes]
Stat = int | float | str | bytes

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Field numbers of xplane.proto's messages; a map's entry has its key and its value.
_SPACE_PLANES = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_START_NS, _LINE_EVENTS, _LINE_DISPLAY_NAME = 1, 2, 3, 4, 11
_EVENT_METADATA, _EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 1, 2, 3, 4
_METADATA_NAME, _METADATA_DISPLAY_NAME, _METADATA_STATS = 2, 4, 5
_STAT_METADATA, _STAT_DOUBLE, _STAT_INT64, _STAT_TEXT, _STAT_REFERENCE = 1, 2, 4, 5, 7
_KEY, _VALUE = 1, 2

_TOP_BIT, _LONGEST_SHIFT = 0x80, 63


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
    raw_stats: tuple[bytes, ...]

    @property
    def end_ns(self) -> int:
        """End, half-open."""
        return self.start_ns + self.duration_ps // PS_PER_NS


@dataclass(frozen=True)
class Line:
    """One thread of the host or one stream of a device."""

    line_id: int
    name: str
    start_ns: int
    raw_events: tuple[bytes, ...]


@dataclass(frozen=True)
class Plane:
    """One device's or one host's events."""

    name: str
    lines: tuple[Line, ...]
    event_metadata: Mapping[int, EventMetadata]
    stat_names: Mapping[int, str]
    stats: Mapping[str, Stat] = field(default_factory=dict)

    def events(self, line: Line, wanted: Collection[int] | None = None) -> Iterator[Event]:
        """The events of a line as the file has them, which is in no particular order.

        Args:
            line: A line of this plane.
            wanted: Keys of ``event_metadata``; other events are skipped, which is fast.

        Raises:
            WireError: An event breaks off.
        """
        for raw in line.raw_events:
            if wanted is not None and _metadata_id(raw) not in wanted:
                continue
            yield self._event(line, raw)

    def stats_of(self, event: Event) -> dict[str, Stat]:
        """An event's own values by name."""
        return dict(_stat(raw, self.stat_names) for raw in event.raw_stats)

    def _event(self, line: Line, raw: bytes) -> Event:
        metadata_id = offset_ps = duration_ps = 0
        stats = []
        for number, value in fields(raw):
            if number == _EVENT_METADATA:
                metadata_id = _int(value)
            elif number == _EVENT_OFFSET_PS:
                offset_ps = _int(value)
            elif number == _EVENT_DURATION_PS:
                duration_ps = _int(value)
            elif number == _EVENT_STATS:
                stats.append(_bytes(value))
        metadata = self.event_metadata.get(metadata_id, _UNKNOWN)
        return Event(metadata, line.start_ns + offset_ps // PS_PER_NS, duration_ps, tuple(stats))


_UNKNOWN: Final = EventMetadata("", "", {})


def planes(data: bytes) -> list[Plane]:
    """The planes of an XSpace file.

    Raises:
        WireError: The bytes break off or are no protocol buffer.
    """
    return [_plane(_bytes(value)) for number, value in fields(data) if number == _SPACE_PLANES]


def fields(data: bytes) -> Iterator[Field]:
    """The fields of one message in the order of the file: number and value.

    Numbers are unsigned as the wire has them (see `signed`); fixed ones come as their bytes.

    Raises:
        WireError: The bytes break off or are no protocol buffer.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = varint(data, position)
            yield tag >> 3, number
            continue
        size, position = _size(data, position, kind)
        if position + size > end:
            msg = f"byte {position}: a field of {size} bytes goes beyond the end"
            raise WireError(msg)
        yield tag >> 3, data[position : position + size]
        position += size


def varint(data: bytes, position: int) -> tuple[int, int]:
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


def signed(number: int) -> int:
    """An int64 from the unsigned number on the wire."""
    return number - (1 << 64) if number >> 63 else number


def _size(data: bytes, position: int, kind: int) -> tuple[int, int]:
    if kind == _BYTES:
        return varint(data, position)
    if kind in (_FIXED64, _FIXED32):
        return (8 if kind == _FIXED64 else 4), position
    msg = f"byte {position}: {kind} is no kind of field"
    raise WireError(msg)


def _metadata_id(raw: bytes) -> int:
    """The first field of an event, which is how every profiler writes it."""
    return varint(raw, 1)[0] if raw[:1] == b"\x08" else 0


def _plane(data: bytes) -> Plane:
    parts: dict[int, list[bytes]] = {}
    for number, value in fields(data):
        if isinstance(value, bytes):
            parts.setdefault(number, []).append(value)
    stat_names = dict(_stat_name(entry) for entry in parts.get(_PLANE_STATS, []))
    return Plane(
        _text(parts.get(_PLANE_NAME, [b""])[-1]),
        tuple(_line(entry) for entry in parts.get(_PLANE_LINES, [])),
        dict(_event_metadata(entry, stat_names) for entry in parts.get(_PLANE_EVENTS, [])),
        stat_names,
        dict(_stat(entry, stat_names) for entry in parts.get(_PLANE_OWN_STATS, [])),
    )


def _line(data: bytes) -> Line:
    numbers: dict[int, int] = {}
    texts: dict[int, bytes] = {}
    events = []
    for number, value in fields(data):
        if number == _LINE_EVENTS and isinstance(value, bytes):
            events.append(value)
        elif isinstance(value, bytes):
            texts[number] = value
        else:
            numbers[number] = value
    name = texts.get(_LINE_DISPLAY_NAME) or texts.get(_LINE_NAME, b"")
    start_ns = numbers.get(_LINE_START_NS, 0)
    return Line(signed(numbers.get(_LINE_ID, 0)), _text(name), start_ns, tuple(events))


def _event_metadata(entry: bytes, names: Mapping[int, str]) -> tuple[int, EventMetadata]:
    key, value = _map_entry(entry)
    texts: dict[int, bytes] = {}
    stats = []
    for number, part in fields(value):
        if number == _METADATA_STATS and isinstance(part, bytes):
            stats.append(_stat(part, names))
        elif isinstance(part, bytes):
            texts[number] = part
    name, display = texts.get(_METADATA_NAME, b""), texts.get(_METADATA_DISPLAY_NAME, b"")
    return key, EventMetadata(_text(name), _text(display), dict(stats))


def _stat_name(entry: bytes) -> tuple[int, str]:
    key, value = _map_entry(entry)
    names = (_text(_bytes(part)) for number, part in fields(value) if number == _METADATA_NAME)
    return key, next(names, "")


def _map_entry(entry: bytes) -> tuple[int, bytes]:
    key, value = 0, b""
    for number, part in fields(entry):
        if number == _KEY:
            key = _int(part)
        elif number == _VALUE:
            value = _bytes(part)
    return key, value


def _stat(raw: bytes, names: Mapping[int, str]) -> tuple[str, Stat]:
    name = ""
    value: Stat = b""
    for number, part in fields(raw):
        if number == _STAT_METADATA:
            name = names.get(_int(part), "")
        elif isinstance(part, bytes):
            value = _stat_bytes(number, part)
        elif number == _STAT_REFERENCE:  # the value is the name of another stat
            value = names.get(part, "")
        else:
            value = signed(part) if number == _STAT_INT64 else part
    return name, value


def _stat_bytes(number: int, part: bytes) -> Stat:
    if number == _STAT_DOUBLE:
        double: float = unpack_from("<d", part)[0]
        return double
    return _text(part) if number == _STAT_TEXT else part


def _int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        msg = "bytes where a number is expected"
        raise WireError(msg)
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        msg = "a number where bytes are expected"
        raise WireError(msg)
    return value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
