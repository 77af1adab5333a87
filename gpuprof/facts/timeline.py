"""When each device computed, communicated, transferred and copied locally: sets of instants.

A device's activities are its kernels, its memsets, and every copy whose device, source or
destination it is: a peer copy is on both its ends' timelines. The halves of a staged copy are
each on the timeline of the device that they run on. CUDA graphs that were recorded as a whole
count as compute: what they contain is unknown.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from gpuprof.facts.copies import COPY_READS, Copies, copy_rows
from gpuprof.facts.numbers import Growing, Numbers
from gpuprof.model.analysis import reads
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    attribute,
    covered_within,
    difference,
    intersection,
    single,
    together,
    union,
    unions_by_key,
)
from gpuprof.model.pairs import different
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.schema import Id, Instant

# In the order in which they claim an instant: the first that runs has it.
COMPUTE, COMMUNICATION, TRANSFER, LOCAL_COPY = LAYERS = range(4)
_PLACE: Final = ("start_ns", "end_ns", "device_id")
# Between two activities that follow one another at once lie up to some microseconds.
SHORT_NS: Final = 10_000

# As columns of tables.
DEVICE_ID: Final = Id("CUDA device ordinal; null where none was recorded.")
SLICE: Final = {
    "start_ns": Instant("Start of the slice.", required=True),
    "end_ns": Instant("Its end.", required=True),
}

TIMELINE_READS: Final = reads(
    COPY_READS,
    kernels="start_ns end_ns device_id name name_id",
    graph_launches="start_ns end_ns device_id",
    memsets="start_ns end_ns device_id",
)

# Tables whose activities are all of one layer.
_OF_ONE_LAYER: Final = {"graph_launches": COMPUTE, "memsets": LOCAL_COPY}
_TABLES: Final = ("kernels", "memcpys", *_OF_ONE_LAYER)


@dataclass(frozen=True, eq=False)
class DeviceTimeline:
    """What one device did when.

    Args:
        device_id: The device; None for activities whose device is unknown.
        span: From the start of its first activity to the end of its last; of a part of a
            recording, the windows' share of that.
        busy: For each of `LAYERS`, the instants at which at least one such activity runs.
    """

    device_id: int | None
    span: Intervals
    busy: tuple[Intervals, ...]

    @property
    def number(self) -> int:
        """The device as arrays of integers have it: `UNKNOWN` for none."""
        return UNKNOWN if self.device_id is None else self.device_id

    @cached_property
    def exposed(self) -> tuple[Intervals, ...]:
        """For each of `LAYERS`, the instants at which it runs and none before it does."""
        return tuple(attribute(self.busy))

    @property
    def kernels(self) -> Intervals:
        """The instants at which a kernel runs: computed anew, as there are millions."""
        return together([self.busy[COMPUTE], self.busy[COMMUNICATION]])

    @property
    def kernels_ns(self) -> int:
        """For how long at least one kernel runs, of communication or not."""
        return self.exposed[COMPUTE].length + self.exposed[COMMUNICATION].length

    def kernel_ns(self, start: Int64s, end: Int64s) -> Int64s:
        """For how long at least one kernel runs in each window."""
        of_layers = (
            covered_within(self.exposed[layer], start, end) for layer in (COMPUTE, COMMUNICATION)
        )
        return np.add(*of_layers)

    @property
    def idle(self) -> Intervals:
        """The instants of the span at which nothing runs: computed anew, as there are millions."""
        return self.idle_within(self.span)

    def idle_within(self, part: Intervals, above_ns: int = 0) -> Intervals:
        """The instants of a part of the span at which nothing runs for more than so many ns."""
        compute, *further = self.exposed
        idle = part
        for layer in reversed(further):
            idle = difference(idle, layer)
        # Compute, which leaves millions of gaps, comes last.
        return difference(idle, compute, above_ns)

    @cached_property
    def pauses(self) -> Intervals:
        """Those of ``idle`` that are longer than `SHORT_NS`."""
        return self.idle_within(self.span, SHORT_NS)

    @property
    def short_gaps(self) -> Intervals:
        """The others: computed anew, as there are millions."""
        idle = self.idle
        is_short = idle.end - idle.start <= SHORT_NS
        return Intervals(idle.start[is_short], idle.end[is_short])

    def idle_ns(self, start: Int64s, end: Int64s) -> Int64s:
        """For how long nothing runs in each window."""
        busy = (covered_within(layer, start, end) for layer in self.exposed)
        return covered_within(self.span, start, end) - sum(busy, np.zeros(len(start), np.int64))

    def within(self, windows: Intervals) -> "DeviceTimeline":
        """The same, cut at the borders of windows."""
        return DeviceTimeline(
            self.device_id,
            intersection(self.span, windows),
            tuple(intersection(layer, windows) for layer in self.busy),
        )


@once_per_profile
def timelines(profile: Profile) -> tuple[DeviceTimeline, ...]:
    """The timeline of every device that did anything, by device id; an unknown one comes last.

    Those of a part of a recording are cut at its borders, so that what they cover in adjacent
    windows adds up to what they cover in both.
    """
    if profile.unrestricted is not profile:
        part, recorded = profile.selection, timelines(profile.unrestricted)
        chosen = [line for line in recorded if part.device_id in {None, line.device_id}]
        if part.windows is None:
            return tuple(chosen)
        windows = union([start for start, _ in part.windows], [end for _, end in part.windows])
        return tuple(cut for line in chosen if len((cut := line.within(windows)).span))
    by_device = {**busy_by_device(_activities(profile), len(LAYERS), rows_known(profile))}
    lines = []
    for device_id in sorted(by_device, key=lambda device_id: (device_id is None, device_id)):
        # What one device's pieces took makes room for the next one's.
        busy = by_device.pop(device_id)
        kinds, span = busy.kinds, single(busy.start_ns, busy.end_ns)
        layers = tuple(kinds.get(layer, NOTHING) for layer in LAYERS)
        lines.append(DeviceTimeline(device_id, span, layers))
    return tuple(lines)


def timeline_of(profile: Profile, device_id: int | None) -> DeviceTimeline:
    """The timeline of one device; an empty one where it did nothing."""
    matching = [timeline for timeline in timelines(profile) if timeline.device_id == device_id]
    return matching[0] if matching else DeviceTimeline(device_id, NOTHING, (NOTHING,) * len(LAYERS))


@once_per_recording
def far_ends(profile: Profile) -> tuple[int, ...]:
    """Devices that ran nothing themselves in the whole recording: others copied from or to them.

    Where each process of a job is recorded by itself, such a device works for another one: that
    it idles cannot be told.
    """
    idle = [
        timeline.device_id
        for timeline in timelines(profile)
        if timeline.device_id is not None
        and not any(len(timeline.busy[layer]) for layer in LAYERS if layer != TRANSFER)
    ]
    tables = _TABLES if idle else ()
    for table in filter(profile.has, tables):
        for (ran,) in profile.columns(table, "device_id"):
            idle = [device for device in idle if not np.isin(ran, (device, UNKNOWN)).any()]
    return tuple(idle)


@once_per_recording
def without_kernels(profile: Profile) -> tuple[int, ...]:
    """Devices that ran copies and memsets alone in the whole recording, where others ran kernels.

    None where the device of a kernel is unknown; `far_ends` ran nothing.
    """
    lines = timelines(profile)
    computing = {line.device_id for line in lines if line.kernels_ns}
    if not computing or None in computing:
        return ()
    excluded = {None, *computing, *far_ends(profile)}
    return tuple(line.number for line in lines if line.device_id not in excluded)


def slice_borders(devices: Sequence[DeviceTimeline], slices: int) -> Int64s:
    """Borders of equal slices from the first activity of all devices to the last.

    Returns:
        One more than there are slices; none where no device did anything, fewer where the time
        has not as many ns.
    """
    spans = [timeline.span for timeline in devices if len(timeline.span)]
    if not spans:
        return np.array([], np.int64)
    first = min(int(span.start[0]) for span in spans)
    last = max(int(span.end[-1]) for span in spans)
    return equal_slices(first, last, slices)


def equal_slices(first: int, last: int, slices: int) -> Int64s:
    """Borders of equal slices; fewer where the time has not as many ns."""
    # Computed in integers: they must not lose nanoseconds.
    return np.unique([first + (last - first) * i // slices for i in range(slices + 1)])


def rows_known(profile: Profile) -> int:
    """How many activities there are at most; 0 for unknown."""
    return sum(profile.loaded(table).rows_known() for table in filter(profile.has, _TABLES))


def _activities(profile: Profile) -> Iterator[Sequence[Any]]:
    """Start, end, device and layer of all activities, in pieces."""
    if profile.has("kernels"):
        communicates = profile.loaded("kernels").names.communicates
        for *part, name_id in profile.columns("kernels", *_PLACE, "name_id"):
            # The layers COMPUTE and COMMUNICATION are 0 and 1.
            yield *part, communicates.of(name_id)
    if profile.has("memcpys"):
        for copies in copy_rows(profile).by_device():
            yield copies.start_ns, copies.end_ns, copies.device, layer_of_copies(copies)
    for table, layer in _OF_ONE_LAYER.items():
        if profile.has(table):
            for part in profile.columns(table, *_PLACE):
                yield *part, np.full(len(part[0]), layer, np.int8)


def layer_of_copies(copies: Copies) -> Numbers:
    """The layer of each copy."""
    return np.where(copies.is_transfer, np.int8(TRANSFER), np.int8(LOCAL_COPY))


@dataclass
class Busy:
    """What one device did when.

    Args:
        start_ns: Start of its first activity.
        end_ns: End of its last.
        starts: By kind, where sets of instants begin at which an activity of it runs.
        ends: Where these end.
    """

    start_ns: int
    end_ns: int
    starts: dict[int, Growing] = field(default_factory=lambda: defaultdict(Growing))
    ends: dict[int, Growing] = field(default_factory=lambda: defaultdict(Growing))

    @property
    def kinds(self) -> Mapping[int, Intervals]:
        """By kind, the instants at which at least one activity of it runs."""
        kinds = {}
        for kind, starts in self.starts.items():
            start, end = starts.values, self.ends[kind].values
            # Pieces of an activity's time mostly end before the next ones begin.
            is_apart = (start[1:] > end[:-1]).all()
            kinds[kind] = Intervals(start, end) if is_apart else union(start, end)
        return kinds


def busy_by_device(
    parts: Iterable[Sequence[Any]], kinds: int, rows: int = 0
) -> Mapping[int | None, Busy]:
    """When each device was busy with activities of each kind.

    Args:
        parts: Activities, each part as four arrays: start and end in ns, the device or `UNKNOWN`,
            and the number of a kind.
        kinds: How many kinds there are, numbered from 0.
        rows: How many activities there are, where that is known.

    Returns:
        By device; None stands for activities whose device is unknown.
    """
    devices: dict[int, Busy] = {}
    so_far = 0

    def reaching(device: int, start: Int64s, end: Int64s) -> Busy:
        first, last = int(start.min()), int(end.max())
        busy = devices.setdefault(device, Busy(first, last))
        busy.start_ns, busy.end_ns = min(busy.start_ns, first), max(busy.end_ns, last)
        return busy

    for start, end, device, kind in parts:
        so_far += len(start)
        key = (device.astype(np.int32) - UNKNOWN) * kinds + kind
        for place, covered in unions_by_key(start, end, key):
            number, of_kind = divmod(place, kinds)
            busy = reaching(number + UNKNOWN, covered.start, covered.end)
            gathered = (busy.starts[of_kind], covered.start), (busy.ends[of_kind], covered.end)
            for column, times in gathered:
                if not len(column.values):  # as many will follow as there were in the first piece
                    column.expect(len(times) * rows // so_far)
                column.add(times)
        # What takes no time covers nothing, and yet a device may begin or end with it.
        instants = np.flatnonzero(start == end)
        for number in different(device[instants]).tolist():
            here = instants[device[instants] == number]
            reaching(number, start[here], end[here])
    return {if_known(number): busy for number, busy in devices.items()}
