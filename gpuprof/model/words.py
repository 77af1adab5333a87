"""Words as small numbers, and names by the numbers that a file gives them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import is_communication
from gpuprof.model.derived import UNKNOWN

# Stands where a name is unknown.
UNNAMED: Final = "unknown"
Numbers = npt.NDArray[np.integer[Any]]
# Up to so many times as many numbers as names, a table of all of them is faster than a search;
# up to so many numbers, it is made at once.
_DENSE: Final = 64
_FEW: Final = 1 << 18
# To look up what a type holds takes longer than to look through some thousands of numbers.
_NARROW: Final = [(k, np.iinfo(k).min, np.iinfo(k).max) for k in (np.int8, np.int16, np.int32)]


class Values(NamedTuple):
    """A column of some rows.

    Args:
        numbers: Its numbers; of words the place of each row's word among some words.
        is_null: Where there is none; None for nowhere. Of words, null is a word, too.
        words: These words; None for a column of numbers.
    """

    numbers: npt.NDArray[Any]
    is_null: npt.NDArray[np.bool_] | None = None
    words: Sequence[str | None] | None = None

    @property
    def filled(self) -> npt.NDArray[Any]:
        """The numbers, `UNKNOWN` where there is none."""
        if self.is_null is None:
            return self.numbers
        return np.where(self.is_null, UNKNOWN, self.numbers)

    @property
    def listed(self) -> list[Any]:
        """The values, None for null."""
        listed: list[Any] = self.numbers.tolist()
        if self.words is not None:
            return [*map(self.words.__getitem__, listed)]
        if self.is_null is None:
            return listed
        pairs = zip(listed, self.is_null.tolist(), strict=True)
        return [None if is_null else value for value, is_null in pairs]

    def take(self, rows: npt.NDArray[Any] | slice) -> "Values":
        """Some of the rows: flags, their places, or those that follow one another."""
        is_null = None if self.is_null is None else self.is_null[rows]
        return Values(self.numbers[rows], is_null, self.words)


class Words:
    """Words and their places, in the order in which they are met; null is a word, too.

    Args:
        first: Words that have the first places.
    """

    def __init__(self, first: Iterable[str | None] = ()) -> None:
        self._places: dict[str | None, int] = {}
        # All words so far, by their places: a list that grows.
        self.words: list[str | None] = []
        # The words of the column that came last, and the place of each; -1 for none yet.
        self._last: tuple[Sequence[str | None], Numbers] = ((), np.empty(0, np.int32))
        for word in first:
            self.place(word)

    def place(self, word: str | None) -> int:
        """The place of a word, which is given one where it has none."""
        place = self._places.setdefault(word, len(self._places))
        if place == len(self.words):
            self.words.append(word)
        return place

    def numbers(self, column: Values) -> Numbers:
        """The place of each word of a column."""
        (words, places), its_words = self._last, column.words or ()
        if words is not its_words or len(places) != len(words):
            words, places = its_words, np.full(len(its_words), -1, np.int32)
        # Of narrow numbers, to index takes twice as long.
        numbers: Numbers = places.take(column.numbers)
        if len(numbers) and numbers.min() < 0:
            is_met = np.zeros(len(places), bool)
            is_met[column.numbers] = True
            for number in np.flatnonzero(is_met & (places < 0)).tolist():
                places[number] = self.place(words[number])
            numbers = places.take(column.numbers)
        self._last = words, places
        return numbers


class ByNumber:
    """Values by the numbers of names.

    Args:
        numbers: The number of each name, none twice.
        values: What belongs to each; small integers or flags.
        missing: What belongs to every other number.
    """

    def __init__(
        self, numbers: Sequence[int] | Numbers, values: Sequence[int] | Numbers, missing: int
    ) -> None:
        # With `missing` first, and at every place that is no name's.
        self._values = narrowed(np.append(np.int64(missing), np.asarray(values, np.int64)))
        order = np.argsort(numbers)
        self._numbers: Numbers = np.asarray(numbers, np.int64)[order]
        self._places = order + 1
        self._table: npt.NDArray[Any] | None = None
        # What is unknown may have a value of its own, before those of numbers from 0 on.
        self._negative = int(np.searchsorted(self._numbers, 0))
        most = self._numbers[-1] if self._negative < len(order) else 0
        if most < max(_FEW, _DENSE * (len(order) + 1)):
            self._table = np.full(most + 2, self._values[0])
            rows = slice(self._negative, None)
            self._table[self._numbers[rows]] = self._values[self._places[rows]]

    def of(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The value of each number."""
        if self._table is not None:
            last = len(self._table) - 1
            values: npt.NDArray[Any]
            if not len(numbers) or (numbers.min() >= 0 and numbers.max() < last):
                values = self._table.take(numbers)
                return values
            if not self._negative:
                values = self._table[np.where((numbers >= 0) & (numbers < last), numbers, last)]
                return values
        if not len(self._numbers):
            return np.full(len(numbers), self._values[0])
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        is_known = self._numbers[place] == numbers
        return self._values[np.where(is_known, self._places[place], 0)]


