"""All calls of one kernel, memcpy kind, memset or API function in one row."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.kernel_names import short_name
from gpuprof.facts.by_number import UNNAMED
from gpuprof.facts.copies import COPY_READS
from gpuprof.facts.copy_rows import copy_rows, copy_words
from gpuprof.facts.durations import (
    Durations,
    Figures,
    Sums,
    durations_by_name,
    figures,
    figures_by_name,
    sums,
    sums_by_name,
    total,
)
from gpuprof.facts.groups import groups
from gpuprof.facts.growing import columns_of
from gpuprof.facts.histograms import (
    HISTOGRAM,
    MOST_VALUES,
    ROUNDING,
    combined,
    histogram_table,
    histograms,
)
from gpuprof.model.analysis import Analysis, JobStates, Merge, State, reads, summed
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.model.schema import ACTIVITY_SUMMARY, TEXT, Column, Schema

SHORT_NAME: Final = Column(
    TEXT,
    "",
    "The function's own name, as nsys prints with :base; many may share it.",
    required=True,
)
ACTIVITIES: Final = Schema(
    ACTIVITY_SUMMARY.name,
    ACTIVITY_SUMMARY.row,
    {**ACTIVITY_SUMMARY.columns, "short_name": SHORT_NAME},
)
# Table -> activity kind.
SOURCES: Final = {
    "kernels": "kernel",
    "memcpys": "memcpy",
    "memsets": "memset",
    "api_calls": "api",
}
SUM_READS: Final = reads(
    COPY_READS,
    kernels="start_ns end_ns name_id",
    memsets="start_ns end_ns bytes",
    api_calls="start_ns end_ns name_id",
)
TABLES: Final = ("activity_summary", *SOURCES)

# Read once for all that need them.
_FIGURES_OF: Final = {t: partial(figures_by_name, table=t) for t in ("kernels", "api_calls")}
_MEMSET: Final = "memset"
Row = dict[str, Any]


def activity_summary(profile: Profile) -> pa.Table:
    """Sum up every activity, or pass on what a tool has summed up already.

    Staged peer copies are summed up as the DtoH and HtoD copies that the tool recorded, so
    that the rows agree with the tool's own; `totals` tells them apart.

    Args:
        profile: Needs ``activity_summary``, or one of the trace tables.

    Returns:
        One row per activity, kernels first, the costliest first; columns as in
        `ACTIVITIES`. ``bytes`` is null where one call's bytes are unknown.
    """
    if profile.has("activity_summary"):
        rows = profile.table("activity_summary").to_pylist()
    else:
        rows = [row for table in SOURCES for row in summed_up(profile, table)]
    return _named_rows(rows)


def _named_rows(rows: Sequence[Row]) -> pa.Table:
    return ACTIVITIES.table([row | {"short_name": short_name(row["name"])} for row in rows])


def activity_sums(profile: Profile) -> pa.Table:
    """The same without medians and deviations, of a trace with all API calls in one row.

    Totals and ranks need no more, and millions of API calls are read in half the time.
    """
    if profile.has("activity_summary"):
        return profile.table("activity_summary")
    rows = [row for table in SOURCES if table != "api_calls" for row in _sums(profile, table)]
    return ACTIVITY_SUMMARY.table([*rows, *_all_calls(profile)])


def _sums(profile: Profile, table: str) -> list[Row]:
    """The same of one table."""
    if table in WITH_BYTES:
        return _rows(profile, table, lambda: _with_bytes(profile, table, sums))
    return _rows(profile, table, lambda: _named(sums_by_name(profile, table)))


def summed_up(profile: Profile, table: str) -> list[Row]:
    """The activities of a trace table by name, the costliest first; none where it is absent."""
    if table in WITH_BYTES:
        return _rows(profile, table, lambda: _with_bytes(profile, table, figures))
    return _rows(profile, table, lambda: _named(profile.once(_FIGURES_OF[table])))


def _rows(profile: Profile, table: str, of_table: Callable[[], list[Row]]) -> list[Row]:
    """Rows of a table that is there, the costliest first."""
    kind = SOURCES[table]
    rows = of_table() if profile.has(table) else []
    rows.sort(key=lambda row: (-row["total_ns"], row["name"]))
    return [row | {"activity_kind": kind, "section": kind} for row in rows]


def _named(by_name: Mapping[str, Sums | Figures]) -> list[Row]:
    """Kernels or calls."""
    return [{"name": name} | of._asdict() for name, of in by_name.items()]


def _with_bytes(
    profile: Profile, table: str, of_durations: Callable[[Durations], Sums | Figures | None]
) -> list[Row]:
    """Copies or memsets."""
    return [
        {"name": name, **of._asdict(), "bytes": None if (size == UNKNOWN).any() else total(size)}
        for name, durations, size in WITH_BYTES[table](profile)
        if (of := of_durations(durations)) is not None
    ]


def _copies_by_kind(profile: Profile) -> Iterator[tuple[str, Durations, Durations]]:
    """Each kind of copy with durations and bytes."""
    copies, kinds = copy_rows(profile), copy_words(profile).kind
    for alike in groups(copies.kind):
        name = kinds[copies.kind[alike[0]]] or UNNAMED
        yield name, copies.duration_ns[alike], copies.bytes[alike]


def _memsets(profile: Profile) -> Iterator[tuple[str, Durations, Durations]]:
    """The same of all memsets."""
    parts = profile.integers("memsets", "start_ns", "end_ns", "bytes")
    start, end, size = columns_of(parts, 3)
    if len(start):
        yield _MEMSET, end - start, size


# Of activities with bytes: name, durations in ns and bytes of each kind, piece by piece.
WITH_BYTES: Final = {"memcpys": _copies_by_kind, "memsets": _memsets}


def _all_calls(profile: Profile) -> list[Row]:
    """All API calls in one row; none where there are none."""
    if not profile.has("api_calls"):
        return []
    calls = total_ns = 0
    for start, end in profile.integers("api_calls", "start_ns", "end_ns"):
        calls += len(start)
        total_ns += int((end - start).sum())
    row = {"activity_kind": "api", "section": "api", "name": "", "calls": calls}
    return [row | {"total_ns": total_ns, "mean_ns": total_ns / calls}] if calls else []


# Of a job: sums are exact, and so are quantiles where a name has few different durations.
ACCURACY: Final = (
    f"median_ns and stddev_ns are exact for up to {MOST_VALUES:,} different durations of a name,"
    f" else good to {ROUNDING}."
)
_SUM_COLUMNS: Final = ("activity_kind", "section", "name", "calls", "total_ns", "min_ns", "max_ns")
_ALIKE: Final = ("activity_kind", "section", "name")


def _sums_of(profile: Profile) -> pa.Table:
    """The sums of traces; of what a tool has summed up `PRINTED` tells."""
    return SUMS.schema.conform(
        SUMS.schema.empty() if profile.has("activity_summary") else activity_sums(profile)
    )


def _added(table: pa.Table) -> pa.Table:
    return summed(table, _ALIKE, ("calls", "total_ns", "bytes"), ("min_ns",), ("max_ns",))


def _printed(profile: Profile) -> pa.Table:
    if profile.has("activity_summary"):
        return profile.table("activity_summary")
    return ACTIVITY_SUMMARY.empty()


def _sum_schema(name: str, row: str) -> Schema:
    return Schema(name, row, {n: ACTIVITY_SUMMARY.columns[n] for n in (*_SUM_COLUMNS, "bytes")})


def _sums_state(table: str, row: str) -> State:
    """The sums of one table."""
    schema = _sum_schema(f"sums_of_{table}", row)

    def of_file(profile: Profile) -> pa.Table:
        return schema.table([] if profile.has("activity_summary") else _sums(profile, table))

    return State(schema, of_file, _added)


def _durations(table: str) -> State:
    """How long the activities of each name of a table take."""
    schema = Schema(
        f"durations_of_{table}",
        "one duration of the activities of one name",
        {"name": ACTIVITY_SUMMARY.columns["name"], **HISTOGRAM},
    )

    def of_file(profile: Profile) -> pa.Table:
        if not profile.has(table) or profile.has("activity_summary"):
            return histogram_table(["name"], ())
        rows: Iterable[Sequence[Any]] = (
            WITH_BYTES[table](profile) if table in WITH_BYTES else durations_by_name(profile, table)
        )
        return histogram_table(["name"], (((name,), durations) for name, durations, *_ in rows))

    return State(schema, of_file, lambda rows: combined(rows, ["name"]))


SUMS: Final = State(
    _sum_schema("activity_sums", "all activities of one name; all API calls"), _sums_of, _added
)
# For questions about one table, which need more than `SUMS` has, or less.
SUMS_OF: Final = {
    "kernels": _sums_state("kernels", "all kernels of one name"),
    "api_calls": _sums_state("api_calls", "all calls of one API function"),
}
PRINTED: Final = State(
    Schema("printed_sums", ACTIVITY_SUMMARY.row, ACTIVITY_SUMMARY.columns), _printed
)
DURATIONS: Final = {table: _durations(table) for table in SOURCES}
SUM_STATES: Final = (SUMS, PRINTED)


def sums_of_job(job: JobStates) -> list[Row]:
    """The rows of `activity_sums` for a job, the costliest of a kind first."""
    printed: list[Row] = job.rows(PRINTED).to_pylist()
    return printed or [row for table in SOURCES for row in _of_kind(job.rows(SUMS), table)]


def summed_up_of_job(job: JobStates, table: str) -> list[Row]:
    """The rows of `summed_up` for a job."""
    rows = _of_kind(job.rows(SUMS_OF.get(table, SUMS)), table)
    of_name = {name: of for (name,), of in histograms(job.rows(DURATIONS[table]), ["name"])}
    for row in rows:
        if (durations := of_name.get(row["name"])) is not None:
            row["median_ns"] = durations.quantile(0.5)
            row["stddev_ns"] = durations.deviation(row["mean_ns"])
    return rows


def _of_kind(sums: pa.Table, table: str) -> list[Row]:
    kind = SOURCES[table]
    rows = [
        dict.fromkeys(ACTIVITY_SUMMARY.columns) | row | {"mean_ns": row["total_ns"] / row["calls"]}
        for row in sums.to_pylist()
        if row["activity_kind"] == kind
    ]
    return sorted(rows, key=lambda row: (-row["total_ns"], row["name"]))


def _of_job(job: JobStates) -> pa.Table:
    rows = job.rows(PRINTED).to_pylist() or [
        row for table in SOURCES for row in summed_up_of_job(job, table)
    ]
    return _named_rows(rows)


ANALYSIS: Final = Analysis(
    "All activities",
    ACTIVITIES,
    (),
    activity_summary,
    SUM_READS,
    needs_any_of=TABLES,
    merge=Merge((*SUM_STATES, *SUMS_OF.values(), *DURATIONS.values()), _of_job, ACCURACY),
)
