"""Which launches each NVTX range holds, and when what they launched ran.

A range holds the launches of its own thread between its start and its end; a ``start_end``
range, which may end on another thread, holds those of its whole process. Ranges of one text within
one another, as recursion and wrapped layers make them, both hold the launches of the inner one,
which must count once.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.errors import GpuprofError, MissingTableError, UsageError, one_of
from gpuprof.base.units import counted
from gpuprof.facts.launches import ALL_THREADS, Launches, launches
from gpuprof.facts.numbers import Numbers, index_kind, numbered, pieces
from gpuprof.facts.nvtx import NO_RANGE, Ranges, by_pattern, named_parts, ranges_like
from gpuprof.model.data_model import NVTX_RANGES
from gpuprof.model.intervals import Int64s, Intervals, union
from gpuprof.model.profile import Profile
from gpuprof.native import arrays

_MOST_NAMED: Final = 10


@dataclass(frozen=True, eq=False)
class Spans:
    """Which launches each range holds: from ``first`` up to ``last`` in the launches' order."""

    first: Numbers
    last: Numbers

    def launched(self, number: int) -> npt.NDArray[np.bool_]:
        """Whether at least one range holds each launch, of so many in all."""
        begun = np.zeros(number + 1, index_kind(len(self.first)))
        np.add.at(begun, self.first, 1)
        np.add.at(begun, self.last, -1)
        np.cumsum(begun, out=begun)
        is_launched: npt.NDArray[np.bool_] = begun[:-1] > 0
        return is_launched

    def among(self, is_chosen: npt.NDArray[np.bool_]) -> "Spans":
        """Which of those launches that are chosen each range holds."""
        before: Numbers = np.zeros(len(is_chosen) + 1, np.int32)
        np.cumsum(is_chosen, out=before[1:])
        return Spans(before[self.first], before[self.last])

    def extent(self, launched: Launches) -> tuple[Int64s, Int64s]:
        """First start and last end of the launches of each range; 0 and 0 where it has none."""
        work, order = launched.activities, launched.order
        compiled = arrays.extents(self.first, self.last, order, work.start_ns, work.duration_ns)
        return compiled or (
            self._reduced(np.minimum, work.start_ns[order]),
            self._reduced(np.maximum, work.end_ns(order)),
        )

    def _reduced(self, function: np.ufunc, values: Int64s) -> Int64s:
        reduced = np.zeros(len(self.first), np.int64)
        filled = np.flatnonzero(self.last > self.first)
        if len(filled):
            # reduceat reduces from each index to the next: every other result is a range's.
            borders = np.stack([self.first[filled], self.last[filled]], axis=1).ravel()
            reduced[filled] = function.reduceat(np.append(values, values[-1:]), borders)[::2]
        return reduced


def families(ranges: Ranges, launched: Launches) -> list[tuple[Ranges, Launches]]:
    """Ranges of threads and of whole processes, each with the launches in their order."""
    of_process = ranges.thread == ALL_THREADS
    if not of_process.any():
        return [(ranges, launched)] if len(ranges) else []
    pairs = [(ranges.take(~of_process), launched), (ranges.take(of_process), launched.by_process())]
    return [pair for pair in pairs if len(pair[0])]


def launches_within(ranges: Ranges, launched: Launches) -> Spans:
    """The launches that each range holds; both of one family."""
    kind = index_kind(len(launched.order) + 1)
    first, last = np.zeros(len(ranges), kind), np.zeros(len(ranges), kind)
    for lane, rows in ranges.lanes.items():
        low, high = launched.bounds.get(lane, (0, 0))
        times = launched.launch_ns[low:high]
        for piece in pieces(len(rows)):
            some = rows[piece]
            first[some] = low + np.searchsorted(times, ranges.start_ns[some], side="left")
            last[some] = low + np.searchsorted(times, ranges.end_ns[some], side="left")
    return Spans(first, last)


def holding(ranges: Ranges, launched: Launches, *, is_outermost: bool = False) -> Numbers:
    """Index of the innermost, or outermost, range that holds each launch, or `NO_RANGE`.

    Both are of one family.
    """
    chosen = np.full(len(launched.order), NO_RANGE, np.int32)
    for lane, rows in ranges.lanes.items():
        low, high = launched.bounds.get(lane, (0, 0))
        times = launched.launch_ns[low:high]
        start, end = ranges.start_ns[rows], ranges.end_ns[rows]
        place = open_at(start, end, times, is_outermost=is_outermost)
        chosen[low:high] = np.append(rows, NO_RANGE)[place]
    return chosen


def open_at(start: Int64s, end: Int64s, times: Int64s, *, is_outermost: bool) -> Int64s:
    """Index of the range of a thread that is open at each ascending time, or `NO_RANGE`.

    Ranges are sorted by start, the outer one first of those at once. It is that which began first
    or last, of ranges that overlap in part: times that were rounded may do so, and annotations
    that end in another order than that in which they began.
    """
    compiled = arrays.open_ranges(start, end, times, is_outermost=is_outermost)
    if compiled is not None:
        return compiled
    open_places = np.full(len(times), NO_RANGE, np.int64)
    opened: deque[int] = deque()
    ends, begun = end.tolist(), np.searchsorted(start, times, side="right").tolist()
    last = 0
    for place, (time, until) in enumerate(zip(times.tolist(), begun, strict=True)):
        opened.extend(range(last, until))
        last = until
        while opened and ends[opened[-1]] <= time:
            opened.pop()
        while opened and ends[opened[0]] <= time:
            opened.popleft()
        if opened:
            open_places[place] = opened[0] if is_outermost else opened[-1]
    return open_places


