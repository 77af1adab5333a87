"""Why each device paused: what it waited for, or what the host did while the device had no work.

What ends a pause was launched by a call on the host. Before that call began, the host was late,
and what its thread was in then is the cause. From then on the device waited: for work of another
stream or device that ended just before, where there is such work; else for the launch itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from gpuprof.base.cuda import is_waiting
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import ALL_THREADS, LAUNCH_READS, launches
from gpuprof.facts.numbers import NOT_FOUND, UNNAMED, Numbers, groups, pieces, read_columns, rows_by
from gpuprof.facts.nvtx import (
    LOADS_INPUT,
    NO_RANGE,
    OF_ONE_CALL,
    RANGE_READS,
    STEP_MARK,
    Ranges,
    patterns,
    ranges_of,
)
from gpuprof.facts.pauses import PAUSE_READS, Pauses, pauses_of
from gpuprof.facts.python_functions import is_of_program, shown_function
from gpuprof.facts.range_launches import open_at
from gpuprof.facts.timeline import far_ends, timelines
from gpuprof.model.analysis import reads
from gpuprof.model.data_model import OPERATION
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import (
    Int64s,
    Intervals,
    difference,
    meeting,
    overlapping,
    pairs,
    union,
)
from gpuprof.model.pairs import Pairs, different
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.table import Choice, Flags
from gpuprof.model.words import Words, narrowed

# So long before work begins, at most, ends what it waited for; and so long, at most, launched work
# takes to begin that waits for nothing.
NEAR_NS: Final = 20_000

CAUSE_READS: Final = reads(
    PAUSE_READS,
    LAUNCH_READS,
    RANGE_READS,
    **dict.fromkeys(("kernels", "memcpys", "memsets", "graph_launches"), "stream_id"),
    synchronizations="start_ns process_id stream_id sync_kind src_device_id src_stream_id",
    api_calls="start_ns end_ns process_id thread_id name",
    host_calls="start_ns end_ns process_id thread_id name library",
)
SHORT: Final = ("short", None)
_LATE: Final = ("host_late", None)
_HOST_CAUSES: Final = {"mpi": "mpi_call", "ucx": "ucx_call", "os": "os_call"}
# Share of a device's time from which on the functions of Python are read to name it.
WORTH_READING: Final = 0.05
_EARLIEST: Final = np.iinfo(np.int64).min
_PLACE: Final = ("start_ns", "end_ns", "process_id", "thread_id")
_WAITS: Final = ("start_ns", "process_id", "stream_id", "src_device_id", "src_stream_id")

Thread: TypeAlias = tuple[int, int]
Label: TypeAlias = tuple[str, str | None]
_Layers: TypeAlias = list[Mapping[Thread, "Stretches"]]


class _Labels(dict[Label, int]):
    """Causes with their details, and a number for each."""

    def of(self, cause: str, detail: str | None) -> int:
        """Its number, given when it is first asked for."""
        return self.setdefault((cause, detail), len(self))


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of time of a thread, one element each, with a number of what they are.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        label: What it is.
    """

    start_ns: Int64s
    end_ns: Int64s
    label: Numbers

    def take(self, chosen: Any) -> "Stretches":
        """Some of them."""
        return Stretches(self.start_ns[chosen], self.end_ns[chosen], self.label[chosen])

    def outermost(self) -> "Stretches":
        """Those that lie in no other, cut where one begins before another ended: disjoint."""
        ordered = self.take(np.lexsort((-self.end_ns, self.start_ns)))
        reach = np.maximum.accumulate(ordered.end_ns)[:-1]
        start = ordered.start_ns.copy()
        start[1:] = np.maximum(start[1:], reach)
        return Stretches(start, ordered.end_ns, ordered.label).take(ordered.end_ns > start)

    def at_each_instant(self, *, is_outermost: bool) -> "Stretches":
        """The one that began first, or last, of those that are open at each instant: disjoint."""
        ordered = self.take(np.lexsort((-self.end_ns, self.start_ns)))
        borders = different(np.concatenate([ordered.start_ns, ordered.end_ns]))
        place = open_at(ordered.start_ns, ordered.end_ns, borders, is_outermost=is_outermost)[:-1]
        is_open = place != NO_RANGE
        times = borders[:-1][is_open], borders[1:][is_open]
        return Stretches(*times, ordered.label[place[is_open]])


