"""Events of a trace viewer's JSON, read piece by piece: the text is never held as a whole.

As in ``trace_events.h``: of each event its times, its correlation, and the number of what it has
in common with others. What the compiled functions do not know for certain they refuse.
"""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.native import library
from gpuprof.native.pages import texts_listed

Codes = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

# No event of a profiler is longer.
_LONGEST_EVENT_BYTES: Final = 32 << 20


class _Word(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Selection(ctypes.Structure):
    _fields_ = (
        ("categories", ctypes.c_void_p),
        ("kinds", ctypes.c_void_p),
        ("category_count", ctypes.c_size_t),
        ("details", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("argument_count", ctypes.c_size_t),
    )


class _EventRows(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("attributes", "start_ns", "duration_ns", "ids")),
        *((name, ctypes.c_size_t) for name in ("count", "room")),
        ("texts", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("is_present", "has_fractions")),
    )


class Detail(IntEnum):
    """What is kept of the events of a kind; as in ``trace_events.h``."""

    PRESENCE, TIMES, ARGUMENTS = range(3)


class EventRows(NamedTuple):
    """Complete events of one kind, in the order of the file.

    Args:
        events: The different ones as JSON, without times and correlation.
        codes: Each event's place among them.
        start_ns: Each event's start.
        duration_ns: Each event's duration.
        correlation_id: Each event's correlation; -1 where it has none.
        has_fractions: Whether any start was printed with parts of a microsecond.
    """

    events: list[bytes]
    codes: Codes
    start_ns: Int64s
    duration_ns: Int64s
    correlation_id: Int64s
    has_fractions: bool


def scanned(
    pieces: Iterable[bytes],
    kinds: Mapping[str, str],
    arguments: Sequence[str],
    details: Mapping[str, Detail],
) -> tuple[dict[str, EventRows], bytes] | None:
    """The events of a trace by kind, and its other members as a JSON object without events.

    None where the functions are not compiled, or the text is not all as they know it: it may be
    damaged, or be JSON of another shape.

    Args:
        pieces: The text.
        kinds: The kind of events by their category; events of others are passed over.
        arguments: Names of the arguments that are attributes; the last one is the correlation.
        details: What is kept of each kind; `Detail.ARGUMENTS` where it says nothing.
    """
    functions = library()
    if functions is None:
        return None
    names = [*dict.fromkeys(kinds.values())]
    numbers = np.array([names.index(kind) for kind in kinds.values()], np.int32)
    of_kinds = np.array([details.get(kind, Detail.ARGUMENTS) for kind in names], np.uint8)
    categories, argument_words = _words(kinds), _words(arguments)
    chosen = _Selection(
        ctypes.addressof(categories),
        numbers.ctypes.data,
        len(kinds),
        of_kinds.ctypes.data,
        ctypes.addressof(argument_words),
        len(arguments),
    )
    scan = functions.scan_new(ctypes.byref(chosen))
    if not scan:
        raise MemoryError
    try:
        if not _is_read(functions, scan, pieces):
            return None
        rows = (functions.scan_rows(scan, number) for number in range(len(names)))
        by_kind = zip(names, map(_copied, rows), strict=True)
        present = {name: events for name, events in by_kind if events is not None}
        size = ctypes.c_size_t()
        members = functions.scan_members(scan, ctypes.byref(size))
        return present, b'{%s"traceEvents":[]}' % _bytes_at(members, size.value)
    finally:
        functions.scan_free(scan)


def _is_read(functions: ctypes.CDLL, scan: int, pieces: Iterable[bytes]) -> bool:
    """Whether all of a text is as the functions know it."""
    used, unread = ctypes.c_size_t(), b""
    for piece in pieces:
        text = unread + piece if unread else piece
        status = functions.scan_piece(scan, text, len(text), ctypes.byref(used))
        unread = text[used.value :]
        if status or len(unread) > _LONGEST_EVENT_BYTES:
            return False
    return not unread and bool(functions.scan_is_complete(scan))


def _copied(address: int) -> EventRows | None:
    """The events of a kind; None where no event is of its categories."""
    rows = _EventRows.from_address(address)
    if not rows.is_present:
        return None
    int64s = [
        np.frombuffer(_bytes_at(address, rows.count * 8), np.int64)
        for address in (rows.start_ns, rows.duration_ns, rows.ids)
    ]
    codes = np.frombuffer(_bytes_at(rows.attributes, rows.count * 4), np.int32)
    start_ns, duration_ns, ids = int64s
    has_fractions = bool(rows.has_fractions)
    return EventRows(texts_listed(rows.texts), codes, start_ns, duration_ns, ids, has_fractions)


def _bytes_at(address: int | None, size: int) -> bytes:
    return ctypes.string_at(address, size) if address is not None and size else b""


def _words(texts: Iterable[str]) -> "ctypes.Array[_Word]":
    words = [_Word(text.encode(), len(text.encode())) for text in texts]
    return (_Word * len(words))(*words)
