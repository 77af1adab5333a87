"""Every GPU activity with the API call that launched it, as arrays in the order of the launches.

Activities and calls meet by process and correlation id: ids repeat across processes. Where
several calls have one id (a runtime call and the driver call inside it), the earliest launched. Of
millions of calls few columns are kept at a time: what passes by in pieces stays in the processor's
cache.

And threads whose calls are no longer recorded while their process goes on calling. CUPTI numbers
the calls of a process in their order, whether they are recorded or not. Where the last buffers of
one thread are lost, such as the thread on which PyTorch computes gradients, as many more numbers
are missing from then on as the thread had calls before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.copies import COPY_READS, Copies, copy_rows
from gpuprof.facts.launching_calls import KEYS, launched_by_calls
from gpuprof.facts.numbers import (
    NOT_FOUND,
    Growing,
    Numbers,
    columns_of,
    index_kind,
    order_of,
    pieces,
)
from gpuprof.facts.timeline import COMPUTE, LOCAL_COPY, layer_of_copies, rows_known
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
from gpuprof.model.pairs import different, places_in
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.spilling import Packed
from gpuprof.model.words import narrowed

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

_TIMES: Final = ("start_ns", "end_ns", "device_id")
# Table -> the layer of its activities.
_LAYERS: Final = {"kernels": COMPUTE, "graph_launches": COMPUTE, "memsets": LOCAL_COPY}
# So many calls tell whether calls are missing.
_SAMPLE: Final = 50_000


@dataclass(frozen=True, eq=False)
class Activities:
    """GPU activities, one element each, copies first; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start on the device.
        duration_ns: How long it took there; in 32 bits mostly, as there are millions.
        device: The device it ran on.
        copies: More of the copies, whose places are those that they have here.
        tables: Names of tables to where their activities begin and end.
    """

    start_ns: Int64s
    duration_ns: Numbers
    device: Numbers
    copies: Copies
    tables: Mapping[str, tuple[int, int]]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    @property
    def layer(self) -> Numbers:
        """One of `timeline.LAYERS` each, made anew; kernels of communication count as compute."""
        of_tables = [
            layer_of_copies(self.copies)
            if table == "memcpys"
            else np.full(high - low, _LAYERS[table], np.int8)
            for table, (low, high) in self.tables.items()
        ]
        return np.concatenate([np.empty(0, np.int8), *of_tables])

    def end_ns(self, rows: slice | Numbers) -> Int64s:
        """End on the device of some."""
        return self.start_ns[rows] + self.duration_ns[rows]


@dataclass(frozen=True, eq=False)
class Launches:
    """Activities whose launching call is known, sorted by process, thread and time of the call.

    Args:
        activities: All activities.
        order: The place of each launched one among these.
        launch_ns: Start of the call that launched each, in 32 bits where these lie close together.
        bounds: Process and thread to where their launches begin and end.
    """

    activities: Activities
    order: Numbers
    launch_ns: Packed
    bounds: Mapping[tuple[int, int], tuple[int, int]]

    @property
    def extent(self) -> tuple[int, int]:
        """When the first call and the last one began, of one launch at least."""
        filled = [bounds for bounds in self.bounds.values() if bounds[0] < bounds[1]]
        first_ns = min(int(self.launch_ns[low : low + 1][0]) for low, _ in filled)
        return first_ns, max(int(self.launch_ns[high - 1 : high][0]) for _, high in filled)

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
        times = Packed([self.launch_ns[chosen]])
        return Launches(self.activities, self.order[chosen], times, bounds)

    def by_process(self) -> "Launches":
        """The same, sorted by process and time: their bounds are those of `ALL_THREADS`."""
        order, launch_ns = self.order.copy(), self.launch_ns[:].copy()
        bounds: dict[tuple[int, int], tuple[int, int]] = {}
        for (process, _), (low, high) in self.bounds.items():
            first, _ = bounds.get((process, ALL_THREADS), (low, high))
            bounds[process, ALL_THREADS] = first, high
        for low, high in bounds.values():
            rows = low + order_of(launch_ns[low:high])
            order[low:high], launch_ns[low:high] = self.order[rows], launch_ns[rows]
        return Launches(self.activities, order, Packed([launch_ns]), bounds)

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
            rows.start + np.flatnonzero(is_meant.take(self.order[rows]))
            for rows in pieces(len(self.order))
        ]
        places = np.concatenate([np.empty(0, np.int64), *at])
        launched = self.order[places]
        by_activity = np.argsort(launched)
        index = places_in(launched[by_activity], activities)
        chosen = np.full(len(activities), NOT_FOUND)
        chosen[index != NOT_FOUND] = places[by_activity[index[index != NOT_FOUND]]]
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
    columns = [Growing(), Growing(np.int32), Growing()]
    for column in columns:
        column.expect(rows_known(profile))
    tables, rows = {}, 0
    for table in _recorded(profile):
        low = rows
        for part in _times(profile, table):
            rows += len(part[0])
            for values, column in zip(part, columns, strict=True):
                column.add(values)
        tables[table] = low, rows
    start, duration, device = (column.values for column in columns)
    return Activities(start, duration, device, copy_rows(profile), tables)


def hold_kernels(profile: Profile) -> None:
    """Give start, end and device of kernels from arrays to all who ask from now on.

    Of a large recording these are asked for again and again, and are decoded anew each time.
    """
    if not profile.is_large:
        return
    work = activities(profile)
    low, high = work.tables["kernels"]
    start, duration, device = (c[low:high] for c in (work.start_ns, work.duration_ns, work.device))
    columns: dict[str, Callable[[slice], Numbers]] = {
        "start_ns": start.__getitem__,
        "end_ns": lambda rows: start[rows] + duration[rows],
    }
    if device.min(initial=0) >= 0:
        columns["device_id"] = device.__getitem__
    profile.loaded("kernels").hold(high - low, columns)


def _recorded(profile: Profile) -> list[str]:
    """The tables of activities, copies first."""
    return [*filter(profile.has, ("memcpys", *_LAYERS))]


def _times(profile: Profile, table: str) -> Iterator[Sequence[Any]]:
    """Start, duration and device of the activities of a table in pieces."""
    if table == "memcpys":
        copies = copy_rows(profile)
        yield copies.start_ns, narrowed(copies.end_ns - copies.start_ns), narrowed(copies.device)
        return
    for start, end, device in profile.columns(table, *_TIMES):
        yield start, narrowed(end - start), narrowed(device)


@once_per_profile
def launches(profile: Profile) -> Launches:
    """Every activity with the call that launched it; those without one are left out."""
    launched = launched_by_calls(profile.unrestricted, lambda: _keys(profile), rows_known(profile))
    # What told who launched what is no longer in memory.
    work = activities(profile)
    sizes = {lane: sum(len(of[0]) for of in launched[lane]) for lane in sorted(launched)}
    number = sum(sizes.values())
    order = np.empty(number, index_kind(len(work)))
    # Of no launch, too, the times are of 64 bits.
    parts: list[Numbers] = [np.empty(0, np.int64)]
    since_ns: list[Numbers | None] = [None]
    bounds, low = {}, 0
    for lane, size in sizes.items():
        rows, of_lane, at = order[low : low + size], len(parts), 0
        # What one lane's pieces took makes room for what comes next.
        for places, part, since in launched.pop(lane):
            rows[at : (at := at + len(places))] = places
            parts.append(part)
            since_ns.append(since)
        times = Packed(parts[of_lane:], since_ns[of_lane:])
        for piece in pieces(size - 1):
            near = slice(piece.start, piece.stop + 1)
            if ((np.diff(times[near]) == 0) & (np.diff(rows[near]) < 0)).any():
                rows[:] = rows[np.lexsort((rows, times[:]))]
                break
        bounds[lane], low = (low, low + size), low + size
    return Launches(work, order, Packed(parts, since_ns), bounds)


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


def _keys(profile: Profile) -> Iterator[Sequence[Numbers]]:
    """Process and correlation id of all activities in pieces, as narrow as they are there."""
    for table in _recorded(profile):
        if table == "memcpys":
            yield copy_rows(profile).process, copy_rows(profile).correlation
            continue
        for part in profile.columns(table, *KEYS):
            yield [*map(narrowed, part)]
        if profile is profile.unrestricted:
            # Nothing else asks for the ids of millions of activities other than copies.
            profile.let_go(table, "correlation_id")


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


# What nsys says where it lost events. Without that, a thread whose calls end has ended.
EVENTS_LOST: Final = "Not all CUDA events might have been collected"

_NUMBERED_CALL: Final = ("start_ns", "process_id", "thread_id", "correlation_id")
# Fewer calls tell too little, and a thread with fewer launches is missed in no step.
_LEAST_CALLS: Final = 100
# Of the calls that a thread would have made, so many numbers are missing after its last call. In
# recordings of threads that ended it is 0 or less, of one whose calls were lost 0.7.
_LEAST_MISSING: Final = 0.5
# The program goes on as before where other threads make at least so many of the calls.
_GOING_ON: Final = 0.5


@once_per_recording
def lost_threads(profile: Profile) -> Mapping[int, tuple[int, int]]:
    """By process, the first thread whose calls are lost, and when its last recorded one began.

    In ns; nothing where the profiler does not say that it lost events.
    """
    if not any(EVENTS_LOST in warning for warning in profile.origin.warnings):
        return {}
    if not profile.has("api_calls"):
        return {}
    start, processes, threads, number = columns_of(
        profile.columns("api_calls", *_NUMBERED_CALL), len(_NUMBERED_CALL)
    )
    lost: dict[int, tuple[int, int]] = {}
    for (process, thread), (low, high) in launches(profile).bounds.items():
        if high - low < _LEAST_CALLS:
            continue
        rows = processes == process
        last_ns = _lost_after(start[rows], threads[rows] == thread, number[rows])
        if last_ns is not None and last_ns < lost.get(process, (0, last_ns + 1))[1]:
            lost[process] = thread, last_ns
    return lost


def _lost_after(start: Int64s, is_its: Numbers, number: Numbers) -> int | None:
    """When the last recorded call of a thread began; None where none is lost after that.

    All calls are of one process, and have their correlation ids.
    """
    last_ns = int(start[is_its].max())
    around_ns = min(last_ns - int(start[is_its].min()), int(start.max()) - last_ns)
    before = (start > last_ns - around_ns) & (start <= last_ns)
    after = (start > last_ns) & (start <= last_ns + around_ns)
    its_calls, other_calls = np.count_nonzero(before & is_its), np.count_nonzero(before & ~is_its)
    least_calls = max(_GOING_ON * other_calls, _LEAST_CALLS)
    if its_calls < _LEAST_CALLS or np.count_nonzero(after) < least_calls:
        return None
    more = _missing(number[after]) - _missing(number[before])
    return last_ns if more >= _LEAST_MISSING * its_calls else None


def _missing(numbers: Numbers) -> int:
    """How many numbers are missing between the least and the greatest of calls."""
    ids = different(numbers[numbers > 0])
    return int(ids[-1] - ids[0]) + 1 - len(ids) if len(ids) else 0
