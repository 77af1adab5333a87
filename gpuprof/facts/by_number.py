"""What depends on a name alone, looked up by the number that the file gives the name."""

from collections.abc import Callable
from typing import Final, NamedTuple

from gpuprof.model import words
from gpuprof.model.profile import Profile

ByNumber = words.ByNumber
UNNAMED: Final = "unknown"


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