def merged_by_label(ranges: Ranges) -> Ranges:
    """Ranges of one label and thread that overlap as one range, from first start to last end.

    Ranges are sorted by start.

    Returns:
        Ranges of one label and thread that share no instant; those that only touch stay two.
    """
    order, lane = _by_lane(ranges, ranges.label)
    start, end = ranges.start_ns[order], ranges.end_ns[order]
    is_other = lane[1:] != lane[:-1]
    # Where no two that follow one another overlap, no others do.
    if (is_other | (start[1:] >= end[:-1])).all():
        return ranges
    reach = _reach(lane, end)
    is_first = np.ones(len(order), bool)
    is_first[1:] = is_other | (start[1:] >= reach[:-1])
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(order)) - 1
    chosen = order[first]
    joined = Ranges(
        start[first],
        reach[last],
        ranges.process[chosen],
        ranges.thread[chosen],
        ranges.label[chosen],
        ranges.labels,
    )
    return joined.take(np.argsort(joined.start_ns, kind="stable"))


def without_nested(ranges: Ranges) -> Ranges:
    """The ranges that lie within no other of their thread, whatever the labels.

    Ranges are sorted by start, the outer one first of those that start at once.
    """
    order, lane = _by_lane(ranges)
    end = ranges.end_ns[order]
    is_nested = np.zeros(len(order), bool)
    is_nested[1:] = (lane[1:] == lane[:-1]) & (end[1:] <= _reach(lane, end)[:-1])
    return ranges.take(np.sort(order[~is_nested])) if is_nested.any() else ranges


def _by_lane(ranges: Ranges, *further: Numbers) -> tuple[Int64s, Int64s]:
    """The order by process, thread and further columns, and a number for these in that order."""
    columns = [numbered(column) for column in (ranges.process, ranges.thread, *further)]
    order = np.lexsort(columns[::-1])
    is_other = np.zeros(len(order), bool)
    for column in columns:
        ordered = column[order]
        is_other[1:] |= ordered[1:] != ordered[:-1]
    return order, np.cumsum(is_other)


def _reach(lane: Int64s, end: Int64s) -> Int64s:
    """The latest end up to each range of its lane; the lanes are sorted."""
    # Ranks instead of ends, so that a later lane exceeds all ends of an earlier one.
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    highest = np.maximum.accumulate(lane * len(end) + rank)
    reach: Int64s = end[by_end[highest % max(len(end), 1)]]
    return reach


def ranges_meant(profile: Profile, text: str, occurrence: int | None = None) -> Ranges:
    """The NVTX ranges of a text, in which * stands for anything, or one of them.

    Raises:
        MissingTableError: No ranges were recorded, or not what they launched.
        UsageError: No range, or no range of this number, has the text.
    """
    profile.require(NVTX_RANGES.name)
    alike = ranges_like(profile, text)
    if not len(alike):
        msg = f'{profile.origin.source} has no NVTX range "{text}"'
        texts = _longest_texts(profile)
        raise UsageError(msg, one_of("Ranges", text, texts, _MOST_NAMED) if texts else None)
    if not profile.has("api_calls"):
        raise launched_nothing(profile, text, alike)
    if occurrence is None:
        return alike
    if not 0 <= occurrence < len(alike):
        ranges = counted(len(alike), "range", "ranges")
        msg = f'{profile.origin.source} has {ranges} "{text}", none of number {occurrence}'
        raise UsageError(msg, f"Name one with --occurrence 0 to {len(alike) - 1}.")
    return alike.take(np.array([occurrence]))


def _longest_texts(profile: Profile) -> list[str]:
    """The texts of ranges, as `--range` takes them, those of most time first."""
    named = by_pattern(named_parts(profile))
    total_ns = np.zeros(len(named.labels), np.int64)
    np.add.at(total_ns, named.label, named.end_ns - named.start_ns)
    texts = (named.labels[label][0] for label in np.argsort(-total_ns, kind="stable").tolist())
    return [f'"{text}"' if ", " in text else text for text in dict.fromkeys(texts) if text]


def launched_nothing(profile: Profile, text: str, ranges: Ranges) -> GpuprofError:
    """The error of ranges whose time on the devices is not known, with that on the host."""
    hint = f"On the host it runs from {ranges.start_ns[0]}ns to {ranges.end_ns[0]}ns"
    hint += " first." if len(ranges) > 1 else "."
    source = profile.origin.source
    if profile.has("api_calls") and len(launches(profile).order):
        return UsageError(f'{source}: NVTX range "{text}" launched nothing', hint)
    msg = f'{source}: what NVTX range "{text}" launched is not known: no launches were recorded'
    return MissingTableError(msg, hint)


def launched_windows(profile: Profile, text: str, occurrence: int | None) -> Intervals:
    """From first start to last end of what each range of a text launched."""
    ranges = ranges_meant(profile, text, occurrence)
    extents = [
        launches_within(family, launched).extent(launched)
        for family, launched in families(ranges, launches(profile))
    ]
    starts, ends = (np.concatenate(times) for times in zip(*extents, strict=True))
    windows = union(starts, ends)
    if not len(windows):
        raise launched_nothing(profile, text, ranges)
    return windows
