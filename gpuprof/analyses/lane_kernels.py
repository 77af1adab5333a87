"""Which kernels the lanes of a timeline show: each one, or the longest of each slice."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.lanes import typical_step
from gpuprof.facts.numbers import UNNAMED, ByNumber, columns_of
from gpuprof.facts.phases import PHASE_READS
from gpuprof.facts.timeline import DEVICE_ID, TIMELINE_READS, timelines
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema, instant_column, texts

LANE_KERNELS: Final = Schema(
    "lane_kernels",
    "a kernel on a lane of a device; in a large recording the longest of a slice of the time",
    {
        "device_id": DEVICE_ID,
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


def lane_kernels(profile: Profile) -> pa.Table:
    """Name the kernels on the lanes of each device, for whoever points at them.

    Args:
        profile: Needs ``kernels`` and ``memcpys``, as `lanes` does.

    Returns:
        Columns as in `LANE_KERNELS`, by device, lane and start: one row per kernel, or, of more
        than 20,000 kernels, per slice in which any starts. Where there is a typical step, half of
        the slices are its own. No rows where no kernel ran.
    """
    devices = [timeline for timeline in timelines(profile) if len(timeline.span)]
    if not devices:
        return LANE_KERNELS.empty()
    first = min(int(timeline.span.start[0]) for timeline in devices)
    last = max(int(timeline.span.end[-1]) for timeline in devices)
    numbers = np.array(sorted(timeline.number for timeline in devices), np.int64)
    # What runs in a part of a recording may have begun before it.
    recording = profile.unrestricted
    # Each name once; the last one stands for all that have none.
    names = sorted({*recording.loaded("kernels").names.texts})
    names = [*names[: (1 << _NAME_BITS) - 1], UNNAMED]
    kernels_in_parts = partial(_kernels, recording, numbers, names, first, last)
    times = [(first, last)]
    is_small = 0 < profile.loaded("kernels").rows_known() <= _MOST_ROWS
    if not is_small and (step := typical_step(profile)) is not None:
        times.append(step[2:])
    rows = _of_slices(kernels_in_parts(), len(_LANES) * len(numbers), times)
    if rows[-1].sum() <= _MOST_ROWS:
        lane, start, end, name = columns_of(kernels_in_parts(), 4)
        order = np.lexsort((start, lane))
        rows = (*(column[order] for column in (lane, start, end, name)), np.ones_like(order))
    lane, start, end, name, kernels = rows
    device = numbers[lane // len(_LANES)]
    columns: dict[str, Any] = {
        "device_id": pa.array(device, pa.int64(), mask=device == UNKNOWN),
        "lane": texts([_LANES[place] for place in (lane % len(_LANES)).tolist()]),
        "start_ns": start,
        "end_ns": end,
        "name": texts([names[place] for place in name.tolist()]),
        "kernels": kernels,
    }
    return LANE_KERNELS.conform(pa.table(columns))


def _of_slices(
    parts: Iterator[Sequence[Int64s]], lanes: int, times: Sequence[tuple[int, int]]
) -> tuple[Int64s, ...]:
    """Of each slice of a lane in which a kernel starts, what starts in it.

    Args:
        parts: Lane, start, end and name of kernels, in pieces.
        lanes: How many there are.
        times: From when to when all slices are, and perhaps a part of that with slices of its own,
            as many as there are of the whole time.

    Returns:
        Lane, first start, last end, name of the longest, and number of kernels, by the first two.
    """
    per_lane = max(_MOST_ROWS // lanes // len(times), 1)
    widths_ns = [-(-(last - first) // per_lane) or 1 for first, last in times]
    of_lane = per_lane * len(times)
    starts, ends = (np.full(lanes * of_lane, value, np.int64) for value in (_LATEST, -_LATEST))
    longest, kernels = np.zeros((2, lanes * of_lane), np.int64)
    for lane, start, end, name in parts:
        offset = np.minimum((start - times[0][0]) // widths_ns[0], per_lane - 1)
        for number, (first, last) in enumerate(times[1:], start=1):
            is_within = (start >= first) & (start < last)
            offset[is_within] = per_lane * number + (start[is_within] - first) // widths_ns[number]
        place = lane * of_lane + offset
        duration = np.minimum(end - start, _LONGEST_NS)
        np.minimum.at(starts, place, start)
        np.maximum.at(ends, place, end)
        np.maximum.at(longest, place, (duration << _NAME_BITS) | name)
        kernels += np.bincount(place, minlength=len(kernels))
    chosen = np.flatnonzero(kernels)
    chosen = chosen[np.lexsort((starts[chosen], chosen // of_lane))]
    name = longest[chosen] & ((1 << _NAME_BITS) - 1)
    return chosen // of_lane, starts[chosen], ends[chosen], name, kernels[chosen]


def _kernels(
    profile: Profile, devices: Int64s, names: Sequence[str], first: int, last: int
) -> Iterator[Sequence[Any]]:
    """Lane, start, end and name of kernels of a part of the time, cut at its ends, in pieces."""
    numbered = profile.loaded("kernels").names
    place, unnamed = {text: number for number, text in enumerate(names)}, len(names) - 1
    places = numbered.values(lambda name: place.get(name, unnamed), unnamed)
    lanes = ByNumber(devices.tolist(), range(len(devices)), _ABSENT)
    columns = ("start_ns", "end_ns", "device_id", "name_id")
    for start, end, device, number in profile.columns("kernels", *columns):
        # A kernel of no length may begin or end a device's time.
        is_inside = ((end > first) & (start < last)) | (
            (start == end) & (start >= first) & (start <= last)
        )
        lane = lanes.of(device)
        is_inside &= lane != _ABSENT
        part = lane, start, end, number
        if not is_inside.all():
            part = tuple(column[is_inside] for column in part)
        yield (
            part[0].astype(np.int64) * len(_LANES) + numbered.communicates.of(part[3]),
            np.maximum(part[1], first),
            np.minimum(part[2], last),
            places.of(part[3]).astype(np.int64),
        )


ANALYSIS: Final = Analysis(
    "Kernels of each lane",
    LANE_KERNELS,
    ("kernels", "memcpys"),
    lane_kernels,
    reads(PHASE_READS, TIMELINE_READS, kernels="start_ns end_ns device_id name_id"),
)
