"""Which rank the others wait for in collectives, and what delayed it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import is_communication
from gpuprof.facts.collective_calls import CAUSES, WORK, collective_calls, instants_of
from gpuprof.facts.collective_parts import PARTS_READS, RANKS, CollectiveParts, collective_parts
from gpuprof.facts.communication import communication_kernels
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.facts.numbers import ByNumber, sums_of_pieces
from gpuprof.facts.rank_matching import Communicator
from gpuprof.facts.timeline import COMPUTE, TIMELINE_READS, timelines
from gpuprof.model.analysis import per_file, reads
from gpuprof.model.intervals import NOTHING, Int64s, covered_within
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.schema import Count, Id, Ns, Schema, Text

LAST_READS: Final = reads(PARTS_READS, TIMELINE_READS, kernels="name")
# As a cause, the same kernels of a device taking longer.
KERNELS: Final = "kernels"
# Kernels of each device of a job that are kept to tell slow ones from many.
_MOST_KERNELS: Final = 20
_KERNELS_OF_DEVICES: Final = Schema(
    "kernels_of_devices",
    "one of the kernels that took most of a device's time",
    {
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "name": Text("Demangled name.", required=True),
        "calls": Count("How often.", required=True),
        "total_ns": Ns("Sum of durations.", required=True),
    },
)
# A cause explains so much of the time by which a rank came later than the others.
_LEAST_SHARE: Final = 0.5
# A kernel that takes so many times as long as on the other ranks is slow.
_SLOW: Final = 1.05


class Delay(NamedTuple):
    """What delayed a rank, more than the others, before the calls to which it came last.

    Args:
        cause: HOST, KERNELS, WORK, COPIES or COLLECTIVE.
        longer_ns: How much longer than on the median of the other ranks, over all these calls.
        kernel: Of KERNELS and WORK the name of the kernel that took most more time; None where it
            is not known, and of other causes.
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
        name: What people call it: ``rank 2 on node01``, ``device 2``.
        devices: The devices of the communicator, those whose kernels are known.
        calls: Calls whose kernels of these devices are known, without set-up.
        share: In what share of them it was the last to arrive.
        median_lag_ns: How much later than the median of the others it came to those.
        waiting_ns: How long all others together waited for it.
        all_waiting_ns: How long they waited for anyone.
        delay: What delayed it; None where nothing explains half of it.
        start_ns: When it came to each call to which it came last.
        waited_ns: How long all others together waited for it in each of these.
    """

    device_id: int
    name: str
    devices: tuple[int, ...]
    calls: int
    share: float
    median_lag_ns: int
    waiting_ns: int
    all_waiting_ns: int
    delay: Delay | None
    start_ns: Int64s
    waited_ns: Int64s

    @property
    def stands_out(self) -> bool:
        """Whether it makes the others wait far longer than if all came last as often."""
        ranks = len(self.devices)
        least_share = min(2 / ranks, (1 + 1 / ranks) / 2)
        return self.waiting_ns > least_share * self.all_waiting_ns


@dataclass(frozen=True, eq=False)
class CollectiveRecord:
    """Collectives of a recording or a job, and what devices did before them.

    Args:
        parts: Their kernels with their parts.
        names: What people know the devices by.
        since_last_call: For HOST, WORK, COPIES or COLLECTIVE how long it took since the call
            before, of some calls of a communicator: a row per call, a column per device.
        kernel_sums: By the name of a kernel how often some devices ran it, and its time in ns: two
            rows, a column per device.
        hidden: How much of the transfer and of the waiting of some kernels of a device compute
            hides, in ns.
    """

    parts: CollectiveParts
    names: DeviceNames
    since_last_call: Callable[[str, Communicator, Int64s], Int64s]
    kernel_sums: Callable[[tuple[int, ...]], Mapping[str, Int64s]]
    hidden: Callable[[Int64s, int], tuple[int, int]]


@once_per_recording
def collective_record(profile: Profile) -> CollectiveRecord:
    """The collectives of the whole recording."""
    if profile.job is not None:
        return _of_job(profile)
    parts = collective_parts(profile)
    lines = {line.number: line for line in timelines(profile)}

    def since_last_call(cause: str, communicator: Communicator, calls: Int64s) -> Int64s:
        since = parts.kernels.end_ns[communicator.rows[calls - 1]]
        until = parts.kernels.start_ns[communicator.rows[calls]]
        return np.stack(
            [
                covered_within(instants_of(lines[device], cause), since[:, place], until[:, place])
                for place, device in enumerate(communicator.devices)
            ],
            axis=1,
        )

    def hidden(rows: Int64s, device: int) -> tuple[int, int]:
        compute = lines[device].busy[COMPUTE] if device in lines else NOTHING
        start, end = parts.kernels.start_ns[rows], parts.kernels.end_ns[rows]
        middle = start + parts.waiting_ns[rows]
        return (
            int(covered_within(compute, middle, end).sum()),
            int(covered_within(compute, start, middle).sum()),
        )

    return CollectiveRecord(
        parts,
        names_of(profile),
        since_last_call,
        lambda devices: sums_by_name(profile.once(kernel_sums), devices),
        hidden,
    )


def _of_job(profile: Profile) -> CollectiveRecord:
    """By what is kept of each file."""
    calls, parts = profile.once(collective_calls), collective_parts(profile)
    before = {cause: calls[column].to_numpy() for cause, column in CAUSES.items()}
    hidden_ns = calls["hidden_ns"].to_numpy()

    def since_last_call(cause: str, communicator: Communicator, calls: Int64s) -> Int64s:
        took: Int64s = before[cause][communicator.rows[calls]]
        return took

    @cache
    def sums(devices: tuple[int, ...]) -> Mapping[str, Int64s]:
        names = sums_by_name(profile.once(longest_kernels).to_pylist(), devices)
        # A kernel that is not among the longest of another device may run there all the same.
        return {name: of_devices for name, of_devices in names.items() if of_devices[0].all()}

    def hidden(rows: Int64s, _: int) -> tuple[int, int]:
        # Where in a kernel compute ran is not kept: it hides the same share of both parts.
        waiting, transfer = parts.waiting_ns[rows], parts.transfer_ns[rows]
        share = hidden_ns[rows] / np.maximum(waiting + transfer, 1)
        return int(np.round(transfer * share).sum()), int(np.round(waiting * share).sum())

    return CollectiveRecord(parts, names_of(profile), since_last_call, sums, hidden)


@per_file(_KERNELS_OF_DEVICES, needs=("kernels",))
def longest_kernels(profile: Profile) -> pa.Table:
    """The kernels that took most of each device's time; none where nothing communicates."""
    if not len(communication_kernels(profile)):
        return _KERNELS_OF_DEVICES.empty()
    sums, texts = _sums_of_kernels(profile), profile.loaded("kernels").names.distinct
    device, name, _, total_ns = sums
    in_order = np.argsort(np.argsort(np.array(texts, object)))
    order = np.lexsort((in_order[name], -total_ns, device))
    nth = np.arange(len(order)) - np.searchsorted(device[order], device[order])
    return _KERNELS_OF_DEVICES.table(_rows(profile, sums[:, order[nth < _MOST_KERNELS]]))