_NO_STRETCHES: Final = Stretches(*(np.empty(0, np.int64) for _ in range(3)))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of pauses, one element each.

    Args:
        pause: Index of the pause in `pauses_of`.
        stretches: When, and the number of the cause.
        labels: Cause and detail by these numbers.
    """

    pause: Numbers
    stretches: Stretches
    labels: tuple[Label, ...]


@once_per_recording
def pieces_of(profile: Profile) -> Pieces:
    """The pieces of all pauses of the whole recording, each with its cause."""
    all_pauses, (is_launched, hull, cuda, labels) = pauses_of(profile), calls_in_pauses(profile)
    unknown, launched = np.flatnonzero(~is_launched), np.flatnonzero(is_launched)
    label = np.full(len(unknown), labels.of("unknown", None))
    parts = [(unknown, Stretches(all_pauses.start_ns[unknown], all_pauses.end_ns[unknown], label))]
    if len(launched):
        # The thread that made each of the launches.
        bounds = sorted(launches(profile).bounds.items(), key=lambda item: item[1])
        lows, threads = [low for _, (low, _) in bounds], [thread for thread, _ in bounds]
        lane = np.searchsorted(lows, all_pauses.launch[launched], side="right") - 1

        def late(layers: _Layers) -> list[tuple[Int64s, Stretches]]:
            return [
                _late(all_pauses, launched[rows], threads[int(lane[rows[0]])], layers, labels)
                for rows in groups(all_pauses.device[launched], lane)
            ]

        layers = _layers(profile, hull, cuda, labels)
        late_parts, unnamed = late(layers), labels.of(*_LATE)
        late_ns = sum(int((s.end_ns - s.start_ns)[s.label == unnamed].sum()) for _, s in late_parts)
        # A trace may hold more functions of Python than of all else together.
        longest_ns = max(device.span.length for device in timelines(profile))
        if late_ns > WORTH_READING * longest_ns:
            late_parts = late([*layers, *_python(profile, hull, labels)])
        launching = _launching(all_pauses, launched, cuda, lane, threads)
        launched_part = _launched(profile, all_pauses, launched, launching, labels)
        parts += [*late_parts, launched_part]
    pause = np.concatenate([index for index, _ in parts])
    return Pieces(narrowed(pause), _together(stretches for _, stretches in parts), tuple(labels))


@once_per_recording
def calls_in_pauses(profile: Profile) -> tuple[Flags, Intervals, dict[Thread, Stretches], _Labels]:
    """Which pauses a known call ended, when these were, the calls in them, and labels of causes."""
    all_pauses, labels = pauses_of(profile), _Labels({("unknown", None): 0})
    is_launched = (all_pauses.launch != NOT_FOUND) & host_clock(profile).is_known
    # Such a device works for another process, whose calls are not in this recording.
    is_launched &= ~np.isin(all_pauses.device, np.array(far_ends(profile), np.int64))
    hull = union(all_pauses.start_ns[is_launched], all_pauses.end_ns[is_launched])
    calls = _api_calls(profile, hull, labels) if is_launched.any() else ()
    return is_launched, hull, _calls_within(profile, hull, calls), labels


def pieces_on(profile: Profile, device: int) -> Numbers:
    """The places of the pieces of the pauses of one device."""
    return profile.unrestricted.once(_pieces_by_device).get(device, np.empty(0, np.int64))


def _pieces_by_device(profile: Profile) -> Mapping[int, Numbers]:
    by_device = rows_by(pauses_of(profile).device[pieces_of(profile).pause])
    return {device: narrowed(rows) for device, rows in by_device.items()}


def _together(parts: Iterable[Stretches]) -> Stretches:
    columns = zip(*((s.start_ns, s.end_ns, s.label) for s in parts), strict=True)
    start, end, label = map(np.concatenate, columns)
    return Stretches(start, end, narrowed(label))


def _layers(
    profile: Profile, hull: Intervals, cuda: Mapping[Thread, Stretches], labels: _Labels
) -> _Layers:
    """What threads were in at some instants: of layers open at once the first counts.

    Libraries call CUDA, and CUDA the operating system: the outer call says what the host did.
    """
    of_libraries = {name: partial(labels.of, cause) for name, cause in _HOST_CAUSES.items()}
    calls = _calls_within(profile, hull, _library_calls(profile, of_libraries))
    mpi, ucx, os_calls = (
        _labelled(calls, [number for (of, _), number in labels.items() if of == cause])
        for cause in _HOST_CAUSES.values()
    )
    if not profile.has("nvtx_ranges"):
        return [mpi, cuda, ucx, os_calls]
    # NCCL's calls, what loads input by way of operations, the operations that the program called,
    # the nearest names that people gave.
    nvtx, clock = ranges_of(profile), host_clock(profile)
    start, end = (clock.on_devices(ns, nvtx.process) for ns in (nvtx.start_ns, nvtx.end_ns))
    near = replace(nvtx, start_ns=start, end_ns=end).take(meeting(Intervals(start, end), hull))
    nccl, loaders, operations, ranges = {}, {}, {}, {}
    details = [text.removesuffix(", *") for text in patterns([t for t, _, _ in nvtx.labels])]
    for number, ((text, domain, kind), detail) in enumerate(zip(nvtx.labels, details, strict=True)):
        if domain == "NCCL":
            nccl[number] = labels.of("nccl_call", detail)
        elif kind == OPERATION or OF_ONE_CALL.search(text):
            operations[number] = labels.of("operation", detail)
        elif LOADS_INPUT.search(text):
            loaders[number] = labels.of("range", detail)
        elif not STEP_MARK.fullmatch(text):
            ranges[number] = labels.of("range", detail)
    return [
        *(mpi, _labelled_ranges(near, nccl, is_outermost=True), cuda, ucx, os_calls),
        _labelled_ranges(near, loaders, is_outermost=True),
        _labelled_ranges(near, operations, is_outermost=True),
        _labelled_ranges(near, ranges, is_outermost=False),
    ]


def _python(profile: Profile, hull: Intervals, labels: _Labels) -> _Layers:
    """The nearest functions of the program, and those of Python's and installed packages."""
    of_program: set[int] = set()

    def label(name: str) -> int:
        number = labels.of("python_function", shown_function(name))
        if is_of_program(name):
            of_program.add(number)
        return number

    calls = _calls_within(profile, hull, _library_calls(profile, {"python": label}))
    return [
        {t: of_thread.at_each_instant(is_outermost=False) for t, of_thread in some.items()}
        for some in (_labelled(calls, [*of_program]), calls)
    ]


