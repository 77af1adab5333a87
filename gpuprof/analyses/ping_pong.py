"""Copies that need not be: there and straight back, and the same bytes again in every step."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.copies import EACH_TRANSFER, HOST, end_name
from gpuprof.analyses.launches import UNKNOWN
from gpuprof.analyses.nvtx import usual_range
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema

PING_PONG: Final = Schema(
    "ping_pong",
    "all pairs of copies of one size that went to a memory and came back next",
    {
        "src": Column(TEXT, "", "Memory that the data left: host, or device N.", required=True),
        "dst": Column(TEXT, "", "Memory that it went to and came back from.", required=True),
        "copy_bytes": Column(INT, "B", "Size of each copy.", required=True),
        "pairs": Column(INT, "1", "How often it went there and came back.", required=True),
        "total_ns": Column(INT, "ns", "Time of the copies of all pairs.", required=True),
        "median_stay_ns": Column(
            FLOAT, "ns", "Median time from the end of the way there to the start of the way back."
        ),
        "there_range": Column(
            TEXT, "", "NVTX range that launched most of the ways there; null where unknown."
        ),
        "back_range": Column(
            TEXT, "", "NVTX range that launched most of the ways back; null where unknown."
        ),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
    },
)

_LEAST_PAIRS: Final = 2
_IDS: Final = ("process", "correlation")
_ROWS: Final = 20
# Smaller copies are loss values and flags, which the host must read.
_LEAST_BYTES: Final = 1024
# The copy between the same two memories that follows, if it goes the other way with as many bytes.
_PAIRS: Final = f"""
    WITH copies AS (
        SELECT *, row_number() OVER (ORDER BY start_ns, end_ns) AS number FROM {EACH_TRANSFER}
        WHERE src IS NOT NULL AND dst IS NOT NULL AND src <> dst AND bytes >= {_LEAST_BYTES}
            AND path <> 'uvm'),
    ordered AS (
        SELECT src, dst, bytes, start_ns, end_ns, duration_ns, process_id, correlation_id,
            lead(src) OVER w AS next_src, lead(bytes) OVER w AS next_bytes,
            lead(start_ns) OVER w AS next_start_ns, lead(duration_ns) OVER w AS next_duration_ns,
            lead(process_id) OVER w AS next_process_id,
            lead(correlation_id) OVER w AS next_correlation_id,
            row_number() OVER w AS place
        FROM copies
        WINDOW w AS (PARTITION BY least(src, dst), greatest(src, dst) ORDER BY start_ns, number)),
    turns AS (SELECT * FROM ordered WHERE next_src = dst AND next_bytes = bytes
        AND next_start_ns >= end_ns),
    -- Each copy belongs to one pair: in a run of turns, every second one opens a pair.
    runs AS (
        SELECT *, place - row_number() OVER
            (PARTITION BY least(src, dst), greatest(src, dst) ORDER BY place) AS run FROM turns),
    pairs AS (
        SELECT *, row_number() OVER (
            PARTITION BY least(src, dst), greatest(src, dst), run ORDER BY place) AS nth FROM runs)
    SELECT * FROM pairs WHERE nth % 2 = 1"""
_SUMS: Final = f"""
    SELECT src, dst, bytes AS copy_bytes, count(*) AS pairs,
        CAST(sum(duration_ns + next_duration_ns) AS BIGINT) AS total_ns,
        quantile_cont(next_start_ns - end_ns, 0.5) AS median_stay_ns,
        list(coalesce(process_id, {UNKNOWN})) AS there_process,
        list(coalesce(correlation_id, {UNKNOWN})) AS there_correlation,
        list(coalesce(next_process_id, {UNKNOWN})) AS back_process,
        list(coalesce(next_correlation_id, {UNKNOWN})) AS back_correlation
    FROM ({_PAIRS}) GROUP BY src, dst, bytes HAVING count(*) >= {_LEAST_PAIRS}
    ORDER BY total_ns DESC, src, dst, bytes LIMIT {_ROWS}"""


def ping_pong(profile: Profile) -> pa.Table:
    """Find data that goes to a memory and comes straight back.

    Two copies are a pair if they follow one another between the same two memories, in opposite
    directions, with the same size, the second after the first has ended. That the bytes are
    the same data is likely where it repeats, not certain: the contents of copies are not
    recorded. Copies below 1 KiB are left out.

    Args:
        profile: Needs ``memcpys``; ``nvtx_ranges`` and ``api_calls`` name who copied.

    Returns:
        At most twenty rows, the costliest first, columns as in `PING_PONG`; pairs that occur
        only once are left out.
    """
    found = profile.query(_SUMS)
    figures = found.select([name for name in found.column_names if name in PING_PONG.columns])
    return PING_PONG.table(
        [_row(row) | _ranges(profile, found, i) for i, row in enumerate(figures.to_pylist())]
    )


def _row(row: dict[str, Any]) -> dict[str, Any]:
    ends = {end: end_name(row[end]) for end in ("src", "dst")}
    return row | ends | {"suggestion": _suggestion(row["src"], row["dst"])}


def _ranges(profile: Profile, found: pa.Table, place: int) -> dict[str, str | None]:
    """The ranges that launched most of a row's copies there, and back."""
    whole = profile.whole or profile
    if not whole.has("nvtx_ranges", "api_calls"):
        return {}
    return {
        # A list of millions of ids stays an array.
        f"{way}_range": usual_range(
            whole, *(found[f"{way}_{id_}"][place].values.to_numpy() for id_ in _IDS)
        )
        for way in ("there", "back")
    }


def _suggestion(src: int, dst: int) -> str:
    if dst == HOST:
        return f"keep it on {end_name(src)}: do on the device what the host does with it"
    if src == HOST:
        return f"keep the result on {end_name(dst)} until the host needs it"
    return f"run what works on it on {end_name(dst)} where its input lives: {end_name(src)}"


ANALYSIS: Final = Analysis("Copies there and back", PING_PONG, ("memcpys",), ping_pong)
