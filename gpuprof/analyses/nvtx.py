"""NVTX ranges and the launches that each one holds, as arrays.

A range holds the launches of its own thread between its start and its end; a ``start_end``
range, which may end on another thread, holds those of its whole process.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.groups import Numbers, groups
from gpuprof.analyses.launches import (
    UNKNOWN,
    Launches,
    launches,
    launching_call,
    read_launches_and,
)
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

# In place of a thread.
ALL_THREADS: Final = UNKNOWN - 1
NO_RANGE: Final = -1

_RANGES: Final = f"""
    SELECT start_ns, end_ns, coalesce(process_id, {UNKNOWN}) AS process,
        CASE WHEN range_kind = 'start_end' THEN {ALL_THREADS}
            ELSE coalesce(thread_id, {UNKNOWN}) END AS thread,
        coalesce(text, '') AS text, coalesce(domain, '') AS domain,
        coalesce(range_kind, '') AS range_kind
    FROM whole.nvtx_ranges"""


@dataclass(frozen=True, eq=False)
class Ranges:
    """NVTX ranges, one element each, sorted by start.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        process: Its process.
        thread: Its thread, or `ALL_THREADS`.
        label: Index into ``labels``.
        labels: Text, domain and kind.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Numbers
    thread: Numbers
    label: Numbers
    labels: tuple[tuple[str, str, str], ...]

    def take(self, chosen: npt.NDArray[Any]) -> "Ranges":
        """Some of them, in the order of the indices."""
        return Ranges(
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.process[chosen],
            self.thread[chosen],
            self.label[chosen],
            self.labels,
        )

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


def ranges_of(profile: Profile) -> Ranges:
    """Every range of the whole recording: a part's work may have been launched before it."""
    return profile.once(_ranges_of)


def _ranges_of(profile: Profile) -> Ranges:
    # Whoever asks for ranges asks for launches next.
    read_launches_and(profile, _RANGES)
    numbers: dict[tuple[str, str, str], int] = {}
    pieces = [_read(batch, numbers) for batch in profile.batches(_RANGES)]
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    start, end, process, thread, label = columns or [np.empty(0, np.int64)] * 5
    labels = tuple(sorted(numbers))
    place = np.argsort([numbers[one] for one in labels])
    every = Ranges(start, end, process, thread, place[label], labels)
    return every.take(_outer_first(start, end))


def _outer_first(start: Int64s, end: Int64s) -> Int64s:
    """The order by start, of those that start at once the longest first; files are sorted."""
    order = np.argsort(start, kind="stable")
    is_tie = np.concatenate([[False], np.diff(start[order]) == 0])[: len(order)]
    tied = np.flatnonzero(is_tie | np.append(is_tie[1:], False)[: len(order)])
    mine = order[tied]
    order[tied] = mine[np.lexsort((-end[mine], start[mine]))]
    return order


def _read(batch: pa.RecordBatch, numbers: dict[tuple[str, str, str], int]) -> list[Numbers]:
    """The columns of some ranges; labels without a number yet are given one."""
    words = [column.dictionary_encode() for column in batch.columns[4:]]
    indices: list[Numbers] = [np.asarray(np.from_dlpack(w.indices), np.int64) for w in words]
    code = np.zeros(len(batch), np.int64)
    for word, index in zip(words, indices, strict=True):
        code = code * len(word.dictionary) + index
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    texts = [word.dictionary.to_pylist() for word in words]
    given = [
        numbers.setdefault((texts[0][text], texts[1][domain], texts[2][kind]), len(numbers))
        for text, domain, kind in zip(*(index[first].tolist() for index in indices), strict=True)
    ]
    columns: list[Any] = [np.from_dlpack(column) for column in batch.columns[:4]]
    return [*columns, np.array(given, np.int64)[which]]


@dataclass(frozen=True, eq=False)
class Spans:
    """Which launches each range holds: from ``first`` up to ``last`` in the launches' order."""

    first: Int64s
    last: Int64s

    def total(self, values: Numbers) -> Int64s:
        """The sum of a value over the launches of each range."""
        before = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        found: Int64s = before[self.last] - before[self.first]
        return found

    def among(self, chosen: Int64s, number: int) -> "Spans":
        """Which of some of the launches each range holds, where there are so many in all."""
        before = np.zeros(number + 1, np.int64)
        before[chosen + 1] = 1
        np.cumsum(before, out=before)
        return Spans(before[self.first], before[self.last])

    def extent(self, found: Launches) -> tuple[Int64s, Int64s]:
        """First start and last end of the launches of each range; 0 and 0 where it has none."""
        every = found.activities
        return (
            self._reduced(np.minimum, every.start_ns, found.order),
            self._reduced(np.maximum, every.end_ns, found.order),
        )

    def _reduced(self, function: np.ufunc, column: Int64s, order: Int64s) -> Int64s:
        reduced = np.zeros(len(self.first), np.int64)
        filled = np.flatnonzero(self.last > self.first)
        if len(filled):
            # reduceat reduces from each index to the next: every other result is a range's,
            # and the others are short where the ranges follow one another.
            filled = filled[np.argsort(self.first[filled], kind="stable")]
            borders = np.stack([self.first[filled], self.last[filled]], axis=1).ravel()
            low = int(borders[0])
            values = column[order[low : int(borders.max())]]
            reduced[filled] = function.reduceat(np.append(values, values[-1:]), borders - low)[::2]
        return reduced


