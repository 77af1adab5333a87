"""NVTX ranges and the launches that each one holds, as arrays.

A range holds the launches of its own thread between its start and its end; a ``start_end``
range, which may end on another thread, holds those of its whole process.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.launches import (
    UNKNOWN,
    Launches,
    Numbers,
    launches,
    launching_call,
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
    numbers: dict[tuple[str, str, str], int] = {}
    pieces = [_read(batch, numbers) for batch in profile.batches(_RANGES)]
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    start, end, process, thread, label = columns or [np.empty(0, np.int64)] * 5
    labels = tuple(sorted(numbers))
    place = np.argsort([numbers[one] for one in labels])
    every = Ranges(start, end, process, thread, place[label], labels)
    return every.take(np.lexsort((-end, start)))


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

    def extent(self, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
        """First start and last end of the launches of each range; 0 and 0 where it has none."""
        return self._reduced(np.minimum, start), self._reduced(np.maximum, end)

    def _reduced(self, function: np.ufunc, values: Int64s) -> Int64s:
        found = np.zeros(len(self.first), np.int64)
        filled = np.flatnonzero(self.last > self.first)
        if len(filled):
            # reduceat reduces from each index to the next: every other result is a range's,
            # and the others are short where the ranges follow one another.
            filled = filled[np.argsort(self.first[filled], kind="stable")]
            borders = np.stack([self.first[filled], self.last[filled]], axis=1).ravel()
            padded = np.append(values, values[-1:])
            found[filled] = function.reduceat(padded, borders)[::2]
        return found


def families(held: Ranges, found: Launches) -> list[tuple[Ranges, Launches]]:
    """Ranges of threads and of whole processes, each with the launches in their order."""
    of_process = held.thread == ALL_THREADS
    made = [(held.take(~of_process), found)]
    if of_process.any():
        order = np.lexsort((found.launch_ns, found.activities.process))
        threads = np.full(len(order), ALL_THREADS, np.int64)
        made.append(
            (
                held.take(of_process),
                Launches(found.activities.take(order), found.launch_ns[order], threads),
            )
        )
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


def usual_range(profile: Profile, process: Numbers, correlation: Numbers) -> str | None:
    """Text of the innermost range around most of some launches; None where none is."""
    texts = Counter(t for t in ranges_around(profile, process, correlation) if t is not None)
    return max(sorted(texts), key=lambda text: texts[text], default=None)


def ranges_around(profile: Profile, process: Numbers, correlation: Numbers) -> list[str | None]:
    """Text of the innermost range around each of some launches; None where none is."""
    held, found = ranges_of(profile), launches(profile)
    mine = held.take(np.flatnonzero(held.thread != ALL_THREADS))
    every = found.activities
    index = launching_call(
        (process, correlation), (every.process, every.correlation), found.launch_ns
    )
    # What is not found has the index -1, which is that of the last one here.
    inner = np.append(profile.once(_innermost_of_threads), NO_RANGE)[index]
    label = np.append(mine.label, NO_RANGE)[inner]
    return [None if number == NO_RANGE else mine.labels[number][0] for number in label.tolist()]


def _innermost_of_threads(profile: Profile) -> Int64s:
    held = ranges_of(profile)
    mine = held.take(np.flatnonzero(held.thread != ALL_THREADS))
    return innermost(mine, launches(profile))


def _by_thread(held: Ranges, found: Launches) -> list[tuple[Int64s, tuple[int, int]]]:
    """Indices of the ranges of each thread, and where its launches lie."""
    order = np.lexsort((held.thread, held.process))
    process, thread = held.process[order], held.thread[order]
    is_first = (process[1:] != process[:-1]) | (thread[1:] != thread[:-1])
    groups = np.split(order, np.flatnonzero(is_first) + 1)
    return [
        (mine, _bounds(found, int(held.process[mine[0]]), int(held.thread[mine[0]])))
        for mine in groups
        if len(mine)
    ]


def _bounds(found: Launches, process: int, thread: int) -> tuple[int, int]:
    low, high = (
        int(np.searchsorted(found.activities.process, process, side=side))
        for side in ("left", "right")
    )
    threads = found.thread[low:high]
    return (
        low + int(np.searchsorted(threads, thread, side="left")),
        low + int(np.searchsorted(threads, thread, side="right")),
    )


def _top_of_stack(held: Ranges, mine: Int64s, times: Int64s) -> Int64s:
    """Which range of one thread was on top at each time; ranges of a thread are nested."""
    mine = mine[held.end_ns[mine] > held.start_ns[mine]]
    start, end = held.start_ns[mine], held.end_ns[mine]
    number = len(mine)
    when = np.concatenate([end, start])
    step = np.repeat([-1, 1], number)
    # Of ranges that open at once, the longer one is outside.
    order = np.lexsort((np.concatenate([-start, -end]), step, when))
    when, step = when[order], step[order]
    owner = np.concatenate([mine, mine])[order]
    depth = np.cumsum(step)
    top = np.full(len(order), NO_RANGE, np.int64)
    for level in np.unique(depth[step > 0]).tolist():
        here = np.flatnonzero(depth == level)
        opened = here[step[here] > 0]
        place = np.searchsorted(opened, here, side="right") - 1
        top[here] = np.where(place >= 0, owner[opened[np.maximum(place, 0)]], NO_RANGE)
    place = np.searchsorted(when, times, side="right") - 1
    if not len(top):
        return np.full(len(times), NO_RANGE, np.int64)
    return np.where(place >= 0, top[np.maximum(place, 0)], NO_RANGE)
