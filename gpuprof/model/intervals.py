"""Sets of instants as sorted, disjoint, half-open intervals on int64 arrays.

Every function is exact in integers and vectorised; sorting happens only where input is not
sorted already, which real recordings almost always are.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.native import arrays

Int64s = npt.NDArray[np.int64]
_NEIGHBOURS: Final = 256
# Sets whose sizes differ by less than this factor, or that are small, are swept side by side, which
# takes less than to search one for each interval of the other.
_ALIKE: Final = 32
_FEW: Final = 8192
_TWO: Final = 2  # sets
_SIXTY_FOUR_BITS: Final = (1 << 64) - 1


class Intervals:
    """A set of instants in ns: sorted, disjoint, not even touching, none of length 0.

    Args:
        start: Starts in ns.
        end: Ends in ns, in the same order.
        placed: Where these lie, if that is known.
    """

    __slots__ = ("_before", "_length", "_placed", "end", "start")

    def __init__(self, start: Int64s, end: Int64s, placed: arrays.Placed | None = None) -> None:
        self.start, self.end, self._placed = start, end, placed
        self._before: Int64s | None = None
        self._length: int | None = None

    def __reduce__(self) -> tuple[type["Intervals"], tuple[Int64s, Int64s]]:
        """Copies lie elsewhere."""
        return Intervals, (self.start, self.end)

    @property
    def length(self) -> int:
        """How many ns it covers."""
        if self._length is None:  # of millions of intervals it is asked for again and again
            # Both sums may be beyond 64 bits, of which the length takes no more than 63.
            end, start = int(np.add.reduce(self.end)), int(np.add.reduce(self.start))
            self._length = end - start & _SIXTY_FOUR_BITS
        return self._length

    @property
    def before(self) -> Int64s:
        """How many ns of it lie before every `arrays.BLOCK`-th interval."""
        if self._before is None:
            self._before = arrays.covered_before(self.placed)
        return self._before

    @property
    def placed(self) -> arrays.Placed:
        """The set as compiled functions take it: most are asked about again and again."""
        if self._placed is None:
            self._placed = arrays.placed(self.start, self.end)
        return self._placed

    def __len__(self) -> int:
        """How many intervals it consists of."""
        return len(self.start)


def _int64(values: npt.ArrayLike) -> Int64s:
    return np.asarray(values, dtype=np.int64)


def _before(counts: Int64s) -> Int64s:
    """The sum of all counts before each one."""
    return _int64(np.cumsum(counts) - counts)


NOTHING: Final = Intervals(_int64([]), _int64([]))


def single(start: int, end: int) -> Intervals:
    """One interval; nothing where it has no length."""
    return union(_int64([start]), _int64([end]))


def union(start: npt.ArrayLike, end: npt.ArrayLike) -> Intervals:
    """The instants that at least one interval covers.

    Args:
        start: Starts in ns, in any order; fastest when sorted.
        end: Ends in ns, in the same order. Intervals of length 0 cover nothing.
    """
    starts, ends = _int64(start), _int64(end)
    swept = arrays.union(arrays.placed(starts, ends))
    if swept is None and (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        swept = arrays.union(arrays.placed(starts, ends))
    if swept is not None:
        return Intervals(*swept) if len(swept[0]) else NOTHING
    if not np.all(ends > starts):
        is_filled = ends > starts
        starts, ends = starts[is_filled], ends[is_filled]
    if not len(starts):
        return NOTHING
    reach = np.maximum.accumulate(ends)
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Intervals(starts[first], reach[last])


def longer(some: Intervals, least_ns: int) -> Intervals:
    """Those intervals that are longer than so many ns."""
    is_long = some.end - some.start > least_ns
    return Intervals(some.start[is_long], some.end[is_long])


def unions_by_key(
    start: Int64s, end: Int64s, key: npt.NDArray[np.integer[Any]]
) -> Iterator[tuple[int, Intervals]]:
    """The union of the intervals of each key that has any of length, by ascending key.

    Args:
        start: Starts in ns, in any order; fastest when sorted.
        end: Ends in ns, in the same order.
        key: Numbers from 0 on, in the same order.
    """
    keys = int(key.max()) + 1 if len(key) else 0
    swept = arrays.unions_by_key(start, end - start, key, keys)
    if swept is None:
        for place in np.unique(key).tolist():
            of_key = key == place
            if len(joined := union(start[of_key], end[of_key])):
                yield place, joined
        return
    bounds, starts, ends = swept
    for place in np.flatnonzero(np.diff(bounds)).tolist():
        rows = slice(*bounds[place : place + 2])
        yield place, Intervals(starts[rows], ends[rows])


def together(sets: Sequence[Intervals]) -> Intervals:
    """The instants that at least one of the sets covers."""
    filled = [part for part in sets if len(part)]
    if len(filled) <= 1:
        return filled[0] if filled else NOTHING
    if len(filled) > _TWO:
        middle = len(filled) // 2
        filled = [together(filled[:middle]), together(filled[middle:])]
    a, b = filled
    if (swept := arrays.union(a.placed, b.placed)) is not None:
        return Intervals(*swept)
    return union(np.concatenate([a.start, b.start]), np.concatenate([a.end, b.end]))


def overlapping(a: Intervals, b: Intervals) -> tuple[Int64s, Int64s]:
    """Index of the first interval of b that meets each of a, and how many do."""
    first = np.searchsorted(b.end, a.start, side="right")
    return first, np.searchsorted(b.start, a.end, side="left") - first


def meeting(a: Intervals, b: Intervals) -> Int64s:
    """Indices of the intervals of a, in any order and perhaps overlapping, that meet any of b.

    Where b is rare in a long row of intervals, most of them are told with their neighbours.
    """
    if not len(a) or not len(b):
        return _int64([])
    first = np.arange(0, len(a), _NEIGHBOURS)
    stretch = Intervals(np.minimum.reduceat(a.start, first), np.maximum.reduceat(a.end, first))
    near = first[overlapping(stretch, b)[1] > 0]
    rows = runs(near, np.minimum(len(a) - near, _NEIGHBOURS))
    return rows[overlapping(Intervals(a.start[rows], a.end[rows]), b)[1] > 0]


def runs(first: Int64s, count: Int64s) -> Int64s:
    """``first[i], first[i] + 1, ...``, ``count[i]`` of them, for each i after the one before."""
    steps = np.arange(int(count.sum()), dtype=np.int64)
    return steps + np.repeat(first - _before(count), count)


def pairs(first: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
    """Every index i with each of ``first[i], first[i] + 1, ...``, ``count[i]`` of them."""
    return np.repeat(np.arange(len(first)), count), runs(first, count)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """The instants that both cover."""
    if len(a) > len(b):
        a, b = b, a
    is_swept = len(b) < max(_ALIKE * len(a), _FEW)
    if is_swept and (swept := arrays.intersection(a.placed, b.placed)) is not None:
        return Intervals(*swept)
    first, count = overlapping(a, b)
    if len(a) and (first[1:] == first[:-1] + count[:-1]).all():
        return _cut(b, a, first, count)
    met = runs(first, count)
    return Intervals(
        np.maximum(np.repeat(a.start, count), b.start[met]),
        np.minimum(np.repeat(a.end, count), b.end[met]),
    )


def _cut(some: Intervals, windows: Intervals, first: Int64s, count: Int64s) -> Intervals:
    """What lies in windows that meet neighbouring intervals, one window after another.

    Where no interval reaches beyond its window, as mostly, nothing is copied.
    """
    rows, is_met = slice(int(first[0]), int(first[-1] + count[-1])), count > 0
    opening = (first - first[0])[is_met]
    closing = opening + count[is_met] - 1
    start, end = some.start[rows], some.end[rows]
    if (start[opening] < windows.start[is_met]).any():
        start = start.copy()
        start[opening] = np.maximum(start[opening], windows.start[is_met])
    if (end[closing] > windows.end[is_met]).any():
        end = end.copy()
        end[closing] = np.minimum(end[closing], windows.end[is_met])
    return Intervals(start, end)


def difference(a: Intervals, b: Intervals, above_ns: int = 0) -> Intervals:
    """What the first covers and the second does not, in intervals longer than ``above_ns``."""
    if not len(a) or not len(b):
        return longer(a, above_ns) if above_ns else a
    swept = arrays.difference(a.placed, b.placed, above_ns)
    if swept is not None:
        return Intervals(*swept)
    first, count = overlapping(a, b)
    met = runs(first, count)
    # What an interval of a leaves lies between its start, the ends and starts of those of b
    # that meet it, and its end: one piece more than met it, some of them empty.
    opening = _before(count + 1)
    closing = opening + count
    pieces = len(met) + len(a)
    start, end = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    inner = np.ones(pieces, bool)
    inner[opening] = False
    start[opening], start[inner] = a.start, b.end[met]
    inner[opening], inner[closing] = True, False
    end[closing], end[inner] = a.end, b.start[met]
    return longer(Intervals(start, end), above_ns)


def attribute(layers: Sequence[Intervals]) -> list[Intervals]:
    """Give each instant to the first layer that covers it.

    Returns:
        One set per layer, in order; together they cover what the layers cover, disjointly.
    """
    attributed: list[Intervals] = []
    for layer in layers:
        unclaimed = layer
        for taken in attributed:
            unclaimed = difference(unclaimed, taken)
        attributed.append(unclaimed)
    return attributed


def covered_within(covered: Intervals, start: npt.ArrayLike, end: npt.ArrayLike) -> Int64s:
    """How many ns of a set lie in each window ``[start, end)``."""
    starts, ends = _int64(start), _int64(end)
    if not len(covered):
        return np.zeros(starts.shape, np.int64)
    swept = arrays.covered_within(covered.placed, covered.before, starts, ends)
    if swept is not None:
        return swept
    return _covered_before(covered, ends) - _covered_before(covered, starts)


def _covered_before(covered: Intervals, points: Int64s) -> Int64s:
    index = np.searchsorted(covered.start, points, side="right")
    # The last interval begun may reach beyond the instant.
    last = np.maximum(index - 1, 0)
    beyond = np.where(index > 0, np.maximum(covered.end[last] - points, 0), 0)
    before = np.concatenate([[0], np.cumsum(covered.end - covered.start)])
    return _int64(before[index] - beyond)
