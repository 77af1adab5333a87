"""What of each communication kernel moved data, and what waited for the last rank to arrive.

A kernel of a collective runs from when its rank arrives until all data has moved. Of one call, the
shortest kernel is that of the last rank: it waited for none, so that it tells the transfer. All
others waited for so long as they lasted longer. With one rank alone the calls of one message are
compared, those at the same place of each step where their durations repeat: what one lasts longer
than the shortest tenth of them can be waiting. Waiting that is the same in every call stays unseen.
Where some ranks of a call are not known, its shortest kernel may have waited for one of these.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.statistics import median, quantiles
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.collective_calls import (
    channels,
    collective_calls,
    kernels_of,
    on_compute_streams,
)
from gpuprof.facts.communication import (
    COMMUNICATION_READS,
    CommunicationKernels,
    bus_factor,
    communication_kernels,
)
from gpuprof.facts.numbers import Numbers, groups
from gpuprof.facts.rank_matching import (
    NO_CALL,
    Channel,
    ClockOffset,
    Communicator,
    by_known_ranks,
    clock_offsets,
    clock_shifts,
    ended_together,
    matched,
)
from gpuprof.facts.timeline import TIMELINE_READS
from gpuprof.model.analysis import reads
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import Int64s, Intervals, union
from gpuprof.model.pairs import different
from gpuprof.model.profile import Profile, once_per_recording

PARTS_READS: Final = reads(TIMELINE_READS, COMMUNICATION_READS)

# How the parts of a kernel are known: not at all; at most, by the spread of all calls; by all
# ranks. A first call that is set-up has no parts.
NONE, SPREAD, RANKS, SETUP = range(4)
BASES: Final = ("none", "spread", "ranks", "setup")
NO_INSTANCE: Final = -1
# A first call is set-up that lasts so many times as long as the longest that is none, and so long.
_SETUP_TIMES: Final = 10
_SETUP_NS: Final = 1_000_000
_LEAST_OTHERS: Final = 3
# Of fewer calls the shortest tenth says nothing.
_LEAST_SPREAD: Final = 5
_SHORTEST_SHARE: Final = 0.1
# Up to so many times the shortest tenth, the median tells the transfer.
_NEAR: Final = 1.25
# Of so many calls, at most, the period is looked for. Durations repeat after a lag at which they
# differ by no more than this, and by this share of what they differ at other lags; a difference of
# the last is none.
_MOST_CALLS: Final = 2048
_REPEATS: Final = 0.5
_STANDS_OUT: Final = 0.4
_TIED: Final = 0.02


@dataclass(frozen=True, eq=False)
class CollectiveParts:
    """Communication kernels with their parts, one element each.

    A kernel first waits and then transfers: ``start_ns + waiting_ns`` is where the last rank came.

    Args:
        kernels: The kernels.
        basis: One of `BASES`, by its place.
        waiting_ns: Of `RANKS` the time that it waited; of `SPREAD` the most that it can have
            waited; else 0. For ranks that are not known it may have waited longer.
        transfer_ns: What is left of it; 0 for `NONE` and `SETUP`, and where it may have waited.
        is_complete: Whether all ranks of its call are known, as far as the recording tells.
        instance: A number for each call, the same on all its ranks; `NO_INSTANCE` where only one
            rank is known.
        lag_ns: How much later than the first rank it began; 0 without an instance.
        is_last: Whether its rank was the last to arrive.
        is_same_stream: Whether its stream also runs kernels that compute: these cannot hide it;
            False where the stream is unknown.
        communicators: The streams that belong together, with all their calls.
        groups: The calls of these by the devices whose kernels are known.
        clocks: Devices whose clocks disagree, so that their kernels have no parts: their
            calls do not suffice to set them right.
        offsets: How far the clock of each device is from that of the first one with which it has
            collectives.
        shift_ns: What was added to the times of each kernel to compare those of several devices;
            0 where clocks agree.
    """

    kernels: CommunicationKernels
    basis: npt.NDArray[np.int8]
    waiting_ns: Int64s
    transfer_ns: Int64s
    is_complete: npt.NDArray[np.bool_]
    instance: Int64s
    lag_ns: Int64s
    is_last: npt.NDArray[np.bool_]
    is_same_stream: npt.NDArray[np.bool_]
    communicators: tuple[Communicator, ...]
    groups: tuple[Communicator, ...]
    clocks: tuple[ClockOffset, ...]
    offsets: tuple[ClockOffset, ...]
    shift_ns: Int64s

    @cached_property
    def group_of(self) -> Int64s:
        """The place of each kernel's group in `groups`; -1 where other ranks are not known."""
        place = np.full(len(self.kernels), -1)
        for number, group in enumerate(self.groups):
            place[group.rows] = number
        return place

    @cached_property
    def waiting_by_instance(self) -> Int64s:
        """How long all ranks together waited in each call, by its number."""
        is_known = self.instance >= 0
        waited: Int64s = np.bincount(self.instance[is_known], self.waiting_ns[is_known])
        return waited

    def bus_bytes_per_s(self, rows: Int64s) -> float | None:
        """Bus bandwidth of some kernels while data moves; None where sizes or that are unknown."""
        timed = rows[self.transfer_ns[rows] > 0]
        sizes = [
            (kind.message_bytes or 0) * (bus_factor(kind.collective, kind.group_size) or 0)
            for kind in self.kernels.collectives
        ]
        moved = np.array([*sizes, 0.0])[self.kernels.kind[timed]]
        if not len(timed) or not moved.all():
            return None
        return float(moved.sum() * NS_PER_S / self.transfer_ns[timed].sum())


