"""Sizes of the copies of each kind, and of memsets."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.histograms import (
    HISTOGRAM,
    MOST_VALUES,
    ROUNDING,
    combined,
    counted_values,
    histograms,
)
from gpuprof.analyses.merge import JobStates, Merge, State, summed
from gpuprof.analyses.totals.activity_summary import known_sum
from gpuprof.profile import Profile
from gpuprof.schema import ACTIVITY_SUMMARY, FLOAT, INT, TEXT, Column, Schema

SIZE_SUMMARY: Final = Schema(
    "size_summary",
    "all copies of one kind, or all memsets",
    {
        "name": Column(TEXT, "", "Memcpy kind, or memset.", required=True),
        "calls": ACTIVITY_SUMMARY.columns["calls"],
        "bytes": Column(INT, "B", "Sum of sizes; null where one of them is unknown."),
        "mean_bytes": Column(FLOAT, "B", "Mean size of those that are known."),
        "median_bytes": Column(FLOAT, "B", "Median size of those that are known."),
        "min_bytes": Column(INT, "B", "Smallest size."),
        "max_bytes": Column(INT, "B", "Largest size."),
        "stddev_bytes": Column(FLOAT, "B", "Sample standard deviation; null for a single call."),
    },
)
# Table -> name of a row.
_NAMES: Final = {"memcpys": "memcpy_kind", "memsets": "'memset'"}


def size_summary(profile: Profile) -> pa.Table:
    """Sum up sizes: what `nsys stats --report cuda_gpu_mem_size_sum` prints.

    Args:
        profile: Needs ``memcpys`` or ``memsets``.

    Returns:
        One row per memcpy kind, and one of memsets, the largest total first; columns as in
        `SIZE_SUMMARY`.
    """
    parts = [_sql(table, name) for table, name in _NAMES.items() if profile.has(table)]
    return SIZE_SUMMARY.conform(
        profile.query(f"{' UNION ALL '.join(parts)} ORDER BY bytes DESC NULLS LAST, name")
    )


def _sql(table: str, name: str) -> str:
    return f"""SELECT {name} AS name, count(*) AS calls, {known_sum("bytes")} AS bytes,
        avg(bytes) AS mean_bytes, CAST(median(bytes) AS DOUBLE) AS median_bytes,
        min(bytes) AS min_bytes, max(bytes) AS max_bytes, stddev_samp(bytes) AS stddev_bytes
        FROM {table} GROUP BY ALL HAVING count(*) > 0"""


def _sizes(profile: Profile) -> pa.Table:
    parts = [
        f"SELECT {name} AS name, bytes AS value, count(*) AS calls FROM {table}"
        " WHERE bytes IS NOT NULL GROUP BY ALL"
        for table, name in _NAMES.items()
        if profile.has(table)
    ]
    return counted_values(profile.query(" UNION ALL ".join(parts)), ["name"])


def _sums(profile: Profile) -> pa.Table:
    # Of sizes that are known, the sum tells the mean.
    parts = [
        f"SELECT {name} AS name, count(*) AS calls, {known_sum('bytes')} AS bytes,"
        " CAST(coalesce(sum(bytes), 0) AS BIGINT) AS known_bytes FROM"
        f" {table} GROUP BY ALL HAVING count(*) > 0"
        for table, name in _NAMES.items()
        if profile.has(table)
    ]
    return SIZE_SUMS.schema.conform(profile.query(" UNION ALL ".join(parts)))


SIZE_SUMS: Final = State(
    Schema(
        "size_sums",
        SIZE_SUMMARY.row,
        {name: SIZE_SUMMARY.columns[name] for name in ("name", "calls", "bytes")}
        | {"known_bytes": Column(INT, "B", "Sum of the sizes that are known.")},
    ),
    _sums,
    lambda rows: summed(rows, ["name"], ["calls", "bytes", "known_bytes"]),
)
SIZES: Final = State(
    Schema("sizes", "one size", {"name": SIZE_SUMMARY.columns["name"], **HISTOGRAM}),
    _sizes,
    lambda rows: combined(rows, ["name"]),
)


def _of_job(job: JobStates) -> pa.Table:
    sizes = {name: of for (name,), of in histograms(job.rows(SIZES), ["name"])}
    rows = job.rows(SIZE_SUMS).to_pylist()
    for row in rows:
        of_kind = sizes.get(row["name"])
        if of_kind is None:
            continue
        row["mean_bytes"] = row["known_bytes"] / int(of_kind.calls.sum())
        row["median_bytes"] = of_kind.quantile(0.5)
        row["min_bytes"], row["max_bytes"] = int(of_kind.values[0]), int(of_kind.values[-1])
        row["stddev_bytes"] = of_kind.deviation(row["mean_bytes"])
    rows.sort(key=lambda row: (row["bytes"] is None, -(row["bytes"] or 0), row["name"]))
    return SIZE_SUMMARY.table(rows)


ANALYSIS: Final = Analysis(
    "Sizes of memory operations",
    SIZE_SUMMARY,
    (),
    size_summary,
    reads(memcpys="memcpy_kind bytes", memsets="bytes"),
    needs_any_of=tuple(_NAMES),
    merge=Merge(
        (SIZE_SUMS, SIZES),
        _of_job,
        f"Sizes are exact for up to {MOST_VALUES:,} different ones of a kind, else all but the sum"
        f" and the mean are good to {ROUNDING}.",
    ),
)