# What is kept of each file of a job.
CALLS_OF_FILES: Final = (collective_calls, longest_kernels)


@once_per_recording
def last_ranks(profile: Profile) -> tuple[LastRank, ...]:
    """For each communicator the rank for which the others wait longest, the longest first.

    The whole recording is read; none where the ranks of no collective are known.
    """
    return last_ranks_of(collective_record(profile))


def delay_before(record: CollectiveRecord, device: int, rows: Int64s) -> Delay | None:
    """What delayed a device, more than the others, before some calls to which it came last.

    ``rows`` are its communication kernels of these calls, of one communicator; where not all have
    the same ranks, those that most have count.
    """
    places = record.parts.group_of[rows]
    if not len(places) or places[0] < 0:
        return None
    communicator = record.parts.groups[int(np.bincount(places).argmax())]
    column = communicator.devices.index(device)
    calls = np.flatnonzero(np.isin(communicator.rows[:, column], rows))
    return _delay_before(record, communicator, column, calls)


def last_ranks_of(record: CollectiveRecord) -> tuple[LastRank, ...]:
    """As `last_ranks`."""
    parts = record.parts
    arrived_ns = parts.kernels.start_ns + parts.shift_ns
    ranks = []
    for communicator in parts.groups:
        calls = np.flatnonzero(parts.basis[communicator.rows[:, 0]] == RANKS)
        if not len(calls):
            continue
        rows = communicator.rows[calls]
        last, waiting = parts.is_last[rows].argmax(axis=1), parts.waiting_ns[rows].sum(axis=1)
        caused = np.bincount(last, waiting, len(communicator.devices)).astype(np.int64)
        if not caused.any():
            continue
        column = int(caused.argmax())
        last_calls = calls[last == column]
        lag_ns = _lags(arrived_ns[communicator.rows[last_calls]], column)
        ranks.append(
            LastRank(
                communicator.devices[column],
                record.names.in_words([communicator.devices[column]]),
                communicator.devices,
                len(calls),
                len(last_calls) / len(calls),
                int(np.median(lag_ns)),
                int(caused[column]),
                int(waiting.sum()),
                _delay_before(record, communicator, column, last_calls),
                parts.kernels.start_ns[communicator.rows[last_calls, column]],
                waiting[last == column],
            )
        )
    return tuple(sorted(ranks, key=lambda last: -last.waiting_ns))


