"""When each training step ran on the devices: from ranges that name steps, or found by pattern."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.launches import Launches, activities, launches
from gpuprof.facts.numbers import first_of, index_kind, numbered, read_columns, sums_by_number
from gpuprof.facts.nvtx import RANGE_READS, Ranges, named_parts
from gpuprof.facts.range_launches import (
    families,
    launched_nothing,
    launches_within,
    ranges_meant,
    without_nested,
)
from gpuprof.facts.recorded_steps import RecordedSteps, recorded_steps
from gpuprof.model.analysis import reads
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, difference, union
from gpuprof.model.pairs import different, distinct
from gpuprof.model.profile import Profile, once_per_profile

STEP_READS: Final = reads(RANGE_READS, kernels="start_ns end_ns device_id stream_id name name_id")
FROM_RANGES: Final = "ranges"
DETECTED: Final = "detected"

# Words that scripts and frameworks mark a step with: ProfilerStep#3, step 3, train_step, iter_3.
# An optimizer's step is only the end of one.
_STEP: Final = re.compile(
    r"^(?!.*optim).*(?:^|[^a-z])(?:profiler|train(?:ing)?|mini)?[ _]?"
    r"(?:step|iter|iteration|batch)s?(?:$|[^a-z])",
    re.IGNORECASE,
)
_BORDERS: Final = ("start_ns", "end_ns")
_DIGITS: Final = re.compile(r"\d+")
_LEAST_STEPS: Final = 2
_LEAST_DETECTED: Final = 3
# Marks that cover less of the time from the first step to the last leave a part of steps out.
_COVERED: Final = 0.95
# Steps whose ranges follow one another this closely own the time between them, too.
_CLOSE: Final = 0.1
# A pattern must repeat this well, and one this much better is preferred to a shorter one.
_ALIKE: Final = 0.8
_BETTER: Final = 0.02
_SAMPLE: Final = 100_000
_MOST: Final = 0.5
# A mark that holds so many repeats is a step: models have up to some hundred layers, and a range
# around more iterations than that is of a whole run, as is one that says so.
_REPEATS: Final = (4, 128)
_EPOCH: Final = re.compile(r"epoch", re.IGNORECASE)
_CANDIDATES: Final = 60


@dataclass(frozen=True, eq=False)
class StepWindows:
    """The steps of one process (or, where detected, one device), in order.

    Args:
        process_id: The process; None where steps were detected by device or it is unknown.
        devices: Devices whose work belongs to these steps.
        text: What marks a step: the ranges' text with # for digits, or a kernel's name.
        source: `FROM_RANGES` or `DETECTED`.
        start_ns: Start of each step on the devices.
        end_ns: End of each; at most the start of the next.
        between: When the host is between their marks; empty where nothing marks them.
    """

    process_id: int | None
    devices: tuple[int, ...]
    text: str
    source: str
    start_ns: Int64s
    end_ns: Int64s
    between: Intervals = NOTHING


@once_per_profile
def step_windows(profile: Profile) -> tuple[StepWindows, ...]:
    """The steps of every process; none where nothing names steps or repeats."""
    recording = profile.unrestricted
    if (phases := recorded_steps(recording)) is not None:
        return tuple(_windows_of(recording, phases))
    if not recording.has("nvtx_ranges", "api_calls"):
        return tuple(_detected(recording))
    parts = named_parts(recording)
    texts = [masked(text) for text, _, _ in parts.labels]
    of_steps = sorted({text for text in texts if _STEP.search(text)})
    named = _most_launches(parts, launches(recording), texts, of_steps, least=_LEAST_STEPS)
    if steps := tuple(named):
        return steps
    detected = tuple(_detected(recording))
    return _holding_repeats(parts, launches(recording), texts, detected) or detected


def _windows_of(profile: Profile, steps: Sequence[RecordedSteps]) -> Iterator[StepWindows]:
    """The series of steps, of all phases, that a file of a part of a recording keeps."""
    for process, source, text in dict.fromkeys((of.process, of.source, of.text) for of in steps):
        phases = [of for of in steps if (of.process, of.source, of.text) == (process, source, text)]
        start, end = (np.concatenate([getattr(of, n) for of in phases]) for n in _BORDERS)
        order = np.argsort(start, kind="stable")
        devices = tuple(sorted({device for of in phases for device in of.devices}))
        between = between_marks(profile, phases[0]) if phases[0].is_period else NOTHING
        yield StepWindows(
            if_known(process), devices, text, source, start[order], end[order], between
        )


def between_marks(profile: Profile, steps: RecordedSteps) -> Intervals:
    """When the host is between the marks of steps that a file of a part of a recording keeps."""
    parts = named_parts(profile)
    of_text = parts.labelled([masked(text) == steps.text for text, _, _ in parts.labels])
    marks = without_nested(of_text.take(of_text.process == steps.process))
    hull = union(marks.start_ns[:1], marks.end_ns.max(keepdims=True, initial=0))
    return difference(hull, union(marks.start_ns, marks.end_ns))


def _holding_repeats(
    parts: Ranges, launched: Launches, texts: Sequence[str], detected: Sequence[StepWindows]
) -> tuple[StepWindows, ...]:
    """The ranges of one text, of any words, that hold as many repeats each: these are its parts.

    Of texts that do, those that hold most time, which lie around the others. None where no text
    does, as where a range is around all iterations of a solver, or each around one.
    """
    opening = max((series.start_ns for series in detected), key=len, default=np.empty(0, np.int64))
    if not (len(opening) and len(parts) and len(launched.order)):
        return ()
    # Of all texts few are of most of the time in which the host launches.
    first_ns, last_ns = launched.extent
    least_ns = _MOST * (last_ns - first_ns)
    lasting = np.bincount(parts.label, parts.end_ns - parts.start_ns, len(texts))
    marks: dict[str, float] = {}
    for text, lasting_ns in zip(texts, lasting.tolist(), strict=True):
        marks[text] = marks.get(text, 0) + lasting_ns
    most: tuple[StepWindows, ...] = ()
    most_ns = 0
    for text, lasting_ns in marks.items():
        if lasting_ns < least_ns or _EPOCH.search(text):
            continue
        marked = tuple(_most_launches(parts, launched, texts, [text], least=_LEAST_DETECTED))
        repeats_held = [
            np.diff(np.searchsorted(opening, [s.start_ns, s.end_ns]), axis=0)[0] for s in marked
        ]
        of_marks = np.concatenate(repeats_held) if repeats_held else np.zeros(1, np.int64)
        usual = int(np.median(of_marks))
        is_even = np.mean(of_marks == usual) >= _ALIKE <= of_marks.sum() / len(opening)
        length_ns = sum(int((series.end_ns - series.start_ns).sum()) for series in marked)
        if is_even and _REPEATS[0] <= usual <= _REPEATS[1] and length_ns > most_ns:
            most, most_ns = marked, length_ns
    return most


def by_period(series: StepWindows) -> StepWindows:
    """Marked steps with the time between them where the marks leave much of it out.

    A step is then the period from its start to that of the next; else ``between`` is empty.
    """
    period = np.diff(series.start_ns)
    if (series.end_ns - series.start_ns)[:-1].sum() >= _COVERED * period.sum():
        return replace(series, between=NOTHING)
    return replace(series, end_ns=np.append(series.start_ns[1:], series.end_ns[-1:]))


def windows_of_range(profile: Profile, pattern: str) -> tuple[StepWindows, ...]:
    """What the NVTX ranges of a text launched, each as if it were a step, of every process.

    The pattern is as in `nvtx.ranges_like`.

    Raises:
        MissingTableError: No ranges or calls were recorded.
        UsageError: No such range launched anything.
    """
    alike = ranges_meant(profile, pattern)
    texts = [pattern] * len(alike.labels)
    named = tuple(_most_launches(alike, launches(profile), texts, [pattern], least=1))
    if not named:
        raise launched_nothing(profile, pattern, alike)
    return named


def masked(text: str) -> str:
    """A text with # for its digits: what ranges have in common that differ in numbers only."""
    return _DIGITS.sub("#", text)


