"""Unions, differences and sums of arrays of times, launches and ranges, each in one sweep.

Every function returns None where the compiled functions are not there, or where they do not know
its input; the caller then takes another way to the same result.
"""

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.native import address, library

Int64s = npt.NDArray[np.int64]
# Signed ones.
Integers = npt.NDArray[np.integer[Any]]
# As in arrays.h: sums are kept of every so many intervals.
BLOCK: Final = 64
# Addresses of the starts and the ends of a set of intervals, how many, and what keeps them there.
Placed = tuple[int, int, int, Any]
NOWHERE: Final[Placed] = (0, 0, 0, None)
# Starts and ends that were computed, and where they lie.
Swept = tuple[Int64s, Int64s, Placed]
_NOTHING: Final = np.empty(0, np.int64)


class _Launched(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("row", "time", "lane")),
        *((name, ctypes.c_size_t) for name in ("count", "room")),
    )


def unions_by_key(
    start: Integers, duration: Integers, key: Integers, keys: int
) -> tuple[Int64s, Int64s, Int64s] | None:
    """The union of the intervals of each key: sorted, disjoint ones, those of a key together.

    Args:
        start: Starts, ascending.
        duration: Durations; those of 0 and less cover nothing.
        key: From 0 on.
        keys: How many keys there are.

    Returns:
        Where the intervals of each key begin, and where the last ones end; starts and ends, behind
        which there is room.
    """
    functions, bounds = library(), np.empty(keys + 1, np.int64)
    times = np.empty((2, len(start)), np.int64)
    if functions is None or functions.unions_of_keys(start, duration, key, keys, bounds, times):
        return None
    if 2 * bounds[-1] < len(start):  # as in _swept
        times = times[:, : bounds[-1]].copy()
    return bounds, times[0], times[1]


def placed(start: Int64s, end: Int64s) -> Placed:
    """Where sorted, disjoint intervals lie, and what keeps them there."""
    if not len(start):
        return NOWHERE
    start, end = np.ascontiguousarray(start), np.ascontiguousarray(end)
    return address(start), address(end), len(start), (start, end)


def difference(a: Placed, b: Placed, above: int = 0) -> Swept | None:
    """What the first set of intervals covers and the second does not, if longer than ``above``."""
    return _swept("difference_of", a, b, above)


def intersection(a: Placed, b: Placed) -> Swept | None:
    """What both sets of intervals cover."""
    return _swept("intersection_of", a, b)


def union(first: Placed, second: Placed = NOWHERE) -> Swept | None:
    """The union of intervals that may overlap, by ascending start in each of the arguments."""
    return _swept("union_of", first, second)


def _swept(function: str, a: Placed, b: Placed, *numbers: int) -> Swept | None:
    functions, room = library(), a[2] + b[2]
    if functions is None:
        return None
    times = np.empty((2, room), np.int64)
    at = address(times)
    count = getattr(functions, function)(*a[:3], *b[:3], *numbers, at, room)
    if count < 0:
        return None
    if not count:
        return _NOTHING, _NOTHING, NOWHERE
    if 2 * count < room:  # which is let go where little of it is used
        times, room = times[:, :count].copy(), count
        at = address(times)
    return times[0, :count], times[1, :count], (at, at + room * times.itemsize, count, times)


