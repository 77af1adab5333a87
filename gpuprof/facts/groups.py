"""Rows that are alike in columns of integers."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.model.intervals import Int64s

# Integers of any width.
Numbers = npt.NDArray[np.integer[Any]]
_SIXTEEN_BITS: Final = 0xFFFF


def numbered(values: Numbers) -> Numbers:
    """Numbers in the order of the values, in few bits where that is possible: these sort fast."""
    if len(values) and int(values.max()) - int(values.min()) <= _SIXTEEN_BITS:
        # A difference may take one bit more than the values.
        small: Numbers = np.subtract(values, values.min(), dtype=np.int64).astype(np.uint16)
        return small
    return np.searchsorted(np.unique(values), values)


def groups(*columns: Numbers) -> list[Int64s]:
    """Indices of rows with the same values, which keep their order; the groups by these values."""
    order = np.lexsort([numbered(column) for column in reversed(columns)])
    return np.split(order, first_of(order, *columns)[1:]) if len(order) else []


def first_of(ordered: Int64s, *columns: Numbers) -> Int64s:
    """Where each group of rows begins that are alike in some columns, by which they are ordered."""
    is_first = np.zeros(len(ordered), bool)
    is_first[:1] = True
    for column in columns:
        values = column[ordered]
        is_first[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(is_first)
