"""Where copies go: routes between memories, and when the copies of each ran."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.copy_rows import copy_rows, copy_words
from gpuprof.facts.groups import Numbers, groups
from gpuprof.facts.transfer_rows import PATHS, paths
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST, UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile

COPY_READS: Final = reads(
    memcpys="memcpy_kind src_memory_kind dst_memory_kind path src_device_id dst_device_id start_ns"
    " end_ns bytes device_id process_id correlation_id"
)


class Route(NamedTuple):
    """From which memory to which, and how: device ids, `HOST`, or None where unknown."""

    src: int | None
    dst: int | None
    path: str


class Times(NamedTuple):
    """When copies ran, and on which device each; a staged copy is two, one on each end."""

    start_ns: Int64s
    end_ns: Int64s
    device_id: Numbers


def transfer_times(profile: Profile) -> Mapping[Route, Times]:
    """When the transfers of every route ran, in the order of the file."""
    return profile.once(_transfer_times)


def _transfer_times(profile: Profile) -> Mapping[Route, Times]:
    copies = copy_rows(profile)
    copies = copies.take(copies.is_transfer == 1)
    path = paths(copies, copy_words(profile))
    times: dict[Route, Times] = {}
    for rows in groups(copies.src, copies.dst, path):
        src, dst, way = (int(column[rows[0]]) for column in (copies.src, copies.dst, path))
        columns = (copies.start_ns, copies.end_ns, copies.device)
        of_route = Times._make(column[rows] for column in columns)
        times[Route(known_end(src), known_end(dst), PATHS[way])] = of_route
    return times


def too_fast(profile: Profile) -> Int64s:
    """The places of the copies that no memory is fast enough for, in the order of the file.

    A memset has no such limit: it may write one value into compressed memory.
    """
    copies = copy_rows(profile.unrestricted)
    # Nothing moves 100 TB/s; times are good to 10 us in the formats that round most.
    most_bytes = (copies.duration_ns.astype(float) + 10_000) * 100_000
    return np.flatnonzero(copies.bytes > most_bytes)


def known_end(end: int) -> int | None:
    """A device or `HOST`; None for `UNKNOWN`."""
    return None if end == UNKNOWN else end


def end_number(name: str) -> int | None:
    """The end that `end_name` calls so."""
    if name == "unknown":
        return None
    return HOST if name == "host" else int(name.removeprefix("device "))


def end_name(end: int | None) -> str:
    """An end of a copy for people: ``host``, ``device 1`` or ``unknown``."""
    return "unknown" if end is None else "host" if end == HOST else f"device {end}"
