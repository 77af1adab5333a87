"""Which rank the others wait for in collectives, and what delayed it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.collective_parts import PARTS_READS, RANKS, collective_parts
from gpuprof.analyses.facts.rank_matching import NO_CALL
from gpuprof.analyses.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    LOCAL_COPY,
    TIMELINE_READS,
    TRANSFER,
    DeviceTimeline,
    timelines,
)
from gpuprof.intervals import Int64s, Intervals, covered_within, together
from gpuprof.profile import Profile

LAST_READS: Final = reads(PARTS_READS, TIMELINE_READS, kernels="name")
# What delays a rank: its device idled, as its host was late; it computed, the same kernels taking
# longer, or more of them; it copied; it was in a collective of others.
HOST, KERNELS, WORK, COPIES, COLLECTIVE = "host", "kernels", "work", "copies", "collective"
_LAYERS: Final = {
    WORK: (COMPUTE,),
    COPIES: (TRANSFER, LOCAL_COPY),
    COLLECTIVE: (COMMUNICATION,),
}
# A cause explains so much of the time by which a rank came later than the others.
_LEAST_SHARE: Final = 0.5
# A kernel that takes so many times as long as on the other ranks is slow.
_SLOW: Final = 1.05


class Delay(NamedTuple):
    """What delayed a rank, more than the others, before the calls to which it came last.

    Args:
        cause: HOST, KERNELS, WORK, COPIES or COLLECTIVE.
        longer_ns: How much longer than on the median of the other ranks, over all these calls.
        kernel: Of KERNELS and WORK the name of the kernel that took most more time; else None.
        ratio: Of KERNELS how many times as long one of them takes, of WORK how many times as many
            there are as on the median of the other ranks; else None.
    """

    cause: str
    longer_ns: int
    kernel: str | None = None
    ratio: float | None = None


class LastRank(NamedTuple):
    """The rank of a communicator for which the others wait longest.

    Args:
        device_id: Its device.
        rank: Its rank; None where devices have none.
        devices: All devices of the communicator.
        calls: Calls whose kernels of all ranks are known, without set-up.
        share: In what share of them it was the last to arrive.
        median_lag_ns: How much later than the median of the others it came to those.
        waiting_ns: How long all others together waited for it.
        all_waiting_ns: How long they waited for anyone.
        delay: What delayed it; None where nothing explains half of it.
    """

    device_id: int
    rank: int | None
    devices: tuple[int, ...]
    calls: int
    share: float
    median_lag_ns: int
    waiting_ns: int
    all_waiting_ns: int
    delay: Delay | None


def last_ranks(profile: Profile) -> tuple[LastRank, ...]:
    """For each communicator the rank for which the others wait longest, the longest first.

    The whole recording is read; none where the ranks of no collective are known.
    """
    return profile.whole.once(_last_ranks)


def delay_before(profile: Profile, device: int, rows: Int64s) -> Delay | None:
    """What delayed a device, more than the others, before some calls to which it came last.

    Args:
        profile: The whole recording is read.
        device: The device.
        rows: Its communication kernels of these calls, of one communicator.
    """
    parts = collective_parts(profile)
    for number, communicator in enumerate(parts.communicators):
        if device in communicator.devices:
            column = communicator.devices.index(device)
            calls = np.flatnonzero(np.isin(communicator.rows[:, column], rows))
            if len(calls):
                return _delay_before(profile, number, column, calls)
    return None


def _last_ranks(profile: Profile) -> tuple[LastRank, ...]:
    parts = collective_parts(profile)
    ranks = []
    for number, communicator in enumerate(parts.communicators):
        calls = np.flatnonzero((communicator.rows != NO_CALL).all(axis=1))
        calls = calls[parts.basis[communicator.rows[calls, 0]] == RANKS]
        if not len(calls):
            continue
        rows = communicator.rows[calls]
        last, waiting = parts.is_last[rows].argmax(axis=1), parts.waiting_ns[rows].sum(axis=1)
        caused = np.bincount(last, waiting, len(communicator.devices)).astype(np.int64)
        column = int(caused.argmax())
        last_calls = calls[last == column]
        ranks.append(
            LastRank(
                communicator.devices[column],
                ranks_of(profile).get(communicator.devices[column]),
                communicator.devices,
                len(calls),
                len(last_calls) / len(calls),
                int(
                    np.median(_lags(parts.kernels.start_ns[communicator.rows[last_calls]], column))
                ),
                int(caused[column]),
                int(waiting.sum()),
                _delay_before(profile, number, column, last_calls),
            )
        )
    return tuple(sorted(ranks, key=lambda last: -last.waiting_ns))


def ranks_of(profile: Profile) -> Mapping[int, int]:
    """The rank of each device that has one."""
    if not profile.whole.has("devices"):
        return {}
    rows = profile.whole.query("SELECT device_id, rank FROM devices WHERE rank IS NOT NULL")
    return {row["device_id"]: row["rank"] for row in rows.to_pylist()}


def _lags(values: Int64s, column: int) -> Int64s:
    """How much more one column has than the median of the others, for each row."""
    usual = np.median(np.delete(values, column, axis=1), axis=1).astype(np.int64)
    lags: Int64s = values[:, column] - usual
    return lags


def _delay_before(profile: Profile, number: int, column: int, calls: Int64s) -> Delay | None:
    """What delayed a rank before some calls, by the time since the call before each."""
    parts = collective_parts(profile)
    communicator = parts.communicators[number]
    calls = calls[calls > 0]
    calls = calls[(communicator.rows[calls - 1] != NO_CALL).all(axis=1)]
    if not len(calls):
        return None
    since, until = (
        parts.kernels.end_ns[communicator.rows[calls - 1]],
        parts.kernels.start_ns[communicator.rows[calls]],
    )
    lines = {line.device_id: line for line in timelines(profile.whole)}
    longer = {}
    for cause in (HOST, *_LAYERS):
        took = [
            covered_within(_instants(lines[device], cause), since[:, place], until[:, place])
            for place, device in enumerate(communicator.devices)
        ]
        longer[cause] = int(_lags(np.stack(took, axis=1), column).sum())
    cause = max(longer, key=lambda name: longer[name])
    if longer[cause] < max(_LEAST_SHARE * int(_lags(until, column).sum()), 1):
        return None
    if cause == WORK:
        return _compute(profile, communicator.devices, column, longer[cause])
    return Delay(cause, longer[cause])


def _instants(line: DeviceTimeline, cause: str) -> Intervals:
    """When a device did what may have delayed it."""
    if cause == HOST:
        return line.idle
    return together([line.exposed[layer] for layer in _LAYERS[cause]])


def _compute(profile: Profile, devices: tuple[int, ...], column: int, longer_ns: int) -> Delay:
    """Whether the same kernels take longer on a rank, or there are more of them."""
    listed = ", ".join(map(str, devices))
    rows = profile.whole.query(
        "SELECT name, device_id, count(*) AS calls, sum(end_ns - start_ns)::BIGINT AS total"
        f" FROM kernels WHERE NOT is_communication AND device_id IN ({listed}) GROUP BY ALL"
    ).to_pylist()
    places = {device: place for place, device in enumerate(devices)}
    names: dict[str, Int64s] = {}
    for row in rows:
        sums = names.setdefault(row["name"], np.zeros((2, len(devices)), np.int64))
        sums[:, places[row["device_id"]]] = row["calls"], row["total"]
    slower: dict[str, tuple[float, float]] = {}
    more: dict[str, tuple[float, float]] = {}
    for name, (calls, total) in names.items():
        other_ranks = np.delete(calls, column), np.delete(total, column)
        if not calls[column]:
            continue
        usual_calls, mean = float(np.median(other_ranks[0])), total[column] / calls[column]
        if other_ranks[0].all():
            usual = float(np.median(other_ranks[1] / other_ranks[0]))
            slower[name] = float(calls[column] * (mean - usual)), mean / usual if usual else 1.0
        ratio = calls[column] / usual_calls if usual_calls else float("inf")
        more[name] = float((calls[column] - usual_calls) * mean), ratio
    slow = max(slower, key=lambda name: slower[name], default=None)
    if slow is not None and slower[slow][1] >= _SLOW and _sum(slower) >= _sum(more):
        return Delay(KERNELS, longer_ns, slow, slower[slow][1])
    most = max(more, key=lambda name: more[name])
    return Delay(WORK, longer_ns, most, more[most][1])


def _sum(by_name: Mapping[str, tuple[float, float]]) -> float:
    return sum(longer for longer, _ in by_name.values())
