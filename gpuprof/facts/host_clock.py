"""The clock of the host beside that of the devices: apart where cause comes after effect.

Work starts after the call that launched it, and a call that waits returns after that work. Where
recorded times contradict this, as in some recordings of nvprof and nsys whose devices' times are
off by milliseconds to days, the least time from a launch to its work is set to the usual one. What
belongs together by correlation id is not affected.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import is_waiting
from gpuprof.base.units import NS_PER_S, counted, say_ns, say_signed_ns
from gpuprof.facts.launches import LAUNCH_READS, Launches, launches
from gpuprof.facts.numbers import Numbers, columns_of, order_of, pieces, read_columns
from gpuprof.model.analysis import reads
from gpuprof.model.data_model import HOST_CLOCKS
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording

# More than this share of work that starts before its launch is no inaccuracy of single times.
_TOLERATED: Final = 0.01
# Recordings of agreeing clocks have launches that start sooner (0.5 ms at most in 90 of them); and
# so much the least time from a launch to its work may differ between seconds of a recording.
_NEAR_NS: Final = 1_000_000
# Of fewer launches, none need have found an idle device.
_LEAST_LAUNCHES: Final = 10
# The time of the fastest launches.
_LAUNCH_NS: Final = 5_000


@dataclass(frozen=True)
class HostClock:
    """What sets the times of each process on the clock of the devices.

    Args:
        shifts_ns: Process to what is added to its times, where these clocks are apart; None where
            no constant sets them right.
    """

    shifts_ns: Mapping[int, int | None] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether times of hosts and devices can be compared."""
        return None not in self.shifts_ns.values()

    def of(self, process: int) -> int:
        """What is added to the times of a process; 0 also where that is not known."""
        return self.shifts_ns.get(process) or 0

    def on_devices(self, times_ns: Numbers, process: Numbers) -> Int64s:
        """Times of the hosts of some processes, on the clock of the devices."""
        # As narrow as they are where nothing is added.
        shifted = cast("Int64s", times_ns)
        for number, shift_ns in self.shifts_ns.items():
            if shift_ns:
                shifted = np.where(process == number, times_ns + np.int64(shift_ns), shifted)
        return shifted

    def note(self) -> str:
        """That times were set right, and by how much; empty where none was."""
        shifts = [shift for shift in self.shifts_ns.values() if shift]
        if not shifts:
            return ""
        most = max(shifts, key=abs)
        of_each = f" of {counted(len(shifts), 'process', 'processes')}" if len(shifts) > 1 else ""
        up_to = "up to " if len({*shifts}) > 1 else ""
        return (
            f"The clocks of GPU and host disagree: {up_to}{say_signed_ns(most)} was added to all"
            f" host times{of_each}, so that the fastest launch takes {say_ns(_LAUNCH_NS)}."
        )


@once_per_recording
def host_clock(profile: Profile) -> HostClock:
    """How the clocks of the host's processes are apart from that of the devices."""
    if not profile.has("api_calls"):
        return HostClock()
    if profile.all_have(HOST_CLOCKS.name):
        clocks = read_columns(profile, HOST_CLOCKS.name, "process_id", "shift_ns")
        by_process = zip(*(column.tolist() for column in clocks), strict=True)
        return HostClock(
            {process: if_known(shift_ns) for process, shift_ns in by_process if shift_ns}
        )
    all_launches = launches(profile)
    lanes: dict[int, list[slice]] = {}
    for (process, _), (low, high) in all_launches.bounds.items():
        lanes.setdefault(process, []).append(slice(low, high))
    shifts: dict[int, int | None] = {}
    for process, rows in lanes.items():
        number, early, least_ns = 0, 0, _NEAR_NS
        for late in _late(all_launches, rows):
            number, early = number + len(late), early + int(np.count_nonzero(late < 0))
            least_ns = min(least_ns, int(late.min(initial=_NEAR_NS)))
        if number and (early > _TOLERATED * number or least_ns == _NEAR_NS):
            shift_ns = _shift_ns(profile, process, rows)
            shifts |= {process: shift_ns} if shift_ns != 0 else {}
    return HostClock(shifts)


