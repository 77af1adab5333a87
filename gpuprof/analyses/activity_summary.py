"""Activities by name: all of them, kernels alone, and the sizes of copies and memsets."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.kernel_names import short_name
from gpuprof.facts.activity_sums import (
    ACCURACY,
    DURATIONS,
    SHORT_NAME,
    SOURCES,
    SUM_READS,
    TABLES,
    WITH_BYTES,
    durations_and_bytes,
    summed_up,
    trace_sums,
)
from gpuprof.facts.copies import COPY_READS
from gpuprof.facts.durations import Figures, figures
from gpuprof.facts.histograms import ROUNDING, distribution
from gpuprof.model.analysis import Analysis, per_file, reads, summed
from gpuprof.model.data_model import ACTIVITY_SUMMARY
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Schema, Text

ACTIVITIES: Final = Schema(
    ACTIVITY_SUMMARY.name,
    ACTIVITY_SUMMARY.row,
    {**ACTIVITY_SUMMARY.columns, "short_name": SHORT_NAME},
)
_OF_KERNELS: Final = ("calls", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")
KERNEL_SUMMARY: Final = Schema(
    "kernel_summary",
    "all executions of the kernels of one name, on all devices",
    {name: ACTIVITY_SUMMARY.columns[name] for name in _OF_KERNELS}
    | {"name": Text("Demangled name.", required=True), "short_name": SHORT_NAME},
)
SIZE_SUMMARY: Final = Schema(
    "size_summary",
    "all copies of one kind, or all memsets",
    {
        "name": Text("Memcpy kind, or memset.", required=True),
        "calls": ACTIVITY_SUMMARY.columns["calls"],
        "bytes": Bytes("Sum of sizes; null where one of them is unknown."),
        "mean_bytes": Column(FLOAT, "B", "Mean size of those that are known."),
        "median_bytes": Column(FLOAT, "B", "Median size of those that are known."),
        "min_bytes": Bytes("Smallest size."),
        "max_bytes": Bytes("Largest size."),
        "stddev_bytes": Column(FLOAT, "B", "Sample standard deviation; null for a single call."),
    },
)


def activity_summary(profile: Profile) -> pa.Table:
    """Sum up every activity, or pass on what a tool has summed up already.

    Staged peer copies are summed up as the DtoH and HtoD copies that the tool recorded, so
    that the rows agree with the tool's own; `totals` tells them apart.

    Returns:
        One row per activity, kernels first, the costliest first; columns as in
        `ACTIVITIES`. ``bytes`` is null where one call's bytes are unknown.
    """
    if profile.has("activity_summary"):
        rows = profile.table("activity_summary").to_pylist()
    else:
        rows = [row for table in SOURCES for row in summed_up(profile, table)]
    return ACTIVITIES.table([row | {"short_name": short_name(row["name"])} for row in rows])


def kernel_summary(profile: Profile) -> pa.Table:
    """Sum up the kernels by name: what `nsys stats --report cuda_gpu_kern_sum` prints.

    Returns:
        One row per name, the longest total first, columns as in `KERNEL_SUMMARY`.
    """
    rows = summed_up(profile, "kernels")
    return KERNEL_SUMMARY.table([row | {"short_name": short_name(row["name"])} for row in rows])


def size_summary(profile: Profile) -> pa.Table:
    """Sum up sizes: what `nsys stats --report cuda_gpu_mem_size_sum` prints.

    Returns:
        One row per memcpy kind, and one of memsets, the largest total first; columns as in
        `SIZE_SUMMARY`.
    """
    of_kinds: dict[str | None, Figures | None]
    if profile.job is None:
        of_kinds = {name: figures(sizes) for name, _, sizes in _sizes(profile)}
    else:
        of_kinds = {name: of for (name,), (of, _) in SIZES.of(profile).items()}
    rows = []
    for name, calls in zip(*profile.once(size_calls).columns, strict=True):
        row: dict[str, Any] = {"name": name.as_py(), "calls": calls.as_py()}
        if (of := of_kinds.get(row["name"])) is not None:
            row |= {f"{figure}_bytes": getattr(of, f"{figure}_ns") for figure in _OF_SIZES}
            row["bytes"] = of.total_ns if of.calls == row["calls"] else None
        rows.append(row)
    rows.sort(key=lambda row: (row.get("bytes") is None, -(row.get("bytes") or 0), row["name"]))
    return SIZE_SUMMARY.table(rows)


def _sizes(profile: Profile) -> Iterator[tuple[str, int, Int64s]]:
    """The name of each kind, the number of its calls, and those of their sizes that are known."""
    for table in filter(profile.has, WITH_BYTES):
        for name, _, size in durations_and_bytes(profile, table):
            yield name, len(size), size[size != UNKNOWN]


_OF_SIZES: Final = ("mean", "median", "min", "max", "stddev")
_CALLS: Final = Schema(
    "size_calls",
    SIZE_SUMMARY.row,
    {name: SIZE_SUMMARY.columns[name] for name in ("name", "calls")},
)
SIZES: Final = distribution(
    "sizes",
    {"name": SIZE_SUMMARY.columns["name"]},
    lambda profile: (((name,), size) for name, _, size in _sizes(profile)),
)


@per_file(_CALLS, lambda rows: summed(rows, ["name"], ["calls"]))
def size_calls(profile: Profile) -> pa.Table:
    """How many copies of each kind there are, and memsets, of known size or not."""
    return _CALLS.table([{"name": name, "calls": calls} for name, calls, _ in _sizes(profile)])


ANALYSIS: Final = Analysis(
    "All activities",
    ACTIVITIES,
    (),
    activity_summary,
    reads(SUM_READS, api_calls="name_id"),
    needs_any_of=TABLES,
    of_files=(trace_sums, *(part for of in DURATIONS.values() for part in of)),
    accuracy=ACCURACY,
)
KERNELS_ANALYSIS: Final = Analysis(
    "Kernels by name",
    KERNEL_SUMMARY,
    ("kernels",),
    kernel_summary,
    reads(kernels="start_ns end_ns name name_id"),
    of_files=DURATIONS["kernels"],
    accuracy=ACCURACY,
)
SIZES_ANALYSIS: Final = Analysis(
    "Sizes of memory operations",
    SIZE_SUMMARY,
    (),
    size_summary,
    reads(COPY_READS, memsets="start_ns end_ns bytes"),
    needs_any_of=WITH_BYTES,
    of_files=(size_calls, *SIZES),
    accuracy=f"Of several files, median sizes {ROUNDING}.",
)
