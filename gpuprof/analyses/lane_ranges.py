"""The steps and NVTX ranges of a timeline, over the time of what they launched on each device."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.launches import Launches, launches
from gpuprof.facts.numbers import Numbers
from gpuprof.facts.nvtx import OF_ONE_CALL, RANGE_READS, Ranges, named_parts
from gpuprof.facts.phases import PHASE_READS, PhaseSteps, steps_in_part
from gpuprof.facts.range_launches import families, launches_within
from gpuprof.facts.step_windows import masked
from gpuprof.facts.timeline import DEVICE_ID, TIMELINE_READS, timelines
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema, instant_column

LANE_RANGES: Final = Schema(
    "lane_ranges",
    "a step, or what an NVTX range launched, on one device",
    {
        "device_id": DEVICE_ID,
        "level": Column(
            INT, "1", "0 for steps; ranges from 1 on, the outer ones first.", required=True
        ),
        "start_ns": instant_column("Start of the first activity that it launched.", required=True),
        "end_ns": instant_column("End of the last; of a step, as in steps.", required=True),
        "text": Column(
            TEXT,
            "",
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


ANALYSIS: Final = Analysis(
    "Steps and NVTX ranges of each device",
    LANE_RANGES,
    ("kernels", "memcpys"),
    lane_ranges,
    reads(PHASE_READS, RANGE_READS, TIMELINE_READS),
)
