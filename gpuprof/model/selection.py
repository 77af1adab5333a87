"""Which activities of a recording are looked at: those of windows of time, and of a device."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

# A copy belongs to each of its ends.
ENDS: Final = ("device_id", "src_device_id", "dst_device_id")


@dataclass(frozen=True)
class Selection:
    """Some of a recording's activities.

    Args:
        windows: Sorted, disjoint windows ``[start, end)`` in ns; an activity belongs to the one
            in which it starts, a range to all that it reaches into. None for all times.
        device_id: The one device; a copy belongs to each of its ends. None for all devices.
    """

    windows: tuple[tuple[int, int], ...] | None = None
    device_id: int | None = None

    @property
    def extent(self) -> tuple[int, int] | None:
        """From the start of the first window to the end of the last; None for all times."""
        return (self.windows[0][0], self.windows[-1][1]) if self.windows else None

    def holds(self, instants: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which instants are in one of the windows."""
        if self.windows is None:
            return np.ones(len(instants), bool)
        starts, ends = np.array([*self.windows, (0, 0)], np.int64).T
        window = np.searchsorted(starts[:-1], instants, side="right") - 1
        # Before the first window, that is the last one: an empty one.
        is_held: npt.NDArray[np.bool_] = (instants >= starts[window]) & (instants < ends[window])
        return is_held

    def columns(self, columns: Collection[str]) -> frozenset[str]:
        """Those of a table's columns by which its rows are chosen."""
        timed = {"start_ns"} if self.windows is not None else set()
        placed = {*ENDS} if self.device_id is not None and "device_id" in columns else set()
        return frozenset((timed | placed) & {*columns})


EVERYTHING: Final = Selection()
