"""What the lanes of a timeline name: kernels, steps, and NVTX ranges over what they launched."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.lanes import typical_step
from gpuprof.facts.launches import Launches, launches
from gpuprof.facts.numbers import UNNAMED, ByNumber, Numbers, columns_of
from gpuprof.facts.nvtx import OF_ONE_CALL, RANGE_READS, Ranges, named_parts
from gpuprof.facts.phases import PHASE_READS, PhaseSteps, steps_in_part
from gpuprof.facts.range_launches import families, launches_within
from gpuprof.facts.step_windows import masked
from gpuprof.facts.timeline import DEVICE_ID, TIMELINE_READS, timelines
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Instant, Schema, Text, texts

LANE_KERNELS: Final = Schema(
    "lane_kernels",
    "a kernel on a lane of a device; in a large recording the longest of a slice of the time",
    {
        "device_id": DEVICE_ID,
        "lane": Text("compute or communication.", required=True),
        "start_ns": Instant("Its start, or of the first kernel of the slice.", required=True),
        "end_ns": Instant("Its end, or of the last to end.", required=True),
        "name": Text("Demangled name.", required=True),
        "kernels": Count("Kernels that start in the slice; 1 for one.", required=True),
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


KERNELS_ANALYSIS: Final = Analysis(
    "Kernels of each lane",
    LANE_KERNELS,
    ("kernels", "memcpys"),
    lane_kernels,
    reads(PHASE_READS, TIMELINE_READS, kernels="start_ns end_ns device_id name_id"),
)


LANE_RANGES: Final = Schema(
    "lane_ranges",
    "a step, or what an NVTX range launched, on one device",
    {
        "device_id": DEVICE_ID,
        "level": Count("0 for steps; ranges from 1 on, the outer ones first.", required=True),
        "start_ns": Instant("Start of the first activity that it launched.", required=True),
        "end_ns": Instant("End of the last; of a step, as in steps.", required=True),
        "text": Text(
            "Number of the step, or text of the range but for the numbers that PyTorch adds.",
            required=True,
        ),
    },
)
# Of all devices together: a page loads as many at once.
_MOST_STEPS: Final = 4_000
_MOST_RANGES: Final = 6_000
_MOST_LEVELS: Final = 12
_MOST_PER_DEVICE: Final = 3

# Ranges that people named, with the launches in their order and the device of each.
_Named = tuple[Ranges, Launches, Numbers]


def lane_ranges(profile: Profile) -> pa.Table:
    """Lay out steps and NVTX ranges beside the lanes of each device.

    Ranges that mark the steps are not shown again. Of many ranges the longest are shown, those
    that enclose others above them.

    Args:
        profile: Needs ``kernels`` and ``memcpys``, as `lanes` does; ``nvtx_ranges`` and
            ``api_calls`` for ranges.

    Returns:
        Columns as in `LANE_RANGES`, by device, level and start.
    """
    devices = [timeline for timeline in timelines(profile) if len(timeline.span)]
    series = steps_in_part(profile)
    # What runs in a part of a recording may have begun before it.
    recording, named = profile.unrestricted, list[_Named]()
    if recording.has("nvtx_ranges", "api_calls"):
        parts, marks = named_parts(recording), {of_phase.text for of_phase in series}
        is_shown = [masked(text) not in marks for text, _, _ in parts.labels]
        shown = families(parts.labelled(is_shown), launches(recording))
        named = [(of, ordered, ordered.of(ordered.activities.device)) for of, ordered in shown]
    rows = []
    for timeline in devices:
        ends = int(timeline.span.start[0]), int(timeline.span.end[-1])
        of_steps = _steps(series, timeline.number, _MOST_STEPS // len(devices))
        of_ranges = _ranges(named, timeline.number, len(devices))
        for row in (*of_steps, *sorted(of_ranges, key=itemgetter("level", "start_ns"))):
            start, end = max(row["start_ns"], ends[0]), min(row["end_ns"], ends[1])
            if row["end_ns"] > ends[0] and row["start_ns"] < ends[1]:
                cut = {"start_ns": start, "end_ns": end}
                rows.append({"device_id": timeline.device_id, **row, **cut})
    return LANE_RANGES.table(rows)


def _steps(series: tuple[PhaseSteps, ...], device: int, most: int) -> list[dict[str, Any]]:
    """The steps in which a device works; of too many, those that follow one another as one."""
    all_steps = sorted(
        (int(start), int(end), int(number))
        for of_phase in series
        if device in of_phase.phase.devices
        for start, end, number in zip(
            of_phase.start_ns, of_phase.end_ns, of_phase.number, strict=True
        )
    )
    size = -(-len(all_steps) // most) or 1
    groups = (all_steps[first : first + size] for first in range(0, len(all_steps), size))
    return [
        {
            "level": 0,
            "start_ns": group[0][0],
            "end_ns": group[-1][1],
            "text": f"step {group[0][2]}" + f" to {group[-1][2]}" * (len(group) > 1),
        }
        for group in groups
    ]


def _ranges(named: list[_Named], device: int, devices: int) -> Iterator[dict[str, Any]]:
    """The longest ranges that launched something on a device, each on the first free level."""
    pieces: list[list[Numbers]] = [[np.empty(0, np.int64)] * 3]
    for family, ordered, of_device in named:
        launched = ordered.take(np.flatnonzero(of_device == device))
        # Most threads launch on one device.
        rows = [
            rows
            for lane, rows in family.lanes.items()
            for low, high in [launched.bounds.get(lane, (0, 0))]
            if high > low
        ]
        working = family.take(np.sort(np.concatenate([*rows, np.empty(0, np.int64)])))
        spans = launches_within(working, launched)
        columns = (*spans.extent(launched), working.label)
        pieces.append([column[spans.last > spans.first] for column in columns])
    start_ns, end_ns, label = (np.concatenate(column) for column in zip(*pieces, strict=True))
    length, most = end_ns - start_ns, _MOST_RANGES // devices
    # Of equal ones the first; only those are sorted that may be among the longest.
    longest = np.arange(len(length))
    if len(length) > most:
        longest = np.flatnonzero(length >= np.partition(length, -most)[-most])
    longest = longest[np.argsort(-length[longest], kind="stable")[:most]]
    order = longest[np.lexsort((-length[longest], start_ns[longest]))]
    levels = max(1, min(_MOST_PER_DEVICE, _MOST_LEVELS // devices))
    ends = [int(start_ns.min(initial=0))] * levels
    for place in order.tolist():
        start, end = int(start_ns[place]), int(end_ns[place])
        level = next((level for level, taken in enumerate(ends) if taken <= start), None)
        if level is None:
            continue
        ends[level] = end
        text = OF_ONE_CALL.sub("", named[0][0].labels[label[place]][0])
        yield {"level": level + 1, "start_ns": start, "end_ns": end, "text": text or "unnamed"}


RANGES_ANALYSIS: Final = Analysis(
    "Steps and NVTX ranges of each device",
    LANE_RANGES,
    ("kernels", "memcpys"),
    lane_ranges,
    reads(PHASE_READS, RANGE_READS, TIMELINE_READS),
)