def covered_before(covered: Placed) -> Int64s:
    """What the intervals of a set before every `BLOCK`-th one cover."""
    functions, sums = library(), np.zeros(covered[2] // BLOCK + 1, np.int64)
    if functions is not None:
        functions.covered_before(*covered[:3], address(sums))
    return sums


def covered_within(covered: Placed, before: Int64s, start: Int64s, end: Int64s) -> Int64s | None:
    """How much of a set of intervals lies in each window, fastest if these ascend.

    Args:
        covered: The set.
        before: What `covered_before` makes of it.
        start: Start of each window.
        end: End of each.
    """
    functions = library()
    if functions is None or start.shape != end.shape:
        return None
    covered_ns = np.empty(start.shape, np.int64)
    if start.size:
        start, end = np.ascontiguousarray(start), np.ascontiguousarray(end)
        windows = address(start), address(end), start.size
        functions.covered_within(*covered[:3], address(before), *windows, address(covered_ns))
    return covered_ns


def pair_places(first: Integers, second: Integers, pairs: Int64s) -> Integers | None:
    """Which of some pairs, two sorted rows of first and second values, each one is; -1 for none."""
    functions = library()
    if functions is None:
        return None
    places = np.empty(len(first), np.int32)
    functions.pair_places(first, second, *pairs, pairs.shape[1], places)
    return places


def id_places(span: Integers, ids: Integers, spans: Int64s) -> Int64s | None:
    """The place of each id: rows of ``spans`` say the least id, how many, and the first place.

    Args:
        span: The row of ``spans`` that each id belongs to; below 0 for none.
        ids: The ids.
        spans: One row per span.

    Returns:
        Places; -1 for ids that are in no span.
    """
    functions, places = library(), np.empty(len(span), np.int64)
    if functions is None or functions.id_places(span, ids, spans, len(spans), places):
        return None
    return places


class Chains:
    """Rows by their id, which calls of these ids find: each row is found once.

    Args:
        span: The span that each row's id belongs to, as `id_places` has it.
        ids: The ids.
        spans: One row per span.
        room: How many places all spans have together.
    """

    def __init__(self, span: Integers, ids: Integers, spans: Int64s, room: int) -> None:
        functions, rows = library(), len(span)
        # Pages that nothing was written to take no memory: mostly one row has an id, so that there
        # are no next ones, and hardly ever one piece of calls finds all rows.
        self._head, self._next = _zeros(room), _zeros(rows)
        self._taken = (np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int32))
        self._rows = rows
        self.are_made = functions is not None and not functions.chain_ids(
            span, ids, spans, len(spans), room, self._head, self._next
        )

    def take(
        self, lane: Integers, ids: Integers, start: Integers, spans: Int64s
    ) -> tuple[Integers, Int64s, Integers]:
        """Find the rows of some calls' ids.

        Args:
            lane: The number of each call's thread, whose ids' span is that row of ``spans``.
            ids: The calls' ids.
            start: Their starts.
            spans: As `id_places` has them, a row per thread.

        Returns:
            The rows, each with the start and the number of the thread of its call; they last
            until the next calls.

        Raises:
            IndexError: A thread has no span, or a row is not there.
        """
        functions = library()
        launched = _Launched(*(array.ctypes.data for array in self._taken), 0, self._rows)
        chains = len(spans), len(self._head), self._head, self._next
        if functions is None or functions.take_chains(
            lane, ids, start, spans, *chains, ctypes.byref(launched)
        ):
            raise IndexError
        row, time, lane_of_call = self._taken
        return row[: launched.count], time[: launched.count], lane_of_call[: launched.count]


def _zeros(count: int) -> npt.NDArray[np.int32]:
    """So many zeros, in small pages.

    NumPy asks for large ones. Where a virtual machine has not used these yet, they take its host
    five times as long as memory that was used before.

    Raises:
        MemoryError: There is not enough memory.
    """
    if not count:
        return np.empty(0, np.int32)
    try:
        return np.frombuffer(mmap.mmap(-1, count * np.dtype(np.int32).itemsize), np.int32)
    except OSError as error:
        raise MemoryError from error


def open_ranges(start: Int64s, end: Int64s, times: Int64s, *, is_outermost: bool) -> Int64s | None:
    """The range that began first, or last, of those that are open at each time; -1 for none.

    Args:
        start: Starts of ranges, ascending.
        end: Their ends; at its end a range is open no more.
        times: Ascending.
        is_outermost: Whether the first is wanted.
    """
    functions, opened = library(), np.empty(len(times), np.int64)
    if functions is None or functions.open_ranges(start, end, times, is_outermost, opened):
        return None
    return opened


def extents(
    first: Integers, last: Integers, order: Integers, start: Int64s, duration: Integers
) -> tuple[Int64s, Int64s] | None:
    """The first start and the last end of the rows ``order[first:last]`` of each pair of these.

    Both are 0 where there are none.
    """
    functions = library()
    least, most = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    if functions is None or functions.extents(first, last, order, start, duration, least, most):
        return None
    return least, most


def grouped(parts: Sequence[tuple[Integers, Integers]], counts: Int64s) -> Any:
    """The values of each group one after another, in their order.

    Args:
        parts: Values, and the group of each, from 0 on.
        counts: How many values each group has in all parts.
    """
    kind = np.result_type(np.int8, *[values.dtype for values, _ in parts])
    functions = library()
    following, gathered = np.cumsum(counts) - counts, np.empty(counts.sum(), kind)
    for values, group in parts:
        wide = values.astype(kind, copy=False)
        if functions is None or functions.gather_groups(
            *(wide, group, len(counts), following, gathered)
        ):
            all_values, groups = map(np.concatenate, zip(*parts, strict=True))
            return all_values[np.argsort(groups, kind="stable")]
    return gathered
