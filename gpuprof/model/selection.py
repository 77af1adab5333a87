"""Which activities of a recording are looked at: those of windows of time, and of a device."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
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
        if (instants[1:] >= instants[:-1]).all():
            # As mostly: then the borders of windows, which are few, are looked for.
            places = np.searchsorted(instants, self._borders)
            lengths = np.diff(places, prepend=0, append=len(instants))
            return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
        is_held: npt.NDArray[np.bool_] = (
            np.searchsorted(self._borders, instants, side="right") % 2 == 1
        )
        return is_held

    @cached_property
    def _borders(self) -> npt.NDArray[np.int64]:
        """Start and end of each window: from one border to the next is in one, or in none."""
        return np.array(self.windows, np.int64).reshape(-1)

    def columns(self, columns: Collection[str]) -> frozenset[str]:
        """Those of a table's columns by which its rows are chosen."""
        timed = {"start_ns"} if self.windows is not None else set()
        placed = {*ENDS} if self.device_id is not None and "device_id" in columns else set()
        return frozenset((timed | placed) & {*columns})


EVERYTHING: Final = Selection()
