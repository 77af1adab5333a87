"""Why each device paused: what it waited for, or what the host did while the device had no work.

What ends a pause was launched by a call on the host. Before that call began, the host was late,
and what its thread was in then is the cause. From then on the device waited: for work of another
stream or device that ended just before, where there is such work; else for the launch itself.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import is_waiting
from gpuprof.facts.awaited import AWAITED_READS, NEAR_NS, awaited, streams_of
from gpuprof.facts.calls import NOT_FOUND
from gpuprof.facts.groups import Numbers, groups
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import ALL_THREADS, launches
from gpuprof.facts.nvtx import OF_ONE_CALL, RANGE_READS, STEP_MARK, patterns, ranges_of
from gpuprof.facts.pauses import NOT_LAUNCHED, PAUSE_READS, Pauses, pauses_of
from gpuprof.facts.thread_calls import (
    NO_STRETCHES,
    Stretches,
    Thread,
    api_calls,
    calls_within,
    labelled,
    library_calls,
    ranges_within,
)
from gpuprof.facts.timeline import DeviceTimeline, far_ends, timelines
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import (
    Int64s,
    Intervals,
    covered_within,
    difference,
    overlapping,
    pairs,
    union,
)
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, OPERATION, TEXT, Column, Schema, instant_column

PAUSES: Final = Schema(
    "pauses",
    "all time for one cause in which a device does nothing",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where none was recorded."),
        "cause": Column(
            TEXT,
            "",
            "After the launch the device waited: waits_for_stream, waits_for_device,"
            " waits_for_unknown, or launch for what began within 20 us of its call's return."
            " Before it the host was late, in mpi_call, nccl_call, synchronising_call, cuda_call,"
            " ucx_call, os_call, operation, range or python_function, or in nothing that was"
            " recorded: host_late (python_function only where that is 5 % of a span or more)."
            " unknown: which call launched, or when, cannot be told. short: pauses of at most"
            " 10 us.",
            required=True,
        ),
        "detail": Column(
            TEXT, "", "Name of the stream, device, call, operation or range; null for none."
        ),
        "pauses": Column(INT, "1", "Pauses with such time; a pause may have several causes."),
        "total_ns": Column(INT, "ns", "This time; all rows of a device are its idle time."),
        "longest_ns": Column(INT, "ns", "The most of it in one pause."),
        "longest_start_ns": instant_column("Start of that pause."),
        "span_share": Column(FLOAT, "1", "Share of the device's span."),
    },
)
_SHORT: Final = ("short", None)
_UNKNOWN: Final = ("unknown", None)
_LATE: Final = ("host_late", None)
_AWAITED_UNKNOWN: Final = ("waits_for_unknown", None)
_HOST_CAUSES: Final = {"mpi": "mpi_call", "ucx": "ucx_call", "os": "os_call"}
_NCCL: Final = "NCCL"
# Of a function of Python: its file, with the first word of that, and an object that it is of.
_IN_FILE: Final = re.compile(r"([^/(]+?)(?:\.py)?(?:/[^(]*)?\(\d+\): ")
_ADDRESS: Final = re.compile(r"(?: of .*)? (?:object )?at 0x[0-9a-f]+")
# Share of a device's span from which on the functions of Python are read to name it.
_WORTH_READING: Final = 0.05
# Of one cause on one device; more would hide the others.
_MOST_DETAILS: Final = 10

_Label: TypeAlias = tuple[str, str | None]
_Layers: TypeAlias = list[Mapping[Thread, Stretches]]

_NEEDS: Final = ("kernels", "memcpys", "api_calls")


class _Labels(dict[_Label, int]):
    """Causes with their details, and a number for each."""

    def of(self, cause: str, detail: str | None) -> int:
        """Its number, given when it is first asked for."""
        return self.setdefault((cause, detail), len(self))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of pauses, one element each.

    Args:
        pause: Index of the pause in `pauses_of`.
        stretches: When, and the number of the cause.
        labels: Cause and detail by these numbers.
    """

    pause: Int64s
    stretches: Stretches
    labels: tuple[_Label, ...]


