"""Edges between ranks: a collective ends on all of them together."""

import numpy as np

from gpuprof.facts.collective_parts import NO_INSTANCE, RANKS, SPREAD, collective_parts
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict.graph import ARRIVAL, DURATION, TRANSFER, Maker
from gpuprof.predict.recorded import COLLECTIVE, Operations


def meetings(profile: Profile, o: Operations) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Collectives of several ranks: operations and their meetings.

    Collectives that match none of another rank are left out.

    Returns:
        Operations; the meeting of each; when the last rank arrived at each meeting; its transfer;
        and the time without waiting of every operation, in ns.
    """
    nothing = np.empty(0, np.int64)
    rows = np.flatnonzero(o.kind == COLLECTIVE)
    if not len(rows):
        return nothing, nothing, nothing, nothing, o.took_ns
    parts = collective_parts(profile)
    kernels = parts.kernels
    times = (kernels.start_ns + parts.shift_ns, kernels.end_ns + parts.shift_ns)
    places = np.stack([*times, kernels.device])
    keys = np.stack([o.start_ns, o.end_ns, o.device])[:, rows]
    code = np.unique(np.concatenate([places, keys], axis=1), axis=1, return_inverse=True)[1]
    of_code = np.full(int(code.max()) + 1, NOT_FOUND)
    of_code[code.reshape(-1)[: len(kernels.start_ns)]] = np.arange(len(kernels.start_ns))
    kernel = of_code[code.reshape(-1)[len(kernels.start_ns) :]]
    alone_ns = o.took_ns.copy()
    is_waiting = (kernel != NOT_FOUND) & np.isin(parts.basis[kernel], (RANKS, SPREAD))
    alone_ns[rows[is_waiting]] = parts.transfer_ns[kernel[is_waiting]]
    is_met = is_waiting & (parts.basis[kernel] == RANKS) & (parts.instance[kernel] != NO_INSTANCE)
    members = rows[is_met]
    numbers, meeting = np.unique(parts.instance[kernel[is_met]], return_inverse=True)
    arrived = np.full(len(numbers), np.iinfo(np.int64).min)
    np.maximum.at(arrived, meeting, o.start_ns[members])
    transfer = np.full(len(numbers), np.iinfo(np.int64).max)
    np.minimum.at(transfer, meeting, o.took_ns[members])
    alone_ns[members] = transfer[meeting]
    return members, meeting, arrived, transfer, alone_ns


def add_collectives(maker: Maker, members: Int64s, meeting: Int64s, transfer: Int64s) -> None:
    """Add edges so that a collective ends on all ranks together, one transfer after the last."""
    o, first = maker.operations, maker.first_operation
    items = first + members
    places = first + len(o) + meeting
    maker.add(ARRIVAL, maker.starts(items), maker.starts(places), np.zeros(len(items), np.int64))
    maker.add(TRANSFER, maker.starts(places), maker.ends(items), transfer[meeting])
    collectives = np.flatnonzero(o.kind == COLLECTIVE)
    alone = first + np.setdiff1d(collectives, members)
    maker.add(DURATION, maker.starts(alone), maker.ends(alone))
    maker.add(DURATION, maker.starts(items), maker.ends(items), np.zeros(len(items), np.int64))
    if len(collectives) and len(np.unique(o.device)) > 1 and len(alone):
        maker.doubts["collectives that no other rank shares"] = len(alone)
