"""Why each device paused, by cause; its longest pauses, what ended them, and what the host did."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.copies import copy_rows
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import UNNAMED, Numbers, columns_of, groups, sums_by_number
from gpuprof.facts.nvtx import RANGE_READS, Ranges, ranges_of, texts_around
from gpuprof.facts.pause_causes import CAUSE_READS, SHORT, Label, Pieces, pieces_of, pieces_on
from gpuprof.facts.pauses import Pauses, pauses_of
from gpuprof.facts.timeline import DEVICE_ID, TIMELINE_READS, DeviceTimeline, timelines
from gpuprof.model.analysis import by, per_file, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, covered_within, meeting, union, unions_by_key
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Instant, Ns, Schema, Share, Text

PAUSES: Final = Schema(
    "pauses",
    "all time for one cause in which a device does nothing",
    {
        "device_id": DEVICE_ID,
        "cause": Text(
            "After the launch the device waited: waits_for_stream, waits_for_device,"
            " waits_for_unknown, or launch for what began within 20 µs of its call's return."
            " Before it the host was late, in mpi_call, nccl_call, synchronising_call, cuda_call,"
            " ucx_call, os_call, operation, range or python_function, or in nothing that was"
            " recorded: host_late (python_function only where that is 5 % of a span or more)."
            " unknown: which call launched, or when, cannot be told. short: pauses of at most"
            " 10 µs.",
            required=True,
        ),
        "detail": Text("Name of the stream, device, call, operation or range; null for none."),
        "pauses": Count("Pauses with such time; a pause may have several causes."),
        "total_ns": Ns("This time; all rows of a device are its idle time."),
        "longest_ns": Ns("The most of it in one pause."),
        "longest_start_ns": Instant("Start of that pause."),
        "span_share": Share("Share of the device's span."),
    },
)
# Of one cause on one device; more would hide the others.
_MOST_DETAILS: Final = 10


@per_file(
    PAUSES,
    by(device_id="ascending", total_ns="descending", cause="ascending", detail="ascending"),
    needs=("kernels", "memcpys", "api_calls"),
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
    recorded = {timeline.device_id: timeline for timeline in timelines(profile.unrestricted)}
    rows = []
    for device in timelines(profile):
        of_device = pieces_on(profile, device.number)
        device_rows = _rows(device, all_pauses, pieces, of_device)
        # Short ones are those of the whole recording. There may be millions.
        recorded_device = recorded[device.device_id]
        gaps = recorded_device.short_gaps
        lengths = gaps.end - gaps.start
        if device is not recorded_device:
            lengths = covered_within(device.idle, gaps.start, gaps.end)
        if (is_in := lengths > 0).any():
            device_rows.append(_row(device, SHORT, lengths[is_in], gaps.start[is_in]))
        rows += sorted(
            device_rows, key=lambda row: (-row["total_ns"], row["cause"], row["detail"] or "")
        )
    return PAUSES.table(rows)


def _rows(
    device: DeviceTimeline, all_pauses: Pauses, pieces: Pieces, chosen: Numbers
) -> list[dict[str, Any]]:
    """The rows of some pieces, which are of one device."""
    parts = pieces.stretches.take(chosen)
    lengths = covered_within(device.idle, parts.start_ns, parts.end_ns)
    filled = np.flatnonzero(lengths)
    pause, label, lengths = pieces.pause[chosen][filled], parts.label[filled], lengths[filled]
    # Of each cause the longest details have rows of their own, and all others one.
    labels = [*pieces.labels]
    totals = sums_by_number(label, lengths, len(labels))
    by_cause: dict[str, list[int]] = {}
    for number in np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)].tolist():
        by_cause.setdefault(labels[number][0], []).append(number)
    renamed = np.arange(len(labels))
    for cause, numbers in by_cause.items():
        if shorter := numbers[_MOST_DETAILS:]:
            renamed[shorter] = len(labels)
            labels.append((cause, f"{len(shorter):,} others"))
    label = renamed[label]
    rows = []
    for of_label in groups(label):
        # A pause may have many pieces of one cause.
        _, first, index = np.unique(pause[of_label], return_index=True, return_inverse=True)
        sums = sums_by_number(index, lengths[of_label], len(first))
        starts = all_pauses.start_ns[pause[of_label][first]]
        rows.append(_row(device, labels[int(label[of_label[0]])], sums, starts))
    return rows


def _row(device: DeviceTimeline, label: Label, sums: Int64s, starts: Int64s) -> dict[str, Any]:
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


ANALYSIS: Final = pauses.analysis("Why devices paused", CAUSE_READS)


_ROWS: Final = 20

GAPS: Final = Schema(
    "gaps",
    "one of the twenty longest pauses in which a device does nothing",
    {
        "device_id": DEVICE_ID,
        "start_ns": Instant("Start of the pause.", required=True),
        "gap_ns": Ns("Its length.", required=True),
        "ended_by": Text("Kernel, kind of copy, or memset that ended it."),
        "launch_ns": Instant("Start of the API call that launched this; null where unknown."),
        "launch_latency_ns": Ns("From that call to the end of the pause."),
        "host_call": Text("API call of that process that took most of the pause; null for none."),
        "host_call_ns": Ns("How much of it, of all threads together."),
        "host_range": Text(
            "Shortest NVTX range, annotation or operation of that process that fills at least half"
            " of the pause; null for none."
        ),
        "nvtx_range": Text(
            "Innermost NVTX range around the launching call; null where unknown.",
            label="NVTX range",
        ),
        "operation": Text(
            "Outermost operation of a framework around that call; null where unknown."
        ),
    },
)

# What begins when a pause ends: the first of these tables, and the first name there.
_ENDING: Final = ("kernels", "memcpys", "memsets")

Row = dict[str, Any]
# Name of an activity, its place in its table, its process, its start, and the devices it is on.
_Begun = tuple[str, int, int, int, list[int]]
# Table, place in it and process.
_Activity = tuple[str, int, int]


_ORDER: Final = by(gap_ns="descending", start_ns="ascending", device_id="ascending")


@per_file(GAPS, lambda table: _ORDER(table).slice(0, _ROWS), needs=("kernels", "memcpys"))
def gaps(profile: Profile) -> pa.Table:
    """List the longest pauses between the activities of each device.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls`` and ``nvtx_ranges`` show
            the host's part.

    Returns:
        At most twenty rows of all devices, the longest pause first, columns as in `GAPS`. The
        host's part is null where it was not recorded, or on a clock that disagrees.
    """
    gap_rows: list[Row] = []
    for device in timelines(profile):
        idle = device.idle
        length = idle.end - idle.start
        longest = np.argsort(-length, kind="stable")[:_ROWS]
        gap_rows += [
            {"device_id": device.device_id, "start_ns": start, "gap_ns": gap_ns}
            for start, gap_ns in zip(
                idle.start[longest].tolist(), length[longest].tolist(), strict=True
            )
        ]
    gap_rows.sort(key=lambda gap: (-gap["gap_ns"], gap["start_ns"], gap["device_id"] or 0))
    gap_rows, recording = gap_rows[:_ROWS], profile.unrestricted
    ends = [row["start_ns"] + row["gap_ns"] for row in gap_rows]
    enders = _enders(recording, np.array(ends)) if ends else {}
    ended: list[tuple[Row, _Activity]] = []
    for row, end in zip(gap_rows, ends, strict=True):
        number = UNKNOWN if row["device_id"] is None else row["device_id"]
        if (ender := enders.get((number, end))) is not None:
            row["ended_by"] = ender[0]
            ended.append((row, ender[1]))
    if ended and recording.has("api_calls") and host_clock(recording).is_known:
        _add_host(recording, ended)
    return GAPS.table(gap_rows)


def _enders(profile: Profile, ends: Int64s) -> dict[tuple[int, int], tuple[str, _Activity]]:
    """What begins on a device at some instants, by both."""
    enders: dict[tuple[int, int], tuple[str, _Activity]] = {}
    for table in filter(profile.has, _ENDING):
        for name, place, process, start, devices in sorted(_begun(profile, table, ends)):
            for device in devices:
                enders.setdefault((device, start), (name, (table, place, process)))
    return enders


def _begun(profile: Profile, table: str, ends: Int64s) -> Iterator[_Begun]:
    """Activities of a table that begin at some instants."""
    if table == "memcpys":
        copies = copy_rows(profile)
        for row in np.flatnonzero(np.isin(copies.start_ns, ends)).tolist():
            # A staged half is on its own device alone.
            columns = (copies.device, copies.src_device, copies.dst_device)
            devices = [int(column[row]) for column in columns[: 1 if copies.is_staged[row] else 3]]
            name = f"[CUDA memcpy {copies.kinds[copies.kind[row]]}]"
            devices = devices[:1] + [device for device in devices[1:] if device != UNKNOWN]
            yield name, row, int(copies.process[row]), int(copies.start_ns[row]), devices
        return
    is_named, low = table == "kernels", 0
    names = profile.loaded(table).names.by_number if is_named else {}
    further = ("name_id",) if is_named else ()
    for part in profile.columns(table, "start_ns", "process_id", "device_id", *further):
        rows = np.flatnonzero(np.isin(part[0], ends))
        values = zip(*(column[rows].tolist() for column in part), strict=True)
        for row, (start, process, device, *number) in zip(rows.tolist(), values, strict=True):
            text = names.get(number[0], UNNAMED) if number else "[CUDA memset]"
            yield text, low + row, process, start, [device]
        low += len(part[0])


def _add_host(profile: Profile, ended: Sequence[tuple[Row, _Activity]]) -> None:
    """Add to pauses what the host did until they ended."""
    # Pauses are looked for on the clock of the host, and its times then set on the devices'.
    clock, launched = host_clock(profile), _launched(profile, [activity for _, activity in ended])
    start = np.array([row["start_ns"] - clock.of(process) for row, (*_, process) in ended])
    end = start + np.array([row["gap_ns"] for row, _ in ended])
    at = np.array([launch_ns for launch_ns, _ in launched.values()], np.int64)
    # Of millions of calls and ranges, few are near.
    near = union(np.append(start, at), np.append(end, at + 1))
    numbered, columns = profile.loaded("api_calls").names, ("start_ns", "end_ns", "process_id")
    names, parts = sorted({UNNAMED, *numbered.texts}), []
    places = {name: number for number, name in enumerate(names)}
    place = numbered.values(places.__getitem__, places[UNNAMED])
    for *part, number in profile.columns("api_calls", *columns, "name_id"):
        rows = meeting(Intervals(*part[:2]), near)
        parts.append([*(column[rows] for column in part), place.of(number[rows])])
    calls, ranges = columns_of(parts, len(columns) + 1), ranges_of(profile)
    ranges = ranges.take(meeting(Intervals(ranges.start_ns, ranges.end_ns), near))
    call_start, call_end, of_process, name = calls
    for (row, activity), low, high in zip(ended, start.tolist(), end.tolist(), strict=True):
        process = activity[-1]
        at_once = np.flatnonzero((of_process == process) & (call_start < high) & (call_end > low))
        within = np.maximum(call_start[at_once], low), np.minimum(call_end[at_once], high)
        # Of all threads each instant counts once; of equal times the first name is meant.
        times = ((covered.length, -n) for n, covered in unions_by_key(*within, name[at_once]))
        if most := max(times, default=None):
            row["host_call"], row["host_call_ns"] = names[-most[1]], most[0]
        row["host_range"] = _filling(ranges, process, low, high)
        if activity in launched:
            launch_ns, thread = launched[activity]
            row["launch_ns"] = launch_ns + clock.of(process)
            row["launch_latency_ns"] = high - launch_ns
            row.update(texts_around(ranges, (process, thread), launch_ns))


def _launched(profile: Profile, some: list[_Activity]) -> dict[_Activity, tuple[int, int]]:
    """Start and thread of the calls that launched some activities, where these are known."""
    all_launches = launches(profile)
    tables = all_launches.activities.tables
    activity = {tables[table][0] + row: (table, row, process) for table, row, process in some}
    places = np.flatnonzero(np.isin(all_launches.order, [*activity]))
    columns = (of.tolist() for of in (all_launches.order[places], all_launches.launch_ns[places]))
    return {
        activity[row]: (launch_ns, thread)
        for place, row, launch_ns in zip(places.tolist(), *columns, strict=True)
        for (_, thread), (low, high) in all_launches.bounds.items()
        if low <= place < high
    }


def _filling(ranges: Ranges, process: int, low: int, high: int) -> str | None:
    """The shortest range of a process that fills at least half of a pause."""
    overlap = np.minimum(ranges.end_ns, high) - np.maximum(ranges.start_ns, low)
    rows = np.flatnonzero((ranges.process == process) & (2 * overlap >= high - low))
    filling = [
        (int(ranges.end_ns[row] - ranges.start_ns[row]), int(ranges.start_ns[row]), text)
        for row in rows.tolist()
        if (text := ranges.labels[ranges.label[row]][0])
    ]
    return min(filling)[-1] if filling else None


GAPS_ANALYSIS: Final = gaps.analysis(
    "Longest pauses", reads(RANGE_READS, TIMELINE_READS, api_calls="end_ns name_id")
)
