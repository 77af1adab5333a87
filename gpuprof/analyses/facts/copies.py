"""Where copies go: the two ends of each as SQL over `memcpys`, and staged halves as one copy."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.movement import IS_STAGED, IS_TRANSFER
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

COPY_READS: Final = reads(
    memcpys="memcpy_kind src_memory_kind dst_memory_kind path src_device_id dst_device_id start_ns"
    " end_ns bytes device_id process_id correlation_id"
)

# Stands for the host where a device id is expected; null means that the end is unknown.
HOST: Final = -1

_FROM_HOST: Final = "memcpy_kind IN ('HtoD', 'HtoA', 'UVM_HtoD')"
_TO_HOST: Final = "memcpy_kind IN ('DtoH', 'AtoH', 'UVM_DtoH')"
# A peer copy runs on its source when pushed and on its destination when pulled, so that
# only the recorded ends tell; of all other copies, the device they run on is the one end.
SRC: Final = (
    f"CASE WHEN {IS_STAGED} THEN src_device_id WHEN {_FROM_HOST} THEN {HOST}"
    f" WHEN {_TO_HOST} THEN coalesce(src_device_id, device_id) ELSE src_device_id END"
)
DST: Final = (
    f"CASE WHEN {IS_STAGED} THEN dst_device_id WHEN {_TO_HOST} THEN {HOST}"
    f" WHEN {_FROM_HOST} THEN coalesce(dst_device_id, device_id) ELSE dst_device_id END"
)
PATH: Final = (
    f"CASE WHEN {IS_STAGED} THEN 'staged' WHEN starts_with(memcpy_kind, 'UVM') THEN 'uvm'"
    " ELSE 'direct' END"
)

# One row per transfer: the k-th half to the host and the k-th half from the host of one
# launch are one copy, which takes the time of both. Where a window holds the second half alone,
# the window before counts the copy and its bytes: COUNTED_BYTES are then 0.
EACH_TRANSFER: Final = f"""(
    SELECT any_value(memcpy_kind) AS memcpy_kind, any_value(src_memory_kind) AS src_memory_kind,
        any_value(dst_memory_kind) AS dst_memory_kind, any_value(path) AS path,
        any_value(src) AS src, any_value(dst) AS dst, min(start_ns) AS start_ns,
        max(end_ns) AS end_ns, CAST(sum(duration_ns) AS BIGINT) AS duration_ns,
        max(bytes) AS bytes, any_value(device_id) AS device_id,
        any_value(process_id) AS process_id, any_value(correlation_id) AS correlation_id,
        bool_or(to_host) AS is_counted
    FROM (
        SELECT memcpy_kind, src_memory_kind, dst_memory_kind, path, src, dst, start_ns, end_ns,
            duration_ns, bytes, device_id, process_id, correlation_id, to_host, row_number() OVER (
            PARTITION BY process_id, correlation_id, to_host ORDER BY start_ns) AS nth
        FROM (
            SELECT 'PtoP' AS memcpy_kind, 'device' AS src_memory_kind,
                'device' AS dst_memory_kind, 'staged' AS path, {SRC} AS src, {DST} AS dst,
                start_ns, end_ns, end_ns - start_ns AS duration_ns, bytes, device_id,
                process_id, correlation_id, memcpy_kind = 'DtoH' AS to_host
            FROM memcpys WHERE {IS_STAGED}
        )
    )
    GROUP BY process_id, correlation_id, nth
    UNION ALL
    SELECT memcpy_kind, src_memory_kind, dst_memory_kind, {PATH} AS path, {SRC} AS src,
        {DST} AS dst, start_ns, end_ns, end_ns - start_ns AS duration_ns, bytes, device_id,
        process_id, correlation_id, true AS is_counted
    FROM memcpys WHERE {IS_TRANSFER} AND NOT {IS_STAGED}
)"""
COUNTED_CALLS: Final = "count(*) FILTER (is_counted)"
COUNTED_BYTES: Final = "(CASE WHEN is_counted THEN bytes ELSE 0 END)"

# Stands for an unknown device where a number is needed.
UNKNOWN: Final = -2
_PATHS: Final = ("direct", "staged", "uvm")
_TIMES: Final = f"""
    SELECT coalesce({SRC}, {UNKNOWN}) AS src, coalesce({DST}, {UNKNOWN}) AS dst,
        list_position({list(_PATHS)}, {PATH}) - 1 AS path, start_ns, end_ns,
        coalesce(device_id, {UNKNOWN}) AS device
    FROM memcpys WHERE {IS_TRANSFER}"""


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
    for batch in profile.batches(_TIMES):
        columns = np.stack([np.from_dlpack(batch.column(i)).astype(np.int64) for i in range(6)])
        routes, member = np.unique(columns[:3], axis=1, return_inverse=True)
        for index, (src, dst, path) in enumerate(routes.T.tolist()):
            route = Route(known_end(src), known_end(dst), _PATHS[path])
            pieces[route].append(Times(*columns[3:, member == index]))
    return {
        route: Times(*(np.concatenate(column) for column in zip(*found, strict=True)))
        for route, found in pieces.items()
    }


def known_end(end: int) -> int | None:
    """A device or `HOST`; None for `UNKNOWN`."""
    return None if end == UNKNOWN else end


def end_name(end: int | None) -> str:
    """An end of a copy for people: ``host``, ``device 1`` or ``unknown``."""
    return "unknown" if end is None else "host" if end == HOST else f"device {end}"