@per_file(
    PAUSES,
    by(device_id="ascending", total_ns="descending", cause="ascending", detail="ascending"),
    needs=_NEEDS,
    device_texts=("detail",),
)
def pauses(profile: Profile) -> pa.Table:
    """Say why each device did nothing, instant by instant.

    Args:
        profile: Needs ``kernels``, ``memcpys`` and ``api_calls``; ``host_calls``,
            ``nvtx_ranges`` and ``synchronizations`` tell more.

    Returns:
        One row per device, cause and detail, the longest total of a device first, columns as in
        `PAUSES`. The totals of a device add up to its idle time in ``breakdown``.
    """
    all_pauses, pieces = pauses_of(profile), pieces_of(profile)
    devices = {timeline.device_id: timeline for timeline in timelines(profile.unrestricted)}
    rows = []
    for device in timelines(profile):
        of_device = np.flatnonzero(all_pauses.device[pieces.pause] == device.number)
        device_rows = [
            *_rows(device, all_pauses, pieces, of_device),
            *_short(device, devices[device.device_id]),
        ]
        rows += sorted(
            device_rows, key=lambda row: (-row["total_ns"], row["cause"], row["detail"] or "")
        )
    return PAUSES.table(rows)


def _rows(
    device: DeviceTimeline, all_pauses: Pauses, pieces: Pieces, chosen: Int64s
) -> list[dict[str, Any]]:
    """The rows of some pieces, which are of one device."""
    parts = pieces.stretches.take(chosen)
    lengths = covered_within(device.idle, parts.start_ns, parts.end_ns)
    filled = np.flatnonzero(lengths)
    pause, label, lengths = pieces.pause[chosen][filled], parts.label[filled], lengths[filled]
    label, labels = _shortened(label, lengths, pieces.labels)
    rows = []
    for of_label in groups(label):
        # A pause may have many pieces of one cause.
        _, first, index = np.unique(pause[of_label], return_index=True, return_inverse=True)
        sums = np.zeros(len(first), np.int64)
        np.add.at(sums, index, lengths[of_label])
        starts = all_pauses.start_ns[pause[of_label][first]]
        rows.append(_row(device, labels[int(label[of_label[0]])], sums, starts))
    return rows


def _shortened(
    label: Numbers, lengths: Int64s, labels: tuple[_Label, ...]
) -> tuple[Numbers, tuple[_Label, ...]]:
    """The same labels with the longest details of each cause, and one for its others."""
    totals = np.zeros(len(labels), np.int64)
    np.add.at(totals, label, lengths)
    by_cause: dict[str, list[int]] = {}
    for number in np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)].tolist():
        by_cause.setdefault(labels[number][0], []).append(number)
    renamed, named = np.arange(len(labels)), [*labels]
    for cause, numbers in by_cause.items():
        if shorter := numbers[_MOST_DETAILS:]:
            renamed[shorter] = len(named)
            named.append((cause, f"{len(shorter):,} others"))
    return renamed[label], tuple(named)


def _short(device: DeviceTimeline, recorded: DeviceTimeline) -> list[dict[str, Any]]:
    """The row of short pauses, as long as they are in the whole recording."""
    gaps = recorded.short_gaps
    start, end = gaps.start, gaps.end
    # There may be millions, which in the whole recording are there as a whole.
    lengths = end - start if device is recorded else covered_within(device.idle, start, end)
    chosen = lengths > 0
    return [_row(device, _SHORT, lengths[chosen], start[chosen])] if chosen.any() else []


def _row(device: DeviceTimeline, label: _Label, sums: Int64s, starts: Int64s) -> dict[str, Any]:
    longest = int(sums.argmax())
    return {
        "device_id": device.device_id,
        "cause": label[0],
        "detail": label[1],
        "pauses": len(sums),
        "total_ns": int(sums.sum()),
        "longest_ns": int(sums[longest]),
        "longest_start_ns": int(starts[longest]),
        "span_share": int(sums.sum()) / device.span.length,
    }


def pieces_of(profile: Profile) -> Pieces:
    """The pieces of all pauses of the whole recording, each with its cause."""
    return profile.unrestricted.once(_pieces)


