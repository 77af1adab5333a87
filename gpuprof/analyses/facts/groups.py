"""Rows that are alike in columns of integers."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.intervals import Int64s

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
    is_first = np.zeros(max(len(order) - 1, 0), bool)
    for column in columns:
        ordered = column[order]
        is_first |= ordered[1:] != ordered[:-1]
    return [rows for rows in np.split(order, np.flatnonzero(is_first) + 1) if len(rows)]
