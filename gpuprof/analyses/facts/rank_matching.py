"""Which communication kernels of several devices are one call of one collective.

The kernels of a communicator follow one another on a stream, in the same order on every rank,
and those of one call end together, when the last rank has arrived and the data has moved. So
streams of different devices belong together whose kernels, one after the other, end together.
A recording may have lost calls at its ends; what ends together is one call.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.intervals import Int64s

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
    """

    devices: tuple[int, ...]
    rows: Int64s


class Clocks(NamedTuple):
    """Two devices whose clocks disagree, and by how much."""

    device: int
    second_device: int
    apart_ns: int


class _Fit(NamedTuple):
    """How well the calls of one channel are those of another.

    Args:
        share: Of their calls those that end together; 0 where most do not.
        shift: What is to be added to the place of a call to have its place in the other.
        apart_ns: How much later a call ends, in the median; None where that varies.
    """

    share: float
    shift: int
    apart_ns: int | None


def matched(channels: Sequence[Channel]) -> tuple[list[Communicator], list[Clocks]]:
    """The communicators of at least two devices, and the clocks that disagree.

    Args:
        channels: All channels, none of an unknown device.
    """
    unmatched = [channel for channel in channels if len(channel.rows) >= LEAST_CALLS]
    communicators, clocks = [], []
    while unmatched:
        first, *unmatched = unmatched
        members = [(first, 0)]
        devices = dict.fromkeys(channel.device for channel in unmatched)
        for device in (device for device in devices if device != first.device):
            candidates = (channel for channel in unmatched if channel.device == device)
            fits = [(_fit(first, channel), channel) for channel in candidates]
            fit, best = max(fits, key=lambda pair: pair[0].share)
            if fit.apart_ns is not None:
                clocks.append(Clocks(first.device, device, fit.apart_ns))
            elif fit.share >= _LEAST_SHARE:
                members.append((best, fit.shift))
        unmatched = [
            channel for channel in unmatched if all(channel is not member for member, _ in members)
        ]
        if len(members) > 1:
            communicators.append(_communicator(members))
    return communicators, clocks


def _communicator(members: Sequence[tuple[Channel, int]]) -> Communicator:
    """The calls of channels, whose places among the calls of the first are shifted."""
    members = sorted(members, key=lambda member: member[0].device)
    first = min(shift for _, shift in members)
    last = max(shift + len(channel.rows) for channel, shift in members)
    rows = np.full((last - first, len(members)), NO_CALL)
    for column, (channel, shift) in enumerate(members):
        rows[shift - first : shift - first + len(channel.rows), column] = channel.rows
    return Communicator(tuple(channel.device for channel, _ in members), rows)


def _fit(first: Channel, second: Channel) -> _Fit:
    """How the calls of a second channel fit those of the first, in their best order."""
    has_all = len(first.rows) == len(second.rows) and bool((first.kind == second.kind).all())
    fit = _shifted(first, second, 0) if has_all else None
    if fit is not None and (fit.share >= _LEAST_SHARE or fit.apart_ns is not None):
        return fit
    nearest = _nearest(first.end_ns, second.end_ns) - np.arange(len(second.rows))
    shifts, count = np.unique(nearest, return_counts=True)
    return _shifted(first, second, int(shifts[count.argmax()]))


def _nearest(ends: Int64s, instants: Int64s) -> Int64s:
    """Which of the ends is nearest to each instant."""
    after = np.searchsorted(ends, instants)
    before, after = np.maximum(after - 1, 0), np.minimum(after, len(ends) - 1)
    is_before = np.abs(instants - ends[before]) <= np.abs(instants - ends[after])
    return np.where(is_before, before, after)


def _shifted(first: Channel, second: Channel, shift: int) -> _Fit:
    low = max(0, -shift)
    high = min(len(second.rows), len(first.rows) - shift)
    if high - low < LEAST_CALLS:
        return _Fit(0, shift, None)
    of_first, of_second = slice(low + shift, high + shift), slice(low, high)
    # Rows of the two together, but columns in memory: so the lesser of two is found faster.
    start = np.stack([first.start_ns[of_first], second.start_ns[of_second]]).T
    end = np.stack([first.end_ns[of_first], second.end_ns[of_second]]).T
    is_same = (first.kind[of_first] == second.kind[of_second]) & ended_together(start, end)
    later, shortest = end[:, 1] - end[:, 0], float(np.median((end - start).min(axis=1)))
    low_ns, median_ns, high_ns = np.quantile(later, [0.1, 0.5, 0.9])
    is_steady = high_ns - low_ns < _STEADY * abs(median_ns)
    is_apart = is_steady and abs(median_ns) > max(_APART_NS, shortest / 2)
    is_close = np.median(np.abs(later)) <= max(TOGETHER_NS, _CLOSE * shortest)
    share = float(is_same.mean()) if is_close else 0.0
    return _Fit(share, shift, int(median_ns) if is_apart else None)


def ended_together(start: Int64s, end: Int64s) -> npt.NDArray[np.bool_]:
    """Whether the kernels of each call can be those of one call.

    They end within the time that the shortest of them took, and none before the last began.

    Args:
        start: Starts in ns, one row per call and one column per device.
        end: Ends in ns, in the same places.
    """
    shortest = np.maximum((end - start).min(axis=1), TOGETHER_NS)
    is_together: npt.NDArray[np.bool_] = end.max(axis=1) - end.min(axis=1) <= shortest
    is_together &= start.max(axis=1) <= end.min(axis=1) + TOGETHER_NS
    return is_together
