"""The rows of ``memcpys`` as arrays: each copy, and each half of a staged one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.facts.calls import pieces
from gpuprof.analyses.facts.groups import Numbers
from gpuprof.analyses.facts.growing import columns_of
from gpuprof.cuda import HOST_MEMCPY_KINDS, PEER_MEMCPY_KINDS
from gpuprof.facts import DEVICE_COPY_KINDS, FROM_HOST_KINDS, HOST, TO_HOST_KINDS, UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile
from gpuprof.readers.common.compact_columns import narrowed

_COLUMNS: Final = (
    "start_ns",
    "end_ns",
    f"coalesce(process_id, {UNKNOWN})",
    f"coalesce(correlation_id, {UNKNOWN})",
    *(f"coalesce({name}, {UNKNOWN})::SMALLINT" for name in (
        "device_id", "src_device_id", "dst_device_id", "src", "dst"
    )),
    "CASE WHEN is_counted THEN coalesce(bytes, 0) ELSE 0 END",
    *(f"{name}::TINYINT" for name in ("is_transfer", "is_counted", "is_peer", "is_staged")),
)  # fmt: skip


_RECORDED: Final = (
    "start_ns", "end_ns", "process_id", "correlation_id",
    "device_id", "src_device_id", "dst_device_id", "bytes",
)  # fmt: skip
_WORDS: Final = ("memcpy_kind", "src_memory_kind", "dst_memory_kind")


class CopyRows(NamedTuple):
    """Rows of ``memcpys``, one element each; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start.
        end_ns: End.
        process: The process that launched it.
        correlation: The id of the call that launched it.
        device: The device that it ran on.
        src_device: Device at the source, as recorded.
        dst_device: Device at the destination, as recorded.
        src: Device at the source, or `facts.HOST`.
        dst: Device at the destination, or `facts.HOST`.
        bytes: Bytes; 0 where unknown, and for a staged copy's second half.
        is_transfer: 1 for a copy between the memories of two devices, the host being one.
        is_counted: 0 for the second half of a staged copy.
        is_peer: 1 for a copy between two devices.
        is_staged: 1 for half of a peer copy through the host.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Numbers
    correlation: Numbers
    device: Numbers
    src_device: Numbers
    dst_device: Numbers
    src: Numbers
    dst: Numbers
    bytes: Int64s
    is_transfer: Numbers
    is_counted: Numbers
    is_peer: Numbers
    is_staged: Numbers

    def by_device(self) -> Iterator["CopyRows"]:
        """The rows in pieces, ``device`` being each on which a copy takes time.

        A copy between two devices is there for each; see ``copies_by_device`` in `gpuprof.facts`.
        """
        for part in map(self.take, pieces(len(self.start_ns))):
            src, dst, is_whole = part.src_device, part.dst_device, part.is_staged == 0
            end = np.where(src == UNKNOWN, dst, src)
            device = np.where((part.device == UNKNOWN) & is_whole, end, part.device)
            yield part._replace(device=device)
            is_src = is_whole & (src != UNKNOWN) & (src != device)
            is_dst = is_whole & (dst != UNKNOWN) & (dst != device) & (dst != src)
            yield part._replace(device=src).take(is_src)
            yield part._replace(device=dst).take(is_dst)

    def take(self, chosen: slice | npt.NDArray[np.bool_]) -> "CopyRows":
        """Some of them."""
        return CopyRows._make(column[chosen] for column in self)


def copy_rows(profile: Profile) -> CopyRows:
    """All rows of ``memcpys``, in the order of the file."""
    return profile.once(_copy_rows)


def _copy_rows(profile: Profile) -> CopyRows:
    if not profile.has("memcpys"):
        return CopyRows(*np.empty((len(_COLUMNS), 0), np.int64))
    return _as_recorded(profile) or _queried(profile)


def _queried(profile: Profile) -> CopyRows:
    parts = profile.arrays(f"SELECT {', '.join(_COLUMNS)} FROM memcpys")
    of_call = CopyRows._fields.index("process"), CopyRows._fields.index("correlation")
    return CopyRows(*columns_of(
        (
            [narrowed(values) if place in of_call else values for place, values in enumerate(part)]
            for part in parts
        ),
        len(_COLUMNS),
    ))  # fmt: skip


def _as_recorded(profile: Profile) -> CopyRows | None:
    """The rows without a query; None where they take one, or one may be half of a staged copy."""
    parts = profile.recorded("memcpys", *_RECORDED, *_WORDS)
    if parts is None:
        return None
    kinds, *memory = (profile.words("memcpys", name) for name in _WORDS)
    rows: list[CopyRows] = []
    for part in parts:
        codes = [values.filled for values in part[len(_RECORDED) :]]
        is_half = _among(codes[0], kinds, {"HtoD", "DtoH"})
        for words, numbers in zip(memory, codes[1:], strict=True):
            is_half &= _among(numbers, words, {"device"})
        if is_half.any():
            return None
        is_of = partial(_among, codes[0], kinds)
        rows.append(_with_facts([values.filled for values in part[: len(_RECORDED)]], is_of))
    return CopyRows(*columns_of(rows, len(_COLUMNS)))


def _among(
    numbers: Numbers, words: Mapping[int, str], some: AbstractSet[str]
) -> npt.NDArray[np.bool_]:
    """Whether the word of each number is one of some."""
    return np.isin(numbers, [number for number, word in words.items() if word in some])


def _with_facts(
    part: Sequence[Any], is_of: Callable[[AbstractSet[str]], npt.NDArray[np.bool_]]
) -> CopyRows:
    """Some rows, none of them staged, with the derived columns of `gpuprof.facts`.

    Args:
        part: The columns of `_RECORDED`.
        is_of: Whether each copy is of one of some memcpy kinds.
    """
    start, end, process, correlation, *devices, size = part
    device, src, dst = (values.astype(np.int16) for values in devices)
    from_host, to_host = is_of(FROM_HOST_KINDS), is_of(TO_HOST_KINDS)
    crosses = (src != dst) & (src != UNKNOWN) & (dst != UNKNOWN)
    is_peer = is_of(PEER_MEMCPY_KINDS) | (is_of(DEVICE_COPY_KINDS) & crosses)
    is_transfer = is_peer | is_of(HOST_MEMCPY_KINDS)
    read = np.where(to_host & (src == UNKNOWN), device, src)
    written = np.where(from_host & (dst == UNKNOWN), device, dst)
    return CopyRows(
        start,
        end,
        narrowed(process),
        narrowed(correlation),
        device,
        src,
        dst,
        np.where(from_host, np.int16(HOST), read),
        np.where(to_host, np.int16(HOST), written),
        np.where(size == UNKNOWN, 0, size).astype(np.int64),
        is_transfer.astype(np.int8),
        np.ones(len(start), np.int8),
        is_peer.astype(np.int8),
        np.zeros(len(start), np.int8),
    )
