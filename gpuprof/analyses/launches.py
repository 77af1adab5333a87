"""Every GPU activity with the API call that launched it, as arrays in the order of the launches.

Activities and calls meet by process and correlation id: ids repeat across processes. Where
several calls bear one id (a runtime call and the driver call inside it), the earliest launched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.copies import DST, SRC
from gpuprof.analyses.movement import IS_COUNTED, IS_PEER, IS_STAGED, IS_TRANSFER
from gpuprof.analyses.timeline import COMPUTE, LOCAL_COPY, TRANSFER
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

UNKNOWN: Final = -2
NOT_FOUND: Final = -1
# Below this many numbers per call, an array by number is smaller and faster than sorting.
_DENSE: Final = 16
_SIXTEEN_BITS: Final = 0xFFFF

# Ten million activities fit into half a gigabyte where small numbers take little room.
_KEY: Final = (
    f"coalesce(process_id, {UNKNOWN})::INTEGER AS process,"
    f" coalesce(correlation_id, {UNKNOWN}) AS correlation"
)
_SAME: Final = f"start_ns, end_ns, coalesce(device_id, {UNKNOWN})::SMALLINT AS device, {_KEY}"
_NO_COPY: Final = (
    f"0::BIGINT AS bytes, {UNKNOWN}::SMALLINT AS src, {UNKNOWN}::SMALLINT AS dst,"
    " 1::TINYINT AS counted, 0::TINYINT AS peer"
)
_ACTIVITIES: Final = {
    "kernels": f"SELECT {_SAME}, {COMPUTE}::TINYINT AS layer, {_NO_COPY} FROM kernels",
    "memcpys": f"""
        SELECT {_SAME},
            (CASE WHEN {IS_TRANSFER} THEN {TRANSFER} ELSE {LOCAL_COPY} END)::TINYINT AS layer,
            CASE WHEN {IS_COUNTED} THEN coalesce(bytes, 0) ELSE 0 END AS bytes,
            coalesce(CASE WHEN {IS_STAGED} THEN device_id ELSE {SRC} END, {UNKNOWN})::SMALLINT,
            coalesce(CASE WHEN {IS_STAGED} THEN device_id ELSE {DST} END, {UNKNOWN})::SMALLINT,
            {IS_COUNTED}::TINYINT AS counted, {IS_PEER}::TINYINT AS peer
        FROM memcpys""",
    "memsets": f"SELECT {_SAME}, {LOCAL_COPY}::TINYINT AS layer, {_NO_COPY} FROM memsets",
    "graph_launches": f"""
        SELECT {_SAME}, {COMPUTE}::TINYINT AS layer, {_NO_COPY} FROM graph_launches""",
}
_COLUMNS: Final = 11
_CALLS: Final = f"SELECT {_KEY}, start_ns, coalesce(thread_id, {UNKNOWN}) FROM whole.api_calls"

# Integers of any width.
Numbers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Activities:
    """GPU activities, one element each; unknown devices and processes are `UNKNOWN`.

    Args:
        start_ns: Start on the device.
        end_ns: End on the device.
        device: The device it ran on.
        process: The process that launched it.
        correlation: The call that launched it.
        layer: One of `timeline.LAYERS`; kernels of communication count as compute.
        bytes: Bytes of a copy; 0 for a staged copy's second half and all else.
        src: Device at the source of a copy, or `copies.HOST`; of a staged half, its own device.
        dst: Device at its destination, likewise.
        counted: 0 for the second half of a staged copy, which is not another call.
        peer: 1 for a copy between two devices.
    """

    start_ns: Int64s
    end_ns: Int64s
    device: Numbers
    process: Numbers
    correlation: Numbers
    layer: Numbers
    bytes: Int64s
    src: Numbers
    dst: Numbers
    counted: Numbers
    peer: Numbers

    def take(self, chosen: npt.NDArray[Any]) -> "Activities":
        """Some of them, in the order of the indices."""
        return Activities(*(column[chosen] for column in self.columns))

    @property
    def columns(self) -> tuple[Numbers, ...]:
        """All columns, in their order."""
        return tuple(vars(self).values())

    @property
    def duration_ns(self) -> Int64s:
        """How long each ran."""
        return self.end_ns - self.start_ns

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    def ends(self) -> tuple[Numbers, ...]:
        """The devices whose time each may cost: where it runs, and the ends of a copy."""
        return self.device, self.src, self.dst


@dataclass(frozen=True, eq=False)
class Launches:
    """Activities whose launching call is known, sorted by process, thread and time of the call.

    Args:
        activities: The activities.
        launch_ns: Start of the call that launched each.
        thread: Thread of that call.
    """

    activities: Activities
    launch_ns: Int64s
    thread: Numbers


def activities(profile: Profile) -> Activities:
    """Every kernel, copy, memset and whole graph."""
    return profile.once(_activities)


def launches(profile: Profile) -> Launches:
    """Every activity with the call that launched it; those without one are left out."""
    return profile.once(_launches)


def read_columns(profile: Profile, sql: str, columns: int) -> list[Any]:
    """The columns of a query, all integers and never null, as arrays."""
    pieces: list[list[Any]] = [[] for _ in range(columns)]
    for batch in profile.batches(sql):
        for found, column in zip(pieces, batch.columns, strict=True):
            found.append(np.from_dlpack(column))
    return [np.concatenate(found) if found else np.empty(0, np.int64) for found in pieces]


def _activities(profile: Profile) -> Activities:
    found = [
        read_columns(profile, sql, _COLUMNS)
        for table, sql in _ACTIVITIES.items()
        if profile.has(table)
    ]
    return Activities(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _launches(profile: Profile) -> Launches:
    every = activities(profile)
    process, correlation, start, thread = read_columns(profile, _CALLS, 4)
    call = launching_call((every.process, every.correlation), (process, correlation), start)
    place = np.empty(len(start), np.int64)
    place[np.lexsort((start, _numbered(thread), _numbered(process)))] = np.arange(len(start))
    known = np.flatnonzero(call != NOT_FOUND)
    # To sort distinct numbers takes a fifth of the time of a stable sort of indices.
    known = known[np.sort(place[call[known]] * len(known) + np.arange(len(known))) % len(known)]
    call = call[known]
    return Launches(every.take(known), start[call], thread[call])


def launching_call(
    activity: Sequence[Numbers], call: Sequence[Numbers], call_start_ns: Int64s
) -> Int64s:
    """Index of the earliest call of the same process and correlation id, or `NOT_FOUND`."""
    found = np.full(len(activity[0]), NOT_FOUND, np.int64)
    calls = _by_process(call[0], np.lexsort((call_start_ns, _numbered(call[0]))))
    wanted = _by_process(activity[0], np.argsort(_numbered(activity[0]), kind="stable"))
    for process, ours in wanted.items():
        # Later rows are overwritten by earlier ones, so that the earliest call remains.
        mine = calls.get(process, ours[:0])[::-1]
        found[ours] = _by_number(activity[1][ours], call[1][mine], mine)
    return found


def _by_process(process: Numbers, order: Int64s) -> dict[int, Int64s]:
    """An order that is sorted by process, cut into those of each process."""
    ordered = process[order]
    pieces = np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
    return {int(process[piece[0]]): piece for piece in pieces if len(piece)}


def _numbered(values: Numbers) -> Numbers:
    """Numbers in the order of the values, in few bits where that is possible: these sort fast."""
    if len(values) and int(values.max()) - int(values.min()) <= _SIXTEEN_BITS:
        small: Numbers = (values - values.min()).astype(np.uint16)
        return small
    return np.searchsorted(np.unique(values), values)


def _by_number(wanted: Numbers, number: Numbers, index: Int64s) -> Int64s:
    """The index given last to each wanted number; unknown numbers are wanted by nobody."""
    is_known = number >= 0
    number, index = number[is_known], index[is_known]
    if not len(number):
        return np.full(len(wanted), NOT_FOUND, np.int64)
    low, size = int(number.min()), int(number.max() - number.min()) + 1
    if size > _DENSE * (len(number) + len(wanted)) + _DENSE:
        distinct, number = np.unique(number, return_inverse=True)
        place = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
        wanted = np.where(distinct[place] == wanted, place, NOT_FOUND)
        low, size = 0, len(distinct)
    table = np.full(size, NOT_FOUND, np.int64)
    table[number - low] = index
    inside = (wanted >= low) & (wanted < low + size)
    return np.where(inside, table[np.where(inside, wanted - low, 0)], NOT_FOUND)
