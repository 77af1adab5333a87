"""Sizes of the copies of each kind, and of memsets."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
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


ANALYSIS: Final = Analysis(
    "Sizes of memory operations",
    SIZE_SUMMARY,
    (),
    size_summary,
    reads(memcpys="memcpy_kind bytes", memsets="bytes"),
    needs_any_of=tuple(_NAMES),
)