def _most_launches(
    ranges: Ranges, launched: Launches, texts: Sequence[str], of_steps: Sequence[str], *, least: int
) -> Iterator[StepWindows]:
    """For each process, the text of steps whose ranges hold most launches."""
    number = np.array([of_steps.index(t) if t in of_steps else -1 for t in texts], np.int64)
    marked = ranges.labelled((number >= 0).tolist())
    for process in different(marked.process).tolist():
        best: tuple[int, StepWindows] | None = None
        for text, step in enumerate(of_steps):
            ours = np.flatnonzero((marked.process == process) & (number[marked.label] == text))
            for family, ordered in families(marked.take(ours), launched):
                candidate = _windows(family, ordered, step, least)
                if candidate is not None and (best is None or candidate[0] > best[0]):
                    best = candidate
        if best is not None:
            yield best[1]


def _windows(
    marked: Ranges, launched: Launches, text: str, least: int
) -> tuple[int, StepWindows] | None:
    """Steps of one text, and how many launches they hold; a step within another is none."""
    outer = without_nested(marked)
    spans = launches_within(outer, launched)
    filled = np.flatnonzero(spans.last > spans.first)
    if len(filled) < least:
        return None
    start, end = (column[filled] for column in spans.extent(launched))
    order = np.argsort(start, kind="stable")
    start, end, filled = start[order], end[order], filled[order]
    host_start, host_end = outer.start_ns[filled], outer.end_ns[filled]
    pause = host_start[1:] - host_end[:-1]
    is_close = pause <= _CLOSE * (host_end - host_start)[:-1]
    end[:-1] = np.where(is_close, start[1:], np.minimum(end[:-1], start[1:]))
    process = int(outer.process[0])
    devices = distinct(launched.activities.device[launched.of_process(process)]).tolist()
    hull = union(outer.start_ns[:1], outer.end_ns.max(keepdims=True))
    windows = StepWindows(
        if_known(process),
        *(tuple(devices), text, FROM_RANGES, start, end),
        difference(hull, union(outer.start_ns, outer.end_ns)),
    )
    return union(spans.first, spans.last).length, windows


