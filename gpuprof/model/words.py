"""Columns of words as small numbers."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.stored import values

Numbers = npt.NDArray[np.integer[Any]]


# So many words are numbered before pyarrow.compute, which does it faster, is imported.
_FEW: Final = 16_384


class Words:
    """Words and their places, in the order in which they are met; null is a word, too.

    Args:
        first: Words that have the first places.
    """

    def __init__(self, first: Iterable[str | None] = ()) -> None:
        self._places: dict[str | None, int] = {}
        for word in first:
            self.place(word)

    @property
    def words(self) -> tuple[str | None, ...]:
        """All words so far, by their places."""
        return tuple(self._places)

    @property
    def null_place(self) -> int | None:
        """The place of null, if that was met."""
        return self._places.get(None)

    def place(self, word: str | None) -> int:
        """The place of a word, which is given one where it has none."""
        return self._places.setdefault(word, len(self._places))

    def numbers(self, column: pa.Array) -> Numbers:
        """The place of each word of a column."""
        codes, words = coded(column)
        places: Numbers = np.array([*map(self.place, words)], np.int32)[codes]
        return places


def coded(column: pa.Array) -> tuple[Numbers, list[str | None]]:
    """A column of words as places among its different ones, and these."""
    if pa.types.is_dictionary(column.type):
        return _coded_dictionary(column)
    if len(column) > _FEW:
        encoded = column.dictionary_encode(null_encoding="encode")
        words = encoded.dictionary.to_pylist()
        return np.asarray(np.from_dlpack(encoded.indices), np.int32), words
    place: dict[str | None, int] = {}
    codes = [place.setdefault(word, len(place)) for word in column.to_pylist()]
    return np.array(codes, np.int32), [*place]


def _coded_dictionary(column: pa.DictionaryArray) -> tuple[Numbers, list[str | None]]:
    words, (codes, is_null) = column.dictionary.to_pylist(), values(column.indices)
    if is_null is None:
        return codes, words
    return np.where(is_null, np.int32(len(words)), codes), [*words, None]
