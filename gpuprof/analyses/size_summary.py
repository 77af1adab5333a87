"""Sizes of the copies of each kind, and of memsets."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.activity_summary import WITH_BYTES
from gpuprof.facts.copies import COPY_READS
from gpuprof.facts.durations import Figures, figures
from gpuprof.facts.histograms import ROUNDING, Words, distribution
from gpuprof.model.analysis import Analysis, per_file, reads, summed
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
    of_kinds: dict[str | None, Figures | None]
    if profile.job is None:
        of_kinds = {name: figures(sizes) for name, _, sizes in _sizes(profile)}
    else:
        of_kinds = {name: of for (name,), (of, _) in SIZES.of(profile).items()}
    rows = []
    for name, calls in zip(*profile.once(size_calls).columns, strict=True):
        row: dict[str, Any] = {"name": name.as_py(), "calls": calls.as_py()}
        if (of := of_kinds.get(row["name"])) is not None:
            row |= {f"{figure}_bytes": getattr(of, f"{figure}_ns") for figure in _FIGURES}
            row["bytes"] = of.total_ns if of.calls == row["calls"] else None
        rows.append(row)
    rows.sort(key=lambda row: (row.get("bytes") is None, -(row.get("bytes") or 0), row["name"]))
    return SIZE_SUMMARY.table(rows)


def _sizes(profile: Profile) -> Iterator[tuple[str, int, Int64s]]:
    """The name of each kind, the number of its calls, and those of their sizes that are known."""
    for table, by_kind in WITH_BYTES.items():
        for name, _, size in by_kind(profile) if profile.has(table) else ():
            yield name, len(size), size[size != UNKNOWN]


def _known_sizes(profile: Profile) -> Iterator[tuple[Words, Int64s]]:
    return (((name,), size) for name, _, size in _sizes(profile))


_FIGURES: Final = ("mean", "median", "min", "max", "stddev")
_CALLS: Final = Schema(
    "size_calls",
    SIZE_SUMMARY.row,
    {name: SIZE_SUMMARY.columns[name] for name in ("name", "calls")},
)
SIZES: Final = distribution("sizes", {"name": SIZE_SUMMARY.columns["name"]}, _known_sizes)


@per_file(_CALLS, lambda rows: summed(rows, ["name"], ["calls"]))
def size_calls(profile: Profile) -> pa.Table:
    """How many copies of each kind there are, and memsets, of known size or not."""
    return _CALLS.table([{"name": name, "calls": calls} for name, calls, _ in _sizes(profile)])


ANALYSIS: Final = Analysis(
    "Sizes of memory operations",
    SIZE_SUMMARY,
    (),
    size_summary,
    reads(COPY_READS, memsets="start_ns end_ns bytes"),
    needs_any_of=tuple(WITH_BYTES),
    of_files=(size_calls, *SIZES),
    accuracy=f"Of several files, median sizes {ROUNDING}.",
)
