"""NVTX ranges and the launches that each one holds, as arrays.

A range holds the launches of its own thread between its start and its end; a ``start_end``
range, which may end on another thread, holds those of its whole process. A framework's
operations are ranges, too: hundreds in every part that a person names.
"""

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from gpuprof.facts.calls import NOT_FOUND, Ids, index_kind
from gpuprof.facts.groups import Numbers, groups
from gpuprof.facts.launches import (
    ALL_THREADS,
    LAUNCH_READS,
    Launches,
    by_time,
    launches,
)
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import OPERATION
from gpuprof.model.words import Words
from gpuprof.native import arrays
from gpuprof.readers.common.compact_columns import narrowed

NO_RANGE: Final = -1
# Text, domain and kind.
Label = tuple[str, str, str]

# Beyond this, sorting codes takes less than an array by code.
_MOST_CODES: Final = 1 << 20
# PyTorch's own mark of a step is around everything: it tells when, not what.
STEP_MARK: Final = re.compile(r"ProfilerStep#\d+")
# What torch.autograd.profiler.emit_nvtx adds to the name of an operation.
OF_ONE_CALL: Final = re.compile(r", (?:seq|op_id) = .*", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")
# A number that is a word, as in "epoch 3" or "ProfilerStep#12", and not in conv2d or dense_1.
_COUNT: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_MOST_NUMBERED: Final = 10

_START_END: Final = "start_end"
_TIMED: Final = ("start_ns", "end_ns", "process_id", "thread_id")
_TEXTS: Final = ("text", "domain", "range_kind")
_EVENT: Final = (*_TIMED, "range_kind", "text_id", "domain_id")
# Among the literals of a file, or below it where the file has no column of them.
_NO_LITERAL: Final = 0

RANGE_READS: Final = reads(
    LAUNCH_READS,
    nvtx_ranges="start_ns end_ns text domain range_kind process_id thread_id",
)


@dataclass(frozen=True, eq=False)
class Ranges:
    """NVTX ranges, one element each, sorted by start, the outer one first of those at once.

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

    def of_kind(self, *, is_operation: bool) -> "Ranges":
        """The framework's operations, or all others."""
        kinds = [(kind == OPERATION) is is_operation for _, _, kind in self.labels]
        return self if all(kinds) else self.take(np.flatnonzero(np.array(kinds, bool)[self.label]))

    def by_lane(self, launched: Launches) -> list[tuple[Int64s, tuple[int, int]]]:
        """Indices of the ranges of each thread, and where its launches lie."""
        return [(rows, launched.bounds.get(lane, (0, 0))) for lane, rows in self.lanes.items()]

    @cached_property
    def lanes(self) -> dict[tuple[int, int], Int64s]:
        """Indices of the ranges of each process and thread."""
        return {
            (int(self.process[rows[0]]), int(self.thread[rows[0]])): rows
            for rows in groups(self.process, self.thread)
        }

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


def ranges_of(profile: Profile) -> Ranges:
    """Every range of the whole recording: a part's work may have been launched before it."""
    return profile.unrestricted.once(_ranges_of)


def named_parts(profile: Profile) -> Ranges:
    """The ranges by which people and scripts name parts of a program: all but operations."""
    return profile.once(_named_parts)


def _named_parts(profile: Profile) -> Ranges:
    return ranges_of(profile).of_kind(is_operation=False)


def ranges_like(profile: Profile, pattern: str) -> Ranges:
    """The ranges whose text is like a pattern, in which * stands for anything.

    Operations are meant only where no other range is like it: ``*`` means the parts that people
    named, as it does of a recording without operations.
    """
    ranges = ranges_of(profile)
    like = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    is_alike = [like.fullmatch(text) is not None for text, _, _ in ranges.labels]
    alike = ranges.take(np.flatnonzero(np.array(is_alike, bool)[ranges.label]))
    return alike.of_kind(is_operation=False) or alike


def _ranges_of(profile: Profile) -> Ranges:
    numbers: dict[Label, int] = {}
    pieces = _joined(profile, numbers) if profile.has("nvtx_ranges") else []
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    start, end, process, thread, label = columns or [np.empty(0, np.int64)] * 5
    labels = tuple(sorted(numbers))
    place = np.argsort([numbers[key] for key in labels]).astype(np.int32)
    ranges = Ranges(start, end, process, thread, place[label], labels)
    order = _outer_first(start, end)
    return ranges if order is None else ranges.take(order)


def _outer_first(start: Int64s, end: Int64s) -> Int64s | None:
    """The order by start, of those that start at once the longest first; None where it is so."""
    earlier, later = start[:-1], start[1:]
    if ((earlier < later) | ((earlier == later) & (end[:-1] >= end[1:]))).all():
        return None
    order = by_time(start)
    is_next = np.diff(start[order]) == 0
    at_once = np.flatnonzero(np.append(is_next, False) | np.append(False, is_next))
    some = order[at_once]
    order[at_once] = some[np.lexsort((-end[some], start[some]))]
    return order


def _joined(profile: Profile, numbers: dict[Label, int]) -> list[list[Numbers]]:
    """The columns of ranges with the texts of the data model."""
    texts = {name: Words([None]) for name in _TEXTS}
    pieces = []
    for part in profile.stored_columns("nvtx_ranges", *_TIMED, *texts, texts=texts) or ():
        start, end, process, thread, *codes = (values.filled for values in part)
        words = [*(of.words for of in texts.values())]
        lane = _lanes(thread, codes[-1], words[-1])
        label = _labelled([*zip(codes, words, strict=True)], numbers)
        pieces.append([start.copy(), end.copy(), narrowed(process), lane, label])
    return pieces


def _lanes(thread: Numbers, kind: Numbers, kinds: Sequence[str | None]) -> Numbers:
    """The thread of each range, `ALL_THREADS` for those of a whole process.

    Args:
        thread: The thread that began it.
        kind: The place of its kind.
        kinds: The kinds by their places.
    """
    is_of_process = np.array([word == _START_END for word in kinds], bool)[kind]
    return narrowed(np.where(is_of_process, ALL_THREADS, thread))


def _labelled(
    words: Sequence[tuple[Numbers, Sequence[str | None]]], numbers: dict[Label, int]
) -> Numbers:
    """The number of the label of each range; labels without one yet are given one.

    Args:
        words: Text, domain and kind of each range as places among their different ones, and these.
        numbers: The numbers of labels.
    """
    texts = [[word or "" for word in different] for _, different in words]
    code = np.zeros(len(words[0][0]), np.int64)
    for indices, different in words:
        code *= len(different)
        code += indices
    codes, number = _distinct(code)
    places = np.unravel_index(codes, [len(different) for different in texts])
    labels = [
        numbers.setdefault((texts[0][text], texts[1][domain], texts[2][kind]), len(numbers))
        for text, domain, kind in zip(*(place.tolist() for place in places), strict=True)
    ]
    return np.array(labels, np.int32)[number]


def _distinct(code: Int64s) -> tuple[Int64s, Numbers]:
    """The different codes in their order, and which of them each one is."""
    if code.max(initial=0) > _MOST_CODES:
        codes, number = np.unique(code, return_inverse=True)
        return codes, number
    rows = np.bincount(code)
    codes, number = np.flatnonzero(rows), np.empty(len(rows), np.int32)
    number[codes] = np.arange(len(codes))
    return codes, number[code]


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
        start, end = launched.activities.start_ns, launched.activities.end_ns
        compiled = arrays.extents(self.first, self.last, launched.order, start, end)
        return compiled or (
            self._reduced(np.minimum, start[launched.order]),
            self._reduced(np.maximum, end[launched.order]),
        )

    def _reduced(self, function: np.ufunc, values: Int64s) -> Int64s:
        reduced = np.zeros(len(self.first), np.int64)
        filled = np.flatnonzero(self.last > self.first)
        if len(filled):
            # reduceat reduces from each index to the next: every other result is a range's.
            borders = np.stack([self.first[filled], self.last[filled]], axis=1).ravel()
            reduced[filled] = function.reduceat(np.append(values, values[-1:]), borders)[::2]
        return reduced


def patterns(texts: Sequence[str]) -> list[str]:
    """What texts have in common that differ in numbers only, with * in place of the numbers.

    Numbers that are words count the calls of one thing: ``epoch *``; ``aten::mm, *`` for what
    PyTorch adds to its operations. Numbers within words tell layers apart (``conv2d``,
    ``dense_1``), unless more than ten are alike.
    """
    names = [OF_ONE_CALL.sub(", *", text) for text in texts]
    for number, least in ((_COUNT, 2), (_NUMBER, _MOST_NUMBERED + 1)):
        like = {name: number.sub("*", name) for name in names}
        alike = Counter(like.values())
        names = [like[name] if alike[like[name]] >= least else name for name in names]
    return names


def by_pattern(ranges: Ranges) -> Ranges:
    """The same ranges under what their texts have in common, where they differ in numbers only."""
    texts = patterns([text for text, _, _ in ranges.labels])
    pairs = zip(texts, ranges.labels, strict=True)
    of_label = [(text, domain, kind) for text, (_, domain, kind) in pairs]
    if of_label == [*ranges.labels]:
        return ranges
    labels = tuple(sorted({*of_label}))
    number = {label: np.int32(place) for place, label in enumerate(labels)}
    new = np.array([number[label] for label in of_label], np.int32)
    return replace(ranges, label=new[ranges.label], labels=labels)


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
    for rows, (low, high) in ranges.by_lane(launched):
        times = launched.launch_ns[low:high]
        first[rows] = low + np.searchsorted(times, ranges.start_ns[rows], side="left")
        last[rows] = low + np.searchsorted(times, ranges.end_ns[rows], side="left")
    return Spans(first, last)


def innermost(ranges: Ranges, launched: Launches) -> Numbers:
    """Index of the innermost range that holds each launch, or `NO_RANGE`; one family."""
    return _at_one_end(ranges, launched, is_outermost=False)


def outermost(ranges: Ranges, launched: Launches) -> Numbers:
    """Index of the outermost range that holds each launch, or `NO_RANGE`; one family."""
    return _at_one_end(ranges, launched, is_outermost=True)


def _at_one_end(ranges: Ranges, launched: Launches, *, is_outermost: bool) -> Numbers:
    chosen = np.full(len(launched.launch_ns), NO_RANGE, np.int32)
    for rows, (low, high) in ranges.by_lane(launched):
        times = launched.launch_ns[low:high]
        place = open_at(ranges.take(rows), times, is_outermost=is_outermost)
        chosen[low:high] = np.append(rows, NO_RANGE)[place]
    return chosen


class Timed(Protocol):
    """Ranges or calls of a thread, sorted by start, the outer one first of those at once."""

    @property
    def start_ns(self) -> Int64s:
        """Start of each on the host."""

    @property
    def end_ns(self) -> Int64s:
        """End of each on the host."""


def open_at(ranges: Timed, times: Int64s, *, is_outermost: bool) -> Int64s:
    """Index of the range of a thread that is open at each ascending time, or `NO_RANGE`."""
    start, end = ranges.start_ns, ranges.end_ns
    place = arrays.open_ranges(start, end, times, is_outermost=is_outermost)
    if place is None:
        return _open_ranges(start, end, times, is_outermost=is_outermost)
    return place


def parts_around(
    profile: Profile, process: Numbers, correlation: Numbers
) -> tuple[Int64s, list[str]]:
    """The innermost named part around the launch of each of some copies; no operation.

    Returns:
        Numbers of texts, `NO_RANGE` where there is none, and the texts in their order.
    """
    return _texts_of(profile, profile.once(_parts_of_copies), process, correlation)


def origins(profile: Profile, process: Numbers, correlation: Numbers) -> tuple[Int64s, list[str]]:
    """What launched each of some copies, as far as ranges name it, for people to find it by.

    The innermost named part, since that is in the words of the program; but an operation where
    there is none (PyTorch's backward pass runs on a thread without annotations), or only
    PyTorch's mark of the step. Of operations the outermost is what the program called, or the
    node of the backward pass; the innermost of all copies is ``aten::copy_``.

    Returns:
        Numbers of texts, `NO_RANGE` where there is none, and the texts in their order.
    """
    return _texts_of(profile, profile.once(_origins_of_copies), process, correlation)


def _texts_of(
    profile: Profile, labels: Int64s, process: Numbers, correlation: Numbers
) -> tuple[Int64s, list[str]]:
    """The texts of some copies' labels, which are given in the order of all copies' launches."""
    ids, index_at = profile.once(_indices_of_copies)
    index = index_at[ids.of(process, correlation)]
    all_labels = ranges_of(profile).labels
    texts = sorted({text for text, _, _ in all_labels})
    number = {text: place for place, text in enumerate(texts)}
    of_label = np.array([*(number[text] for text, _, _ in all_labels), NO_RANGE])
    # What is not found has the index -1, which is that of the last one here.
    return of_label[np.append(labels, NO_RANGE)[index]], texts


def _indices_of_copies(profile: Profile) -> tuple[Ids, Int64s]:
    """Places of the ids of launched copies, and which of these copies has the id of each."""
    launched = profile.once(_copies_launched)
    copies = launched.activities.copies
    # Copies of one id have one launch.
    keys = launched.of(copies.process), launched.of(copies.correlation)
    ids = Ids(*keys)
    index = np.full(ids.size + 1, NOT_FOUND)
    index[ids.of(*keys)] = np.arange(len(launched.order))
    return ids, index


def usual(numbers: Int64s, texts: list[str]) -> str | None:
    """The text that most of some numbers stand for; None where `NO_RANGE` is all there is."""
    named = numbers[numbers != NO_RANGE]
    return texts[int(np.bincount(named).argmax())] if len(named) else None


def _copies_launched(profile: Profile) -> Launches:
    launched = launches(profile)
    return launched.take(np.flatnonzero(launched.order < len(launched.activities.copies)))


def _parts_of_copies(profile: Profile) -> Int64s:
    """The label of the innermost named part of a thread around each copy's launch."""
    ranges = named_parts(profile)
    ranges = ranges.take(ranges.thread != ALL_THREADS)
    return np.append(ranges.label, NO_RANGE)[innermost(ranges, profile.once(_copies_launched))]


def _origins_of_copies(profile: Profile) -> Int64s:
    """The label of what launched each copy."""
    named, ranges = profile.once(_parts_of_copies), ranges_of(profile)
    called = ranges.of_kind(is_operation=True)
    if not len(called):
        return named
    operation = outermost(called, profile.once(_copies_launched))
    operation = np.append(called.label, NO_RANGE)[operation]
    marks = [bool(STEP_MARK.fullmatch(text)) for text, _, _ in ranges.labels]
    says_nothing = np.array([*marks, True])[named]
    return np.where(says_nothing & (operation != NO_RANGE), operation, named)


def _open_ranges(start: Int64s, end: Int64s, times: Int64s, *, is_outermost: bool) -> Int64s:
    """The open range that began first or last at each time, of ranges that overlap in part.

    Times that were rounded may do so, and annotations that end in another order than that in
    which they began.
    """
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
