"""Every GPU activity with the API call that launched it, as arrays in the order of the launches.

Activities and calls meet by process and correlation id: ids repeat across processes. Where
several calls bear one id (a runtime call and the driver call inside it), the earliest launched.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.copies import COPY_READS
from gpuprof.analyses.facts.groups import Numbers, groups, numbered
from gpuprof.analyses.facts.timeline import COMPUTE, LOCAL_COPY, TRANSFER
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile
from gpuprof.views import View

NOT_FOUND: Final = -1
# Below this many numbers per call, an array by number is smaller and faster than sorting.
_DENSE: Final = 16

# Ten million activities fit into a third of a gigabyte where small numbers take little room.
# Processes of several files that bear one number have longer ones: see `_process_type`.
_PLACED: Final = "start_ns end_ns device_id process_id correlation_id"
LAUNCH_READS: Final = reads(
    COPY_READS,
    kernels=_PLACED,
    graph_launches=_PLACED,
    memsets=_PLACED,
    api_calls="start_ns process_id thread_id correlation_id",
)

_KEY: Final = (
    f"coalesce(process_id, {UNKNOWN})::{{process_type}} AS process,"
    f" coalesce(correlation_id, {UNKNOWN}) AS correlation"
)
_SAME: Final = f"start_ns, end_ns, coalesce(device_id, {UNKNOWN})::SMALLINT AS device, {_KEY}"
# What is launched beside copies, and which layer it belongs to.
_LAYERS: Final = {"kernels": COMPUTE, "graph_launches": COMPUTE, "memsets": LOCAL_COPY}
_COPIES: Final = f"""
    SELECT {_SAME},
        (CASE WHEN is_transfer THEN {TRANSFER} ELSE {LOCAL_COPY} END)::TINYINT AS layer,
        CASE WHEN is_counted THEN coalesce(bytes, 0) ELSE 0 END AS bytes,
        coalesce(CASE WHEN is_staged THEN device_id ELSE src END, {UNKNOWN})::SMALLINT,
        coalesce(CASE WHEN is_staged THEN device_id ELSE dst END, {UNKNOWN})::SMALLINT,
        is_counted::TINYINT AS counted, is_peer::TINYINT AS peer
    FROM memcpys"""
_CALLS: Final = f"SELECT {_KEY}, start_ns, coalesce(thread_id, {UNKNOWN}) FROM whole.api_calls"


@dataclass(frozen=True, eq=False)
class Activities:
    """GPU activities, one element each, copies first; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start on the device.
        end_ns: End on the device.
        device: The device it ran on.
        process: The process that launched it.
        correlation: The call that launched it.
        layer: One of `timeline.LAYERS`; kernels of communication count as compute.
        copies: More of the copies, whose places are those that they have here.
        tables: Names of tables to where their activities begin and end.
    """

    start_ns: Int64s
    end_ns: Int64s
    device: Numbers
    process: Numbers
    correlation: Numbers
    layer: Numbers
    copies: "Copies"
    tables: Mapping[str, tuple[int, int]]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Copies:
    """What copies have beside other activities.

    Args:
        bytes: Bytes; 0 for a staged copy's second half.
        src: Device at the source, or `copies.HOST`; of a staged half, its own device.
        dst: Device at the destination, likewise.
        counted: 0 for the second half of a staged copy, which is not another call.
        peer: 1 for a copy between two devices.
    """

    bytes: Int64s
    src: Numbers
    dst: Numbers
    counted: Numbers
    peer: Numbers

    def __len__(self) -> int:
        """How many there are."""
        return len(self.bytes)


@dataclass(frozen=True, eq=False)
class Launches:
    """Activities whose launching call is known, sorted by process, thread and time of the call.

    Args:
        activities: All activities.
        order: The place of each launched one among these.
        launch_ns: Start of the call that launched each.
        bounds: Process and thread to where their launches begin and end.
    """

    activities: Activities
    order: Int64s
    launch_ns: Int64s
    bounds: Mapping[tuple[int, int], tuple[int, int]]

    def of(self, column: Numbers) -> Numbers:
        """A column of the activities, in the order of the launches."""
        return column[self.order]

    def take(self, chosen: Int64s) -> "Launches":
        """Some of them, by their indices in ascending order."""
        bounds = {
            lane: (int(low), int(high))
            for lane, pair in self.bounds.items()
            for low, high in [np.searchsorted(chosen, pair)]
        }
        return Launches(self.activities, self.order[chosen], self.launch_ns[chosen], bounds)


def activities(profile: Profile) -> Activities:
    """Every kernel, copy, memset and whole graph."""
    # Read once, together with the calls.
    is_called = profile.whole.has("api_calls")
    return launches(profile).activities if is_called else profile.once(_read)[0]


def launches(profile: Profile) -> Launches:
    """Every activity with the call that launched it; those without one are left out."""
    return profile.once(_launches)


def read_columns(profile: Profile, sql: str, columns: int) -> list[Any]:
    """The columns of a query, all integers and never null, as arrays."""
    return _columns([*profile.batches(sql)], columns)


def _columns(batches: list[pa.RecordBatch], columns: int) -> list[Any]:
    return [
        np.concatenate([np.from_dlpack(batch.column(place)) for batch in batches])
        if batches
        else np.empty(0, np.int64)
        for place in range(columns)
    ]


def _queries(profile: Profile) -> dict[str, str]:
    """SQL of the activities by table, and of the calls."""
    whole = profile.whole
    given = {t: f"SELECT {_SAME} FROM {t}" for t in _LAYERS if profile.has(t)}
    given |= {"memcpys": _COPIES} if profile.has("memcpys") else {}
    given |= {"calls": _CALLS} if whole.has("api_calls") else {}
    kind = _process_type(whole, given)
    return {table: sql.format(process_type=kind) for table, sql in given.items()}


def _process_type(whole: Profile, tables: Iterable[str]) -> str:
    """SQL's type for numbers of processes: those that a tool wrote into its tables are short."""
    sources = (whole.sources["api_calls" if table == "calls" else table] for table in tables)
    return "INTEGER" if all(isinstance(source, View) for source in sources) else "BIGINT"


