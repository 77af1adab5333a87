"""The copies of a recording as one table of columns: each row of ``memcpys``, and each transfer.

A copy that was staged through the host is two rows of ``memcpys``, and one transfer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.cuda import HOST_MEMCPY_KINDS, PEER_MEMCPY_KINDS
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.durations import total
from gpuprof.facts.numbers import Numbers, columns_of, first_of, groups, pieces
from gpuprof.model.analysis import reads
from gpuprof.model.derived import (
    DEVICE_COPY_KINDS,
    FROM_HOST_KINDS,
    HOST,
    TO_HOST_KINDS,
    UNKNOWN,
    if_known,
    movement,
)
from gpuprof.model.intervals import Int64s, Intervals, union
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.words import Words, narrowed

COPY_READS: Final = reads(
    memcpys="memcpy_kind src_memory_kind dst_memory_kind path src_device_id dst_device_id start_ns"
    " end_ns bytes device_id process_id correlation_id"
)
# How a copy went, by the numbers of `Copies.path`.
PATHS: Final = ("direct", "staged", "uvm")
DIRECT, STAGED, UVM = range(len(PATHS))
DIRECTIONS: Final = ("host to device", "device to host", "device to device")

_WORDS: Final = ("memcpy_kind", "src_memory_kind", "dst_memory_kind")
_RECORDED: Final = (
    "start_ns", "end_ns", "process_id", "correlation_id",
    "device_id", "src_device_id", "dst_device_id", "bytes",
)  # fmt: skip
# What readers call a number that no table of the tool names.
_NO_WORD: Final = "unknown"
# Of what staged copies are made, the first of all words whether or not there are any.
_STAGED_WORDS: Final = ("PtoP", "device", "device")


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies, one element each; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start; of a staged transfer that of its first half.
        end_ns: End; of a staged transfer that of its second half.
        duration_ns: Time that it takes; of a staged transfer both halves together.
        process: The process that launched it.
        correlation: The id of the call that launched it.
        device: The device that it ran on; of a staged transfer one of both.
        src_device: Device at the source, as recorded.
        dst_device: Device at the destination, as recorded.
        src: Device at the source, or `HOST`.
        dst: Device at the destination, or `HOST`.
        bytes: Bytes, of a staged copy in each half.
        is_transfer: 1 for a copy between the memories of two devices, the host being one.
        is_counted: 0 for the second half of a staged copy, and for a staged transfer of which a
            window holds that half alone: the window before counts the copy and its bytes.
        is_peer: 1 for a copy between two devices.
        is_staged: 1 for a peer copy through the host, or half of one.
        kind: Number of the kind of copy.
        src_memory: Number of the kind of memory at the source.
        dst_memory: Number of the kind of memory at the destination.
        kinds: What these numbers mean; null where nothing was recorded.
        src_memories: The same of the memory at the source.
        dst_memories: The same of the memory at the destination.
    """

    start_ns: Int64s
    end_ns: Int64s
    duration_ns: Int64s
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
    kinds: tuple[str | None, ...]
    src_memories: tuple[str | None, ...]
    dst_memories: tuple[str | None, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    @property
    def moved_bytes(self) -> Int64s:
        """Bytes, 0 where unknown and for a staged copy's second half."""
        return np.where((self.bytes == UNKNOWN) | (self.is_counted == 0), 0, self.bytes)

    @property
    def path(self) -> Numbers:
        """Number of how each went, see `PATHS`."""
        of_kind = [UVM if (kind or "").startswith("UVM") else DIRECT for kind in self.kinds]
        path = np.array(of_kind, np.int8).take(self.kind)
        return np.where(self.is_staged == 1, np.int8(STAGED), path)

    @property
    def direction(self) -> Numbers:
        """Number of the direction of each, see `DIRECTIONS`."""
        from_host: Numbers = np.where(self.src == HOST, np.int8(0), np.int8(2))
        return np.where((self.src != HOST) & (self.dst == HOST), np.int8(1), from_host)

    @property
    def ends(self) -> tuple[Numbers, Numbers]:
        """Source and destination; of half of a staged copy its own device."""
        src, dst = (np.where(self.is_staged, self.device, end) for end in (self.src, self.dst))
        return src, dst

    def movements(self, of: Callable[[str], int]) -> Numbers:
        """The number of the movement of each, see `model.derived.movement`."""
        numbers = [
            of(movement(kind or _NO_WORD, is_staged=is_staged, is_peer=is_peer))
            for kind in self.kinds
            for is_staged in (False, True)
            for is_peer in (False, True)
        ]
        of_kinds = np.array(numbers, np.int8).reshape(-1, 2, 2)
        return of_kinds[self.kind, self.is_staged, self.is_peer]

    def by_device(self) -> Iterator["Copies"]:
        """The rows of ``memcpys`` in pieces, ``device`` being each on which a copy takes time.

        A copy between two devices is there for each; see ``copies_by_device`` in
        `gpuprof.facts.derived_tables`.
        """
        for part in map(self.take, pieces(len(self))):
            src, dst, is_whole = part.src_device, part.dst_device, part.is_staged == 0
            end = np.where(src == UNKNOWN, dst, src)
            device = np.where((part.device == UNKNOWN) & is_whole, end, part.device)
            yield replace(part, device=device)
            is_src = is_whole & (src != UNKNOWN) & (src != device)
            is_dst = is_whole & (dst != UNKNOWN) & (dst != device) & (dst != src)
            yield replace(part, device=src).take(is_src)
            yield replace(part, device=dst).take(is_dst)

    def take(self, chosen: slice | npt.NDArray[Any]) -> "Copies":
        """Some of them, in the order of the indices, or for which a flag is set."""
        if isinstance(chosen, slice):
            columns = {name: getattr(self, name) for name in self.__dataclass_fields__}
            some = {n: c[chosen] for n, c in columns.items() if isinstance(c, np.ndarray)}
            return Copies(**columns | some)
        if chosen.dtype == np.bool_:
            # To look for flags anew for each of the columns takes ten times as long.
            chosen = np.flatnonzero(chosen)
            if len(chosen) == len(self):
                return self  # mostly every copy is a transfer: many take the same arrays
        taken, (of, rows) = object.__new__(Copies), vars(self).get("_taken", (self, None))
        vars(taken)["_taken"] = of, chosen if rows is None else rows.take(chosen)
        return taken

    def __getattr__(self, name: str) -> Any:
        """A column of copies that were taken of others: who takes copies asks for few columns."""
        if name not in Copies.__dataclass_fields__:
            raise AttributeError(name)
        of, rows = vars(self)["_taken"]
        column = getattr(of, name)
        vars(self)[name] = column.take(rows) if isinstance(column, np.ndarray) else column
        return vars(self)[name]


class Route(NamedTuple):
    """From which memory to which, and how: device ids, `HOST`, or None where unknown."""

    src: int | None
    dst: int | None
    path: str


@once_per_profile
def copy_rows(profile: Profile) -> Copies:
    """All rows of ``memcpys``, in the order of the file."""
    part, is_recorded = profile.selection, profile.has("memcpys")
    if is_recorded and part.windows is not None and part.device_id is None:
        rows = copy_rows(profile.unrestricted)
        return rows.take(part.holds(rows.start_ns))
    words = [Words([first]) for first in _STAGED_WORDS]
    # `Copies` has three columns of words beside those of numbers.
    numbers = len(Copies.__dataclass_fields__) - len(words)
    most = profile.loaded("memcpys").rows_known() if is_recorded else 0
    columns = columns_of(_with_facts(profile, words) if is_recorded else (), numbers, most)
    return Copies(*columns, *(of.words for of in words))


@once_per_profile
def transfer_rows(profile: Profile) -> Copies:
    """All transfers, the staged ones first and the others in the order of the file.

    The k-th half to the host and the k-th half from the host of one launch are one staged copy.
    """
    copies = copy_rows(profile)
    is_half = copies.is_staged == 1
    direct = copies.take((copies.is_transfer == 1) & ~is_half)
    if not is_half.any():
        return direct
    halves = copies.take(is_half)
    keys = halves.process, halves.correlation
    ordered = np.lexsort([halves.start_ns, halves.is_counted, *reversed(keys)])
    first = first_of(ordered, *keys, halves.is_counted)
    nth = np.empty(len(ordered), np.int64)
    nth[ordered] = np.arange(len(ordered)) - np.repeat(first, np.diff(first, append=len(ordered)))
    ordered = np.lexsort([nth, *reversed(keys)])
    first = first_of(ordered, *keys, nth)
    joined: dict[str, Any] = {
        name: function.reduceat(getattr(halves, name)[ordered], first)
        for function, names in {
            np.minimum: ("start_ns",),
            np.add: ("duration_ns",),
            # Of both ends, the one that is known.
            np.maximum: ("end_ns", "src", "dst", "bytes", "is_counted"),
        }.items()
        for name in names
    }
    # The first of all words are those of staged copies.
    joined |= dict.fromkeys(("kind", "src_memory", "dst_memory"), np.zeros(len(first), np.int8))
    staged = replace(halves.take(ordered[first]), **joined)
    columns: dict[str, Any] = {
        name: np.concatenate([column, getattr(direct, name)])
        for name, column in vars(staged).items()
        if isinstance(column, np.ndarray)
    }
    return replace(direct, **columns)


@once_per_profile
def transfers_by_route(profile: Profile) -> Mapping[Route, Int64s]:
    """Which of `copy_rows` are transfers, by route, in the order of the file."""
    copies = copy_rows(profile)
    transfers, path = np.flatnonzero(copies.is_transfer == 1), copies.path
    routes: dict[Route, Int64s] = {}
    for alike in groups(*(column[transfers] for column in (copies.src, copies.dst, path))):
        rows = transfers[alike]
        src, dst = (if_known(int(end[rows[0]])) for end in (copies.src, copies.dst))
        routes[Route(src, dst, PATHS[path[rows[0]]])] = rows
    return routes


@once_per_profile
def transfer_times(profile: Profile) -> Mapping[tuple[Route, int | None], Intervals]:
    """When the transfers of each route run, by each of its ends."""
    copies = copy_rows(profile)
    times: dict[tuple[Route, int | None], Intervals] = {}
    for route, rows in transfers_by_route(profile).items():
        if route.path == PATHS[STAGED]:  # a half runs on one device only
            for end in (route.src, route.dst):
                here = rows[copies.device[rows] == end]
                times[route, end] = union(copies.start_ns[here], copies.end_ns[here])
        else:
            running = union(copies.start_ns[rows], copies.end_ns[rows])
            times |= {(route, end): running for end in (route.src, route.dst)}
    return times


def sums_of(copies: Copies, chosen: Int64s) -> dict[str, Any]:
    """What some of the copies add up to: a staged copy's second half is no call, nor more bytes.

    Returns:
        ``calls``, ``total_ns``, ``bytes`` (None where unknown of one) and ``bytes_per_s`` (None
        where bytes are unknown or no time passed).
    """
    is_counted, size = copies.is_counted[chosen], copies.bytes[chosen]
    total_ns = total(copies.duration_ns[chosen])
    is_known = not (size == UNKNOWN).any()
    bytes_sum = total(np.where(is_counted == 0, 0, size)) if is_known else None
    rate = bytes_sum * float(NS_PER_S) / total_ns if bytes_sum is not None and total_ns else None
    return {
        "calls": int(np.count_nonzero(is_counted)),
        "total_ns": total_ns,
        "bytes": bytes_sum,
        "bytes_per_s": rate,
    }


@once_per_recording
def too_fast(profile: Profile) -> Int64s:
    """The places of the copies that no memory is fast enough for, in the order of the file.

    A memset has no such limit: it may write one value into compressed memory.
    """
    copies = copy_rows(profile)
    # Nothing moves 100 TB/s; times are good to 10 us in the formats that round most.
    most_bytes = (copies.duration_ns.astype(float) + 10_000) * 100_000
    return np.flatnonzero(copies.bytes > most_bytes)


def end_name(end: int | None) -> str:
    """An end of a copy for people: ``host``, ``device 1`` or ``unknown``."""
    return "unknown" if end is None else "host" if end == HOST else f"device {end}"


def among(
    numbers: Numbers, words: Sequence[str | None], some: AbstractSet[str]
) -> npt.NDArray[np.bool_]:
    """Whether the word of each number is one of some."""
    is_one: npt.NDArray[np.bool_] = np.array([word in some for word in words]).take(numbers)
    return is_one


def _with_facts(profile: Profile, words: Sequence[Words]) -> Iterator[Sequence[Any]]:
    """The numbers of `Copies`, with what is derived of them, in pieces."""
    paths = Words([None, PATHS[STAGED]])
    texts = dict(zip((*_WORDS, "path"), (*words, paths), strict=True))
    for part in profile.columns("memcpys", *_RECORDED, *texts, texts=texts):
        start, end, process, correlation, *devices, size, kind, src_memory, dst_memory, path = part
        device, src, dst = (values.astype(np.int16) for values in devices)
        is_staged = path == 1
        to_host, from_host, is_direct_peer, on_devices, is_of_host, is_in = (
            among(kind, words[0].words, some)
            for some in (
                TO_HOST_KINDS, FROM_HOST_KINDS, PEER_MEMCPY_KINDS, DEVICE_COPY_KINDS,
                HOST_MEMCPY_KINDS, {"HtoD"},
            )
        )  # fmt: skip
        to_host, from_host = to_host & ~is_staged, from_host & ~is_staged
        crosses = (src != dst) & (src != UNKNOWN) & (dst != UNKNOWN)
        is_peer = is_staged | is_direct_peer | (on_devices & crosses)
        flags = is_peer | is_of_host, ~(is_staged & is_in), is_peer, is_staged
        read = np.where(to_host & (src == UNKNOWN), device, src)
        written = np.where(from_host & (dst == UNKNOWN), device, dst)
        yield (
            *(start, end, end - start, narrowed(process), narrowed(correlation), device, src, dst),
            np.where(from_host, np.int16(HOST), read),
            np.where(to_host, np.int16(HOST), written),
            size.astype(np.int64, copy=False),
            *(flag.astype(np.int8) for flag in flags),
            *map(narrowed, (kind, src_memory, dst_memory)),
        )
