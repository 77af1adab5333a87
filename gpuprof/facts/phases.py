"""Phases of a recording: steps of one kind; each whole one past the warm-up is a sample.

Steps are those of `step_windows`. They are of one kind where ranges of the same text mark or
enclose them, kernels run on the same devices, most of these kernels are the same, and the steps
take similar times.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.errors import UsageError
from gpuprof.base.statistics import median, quantiles
from gpuprof.facts.launches import launches, lost_threads
from gpuprof.facts.numbers import columns_of, groups, pieces, rows_by
from gpuprof.facts.nvtx import NO_RANGE, named_parts
from gpuprof.facts.range_launches import families, holding, launches_within
from gpuprof.facts.recorded_steps import RecordedSteps, recorded_steps
from gpuprof.facts.step_times import (
    CUT,
    LEAST_STEPS,
    SAMPLE,
    SIMILAR,
    UNUSUAL,
    WARM_UP,
    by_level,
    kinds,
    mixes,
)
from gpuprof.facts.step_windows import (
    DETECTED,
    STEP_READS,
    StepWindows,
    between_marks,
    by_period,
    masked,
    step_windows,
)
from gpuprof.facts.timeline import COMMUNICATION, COMPUTE, TIMELINE_READS, DeviceTimeline, timelines
from gpuprof.model.analysis import reads
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, covered_within
from gpuprof.model.pairs import NOT_FOUND, distinct, places_in
from gpuprof.model.profile import Profile, once_per_recording

PHASE_READS: Final = reads(STEP_READS, TIMELINE_READS, kernels="start_ns device_id name_id")

# Steps of two devices are the same ones where so many of them match.
_MATCHING: Final = 0.8
# A step at the recording's ends with less than that of the kernel time of any neighbour is cut off.
_COMPLETE: Final = 0.9
_NEIGHBOURS: Final = 10
# The kernel time of half of the inferred steps differs by no more than that share of it.
_MOST_SPREAD: Final = 0.5
# So many steps do not grow one after another by chance, nor by so much.
_LEAST_SWEEP: Final = 5
_SWEEP: Final = 2
_FAR: Final = 3
_QUARTILES: Final = (0.25, 0.5, 0.75)
_LONGER: Final = 1.1
# Names of kernels are told apart by so many numbers; fewer where there are very many steps.
_NUMBERS: Final = 64
# Every so many-th kernel counts: in few numbers chance matters less.
_NUMBERS_OF_SOME: Final = 16
_MOST_COUNTS: Final = 1 << 24
# So many kernels tell their mix.
_MOST_KERNELS: Final = 1 << 20
_KERNELS_PER_STEP: Final = 1 << 9

_Flags = npt.NDArray[np.bool_]
_Devices = Mapping[int, DeviceTimeline]


@dataclass(frozen=True, eq=False)
class Phase:
    """Steps of one kind: same marks, similar length, same kernel mix and devices.

    Args:
        name: What people call it: the text, with # for digits, of the ranges that mark its steps
            or that enclose the inferred ones; the name of a kernel where there are none.
        process_id: The process; None where steps were inferred or it is unknown.
        devices: Devices that work in its steps; `UNKNOWN` where none was recorded.
        source: `step_windows.FROM_RANGES` or `step_windows.DETECTED`.
        start_ns: Start of each sample in order: whole steps of it, past the warm-up.
        end_ns: End of each; at most the start of the next.
        span: From the first to the end of the last of all its steps, warm-up and those that
            are cut off included.
        warm_up_ns: Time of the steps at its beginning that are set aside.
        warm_up_steps: How many these are.
        cut_steps: Steps that the recording's ends cut off.
        between: When the host is between the marks of its steps, where that is a part of them: a
            step is the period from the start of one to that of the next.
    """

    name: str
    process_id: int | None
    devices: tuple[int, ...]
    source: str
    start_ns: Int64s
    end_ns: Int64s
    span: tuple[int, int]
    warm_up_ns: int
    warm_up_steps: int
    cut_steps: int
    between: Intervals = NOTHING

    @cached_property
    def step_ns(self) -> int:
        """The median length of the samples; 0 where there are none."""
        return int(median(self.end_ns - self.start_ns)) if len(self.start_ns) else 0


@dataclass(frozen=True, eq=False)
class PhaseSteps:
    """Every step of a phase, in order.

    Args:
        phase: The phase.
        text: What marks a step: the ranges' text with # for digits, or a kernel's name.
        number: Which step of its process, or of the inferred ones, each is; 0 for the first.
        start_ns: Start of each.
        end_ns: End of each.
        status: `SAMPLE`, `WARM_UP`, `CUT` or `UNUSUAL`.
    """

    phase: Phase
    text: str
    number: Int64s
    start_ns: Int64s
    end_ns: Int64s
    status: npt.NDArray[np.int8]

    @property
    def is_sample(self) -> npt.NDArray[np.bool_]:
        """Which of them are samples."""
        return np.asarray(self.status == SAMPLE)

    @cached_property
    def outliers(self) -> Int64s:
        """Indices of the samples that take far longer than most, the longest first.

        These are beyond the upper quartile by three times the range between the quartiles, and a
        tenth longer than the median. Source: J. W. Tukey, Exploratory Data Analysis, 1977.
        """
        samples = np.flatnonzero(self.is_sample)
        if len(samples) < LEAST_STEPS:
            return samples[:0]
        length = (self.end_ns - self.start_ns)[samples]
        low, middle, high = quantiles(length, *_QUARTILES)
        is_far = length > max(high + _FAR * (high - low), _LONGER * middle)
        far: Int64s = samples[is_far]
        return far[np.argsort(-length[is_far], kind="stable")]

    def by_period(self) -> "PhaseSteps":
        """The same, each step up to the start of the next where that is of this phase, too."""
        follows = np.diff(self.number) == 1
        end = np.where(follows, self.start_ns[1:], self.end_ns[:-1])
        return _summed(replace(self, end_ns=np.append(end, self.end_ns[-1:])))

    def take(self, rows: Int64s) -> "PhaseSteps":
        """Some of the steps, at least one, with a phase of these alone."""
        times = self.number[rows], self.start_ns[rows], self.end_ns[rows]
        return _summed(PhaseSteps(self.phase, self.text, *times, self.status[rows]))


def phases(profile: Profile) -> tuple[Phase, ...]:
    """The phases of the whole recording that have samples, that of the longest time first.

    A step is no sample that the recording cuts off: one without the work of its neighbours at
    the recording's ends, one that ends after the calls of a thread are lost, and the last of steps
    without pauses between them, as the next one, which would end it, was not recorded.

    Returns:
        None where nothing names steps and nothing repeats.

    Raises:
        UsageError: The profile leaves out all steps of each phase.
    """
    return tuple(steps.phase for steps in steps_by_phase(profile) if len(steps.phase.start_ns))


@once_per_recording
def steps_by_phase(profile: Profile) -> tuple[PhaseSteps, ...]:
    """All steps of each phase, those of phases without samples last.

    Raises:
        UsageError: As in `phases`.
    """
    if (of_recording := recorded_steps(profile)) is not None:
        at_work = {device.number for device in timelines(profile)}
        return tuple(_of_slice(profile, of) for of in of_recording if at_work >= {*of.devices})
    devices = {d.number: d for d in timelines(profile)}
    joined = [*_joined(step_windows(profile), devices)]
    by_phase = [
        steps
        for series, counts in zip(joined, _kernels_by_step(joined, profile), strict=True)
        for steps in _phases_of(series, counts, devices, profile)
    ]
    by_phase.sort(
        key=lambda steps: (
            -int(np.sum(steps.phase.end_ns - steps.phase.start_ns)),
            steps.start_ns[0],
        )
    )
    if profile.skip_steps and by_phase and not len(by_phase[0].phase.start_ns):
        most = max(int((steps.status == WARM_UP).sum()) for steps in by_phase)
        msg = f"{profile.origin.source}: there are no steps after the first {profile.skip_steps}"
        raise UsageError(msg, f"Its longest phase has {most}: --skip-steps takes fewer.")
    return tuple(by_phase)


def _of_slice(profile: Profile, of: RecordedSteps) -> PhaseSteps:
    """The steps of a phase that a file of a part of a recording keeps."""
    none, between = of.start_ns[:0], between_marks(profile, of) if of.is_period else NOTHING
    process = if_known(of.process)
    phase = Phase(of.name, process, of.devices, of.source, none, none, (0, 0), 0, 0, 0, between)
    return _summed(
        PhaseSteps(phase, of.text, of.number, of.start_ns, of.end_ns, of.status.astype(np.int8))
    )


def steps_in_part(profile: Profile) -> tuple[PhaseSteps, ...]:
    """The steps of each phase that start in the part of the recording that is looked at.

    Raises:
        UsageError: As in `phases`.
    """
    by_phase, part = steps_by_phase(profile), profile.selection
    if part.windows is None:
        return by_phase
    starting = ((steps, np.flatnonzero(part.holds(steps.start_ns))) for steps in by_phase)
    return tuple(steps.take(rows) for steps, rows in starting if len(rows))


def per_step(intervals: Intervals, phase: Phase) -> Int64s:
    """How many ns of a set of instants lie in each sample of a phase."""
    return covered_within(intervals, phase.start_ns, phase.end_ns)


def _joined(step_series: Sequence[StepWindows], devices: _Devices) -> Iterator[StepWindows]:
    """Steps; those that were inferred on several devices at once as those of the busiest one."""
    yield from (series for series in step_series if series.source != DETECTED)
    detected = [series for series in step_series if series.source == DETECTED]
    detected.sort(
        key=lambda series: -sum(layer.length for layer in _kernels(devices[series.devices[0]]))
    )
    while detected:
        busiest, *less_busy = detected
        detected, matching = [], [busiest]
        for series in less_busy:
            # The same steps, one by one, wherever there are any.
            place = np.searchsorted(busiest.start_ns, series.start_ns, side="right")
            met = np.bincount(place)
            is_match = np.mean(met[met > 0] == 1) >= _MATCHING
            (matching if is_match else detected).append(series)
        # The busiest device stays the first.
        yield replace(busiest, devices=tuple(d for series in matching for d in series.devices))


def _kernels(device: DeviceTimeline) -> tuple[Intervals, ...]:
    return device.busy[COMPUTE], device.busy[COMMUNICATION]


def _kernels_by_step(
    step_series: Sequence[StepWindows], profile: Profile
) -> Iterator[tuple[Int64s, Int64s]]:
    """The numbers of kernels that run on the devices of steps, and how many in each step.

    The counts have a row per step. Of a large recording every so many-th kernel stands for all.
    """
    steps = sum(len(series.start_ns) for series in step_series)
    stride = max(1, profile.events // max(_MOST_KERNELS, _KERNELS_PER_STEP * steps))
    columns, has_kernels = ("start_ns", "device_id", "name_id"), profile.has("kernels")
    kernels = profile.columns("kernels", *columns) if has_kernels else ()
    # Each piece may have one more than its share; room that is not needed takes no memory.
    rows = profile.loaded("kernels").rows_known() if has_kernels else 0
    parts = ([column[::stride].copy() for column in part] for part in kernels)
    start, device, name = columns_of(parts, len(columns), rows)
    numbers, different_names = _NUMBERS if stride == 1 else _NUMBERS_OF_SOME, distinct(name)
    on_device = rows_by(device)

    def counted(series: StepWindows) -> tuple[Int64s, Int64s]:
        number = max(1, min(numbers, _MOST_COUNTS // len(series.start_ns)))
        different_numbers = distinct(different_names % number)
        place = np.zeros(number, np.int64)
        place[different_numbers] = np.arange(len(different_numbers))
        counts = np.zeros(len(series.start_ns) * len(different_numbers), np.int64)
        for of_device in (on_device.get(of, np.empty(0, np.int64)) for of in series.devices):
            for rows in (of_device[piece] for piece in pieces(len(of_device))):
                step = np.searchsorted(series.start_ns, start[rows], side="right") - 1
                is_inside = (step >= 0) & (start[rows] < series.end_ns[step])
                column = place[name[rows[is_inside]] % number]
                np.add.at(counts, step[is_inside] * len(different_numbers) + column, 1)
        return different_numbers, counts.reshape(len(series.start_ns), len(different_numbers))

    # By a function, whose arrays are gone when the counts of steps are looked at.
    return map(counted, step_series)


def _phases_of(
    series: StepWindows, counts: tuple[Int64s, Int64s], devices: _Devices, profile: Profile
) -> Iterator[PhaseSteps]:
    """The phases of the steps of one process, or of inferred steps."""
    # The runs of a program that tries one size of a problem after another take longer and longer,
    # or shorter: none stands for the others. The last one may lack what follows it.
    length = (series.end_ns - series.start_ns)[:-1]
    growth = np.diff(length)
    is_one_way = (growth > 0).all() or (growth < 0).all()
    is_sweep = len(length) >= _LEAST_SWEEP and length.max() >= _SWEEP * length.min()
    if series.source == DETECTED and is_one_way and is_sweep:
        return
    step_devices = [devices[device] for device in series.devices]
    names, name, section = _names(series, profile)
    busy = np.stack([_times(series, _kernels(device)) for device in step_devices])
    series = by_period(series)
    is_cut = _cut(series, busy.sum(axis=0), [device.span for device in step_devices])
    # Steps lack what a thread launched after its calls were lost.
    lost = lost_threads(profile).items()
    lost_ns = [last_ns for of, (_, last_ns) in lost if series.process_id in (None, of)]
    is_cut |= series.end_ns > min(lost_ns, default=np.iinfo(np.int64).max)
    kind, is_unusual = kinds(groups(name, mixes(*counts), *(busy > 0).astype(np.int8)), is_cut)
    length = series.end_ns - series.start_ns
    if _ends_with_next(series):
        # An inferred step may end with what lies between two phases.
        usual = np.empty(len(kind))
        for rows in groups(kind):
            usual[rows] = median(length[rows])
        is_last = (kind[1:] != kind[:-1]) | (section[1:] != section[:-1])
        is_unusual |= np.append(is_last, False) & (length > SIMILAR * usual)
    status = np.where(is_cut, CUT, np.where(is_unusual, UNUSUAL, SAMPLE)).astype(np.int8)
    phase, status = by_level(kind, section, status, length, profile.skip_steps)
    runs = np.stack([_times(series, device.busy) > 0 for device in step_devices])
    for rows in groups(phase):
        samples = rows[status[rows] == SAMPLE]
        chosen = samples if len(samples) else rows
        if len(samples) and not median(length[samples]):
            continue  # their work begins at once: no time passes from one to the next
        if series.source != DETECTED or _is_regular(busy.sum(axis=0)[samples]):
            yield _steps_of(series, names[name[chosen[0]]], rows, status, runs)


def _ends_with_next(series: StepWindows) -> bool:
    """Whether each step ends where the next one starts, so that one may end with a pause."""
    return series.source == DETECTED or bool(len(series.between))


def _is_regular(busy: Int64s) -> bool:
    """Whether inferred steps are regular: three or more, with kernels as long in half of them."""
    if len(busy) < LEAST_STEPS:
        return False
    low, middle, high = quantiles(busy, *_QUARTILES)
    return bool(high - low <= _MOST_SPREAD * middle)


def _steps_of(
    series: StepWindows,
    name: str,
    rows: Int64s,
    status: npt.NDArray[np.int8],
    runs: _Flags,
) -> PhaseSteps:
    """Some steps as a phase; ``runs`` has a row per device."""
    start, end, status = series.start_ns[rows], series.end_ns[rows], status[rows]
    is_sample = status == SAMPLE
    if _ends_with_next(series) and is_sample.any():
        usual = int(median((end - start)[is_sample]))
        end = np.where(status == UNUSUAL, np.minimum(end, start + usual), end)
    is_often = runs[:, rows].mean(axis=1) > 1 / 2
    working = [device for device, is_so in zip(series.devices, is_often, strict=True) if is_so]
    phase = Phase(
        name,
        series.process_id,
        tuple(sorted(working or series.devices)),
        series.source,
        *(start[:0], end[:0], (0, 0), 0, 0, 0),
        series.between,
    )
    return _summed(PhaseSteps(phase, series.text, rows, start, end, status))


def _summed(steps: PhaseSteps) -> PhaseSteps:
    """The same with a phase of these steps alone."""
    start, end = steps.start_ns, steps.end_ns
    is_sample, is_warm_up = steps.is_sample, steps.status == WARM_UP
    phase = replace(
        steps.phase,
        start_ns=start[is_sample],
        end_ns=end[is_sample],
        span=(int(start[0]), int(end[-1])),
        warm_up_ns=int((end - start)[is_warm_up].sum()),
        warm_up_steps=int(is_warm_up.sum()),
        cut_steps=int((steps.status == CUT).sum()),
    )
    return replace(steps, phase=phase)


def _times(series: StepWindows, layers: Sequence[Intervals]) -> Int64s:
    """How many ns of some layers of a device lie in each step, added up."""
    times = [covered_within(layer, series.start_ns, series.end_ns) for layer in layers]
    return np.asarray(np.sum(times, axis=0))


def _names(series: StepWindows, profile: Profile) -> tuple[list[str], Int64s, Int64s]:
    """What steps are called.

    Returns:
        Names, and for each step the place of its name and the number of the range from which it
        has it; inferred steps have it from the range around them.
    """
    steps = len(series.start_ns)
    if series.source != DETECTED or not profile.has("nvtx_ranges", "api_calls"):
        return [series.text], np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    parts, launched = named_parts(profile), launches(profile)
    work, layer = launched.activities, launched.activities.layer
    is_opening = np.zeros(len(launched.order), bool)
    for rows in pieces(len(is_opening)):
        at = launched.order[rows]
        is_opening[rows] = places_in(series.start_ns, work.start_ns[at]) != NOT_FOUND
        is_opening[rows] &= (work.device[at] == series.devices[0]) & (layer[at] == COMPUTE)
    openings = launched.take(np.flatnonzero(is_opening))
    label, section = np.full(steps, NO_RANGE), np.full(steps, NO_RANGE)
    for ranges, ordered in families(parts, openings):
        spans = launches_within(ranges, ordered)
        around = ranges.take(np.flatnonzero(spans.last - spans.first >= LEAST_STEPS))
        place = np.searchsorted(series.start_ns, ordered.of(work.start_ns))
        section[place] = holding(around, ordered)
        label[place] = np.append(around.label, NO_RANGE)[section[place]]
    texts = [*(masked(text) for text, _, _ in parts.labels), series.text]
    names = sorted({texts[index] for index in label.tolist()})
    places = {name: number for number, name in enumerate(names)}
    return names, np.array([places[texts[index]] for index in label.tolist()]), section


def _cut(series: StepWindows, busy: Int64s, spans: Sequence[Intervals]) -> _Flags:
    """Which steps the recording's ends cut off.

    ``busy`` is how long kernels run in each; spans are those of devices.
    """
    start, end = series.start_ns, series.end_ns
    usual = median(end - start)
    is_cut = np.zeros(len(start), bool)
    is_cut[-1] = len(start) > 1 and median(start[1:] - end[:-1]) == 0
    # Activities of no length leave a device without a span.
    spans = [span for span in spans if len(span)]
    if len(start) < LEAST_STEPS or not spans:
        return is_cut
    if min(int(span.start[0]) for span in spans) > start[0] - usual:
        is_cut[0] = busy[0] < _COMPLETE * busy[1 : 1 + _NEIGHBOURS].min()
    if max(int(span.end[-1]) for span in spans) < end[-1] + usual:
        is_cut[-1] |= busy[-1] < _COMPLETE * busy[-1 - _NEIGHBOURS : -1].min()
    return is_cut
