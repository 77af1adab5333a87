"""Gaps between activities, too short to be pauses, in which the host came out of a call that waits.

Pauses are looked into one by one (see `analyses/pauses.py`). A step of some microseconds has
none, though its host may wait for each result before it launches what follows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.facts.by_number import names_by_number
from gpuprof.facts.growing import columns_of
from gpuprof.facts.host_activity import HOST_READS, waiting_calls
from gpuprof.facts.host_clock import host_clock, launched_ns
from gpuprof.facts.launches import launches
from gpuprof.facts.pauses import NOT_LAUNCHED, PAUSE_READS, launch_at
from gpuprof.facts.timeline import DeviceTimeline, timelines
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import NOTHING, Int64s, Intervals
from gpuprof.model.profile import Profile

SHORT_WAIT_READS: Final = reads(PAUSE_READS, HOST_READS, api_calls="start_ns end_ns name name_id")

_PLACE: Final = ("start_ns", "end_ns", "process_id")
# Short gaps that are less of a device's span are not looked into.
_LEAST_SHARE: Final = 0.02


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


class _Waits(NamedTuple):
    """Calls that wait, by their ends; times are on the clock of the devices."""

    start_ns: Int64s
    end_ns: Int64s
    name: Int64s
    names: tuple[str, ...]


NO_WAITS: Final = ShortWaits(NOTHING, np.empty(0, np.int64), ())


def short_waits(profile: Profile, device: DeviceTimeline) -> ShortWaits:
    """The short gaps of a device of the whole recording in which a call returned that had waited.

    What ends such a gap was launched after that: the host waits each time before it goes on.
    None where all short gaps of the device are little of its span, or clocks disagree.
    """
    if not profile.unrestricted.has("api_calls"):
        return NO_WAITS
    return profile.unrestricted.once(_by_device).get(device.device_id, NO_WAITS)


def _by_device(profile: Profile) -> Mapping[int | None, ShortWaits]:
    worth = [device for device in timelines(profile) if _is_worth(device)]
    if not worth or not host_clock(profile).is_known:
        return {}
    waits = _waits(profile)
    return {
        device.device_id: _of_device(profile, device, device.short_gaps, waits) for device in worth
    }


def _is_worth(device: DeviceTimeline) -> bool:
    """Whether short gaps are enough of a device's span, in which nothing may run at all."""
    idle_ns = int(device.idle_ns(device.span.start, device.span.end).sum())
    short_ns = idle_ns - device.pauses.length
    return 0 < short_ns >= _LEAST_SHARE * device.span.length


def _of_device(
    profile: Profile, device: DeviceTimeline, short: Intervals, waits: _Waits
) -> ShortWaits:
    if not len(waits.end_ns):
        return NO_WAITS
    place = np.searchsorted(waits.end_ns, short.start, side="right")
    rows = np.flatnonzero(place < len(waits.end_ns))
    place = place[rows]
    is_in = (waits.end_ns[place] <= short.end[rows]) & (waits.start_ns[place] < short.start[rows])
    rows, place = rows[is_in], place[is_in]
    all_launches = launches(profile)
    launch = launch_at(all_launches, np.full(len(rows), device.number), short.end[rows])
    is_launched = launch != NOT_LAUNCHED
    rows, place, launch = rows[is_launched], place[is_launched], launch[is_launched]
    is_after = launched_ns(profile, launch) >= waits.end_ns[place]
    rows, place = rows[is_after], place[is_after]
    return ShortWaits(Intervals(short.start[rows], short.end[rows]), waits.name[place], waits.names)


def _waits(profile: Profile) -> _Waits:
    start, end, process, name_id = columns_of(_waiting(profile), 4)
    texts = dict(zip(*names_by_number(profile, "api_calls"), strict=True))
    numbers, name = np.unique(np.asarray(name_id, np.int64), return_inverse=True)
    names = tuple(texts[number] for number in numbers.tolist())
    clock = host_clock(profile)
    start, end = (clock.on_devices(times, process) for times in (start, end))
    order = np.argsort(end, kind="stable")
    return _Waits(start[order], end[order], name[order], names)


def _waiting(profile: Profile) -> Iterator[Sequence[Any]]:
    """Start, end, process and number of the name of the calls that wait, in pieces."""
    waits = waiting_calls(profile)
    for *place, name_id in profile.integers("api_calls", *_PLACE, "name_id"):
        rows = np.flatnonzero(waits.of(name_id))
        yield [column[rows] for column in (*place, name_id)]
