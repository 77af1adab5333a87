"""Edges between devices: copies and default streams, collectives of ranks, and inferred waits."""

from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.collective_parts import NO_INSTANCE, RANKS, SPREAD, collective_parts
from gpuprof.facts.numbers import NOT_FOUND, first_of, order_of, pieces
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict.graph import (
    ARRIVAL,
    AWAITED,
    DEFAULT_STREAMS,
    NEAR_NS,
    STAGED,
    TRANSFER,
    Maker,
)
from gpuprof.predict.recorded import COLLECTIVE, Operations

# Streams are not the default streams where more than this share of copies contradicts it.
_DISPROVED: Final = 0.02
_CANDIDATES: Final = 8


def add_copies(maker: Maker) -> None:
    """Add waits of copies between devices: between halves, and for and by both default streams."""
    o = maker.operations
    rows = np.flatnonzero(o.where(lambda of: of.is_peer and 0 <= of.src != of.dst >= 0))
    if not len(rows):
        return
    before, after = _copies_of(maker, rows)
    # The default stream of each device of each process has the lowest number.
    by_id = sorted(enumerate(o.streams), key=lambda of: (of[1].stream_id, of[0]), reverse=True)
    defaults = sorted({(of.process, of.device): number for number, of in by_id}.values())
    processes = np.array([of.process for of in o.streams], np.int64)
    for end in ("src", "dst"):
        devices = np.array([getattr(of, end) for of in o.labels], np.int64)
        for stream in defaults:
            of = o.streams[stream]
            starts = o.start_ns[of.low : of.high]
            is_other = (processes == of.process) & (np.arange(len(o.streams)) != stream)
            waiting, awaited = (
                its[(devices[o.label[its]] == of.device) & is_other[o.stream[its]]]
                for its in (before, after)
            )
            last = np.searchsorted(starts, o.start_ns[waiting], side="left") - 1
            following = np.searchsorted(starts, o.start_ns[awaited], side="left")
            is_some = following < len(starts)
            for source, target in (
                (of.low + last[last >= 0], waiting[last >= 0]),
                (awaited[is_some], of.low + following[is_some]),
            ):
                # Where few contradict that it is a default stream.
                is_against = o.end_ns[source] > o.start_ns[target]
                if len(source) and is_against.mean() <= _DISPROVED:
                    maker.add(DEFAULT_STREAMS, maker.ends(source), maker.starts(target))


def _copies_of(maker: Maker, rows: Int64s) -> tuple[Int64s, Int64s]:
    """The first and the last operation of each copy between devices; two for staged copies."""
    o = maker.operations
    peers = np.flatnonzero(o.where(lambda of: of.is_peer))
    ids = o.peer_ids[np.searchsorted(peers, rows)]
    process = np.array([of.process for of in o.streams], np.int64)[o.stream[rows]]
    by_id = np.lexsort((o.start_ns[rows], ids, process))
    order, ids = rows[by_id], ids[by_id]
    device, is_staged = o.device_of(order), o.where(lambda of: of.is_staged)[order]
    is_half = is_staged[1:] & is_staged[:-1]
    is_half &= (ids[1:] == ids[:-1]) & (ids[1:] >= 0) & (device[1:] != device[:-1])
    is_second = np.append(False, is_half)
    # Among four halves with the same id, the third starts another copy.
    for place in np.flatnonzero(is_second[2:] & is_second[1:-1]) + 2:
        is_second[place] &= not is_second[place - 1]
    second = np.flatnonzero(is_second)
    maker.add(STAGED, maker.ends(order[second - 1]), maker.starts(order[second]))
    return order[~is_second], order[np.append(~is_second[1:], True)]


