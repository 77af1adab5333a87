"""NVTX ranges as arrays: read once, with their texts, domains and kinds numbered.

A framework's operations are ranges, too: hundreds in every part that a person names.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.launches import ALL_THREADS, LAUNCH_READS
from gpuprof.facts.numbers import Numbers, columns_of, different_codes, groups, order_of
from gpuprof.model.analysis import reads
from gpuprof.model.data_model import OPERATION
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.words import Words, narrowed

NO_RANGE: Final = -1
# Text, domain (of operations with their inputs these), and kind.
Label = tuple[str, str, str]

# PyTorch's own mark of a step is around everything: it tells when, not what.
STEP_MARK: Final = re.compile(r"ProfilerStep#\d+")
# What torch.autograd.profiler.emit_nvtx adds to the name of an operation.
OF_ONE_CALL: Final = re.compile(r", (?:seq|op_id) = .*", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")
# A number that is a word, as in "epoch 3" or "ProfilerStep#12", and not in conv2d or dense_1.
COUNT: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_MOST_NUMBERED: Final = 10

START_END: Final = "start_end"
_TIMED: Final = ("start_ns", "end_ns", "process_id", "thread_id")

# Names of calls, ranges and operations that wait for input.
LOADS_INPUT: Final = re.compile(r"(?i)data_?load|next_batch|get_next|iterator|load_batch")
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
        """Some of them, in the order of the indices, or for which a flag is set."""
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        columns = {n: c.take(rows) for n, c in vars(self).items() if isinstance(c, np.ndarray)}
        return Ranges(**columns, labels=self.labels)

    def labelled(self, is_chosen: Sequence[bool]) -> "Ranges":
        """Those whose label is one of some, by a flag for each of the labels."""
        return self.take(np.array(is_chosen, bool).take(self.label))

    def of_kind(self, *, is_operation: bool) -> "Ranges":
        """The framework's operations, or all others."""
        kinds = [(kind == OPERATION) is is_operation for _, _, kind in self.labels]
        return self if all(kinds) else self.labelled(kinds)

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


@once_per_recording
def ranges_of(profile: Profile) -> Ranges:
    """Every range of the whole recording: a part's work may have been launched before it."""
    return _ranges(profile, ("text", "domain", "range_kind"))


@once_per_recording
def operations_of(profile: Profile) -> Ranges:
    """Every operation; in place of a domain, its labels have the inputs."""
    return _ranges(profile, ("text", "inputs", "range_kind")).of_kind(is_operation=True)


def texts_around(ranges: Ranges, lane: tuple[int, int], at: int) -> dict[str, str]:
    """The innermost range and the outermost operation around an instant of a process and thread.

    Returns:
        Texts as ``nvtx_range`` and ``operation``; a key is absent where there is none.
    """
    process, thread = lane
    is_around = (ranges.start_ns <= at) & (ranges.end_ns > at) & (ranges.process == process)
    is_around &= np.isin(ranges.thread, (thread, ALL_THREADS))
    texts: dict[str, str] = {}
    # An outer range comes before those that it holds.
    for row in np.flatnonzero(is_around).tolist():
        text, _, kind = ranges.labels[ranges.label[row]]
        if kind == OPERATION:
            texts.setdefault("operation", text)
        elif text:
            texts["nvtx_range"] = text
    return texts


def _ranges(profile: Profile, of_label: Sequence[str]) -> Ranges:
    """All ranges, with labels of three columns, the last one of kinds."""
    numbers: dict[Label, int] = {}
    rows = profile.loaded("nvtx_ranges").rows_known() if profile.has("nvtx_ranges") else 0
    columns = columns_of(_numbered(profile, of_label, numbers), len(_TIMED) + 1, rows)
    labels = tuple(sorted(numbers))
    place = np.argsort([numbers[key] for key in labels]).astype(np.int32)
    if (order := _by_start(*columns[:2])) is not None:
        for number, column in enumerate(columns):  # a copy of one at a time, as there are millions
            columns[number] = column.take(order)
    start, end, process, thread, label = columns
    return Ranges(start, end, process, thread, place.take(label), labels)


def _numbered(
    profile: Profile, of_label: Sequence[str], numbers: dict[Label, int]
) -> Iterator[Sequence[Numbers]]:
    """Start, end, process, thread or `ALL_THREADS`, and the number of the label, in pieces."""
    if not profile.has("nvtx_ranges"):
        return
    texts = {name: Words([None]) for name in of_label}
    for part in profile.columns("nvtx_ranges", *_TIMED, *texts, texts=texts):
        start, end, process, thread, *codes = part
        words = [of.words for of in texts.values()]
        is_of_process = np.array([kind == START_END for kind in words[-1]], bool).take(codes[-1])
        lane = np.where(is_of_process, ALL_THREADS, thread)
        # Texts, domains and kinds become numbers while their part is at hand.
        code = np.zeros(len(start), np.int64)
        for places, of in zip(codes, words, strict=True):
            code *= len(of)
            code += places
        used, index = different_codes(code)
        labels = []
        for at_word in zip(*np.unravel_index(used, [len(of) for of in words]), strict=True):
            text, domain, kind = (of[at] or "" for of, at in zip(words, at_word, strict=True))
            labels.append(numbers.setdefault((text, domain, kind), len(numbers)))
        label = np.array(labels, np.int32).take(index)
        yield start, end, narrowed(process), narrowed(lane), label
    if not profile.loaded("nvtx_ranges").holds("inputs"):  # else they are read once more
        profile.let_go("nvtx_ranges")
        profile.give_back()


def _by_start(start: Int64s, end: Int64s) -> Int64s | None:
    """The order by start, of those that start at once the longest first; None for as it is."""
    is_longer = (start[1:] == start[:-1]) & (end[:-1] >= end[1:])
    if ((start[1:] > start[:-1]) | is_longer).all():
        return None
    order = order_of(start)
    ordered = start.take(order)
    is_next = ordered[1:] == ordered[:-1]
    at_once = np.flatnonzero(np.append(is_next, False) | np.append(False, is_next))
    some = order[at_once]
    order[at_once] = some[np.lexsort((-end[some], start[some]))]
    return order


@once_per_profile
def named_parts(profile: Profile) -> Ranges:
    """The ranges by which people and scripts name parts of a program: all but operations."""
    return ranges_of(profile).of_kind(is_operation=False)


def like(pattern: str) -> re.Pattern[str]:
    """What a text must match that is like a pattern, in which * stands for anything."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def ranges_like(profile: Profile, pattern: str) -> Ranges:
    """The ranges whose text is `like` a pattern.

    Operations are meant only where no other range is like it: ``*`` means the parts that people
    named, as it does of a recording without operations.
    """
    ranges = ranges_of(profile)
    expression = like(pattern)
    is_alike = [expression.fullmatch(text) is not None for text, _, _ in ranges.labels]
    alike = ranges.labelled(is_alike)
    return alike.of_kind(is_operation=False) or alike


def patterns(texts: Sequence[str]) -> list[str]:
    """What texts have in common that differ in numbers only, with * in place of the numbers.

    Numbers that are words count the calls of one thing: ``epoch *``; ``aten::mm, *`` for what
    PyTorch adds to its operations. Numbers within words tell layers apart (``conv2d``,
    ``dense_1``), unless more than ten are alike.
    """
    names = [OF_ONE_CALL.sub(", *", text) for text in texts]
    for number, least in ((COUNT, 2), (_NUMBER, _MOST_NUMBERED + 1)):
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
    return replace(ranges, label=new.take(ranges.label), labels=labels)