class Names:
    """The names of a table: the number of each, none twice. Two numbers may mean one name.

    Args:
        numbers: The numbers.
        columns: ``name`` and what else depends on the number alone.
    """

    def __init__(self, numbers: Sequence[int], columns: Mapping[str, Sequence[str | None]]) -> None:
        self.numbers, self.columns = numbers, columns
        # What each number means; unknown ones are `UNNAMED`.
        self.texts = [name or UNNAMED for name in columns["name"]]
        # By column the place of each number's word among different words, and these.
        self._columns: dict[str, tuple[ByNumber, Sequence[str | None]]] = {}

    def column(self, name: str, numbers: Numbers) -> Values:
        """One of the columns, of rows that have these numbers."""
        if name not in self._columns:
            words = Words([no_word := UNNAMED if name == "name" else None])
            of_names = (no_word if word is None else word for word in self.columns[name])
            places = ByNumber(self.numbers, [*map(words.place, of_names)], 0)
            self._columns[name] = places, words.words
        places, listed = self._columns[name]
        return Values(places.of(numbers), None, listed)

    @cached_property
    def by_number(self) -> dict[int, str]:
        """The name of each number."""
        return dict(zip(self.numbers, self.texts, strict=True))

    @cached_property
    def distinct(self) -> list[str]:
        """The different names, `UNNAMED` first, perhaps with others of the file."""
        return [*dict.fromkeys([UNNAMED, *self.texts])]

    @cached_property
    def places(self) -> ByNumber:
        """The place of each name among the different ones, by its number."""
        place = dict(zip(self.distinct, count()))
        return ByNumber(self.numbers, [*map(place.__getitem__, self.texts)], place[UNNAMED])

    @cached_property
    def communicates(self) -> ByNumber:
        """Whether a kernel is one of communication, by the number of its name."""
        return self.values(is_communication, 0)

    def values(self, of: Callable[[str], int], missing: int) -> ByNumber:
        """What depends on the name, by its number."""
        texts, numbers, place = self._different
        return ByNumber(numbers, np.array([*map(of, texts)], np.int64)[place], missing)

    @cached_property
    def _different(self) -> tuple[list[str], Numbers, Numbers]:
        """The different texts, the numbers, and which of the texts each of these means.

        Recordings of many ranks number the same names for each of them.
        """
        place = dict(zip(dict.fromkeys(self.texts), count()))
        places = np.array([*map(place.__getitem__, self.texts)], np.intp)
        return [*place], np.array(self.numbers, np.int64), places


NO_NAMES: Final = Names((), {"name": ()})


def narrowed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same integers, of the smallest type that holds all of them."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for kind, lowest, highest in _NARROW:
        if lowest <= least and most <= highest:
            return values.astype(kind, copy=False)
    return values