def _late(
    all_pauses: Pauses, pause: Int64s, thread: Thread, layers: _Layers, labels: _Labels
) -> tuple[Int64s, Stretches]:
    """What a thread did in pauses of one device before it launched what ended them."""
    start = all_pauses.start_ns[pause]
    until = np.clip(all_pauses.launch_ns[pause], start, all_pauses.end_ns[pause])
    open_time = Intervals(start[until > start], until[until > start])
    parts = []
    callers = (thread, (thread[0], ALL_THREADS))
    for some in (layer[caller] for layer in layers for caller in callers if caller in layer):
        covering = some.outermost()
        met = overlapping(open_time, Intervals(covering.start_ns, covering.end_ns))
        index, place = pairs(*met)
        first = np.maximum(open_time.start[index], covering.start_ns[place])
        last = np.minimum(open_time.end[index], covering.end_ns[place])
        parts.append(Stretches(first, last, covering.label[place]))
        open_time = difference(open_time, union(covering.start_ns, covering.end_ns))
    unnamed = np.full(len(open_time), labels.of(*_LATE))
    joined = _together([*parts, Stretches(open_time.start, open_time.end, unnamed)])
    return pause[np.searchsorted(start, joined.start_ns, side="right") - 1], joined


def _launching(
    all_pauses: Pauses,
    launched: Int64s,
    cuda: Mapping[Thread, Stretches],
    lane: Int64s,
    threads: Sequence[Thread],
) -> tuple[Int64s, Numbers]:
    """When the call that launched what ended each pause returned, and its label.

    Calls that do not reach into a pause have returned when they began.
    """
    returned, label = all_pauses.launch_ns[launched].copy(), np.full(len(launched), NOT_FOUND)
    for of_lane in groups(lane):
        calls = cuda.get(threads[int(lane[of_lane[0]])], _NO_STRETCHES)
        calls = calls.take(np.lexsort((-calls.end_ns, calls.start_ns)))
        place = np.searchsorted(calls.start_ns, returned[of_lane], side="left")
        is_there = np.append(calls.start_ns, -1)[place] == returned[of_lane]
        rows, place = of_lane[is_there], place[is_there]
        returned[rows], label[rows] = calls.end_ns[place], calls.label[place]
    return returned, label