def _pieces(profile: Profile) -> Pieces:
    all_pauses, labels = pauses_of(profile), _Labels()
    is_launched = (all_pauses.launch != NOT_LAUNCHED) & host_clock(profile).is_known
    # Such a device works for another process, whose calls are not in this recording.
    is_launched &= ~np.isin(all_pauses.device, far_ends(profile))
    unknown = np.flatnonzero(~is_launched)
    label = np.full(len(unknown), labels.of(*_UNKNOWN))
    parts = [(unknown, Stretches(all_pauses.start_ns[unknown], all_pauses.end_ns[unknown], label))]
    launched = np.flatnonzero(is_launched)
    if len(launched):
        hull = union(all_pauses.start_ns[launched], all_pauses.end_ns[launched])
        cuda_calls = api_calls(profile, lambda name: labels.of(*_cuda(name)))
        cuda = calls_within(profile, hull, cuda_calls)
        layers = _layers(profile, hull, cuda, labels)
        lane, threads = _lanes(profile, all_pauses.launch[launched])

        def late(layers: _Layers) -> list[tuple[Int64s, Stretches]]:
            return [
                _late(all_pauses, launched[rows], threads[int(lane[rows[0]])], layers, labels)
                for rows in groups(all_pauses.device[launched], lane)
            ]

        late_parts = late(layers)
        if _is_much(profile, [stretches for _, stretches in late_parts], labels.of(*_LATE)):
            late_parts = late([*layers, *_python(profile, hull, labels)])
        parts += late_parts
        launching = _launching(all_pauses, launched, cuda, (lane, threads))
        parts.append(_launched(profile, all_pauses, launched, launching, labels))
    pause = np.concatenate([index for index, _ in parts])
    columns = zip(*((s.start_ns, s.end_ns, s.label) for _, s in parts), strict=True)
    return Pieces(pause, Stretches(*map(np.concatenate, columns)), tuple(labels))


def _cuda(name: str) -> _Label:
    return ("synchronising_call" if is_waiting(name) else "cuda_call"), name


def _layers(
    profile: Profile, hull: Intervals, cuda: Mapping[Thread, Stretches], labels: _Labels
) -> _Layers:
    """What threads were in at some instants: of layers open at once the first counts.

    Libraries call CUDA, and CUDA the operating system: the outer call says what the host did.
    """
    of_libraries = {name: partial(labels.of, cause) for name, cause in _HOST_CAUSES.items()}
    calls = calls_within(profile, hull, library_calls(profile, of_libraries))
    mpi, ucx, os_calls = (
        labelled(calls, [number for (of, _), number in labels.items() if of == cause])
        for cause in _HOST_CAUSES.values()
    )
    nccl, *ranges = _ranges(profile, hull, labels)
    return [mpi, nccl, cuda, ucx, os_calls, *ranges]


def _is_much(profile: Profile, late: list[Stretches], label: int) -> bool:
    """Whether so much of what was late is not named that the functions of Python are worth reading.

    A trace may hold more of them than of all else together.
    """
    unnamed = sum(int((s.end_ns - s.start_ns)[s.label == label].sum()) for s in late)
    longest = max(device.span.length for device in timelines(profile))
    return unnamed > _WORTH_READING * longest


def _python(profile: Profile, hull: Intervals, labels: _Labels) -> _Layers:
    """The nearest functions of the program, and those of Python's and installed packages."""
    of_program: set[int] = set()

    def label(name: str) -> int:
        number = labels.of("python_function", _ADDRESS.sub("", name))
        if _is_of_program(name):
            of_program.add(number)
        return number

    calls = calls_within(profile, hull, library_calls(profile, {"python": label}))
    return [
        {thread: of_thread.innermost() for thread, of_thread in some.items()}
        for some in (labelled(calls, [*of_program]), calls)
    ]


def _is_of_program(function: str) -> bool:
    """Whether PyTorch's name of a function, ``models/net.py(12): forward``, is the program's own.

    Built-in functions and modules are named without a file, files relative to Python's path.
    """
    match = _IN_FILE.match(function)
    is_installed = match is not None and "-packages/" in match[0]
    return match is not None and not is_installed and match[1] not in sys.stdlib_module_names


def _ranges(profile: Profile, hull: Intervals, labels: _Labels) -> _Layers:
    """NCCL's calls, the operations that the program called, the nearest names that people gave."""
    if not profile.has("nvtx_ranges"):
        return [{}]
    nvtx, clock = ranges_of(profile), host_clock(profile)
    start, end = (clock.on_devices(ns, nvtx.process) for ns in (nvtx.start_ns, nvtx.end_ns))
    nvtx = replace(nvtx, start_ns=start, end_ns=end)
    nccl, operations, ranges = {}, {}, {}
    details = [text.removesuffix(", *") for text in patterns([t for t, _, _ in nvtx.labels])]
    for number, ((text, domain, kind), detail) in enumerate(zip(nvtx.labels, details, strict=True)):
        if domain == _NCCL:
            nccl[number] = labels.of("nccl_call", detail)
        elif kind == OPERATION or OF_ONE_CALL.search(text):
            operations[number] = labels.of("operation", detail)
        elif not STEP_MARK.fullmatch(text):
            ranges[number] = labels.of("range", detail)
    return [
        ranges_within(nvtx, hull, nccl, is_outermost=True),
        ranges_within(nvtx, hull, operations, is_outermost=True),
        ranges_within(nvtx, hull, ranges, is_outermost=False),
    ]


