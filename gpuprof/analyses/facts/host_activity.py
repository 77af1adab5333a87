"""What the host did when: API calls as arrays, those that wait, and the ranges that were open."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.launches import LAUNCH_READS, launches, read_columns
from gpuprof.intervals import Int64s, Intervals, union
from gpuprof.profile import Profile

# Activities that start before the call that launched them, beyond which clocks disagree.
_TOLERATED: Final = 0.01


HOST_READS: Final = reads(LAUNCH_READS, api_calls="start_ns end_ns is_waiting")


@dataclass(frozen=True, eq=False)
class HostCalls:
    """API calls of all threads, one element each, sorted by start.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        is_waiting: 1 for calls that return when work on a device has ended.
    """

    start_ns: Int64s
    end_ns: Int64s
    is_waiting: Int64s

    @property
    def any(self) -> Intervals:
        """The instants at which a thread is inside an API call."""
        return union(self.start_ns, self.end_ns)

    @property
    def waiting(self) -> Intervals:
        """The instants at which a thread waits for a device."""
        chosen = self.is_waiting > 0
        return union(self.start_ns[chosen], self.end_ns[chosen])


def host_calls(profile: Profile) -> HostCalls:
    """Every API call of the whole recording."""
    return profile.once(_host_calls)


def _host_calls(profile: Profile) -> HostCalls:
    start, end, waits = read_columns(
        profile,
        "SELECT start_ns, end_ns, coalesce(is_waiting, false)::TINYINT FROM api_calls",
        3,
    )
    order = np.argsort(start, kind="stable")
    return HostCalls(start[order], end[order], waits[order])


def clocks_agree(profile: Profile) -> bool:
    """Whether times of the host and of the devices can be compared.

    In some recordings the devices' times are off by many milliseconds, so that activities start
    before the calls that launched them. What belongs together by correlation id is not affected.
    """
    return profile.once(_clocks_agree)


def _clocks_agree(profile: Profile) -> bool:
    calls, early, _ = early_starts(profile)
    return early <= _TOLERATED * calls


def early_starts(profile: Profile) -> tuple[int, int, int]:
    """Activities whose call is known, those that start before it, and by how much in the median."""
    found = launches(profile.whole)
    ahead = found.launch_ns - found.of(found.activities.start_ns)
    ahead_early = ahead[ahead > 0]
    median = int(np.median(ahead_early)) if len(ahead_early) else 0
    return len(ahead), len(ahead_early), median
