"""What the host did when: API calls as arrays, those that wait, and the ranges that were open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import is_waiting
from gpuprof.facts.by_number import ByNumber, names_by_number
from gpuprof.facts.groups import Numbers
from gpuprof.facts.growing import columns_of
from gpuprof.facts.launches import LAUNCH_READS
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s, Intervals, union
from gpuprof.model.profile import Profile

_PLACE: Final = ("start_ns", "end_ns", "process_id")
HOST_READS: Final = reads(LAUNCH_READS, api_calls="start_ns end_ns name name_id")


@dataclass(frozen=True, eq=False)
class HostCalls:
    """API calls of all threads, one element each.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        process: Its process.
        is_waiting: Whether a call returns when work on a device has ended.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Numbers
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
    start, end, process, waits = columns_of(_calls(profile), 4)
    return HostCalls(start, end, process, waits.astype(bool))


def _calls(profile: Profile) -> Iterator[Sequence[Any]]:
    """Start, end and process of all API calls, and whether they wait, in pieces."""
    waits = waiting_calls(profile)
    for *place, name_id in profile.integers("api_calls", *_PLACE, "name_id"):
        yield *place, waits.of(name_id)