def _detected(profile: Profile) -> Iterator[StepWindows]:
    """For each device, the kernel that opens a pattern of launches that repeats.

    The pattern is that of one stream: others run beside it, in an order that varies.
    """
    if not profile.has("kernels"):
        return
    names = profile.loaded("kernels").names
    texts = ["unnamed kernel", *names.distinct[1:]]
    stream, name_id = read_columns(profile, "kernels", "stream_id", "name_id")
    name, is_computing = names.places.of(name_id), names.communicates.of(name_id) == 0
    work = activities(profile)
    kernels = slice(*work.tables["kernels"])
    start, duration, device = (
        work.start_ns[kernels],
        work.duration_ns[kernels],
        work.device[kernels],
    )
    for number in distinct(device).tolist():
        rows = np.flatnonzero(device == number).astype(index_kind(len(device)), copy=False)
        of_stream = numbered(stream[rows])
        most = int(of_stream.max()) + 1
        busy_ns = sums_by_number(of_stream, duration[rows] * is_computing[rows], most)
        rows = rows[of_stream == busy_ns.argmax()]
        rows = rows[np.argsort(start[rows], kind="stable")]
        opening = opening_kernels(name[rows], pauses_before(start[rows], duration[rows]))
        if opening is not None:
            begun = start[rows[opening]]
            text = texts[name[rows[opening[0]]]]
            of_last = rows[opening[-1] : opening[-1] + int(np.median(np.diff(opening)))]
            last = (start[of_last] + duration[of_last]).max()
            yield StepWindows(None, (number,), text, DETECTED, begun, np.append(begun[1:], last))


def pauses_before(start: Int64s, duration: Int64s) -> Int64s:
    """For how long nothing ran before each of the kernels of a stream, by start; 0 for the first.

    All times are in ns.
    """
    pause = np.zeros(len(start), np.int64)
    # Of millions, in place.
    np.add(start[:-1], duration[:-1], out=pause[1:])
    np.maximum.accumulate(pause[1:], out=pause[1:])
    np.subtract(start[1:], pause[1:], out=pause[1:])
    return np.maximum(pause, 0, out=pause)


