"""The longest pauses of each device: what ended them, and what the host did meanwhile."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.host_clock import host_clock
from gpuprof.analyses.facts.nvtx import RANGE_READS
from gpuprof.analyses.facts.timeline import TIMELINE_READS, DeviceTimeline, timelines
from gpuprof.analyses.merge import JobStates, Merge, State, ordered
from gpuprof.intervals import union
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
            TEXT,
            "",
            "Innermost NVTX range around the launching call; null where unknown.",
            label="NVTX range",
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
    SELECT e.number, e.start_ns, e.end_ns, e.ended_by, e.process_id, c.start_ns AS launch_ns,
        c.thread_id
    FROM enders e
    LEFT JOIN (
        SELECT process_id, correlation_id, min(start_ns) AS start_ns,
            arg_min(thread_id, start_ns) AS thread_id
        FROM unrestricted.api_calls SEMI JOIN enders USING (correlation_id) GROUP BY ALL) c
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
            SELECT number, name, greatest(c.start_ns, l.start_ns) AS from_ns,
                least(c.end_ns, l.end_ns) AS until_ns
            FROM unrestricted.api_calls c JOIN launched l ON c.start_ns < l.end_ns
                AND c.end_ns > l.start_ns AND c.end_ns > c.start_ns
                AND c.process_id IS NOT DISTINCT FROM l.process_id
            WHERE {during}))
    GROUP BY number, name"""
_NEAR: Final = f"""
    SELECT c.start_ns, c.end_ns, text, process_id, thread_id,
        range_kind IS NOT DISTINCT FROM '{OPERATION}' AS is_operation
    FROM unrestricted.nvtx_ranges c WHERE {{during}} OR {{around}}"""
_NO_RANGES: Final = (
    "SELECT 0 AS start_ns, 0 AS end_ns, '' AS text, 0 AS process_id, 0 AS thread_id,"
    " false AS is_operation LIMIT 0"
)
_RANGES: Final = """
    SELECT number,
        arg_max(r.text, (r.start_ns, -r.end_ns)) FILTER (NOT is_operation) AS text,
        arg_min(r.text, (r.start_ns, -r.end_ns)) FILTER (is_operation) AS operation
    FROM near r JOIN launched l ON r.start_ns <= l.launch_ns AND r.end_ns > l.launch_ns
        AND r.process_id IS NOT DISTINCT FROM l.process_id
        AND r.thread_id IS NOT DISTINCT FROM l.thread_id
    GROUP BY number"""
_FILLING: Final = """
    SELECT number, arg_min(r.text, (r.end_ns - r.start_ns, r.start_ns, r.text)) AS host_range
    FROM near r JOIN launched l ON r.start_ns < l.end_ns AND r.end_ns > l.start_ns
        AND r.process_id IS NOT DISTINCT FROM l.process_id
    WHERE 2 * (least(r.end_ns, l.end_ns) - greatest(r.start_ns, l.start_ns))
        >= l.end_ns - l.start_ns
    GROUP BY number"""


def gaps(profile: Profile) -> pa.Table:
    """List the longest pauses between the activities of each device.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls`` and ``nvtx_ranges`` show
            the host's part.

    Returns:
        At most twenty rows of all devices, the longest pause first, columns as in `GAPS`. The
        host's part is null where it was not recorded, or on a clock that disagrees.
    """
    gap_rows = [gap for timeline in timelines(profile) for gap in _longest(timeline)]
    gap_rows.sort(key=lambda gap: (-gap["gap_ns"], gap["start_ns"], gap["device_id"] or 0))
    return GAPS.table(_with_context(profile.unrestricted, gap_rows[:_ROWS]))


def _longest(device: DeviceTimeline) -> list[dict[str, Any]]:
    idle = device.idle
    length = idle.end - idle.start
    longest = np.argsort(-length, kind="stable")[:_ROWS]
    return [
        {
            "device_id": device.device_id,
            "start_ns": int(idle.start[index]),
            "gap_ns": int(length[index]),
        }
        for index in longest.tolist()
    ]