def _read(profile: Profile) -> tuple[Activities, list[Any]]:
    """All activities, and the columns of all calls."""
    given = _queries(profile)
    found = {table: [*profile.batches(sql)] for table, sql in given.items()}
    calls = _columns(found.pop("calls", []), 4)
    copies = _columns(found.get("memcpys", []), 11)
    found = {"memcpys": found.pop("memcpys", []), **found}
    borders = pairwise(
        accumulate((sum(map(len, batches)) for batches in found.values()), initial=0)
    )
    tables = dict(zip(found, borders, strict=True))
    layers = [
        np.full(high - low, _LAYERS.get(name, 0), np.int8) for name, (low, high) in tables.items()
    ]
    layers[0] = copies[5].astype(np.int8)
    columns: list[Any] = _columns([batch for part in found.values() for batch in part], 5)
    columns += [np.concatenate(layers), Copies(*copies[6:]), tables]
    return Activities(*columns), calls


def _launches(profile: Profile) -> Launches:
    every, (process, correlation, start, thread) = _read(profile)
    call = launching_call((every.process, every.correlation), (process, correlation), start)
    del correlation
    order = np.lexsort((start, numbered(thread), numbered(process)))
    process, thread, start = process[order], thread[order], start[order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    known = np.flatnonzero(call != NOT_FOUND)
    # To sort distinct numbers takes a fifth of the time of a stable sort of indices.
    bits = len(known).bit_length()
    mixed = place[call[known]]
    del call, order, place
    mixed <<= bits
    mixed |= np.arange(len(known))
    mixed.sort()
    known = known[mixed & ((1 << bits) - 1)]
    mixed >>= bits
    is_first = (process[1:] != process[:-1]) | (thread[1:] != thread[:-1])
    first = np.concatenate([[0], np.flatnonzero(is_first) + 1])[: len(start)]
    borders = np.searchsorted(mixed, [*first, len(start)]).tolist()
    lanes = zip(process[first].tolist(), thread[first].tolist(), strict=True)
    bounds = dict(zip(lanes, pairwise(borders), strict=True))
    return Launches(every, known, start[mixed], bounds)


def launching_call(
    activity: Sequence[Numbers], call: Sequence[Numbers], call_start_ns: Int64s
) -> Int64s:
    """Index of the earliest call of the same process and correlation id, or `NOT_FOUND`."""
    found = np.full(len(activity[0]), NOT_FOUND, np.int64)
    order = np.argsort(call_start_ns, kind="stable")
    calls = {int(call[0][one[0]]): one for one in (order[g] for g in groups(call[0][order]))}
    for ours in groups(activity[0]):
        # Later rows are overwritten by earlier ones, so that the earliest call remains.
        mine = calls.get(int(activity[0][ours[0]]), ours[:0])[::-1]
        found[ours] = _by_number(activity[1][ours], call[1][mine], mine)
    return found


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