def _lags(values: Int64s, column: int) -> Int64s:
    """How much more one column has than the median of the others, for each row."""
    usual = np.median(np.delete(values, column, axis=1), axis=1).astype(np.int64)
    lags: Int64s = values[:, column] - usual
    return lags


def _delay_before(
    record: CollectiveRecord, communicator: Communicator, column: int, calls: Int64s
) -> Delay | None:
    """What delayed a rank before some calls, by the time since the call before each."""
    parts = record.parts
    calls = calls[calls > 0]
    if not len(calls):
        return None
    rows = communicator.rows[calls]
    longer = {
        cause: int(_lags(record.since_last_call(cause, communicator, calls), column).sum())
        for cause in CAUSES
    }
    cause = max(longer, key=lambda name: longer[name])
    late_ns = int(_lags(parts.kernels.start_ns[rows] + parts.shift_ns[rows], column).sum())
    if longer[cause] < max(_LEAST_SHARE * late_ns, 1):
        return None
    if cause == WORK:
        return _compute(record.kernel_sums(communicator.devices), column, longer[cause])
    return Delay(cause, longer[cause])


def kernel_sums(profile: Profile) -> list[dict[str, Any]]:
    """Calls and time of each device's kernels of each name, but for those of communication."""
    return _rows(profile, _sums_of_kernels(profile))


def _sums_of_kernels(profile: Profile) -> Int64s:
    """The same as four rows of numbers, devices by their places and names by those among all."""
    names, lines = profile.loaded("kernels").names, timelines(profile)
    texts, places = names.distinct, names.places
    device_places = ByNumber([line.number for line in lines], range(len(lines)), 0)
    columns = ("start_ns", "end_ns", "device_id", "name_id")
    calls, total_ns = sums_of_pieces(
        (device_places.of(device).astype(np.int64) * len(texts) + places.of(name_id), end - start)
        for start, end, device, name_id in profile.columns("kernels", *columns)
    )
    there = np.flatnonzero(calls)
    device, name = np.divmod(there, len(texts))
    computes = ~np.array([*map(is_communication, texts)], bool)[name]
    return np.stack([device, name, calls[there], total_ns[there]])[:, computes]


def _rows(profile: Profile, sums: Int64s) -> list[dict[str, Any]]:
    texts, lines = profile.loaded("kernels").names.distinct, timelines(profile)
    return [
        {
            "device_id": lines[device].device_id,
            "name": texts[name],
            "calls": calls,
            "total_ns": total_ns,
        }
        for device, name, calls, total_ns in sums.T.tolist()
    ]


def sums_by_name(
    rows: Iterable[Mapping[str, Any]], devices: tuple[int, ...]
) -> Mapping[str, Int64s]:
    """Calls and time of kernels as `CollectiveRecord.kernel_sums` gives them."""
    places = {device: place for place, device in enumerate(devices)}
    names: dict[str, Int64s] = {}
    for row in rows:
        if row["device_id"] in places:
            sums = names.setdefault(row["name"], np.zeros((2, len(devices)), np.int64))
            sums[:, places[row["device_id"]]] = row["calls"], row["total_ns"]
    return names


def _compute(names: Mapping[str, Int64s], column: int, longer_ns: int) -> Delay:
    """Whether the same kernels take longer on a rank, or there are more of them."""
    slower: dict[str, tuple[float, float]] = {}
    more: dict[str, tuple[float, float]] = {}
    for name, (calls, total_ns) in names.items():
        other_ranks = np.delete(calls, column), np.delete(total_ns, column)
        if not calls[column]:
            continue
        usual_calls, mean = float(np.median(other_ranks[0])), total_ns[column] / calls[column]
        if other_ranks[0].all():
            usual = float(np.median(other_ranks[1] / other_ranks[0]))
            slower[name] = float(calls[column] * (mean - usual)), mean / usual if usual else 1.0
        ratio = calls[column] / usual_calls if usual_calls else float("inf")
        more[name] = float((calls[column] - usual_calls) * mean), ratio
    slow = max(slower, key=lambda name: slower[name], default=None)
    slower_ns, more_ns = (sum(ns for ns, _ in of.values()) for of in (slower, more))
    if slow is not None and slower[slow][1] >= _SLOW and slower_ns >= more_ns:
        return Delay(KERNELS, longer_ns, slow, slower[slow][1])
    most = max(more, key=lambda name: more[name], default=None)
    if most is None or more[most][1] < _SLOW:
        # The same kernels, as often and as long in all: which of them took longer is not known.
        return Delay(WORK, longer_ns)
    return Delay(WORK, longer_ns, most, more[most][1])