class PartTimes(NamedTuple):
    """When communication kernels of one device ran, by what they did: together all of them.

    Args:
        transfer: Data moved.
        waiting: They waited for the last rank.
        waiting_at_most: They can have waited, as others of the same message took less.
        unknown: Data moved, or they waited for ranks that are not known.
        setup: First calls that were set-up.
    """

    transfer: Intervals
    waiting: Intervals
    waiting_at_most: Intervals
    unknown: Intervals
    setup: Intervals


@once_per_recording
def collective_parts(profile: Profile) -> CollectiveParts:
    """The parts of all communication kernels of the whole recording."""
    if profile.job is None:
        recorded = communication_kernels(profile)
        is_same_stream = on_compute_streams(profile)
    else:
        recorded, is_same_stream = kernels_of(profile.once(collective_calls))
    kernels, all_channels = recorded, [*channels(recorded)]
    communicators, clocks = matched(all_channels)
    offsets = clock_offsets(recorded.end_ns, communicators, clocks)
    shift_ns = np.zeros(len(recorded), np.int64)
    for device, added_ns in clock_shifts(offsets).items():
        shift_ns[recorded.device == device] = added_ns
    if shift_ns.any():
        kernels = replace(
            recorded, start_ns=recorded.start_ns + shift_ns, end_ns=recorded.end_ns + shift_ns
        )
        all_channels = [*channels(kernels)]
        communicators, clocks = matched(all_channels)
    groups_of_ranks: list[Communicator] = []
    doubted = np.array([device for pair in clocks for device in pair[:2]], np.int64)
    is_alone = ~np.isin(kernels.device, doubted)
    for communicator in communicators:
        rows = communicator.rows[communicator.rows != NO_CALL]
        is_alone[rows] = False
        kinds = different(kernels.kind[rows]).tolist()
        ranks = max(kernels.collectives[kind].group_size or 0 for kind in kinds)
        if not ranks and profile.absent_ranks:  # these are of every group of unknown size
            ranks = len(communicator.devices) + 1
        groups_of_ranks += by_known_ranks(communicator, ranks)
    alone = [channel for channel in all_channels if is_alone[channel.rows].all()]
    return CollectiveParts(
        kernels=recorded,
        is_same_stream=is_same_stream,
        communicators=tuple(communicators),
        groups=tuple(groups_of_ranks),
        clocks=tuple(clocks),
        offsets=tuple(offsets),
        shift_ns=shift_ns,
        **_parts_of(kernels, groups_of_ranks, alone),
    )


def _parts_of(
    kernels: CommunicationKernels, groups_of_ranks: Sequence[Communicator], alone: Sequence[Channel]
) -> dict[str, npt.NDArray[Any]]:
    """The fields of `CollectiveParts` that have an element for each kernel, on one clock."""
    number, instances = len(kernels), 0
    basis, instance = np.full(number, NONE, np.int8), np.full(number, NO_INSTANCE)
    waiting, lag = np.zeros((2, number), np.int64)
    is_last, is_complete = np.zeros((2, number), bool)
    for channel in alone:
        basis[channel.rows], waiting[channel.rows] = _by_spread(kernels, channel)
    for group in groups_of_ranks:
        rows = group.rows
        start, end = kernels.start_ns[rows], kernels.end_ns[rows]
        took, ends = end - start, (end.min(axis=1), end.max(axis=1))
        is_call = ended_together(took.min(axis=1), start.max(axis=1), *ends)
        rows, start, took = rows[is_call], start[is_call], took[is_call]
        calls = np.arange(len(rows))
        is_setup = _is_setup(kernels.kind[rows[:, 0]], took.max(axis=1))
        basis[rows] = np.where(is_setup, SETUP, RANKS)[:, np.newaxis]
        waiting[rows] = took - took.min(axis=1, keepdims=True)
        waiting[rows[is_setup]] = 0
        instance[rows] = (instances + calls)[:, np.newaxis]
        lag[rows] = start - start.min(axis=1, keepdims=True)
        # Of ranks that arrive at once the first one is named.
        is_last[rows[calls, start.argmax(axis=1)]] = True
        is_complete[rows] = (~is_setup & group.is_complete)[:, np.newaxis]
        instances += len(rows)
    has_transfer = is_complete | (basis == SPREAD)
    transfer = np.where(has_transfer, kernels.end_ns - kernels.start_ns - waiting, 0)
    return {
        "basis": basis,
        "waiting_ns": waiting,
        "transfer_ns": transfer,
        "is_complete": is_complete,
        "instance": instance,
        "lag_ns": lag,
        "is_last": is_last,
    }


