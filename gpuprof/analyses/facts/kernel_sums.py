"""Calls and times of kernels by name, summed up while their rows pass by for another purpose.

To read millions of kernels costs far more than to sum them up: who reads them all anyway can
spare a second reading.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gpuprof.analyses.facts.groups import Numbers
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

UNNAMED: Final = -1
# Names are numbered from 0 or 1 on; were the numbers anything else, sorting would be better.
_MOST_NAMES: Final = 1 << 22
# SQL: where numbers have no sign, the greatest fit no other type.
NUMBER_OF_NAME: Final = f"least(coalesce(name_id, {UNNAMED}), {_MOST_NAMES})::BIGINT"
_LONGEST: Final = np.iinfo(np.int64).max


@dataclass
class KernelSums:
    """Sums by number of name, one element per number; the first is of kernels without a name.

    Args:
        calls: How many kernels.
        total_ns: Their durations together.
        min_ns: The shortest; only where there are calls.
        max_ns: The longest.
        is_known: False where numbers were met that are no places in such arrays.
    """

    calls: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    total_ns: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    min_ns: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    max_ns: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    is_known: bool = True

    def add(self, number: Numbers, duration_ns: Int64s) -> None:
        """Some more kernels: numbers of their names, or `UNNAMED`, and durations."""
        if not self.is_known or not len(number):
            return
        if number.min() < UNNAMED or number.max() >= _MOST_NAMES:
            self.is_known = False
            return
        place = number - UNNAMED
        self._grow(int(place.max()) + 1 - len(self.calls))
        np.add.at(self.calls, place, 1)
        np.add.at(self.total_ns, place, duration_ns)
        np.minimum.at(self.min_ns, place, duration_ns)
        np.maximum.at(self.max_ns, place, duration_ns)

    def _grow(self, more: int) -> None:
        if more > 0:
            self.calls = np.pad(self.calls, (0, more))
            self.total_ns = np.pad(self.total_ns, (0, more))
            self.min_ns = np.pad(self.min_ns, (0, more), constant_values=_LONGEST)
            self.max_ns = np.pad(self.max_ns, (0, more))

    def by_name(self, profile: Profile) -> list[dict[str, Any]]:
        """One row per name, the longest total first: rows of `schema.ACTIVITY_SUMMARY`."""
        _, names = profile.numbered("kernels") or ("", "")
        known = f"SELECT name_id, name FROM {names} WHERE name IS NOT NULL"
        found = profile.query(known).to_pydict()
        name_of = dict(zip(found["name_id"], found["name"], strict=True))
        rows: dict[str, dict[str, Any]] = {}
        for place in np.flatnonzero(self.calls).tolist():
            name = name_of.get(place + UNNAMED, "unknown")
            rows[name] = self._row(place, name, rows.get(name))
        return sorted(rows.values(), key=lambda row: (-row["total_ns"], row["name"]))

    def _row(self, place: int, name: str, other: dict[str, Any] | None) -> dict[str, Any]:
        """The row of one number, together with what another number of the same name gave."""
        calls, total, shortest, longest = (
            int(column[place]) for column in (self.calls, self.total_ns, self.min_ns, self.max_ns)
        )
        if other:
            calls, total = calls + other["calls"], total + other["total_ns"]
            shortest, longest = min(shortest, other["min_ns"]), max(longest, other["max_ns"])
        figures = {"calls": calls, "total_ns": total, "min_ns": shortest, "max_ns": longest}
        kind = {"activity_kind": "kernel", "section": "kernel", "name": name}
        return kind | figures | {"mean_ns": total / calls}
