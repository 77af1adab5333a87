"""Every GPU activity with the API call that launched it, as arrays in the order of the launches.

Activities and calls meet by process and correlation id: ids repeat across processes. Where
several calls have one id (a runtime call and the driver call inside it), the earliest launched.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpuprof.facts.calls import Launched, UnorderedError, index_kind, launched_by, pieces
from gpuprof.facts.copies import COPY_READS
from gpuprof.facts.copy_rows import copy_rows
from gpuprof.facts.groups import Numbers
from gpuprof.facts.growing import Growing, columns_of
from gpuprof.facts.timeline import COMPUTE, LOCAL_COPY, layer_of_copies
from gpuprof.model.analysis import reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.readers.common.compact_columns import narrowed

_PLACED: Final = "start_ns end_ns device_id process_id correlation_id"
LAUNCH_READS: Final = reads(
    COPY_READS,
    kernels=_PLACED,
    graph_launches=_PLACED,
    memsets=_PLACED,
    api_calls="start_ns process_id thread_id correlation_id",
)
# In place of a thread.
ALL_THREADS: Final = UNKNOWN - 1

_KEY: Final = ("process_id", "correlation_id")
_PLACE: Final = (*_KEY, "start_ns", "end_ns", "device_id")
# Those of a place, and its layer.
_COLUMNS: Final = len(_PLACE) + 1
# Table -> the layer of its activities.
_LAYERS: Final = {"kernels": COMPUTE, "graph_launches": COMPUTE, "memsets": LOCAL_COPY}
_BITS: Final = 63


@dataclass(frozen=True, eq=False)
class Activities:
    """GPU activities, one element each, copies first; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start on the device.
        end_ns: End on the device.
        device: The device it ran on.
        layer: One of `timeline.LAYERS`; kernels of communication count as compute.
        copies: More of the copies, whose places are those that they have here.
        tables: Names of tables to where their activities begin and end.
    """

    start_ns: Int64s
    end_ns: Int64s
    device: Numbers
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
        dst: Device at the destination, with the same exceptions.
        counted: 0 for the second half of a staged copy, which is not another call.
        peer: 1 for a copy between two devices.
        process: The process that launched it.
        correlation: The id of the call that launched it.
    """

    bytes: Int64s
    src: Numbers
    dst: Numbers
    counted: Numbers
    peer: Numbers
    process: Numbers
    correlation: Numbers

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
    order: Numbers
    launch_ns: Int64s
    bounds: Mapping[tuple[int, int], tuple[int, int]]

    def pieces(self) -> Iterator[slice]:
        """Slices that together are all of them, each small enough for the processor's cache."""
        return pieces(len(self.order))

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

    def by_process(self) -> "Launches":
        """The same, sorted by process and time: their bounds are those of `ALL_THREADS`."""
        order, launch_ns = self.order.copy(), self.launch_ns.copy()
        bounds: dict[tuple[int, int], tuple[int, int]] = {}
        for (process, _), (low, high) in self.bounds.items():
            first, _ = bounds.get((process, ALL_THREADS), (low, high))
            bounds[process, ALL_THREADS] = first, high
        for low, high in bounds.values():
            rows = low + by_time(self.launch_ns[low:high])
            order[low:high], launch_ns[low:high] = self.order[rows], self.launch_ns[rows]
        return Launches(self.activities, order, launch_ns, bounds)

    def of_process(self, process: int) -> Numbers:
        """The places of a process's launched activities among all."""
        rows = [self.order[low:high] for (p, _), (low, high) in self.bounds.items() if p == process]
        return np.concatenate([self.order[:0], *rows])


def activities(profile: Profile) -> Activities:
    """Every kernel, copy, memset and whole graph."""
    # Read once, together with the calls.
    is_called = profile.unrestricted.has("api_calls")
    return launches(profile).activities if is_called else profile.once(_read)[0]


def launches(profile: Profile) -> Launches:
    """Every activity with the call that launched it; those without one are left out."""
    return profile.once(_launches)