def _with_context(profile: Profile, gap_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    context: dict[int, dict[str, Any]] = {}
    if gap_rows:
        ended = _ended(profile, gap_rows)
        context |= {row["number"]: {"ended_by": row["ended_by"]} for row in ended}
        for row in _host(profile, ended):
            context[row.pop("number")] |= row
    return [gap | context.get(number, {}) for number, gap in enumerate(gap_rows)]


def _ended(profile: Profile, gap_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What ended each pause, with the call that launched it where that can be told."""
    columns = ("number", "start_ns", "end_ns", "device_id")
    values = [
        (number, gap["start_ns"], gap["start_ns"] + gap["gap_ns"], gap["device_id"])
        for number, gap in enumerate(gap_rows)
    ]
    ends = ", ".join(str(end) for _, _, end, _ in values)
    parts = [
        f"SELECT g.number, g.start_ns, g.end_ns, {rank} AS rank, {name} AS ended_by,"
        f" process_id, correlation_id FROM gaps g JOIN unrestricted.{table} a ON {where}"
        f" WHERE a.start_ns IN ({ends})"
        for rank, (table, (name, where)) in enumerate(_ENDERS.items())
        if profile.has(table)
    ]
    tells_host = profile.has("api_calls") and host_clock(profile).is_known
    rows: list[dict[str, Any]] = profile.query(f"""
        WITH gaps AS ({_values(columns, values)}),
        enders AS (
            SELECT * FROM ({" UNION ALL ".join(parts)})
            QUALIFY row_number() OVER (PARTITION BY number ORDER BY rank, ended_by) = 1)
        {_LAUNCHED if tells_host else "SELECT number, ended_by FROM enders"}""").to_pylist()
    return rows


def _values(columns: Sequence[str], rows: Iterable[Iterable[int | None]]) -> str:
    """SQL: a table of integers."""
    cells = [["NULL" if cell is None else str(cell) for cell in row] for row in rows]
    listed = ", ".join(f"({'::BIGINT, '.join(row)}::BIGINT)" for row in cells)
    return f"SELECT * FROM (VALUES {listed}) AS v({', '.join(columns)})"


def _host(profile: Profile, ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the host did until each pause ended; no rows where that cannot be told."""
    columns = ("number", "start_ns", "end_ns", "process_id", "launch_ns", "thread_id")
    if not ended or "launch_ns" not in ended[0]:
        return []
    # Pauses are looked for on the clock of the host, and its times then set on the devices'.
    shifts = {row["number"]: host_clock(profile).of(row["process_id"]) for row in ended}
    ended = [
        row | {name: row[name] - shifts[row["number"]] for name in ("start_ns", "end_ns")}
        for row in ended
    ]
    # Of millions of calls and ranges, few are near: the others need not be joined.
    during = _near((row["start_ns"], row["end_ns"]) for row in ended)
    around = _near((ns, ns + 1) for row in ended if (ns := row["launch_ns"]) is not None)
    near = _NEAR.format(during=during, around=around)
    rows: list[dict[str, Any]] = profile.query(f"""
        WITH launched AS ({_values(columns, ([row[c] for c in columns] for row in ended))}),
        calls AS (
            SELECT * FROM ({_HOST_CALLS.format(during=during)})
            QUALIFY row_number() OVER (PARTITION BY number ORDER BY overlap_ns DESC, name) = 1),
        near AS MATERIALIZED ({near if profile.has("nvtx_ranges") else _NO_RANGES}),
        ranges AS ({_RANGES}),
        filling AS ({_FILLING})
        SELECT l.number, launch_ns, end_ns - launch_ns AS launch_latency_ns, c.name AS host_call,
            overlap_ns AS host_call_ns, host_range, r.text AS nvtx_range, operation
        FROM launched l LEFT JOIN calls c ON c.number = l.number
            LEFT JOIN ranges r ON r.number = l.number
            LEFT JOIN filling f ON f.number = l.number""").to_pylist()
    for row in rows:
        if row["launch_ns"] is not None:
            row["launch_ns"] += shifts[row["number"]]
    return rows


def _near(windows: Iterable[tuple[int, int]]) -> str:
    """SQL: whether a call or range ``c`` runs in one of the windows, or nearly."""
    covered = union(*np.array([*windows], np.int64).reshape(-1, 2).T)
    terms = [
        f"(c.start_ns < {end} AND c.end_ns > {start})"
        for start, end in zip(covered.start.tolist(), covered.end.tolist(), strict=True)
    ]
    return f"({' OR '.join(terms)})" if terms else "false"


GAPS_OF_FILE: Final = State(GAPS, gaps)


def _of_job(job: JobStates) -> pa.Table:
    order = [("gap_ns", "descending"), ("start_ns", "ascending"), ("device_id", "ascending")]
    return GAPS.conform(ordered(job.rows(GAPS_OF_FILE), order).slice(0, _ROWS))


ANALYSIS: Final = Analysis(
    "Longest pauses",
    GAPS,
    ("kernels", "memcpys"),
    gaps,
    reads(RANGE_READS, TIMELINE_READS, kernels="name", api_calls="end_ns name"),
    merge=Merge((GAPS_OF_FILE,), _of_job),
)
