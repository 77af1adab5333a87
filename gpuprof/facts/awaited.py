"""For which stream or device work waited that had been launched before it could begin."""

from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.calls import NOT_FOUND, pieces
from gpuprof.facts.groups import Numbers, groups
from gpuprof.facts.growing import read_columns
from gpuprof.facts.launches import LAUNCH_READS, Launches, launches
from gpuprof.facts.pauses import places_of_launches
from gpuprof.model.analysis import reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, meeting, pairs, union
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words

# So long before work begins, at most, ends what it waited for; and so long, at most, launched work
# takes to begin that waits for nothing.
NEAR_NS: Final = 20_000
_EARLIEST: Final = np.iinfo(np.int64).min

AWAITED_READS: Final = reads(
    LAUNCH_READS,
    **dict.fromkeys(("kernels", "memcpys", "memsets", "graph_launches"), "stream_id"),
    synchronizations="start_ns process_id stream_id sync_kind src_device_id src_stream_id",
)
_WAITS: Final = ("start_ns", "process_id", "stream_id", "src_device_id", "src_stream_id")


def streams_of(profile: Profile) -> Numbers:
    """The stream of each activity, in the order of `launches.activities`; perhaps `UNKNOWN`."""
    return profile.unrestricted.once(_streams_of)


def _streams_of(profile: Profile) -> Numbers:
    parts: list[Numbers] = [np.empty(0, np.int8)]
    for table in launches(profile).activities.tables:
        parts.extend(stream for (stream,) in profile.integers(table, "stream_id"))
    return np.concatenate(parts)


def processes_of(all_launches: Launches) -> Int64s:
    """The process of each launch."""
    process = np.empty(len(all_launches.order), np.int64)
    for (number, _), (low, high) in all_launches.bounds.items():
        process[low:high] = number
    return process


def awaited(
    profile: Profile, device: Int64s, launch: Int64s, since: Int64s, instant: Int64s
) -> Int64s:
    """What some launched work waited for: activities of other streams or devices of its process.

    It is the last one that ended within 20 us before the work began; where a stream wait was
    recorded between the launch and the one before it on the stream, of the streams that such
    waits name alone.

    Args:
        profile: The whole recording is read.
        device: The device that paused; the work may be a copy that another device runs.
        launch: Its places among the launches.
        since: From when on it could have begun.
        instant: When it began.

    Returns:
        Places among all activities; `NOT_FOUND` where there is none.
    """
    chosen = np.full(len(launch), NOT_FOUND)
    all_launches, stream = launches(profile.unrestricted), streams_of(profile)
    activities, process = all_launches.activities, processes_of(all_launches)
    since = np.maximum(since, instant - NEAR_NS)
    hull = union(since, instant + 1)
    ends = activities.end_ns
    parts = [
        rows.start + meeting(Intervals(ends[rows], ends[rows] + 1), hull)
        for rows in pieces(len(activities))
    ]
    near = np.concatenate([np.empty(0, np.int64), *parts])
    near = near[np.argsort(ends[near], kind="stable")]
    places = places_of_launches(all_launches, near)
    near, places = (column[places != NOT_FOUND] for column in (near, places))
    ends = activities.end_ns[near]
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
) -> npt.NDArray[np.bool_]:
    """Whether a recorded wait of each row names a device and stream, or none was recorded."""
    sources = _recorded_sources(profile, launch)
    if not len(sources):
        return np.ones(len(row), bool)
    candidates = np.stack([row, device, stream], axis=1).astype(np.int64)
    _, number = np.unique(np.concatenate([sources, candidates]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    is_among: npt.NDArray[np.bool_] = np.isin(number[len(sources) :], number[: len(sources)])
    return is_among | ~np.isin(row, sources[:, 0])


def _recorded_sources(profile: Profile, launch: Int64s) -> Int64s:
    """Index into the launches given, device and stream that it waits for, a row for each wait."""
    parts = [np.empty((0, 3), np.int64)]
    if not profile.unrestricted.has("synchronizations"):
        return parts[0]
    kinds = {"sync_kind": Words(["stream_wait"])}
    *columns, kind = read_columns(
        profile.unrestricted, "synchronizations", *_WAITS, *kinds, texts=kinds
    )
    is_known = (kind == 0) & (columns[2] != UNKNOWN) & (columns[4] != UNKNOWN)
    in_order = np.argsort(columns[0], kind="stable")
    chosen = in_order[is_known[in_order]]
    start, process, stream, *source = (column[chosen] for column in columns)
    all_launches = launches(profile.unrestricted)
    launch_process, launch_stream = processes_of(all_launches), all_launches.of(streams_of(profile))
    for waits in groups(process, stream):
        is_of = (launch_process == process[waits[0]]) & (launch_stream == stream[waits[0]])
        rows = np.flatnonzero(is_of[launch])
        times, launched = (
            np.sort(all_launches.launch_ns[is_of]),
            all_launches.launch_ns[launch[rows]],
        )
        before = np.append(_EARLIEST, times)[np.searchsorted(times, launched, side="left")]
        first = np.searchsorted(start[waits], before, side="left")
        count = np.searchsorted(start[waits], launched, side="right") - first
        index, wait = pairs(first, count)
        parts.append(np.stack([rows[index], *(column[waits[wait]] for column in source)], axis=1))
    return np.concatenate(parts)
