"""All calls of one kernel, memcpy kind, memset or API function in one row."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.profile import Profile
from gpuprof.schema import ACTIVITY_SUMMARY

# Table -> activity kind, name of a row, and its bytes.
_SOURCES: Final = {
    "kernels": ("kernel", "name", "NULL"),
    "memcpys": ("memcpy", "memcpy_kind", "bytes"),
    "memsets": ("memset", "'memset'", "bytes"),
    "api_calls": ("api", "name", "NULL"),
}
TABLES: Final = ("activity_summary", *_SOURCES)


def activity_summary(profile: Profile) -> pa.Table:
    """Sum up every activity, or pass on what a tool has summed up already.

    Staged peer copies are summed up as the DtoH and HtoD copies that the tool recorded, so
    that the rows agree with the tool's own; `totals` tells them apart.

    Args:
        profile: Needs ``activity_summary``, or one of the trace tables.

    Returns:
        One row per activity, kernels first, the costliest first; columns as in
        `ACTIVITY_SUMMARY`. ``bytes`` is null where one call's bytes are unknown.
    """
    if profile.has("activity_summary"):
        return profile.table("activity_summary")
    parts = [summary_sql(profile, table) for table in _SOURCES if profile.has(table)]
    return ACTIVITY_SUMMARY.conform(
        profile.query(
            f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY part, total_ns DESC, name"
        )
    )


def summary_sql(profile: Profile, table: str) -> str:
    """SQL: the activities of one trace table summed up by name."""
    activity_kind, name, size = _SOURCES[table]
    head = (
        f"SELECT {list(_SOURCES).index(table)} AS part, '{activity_kind}' AS activity_kind,"
        f" '{activity_kind}' AS section"
    )
    if name != "name" or not profile.numbers(table):
        return f"{head}, {name} AS name, {_figures(size)} FROM {_timed(table)} {_GROUPED}"
    # Numbers are grouped faster than names, and each has its name looked up once.
    numbered = profile.tagged(table, _NUMBER, "number")
    return f"""{head}, coalesce(n.name, 'unknown') AS name, s.* EXCLUDE (number)
        FROM (SELECT number, {_figures(size)} FROM {_timed(numbered)} {_GROUPED}) s
        LEFT JOIN (SELECT DISTINCT {_NUMBER} AS number, name FROM {profile.names(table)}) n
        USING (number)"""


_NUMBER: Final = "dense_rank() OVER (ORDER BY name)"
_GROUPED: Final = "GROUP BY ALL HAVING count(*) > 0"


def _timed(source: str) -> str:
    return f"(SELECT *, end_ns - start_ns AS duration_ns FROM {source})"


def _figures(size: str) -> str:
    return (
        "count(*) AS calls, CAST(sum(duration_ns) AS BIGINT) AS total_ns,"
        " min(duration_ns) AS min_ns, max(duration_ns) AS max_ns,"
        " avg(duration_ns) AS mean_ns,"
        " CAST(median(duration_ns) AS DOUBLE) AS median_ns,"
        " stddev_samp(duration_ns) AS stddev_ns,"
        f" {size if size == 'NULL' else known_sum(size)} AS bytes"
    )


def known_sum(column: str) -> str:
    """SQL: the sum of a column of integers, null where any of them is unknown."""
    return f"CASE WHEN count({column}) = count(*) THEN CAST(sum({column}) AS BIGINT) END"


ANALYSIS: Final = Analysis(
    "All activities", ACTIVITY_SUMMARY, (), activity_summary, needs_any_of=TABLES
)
