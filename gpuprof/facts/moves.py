"""Every transfer between two known memories, one by one, as arrays: for what repeats in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuprof.facts.groups import Numbers, groups
from gpuprof.facts.nvtx import origins, parts_around
from gpuprof.facts.timeline import timeline_of
from gpuprof.facts.transfer_rows import UVM, transfer_rows
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile


@dataclass(frozen=True, eq=False)
class Moves:
    """Transfers, one element each, in the order of their starts; a staged one is one.

    Args:
        src: Device at the source, or `copies.HOST`.
        dst: Device at the destination, or `copies.HOST`.
        bytes: Bytes, or `launches.UNKNOWN`.
        start_ns: Start.
        end_ns: End.
        duration_ns: Time of the copy; of a staged one, of both halves.
        process: The process that launched it, or `launches.UNKNOWN`.
        correlation: The call that launched it, or `launches.UNKNOWN`.
        is_managed: 1 for a migration of managed memory.
    """

    src: Numbers
    dst: Numbers
    bytes: Int64s
    start_ns: Int64s
    end_ns: Int64s
    duration_ns: Int64s
    process: Numbers
    correlation: Numbers
    is_managed: Numbers

    def __len__(self) -> int:
        """How many there are."""
        return len(self.src)

    def take(self, chosen: npt.NDArray[Any]) -> "Moves":
        """Some of them, in the order of the indices."""
        return Moves(*(column[chosen] for column in vars(self).values()))

    def parts(self, profile: Profile) -> tuple[Int64s, list[str]]:
        """The part of the program that launched each, as `nvtx.parts_around` tells it."""
        return parts_around(profile.unrestricted, self.process, self.correlation)

    def origins(self, profile: Profile) -> tuple[Int64s, list[str]]:
        """What launched each, perhaps an operation, as `nvtx.origins` tells it."""
        return origins(profile.unrestricted, self.process, self.correlation)


def moves(profile: Profile) -> Moves:
    """Every transfer whose two ends are known and differ."""
    return profile.once(_moves)


def _moves(profile: Profile) -> Moves:
    rows = transfer_rows(profile)
    chosen = np.flatnonzero((rows.src != rows.dst) & (rows.src != UNKNOWN) & (rows.dst != UNKNOWN))
    start, end = rows.start_ns[chosen], rows.end_ns[chosen]
    if not ((start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))).all():
        chosen = chosen[np.lexsort((end, start))]
    return Moves(
        rows.src[chosen],
        rows.dst[chosen],
        rows.bytes[chosen],
        rows.start_ns[chosen],
        rows.end_ns[chosen],
        rows.duration_ns[chosen],
        rows.process[chosen],
        rows.correlation[chosen],
        (rows.path[chosen] == UVM).astype(np.int8),
    )


def followers(some: Moves) -> tuple[Int64s, Int64s]:
    """Indices of each transfer and of the next one between the same two memories."""
    low, high = np.minimum(some.src, some.dst), np.maximum(some.src, some.dst)
    pairs = [(rows[:-1], rows[1:]) for rows in groups(low, high)]
    first, second = zip(*pairs, strict=True) if pairs else ((), ())
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *first]), np.concatenate([nothing, *second])


def works_between(profile: Profile, there: Moves, back: Moves) -> npt.NDArray[np.bool_]:
    """Whether a kernel runs where each copy went until the one that comes back starts."""
    works = np.zeros(len(there), bool)
    for device in np.unique(there.dst).tolist():
        here = np.flatnonzero(there.dst == device)
        timeline = timeline_of(profile.unrestricted, device)
        works[here] = timeline.kernel_ns(there.end_ns[here], back.start_ns[here]) > 0
    return works
