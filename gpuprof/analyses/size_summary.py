"""Sizes of the copies of each kind, and of memsets."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.activity_summary import WITH_BYTES
from gpuprof.facts.copies import COPY_READS
from gpuprof.facts.durations import figures, total
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
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import ACTIVITY_SUMMARY, FLOAT, INT, TEXT, Column, Schema

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


def size_summary(profile: Profile) -> pa.Table:
    """Sum up sizes: what `nsys stats --report cuda_gpu_mem_size_sum` prints.

    Args:
        profile: Needs ``memcpys`` or ``memsets``.

    Returns:
        One row per memcpy kind, and one of memsets, the largest total first; columns as in
        `SIZE_SUMMARY`.
    """
    return _largest_first(
        [_sums(name, calls, size) | _figures(size) for name, calls, size in _sizes(profile)]
    )


def _sizes(profile: Profile) -> Iterator[tuple[str, int, Int64s]]:
    """The name of each kind, the number of its calls, and those of their sizes that are known."""
    for table, by_kind in WITH_BYTES.items():
        for name, _, size in by_kind(profile) if profile.has(table) else ():
            yield name, len(size), size[size != UNKNOWN]


def _sums(name: str, calls: int, size: Int64s) -> dict[str, Any]:
    # Of sizes that are known, the sum tells the mean.
    known_bytes = total(size)
    sums = {"name": name, "calls": calls, "known_bytes": known_bytes}
    return sums | {"bytes": known_bytes if len(size) == calls else None}


def _figures(size: Int64s) -> dict[str, Any]:
    of = figures(size)
    names = ("mean", "median", "min", "max", "stddev")
    return {} if of is None else {f"{name}_bytes": getattr(of, f"{name}_ns") for name in names}


def _largest_first(rows: list[dict[str, Any]]) -> pa.Table:
    rows.sort(key=lambda row: (row["bytes"] is None, -(row["bytes"] or 0), row["name"]))
    return SIZE_SUMMARY.table(rows)


_SUMS: Final = Schema(
    "size_sums",
    SIZE_SUMMARY.row,
    {name: SIZE_SUMMARY.columns[name] for name in ("name", "calls", "bytes")}
    | {"known_bytes": Column(INT, "B", "Sum of the sizes that are known.")},
)
SIZE_SUMS: Final = State(
    _SUMS,
    lambda profile: _SUMS.table([_sums(*of_kind) for of_kind in _sizes(profile)]),
    lambda rows: summed(rows, ["name"], ["calls", "bytes", "known_bytes"]),
)
SIZES: Final = State(
    Schema("sizes", "one size", {"name": SIZE_SUMMARY.columns["name"], **HISTOGRAM}),
    lambda profile: histogram_table(["name"], (((name,), of) for name, _, of in _sizes(profile))),
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
    return _largest_first(rows)


ANALYSIS: Final = Analysis(
    "Sizes of memory operations",
    SIZE_SUMMARY,
    (),
    size_summary,
    reads(COPY_READS, memsets="start_ns end_ns bytes"),
    needs_any_of=tuple(WITH_BYTES),
    merge=Merge(
        (SIZE_SUMS, SIZES),
        _of_job,
        f"Sizes are exact for up to {MOST_VALUES:,} different ones of a kind, else all but the sum"
        f" and the mean are good to {ROUNDING}.",
    ),
)
