"""Which kernels the lanes of a timeline show: each one, or the longest of each slice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.analyses.lanes import LANES
from gpuprof.base.cuda import is_communication
from gpuprof.facts.numbers import UNNAMED, ByNumber, Names, columns_of, names_by_number
from gpuprof.facts.timeline import TIMELINE_READS, timelines
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema, instant_column, texts

LANE_KERNELS: Final = Schema(
    "lane_kernels",
    "a kernel on a lane of a device; in a large recording the longest of a slice of the time",
    {
        "device_id": LANES.columns["device_id"],
        "lane": Column(TEXT, "", "compute or communication.", required=True),
        "start_ns": instant_column(
            "Its start, or of the first kernel of the slice.", required=True
        ),
        "end_ns": instant_column("Its end, or of the last to end.", required=True),
        "name": Column(TEXT, "", "Demangled name.", required=True),
        "kernels": Column(INT, "1", "Kernels that start in the slice; 1 for one.", required=True),
    },
)
_LANES: Final = ("compute", "communication")
# Rows of all lanes together: more than a screen has columns, few enough to load at once.
_MOST_ROWS: Final = 20_000
# Durations and names share a number, so that the longest kernel of a slice is its greatest.
_NAME_BITS: Final = 20
_LONGEST_NS: Final = (1 << (62 - _NAME_BITS)) - 1
_ABSENT: Final = -1
_LATEST: Final = np.iinfo(np.int64).max


class _Rows(NamedTuple):
    """The columns of the result, lanes and names by their places."""

    lane: Int64s
    start_ns: Int64s
    end_ns: Int64s
    name: Int64s
    kernels: Int64s


# Place of the lane, start and end in ns, and the place of the name.
_Part = Sequence[Any]


def lane_kernels(profile: Profile) -> pa.Table:
    """Name the kernels on the lanes of each device, for whoever points at them.

    Args:
        profile: Needs ``kernels`` and ``memcpys``, as `lanes` does.

    Returns:
        Columns as in `LANE_KERNELS`, by device, lane and start: one row per kernel, or, of more
        than 20,000 kernels, per slice in which any starts. No rows where no kernel ran.
    """
    devices = [timeline for timeline in timelines(profile) if len(timeline.span)]
    if not devices:
        return LANE_KERNELS.empty()
    first = min(int(timeline.span.start[0]) for timeline in devices)
    last = max(int(timeline.span.end[-1]) for timeline in devices)
    numbers = np.array(sorted(timeline.number for timeline in devices), np.int64)
    # What runs in a part of a recording may have begun before it.
    recording = profile.unrestricted
    kernels = partial(_kernels, recording, numbers, (first, last))
    slices = _Slices.of(len(_LANES) * len(numbers), last - first)
    for lane, start, end, name in kernels():
        slices.add(lane, start, end, name, first)
    is_small = slices.kernels.sum() <= _MOST_ROWS
    return _table(recording, numbers, _of_each_kernel(kernels()) if is_small else slices.rows())


def _of_each_kernel(kernels: Iterator[_Part]) -> _Rows:
    """A row for each kernel."""
    lane, start, end, name = columns_of(kernels, 4)
    order = np.lexsort((start, lane))
    single = np.ones(len(order), np.int64)
    return _Rows(lane[order], start[order], end[order], name[order], single)


@dataclass(frozen=True, eq=False)
class _Slices:
    """What starts in each slice of each lane.

    Args:
        per_lane: Slices of a lane.
        width_ns: Their length.
        start_ns: Start of the first kernel of each.
        end_ns: End of the last one to end.
        longest: Duration and place of the name of the longest one.
        kernels: How many start in it.
    """

    per_lane: int
    width_ns: int
    start_ns: Int64s
    end_ns: Int64s
    longest: Int64s
    kernels: Int64s

    @staticmethod
    def of(lanes: int, length_ns: int) -> "_Slices":
        """Slices in which nothing starts."""
        per_lane = max(_MOST_ROWS // lanes, 1)
        ends = (np.full(lanes * per_lane, value, np.int64) for value in (_LATEST, -_LATEST))
        zeros = (np.zeros(lanes * per_lane, np.int64) for _ in range(2))
        return _Slices(per_lane, -(-length_ns // per_lane) or 1, *ends, *zeros)

    def add(self, lane: Int64s, start: Int64s, end: Int64s, name: Int64s, first: int) -> None:
        """Add kernels of lanes whose time begins at ``first``."""
        slice_of_lane = np.minimum((start - first) // self.width_ns, self.per_lane - 1)
        place = lane * self.per_lane + slice_of_lane
        duration = np.minimum(end - start, _LONGEST_NS)
        np.minimum.at(self.start_ns, place, start)
        np.maximum.at(self.end_ns, place, end)
        np.maximum.at(self.longest, place, (duration << _NAME_BITS) | name)
        self.kernels[:] += np.bincount(place, minlength=len(self.kernels))

    def rows(self) -> _Rows:
        """A row for each slice in which something starts."""
        chosen = np.flatnonzero(self.kernels)
        name = self.longest[chosen] & ((1 << _NAME_BITS) - 1)
        times = self.start_ns[chosen], self.end_ns[chosen]
        return _Rows(chosen // self.per_lane, *times, name, self.kernels[chosen])


def _table(profile: Profile, devices: Int64s, rows: _Rows) -> pa.Table:
    """The rows by lane and start.

    Args:
        profile: The recording.
        devices: Numbers of the devices, which have a lane of each kind.
        rows: With the places of lanes and names.
    """
    names = _texts(names_by_number(profile, "kernels"))
    device = devices[rows.lane // len(_LANES)]
    columns: dict[str, Any] = {
        "device_id": pa.array(device, pa.int64(), mask=device == UNKNOWN),
        "lane": texts([_LANES[place] for place in (rows.lane % len(_LANES)).tolist()]),
        "start_ns": rows.start_ns,
        "end_ns": rows.end_ns,
        "name": texts([names[place] for place in rows.name.tolist()]),
        "kernels": rows.kernels,
    }
    return LANE_KERNELS.conform(pa.table(columns))


def _texts(names: Names) -> list[str]:
    """Each name once; the last one stands for all that have none."""
    return [*sorted({*names.names})[: (1 << _NAME_BITS) - 1], UNNAMED]


def _kernels(profile: Profile, devices: Int64s, ends: tuple[int, int]) -> Iterator[_Part]:
    """The kernels of some devices and a part of the time in pieces, cut at its ends."""
    first, last = ends
    names = names_by_number(profile, "kernels")
    all_texts = _texts(names)
    place = {text: number for number, text in enumerate(all_texts)}
    unnamed = len(all_texts) - 1
    places = names.values(lambda name: place.get(name, unnamed), unnamed)
    communicates = names.values(is_communication, 0)
    lanes = ByNumber(devices.tolist(), range(len(devices)), _ABSENT)
    for part in profile.integers("kernels", "start_ns", "end_ns", "device_id", "name_id"):
        start, end, device, number = part
        # A kernel of no length may begin or end a device's time.
        is_inside = ((end > first) & (start < last)) | (
            (start == end) & (start >= first) & (start <= last)
        )
        lane = lanes.of(device)
        is_inside &= lane != _ABSENT
        if not is_inside.all():
            lane, start, end, number = (c[is_inside] for c in (lane, start, end, number))
        yield (
            lane.astype(np.int64) * len(_LANES) + communicates.of(number),
            np.maximum(start, first),
            np.minimum(end, last),
            places.of(number).astype(np.int64),
        )


ANALYSIS: Final = Analysis(
    "Kernels of each lane",
    LANE_KERNELS,
    ("kernels", "memcpys"),
    lane_kernels,
    reads(TIMELINE_READS, kernels="start_ns end_ns device_id name_id"),
)
