"""All calls of one kernel, memcpy kind, memset or API function in one row."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.facts.timeline import kernel_sums
from gpuprof.profile import Profile
from gpuprof.schema import ACTIVITY_SUMMARY

# Table -> activity kind, SQL of a row's name, and of its bytes.
SOURCES: Final = {
    "kernels": ("kernel", "name", "NULL"),
    "memcpys": ("memcpy", "memcpy_kind", "bytes"),
    "memsets": ("memset", "'memset'", "bytes"),
    "api_calls": ("api", "name", "NULL"),
}
TABLES: Final = ("activity_summary", *SOURCES)
_Sources = Mapping[str, tuple[str, str, str]]

_GROUPED: Final = "GROUP BY ALL HAVING count(*) > 0"
_SUMS: Final = (
    "count(*) AS calls, CAST(sum(duration_ns) AS BIGINT) AS total_ns,"
    " min(duration_ns) AS min_ns, max(duration_ns) AS max_ns, avg(duration_ns) AS mean_ns"
)
_FIGURES: Final = (
    f"{_SUMS}, CAST(median(duration_ns) AS DOUBLE) AS median_ns,"
    " stddev_samp(duration_ns) AS stddev_ns"
)


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
    if profile.has("activity_summary") or profile.has_done(activity_summary):
        return profile.once(activity_summary)
    sources = SOURCES | {"api_calls": ("api", "''", "NULL")}
    kernels = kernel_sums(profile)
    if kernels is None:
        return ACTIVITY_SUMMARY.conform(summed_up(profile, sources, _SUMS))
    rest = {t: source for t, source in sources.items() if t != "kernels" and profile.has(t)}
    others = summed_up(profile, rest, _SUMS).to_pylist() if rest else []
    return ACTIVITY_SUMMARY.table([*kernels.by_name(profile), *others])


def summed_up(profile: Profile, sources: _Sources, figures: str = _FIGURES) -> pa.Table:
    """The activities of trace tables that were recorded, each table's summed up by name.

    Numbers of names are grouped faster than names. Where two of them mean one name, which is
    rare, the names themselves are grouped.

    Args:
        profile: The recording.
        sources: Table -> activity kind, SQL of a row's name, and of its bytes.
        figures: SQL of what is told of each name, over ``duration_ns``.
    """
    recorded = {table: source for table, source in sources.items() if profile.has(table)}
    numbered = {table: source for table, source in recorded.items() if source[1] == "name"}
    names = {table: found for table in numbered if (found := profile.numbered(table))}
    for known in (names, {}):
        parts = [
            _summed_up(table, source, figures, known.get(table))
            for table, source in recorded.items()
        ]
        every = f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY part, total_ns DESC, name"
        found = profile.query(every)
        rows = [*zip(found["part"].to_pylist(), found["name"].to_pylist(), strict=True)]
        if len(set(rows)) == len(rows):
            break
    return found


def _summed_up(
    table: str, source: tuple[str, str, str], figures: str, numbered: tuple[str, str] | None
) -> str:
    activity_kind, name, size = source
    head = (
        f"SELECT {[*SOURCES].index(table)} AS part, '{activity_kind}' AS activity_kind,"
        f" '{activity_kind}' AS section"
    )
    figures += f", {size if size == 'NULL' else known_sum(size)} AS bytes"
    if numbered is None:
        return f"{head}, {name} AS name, {figures} FROM {_timed(table)} {_GROUPED}"
    rows, names = numbered
    return f"""{head}, coalesce(n.name, 'unknown') AS name, s.* EXCLUDE (name_id)
        FROM (SELECT name_id, {figures} FROM {_timed(rows)} {_GROUPED}) s
        LEFT JOIN {names} n USING (name_id)"""


def _timed(source: str) -> str:
    return f"(SELECT *, end_ns - start_ns AS duration_ns FROM {source})"


def known_sum(column: str) -> str:
    """SQL: the sum of a column of integers, null where any of them is unknown."""
    return f"CASE WHEN count({column}) = count(*) THEN CAST(sum({column}) AS BIGINT) END"


ANALYSIS: Final = Analysis(
    "All activities", ACTIVITY_SUMMARY, (), activity_summary, needs_any_of=TABLES
)