def _launched(
    profile: Profile,
    all_pauses: Pauses,
    launched: Int64s,
    launching: tuple[Int64s, Numbers],
    labels: _Labels,
) -> tuple[Int64s, Stretches]:
    """The parts of pauses from the launch on of what ended them."""
    names = [*labels]
    returned, call = launching
    end = all_pauses.end_ns[launched]
    start = np.clip(all_pauses.launch_ns[launched], all_pauses.start_ns[launched], end)
    label = np.full(len(launched), labels.of("launch", None))
    for number in different(call[call != NOT_FOUND]).tolist():
        label[call == number] = labels.of("launch", names[number][1])
    slow = np.flatnonzero(end - returned > NEAR_NS)
    label[slow] = labels.of("waits_for_unknown", None)
    if len(slow):
        device = all_pauses.device[launched][slow]
        cause = _awaited(profile, device, all_pauses.launch[launched][slow], start[slow], end[slow])
        slow, device, cause = (column[cause != NOT_FOUND] for column in (slow, device, cause))
        awaited_device = launches(profile).activities.device[cause]
        stream = np.where(
            awaited_device == device, profile.unrestricted.once(_streams_of)[cause], NOT_FOUND
        )
        for waits in groups(awaited_device, stream):
            awaited, of_same = int(awaited_device[waits[0]]), int(stream[waits[0]])
            if of_same != NOT_FOUND:
                name = None if of_same == UNKNOWN else f"stream {of_same}"
                label[slow[waits]] = labels.of("waits_for_stream", name)
            else:
                name = None if awaited == UNKNOWN else f"device {awaited}"
                label[slow[waits]] = labels.of("waits_for_device", name)
    filled = np.flatnonzero(end > start)
    return launched[filled], Stretches(start, end, label).take(filled)


def _api_calls(profile: Profile, instants: Intervals, labels: _Labels) -> Iterator[list[Any]]:
    """Start, end, process, thread and, by its name, the label of API calls, in pieces.

    Others than those that cover any of some instants of devices may be missing.
    """
    clock = host_clock(profile)

    def covering(start: Int64s, end: Int64s, *process: Numbers) -> Int64s:
        if process:
            start, end = (clock.on_devices(times, *process) for times in (start, end))
        return meeting(Intervals(start, end), instants)

    def label(name: str) -> int:
        return labels.of("synchronising_call" if is_waiting(name) else "cuda_call", name)

    of_names = profile.loaded("api_calls").names.values(label, label(UNNAMED))
    # Of millions of calls few are made in pauses: only their processes and threads are looked at.
    near = Choice(_PLACE[:3] if clock.shifts_ns else _PLACE[:2], covering)
    for *place, number in profile.columns("api_calls", *_PLACE, "name_id", choice=near):
        yield [*place, of_names.of(number)]


def _library_calls(
    profile: Profile, labels: Mapping[str, Callable[[str], int]]
) -> Iterator[list[Any]]:
    """The same of ``host_calls``: the label of a name by library; those of others are left out."""
    if not profile.has("host_calls"):
        return
    texts, pairs, numbers = {"library": Words(labels), "name": Words()}, Pairs(), list[int]()
    for *place, library, name in profile.columns("host_calls", *_PLACE, *texts, texts=texts):
        rows = np.flatnonzero(library < len(labels))
        number = pairs.learn(library[rows], name[rows])
        libraries, names = (words.words for words in texts.values())
        for by, of in pairs.values.T[len(numbers) :].tolist():
            numbers.append(labels[str(libraries[by])](str(names[of])))
        yield [*(column[rows] for column in place), np.array(numbers, np.int64)[number]]


def _calls_within(
    profile: Profile, instants: Intervals, calls: Iterable[Sequence[Any]]
) -> dict[Thread, Stretches]:
    """The calls of each thread that cover any of some instants of devices, in any order.

    Instants, and the times that are returned, are on the clock of the devices.
    """
    parts, clock = [[np.empty(0, np.int64)] * 5], host_clock(profile)
    for *times, process, thread, labels in calls:
        place = [*(clock.on_devices(column, process) for column in times), process, thread]
        covering = meeting(Intervals(*place[:2]), instants)
        parts.append([column.take(covering) for column in (*place, labels)])
    start, end, process, thread, label = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    within = Stretches(start, end, label)
    return {
        (int(process[r[0]]), int(thread[r[0]])): within.take(r) for r in groups(process, thread)
    }


def _labelled(calls: Mapping[Thread, Stretches], numbers: Sequence[int]) -> dict[Thread, Stretches]:
    """Those of each thread that have one of some labels."""
    return {thread: of.take(np.isin(of.label, numbers)) for thread, of in calls.items()}


def _labelled_ranges(
    ranges: Ranges, labels: Mapping[int, int], *, is_outermost: bool
) -> dict[Thread, Stretches]:
    """The innermost or outermost ranges of each thread as disjoint stretches.

    ``labels`` says by number what ranges with a label of these are; others are left out.
    """
    number = np.full(len(ranges.labels), NO_RANGE)
    number[[*labels]] = [*labels.values()]
    chosen = ranges.take(np.flatnonzero(number.take(ranges.label) != NO_RANGE))
    labelled = Stretches(chosen.start_ns, chosen.end_ns, number.take(chosen.label))
    return {
        thread: labelled.take(rows).at_each_instant(is_outermost=is_outermost)
        for thread, rows in chosen.lanes.items()
    }


