"""The longest pauses of each device: what ended them, and what the host did meanwhile."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.copies import copy_rows
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import UNNAMED, columns_of
from gpuprof.facts.nvtx import RANGE_READS, Ranges, ranges_of, texts_around
from gpuprof.facts.timeline import DEVICE_ID, TIMELINE_READS, timelines
from gpuprof.model.analysis import by, per_file, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, meeting, union, unions_by_key
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema, instant_column

_ROWS: Final = 20

GAPS: Final = Schema(
    "gaps",
    "one of the twenty longest pauses in which a device does nothing",
    {
        "device_id": DEVICE_ID,
        "start_ns": instant_column("Start of the pause.", required=True),
        "gap_ns": Column(INT, "ns", "Its length.", required=True),
        "ended_by": Column(TEXT, "", "Kernel, kind of copy, or memset that ended it."),
        "launch_ns": instant_column(
            "Start of the API call that launched this; null where unknown."
        ),
        "launch_latency_ns": Column(INT, "ns", "From that call to the end of the pause."),
        "host_call": Column(
            TEXT, "", "API call of that process that took most of the pause; null for none."
        ),
        "host_call_ns": Column(INT, "ns", "How much of it, of all threads together."),
        "host_range": Column(
            TEXT,
            "",
            "Shortest NVTX range, annotation or operation of that process that fills at least half"
            " of the pause; null for none.",
        ),
        "nvtx_range": Column(
            TEXT,
            "",
            "Innermost NVTX range around the launching call; null where unknown.",
            label="NVTX range",
        ),
        "operation": Column(
            TEXT, "", "Outermost operation of a framework around that call; null where unknown."
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


ANALYSIS: Final = gaps.analysis(
    "Longest pauses", reads(RANGE_READS, TIMELINE_READS, api_calls="end_ns name_id")
)