def families(held: Ranges, found: Launches) -> list[tuple[Ranges, Launches]]:
    """Ranges of threads and of whole processes, each with the launches in their order."""
    of_process = held.thread == ALL_THREADS
    made = [(held.take(~of_process), found)]
    if of_process.any():
        process = found.of(found.activities.process)
        order = np.lexsort((found.launch_ns, process))
        bounds = {
            (number, ALL_THREADS): (int(low), int(high))
            for number in np.unique(process).tolist()
            for low, high in [np.searchsorted(process[order], [number, number + 1])]
        }
        ordered = Launches(found.activities, found.order[order], found.launch_ns[order], bounds)
        made.append((held.take(of_process), ordered))
    return [pair for pair in made if len(pair[0])]


def launches_within(held: Ranges, found: Launches) -> Spans:
    """The launches that each range holds; both of one family."""
    first, last = np.zeros(len(held), np.int64), np.zeros(len(held), np.int64)
    for mine, (low, high) in _by_thread(held, found):
        times = found.launch_ns[low:high]
        first[mine] = low + np.searchsorted(times, held.start_ns[mine], side="left")
        last[mine] = low + np.searchsorted(times, held.end_ns[mine], side="left")
    return Spans(first, last)


def innermost(held: Ranges, found: Launches) -> Int64s:
    """Index of the innermost range that holds each launch, or `NO_RANGE`; one family."""
    inner = np.full(len(found.launch_ns), NO_RANGE, np.int64)
    for mine, (low, high) in _by_thread(held, found):
        inner[low:high] = _top_of_stack(held, mine, found.launch_ns[low:high])
    return inner


def ranges_around(
    profile: Profile, process: Numbers, correlation: Numbers
) -> tuple[Int64s, list[str]]:
    """The innermost range around the launch of each of some copies.

    Returns:
        Numbers of texts, `NO_RANGE` where there is none, and the texts in their order.
    """
    held, found = profile.once(_copies_within)
    every = found.activities
    ids = found.of(every.process), found.of(every.correlation)
    index = launching_call((process, correlation), ids, found.launch_ns)
    texts = sorted({text for text, _, _ in held.labels})
    number = {text: place for place, text in enumerate(texts)}
    of_label = np.array([*(number[text] for text, _, _ in held.labels), NO_RANGE])
    # What is not found has the index -1, which is that of the last one here.
    inner = np.append(profile.once(_innermost_of_copies), NO_RANGE)[index]
    return of_label[np.append(held.label, NO_RANGE)[inner]], texts


def usual(numbers: Int64s, texts: list[str]) -> str | None:
    """The text that most of some numbers stand for; None where `NO_RANGE` is all there is."""
    known = numbers[numbers != NO_RANGE]
    return texts[int(np.bincount(known).argmax())] if len(known) else None


def _copies_within(profile: Profile) -> tuple[Ranges, Launches]:
    """The ranges of threads, and the launches of copies."""
    held, found = ranges_of(profile), launches(profile)
    is_copy = found.order < len(found.activities.copies)
    return held.take(held.thread != ALL_THREADS), found.take(np.flatnonzero(is_copy))


def _innermost_of_copies(profile: Profile) -> Int64s:
    return innermost(*profile.once(_copies_within))


def _by_thread(held: Ranges, found: Launches) -> list[tuple[Int64s, tuple[int, int]]]:
    """Indices of the ranges of each thread, and where its launches lie."""
    return [
        (mine, found.bounds.get((int(held.process[mine[0]]), int(held.thread[mine[0]])), (0, 0)))
        for mine in groups(held.process, held.thread)
    ]


def _top_of_stack(held: Ranges, mine: Int64s, times: Int64s) -> Int64s:
    """Which range of one thread was on top at each time; ranges of a thread are nested."""
    mine = mine[held.end_ns[mine] > held.start_ns[mine]]
    start, ends = held.start_ns[mine], np.sort(held.end_ns[mine])
    # How many are open around each one, and at each time; ends come before starts.
    depth = np.arange(len(mine)) - np.searchsorted(ends, start, side="right")
    begun = np.searchsorted(start, times, side="right")
    around = begun - np.searchsorted(ends, times, side="right")
    top = np.full(len(times), NO_RANGE, np.int64)
    for level in range(int(depth.max(initial=-1)) + 1):
        opened, here = np.flatnonzero(depth == level), np.flatnonzero(around == level + 1)
        top[here] = mine[opened[np.searchsorted(opened, begun[here]) - 1]]
    return top
