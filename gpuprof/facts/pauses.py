"""The pauses of all devices, each with the call that launched what ended it, and short gaps.

Short gaps between activities are no pauses to be looked into one by one (see `pause_causes`). A
step of some microseconds has only these, though its host may wait for each result before it
launches what follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.cuda import is_waiting
from gpuprof.facts.host_clock import HOST_READS, host_clock, launched_ns
from gpuprof.facts.launches import LAUNCH_READS, launches
from gpuprof.facts.numbers import NOT_FOUND, columns_of, rows_named
from gpuprof.facts.timeline import TIMELINE_READS, timelines
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import NOTHING, Int64s, Intervals
from gpuprof.model.profile import Profile, once_per_recording

PAUSE_READS: Final = reads(LAUNCH_READS, TIMELINE_READS)
SHORT_WAIT_READS: Final = reads(PAUSE_READS, HOST_READS, api_calls="start_ns end_ns name name_id")

# Short gaps that are less of a device's span are not looked into.
_LEAST_SHARE: Final = 0.02


@dataclass(frozen=True, eq=False)
class Pauses:
    """Pauses longer than `SHORT_NS`, one element each, by device and time.

    Args:
        device: The device; `UNKNOWN` where none is known.
        start_ns: Where its last activity ended.
        end_ns: Where the next one began.
        launch: Place among the launches of an activity that began there, or `NOT_FOUND`.
        launch_ns: Start of the call that launched it, on the clock of the devices; 0 where that
            is unknown.
    """

    device: Int64s
    start_ns: Int64s
    end_ns: Int64s
    launch: Int64s
    launch_ns: Int64s


@once_per_recording
def pauses_of(profile: Profile) -> Pauses:
    """The pauses of the whole recording; those of a part may have begun before it."""
    columns = [[np.empty(0, np.int64)] for _ in range(3)]
    for timeline in timelines(profile):
        pauses = timeline.pauses
        device = np.full(len(pauses), timeline.number, np.int64)
        for column, values in zip(columns, (device, pauses.start, pauses.end), strict=True):
            column.append(values)
    device, start, end = map(np.concatenate, columns)
    launch = launches(profile).beginning(device, end)
    launch_ns, is_launched = np.zeros_like(launch), launch != NOT_FOUND
    launch_ns[is_launched] = launched_ns(profile, launch[is_launched])
    return Pauses(device, start, end, launch, launch_ns)


class ShortWaits(NamedTuple):
    """Short gaps of one device that a waiting host left, one element each.

    Args:
        gaps: When the device had nothing to do.
        call: Which of `names` the host waited in.
        names: Names of calls.
    """

    gaps: Intervals
    call: Int64s
    names: tuple[str, ...]


NO_WAITS: Final = ShortWaits(NOTHING, np.empty(0, np.int64), ())


@once_per_recording
def short_waits(profile: Profile) -> Mapping[int | None, ShortWaits]:
    """By device, the short gaps in which a call returned that had waited.

    What ends such a gap was launched after that: the host waits each time before it goes on.
    None where all short gaps of a device are little of its span, or clocks disagree.
    """
    waits, worth = {device.device_id: NO_WAITS for device in timelines(profile)}, []
    for device in timelines(profile) if profile.has("api_calls") else ():
        idle_ns = device.span.length - sum(layer.length for layer in device.exposed)
        # In a span nothing may run at all.
        short_ns = idle_ns - device.pauses.length
        if 0 < short_ns >= _LEAST_SHARE * device.span.length:
            worth.append(device)
    if not worth or not (clock := host_clock(profile)).is_known:
        return waits
    names = [name for name in profile.loaded("api_calls").names.distinct if is_waiting(name)]
    columns = ("start_ns", "end_ns", "process_id")
    parts = rows_named(profile, "api_calls", names, *columns)
    start, end, process, name = columns_of(parts, len(columns) + 1)
    start, end = (clock.on_devices(times, process) for times in (start, end))
    order = np.argsort(end, kind="stable")
    start, end, name = start[order], end[order], name[order]
    for device in worth:
        # Of each gap the first call that returned after it began, in it, and was open before it.
        short = device.short_gaps
        place = np.searchsorted(end, short.start, side="right")
        rows = np.flatnonzero(place < len(end))
        place = place[rows]
        is_in = (end[place] <= short.end[rows]) & (start[place] < short.start[rows])
        rows, place = rows[is_in], place[is_in]
        launch = launches(profile).beginning(np.full(len(rows), device.number), short.end[rows])
        is_after = launch != NOT_FOUND
        is_after[is_after] = launched_ns(profile, launch[is_after]) >= end[place[is_after]]
        rows, place = rows[is_after], place[is_after]
        gaps = Intervals(short.start[rows], short.end[rows])
        waits[device.device_id] = ShortWaits(gaps, name[place], tuple(names))
    return waits
