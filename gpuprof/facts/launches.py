"""Every GPU activity with the API call that launched it, as arrays in the order of the launches.

Activities and calls meet by process and correlation id: ids repeat across processes. Where
several calls have one id (a runtime call and the driver call inside it), the earliest launched. Of
millions of calls few columns are kept at a time: what passes by in pieces stays in the processor's
cache.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.copies import COPY_READS, Copies, copy_rows
from gpuprof.facts.numbers import (
    NOT_FOUND,
    Growing,
    Numbers,
    columns_of,
    groups,
    index_kind,
    pieces,
)
from gpuprof.facts.timeline import COMPUTE, LOCAL_COPY, layer_of_copies
from gpuprof.model.analysis import reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import (
    Int64s,
    Intervals,
    covered_within,
    pairs,
    together,
    unions_by_key,
)
from gpuprof.model.pairs import Pairs, pair_places, sorted_pairs
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.words import narrowed
from gpuprof.native import arrays

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

_CALL: Final = ("process_id", "correlation_id", "start_ns", "thread_id")
_KEYS: Final = ("process_id", "correlation_id")
_TIMES: Final = ("start_ns", "end_ns", "device_id")
# Table -> the layer of its activities.
_LAYERS: Final = {"kernels": COMPUTE, "graph_launches": COMPUTE, "memsets": LOCAL_COPY}
# So many calls tell whether calls are missing.
_SAMPLE: Final = 50_000
_BITS: Final = 63
# Below this many places per id, an array by id is smaller and faster than sorting.
_DENSE: Final = 16
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

# Of activities that calls of one thread launched: the place of each, the start of the first of the
# calls, and how much later the call of each started.
Launched = tuple[Numbers, int, Numbers]


@dataclass(frozen=True, eq=False)
class Activities:
    """GPU activities, one element each, copies first; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start on the device.
        duration_ns: How long it took there; in 32 bits mostly, as there are millions.
        device: The device it ran on.
        layer: One of `timeline.LAYERS`; kernels of communication count as compute.
        copies: More of the copies, whose places are those that they have here.
        tables: Names of tables to where their activities begin and end.
    """

    start_ns: Int64s
    duration_ns: Numbers
    device: Numbers
    layer: Numbers
    copies: Copies
    tables: Mapping[str, tuple[int, int]]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    def end_ns(self, rows: slice | Numbers) -> Int64s:
        """End on the device of some."""
        return self.start_ns[rows] + self.duration_ns[rows]


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

    def process(self) -> Int64s:
        """The process of each."""
        process = np.empty(len(self.order), np.int64)
        for (number, _), (low, high) in self.bounds.items():
            process[low:high] = number
        return process

    def places(self, activities: Int64s) -> Int64s:
        """The place of each of a few activities among all launches, or `NOT_FOUND`."""
        is_meant = np.zeros(len(self.activities), bool)
        is_meant[activities] = True
        at = [
            rows.start + np.flatnonzero(is_meant[self.order[rows]])
            for rows in pieces(len(self.order))
        ]
        places = np.concatenate([np.empty(0, np.int64), *at])
        launched = self.order[places]
        by_activity = np.argsort(launched)
        index = np.searchsorted(launched, activities, sorter=by_activity)
        is_launched = np.isin(activities, launched)
        chosen = np.full(len(activities), NOT_FOUND)
        chosen[is_launched] = places[by_activity[index[is_launched]]]
        return chosen

    def beginning(self, device: Int64s, instant: Int64s) -> Int64s:
        """The place of an activity that begins on each device at an instant.

        A peer copy begins on both its ends. `NOT_FOUND` where none begins there, or its call is not
        known.
        """
        activities = self.activities
        beginners = [np.empty((2, 0), np.int64)]
        for table, (low, high) in activities.tables.items():
            starts = activities.start_ns[low:high]
            order = None if (starts[1:] >= starts[:-1]).all() else np.argsort(starts, kind="stable")
            ordered = starts if order is None else starts[order]
            first = np.searchsorted(ordered, instant, side="left")
            last = np.searchsorted(ordered, instant, side="right")
            row, place = pairs(first, last - first)
            place = low + (place if order is None else order[place])
            is_here: npt.NDArray[np.bool_] = activities.device[place] == device[row]
            if table == "memcpys":
                src, dst = activities.copies.take(place).ends
                is_here |= (src == device[row]) | (dst == device[row])
            is_here &= activities.end_ns(place) > instant[row]
            beginners.append(np.stack([row, place])[:, is_here])
        row, place = np.concatenate(beginners, axis=1)
        launched = self.places(place)
        is_launched = launched != NOT_FOUND
        launch = np.full(len(instant), NOT_FOUND)
        # What is written later overwrites what was before: the first one remains.
        launch[row[is_launched][::-1]] = launched[is_launched][::-1]
        return launch


@once_per_profile
def activities(profile: Profile) -> Activities:
    """Every kernel, copy, memset and whole graph."""
    columns = [Growing(), Growing(np.int32), Growing(), Growing()]
    for column in columns:
        column.expect(_rows_known(profile))
    tables, rows = {}, 0
    for table in _recorded(profile):
        low = rows
        for part in _times(profile, table):
            rows += len(part[0])
            for values, column in zip(part, columns, strict=True):
                column.add(values)
        tables[table] = low, rows
    start, duration, device, layer = (column.values for column in columns)
    return Activities(start, duration, device, layer, copy_rows(profile), tables)


def hold_kernels(profile: Profile) -> None:
    """Give start, end, device and name of kernels from arrays to all who ask from now on.

    Of a large recording these are asked for again and again, and are decoded anew each time.
    """
    if not profile.is_large:
        return
    work = activities(profile)
    (low, high), names = work.tables["kernels"], Growing(np.int8)
    for (name,) in profile.columns("kernels", "name_id"):
        names.add(narrowed(name))
    start, duration, device = (c[low:high] for c in (work.start_ns, work.duration_ns, work.device))
    columns: dict[str, Callable[[slice], Numbers]] = {
        "start_ns": start.__getitem__,
        "end_ns": lambda rows: start[rows] + duration[rows],
    }
    known = {"device_id": device, "name_id": names.values}
    columns |= {name: of.__getitem__ for name, of in known.items() if of.min(initial=0) >= 0}
    profile.loaded("kernels").hold(high - low, columns)


def _recorded(profile: Profile) -> list[str]:
    """The tables of activities, copies first."""
    return [*filter(profile.has, ("memcpys", *_LAYERS))]


def _rows_known(profile: Profile) -> int:
    """How many activities there are at most."""
    return sum(profile.loaded(table).rows_known() for table in _recorded(profile))


def _times(profile: Profile, table: str) -> Iterator[Sequence[Any]]:
    """Start, duration, device and layer of the activities of a table in pieces."""
    if table == "memcpys":
        copies = copy_rows(profile)
        duration, device = narrowed(copies.end_ns - copies.start_ns), narrowed(copies.device)
        yield copies.start_ns, duration, device, layer_of_copies(copies)
        return
    for start, end, device in profile.columns(table, *_TIMES):
        layer = np.full(len(start), _LAYERS[table], np.int8)
        yield start, narrowed(end - start), narrowed(device), layer


@once_per_profile
def launches(profile: Profile) -> Launches:
    """Every activity with the call that launched it; those without one are left out."""
    launched = launched_by_calls(profile.unrestricted, lambda: _keys(profile), _rows_known(profile))
    # Nothing else asks for the ids of millions of activities other than copies.
    for table in filter(profile.has, _LAYERS) if profile is profile.unrestricted else ():
        profile.let_go(table, "correlation_id")
    # What told who launched what is no longer in memory.
    work = activities(profile)
    sizes = {lane: sum(len(of[0]) for of in launched[lane]) for lane in sorted(launched)}
    number = sum(sizes.values())
    order = np.empty(number, index_kind(len(work)))
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
    return Launches(work, order, launch_ns, bounds)


@once_per_recording
def first_calls(profile: Profile) -> list[Int64s]:
    """Start, process, thread, correlation id and name of calls, up to some more than `_SAMPLE`."""
    columns = "start_ns", "process_id", "thread_id", "correlation_id", "name_id"

    def enough() -> Iterator[list[Int64s]]:
        rows = 0
        for part in profile.columns("api_calls", *columns):
            yield part
            rows += len(part[0])
            if rows >= _SAMPLE:
                return

    return [column.astype(np.int64) for column in columns_of(enough(), len(columns))]


def launched_by_calls(
    recording: Profile, keys: Callable[[], Iterable[Sequence[Numbers]]], rows: int
) -> dict[tuple[int, int], list[Launched]]:
    """What the first call of each id launched, as in `launched_by`, in whatever order calls are.

    Args:
        recording: The calls.
        keys: Process and correlation id of what they launched, in pieces.
        rows: How many these are at most.
    """
    launched = launched_by(recording.columns("api_calls", *_CALL), *_members(keys(), rows))
    if launched is None:
        calls = columns_of(recording.columns("api_calls", *_CALL), len(_CALL))
        by_start = np.argsort(calls[_CALL.index("start_ns")], kind="stable")
        ordered = ([column[by_start[rows]] for column in calls] for rows in pieces(len(by_start)))
        launched = launched_by(ordered, *_members(keys(), rows)) or {}
    return launched


def _members(
    keys: Iterable[Sequence[Numbers]], rows: int
) -> "tuple[Ids, arrays.Chains | _Members]":
    """The ids by which calls launched some activities, and the activities by these."""
    process, correlation = columns_of(keys, len(_KEYS), rows)
    ids = Ids(process, correlation)
    return ids, ids.chains(process, correlation) or _Members(ids, process, correlation)


def _keys(profile: Profile) -> Iterator[Sequence[Numbers]]:
    """Process and correlation id of all activities in pieces, as narrow as they are there."""
    for table in _recorded(profile):
        if table == "memcpys":
            yield copy_rows(profile).process, copy_rows(profile).correlation
            continue
        for part in profile.columns(table, *_KEYS):
            yield [*map(narrowed, part)]


@once_per_profile
def exposed_of_copies(profile: Profile) -> Int64s:
    """How long each copy ran while no kernel did, on the end where that is longer.

    Copies that run at once each have their own time.
    """
    work = activities(profile)
    number = len(work.copies)
    ends = work.device[:number], *work.copies.ends
    start, end = work.start_ns[:number], work.end_ns(slice(number))
    longest = np.zeros(number, np.int64)
    # When kernels of the whole recording ran, by device, in several sets.
    recorded = activities(profile.unrestricted)
    kernels: dict[int, list[Intervals]] = {}
    for table in ("kernels", "graph_launches"):
        low, high = recorded.tables.get(table, (0, 0))
        for rows in pieces(high, low):
            key = recorded.device[rows].astype(np.int32) - UNKNOWN
            for place, busy in unions_by_key(recorded.start_ns[rows], recorded.end_ns(rows), key):
                kernels.setdefault(place + UNKNOWN, []).append(busy)
    devices = {device for end in ends for device in np.unique(end).tolist() if device >= 0}
    for device in (*devices, UNKNOWN):
        at = [device_id == device for device_id in ends]
        # Of a copy that names no device, the kernels that name none may hide it.
        is_here = (
            at[0] & (ends[1] < 0) & (ends[2] < 0) if device == UNKNOWN else at[0] | at[1] | at[2]
        )
        here = np.flatnonzero(is_here)
        hidden_ns = covered_within(together(kernels.get(device, [])), start[here], end[here])
        longest[here] = np.maximum(longest[here], end[here] - start[here] - hidden_ns)
    return longest


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


def launched_by(
    calls: Iterable[Sequence[Numbers]], ids: "Ids", rows: "arrays.Chains | _Members"
) -> dict[tuple[int, int], list[Launched]] | None:
    """What the first call of each id launched, in the order of the calls; of one call by place.

    Args:
        calls: Process, correlation id, start and thread of calls, in pieces.
        ids: The ids of the calls that launched the activities.
        rows: The activities by these; calls take them.

    Returns:
        By process and thread of the calls, in pieces; None where a call starts before one that came
        before it.
    """
    lanes, latest = Pairs(), _EARLIEST
    spans, launched = np.empty((0, 3), np.int64), defaultdict[int, list[Launched]](list)
    for of, number, start, thread in calls:
        if len(start) and (start[0] < latest or (start[1:] < start[:-1]).any()):
            return None
        latest = int(start[-1]) if len(start) else latest
        lane = lanes.learn(of, thread)
        if isinstance(rows, _Members):
            taken = rows.take(lane, ids.of(of, number), start)
        else:
            if len(spans) < len(lanes):
                none = np.zeros((1, 3), np.int64)
                spans = np.append(ids.spans, none, axis=0)[ids.index(lanes.values[0])]
            taken = rows.take(lane, number, start, spans)
        place, time, of_lane = taken
        for alike in groups(of_lane):
            times = time[alike]
            launched[int(of_lane[alike[0]])].append(
                (place[alike], int(times[0]), narrowed(times - times[0]))
            )
    return {
        (of, thread): launched[number]
        for number, (of, thread) in enumerate(lanes.values.T.tolist())
    }


class Ids:
    """Places from 0 on for the processes and correlation ids of some activities.

    Args:
        process: The process of each activity.
        correlation: The id of each; below 0 where it is unknown.
    """

    def __init__(self, process: Numbers, correlation: Numbers) -> None:
        self._processes = Pairs()
        low, high = np.empty(0, np.int64), np.empty(0, np.int64)
        for rows in pieces(len(process)):
            index, ids = self._processes.learn(process[rows], process[rows]), correlation[rows]
            more = len(self._processes) - len(low)
            low = np.append(low, np.full(more, _LATEST))
            high = np.append(high, np.full(more, NOT_FOUND))
            if (is_unknown := ids < 0).any():
                index, ids = index[~is_unknown], ids[~is_unknown]
            places, numbers = index.astype(np.intp), ids.astype(np.int64)
            np.minimum.at(low, places, numbers)
            np.maximum.at(high, places, numbers)
        number = len(low)
        size: Int64s = np.where(high < 0, 0, np.minimum(high - low, _LATEST // (number + 1)) + 1)
        self.spans: Int64s = np.stack([low, size, np.cumsum(size) - size], axis=1)
        self.size = int(size.sum())
        self._pairs: Int64s | None = None
        self._is_dense = self.size <= _DENSE * (len(process) + 1)
        if not self._is_dense:
            is_known = correlation >= 0
            self._pairs = sorted_pairs(process[is_known], correlation[is_known])
            self.size = self._pairs.shape[1]

    def of(self, process: Numbers, correlation: Numbers) -> Int64s:
        """The place of each process and id, or `NOT_FOUND`."""
        if self._pairs is not None:
            return pair_places(self._pairs, process, correlation).astype(np.int64)
        index = self.index(process)
        places = arrays.id_places(index, correlation, self.spans)
        if places is not None:
            return places
        if not len(self.spans):
            return np.full(len(process), NOT_FOUND)
        low, size, base = self.spans[index].T
        offset = correlation - low
        is_found = (index != NOT_FOUND) & (offset >= 0) & (offset < size)
        return np.where(is_found, base + offset, NOT_FOUND)

    def index(self, process: Numbers) -> Numbers:
        """The number of each process, which is its row of ``spans``, or `NOT_FOUND`."""
        return self._processes.of(process, process)

    def chains(self, process: Numbers, correlation: Numbers) -> arrays.Chains | None:
        """The activities by their id; None without compiled functions, or where ids are few."""
        if not self._is_dense or len(process) >= 1 << 31:
            return None
        index = np.empty(len(process), np.min_scalar_type(-len(self.spans) - 1))
        for rows in pieces(len(process)):
            index[rows] = self.index(process[rows])
        chains = arrays.Chains(index, correlation, self.spans, self.size)
        return chains if chains.are_made else None


class _Members:
    """Activities by the places of their ids, for calls to take, as from `arrays.Chains`."""

    def __init__(self, ids: Ids, process: Numbers, correlation: Numbers) -> None:
        place = ids.of(process, correlation)
        order = np.argsort(place, kind="stable").astype(index_kind(len(place)))
        self._rows = order[np.count_nonzero(place == NOT_FOUND) :]
        self._bounds = np.searchsorted(place[self._rows], np.arange(ids.size + 1))
        self._is_taken = np.zeros(ids.size, bool)

    def take(self, lane: Numbers, place: Int64s, start: Numbers) -> tuple[Numbers, Int64s, Numbers]:
        """Take the activities of some calls' places, which are gone for later ones."""
        ids, first = np.unique(place, return_index=True)
        is_new = ids != NOT_FOUND
        is_new[is_new] = ~self._is_taken[ids[is_new]]
        call = np.sort(first[is_new])
        at = place[call]
        self._is_taken[at] = True
        call_index, member = pairs(self._bounds[at], self._bounds[at + 1] - self._bounds[at])
        return self._rows[member], start[call][call_index], lane[call][call_index]