def _lanes(profile: Profile, launch: Int64s) -> tuple[Int64s, list[Thread]]:
    """Which thread made each of some launches, and the threads."""
    bounds = sorted(launches(profile).bounds.items(), key=lambda item: item[1])
    lows = [low for _, (low, _) in bounds]
    return np.searchsorted(lows, launch, side="right") - 1, [thread for thread, _ in bounds]


def _late(
    all_pauses: Pauses, pause: Int64s, thread: Thread, layers: _Layers, labels: _Labels
) -> tuple[Int64s, Stretches]:
    """What a thread did in pauses of one device before it launched what ended them."""
    start = all_pauses.start_ns[pause]
    until = np.clip(all_pauses.launch_ns[pause], start, all_pauses.end_ns[pause])
    open_time = Intervals(start[until > start], until[until > start])
    parts = []
    for layer in layers:
        for caller in (thread, (thread[0], ALL_THREADS)):
            covering = layer.get(caller, NO_STRETCHES).outermost()
            parts.append(_covered(open_time, covering))
            open_time = difference(open_time, union(covering.start_ns, covering.end_ns))
    parts.append(
        Stretches(open_time.start, open_time.end, np.full(len(open_time), labels.of(*_LATE)))
    )
    columns = zip(*((s.start_ns, s.end_ns, s.label) for s in parts), strict=True)
    joined = Stretches(*map(np.concatenate, columns))
    return pause[np.searchsorted(start, joined.start_ns, side="right") - 1], joined


def _covered(open_time: Intervals, covering: Stretches) -> Stretches:
    """The parts of disjoint stretches that lie within a set of instants."""
    index, place = pairs(*overlapping(open_time, Intervals(covering.start_ns, covering.end_ns)))
    return Stretches(
        np.maximum(open_time.start[index], covering.start_ns[place]),
        np.minimum(open_time.end[index], covering.end_ns[place]),
        covering.label[place],
    )


def _launching(
    all_pauses: Pauses,
    launched: Int64s,
    cuda: Mapping[Thread, Stretches],
    lanes: tuple[Int64s, list[Thread]],
) -> tuple[Int64s, Numbers]:
    """When the call that launched what ended each pause returned, and its label.

    Calls that do not reach into a pause have returned when they began.
    """
    returned, label = all_pauses.launch_ns[launched].copy(), np.full(len(launched), NOT_FOUND)
    lane, threads = lanes
    for of_lane in groups(lane):
        calls = cuda.get(threads[int(lane[of_lane[0]])], NO_STRETCHES)
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
    start = np.clip(
        all_pauses.launch_ns[launched], all_pauses.start_ns[launched], all_pauses.end_ns[launched]
    )
    end = all_pauses.end_ns[launched]
    label = np.full(len(launched), labels.of("launch", None))
    for number in np.unique(call[call != NOT_FOUND]).tolist():
        label[call == number] = labels.of("launch", names[number][1])
    slow = np.flatnonzero(end - returned > NEAR_NS)
    label[slow] = labels.of(*_AWAITED_UNKNOWN)
    if len(slow):
        device = all_pauses.device[launched][slow]
        cause = awaited(profile, device, all_pauses.launch[launched][slow], start[slow], end[slow])
        slow, device, cause = (column[cause != NOT_FOUND] for column in (slow, device, cause))
        awaited_device = launches(profile).activities.device[cause]
        stream = np.where(awaited_device == device, streams_of(profile)[cause], NOT_FOUND)
        for waits in groups(awaited_device, stream):
            place = int(awaited_device[waits[0]]), int(stream[waits[0]])
            label[slow[waits]] = labels.of(*_awaited(*place))
    filled = np.flatnonzero(end > start)
    return launched[filled], Stretches(start, end, label).take(filled)


def _awaited(device: int, stream: int) -> _Label:
    """The cause and detail of a wait; the stream is that of the same device, or none."""
    if stream != NOT_FOUND:
        return "waits_for_stream", None if stream == UNKNOWN else f"stream {stream}"
    return "waits_for_device", None if device == UNKNOWN else f"device {device}"


ANALYSIS: Final = Analysis(
    "Why devices paused",
    PAUSES,
    _NEEDS,
    pauses,
    reads(
        PAUSE_READS,
        AWAITED_READS,
        RANGE_READS,
        api_calls="start_ns end_ns process_id thread_id name",
        host_calls="start_ns end_ns process_id thread_id name library",
    ),
)
