"""Which communication kernels of several devices are one call of one collective.

The kernels of a communicator follow one another on a stream, in the same order on every rank,
and those of one call end together, when the last rank has arrived and the data has moved. So
streams of different devices belong together whose kernels, one after the other, end together.
A recording may have lost calls at its ends; what ends together is one call.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.statistics import quantiles_of_rows
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s

NO_CALL: Final = -1
# The kernels of a call end within so long of one another, or within its shortest kernel.
TOGETHER_NS: Final = 10_000
# Fewer calls end together by chance; of more, so many must.
LEAST_CALLS: Final = 3
_LEAST_SHARE: Final = 0.9
# Groups of ranks that do the same end nearly together, too: those of one group within this share
# of the shortest kernel, in the median over calls.
_CLOSE: Final = 0.25
# Clocks are apart where the ends are, by much more than they vary.
_APART_NS: Final = 20_000
_STEADY: Final = 0.25
# By so many standard deviations a clock is surely apart.
_SURE: Final = 3
# Where nothing belongs together, thousands of channels would be compared in pairs.
_MOST_VAIN_FITS: Final = 8_000
# Calls of channels that are compared at once: what is computed of them fits into a cache.
_CALLS_AT_ONCE: Final = 1 << 16
# A normal distribution's standard deviation by the median distance from the median.
_DEVIATION: Final = 1.4826


class Channel(NamedTuple):
    """The communication kernels of one stream, in the order in which they ran.

    Args:
        device: The device.
        rows: Which kernels of the recording they are.
        kind: A number for what must be the same on all ranks.
    """

    device: int
    rows: Int64s
    start_ns: Int64s
    end_ns: Int64s
    kind: Int64s


class Communicator(NamedTuple):
    """Channels of several devices that belong together.

    Args:
        devices: The devices, ascending.
        rows: One row per call and one column per device: which kernels of the recording they
            are, or `NO_CALL` where the recording lacks one.
        is_complete: Whether these are all ranks of the group, as far as the recording tells.
    """

    devices: tuple[int, ...]
    rows: Int64s
    is_complete: bool = True


class ClockOffset(NamedTuple):
    """How far the clock of a device is ahead of that of another one.

    Args:
        device: The device.
        reference_device: The other one.
        offset_ns: What is to be taken off its times: how much later the same calls end on it, in
            the median.
        error_ns: How far a call may differ from that: its standard deviation, by the median
            distance from the median.
        calls: Calls of both.
    """

    device: int
    reference_device: int
    offset_ns: int
    error_ns: int
    calls: int


class _Fit(NamedTuple):
    """How well the calls of one channel are those of another.

    Args:
        share: Of their calls those that end together; 0 where most do not.
        shift: What is to be added to the place of a call to have its place in the other.
        apart_ns: How much later a call ends, in the median; None where that varies, or is little.
        error_ns: How far a call may differ from that.
        calls: Calls of both.
    """

    share: float
    shift: int
    apart_ns: int | None
    error_ns: int = 0
    calls: int = 0


def matched(channels: Sequence[Channel]) -> tuple[list[Communicator], list[ClockOffset]]:
    """The communicators of at least two devices, and the clocks that disagree.

    Channels of unknown devices belong to none.
    """
    unmatched = [
        channel
        for channel in channels
        if len(channel.rows) >= LEAST_CALLS and channel.device != UNKNOWN
    ]
    communicators, clocks = [], []
    vain_fits = 0
    while unmatched and vain_fits < _MOST_VAIN_FITS:
        first, *unmatched = unmatched
        members = [(first, 0)]
        of_other_devices = [channel for channel in unmatched if channel.device != first.device]
        by_device: dict[int, list[tuple[_Fit, Channel]]] = {}
        for fit, channel in zip(_fits(first, of_other_devices), of_other_devices, strict=True):
            by_device.setdefault(channel.device, []).append((fit, channel))
        for device, candidates in by_device.items():
            fit, best = max(candidates, key=lambda pair: pair[0].share)
            if fit.apart_ns is not None:
                figures = fit.apart_ns, fit.error_ns, fit.calls
                clocks.append(ClockOffset(device, first.device, *figures))
            elif fit.share >= _LEAST_SHARE:
                members.append((best, fit.shift))
        member_ids = {id(member) for member, _ in members}
        unmatched = [channel for channel in unmatched if id(channel) not in member_ids]
        vain_fits += len(unmatched) if len(members) == 1 else 0
        if len(members) == 1:
            continue
        # The calls of each channel have other places among those of all.
        members.sort(key=lambda member: member[0].device)
        low = min(shift for _, shift in members)
        high = max(shift + len(channel.rows) for channel, shift in members)
        rows = np.full((high - low, len(members)), NO_CALL)
        for column, (channel, shift) in enumerate(members):
            rows[shift - low : shift - low + len(channel.rows), column] = channel.rows
        devices = tuple(channel.device for channel, _ in members)
        communicators.append(Communicator(devices, rows))
    return communicators, clocks


def by_known_ranks(communicator: Communicator, ranks: int) -> Iterator[Communicator]:
    """The calls of a communicator by the devices whose kernels are known, those of most first.

    A rank whose recording ends early, or is absent, lacks in all later calls; two devices of which
    one goes on where the other ends, as the files of a rank that began anew, never lack together.
    The group has so many ranks at least; 0 where nothing tells.
    """
    has_call = communicator.rows != NO_CALL
    most = max(ranks, int(has_call.sum(axis=1).max()))
    if has_call.all():
        yield communicator._replace(is_complete=len(communicator.devices) == most)
        return
    patterns, number = np.unique(has_call, axis=0, return_inverse=True)
    for place in np.argsort(-patterns.sum(axis=1), kind="stable").tolist():
        is_known = patterns[place]
        if (count := int(is_known.sum())) > 1:
            devices = (
                device
                for device, is_so in zip(communicator.devices, is_known, strict=True)
                if is_so
            )
            rows = communicator.rows[number.reshape(-1) == place][:, is_known]
            yield Communicator((*devices,), rows, count == most)


def _fits(first: Channel, channels: Sequence[Channel]) -> list[_Fit]:
    """How the calls of each of some channels fit those of the first, in their best order."""
    alike = [
        channel
        for channel in channels
        if len(channel.rows) == len(first.rows) and (channel.kind == first.kind).all()
    ]
    fits = _fits_at(first, [(0, channel) for channel in alike])
    good = {
        number
        for number, fit in fits.items()
        if fit.share >= _LEAST_SHARE or fit.apart_ns is not None
    }
    shifted = [(_shift(first, c), c) for c in channels if id(c) not in good]
    fits |= _fits_at(first, [(shift, c) for shift, c in shifted if shift or id(c) not in fits])
    return [fits[id(channel)] for channel in channels]


def _fits_at(first: Channel, channels: Iterable[tuple[int, Channel]]) -> dict[int, _Fit]:
    """How channels fit the first one, each with a shift of its own, by the id of the channel."""
    alike: dict[tuple[int, int], list[Channel]] = {}
    for shift, channel in channels:
        alike.setdefault((shift, len(channel.rows)), []).append(channel)
    fits, at_once = dict[int, _Fit](), max(_CALLS_AT_ONCE // len(first.rows), 1)
    for (shift, _), shifted in alike.items():
        for low in range(0, len(shifted), at_once):
            some = shifted[low : low + at_once]
            fits |= zip(map(id, some), _shifted(first, some, shift), strict=True)
    return fits


def _shift(first: Channel, second: Channel) -> int:
    """What is to be added to the places of most calls of the second for those that end nearest."""
    ends, instants = first.end_ns, second.end_ns
    after = np.searchsorted(ends, instants)
    before, after = np.maximum(after - 1, 0), np.minimum(after, len(ends) - 1)
    is_before = np.abs(instants - ends[before]) <= np.abs(instants - ends[after])
    nearest = np.where(is_before, before, after)
    shifts = nearest - np.arange(len(nearest))
    least = int(shifts.min())
    return least + int(np.bincount(shifts - least).argmax())


def _shifted(first: Channel, seconds: Sequence[Channel], shift: int) -> list[_Fit]:
    """How the calls of channels, all of as many, fit those of the first that are shifted so."""
    low = max(0, -shift)
    high = min(len(seconds[0].rows), len(first.rows) - shift)
    if high - low < LEAST_CALLS:
        return [_Fit(0, shift, None)] * len(seconds)
    of_first = slice(low + shift, high + shift)
    start_ns, end_ns, kind = (
        np.stack([column[low:high] for column in columns])
        for columns in zip(*((s.start_ns, s.end_ns, s.kind) for s in seconds), strict=True)
    )
    first_start, first_end = first.start_ns[of_first], first.end_ns[of_first]
    took = np.minimum(first_end - first_start, end_ns - start_ns)
    later, (shortest,) = end_ns - first_end, quantiles_of_rows(took, 0.5)
    limit_ns = np.maximum(TOGETHER_NS, _CLOSE * shortest)
    is_close = quantiles_of_rows(np.abs(later), 0.5)[0] <= limit_ns
    share = np.zeros(len(later))
    if is_close.any():
        start_ns, end_ns = start_ns[is_close], end_ns[is_close]
        ends = np.minimum(first_end, end_ns), np.maximum(first_end, end_ns)
        is_same = ended_together(took[is_close], np.maximum(first_start, start_ns), *ends)
        is_same &= first.kind[of_first] == kind[is_close]
        share[is_close] = is_same.mean(axis=-1)
    low_ns, median_ns, high_ns = quantiles_of_rows(later, 0.1, 0.5, 0.9)
    is_steady = high_ns - low_ns < _STEADY * np.abs(median_ns)
    is_apart = is_steady & (np.abs(median_ns) > np.maximum(_APART_NS, shortest / 2))
    error_ns = np.zeros(len(later), np.int64)
    if is_apart.any():
        error_ns[is_apart] = _error_ns(later[is_apart])
    figures = (column.tolist() for column in (share, is_apart, median_ns, error_ns))
    return [
        _Fit(of_calls, shift, int(median) if is_so else None, error, high - low)
        for of_calls, is_so, median, error in zip(*figures, strict=True)
    ]


def _error_ns(later: Int64s) -> Int64s:
    """The standard deviation of normal values with the same median distance from the median.

    Of each row, where there are several.

    Source: P. J. Rousseeuw, C. Croux, Alternatives to the Median Absolute Deviation, 1993.
    """
    distance_ns = np.abs(later - np.median(later, axis=-1, keepdims=True))
    error_ns = _DEVIATION * np.asarray(np.median(distance_ns, axis=-1))
    return np.rint(error_ns).astype(np.int64)


def clock_offsets(
    end_ns: Int64s, communicators: Sequence[Communicator], clocks: Sequence[ClockOffset]
) -> list[ClockOffset]:
    """The clock of each device beside that of the first of those with which it has collectives.

    Collectives end on all ranks together, so that the ends of the same calls show how far clocks
    are apart, whoever came late. Where clocks are known by way of others, the error is the largest
    of these pairs, and the number of calls the smallest. ``end_ns`` is of all communication kernels
    of the recording.
    """
    pairs = [*clocks]
    for communicator in communicators:
        pairs += _beside_first(end_ns, communicator)
    neighbours: dict[int, list[tuple[int, int, int, int]]] = {}
    for device, other_device, apart_ns, error_ns, calls in pairs:
        neighbours.setdefault(other_device, []).append((device, apart_ns, error_ns, calls))
        neighbours.setdefault(device, []).append((other_device, -apart_ns, error_ns, calls))
    offsets: dict[int, ClockOffset] = {}
    for reference in sorted(neighbours):
        if reference in offsets:
            continue
        most_calls = max(calls for *_, calls in neighbours[reference])
        offsets[reference] = ClockOffset(reference, reference, 0, 0, most_calls)
        waiting = [reference]
        while waiting:
            of_device = offsets[waiting.pop(0)]
            for device, apart_ns, error_ns, calls in neighbours[of_device.device]:
                if device not in offsets:
                    offsets[device] = ClockOffset(
                        device,
                        reference,
                        of_device.offset_ns + apart_ns,
                        max(of_device.error_ns, error_ns),
                        min(of_device.calls, calls),
                    )
                    waiting.append(device)
    return [offsets[device] for device in sorted(offsets)]


def _beside_first(end_ns: Int64s, communicator: Communicator) -> Iterator[ClockOffset]:
    """The clock of each device of a communicator beside that of its first one."""
    devices, rows, _ = communicator
    places, is_whole = range(1, len(devices)), (rows != NO_CALL).all()
    # Mostly no device lacks a call.
    for columns in [[*places]] if is_whole else [[place] for place in places]:
        common = rows[(rows[:, [0, *columns]] != NO_CALL).all(axis=1)]
        later = (end_ns[common[:, columns]] - end_ns[common[:, :1]]).T
        figures = np.median(later, axis=-1).tolist(), _error_ns(later).tolist()
        for column, apart_ns, error_ns in zip(columns, *figures, strict=True):
            yield ClockOffset(devices[column], devices[0], int(apart_ns), error_ns, later.shape[1])


def are_apart(offset: ClockOffset) -> bool:
    """Whether a clock is further from the other one than calls may end apart on one clock.

    What one group of ranks is behind another, such as the next stage of a pipeline, varies more
    than clocks do.
    """
    is_steady = offset.error_ns <= TOGETHER_NS
    return is_steady and abs(offset.offset_ns) > max(_APART_NS, _SURE * offset.error_ns)


def clock_shifts(offsets: Sequence[ClockOffset]) -> dict[int, int]:
    """What sets the times of devices right whose clocks are apart; those that agree stay."""
    return {offset.device: -offset.offset_ns for offset in offsets if are_apart(offset)}


def ended_together(
    shortest: Int64s, last_start: Int64s, first_end: Int64s, last_end: Int64s
) -> npt.NDArray[np.bool_]:
    """Whether the kernels of each call can be those of one call.

    They end within the time that the shortest of them took, and none before the last began.
    ``shortest`` is how long the shortest kernel of each call took; all are in ns.
    """
    is_together: npt.NDArray[np.bool_] = last_end - first_end <= np.maximum(shortest, TOGETHER_NS)
    is_together &= last_start <= first_end + TOGETHER_NS
    return is_together
