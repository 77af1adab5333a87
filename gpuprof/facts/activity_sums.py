"""What the activities of each name add up to: sums alone, or with medians and deviations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.copies import COPY_READS, copy_rows
from gpuprof.facts.durations import (
    Durations,
    Figures,
    durations_by_name,
    figures,
    figures_by_name,
    sums,
    sums_by_name,
    total,
)
from gpuprof.facts.histograms import ROUNDING, Words, distribution
from gpuprof.facts.numbers import UNNAMED, groups, read_columns
from gpuprof.model.analysis import per_file, reads, summed
from gpuprof.model.data_model import ACTIVITY_SUMMARY
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Schema, Text

SHORT_NAME: Final = Text(
    "The function's own name, as nsys prints with :base; many may share it.", required=True
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
    api_calls="start_ns end_ns",
)
TABLES: Final = ("activity_summary", *SOURCES)

# Read once for all that need them.
_FIGURES_OF: Final = {t: partial(figures_by_name, table=t) for t in ("kernels", "api_calls")}
Row = dict[str, Any]


def summed_up(profile: Profile, table: str) -> list[Row]:
    """The activities of a trace table by name, the costliest first; none where it is absent."""
    if not profile.has(table):
        return []
    if profile.job is not None:
        of_files = DURATIONS[table].of(profile).items()
        rows: list[Row] = [{"name": name} | of._asdict() for (name,), (of, _) in of_files]
        if table in WITH_BYTES:
            of_tables = profile.once(trace_sums).to_pylist()
            size = {
                row["name"]: row["bytes"]
                for row in of_tables
                if row["activity_kind"] == SOURCES[table]
            }
            rows = [row | {"bytes": size[row["name"]]} for row in rows]
    elif table in WITH_BYTES:
        rows = _with_bytes(profile, table, figures)
    else:
        rows = _named(profile.once(_FIGURES_OF[table]))
    kind = SOURCES[table]
    rows.sort(key=lambda row: (-row["total_ns"], row["name"]))
    return [row | {"activity_kind": kind, "section": kind} for row in rows]


def activity_sums(profile: Profile) -> pa.Table:
    """The same without medians and deviations, of a trace with all API calls in one row.

    Totals and ranks need no more, and millions of API calls are read in half the time.
    """
    if profile.has("activity_summary"):
        return profile.table("activity_summary")
    # By column: of a hundred thousand names, rows take ten times as much memory.
    sums = profile.once(trace_sums)
    columns = {name: sums.column(name).to_pylist() for name in sums.column_names}
    table = [*map([*SOURCES.values()].index, columns["activity_kind"])]
    calls, total_ns, names = (columns[name] for name in ("calls", "total_ns", "name"))
    columns["mean_ns"] = [of / number for of, number in zip(total_ns, calls, strict=True)]
    order = sorted(range(len(table)), key=lambda row: (table[row], -total_ns[row], names[row]))
    return ACTIVITY_SUMMARY.of_columns(
        {name: [column[row] for row in order] for name, column in columns.items()}
    )


def kernel_sums(profile: Profile) -> list[tuple[str, int]]:
    """The name of each kernel, and the sum of its durations in ns."""
    is_summary = profile.has("activity_summary")
    sums = profile.table("activity_summary") if is_summary else profile.once(trace_sums)
    columns = (sums.column(name).to_pylist() for name in ("activity_kind", "name", "total_ns"))
    rows = zip(*columns, strict=True)
    return [(name, total_ns) for kind, name, total_ns in rows if kind == "kernel"]


_ALIKE: Final = ("activity_kind", "section", "name")
_SUMS: Final = Schema(
    "activity_sums",
    "all activities of one name; all API calls",
    {
        name: ACTIVITY_SUMMARY.columns[name]
        for name in (*_ALIKE, "calls", "total_ns", "min_ns", "max_ns", "bytes")
    },
)


_sum_up: Final = partial(
    summed, keys=_ALIKE, sums=("calls", "total_ns", "bytes"), least=("min_ns",), most=("max_ns",)
)


@per_file(_SUMS, _sum_up)
def trace_sums(profile: Profile) -> pa.Table:
    """What the activities of a trace add up to, by name; all API calls in one row."""
    rows: list[Row] = []
    for table in filter(profile.has, SOURCES):
        if table in WITH_BYTES:
            of_table = _with_bytes(profile, table, sums)
        elif table == "api_calls":
            calls = total_ns = 0
            for start, end in profile.columns(table, "start_ns", "end_ns"):
                calls += len(start)
                total_ns += int((end - start).sum())
            of_table = [{"name": "", "calls": calls, "total_ns": total_ns}] if calls else []
        else:
            of_table = _named(sums_by_name(profile, table))
        kind = SOURCES[table]
        rows += [row | {"activity_kind": kind, "section": kind} for row in of_table]
    return _SUMS.table(rows)


def _named(by_name: Mapping[str, Figures]) -> list[Row]:
    """Kernels or calls."""
    return [{"name": name} | of._asdict() for name, of in by_name.items()]


def _with_bytes(
    profile: Profile, table: str, of_durations: Callable[[Durations], Figures | None]
) -> list[Row]:
    """Copies or memsets."""
    return [
        {"name": name, **of._asdict(), "bytes": None if (size == UNKNOWN).any() else total(size)}
        for name, durations, size in durations_and_bytes(profile, table)
        if (of := of_durations(durations)) is not None
    ]


WITH_BYTES: Final = ("memcpys", "memsets")


def durations_and_bytes(profile: Profile, table: str) -> Iterator[tuple[str, Durations, Durations]]:
    """The name of each kind of copy, or of all memsets, with durations in ns and bytes."""
    if table == "memsets":
        start, end, size = read_columns(profile, table, "start_ns", "end_ns", "bytes")
        if len(start):
            yield "memset", end - start, size
        return
    copies = copy_rows(profile)
    for alike in groups(copies.kind):
        name = copies.kinds[copies.kind[alike[0]]] or UNNAMED
        yield name, copies.duration_ns[alike], copies.bytes[alike]


def _durations(profile: Profile, table: str) -> Iterator[tuple[Words, Durations]]:
    """How long the activities of each name of a table take."""
    if profile.has(table):
        of_table: Iterator[Sequence[Any]] = (
            durations_and_bytes if table in WITH_BYTES else durations_by_name
        )(profile, table)
        yield from (((name,), durations) for name, durations, *_ in of_table)


DURATIONS: Final = {
    table: distribution(
        f"durations_of_{table}",
        {"name": ACTIVITY_SUMMARY.columns["name"]},
        partial(_durations, table=table),
    )
    for table in SOURCES
}
ACCURACY: Final = f"Of several files, medians {ROUNDING}."
