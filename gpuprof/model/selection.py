"""Which activities of a recording are looked at: those of windows of time, and of a device."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

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

    def columns(self, columns: Collection[str]) -> frozenset[str]:
        """Those of a table's columns by which its rows are chosen."""
        timed = {"start_ns"} if self.windows is not None else set()
        placed = {*ENDS} if self.device_id is not None and "device_id" in columns else set()
        return frozenset((timed | placed) & {*columns})

    def condition(self, columns: Collection[str]) -> str:
        """SQL, from ``WHERE`` on: which rows of a table with these columns are chosen."""
        conditions = []
        if self.windows is not None and "start_ns" in columns:
            conditions.append(_within(self.windows))
        if self.device_id is not None and "device_id" in columns:
            ends = ", ".join(end for end in ENDS if end in columns)
            conditions.append(f"{self.device_id} IN ({ends})")
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @property
    def of_ranges(self) -> str:
        """SQL, from ``WHERE`` on: which ranges say what the windows are part of."""
        if self.windows is None:
            return ""
        return f" WHERE {_within(self.windows, 'greatest(end_ns - 1, start_ns)')}"


EVERYTHING: Final = Selection()


def _within(windows: Sequence[tuple[int, int]], last: str = "start_ns") -> str:
    """SQL: whether what lasts from ``start_ns`` to an instant meets one of many sorted windows."""
    if not windows:
        return "false"
    # A file in parts that are sorted by time is read from the first to the last.
    bounds = f"{last} >= {windows[0][0]} AND start_ns < {windows[-1][1]}"
    return bounds if len(windows) == 1 else f"{bounds} AND {_halved(windows, last)}"


def _halved(windows: Sequence[tuple[int, int]], last: str) -> str:
    """SQL: the same as a search by halves; one comparison after another takes minutes."""
    if len(windows) == 1:
        return f"({last} >= {windows[0][0]} AND start_ns < {windows[0][1]})"
    middle = len(windows) // 2
    sides = _halved(windows[:middle], last), _halved(windows[middle:], last)
    return f"CASE WHEN {last} < {windows[middle][0]} THEN {sides[0]} ELSE {sides[1]} END"