def launched_ns(profile: Profile, places: Int64s) -> Int64s:
    """When the calls of some launches began, by their places, on the clock of the devices."""
    all_launches, clock = launches(profile), host_clock(profile)
    times: Int64s = all_launches.launch_ns[places]
    for (process, _), (low, high) in all_launches.bounds.items():
        if shift_ns := clock.of(process):
            times = np.where((places >= low) & (places < high), times + shift_ns, times)
    return times


def unknown_clock_note(profile: Profile) -> str:
    """Why times of host and devices cannot be compared; empty where they can."""
    if host_clock(profile).is_known:
        return ""
    all_launches = launches(profile.unrestricted)
    late = np.concatenate([*_late(all_launches, [slice(0, len(all_launches.order))])])
    early = late[late < 0]
    if not len(early):
        return (
            f"No kernel or copy starts within {say_ns(int(late.min()))} of the call that launched"
            " it, calls that wait return before, and the difference is not constant: the clocks of"
            " GPU and host disagree in this recording."
        )
    return (
        f"{len(early):,} of {len(late):,} kernels and copies start before the call that launched"
        f" them, by {say_ns(-int(np.median(early)))} in the median: the clocks of GPU and host"
        " disagree in this recording."
    )


def _late(all_launches: Launches, lanes: list[slice]) -> Iterator[Int64s]:
    """The time from the launches of some lanes to their work, in pieces."""
    starts = all_launches.activities.start_ns
    for lane in lanes:
        for rows in pieces(lane.stop, lane.start):
            yield starts.take(all_launches.order[rows]) - all_launches.launch_ns[rows]


def _shift_ns(profile: Profile, process: int, lanes: list[slice]) -> int | None:
    """What sets the times of a process right, whose least time to its work is far from usual.

    0 where nothing contradicts them: they then wait for work that was launched before. None where
    the least time differs between seconds, and calls that wait do not show that a queue made it so.
    """
    all_launches = launches(profile)
    order = np.concatenate([all_launches.order[lane] for lane in lanes])
    launch = np.concatenate([all_launches.launch_ns[lane] for lane in lanes])
    rows = order_of(launch)
    order, launch = order[rows], launch[rows]
    late = all_launches.activities.start_ns[order] - launch
    ends = all_launches.activities.end_ns(order)
    least_ns = int(late.min())
    start, end, of_process, is_wait = host_calls(profile)
    is_wait = is_wait & (of_process == process) & (start >= launch[0])
    waits, returned = start[is_wait], end[is_wait]
    # How much longer the work that was launched last before ran than each call waited.
    beyond = ends[np.searchsorted(launch, waits, side="right") - 1] - returned
    if (late < 0).mean() <= _TOLERATED:
        recorded_ns = max(int(ends.max() - late.min() - launch[0]), NS_PER_S)
        is_apart = (beyond > 0).mean() > 1 / 2 if len(beyond) else least_ns > recorded_ns
        if not is_apart:
            return 0
    if len(launch) < _LEAST_LAUNCHES:
        return None
    seconds, second = np.unique((launch - launch[0]) // NS_PER_S, return_inverse=True)
    least_of = np.full(len(seconds), np.iinfo(np.int64).max)
    np.minimum.at(least_of, second, late)
    of_waits = (waits - launch[0]) // NS_PER_S
    for doubtful in seconds[least_of - least_ns > _NEAR_NS].tolist():
        lead = beyond[of_waits == doubtful] - least_ns
        if not len(lead) or np.median(lead) > _NEAR_NS:
            return None
    return least_ns - _LAUNCH_NS


HOST_READS: Final = reads(LAUNCH_READS, api_calls="start_ns end_ns name name_id")


@once_per_profile
def host_calls(profile: Profile) -> tuple[Int64s, Int64s, Numbers, npt.NDArray[np.bool_]]:
    """Start, end and process of each API call of all threads, and whether it waits for a device."""
    waits = profile.loaded("api_calls").names.values(is_waiting, 0)
    calls = profile.columns("api_calls", "start_ns", "end_ns", "process_id", "name_id")
    parts = ([*place, waits.of(name_id)] for *place, name_id in calls)
    start, end, process, waiting = columns_of(parts, 4)
    return start, end, process, waiting.astype(bool)
