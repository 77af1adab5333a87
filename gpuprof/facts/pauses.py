"""The pauses of all devices as arrays, each with the call that launched what ended it."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.host_clock import launched_ns
from gpuprof.facts.launches import LAUNCH_READS, Activities, Launches, launches
from gpuprof.facts.timeline import TIMELINE_READS, timelines
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s, pairs
from gpuprof.model.profile import Profile

NOT_LAUNCHED: Final = -1

PAUSE_READS: Final = reads(LAUNCH_READS, TIMELINE_READS)


@dataclass(frozen=True, eq=False)
class Pauses:
    """Pauses longer than `SHORT_NS`, one element each, by device and time.

    Args:
        device: The device; `UNKNOWN` where none is known.
        start_ns: Where its last activity ended.
        end_ns: Where the next one began.
        launch: Place among the launches of an activity that began there, or `NOT_LAUNCHED`.
        launch_ns: Start of the call that launched it, on the clock of the devices; 0 where that
            is unknown.
    """

    device: Int64s
    start_ns: Int64s
    end_ns: Int64s
    launch: Int64s
    launch_ns: Int64s

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


def pauses_of(profile: Profile) -> Pauses:
    """The pauses of the whole recording; those of a part may have begun before it."""
    return profile.unrestricted.once(_pauses_of)


def places_of_launches(all_launches: Launches, activities: Int64s) -> Int64s:
    """The place of each of a few activities among all launches, or `NOT_LAUNCHED`."""
    is_meant = np.zeros(len(all_launches.activities), bool)
    is_meant[activities] = True
    at = [
        rows.start + np.flatnonzero(is_meant[all_launches.order[rows]])
        for rows in all_launches.pieces()
    ]
    places = np.concatenate([np.empty(0, np.int64), *at])
    launched = all_launches.order[places]
    by_activity = np.argsort(launched)
    index = np.searchsorted(launched, activities, sorter=by_activity)
    is_launched = np.isin(activities, launched)
    chosen = np.full(len(activities), NOT_LAUNCHED)
    chosen[is_launched] = places[by_activity[index[is_launched]]]
    return chosen


def _pauses_of(profile: Profile) -> Pauses:
    columns: list[list[Int64s]] = [[], [], []]
    for timeline in timelines(profile):
        pauses = timeline.pauses
        device = np.full(len(pauses), timeline.number, np.int64)
        for column, values in zip(columns, (device, pauses.start, pauses.end), strict=True):
            column.append(values)
    device, start, end = (np.concatenate([np.empty(0, np.int64), *c]) for c in columns)
    all_launches = launches(profile)
    launch = launch_at(all_launches, device, end)
    launch_ns, is_launched = np.zeros_like(launch), launch != NOT_LAUNCHED
    launch_ns[is_launched] = launched_ns(profile, launch[is_launched])
    return Pauses(device, start, end, launch, launch_ns)


def launch_at(all_launches: Launches, device: Int64s, instant: Int64s) -> Int64s:
    """Place among the launches of an activity that begins on each device at an instant.

    `NOT_LAUNCHED` where none begins there, or its call is not known.
    """
    activities = all_launches.activities
    enders = [np.empty((2, 0), np.int64)]
    for low, high in activities.tables.values():
        starts = activities.start_ns[low:high]
        order = None if (starts[1:] >= starts[:-1]).all() else np.argsort(starts, kind="stable")
        ordered = starts if order is None else starts[order]
        first = np.searchsorted(ordered, instant, side="left")
        last = np.searchsorted(ordered, instant, side="right")
        pause, place = pairs(first, last - first)
        place = low + (place if order is None else order[place])
        is_ender = _is_on(activities, place, device[pause]) & (
            activities.end_ns[place] > instant[pause]
        )
        enders.append(np.stack([pause, place])[:, is_ender])
    pause, place = np.concatenate(enders, axis=1)
    launched = places_of_launches(all_launches, place)
    is_launched = launched != NOT_LAUNCHED
    launch = np.full(len(instant), NOT_LAUNCHED)
    # What is written later overwrites what was before: the first one remains.
    launch[pause[is_launched][::-1]] = launched[is_launched][::-1]
    return launch


def _is_on(activities: Activities, place: Int64s, device: Int64s) -> npt.NDArray[np.bool_]:
    """Whether activities are on the timelines of devices: peer copies on those of both ends."""
    is_on: npt.NDArray[np.bool_] = activities.device[place] == device
    copy = np.flatnonzero(place < len(activities.copies))
    ends = activities.copies.src[place[copy]], activities.copies.dst[place[copy]]
    is_on[copy] |= (ends[0] == device[copy]) | (ends[1] == device[copy])
    return is_on
