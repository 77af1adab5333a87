"""What the figures of a part of a recording take beside what starts in it.

A file of the part holds it, too, so that a report of the file is that of the part.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.model.data_model import API_CALLS, BY_NAME, ELSEWHERE, RECORDED_STEPS
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, together, union
from gpuprof.model.pairs import NOT_FOUND, pair_places, sorted_pairs
from gpuprof.model.profile import Profile
from gpuprof.model.table import Selection

_WORK: Final = ("kernels", "memcpys", "memsets", "graph_launches")
_TIMES: Final = ("start_ns", "end_ns")
_CALL: Final = ("process_id", "correlation_id")


def with_context(part: Profile) -> dict[str, Profile]:
    """The part of a recording with what reaches into it, or is needed to tell what it is.

    Of devices these are steps that start in it; what its calls launched; and the activities before
    and after it, between which a device idles. Of hosts, the calls that launched any of these and
    the ranges around them, so that no call seems to lack its work, and no work its call.

    Returns:
        By the name of each of its tables, a recording whose table has what the file needs.
    """
    if not part.selection.windows:
        return dict.fromkeys(part.sources, part)
    start, end = zip(*part.selection.windows, strict=True)
    in_part = _covered(start, end)
    of_device = part.unrestricted.restricted(Selection(None, part.selection.device_id))
    needed = [in_part, _beside(of_device, min(start), max(end)), _launched_by(of_device, part)]
    if part.has(RECORDED_STEPS.name):
        needed.append(_covered(*_columns(part, RECORDED_STEPS.name, *_TIMES)))
    devices = _reached(of_device, together(needed))
    hosts = _reached(of_device, together([in_part, _launching(devices)]))
    tables = {
        name: devices if "device_id" in BY_NAME[name].columns else hosts for name in part.sources
    }
    if part.has(RECORDED_STEPS.name):
        tables[RECORDED_STEPS.name] = _steps(of_device, part)
    return tables


def _steps(recording: Profile, part: Profile) -> Profile:
    """All steps of a recording, of which those that start elsewhere are no samples."""
    rows = recording.table(RECORDED_STEPS.name).to_pylist()
    starts = np.array([row["start_ns"] for row in rows], np.int64)
    elsewhere = np.flatnonzero(~part.selection.holds(starts)).tolist()
    for row in (rows[place] for place in elsewhere):
        row["status"] = ELSEWHERE if row["status"] == "sample" else row["status"]
    return Profile(part.origin, {RECORDED_STEPS.name: RECORDED_STEPS.table(rows)})


def _columns(profile: Profile, table: str, *names: str) -> list[npt.NDArray[Any]]:
    """Columns of a table as arrays; nulls are `UNKNOWN`."""
    pieces = [*profile.columns(table, *names)]
    return [np.concatenate(column) for column in zip(*pieces, strict=True)] or [
        np.empty(0, np.int64) for _ in names
    ]


def _reached(profile: Profile, windows: Intervals) -> Profile:
    pairs = zip(windows.start.tolist(), windows.end.tolist(), strict=True)
    return profile.restricted(Selection(tuple(pairs), is_reached=True))


def _covered(start: npt.ArrayLike, end: npt.ArrayLike) -> Intervals:
    """When any of some activities runs; what takes no time, for the ns that it is at."""
    return union(start, np.maximum(end, np.add(start, 1)))


def _beside(profile: Profile, first_ns: int, last_ns: int) -> Intervals:
    """When the last activity of each device before an instant runs, and the first after another."""
    last: dict[int, tuple[int, int]] = {}
    following: dict[int, tuple[int, int]] = {}
    for table in _work(profile):
        for start, end, device in profile.columns(table, *_TIMES, "device_id"):
            for number in np.unique(device).tolist():
                before = np.flatnonzero((device == number) & (start < first_ns))
                after = np.flatnonzero((device == number) & (start >= last_ns))
                if len(before):
                    row = before[end[before].argmax()]
                    met = int(end[row]), int(start[row])
                    last[number] = max(last.get(number, met), met)
                if len(after):
                    row = after[start[after].argmin()]
                    met = int(start[row]), int(end[row])
                    following[number] = min(following.get(number, met), met)
    starts = [*(start for _, start in last.values()), *(start for start, _ in following.values())]
    ends = [*(end for end, _ in last.values()), *(end for _, end in following.values())]
    return _covered(starts, ends)


def _launched_by(profile: Profile, part: Profile) -> Intervals:
    """When the work runs that calls launched which start in a part of a recording."""
    if not part.has(API_CALLS.name):
        return NOTHING
    return _times_of(profile, _work(profile), _pairs(part, [API_CALLS.name]))


def _launching(part: Profile) -> Intervals:
    """When the calls run that launched the work of a part of a recording."""
    recording = part.unrestricted
    tables = [API_CALLS.name] if recording.has(API_CALLS.name) else []
    return _times_of(recording, tables, _pairs(part, _work(part)))


def _work(profile: Profile) -> list[str]:
    return [table for table in _WORK if profile.has(table)]


def _pairs(profile: Profile, tables: Sequence[str]) -> Int64s:
    """The processes and correlation ids in some tables, in order."""
    none = np.empty((2, 0), np.int64)
    pairs = np.concatenate([none, *(_columns(profile, of, *_CALL) for of in tables)], axis=1)
    return sorted_pairs(*pairs[:, pairs[1] != UNKNOWN])


def _times_of(profile: Profile, tables: Sequence[str], pairs: Int64s) -> Intervals:
    """When that runs whose process and correlation id are one of some pairs."""
    times = [np.empty((2, 0), np.int64)]
    for table in tables:
        for start, end, *call in profile.columns(table, *_TIMES, *_CALL):
            is_one = pair_places(pairs, *(of.astype(np.int64) for of in call)) != NOT_FOUND
            times.append(np.stack([start[is_one], end[is_one]]))
    return _covered(*np.concatenate(times, axis=1))
