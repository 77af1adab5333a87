"""Transfers by kind, memory kind, direction and path: how many, how long, how fast."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.copies import COPY_READS, COUNTED_BYTES, COUNTED_CALLS
from gpuprof.analyses.facts.histograms import (
    HISTOGRAM,
    MOST_VALUES,
    ROUNDING,
    combined,
    counted_values,
    histograms,
)
from gpuprof.analyses.merge import JobStates, Merge, State, ordered, summed
from gpuprof.facts import HOST
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.units import NS_PER_S

TRANSFERS: Final = Schema(
    "transfers",
    "all transfers of one kind, between two kinds of memory, by one path",
    {
        "memcpy_kind": Column(
            TEXT, "", "HtoD, DtoH, PtoP (including staged ones), UVM_HtoD, ...", required=True
        ),
        "direction": Column(
            TEXT, "", "host to device, device to host or device to device.", required=True
        ),
        "path": Column(TEXT, "", "direct, staged through the host, or uvm.", required=True),
        "src_memory_kind": Column(TEXT, "", "pageable, pinned, device, managed, ..."),
        "dst_memory_kind": Column(TEXT, "", "pageable, pinned, device, managed, ..."),
        "calls": Column(INT, "1", "How often; a staged copy counts once.", required=True),
        "total_ns": Column(INT, "ns", "Sum of durations; of staged copies, both halves."),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "median_ns": Column(FLOAT, "ns", "Median duration."),
        "p95_ns": Column(FLOAT, "ns", "95 % took no longer (interpolated)."),
        "max_ns": Column(INT, "ns", "Longest."),
        "bytes": Column(INT, "B", "Bytes moved; null where unknown of one."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns; null where either is unknown or 0."),
        "pageable_async_calls": Column(
            INT,
            "1",
            "Of pageable memory by an ...Async call, which waits for them all the same; null "
            "where no API calls were recorded.",
        ),
    },
)

_DIRECTION: Final = f"""CASE {HOST} WHEN src THEN 'host to device' WHEN dst THEN 'device to host'
    ELSE 'device to device' END"""
_SOME_PAGEABLE: Final = """
    SELECT 1 FROM memcpys WHERE 'pageable' IN (src_memory_kind, dst_memory_kind) LIMIT 1"""
_CALLS: Final = """(
    SELECT DISTINCT process_id, correlation_id, true AS is_async FROM api_calls c
    WHERE is_async AND EXISTS (
        SELECT 1 FROM memcpys m WHERE m.correlation_id = c.correlation_id
            AND m.process_id IS NOT DISTINCT FROM c.process_id
            AND 'pageable' IN (m.src_memory_kind, m.dst_memory_kind)))"""
# The times of calls stand here since the query names those of copies.
TRANSFER_READS: Final = reads(
    COPY_READS, api_calls="start_ns end_ns process_id correlation_id is_async"
)
_UNKNOWN_CALLS: Final = (
    "(SELECT NULL::BIGINT AS process_id, NULL::BIGINT AS correlation_id, NULL AS is_async LIMIT 0)"
)


def transfers(profile: Profile) -> pa.Table:
    """Sum up the transfers, the costliest kind first.

    A transfer moves data between the memories of two devices, the host being one; copies
    within one device are not among them. Rates are of all bytes over all time, which is not
    the mean of rates.

    Args:
        profile: Needs ``memcpys``; ``api_calls`` tell the asynchronous calls.

    Returns:
        One row per kind, memory kinds and path, columns as in `TRANSFERS`; no rows where
        nothing was transferred.
    """
    knows_calls = profile.has("api_calls")
    # Millions of calls need not be read where no copy is of pageable memory.
    is_asked = knows_calls and bool(profile.query(_SOME_PAGEABLE).num_rows)
    return TRANSFERS.conform(
        profile.query(f"""
        SELECT memcpy_kind, path, src_memory_kind, dst_memory_kind,
            {_DIRECTION} AS direction,
            {COUNTED_CALLS} AS calls, CAST(sum(duration_ns) AS BIGINT) AS total_ns,
            sum(duration_ns) / nullif({COUNTED_CALLS}, 0) AS mean_ns,
            quantile_cont(duration_ns, 0.5) AS median_ns,
            quantile_cont(duration_ns, 0.95) AS p95_ns, max(duration_ns) AS max_ns,
            CASE WHEN count(bytes) = count(*) THEN CAST(sum({COUNTED_BYTES}) AS BIGINT) END
                AS bytes,
            {bytes_per_s(COUNTED_BYTES, "duration_ns")} AS bytes_per_s,
            {"count(is_async)" if knows_calls else "NULL"} AS pageable_async_calls
        FROM copies t
            LEFT JOIN {_CALLS if is_asked else _UNKNOWN_CALLS} a
            ON 'pageable' IN (t.src_memory_kind, t.dst_memory_kind)
            AND t.process_id IS NOT DISTINCT FROM a.process_id
            AND t.correlation_id = a.correlation_id
        GROUP BY ALL
        ORDER BY total_ns DESC, memcpy_kind, src_memory_kind, dst_memory_kind, path, direction""")
    )


def bytes_per_s(size: str, duration_ns: str) -> str:
    """SQL: all bytes over all time of a group; null where a size is unknown or no time passed."""
    return (
        f"CASE WHEN count({size}) = count(*)"
        f" THEN sum({size}) * {NS_PER_S}::DOUBLE / nullif(sum({duration_ns}), 0) END"
    )


_KEYS: Final = ("memcpy_kind", "direction", "path", "src_memory_kind", "dst_memory_kind")
_SUMS: Final = ("calls", "total_ns", "bytes")
_DURATIONS_SQL: Final = f"""
    SELECT memcpy_kind, path, src_memory_kind, dst_memory_kind, {_DIRECTION} AS direction,
        duration_ns AS value, count(*) AS calls
    FROM copies GROUP BY ALL"""


def _sums_of(table: pa.Table) -> pa.Table:
    with_calls = table.filter(table["pageable_async_calls"].is_valid())
    async_calls = summed(with_calls, _KEYS, ["pageable_async_calls"])
    sums = summed(table, _KEYS, _SUMS, most=["max_ns"])
    # Files without API calls say nothing of them; of the others the calls add up.
    return _SUMS_SCHEMA.conform(_joined(sums, async_calls))


def _joined(sums: pa.Table, async_calls: pa.Table) -> pa.Table:
    calls = {tuple(row[key] for key in _KEYS): row for row in async_calls.to_pylist()}
    values = [
        calls.get(tuple(row[key] for key in _KEYS), {}).get("pageable_async_calls")
        for row in sums.to_pylist()
    ]
    return sums.append_column("pageable_async_calls", pa.array(values, pa.int64()))


_SUMS_SCHEMA: Final = Schema(
    "transfer_sums",
    TRANSFERS.row,
    {name: TRANSFERS.columns[name] for name in (*_KEYS, *_SUMS, "max_ns", "pageable_async_calls")},
)
TRANSFER_SUMS: Final = State(
    _SUMS_SCHEMA,
    lambda profile: _SUMS_SCHEMA.conform(profile.once(transfers)),
    _sums_of,
)
TRANSFER_DURATIONS: Final = State(
    Schema(
        "transfer_durations",
        "one duration of transfers of one kind",
        {name: TRANSFERS.columns[name] for name in _KEYS} | HISTOGRAM,
    ),
    lambda profile: counted_values(profile.query(_DURATIONS_SQL), _KEYS),
    lambda rows: combined(rows, _KEYS),
)


def _of_job(job: JobStates) -> pa.Table:
    durations = dict(histograms(job.rows(TRANSFER_DURATIONS), _KEYS))
    rows = job.rows(TRANSFER_SUMS).to_pylist()
    for row in rows:
        calls, total_ns, size = (row[name] for name in _SUMS)
        of_row = durations[tuple(row[key] for key in _KEYS)]
        row["mean_ns"] = total_ns / calls if calls else None
        row["median_ns"], row["p95_ns"] = of_row.quantile(0.5), of_row.quantile(0.95)
        row["bytes_per_s"] = size * NS_PER_S / total_ns if size is not None and total_ns else None
    order = [("total_ns", "descending")] + [(n, "ascending") for n in _ORDER]
    return ordered(TRANSFERS.table(rows), order)


_ORDER: Final = ("memcpy_kind", "src_memory_kind", "dst_memory_kind", "path", "direction")
ANALYSIS: Final = Analysis(
    "Transfers by kind",
    TRANSFERS,
    ("memcpys",),
    transfers,
    TRANSFER_READS,
    merge=Merge(
        (TRANSFER_SUMS, TRANSFER_DURATIONS),
        _of_job,
        f"median_ns and p95_ns are exact for up to {MOST_VALUES:,} different durations of a row,"
        f" else good to {ROUNDING}.",
    ),
)
