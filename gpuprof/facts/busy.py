"""When something of each kind ran on each device: sets of instants."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, together, unions_by_key


@dataclass
class Busy:
    """What one device did when.

    Args:
        start_ns: Start of its first activity.
        end_ns: End of its last.
        pieces: By kind, sets of instants at which an activity of it runs.
    """

    start_ns: int
    end_ns: int
    pieces: dict[int, list[Intervals]] = field(default_factory=lambda: defaultdict(list))

    @property
    def kinds(self) -> Mapping[int, Intervals]:
        """By kind, the instants at which at least one activity of it runs."""
        return {kind: together(pieces) for kind, pieces in self.pieces.items()}


def busy_by_device(parts: Iterable[Sequence[Any]], kinds: int) -> Mapping[int | None, Busy]:
    """When each device was busy with activities of each kind.

    Args:
        parts: Activities, each part as four arrays: start and end in ns, the device or `UNKNOWN`,
            and the number of a kind.
        kinds: How many kinds there are, numbered from 0.

    Returns:
        By device; None stands for activities whose device is unknown.
    """
    devices: dict[int, Busy] = {}
    for part in parts:
        _add(devices, kinds, part)
    return {None if number == UNKNOWN else number: busy for number, busy in devices.items()}


def _add(devices: dict[int, Busy], kinds: int, part: Sequence[Any]) -> None:
    start, end, device, kind = part
    key = (device.astype(np.int32) - UNKNOWN) * kinds + kind
    for place, covered in unions_by_key(start, end, key):
        number, of_kind = divmod(place, kinds)
        busy = _reaching(devices, number + UNKNOWN, covered.start, covered.end)
        busy.pieces[of_kind].append(covered)
    # What takes no time covers nothing, and yet a device may begin or end with it.
    instants = np.flatnonzero(start == end)
    for number in np.unique(device[instants]).tolist():
        rows = instants[device[instants] == number]
        _reaching(devices, number, start[rows], end[rows])


def _reaching(devices: dict[int, Busy], device: int, start: Int64s, end: Int64s) -> Busy:
    first, last = int(start.min()), int(end.max())
    busy = devices.setdefault(device, Busy(first, last))
    busy.start_ns, busy.end_ns = min(busy.start_ns, first), max(busy.end_ns, last)
    return busy