def add_awaited(maker: Maker, late: Int64s) -> None:
    """Add inferred waits of operations that start long after all known dependencies."""
    if not len(late):
        return
    o, process = maker.operations, np.array([of.process for of in maker.operations.streams])
    # Only those that end shortly before one of them starts.
    starts = np.sort(o.start_ns[late])
    near = [np.empty(0, np.int64)]
    for rows in pieces(len(o)):
        ends = o.end_ns[rows]
        until_ns = starts[np.searchsorted(starts[:-1], ends)] - ends
        near.append(rows.start + np.flatnonzero((until_ns >= 0) & (until_ns <= NEAR_NS)))
    order = np.concatenate(near)
    if not len(order):
        return
    order = order[order_of(o.end_ns[order])]
    place = np.searchsorted(o.end_ns[order], o.start_ns[late], side="right") - 1
    chosen = np.full(len(late), NOT_FOUND)
    for back in range(_CANDIDATES):
        candidate = order[np.maximum(place - back, 0)]
        fits = (chosen == NOT_FOUND) & (place >= back)
        fits &= o.start_ns[late] - o.end_ns[candidate] <= NEAR_NS
        fits &= o.stream[candidate] != o.stream[late]
        fits &= process[o.stream[candidate]] == process[o.stream[late]]
        chosen[fits] = candidate[fits]
    has_one = chosen != NOT_FOUND
    maker.add(AWAITED, maker.ends(chosen[has_one]), maker.starts(late[has_one]))


class Meetings(NamedTuple):
    """Collectives of several ranks, which end on all of them together.

    Args:
        collectives: All operations that are collectives.
        alone_ns: The time without waiting of each of these, as far as known.
        bytes: The message of each of these; `UNKNOWN` where no framework told it.
        members: Those of several ranks; what matches none of another rank is left out.
        meeting: The meeting of each member.
        arrived_ns: When the last rank arrived at each meeting.
        transfer_ns: The transfer of each meeting.
    """

    collectives: Int64s
    alone_ns: Int64s
    bytes: Int64s
    members: Int64s
    meeting: Int64s
    arrived_ns: Int64s
    transfer_ns: Int64s


def meetings(profile: Profile, o: Operations) -> Meetings:
    """The collectives of a recording and where they meet."""
    rows = np.flatnonzero(o.kind == COLLECTIVE)
    if not len(rows):
        return Meetings(*[rows] * 7)
    parts = collective_parts(profile)
    kernels = parts.kernels
    times = (kernels.start_ns + parts.shift_ns, kernels.end_ns + parts.shift_ns)
    device = o.device_of(rows)
    # Kernels and collectives of the same device and times are one.
    keys = [*times, kernels.device], [o.start_ns[rows], o.end_ns[rows], device]
    columns = [np.concatenate(pair) for pair in zip(*keys, strict=True)]
    order = np.lexsort(columns)
    is_kernel, first = order < len(kernels.kind), first_of(order, *columns)
    of_first = np.full(len(first), NOT_FOUND)
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    of_first[group[is_kernel]] = order[is_kernel]
    kernel = np.empty(len(rows), np.int64)
    kernel[order[~is_kernel] - len(kernels.kind)] = of_first[group[~is_kernel]]
    alone_ns = o.end_ns[rows] - o.start_ns[rows]
    is_waiting = (kernel != NOT_FOUND) & np.isin(parts.basis[kernel], (RANKS, SPREAD))
    alone_ns[is_waiting] = parts.transfer_ns[kernel[is_waiting]]
    sizes = [
        UNKNOWN if of.message_bytes is None else of.message_bytes for of in kernels.collectives
    ]
    size = np.array([*sizes, UNKNOWN])[np.append(kernels.kind, len(sizes))[kernel]]
    is_met = is_waiting & (parts.basis[kernel] == RANKS) & (parts.instance[kernel] != NO_INSTANCE)
    members = rows[is_met]
    numbers, meeting = np.unique(parts.instance[kernel[is_met]], return_inverse=True)
    arrived = np.full(len(numbers), np.iinfo(np.int64).min)
    np.maximum.at(arrived, meeting, o.start_ns[members])
    transfer = np.full(len(numbers), np.iinfo(np.int64).max)
    np.minimum.at(transfer, meeting, o.end_ns[members] - o.start_ns[members])
    alone_ns[is_met] = transfer[meeting]
    return Meetings(rows, alone_ns, size, members, meeting, arrived, transfer)


def add_meetings(maker: Maker, met: Meetings) -> None:
    """Add edges so that a collective ends on all ranks together, one transfer after the last."""
    o, members = maker.operations, met.members
    places = 2 * (len(maker.calls) + len(o) + met.meeting)
    maker.add(ARRIVAL, maker.starts(members), places, np.zeros(len(members), np.int64))
    maker.add(TRANSFER, places, maker.ends(members), met.transfer_ns[met.meeting])
    alone = len(met.collectives) - len(members)
    if alone and len(o.devices) > 1:
        maker.doubts["collectives that no other rank shares"] = alone