@once_per_recording
def part_times(profile: Profile) -> Mapping[int | None, PartTimes]:
    """When the communication kernels of each device did what, in the whole recording."""
    parts = collective_parts(profile)
    kernels, basis = parts.kernels, parts.basis
    middle = kernels.start_ns + parts.waiting_ns
    times = {}
    for device in different(kernels.device).tolist():
        is_here = kernels.device == device
        ranks, spread = is_here & (basis == RANKS), is_here & (basis == SPREAD)
        setup = is_here & (basis == SETUP)
        moves, unknown = ranks & parts.is_complete, is_here & ~setup & ~parts.is_complete
        times[if_known(device)] = PartTimes(
            union(middle[moves], kernels.end_ns[moves]),
            union(kernels.start_ns[ranks], middle[ranks]),
            union(kernels.start_ns[spread], middle[spread]),
            union(middle[unknown], kernels.end_ns[unknown]),
            union(kernels.start_ns[setup], kernels.end_ns[setup]),
        )
    return times


def _by_spread(
    kernels: CommunicationKernels, channel: Channel
) -> tuple[npt.NDArray[np.int8], Int64s]:
    """Basis and waiting of a stream whose other ranks are not known, by how much calls differ."""
    took, kind = channel.end_ns - channel.start_ns, kernels.kind[channel.rows]
    is_setup = _is_setup(kind, took)
    basis, waiting = np.where(is_setup, SETUP, NONE).astype(np.int8), np.zeros_like(took)
    steady = np.flatnonzero(~is_setup)
    for of_kind in (steady[rows] for rows in groups(kind[steady])):
        period = _period(took[of_kind])
        for calls in (of_kind[first::period] for first in range(period)):
            if len(calls) >= _LEAST_SPREAD:
                shortest, usual = quantiles(took[calls], _SHORTEST_SHARE, 0.5)
                transfer = usual if usual <= _NEAR * shortest else shortest
                waiting[calls] = np.maximum(took[calls] - int(transfer), 0)
                basis[calls] = SPREAD
    return basis, waiting


def _period(took: Int64s) -> int:
    """After how many calls the durations repeat, as those of the messages of a step do.

    It is the shortest lag at which durations differ about as little as at the best one, in the
    median and by their ratio; 1 where no lag is good, or where all calls take about as long.
    """
    logs, least = np.log(np.maximum(took[:_MOST_CALLS], 1)), math.inf
    # To count what is less takes a tenth of the time of a median, of which few need be known.
    for values in _apart(logs):
        least = _middle(values) if _is_within(values, least) else least
    if least > _REPEATS:
        return 1
    are_worse = [not _is_within(values, least / _STANDS_OUT) for values in _apart(logs)]
    if 2 * sum(are_worse) <= len(are_worse):
        usual = median(np.array([*map(_middle, _apart(logs))]))
        if least > _STANDS_OUT * usual:
            return 1
    near = max(_NEAR * least, _TIED)
    return next(n for n, values in enumerate(_apart(logs), 1) if _is_within(values, near))


def _apart(logs: npt.NDArray[np.float64]) -> Iterator[npt.NDArray[np.float64]]:
    """By how much values differ from those before them, at each lag; until the next one is asked.

    New arrays for each would take longer than what is in them.
    """
    room = np.empty_like(logs)
    for lag in range(1, len(logs) // _LEAST_SPREAD + 1):
        values = np.subtract(logs[lag:], logs[:-lag], out=room[lag:])
        yield np.abs(values, out=values)


def _middle(values: npt.NDArray[np.float64]) -> float:
    """The median, of an even number of values the upper one of the two in the middle."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def _is_within(values: npt.NDArray[np.float64], most: float) -> bool:
    """Whether that is so much at most."""
    return int(np.count_nonzero(values <= most)) > len(values) // 2


def _is_setup(kind: Numbers, took: Int64s) -> npt.NDArray[np.bool_]:
    """Whether calls of a stream, in their order, are first calls that are set-up.

    ``took`` has the longest duration of each over its ranks.
    """
    is_first = np.zeros(len(kind), bool)
    is_first[np.unique(kind, return_index=True)[1]] = True
    if (~is_first).sum() < _LEAST_OTHERS:
        return np.zeros(len(kind), bool)
    longest = took[~is_first].max()
    is_setup: npt.NDArray[np.bool_] = is_first & (took > max(_SETUP_TIMES * longest, _SETUP_NS))
    return is_setup