def _read(profile: Profile) -> tuple[Activities, Numbers, Numbers]:
    """All activities, and the process and correlation id of each."""
    copies = copy_rows(profile)
    columns = [Growing() for _ in range(_COLUMNS)]
    recorded = [*filter(profile.has, ("memcpys", *_LAYERS))]
    for column in columns:
        column.expect(sum(map(profile.rows_known, recorded)))
    tables, rows = {}, 0
    for table in recorded:
        low = rows
        for part in _parts(profile, table):
            rows += len(part[0])
            for values, column in zip(part, columns, strict=True):
                column.add(values)
        tables[table] = low, rows
    process, correlation, start, end, device, layer = (column.values for column in columns)
    of_copies = Copies(
        copies.moved_bytes,
        np.where(copies.is_staged, copies.device, copies.src),
        np.where(copies.is_staged, copies.device, copies.dst),
        copies.is_counted,
        copies.is_peer,
        copies.process,
        copies.correlation,
    )
    return Activities(start, end, device, layer, of_copies, tables), process, correlation


def _parts(profile: Profile, table: str) -> Iterator[Sequence[Any]]:
    """The activities of a table in pieces, each column as narrow as its values there."""
    if table == "memcpys":
        copies = copy_rows(profile)
        place = [copies.start_ns, copies.end_ns, copies.device]
        yield copies.process, copies.correlation, *place, layer_of_copies(copies)
        return
    for process, correlation, *place in profile.integers(table, *_PLACE):
        layer = np.full(len(process), _LAYERS[table], np.int8)
        yield narrowed(process), narrowed(correlation), *place, layer


def _launches(profile: Profile) -> Launches:
    activities_read, process, correlation = _read(profile)
    launched = _launched(profile, process, correlation)
    del process, correlation
    sizes = {lane: sum(len(of.places) for of in launched[lane]) for lane in sorted(launched)}
    number = sum(sizes.values())
    order = np.empty(number, index_kind(len(activities_read)))
    launch_ns = np.empty(number, np.int64)
    bounds, low = {}, 0
    for lane, size in sizes.items():
        rows, times = order[low : low + size], launch_ns[low : low + size]
        # What one lane's pieces took makes room for what comes next.
        at = 0
        for places, first_ns, since_ns in launched.pop(lane):
            piece = slice(at, at := at + len(places))
            rows[piece] = places
            np.add(since_ns, first_ns, out=times[piece], dtype=np.int64)
        if ((times[1:] == times[:-1]) & (rows[1:] < rows[:-1])).any():
            rows[:] = rows[np.lexsort((rows, times))]
        bounds[lane], low = (low, low + size), low + size
    return Launches(activities_read, order, launch_ns, bounds)


def _launched(
    profile: Profile, process: Numbers, correlation: Numbers
) -> dict[tuple[int, int], list[Launched]]:
    """The activities whose call is known, by its process and thread and by its start."""
    columns = (*_KEY, "start_ns", "thread_id")
    with suppress(UnorderedError):
        return launched_by(
            profile.unrestricted.integers("api_calls", *columns), process, correlation
        )
    calls = columns_of(profile.unrestricted.integers("api_calls", *columns), len(columns))
    order = np.argsort(calls[columns.index("start_ns")], kind="stable")
    by_start = ([column[order[rows]] for column in calls] for rows in pieces(len(order)))
    return launched_by(by_start, process, correlation)


def by_time(times: Int64s) -> Int64s:
    """The order of some times, of equal ones the first one first."""
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times))
    bits, least = len(times).bit_length(), int(times.min())
    if (int(times.max()) - least).bit_length() + bits > _BITS:
        return np.argsort(times, kind="stable")
    # To sort distinct numbers takes a fifth of the time of a stable sort of indices.
    mixed = times - least
    mixed <<= bits
    for rows in pieces(len(times)):
        mixed[rows] |= np.arange(rows.start, rows.stop)
    mixed.sort()
    mixed &= (1 << bits) - 1
    return mixed
