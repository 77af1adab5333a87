"""What the host did when: API calls as arrays, those that wait, and the ranges that were open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.by_number import ByNumber, names_by_number
from gpuprof.analyses.facts.growing import columns_of
from gpuprof.analyses.facts.launches import LAUNCH_READS, launches
from gpuprof.cuda import is_waiting
from gpuprof.intervals import Int64s, Intervals, union
from gpuprof.profile import Profile

# Activities that start before the call that launched them, beyond which clocks disagree.
_TOLERATED: Final = 0.01

HOST_READS: Final = reads(LAUNCH_READS, api_calls="start_ns end_ns name_id is_waiting")


@dataclass(frozen=True, eq=False)
class HostCalls:
    """API calls of all threads, one element each.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        is_waiting: Whether a call returns when work on a device has ended.
    """

    start_ns: Int64s
    end_ns: Int64s
    is_waiting: npt.NDArray[np.bool_]

    @property
    def any(self) -> Intervals:
        """The instants at which a thread is inside an API call."""
        return union(self.start_ns, self.end_ns)

    @property
    def waiting(self) -> Intervals:
        """The instants at which a thread waits for a device."""
        return union(self.start_ns[self.is_waiting], self.end_ns[self.is_waiting])


def host_calls(profile: Profile) -> HostCalls:
    """Every API call of the whole recording."""
    return profile.once(_host_calls)


def waiting_calls(profile: Profile) -> ByNumber:
    """Whether the API calls of a name wait, by its number."""
    names = names_by_number(profile, "api_calls")
    return names.values(is_waiting, 0)


def _host_calls(profile: Profile) -> HostCalls:
    start, end, waits = columns_of(_calls(profile), 3)
    return HostCalls(start, end, waits.astype(bool))


def _calls(profile: Profile) -> Iterator[Sequence[Any]]:
    """Start and end of all API calls, and whether they wait, in pieces."""
    waits = waiting_calls(profile)
    for *times, name_id in profile.integers("api_calls", "start_ns", "end_ns", "name_id"):
        yield *times, waits.of(name_id)


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
    all_launches = launches(profile.unrestricted)
    start_ns, early = all_launches.activities.start_ns, [np.empty(0, np.int64)]
    for rows in all_launches.pieces():
        ahead = all_launches.launch_ns[rows] - start_ns[all_launches.order[rows]]
        early.append(ahead[ahead > 0])
    ahead = np.concatenate(early)
    median = int(np.median(ahead)) if len(ahead) else 0
    return len(all_launches.order), len(ahead), median
