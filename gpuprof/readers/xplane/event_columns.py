"""Events of an XPlane's lines as columns, some thousand at a time.

Profiles hold millions of events: reading one takes 13 us in Python, a hundredth where compiled.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.native import xspace
from gpuprof.native.xspace import PS_PER_NS, Line, Octets, Plane, WireError, fields, signed
from gpuprof.native.xspace_events import EventColumns, Places, decoded
from gpuprof.readers.common.compact_columns import Flags, Integers, Lexicon

_BATCH_EVENTS: Final = 1 << 14
_OWN_NUMBERS: Final = (xspace.EVENT_METADATA, xspace.EVENT_OFFSET_PS, xspace.EVENT_DURATION_PS)
_NUMBERS: Final = (xspace.STAT_UINT64, xspace.STAT_INT64, xspace.STAT_REFERENCE)


class Batch:
    """Some events of one line.

    Attributes:
        start_ns: Start, since the origin of the file.
        duration_ns: Duration.

    Args:
        plane: The plane of the line.
        line: The line.
        columns: What was read of the events.
        value_names: The names of their values.
    """

    def __init__(
        self, plane: Plane, line: Line, columns: EventColumns, value_names: Sequence[str]
    ) -> None:
        self._plane, self._columns, self._value_names = plane, columns, value_names
        self._metadata_id, offset_ps, duration_ps = columns.numbers
        self.start_ns: Integers = line.start_ns + offset_ps // PS_PER_NS
        self.duration_ns: Integers = duration_ps // PS_PER_NS

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
        """Each event's integer value of this name, 0 where it has none, and whether it has one."""
        kind, value, _ = self._of(name)
        is_known = (kind == xspace.STAT_UINT64) | (kind == xspace.STAT_INT64)
        return np.where(is_known, value, 0), is_known

    def texts(self, name: str, lexicon: Lexicon) -> Integers:
        """Each event's text of this name, in the event or referred to; -1 where it has none."""
        kind, value, size = self._of(name)
        codes, names = np.full(len(self), -1, np.int64), self._plane.stat_names
        referred = np.flatnonzero(kind == xspace.STAT_REFERENCE)
        codes[referred] = lexicon.codes_of_keys(value[referred], lambda key: names.get(key, ""))
        inline = np.flatnonzero(kind == xspace.STAT_TEXT)
        places = zip(value[inline].tolist(), size[inline].tolist(), strict=True)
        octets = (self._columns.texts[place : place + length] for place, length in places)
        codes[inline] = lexicon.codes((str(o, "utf-8", "replace") for o in octets), len(inline))
        return codes

    def _of(self, name: str) -> tuple[npt.NDArray[np.int8], Integers, Integers]:
        """Kind, value and size of the values of a name."""
        row, columns = self._value_names.index(name), self._columns
        return columns.kind[row], columns.value[row], columns.size[row]


def batches(
    plane: Plane, line: Line, value_names: Sequence[str], kinds: Collection[int] | None = None
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
    keys = [plane.stat_keys.get(name, ()) for name in value_names]
    for first in range(0, len(begins), _BATCH_EVENTS):
        places = begins[first : first + _BATCH_EVENTS], ends[first : first + _BATCH_EVENTS]
        columns = decoded(line.data, places, keys) or one_by_one(line.data, places, keys)
        if kinds is not None:
            columns.keep(np.isin(columns.numbers[0], [*kinds]))
        if columns.numbers.size:
            yield Batch(plane, line, columns, value_names)


def one_by_one(data: Octets, places: Places, keys: Sequence[Collection[int]]) -> EventColumns:
    """The same as `decoded`, of any events."""
    columns = EventColumns(len(keys), len(places[0]))
    slots = {key: slot for slot, of_name in enumerate(keys) for key in of_name}
    columns.texts = texts = bytearray()
    for event, (begin, end) in enumerate(zip(*map(np.ndarray.tolist, places), strict=True)):
        for number, part in fields(data[begin:end]):
            if number in _OWN_NUMBERS and isinstance(part, int):
                columns.numbers[number - 1, event] = signed(part)
            elif number in _OWN_NUMBERS[1:]:
                msg = "a time of an event is not a number"
                raise WireError(msg)
            elif number == xspace.EVENT_STATS and not isinstance(part, int):
                key, kind, value = _value(part)
                slot = slots.get(key)
                if slot is None:
                    continue
                columns.kind[slot, event] = kind
                if isinstance(value, int):
                    columns.value[slot, event] = signed(value)
                else:
                    columns.value[slot, event], columns.size[slot, event] = len(texts), len(value)
                    texts += value
    return columns


def _value(stat: Octets) -> tuple[int, int, int | Octets]:
    """The key of a value, its field number, 0 for one of another kind, and itself."""
    key = kind = 0
    value: int | Octets = 0
    for number, part in fields(stat):
        if number != xspace.STAT_METADATA:
            kind, value = number, part
        elif isinstance(part, int):
            key = part
    if kind in (_NUMBERS if isinstance(value, int) else (xspace.STAT_TEXT,)):
        return key, kind, value
    return key, 0, 0
