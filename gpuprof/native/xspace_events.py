"""Events of XSpace files: where those of a line lie, and columns of what is read of each.

As in ``xspace_events.h``. Where the functions are not compiled, or do not know what they meet, the
caller reads events one by one, with the same answers.
"""

import ctypes
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from gpuprof.native import library

Int64s = npt.NDArray[np.int64]
# Where in a line's message each event's begins, and where it ends.
Places = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]

# More keys than a file has names are none that a profiler gave.
_MOST_KEYS = 1 << 16


class _EventColumns(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in ("metadata_id", "offset_ps", "duration_ps", "kind", "value", "size")
    )


class EventColumns:
    """Columns with one value for each of so many events, none of which has any value at first.

    Attributes:
        numbers: Three of them: the key of its metadata, its offset and its duration in ps.
        kind: One for each name of values: the field number of its value in ``XStat``, 0 for none.
        value: As many: a number, or where a text begins; any where there is none.
        size: As many: bytes of a text.
        texts: What texts lie in.
    """

    def __init__(self, names: int, events: int) -> None:
        self.numbers = np.zeros((3, events), np.int64)
        self.kind = np.zeros((names, events), np.int8)
        self.value = np.empty((names, events), np.int64)
        self.size = np.empty((names, events), np.int32)
        self.texts: bytes | bytearray | memoryview = b""

    def keep(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Drop all events but some."""
        for name in ("numbers", "kind", "value", "size"):
            setattr(self, name, getattr(self, name)[:, chosen])


def event_places(line: bytes | memoryview, place: int) -> tuple[int, Places]:
    """Where events that follow one another from a place on begin and end, and what follows them.

    These are none where the functions are not compiled.
    """
    functions, octets, after = library(), np.frombuffer(line, np.uint8), ctypes.c_size_t(place)
    if functions is None:
        return place, (np.empty(0, np.uint32), np.empty(0, np.uint32))
    count = functions.event_places(octets, len(line), ctypes.byref(after), None, None)
    begin, end = np.empty((2, count), np.uint32)
    after.value = place
    pointers = begin.ctypes.data, end.ctypes.data
    functions.event_places(octets, len(line), ctypes.byref(after), *pointers)
    return after.value, (begin, end)


def decoded(
    line: bytes | memoryview, places: Places, keys: Sequence[Collection[int]]
) -> EventColumns | None:
    """Columns of events of a line; None where they must be read one by one.

    Args:
        line: The line's message.
        places: Where its events lie.
        keys: Those of the values of each name.
    """
    functions, (begin, end) = library(), places
    size = max((key + 1 for of_name in keys for key in of_name), default=0)
    if functions is None or size > _MOST_KEYS:
        return None
    slots = np.full(size, -1, np.int8)
    for slot, of_name in enumerate(keys):
        slots[[*of_name]] = slot
    columns = EventColumns(len(keys), len(begin))
    columns.texts = line
    arrays = (*columns.numbers, columns.kind, columns.value, columns.size)
    structure = _EventColumns(*(array.ctypes.data for array in arrays))
    octets = np.frombuffer(line, np.uint8)
    if functions.event_columns(
        octets, begin, end, len(begin), slots, size, ctypes.byref(structure)
    ):
        return None
    return columns
