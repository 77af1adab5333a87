"""The longest pauses of each device: what ended them, and what the host did meanwhile."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.host_activity import clocks_agree
from gpuprof.analyses.facts.nvtx import RANGE_READS
from gpuprof.analyses.facts.timeline import TIMELINE_READS, DeviceTimeline, timelines
from gpuprof.profile import Profile
from gpuprof.schema import INT, OPERATION, TEXT, Column, Schema, instant_column

_ROWS: Final = 20

GAPS: Final = Schema(
    "gaps",
    "one of the twenty longest pauses in which a device does nothing",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where none was recorded."),
        "start_ns": instant_column("Start of the pause.", required=True),
        "gap_ns": Column(INT, "ns", "Its length.", required=True),
        "ended_by": Column(TEXT, "", "Kernel, kind of copy, or memset that ended it."),
        "launch_ns": instant_column(
            "Start of the API call that launched this; null where unknown."
        ),
        "launch_latency_ns": Column(INT, "ns", "From that call to the end of the pause."),
        "host_call": Column(
            TEXT, "", "API call of that process that took most of the pause; null for none."
        ),
        "host_call_ns": Column(INT, "ns", "How much of it, of all threads together."),
        "host_range": Column(
            TEXT,
            "",
            "Shortest NVTX range, annotation or operation of that process that fills at least half"
            " of the pause; null for none.",
        ),
        "nvtx_range": Column(
            TEXT, "", "Innermost NVTX range around the launching call; null where unknown."
        ),
        "operation": Column(
            TEXT, "", "Outermost operation of a framework around that call; null where unknown."
        ),
    },
)

# What begins when a pause ends; a peer copy may end one on either of its devices, a staged half
# on its own alone.
_ON_DEVICE: Final = "a.start_ns = g.end_ns AND a.device_id IS NOT DISTINCT FROM g.device_id"
_AT_ONE_END: Final = (
    "a.start_ns = g.end_ns AND (a.device_id IS NOT DISTINCT FROM g.device_id"
    " OR (g.device_id IN (a.src_device_id, a.dst_device_id)"
    " AND a.path IS DISTINCT FROM 'staged'))"
)
_ENDERS: Final = {
    "kernels": ("a.name", _ON_DEVICE),
    "memcpys": ("'[CUDA memcpy ' || a.memcpy_kind || ']'", _AT_ONE_END),
    "memsets": ("'[CUDA memset]'", _ON_DEVICE),
}
_LAUNCHED: Final = """
    SELECT e.number, e.end_ns, e.ended_by, e.process_id, c.start_ns AS launch_ns, c.thread_id
    FROM enders e
    LEFT JOIN (
        SELECT process_id, correlation_id, min(start_ns) AS start_ns,
            arg_min(thread_id, start_ns) AS thread_id
        FROM whole.api_calls SEMI JOIN enders USING (correlation_id) GROUP BY ALL) c
        ON c.correlation_id = e.correlation_id AND c.process_id IS NOT DISTINCT FROM e.process_id"""
# Of threads that are in the same call at once, each instant counts once.
_HOST_CALLS: Final = """
    SELECT number, name, CAST(sum(greatest(until_ns - greatest(from_ns, reach_ns), 0)) AS BIGINT)
        AS overlap_ns
    FROM (
        SELECT number, name, from_ns, until_ns, max(until_ns) OVER (
            PARTITION BY number, name ORDER BY from_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach_ns
        FROM (
            SELECT number, name, greatest(c.start_ns, e.start_ns) AS from_ns,
                least(c.end_ns, e.end_ns) AS until_ns
            FROM whole.api_calls c JOIN enders e ON c.start_ns < e.end_ns
                AND c.end_ns > e.start_ns AND c.end_ns > c.start_ns
                AND c.process_id IS NOT DISTINCT FROM e.process_id))
    GROUP BY number, name"""
_RANGES: Final = f"""
    SELECT number,
        arg_max(r.text, (r.start_ns, -r.end_ns)) FILTER (NOT is_operation) AS text,
        arg_min(r.text, (r.start_ns, -r.end_ns)) FILTER (is_operation) AS operation
    FROM (SELECT start_ns, end_ns, text, process_id, thread_id,
                range_kind IS NOT DISTINCT FROM '{OPERATION}' AS is_operation
            FROM whole.nvtx_ranges) r
        JOIN launched l ON r.start_ns <= l.launch_ns AND r.end_ns > l.launch_ns
        AND r.process_id IS NOT DISTINCT FROM l.process_id
        AND r.thread_id IS NOT DISTINCT FROM l.thread_id
    GROUP BY number"""
_FILLING: Final = """
    SELECT number, arg_min(r.text, (r.end_ns - r.start_ns, r.start_ns, r.text)) AS host_range
    FROM whole.nvtx_ranges r JOIN enders e ON r.start_ns < e.end_ns AND r.end_ns > e.start_ns
        AND r.process_id IS NOT DISTINCT FROM e.process_id
    WHERE 2 * (least(r.end_ns, e.end_ns) - greatest(r.start_ns, e.start_ns))
        >= e.end_ns - e.start_ns
    GROUP BY number"""
_NO_RANGES: Final = "SELECT NULL AS number, NULL AS text, NULL AS operation LIMIT 0"
_NONE_FILLING: Final = "SELECT NULL AS number, NULL AS host_range LIMIT 0"


def gaps(profile: Profile) -> pa.Table:
    """List the longest pauses between the activities of each device.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls`` and ``nvtx_ranges`` tell what
            the host did.

    Returns:
        At most twenty rows of all devices, the longest pause first, columns as in `GAPS`. The
        host's part is null where it was not recorded, or on a clock that disagrees.
    """
    found = [gap for one in timelines(profile) for gap in _longest(one)]
    found.sort(key=lambda gap: (-gap["gap_ns"], gap["start_ns"], gap["device_id"] or 0))
    return GAPS.table(_with_context(profile.whole, found[:_ROWS]))


def _longest(device: DeviceTimeline) -> list[dict[str, Any]]:
    length = device.idle.end - device.idle.start
    longest = np.argsort(-length, kind="stable")[:_ROWS]
    return [
        {
            "device_id": device.device_id,
            "start_ns": int(device.idle.start[index]),
            "gap_ns": int(length[index]),
        }
        for index in longest.tolist()
    ]


def _with_context(profile: Profile, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not found:
        return []
    parts = [
        f"SELECT g.number, g.start_ns, g.end_ns, {rank} AS rank, {name} AS ended_by,"
        f" process_id, correlation_id FROM gaps g JOIN whole.{table} a ON {where}"
        for rank, (table, (name, where)) in enumerate(_ENDERS.items())
        if profile.has(table)
    ]
    rows = profile.query(f"""
        WITH gaps AS ({_values(found)}),
        enders AS (
            SELECT * FROM ({" UNION ALL ".join(parts)})
            QUALIFY row_number() OVER (PARTITION BY number ORDER BY rank, ended_by) = 1)
        {_host(profile)}""").to_pylist()
    context = {row.pop("number"): row for row in rows}
    return [gap | context.get(number, {}) for number, gap in enumerate(found)]


def _values(found: list[dict[str, Any]]) -> str:
    rows = ", ".join(
        f"({number}, {gap['start_ns']}, {gap['start_ns'] + gap['gap_ns']},"
        f" {'NULL' if gap['device_id'] is None else gap['device_id']}::BIGINT)"
        for number, gap in enumerate(found)
    )
    return f"SELECT * FROM (VALUES {rows}) AS v(number, start_ns, end_ns, device_id)"


def _host(profile: Profile) -> str:
    """SQL: the rest of the query, with what the host did where that can be told."""
    if not profile.has("api_calls") or not clocks_agree(profile):
        return "SELECT number, ended_by FROM enders"
    has_ranges = profile.has("nvtx_ranges")
    return f"""
        , launched AS ({_LAUNCHED}),
        calls AS (
            SELECT * FROM ({_HOST_CALLS})
            QUALIFY row_number() OVER (PARTITION BY number ORDER BY overlap_ns DESC, name) = 1),
        ranges AS ({_RANGES if has_ranges else _NO_RANGES}),
        filling AS ({_FILLING if has_ranges else _NONE_FILLING})
        SELECT l.number, ended_by, launch_ns, end_ns - launch_ns AS launch_latency_ns,
            c.name AS host_call, overlap_ns AS host_call_ns, host_range, r.text AS nvtx_range,
            operation
        FROM launched l LEFT JOIN calls c ON c.number = l.number
            LEFT JOIN ranges r ON r.number = l.number
            LEFT JOIN filling f ON f.number = l.number"""


ANALYSIS: Final = Analysis(
    "Longest pauses",
    GAPS,
    ("kernels", "memcpys"),
    gaps,
    reads(RANGE_READS, TIMELINE_READS, kernels="name", api_calls="end_ns name"),
)