def opening_kernels(name: Int64s, pause: Int64s) -> Int64s | None:
    """Indices of the kernels that open a repetition of the launch pattern; None where none.

    The period is the smallest distance at which the sequence of names agrees best with itself, as
    in M. G. Elfeky, W. G. Aref, A. K. Elmagarmid, Periodicity Detection in Time Series Databases,
    IEEE Transactions on Knowledge and Data Engineering 17, 2005; but only distances that are usual
    between kernels of one name are tried.
    Of the names that occur once per period, the one after the longest pauses opens it.

    Args:
        name: A number per kernel name, in the order of the launches.
        pause: For how long nothing ran before each, in ns.
    """
    period = _period(name[:_SAMPLE])
    if period is None:
        return None
    occurrences = _Occurrences(name)
    alike = occurrences.mean(occurrences.gap == period)
    # The first one has no pause before it.
    pauses = occurrences.mean(pause[occurrences.later])
    fitting = np.flatnonzero((occurrences.count >= _LEAST_DETECTED) & (alike >= _ALIKE))
    if not len(fitting):
        return None
    best = fitting[np.lexsort((occurrences.first[fitting], -pauses[fitting]))[0]]
    opening: Int64s = occurrences.of(int(best)).astype(np.int64)
    return opening


class _Occurrences:
    """Where each name occurs; names are numbered.

    Attributes:
        count: How often each name occurs.
        first: Where each name occurs first.
        later: Of two that follow one another, the later one's position.
        gap: How far apart the two are.
    """

    def __init__(self, name: Int64s) -> None:
        kind = index_kind(len(name))
        # Positions, those of one name after one another, and where each name begins among these.
        self._places = np.argsort(name, kind="stable").astype(kind, copy=False)
        self._begins = first_of(self._places, name)
        self.count = np.diff(np.append(self._begins, len(name)))
        self.first = self._places[self._begins]
        self.later = np.delete(self._places, self._begins)
        self.gap = np.delete(np.diff(self._places, prepend=kind(0)), self._begins)
        self._owner = np.repeat(np.arange(len(self.count), dtype=kind), self.count - 1)

    def of(self, number: int) -> Int64s:
        """The positions of a name."""
        begin = self._begins[number]
        return self._places[begin : begin + self.count[number]]

    def mean(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The mean of a value of each gap, by name; 0 where a name occurs once."""
        sums = sums_by_number(self._owner, values, len(self.count))
        means: npt.NDArray[np.float64] = sums / np.maximum(self.count - 1, 1)
        return means

    def median_gap(self) -> Int64s:
        """The usual gap of each name that occurs at least twice, in whole launches."""
        ordered = self.gap[np.lexsort((self.gap, self._owner))]
        gaps = self.count[self.count > 1] - 1
        begin = np.cumsum(gaps) - gaps
        middle = ordered[begin + (gaps - 1) // 2] + ordered[begin + gaps // 2]
        return np.asarray(middle // 2, np.int64)


def _period(name: Int64s) -> int | None:
    if not len(name):
        return None
    occurrences = _Occurrences(name)
    often = occurrences.count[occurrences.count > 1]
    is_often = often >= _LEAST_DETECTED
    values, member = np.unique(occurrences.median_gap()[is_often], return_inverse=True)
    weights = np.bincount(member, often[is_often], len(values)).tolist()
    distances = dict(zip(values.tolist(), weights, strict=True))
    # Most kernels of a step occur in it more than once: long distances are as likely right.
    frequent = sorted(distances, key=lambda d: -distances[d] * d)[:_CANDIDATES]
    fitting = [d for d in frequent if 0 < d <= len(name) // _LEAST_DETECTED]
    scores = {d: float(np.mean(name[:-d] == name[d:])) for d in fitting}
    highest = max(scores.values(), default=0.0)
    good = [d for d, score in scores.items() if score >= max(highest - _BETTER, _ALIKE)]
    return min(good, default=None)