def _streams_of(profile: Profile) -> Numbers:
    parts: list[Numbers] = [np.empty(0, np.int8)]
    for table in launches(profile).activities.tables:
        parts.extend(stream for (stream,) in profile.columns(table, "stream_id"))
    return np.concatenate(parts)


def _awaited(
    profile: Profile, device: Int64s, launch: Int64s, since: Int64s, instant: Int64s
) -> Int64s:
    """What some launched work waited for: activities of other streams or devices of its process.

    It is the last one that ended within 20 us before the work began; where a stream wait was
    recorded between the launch and the one before it on the stream, of the streams that such waits
    name alone. The work, perhaps a copy that another device runs than the one that paused, could
    have begun ``since`` then, and began at an instant.

    Returns:
        Places among all activities; `NOT_FOUND` where there is none.
    """
    chosen = np.full(len(launch), NOT_FOUND)
    all_launches, stream = launches(profile.unrestricted), profile.unrestricted.once(_streams_of)
    activities, process = all_launches.activities, all_launches.process()
    since = np.maximum(since, instant - NEAR_NS)
    hull = union(since, instant + 1)
    parts = [
        rows.start + meeting(Intervals(ends := activities.end_ns(rows), ends + 1), hull)
        for rows in pieces(len(activities))
    ]
    near = np.concatenate([np.empty(0, np.int64), *parts])
    near = near[np.argsort(activities.end_ns(near), kind="stable")]
    places = all_launches.places(near)
    near, places = (column[places != NOT_FOUND] for column in (near, places))
    ends = activities.end_ns(near)
    first = np.searchsorted(ends, since, side="left")
    row, index = pairs(first, np.searchsorted(ends, instant, side="right") - first)
    ended, waiting = near[index], all_launches.order[launch][row]
    # What a device's own stream did before is no reason to wait.
    is_other = (activities.device[ended] != device[row]) | (
        activities.device[waiting] != device[row]
    )
    is_other |= stream[ended] != stream[waiting]
    is_other &= process[places[index]] == process[launch[row]]
    row, ended = row[is_other], ended[is_other]
    is_named = _is_named(profile, launch, row, activities.device[ended], stream[ended])
    # What is written later overwrites what was before: the last one to end remains.
    chosen[row[is_named]] = ended[is_named]
    return chosen


def _is_named(
    profile: Profile, launch: Int64s, row: Int64s, device: Numbers, stream: Numbers
) -> Flags:
    """Whether a recorded wait of each row names a device and stream, or none was recorded."""
    recording, all_launches = profile.unrestricted, launches(profile.unrestricted)
    # Index into the launches given, device and stream that it waits for, a row for each wait.
    parts = [np.empty((0, 3), np.int64)]
    if recording.has("synchronizations"):
        kinds = {"sync_kind": Words(["stream_wait"])}
        *columns, kind = read_columns(recording, "synchronizations", *_WAITS, *kinds, texts=kinds)
        is_known = (kind == 0) & (columns[2] != UNKNOWN) & (columns[4] != UNKNOWN)
        in_order = np.argsort(columns[0], kind="stable")
        chosen = in_order[is_known[in_order]]
        start, process, waiting, *source = (column[chosen] for column in columns)
        launch_process, launch_ns = all_launches.process(), all_launches.launch_ns[:]
        launch_stream = all_launches.of(recording.once(_streams_of))
        for waits in groups(process, waiting):
            is_of = (launch_process == process[waits[0]]) & (launch_stream == waiting[waits[0]])
            rows = np.flatnonzero(is_of[launch])
            times = np.sort(launch_ns[is_of])
            launched = launch_ns[launch[rows]]
            before = np.append(_EARLIEST, times)[np.searchsorted(times, launched, side="left")]
            first = np.searchsorted(start[waits], before, side="left")
            count = np.searchsorted(start[waits], launched, side="right") - first
            index, wait = pairs(first, count)
            ends = (column[waits[wait]] for column in source)
            parts.append(np.stack([rows[index], *ends], axis=1))
    sources = np.concatenate(parts)
    candidates = np.stack([row, device, stream], axis=1).astype(np.int64)
    _, number = np.unique(np.concatenate([sources, candidates]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    is_among: Flags = np.isin(number[len(sources) :], number[: len(sources)])
    return is_among | ~np.isin(row, sources[:, 0])
