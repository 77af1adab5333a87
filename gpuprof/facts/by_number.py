"""What depends on a name alone, looked up by the number that the file gives the name."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.readers.common.compact_columns import narrowed

UNNAMED: Final = "unknown"

# Up to so many times as many numbers as names, a table of all of them is faster than a search;
# up to so many numbers, it is made at once.
_DENSE: Final = 64
_FEW: Final = 1 << 18


class Names(NamedTuple):
    """The names of a table: the number of each, none twice. Two numbers may mean one name."""

    numbers: list[int]
    names: list[str]

    @property
    def distinct(self) -> list[str]:
        """The different names, `UNNAMED` first, perhaps with others of the file."""
        return [*dict.fromkeys([UNNAMED, *self.names])]

    @property
    def places(self) -> "ByNumber":
        """The place of each name among the different ones, by its number."""
        place = {name: place for place, name in enumerate(self.distinct)}
        return self.values(place.__getitem__, place[UNNAMED])

    def values(self, of: Callable[[str], int], missing: int) -> "ByNumber":
        """What depends on the name, by its number."""
        # Recordings of many ranks number the same names for each of them.
        of_name = {name: of(name) for name in dict.fromkeys(self.names)}
        return ByNumber(self.numbers, [of_name[name] for name in self.names], missing)


def names_by_number(profile: Profile, table: str) -> Names:
    """The names of a table; unknown ones are `UNNAMED`."""
    rows = profile.numbered_names(table)
    numbers, names = rows["name_id"].to_pylist(), rows["name"].to_pylist()
    return Names(numbers, [name or UNNAMED for name in names])


class ByNumber:
    """Values by the numbers of names.

    Args:
        numbers: The number of each name, none twice.
        values: What belongs to each; small integers or flags.
        missing: What belongs to every other number.
    """

    def __init__(self, numbers: Sequence[int], values: Sequence[int], missing: int) -> None:
        # With `missing` first, and at every place that is no name's.
        self._values = narrowed(np.array([missing, *values], np.int64))
        order = np.argsort(numbers)
        self._numbers: Int64s = np.asarray(numbers, np.int64)[order]
        self._places = order + 1
        self._table: npt.NDArray[Any] | None = None
        least, most = (self._numbers[0], self._numbers[-1]) if len(order) else (0, 0)
        if least >= 0 and most < max(_FEW, _DENSE * (len(order) + 1)):
            self._table = np.full(most + 2, self._values[0])
            self._table[self._numbers] = self._values[self._places]

    def of(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The value of each number."""
        if self._table is not None:
            last = len(self._table) - 1
            inside = numbers
            if len(numbers) and not (numbers.min() >= 0 and numbers.max() < last):
                inside = np.where((numbers >= 0) & (numbers < last), numbers, last)
            values: npt.NDArray[Any] = self._table[inside]
            return values
        if not len(self._numbers):
            return np.full(len(numbers), self._values[0])
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        is_known = self._numbers[place] == numbers
        return self._values[np.where(is_known, self._places[place], 0)]
