"""The transfers of ``copies`` as arrays, each staged copy one of them, and what they add up to."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copy_rows import (
    STAGED_KIND,
    STAGED_MEMORY,
    CopyRows,
    CopyWords,
    copy_rows,
    copy_words,
)
from gpuprof.facts.durations import total
from gpuprof.facts.groups import Numbers, first_of
from gpuprof.model.derived import HOST, UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile

# How a copy went, by the numbers of the column ``path``.
PATHS: Final = ("direct", "staged", "uvm")
DIRECT, STAGED, UVM = range(len(PATHS))
DIRECTIONS: Final = ("host to device", "device to host", "device to device")
_MIGRATED: Final = "UVM"


class TransferRows(NamedTuple):
    """Rows of ``copies``, one element each; what is unknown is `UNKNOWN`.

    Args:
        kind: Number of the kind of copy, see `copy_rows.CopyWords`.
        src_memory: Number of the kind of memory at the source.
        dst_memory: Number of the kind of memory at the destination.
        path: Number of how it went, see `PATHS`.
        src: Device whose memory is read, or `HOST`.
        dst: Device whose memory is written, or `HOST`.
        start_ns: Start, of a staged copy that of its first half.
        end_ns: End, of a staged copy that of its second half.
        duration_ns: Time of the copy, of a staged one that of both halves.
        bytes: Bytes.
        device: Device that it ran on, of a staged copy one of both.
        process: The process that launched it.
        correlation: The id of the call that launched it.
        is_counted: 0 where a window holds the second half of a staged copy alone.
    """

    kind: Numbers
    src_memory: Numbers
    dst_memory: Numbers
    path: Numbers
    src: Numbers
    dst: Numbers
    start_ns: Int64s
    end_ns: Int64s
    duration_ns: Int64s
    bytes: Int64s
    device: Numbers
    process: Numbers
    correlation: Numbers
    is_counted: Numbers

    @property
    def direction(self) -> Numbers:
        """Number of the direction of each, see `DIRECTIONS`."""
        from_host: Numbers = np.where(self.src == HOST, np.int8(0), np.int8(2))
        return np.where((self.src != HOST) & (self.dst == HOST), np.int8(1), from_host)


class Sums(NamedTuple):
    """What some copies add up to.

    Args:
        calls: How often; a staged copy counts once.
        total_ns: Sum of durations.
        bytes: Bytes; None where unknown of one.
        bytes_per_s: All bytes over all time; None where bytes are unknown or no time passed.
    """

    calls: int
    total_ns: int
    bytes: int | None
    bytes_per_s: float | None


def transfer_rows(profile: Profile) -> TransferRows:
    """All transfers, those that are not staged in the order of the file."""
    return profile.once(_transfer_rows)


def paths(copies: CopyRows, words: CopyWords) -> Numbers:
    """How copies went, as numbers of `PATHS`."""
    is_migration = ((kind or "").startswith(_MIGRATED) for kind in words.kind)
    path = np.array([UVM if is_uvm else DIRECT for is_uvm in is_migration], np.int8)
    return np.where(copies.is_staged == 1, np.int8(STAGED), path[copies.kind])


def sums_of(copies: CopyRows | TransferRows, chosen: Int64s) -> Sums:
    """What some of the copies add up to: a staged copy's second half is no call, nor more bytes."""
    is_counted, size = copies.is_counted[chosen], copies.bytes[chosen]
    total_ns = total(copies.duration_ns[chosen])
    is_known = not (size == UNKNOWN).any()
    bytes_sum = total(np.where(is_counted == 0, 0, size)) if is_known else None
    rate = bytes_sum * float(NS_PER_S) / total_ns if bytes_sum is not None and total_ns else None
    return Sums(int(np.count_nonzero(is_counted)), total_ns, bytes_sum, rate)


def _transfer_rows(profile: Profile) -> TransferRows:
    copies, words = copy_rows(profile), copy_words(profile)
    is_half = copies.is_staged == 1
    direct = _direct(copies.take((copies.is_transfer == 1) & ~is_half), words)
    if not is_half.any():
        return direct
    staged = _joined(copies.take(is_half), words)
    return TransferRows._make(map(np.concatenate, zip(staged, direct, strict=True)))


def _direct(copies: CopyRows, words: CopyWords) -> TransferRows:
    return TransferRows(
        copies.kind,
        copies.src_memory,
        copies.dst_memory,
        paths(copies, words),
        copies.src,
        copies.dst,
        copies.start_ns,
        copies.end_ns,
        copies.duration_ns,
        copies.bytes,
        copies.device,
        copies.process,
        copies.correlation,
        np.ones(len(copies.start_ns), np.int8),
    )


def _joined(halves: CopyRows, words: CopyWords) -> TransferRows:
    """Staged copies: the k-th half to the host and the k-th half from the host of one launch."""
    keys = halves.process, halves.correlation
    ordered = np.lexsort([halves.start_ns, halves.is_counted, *reversed(keys)])
    first = first_of(ordered, *keys, halves.is_counted)
    nth = np.empty(len(ordered), np.int64)
    nth[ordered] = np.arange(len(ordered)) - np.repeat(first, np.diff(first, append=len(ordered)))
    ordered = np.lexsort([nth, *reversed(keys)])
    first = first_of(ordered, *keys, nth)

    def of(column: npt.NDArray[Any], function: np.ufunc) -> npt.NDArray[Any]:
        reduced: npt.NDArray[Any] = function.reduceat(column[ordered], first)
        return reduced

    def number(word: str, of_words: Sequence[str | None]) -> Numbers:
        return np.full(len(first), of_words.index(word), np.int8)

    return TransferRows(
        number(STAGED_KIND, words.kind),
        number(STAGED_MEMORY, words.src_memory),
        number(STAGED_MEMORY, words.dst_memory),
        np.full(len(first), STAGED, np.int8),
        of(halves.src, np.maximum),  # the one that is known
        of(halves.dst, np.maximum),
        of(halves.start_ns, np.minimum),
        of(halves.end_ns, np.maximum),
        of(halves.duration_ns, np.add),
        of(halves.bytes, np.maximum),
        halves.device[ordered[first]],
        halves.process[ordered[first]],
        halves.correlation[ordered[first]],
        of(halves.is_counted, np.maximum),
    )
