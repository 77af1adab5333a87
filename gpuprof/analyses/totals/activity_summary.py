"""All calls of one kernel, memcpy kind, memset or API function in one row."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.profile import Profile
from gpuprof.schema import ACTIVITY_SUMMARY
from gpuprof.views import names_of

# Table -> activity kind, SQL of a row's name, and of its bytes.
SOURCES: Final = {
    "kernels": ("kernel", "name", "NULL"),
    "memcpys": ("memcpy", "memcpy_kind", "bytes"),
    "memsets": ("memset", "'memset'", "bytes"),
    "api_calls": ("api", "name", "NULL"),
}
SUM_READS: Final = reads(
    kernels="start_ns end_ns name name_id",
    memcpys="start_ns end_ns memcpy_kind bytes",
    memsets="start_ns end_ns bytes",
    api_calls="start_ns end_ns name name_id",
)
TABLES: Final = ("activity_summary", *SOURCES)
_Sources = Mapping[str, tuple[str, str, str]]

_GROUPED: Final = "GROUP BY ALL HAVING count(*) > 0"
_DURATION: Final = "(end_ns - start_ns)"
_SUMS: Final = {
    "calls": "count(*)",
    "total_ns": f"CAST(sum({_DURATION}) AS BIGINT)",
    "min_ns": f"min({_DURATION})",
    "max_ns": f"max({_DURATION})",
    "mean_ns": f"avg({_DURATION})",
}
_FIGURES: Final = _SUMS | {
    "median_ns": f"CAST(median({_DURATION}) AS DOUBLE)",
    "stddev_ns": f"stddev_samp({_DURATION})",
}


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
    return ACTIVITY_SUMMARY.conform(summed_up(profile, SOURCES))


def activity_sums(profile: Profile) -> pa.Table:
    """The same, of a trace without medians and deviations, and with all API calls in one row.

    Totals and ranks need no more, and millions of API calls are read in half the time.
    """
    if profile.has("activity_summary"):
        return profile.table("activity_summary")
    sources = SOURCES | {"api_calls": ("api", "''", "NULL")}
    return ACTIVITY_SUMMARY.conform(summed_up(profile, sources, _SUMS))


def summed_up(
    profile: Profile, sources: _Sources, figures: Mapping[str, str] = _FIGURES
) -> pa.Table:
    """The activities of trace tables that were recorded, each table's summed up by name.

    Numbers of names are grouped faster than names. Where two of them mean one name, which is
    rare, the names themselves are grouped.

    Args:
        profile: The recording.
        sources: Table -> activity kind, SQL of a row's name, and of its bytes.
        figures: Column -> SQL over the activities of one name.
    """
    recorded = {table: source for table, source in sources.items() if profile.has(table)}
    numbered = {t for t, source in recorded.items() if source[1] == "name" and profile.numbers(t)}
    for by_number in (numbered, set[str]()):
        parts = [
            _summed_up(table, source, figures, is_numbered=table in by_number)
            for table, source in recorded.items()
        ]
        every = f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY part, total_ns DESC, name"
        found = profile.query(every)
        rows = [*zip(found["part"].to_pylist(), found["name"].to_pylist(), strict=True)]
        if len(set(rows)) == len(rows):
            break
    return found


def _summed_up(
    table: str, source: tuple[str, str, str], figures: Mapping[str, str], *, is_numbered: bool
) -> str:
    activity_kind, name, size = source
    head = (
        f"SELECT {[*SOURCES].index(table)} AS part, '{activity_kind}' AS activity_kind,"
        f" '{activity_kind}' AS section"
    )
    columns = {**figures, "bytes": size if size == "NULL" else known_sum(size)}
    summed = ", ".join(f"{sql} AS {column}" for column, sql in columns.items())
    if not is_numbered:
        return f"{head}, {name} AS name, {summed} FROM {table} {_GROUPED}"
    return f"""{head}, coalesce(n.name, 'unknown') AS name, {", ".join(columns)}
        FROM (SELECT name_id, {summed} FROM {table} {_GROUPED}) s
        LEFT JOIN whole.{names_of(table)} n USING (name_id)"""


def known_sum(column: str) -> str:
    """SQL: the sum of a column of integers, null where any of them is unknown."""
    return f"CASE WHEN count({column}) = count(*) THEN CAST(sum({column}) AS BIGINT) END"


ANALYSIS: Final = Analysis(
    "All activities", ACTIVITY_SUMMARY, (), activity_summary, SUM_READS, needs_any_of=TABLES
)
