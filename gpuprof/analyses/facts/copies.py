"""Where copies go: routes between memories, and when the copies of each ran."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.facts import HOST, UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

COPY_READS: Final = reads(
    memcpys="memcpy_kind src_memory_kind dst_memory_kind path src_device_id dst_device_id start_ns"
    " end_ns bytes device_id process_id correlation_id"
)

COUNTED_CALLS: Final = "count(*) FILTER (is_counted)"
COUNTED_BYTES: Final = "(CASE WHEN is_counted THEN bytes ELSE 0 END)"

_PATHS: Final = ("direct", "staged", "uvm")
_TIMES: Final = f"""
    SELECT coalesce(src, {UNKNOWN}) AS src, coalesce(dst, {UNKNOWN}) AS dst,
        list_position({list(_PATHS)}, route) - 1 AS path, start_ns, end_ns,
        coalesce(device_id, {UNKNOWN}) AS device
    FROM memcpys WHERE is_transfer"""


class Route(NamedTuple):
    """From which memory to which, and how: device ids, `HOST`, or None where unknown."""

    src: int | None
    dst: int | None
    path: str


class Times(NamedTuple):
    """When copies ran, and on which device each; a staged copy is two, one on each end."""

    start_ns: Int64s
    end_ns: Int64s
    device_id: Int64s


def transfer_times(profile: Profile) -> Mapping[Route, Times]:
    """When the transfers of every route ran, in the order of the file."""
    return profile.once(_transfer_times)


def _transfer_times(profile: Profile) -> Mapping[Route, Times]:
    pieces: dict[Route, list[Times]] = defaultdict(list)
    for part in profile.arrays(_TIMES):
        src, dst, path, *times = (column.astype(np.int64) for column in part)
        # One number for each route: of single numbers the different ones are found faster.
        sources, destinations = np.unique(src), np.unique(dst)
        number = np.searchsorted(sources, src) * len(destinations)
        number = (number + np.searchsorted(destinations, dst)) * len(_PATHS) + path
        for route_number in np.unique(number).tolist():
            ends, way = divmod(route_number, len(_PATHS))
            first, last = divmod(ends, len(destinations))
            route = Route(
                known_end(int(sources[first])), known_end(int(destinations[last])), _PATHS[way]
            )
            pieces[route].append(Times(*(column[number == route_number] for column in times)))
    return {
        route: Times(*(np.concatenate(column) for column in zip(*of_route, strict=True)))
        for route, of_route in pieces.items()
    }


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
