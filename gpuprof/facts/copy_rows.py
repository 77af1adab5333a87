"""The rows of ``memcpys`` as arrays: each copy, and each half of a staged one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import HOST_MEMCPY_KINDS, PEER_MEMCPY_KINDS
from gpuprof.facts.calls import pieces
from gpuprof.facts.groups import Numbers
from gpuprof.facts.growing import columns_of
from gpuprof.model.derived import (
    DEVICE_COPY_KINDS,
    FROM_HOST_KINDS,
    HOST,
    TO_HOST_KINDS,
    UNKNOWN,
    movement,
)
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.table import within
from gpuprof.model.words import Words
from gpuprof.readers.common.compact_columns import narrowed

_WORDS: Final = ("memcpy_kind", "src_memory_kind", "dst_memory_kind")
_RECORDED: Final = (
    "start_ns", "end_ns", "process_id", "correlation_id",
    "device_id", "src_device_id", "dst_device_id", "bytes",
)  # fmt: skip
# What readers call a number that no table of the tool names.
_NO_WORD: Final = "unknown"
# Of what staged copies are made, whether or not there are any.
STAGED_KIND: Final = "PtoP"
STAGED_MEMORY: Final = "device"
STAGED_PATH: Final = "staged"


class CopyWords(NamedTuple):
    """What the numbers of `CopyRows` mean, by these numbers; null where nothing was recorded.

    Args:
        kind: Kinds of copies.
        src_memory: Kinds of memory at the source.
        dst_memory: Kinds of memory at the destination.
    """

    kind: tuple[str | None, ...]
    src_memory: tuple[str | None, ...]
    dst_memory: tuple[str | None, ...]


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
        bytes: Bytes, of a staged copy in each half.
        is_transfer: 1 for a copy between the memories of two devices, the host being one.
        is_counted: 0 for the second half of a staged copy.
        is_peer: 1 for a copy between two devices.
        is_staged: 1 for half of a peer copy through the host.
        kind: Number of the kind of copy, see `CopyWords`.
        src_memory: Number of the kind of memory at the source.
        dst_memory: Number of the kind of memory at the destination.
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
    kind: Numbers
    src_memory: Numbers
    dst_memory: Numbers

    @property
    def duration_ns(self) -> Int64s:
        """Time of each."""
        return self.end_ns - self.start_ns

    @property
    def moved_bytes(self) -> Int64s:
        """Bytes, 0 where unknown and for a staged copy's second half."""
        moved: Int64s = np.where((self.bytes == UNKNOWN) | (self.is_counted == 0), 0, self.bytes)
        return moved

    def by_device(self) -> Iterator["CopyRows"]:
        """The rows in pieces, ``device`` being each on which a copy takes time.

        A copy between two devices is there for each; see ``copies_by_device`` in
        `gpuprof.model.derived`.
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
    return profile.once(_read)[0]


def copy_words(profile: Profile) -> CopyWords:
    """What the numbers in `copy_rows` mean."""
    return profile.once(_read)[1]


def movements(copies: CopyRows, kinds: Sequence[str | None], of: Callable[[str], int]) -> Numbers:
    """The number of the movement of each copy, see `facts.movement`.

    Args:
        copies: The copies.
        kinds: Their kinds by number, see `CopyWords`.
        of: The number of a movement.
    """
    numbers = [
        of(movement(kind or _NO_WORD, is_staged=is_staged, is_peer=is_peer))
        for kind in kinds
        for is_staged in (False, True)
        for is_peer in (False, True)
    ]
    of_kinds = np.array(numbers, np.int8).reshape(-1, 2, 2)
    return of_kinds[copies.kind, copies.is_staged, copies.is_peer]


def _read(profile: Profile) -> tuple[CopyRows, CopyWords]:
    if not profile.has("memcpys"):
        rows = CopyRows(*np.empty((len(CopyRows._fields), 0), np.int64))
        return rows, CopyWords((STAGED_KIND,), (STAGED_MEMORY,), (STAGED_MEMORY,))
    windows = profile.selection.windows
    if windows is not None and profile.selection.device_id is None:
        rows, words = profile.unrestricted.once(_read)
        return rows.take(within(windows, rows.start_ns)), words
    return _joined(profile)


def _words() -> list[Words]:
    return [Words([first]) for first in (STAGED_KIND, STAGED_MEMORY, STAGED_MEMORY)]


def _joined(profile: Profile) -> tuple[CopyRows, CopyWords]:
    """The rows of the data model, in which halves of staged copies are told."""
    words, paths = _words(), Words([None, STAGED_PATH])
    texts = dict(zip((*_WORDS, "path"), (*words, paths), strict=True))
    rows = []
    for part in profile.stored_columns("memcpys", *_RECORDED, *texts, texts=texts) or ():
        *columns, kind, src, dst, path = (values.filled for values in part)
        is_staged = path == paths.place(STAGED_PATH)
        rows.append(_with_facts(columns, (kind, src, dst), words[0].words, is_staged))
    return _gathered(rows, words)


def _gathered(parts: Iterable[Sequence[Any]], words: Sequence[Words]) -> tuple[CopyRows, CopyWords]:
    return CopyRows(*columns_of(parts, len(CopyRows._fields))), CopyWords(
        *(of.words for of in words)
    )


def among(
    numbers: Numbers, words: Sequence[str | None], some: AbstractSet[str]
) -> npt.NDArray[np.bool_]:
    """Whether the word of each number is one of some."""
    is_one: npt.NDArray[np.bool_] = np.array([word in some for word in words])[numbers]
    return is_one


def _with_facts(
    part: Sequence[Any],
    numbers: Sequence[Numbers],
    kinds: Sequence[str | None],
    is_staged: npt.NDArray[np.bool_],
) -> CopyRows:
    """Some rows with the derived columns of `gpuprof.model.derived`.

    Args:
        part: The columns of `_RECORDED`.
        numbers: The numbers of `_WORDS`.
        kinds: The memcpy kinds by their numbers.
        is_staged: Which are halves of peer copies through the host.
    """
    start, end, process, correlation, *devices, size = part
    device, src, dst = (values.astype(np.int16) for values in devices)

    def is_of(some: AbstractSet[str]) -> npt.NDArray[np.bool_]:
        return among(numbers[0], kinds, some)

    from_host, to_host = is_of(FROM_HOST_KINDS) & ~is_staged, is_of(TO_HOST_KINDS) & ~is_staged
    crosses = (src != dst) & (src != UNKNOWN) & (dst != UNKNOWN)
    is_peer = is_staged | is_of(PEER_MEMCPY_KINDS) | (is_of(DEVICE_COPY_KINDS) & crosses)
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
        size.astype(np.int64, copy=False),
        is_transfer.astype(np.int8),
        (~(is_staged & is_of({"HtoD"}))).astype(np.int8),
        is_peer.astype(np.int8),
        is_staged.astype(np.int8),
        *map(narrowed, numbers),
    )
