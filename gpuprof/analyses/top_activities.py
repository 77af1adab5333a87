"""The kernels, copies and memsets that cost most."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.totals import ANALYSIS as TOTALS
from gpuprof.analyses.totals import ratio, totals
from gpuprof.base.kernel_names import short_name
from gpuprof.facts.activity_sums import SHORT_NAME, SUM_READS, TABLES, activity_sums
from gpuprof.facts.copies import COPY_READS
from gpuprof.facts.excerpts import GPU_KINDS
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import ACTIVITY_SUMMARY, FLOAT, INT, TEXT, Column, Schema

_ROWS: Final = 10

TOP_ACTIVITIES: Final = Schema(
    "top_activities",
    "one of the ten GPU activities with the greatest total time, of each kind the first at least",
    {
        "rank": Column(INT, "1", "1 for the costliest of these.", required=True),
        "activity_kind": Column(TEXT, "", "kernel, memcpy or memset.", required=True),
        "name": Column(TEXT, "", "Kernel name; memcpy kind for copies.", required=True),
        "short_name": SHORT_NAME,
        "calls": Column(INT, "1", "How often."),
        "total_ns": Column(INT, "ns", "Sum of durations over all processes and devices."),
        "share": Column(
            FLOAT, "1", "Share of all GPU activities' time, or of what it is implied to be."
        ),
        "mean_ns": Column(FLOAT, "ns", "Mean."),
        "min_ns": Column(INT, "ns", "Shortest."),
        "max_ns": Column(INT, "ns", "Longest."),
    },
)


def top_activities(profile: Profile) -> pa.Table:
    """Rank the GPU activities by their total time.

    Args:
        profile: Needs a summary, or one of the trace tables.

    Returns:
        At most ten rows, the first kernel, memcpy and memset among them; columns as in
        `TOP_ACTIVITIES`. No rows if nothing ran.
    """
    rows = merged_runs(profile.once(activity_sums).to_pylist())
    gpu = [row for row in rows if row["activity_kind"] in GPU_KINDS]
    ordered = sorted(gpu, key=lambda row: (-(row["total_ns"] or 0), row["name"]))
    kinds = [row["activity_kind"] for row in ordered]
    # The costliest of each kind, and the costliest of all: by their places.
    first = sorted({*map(kinds.index, kinds)})
    later = [place for place in range(len(ordered)) if place not in first]
    ranked = [ordered[place] for place in sorted([*first, *later][:_ROWS])]
    gpu_ns = _whole_ns(profile.once(totals))
    return TOP_ACTIVITIES.table(
        [
            {name: row[name] for name in TOP_ACTIVITIES.columns if name in row}
            | {
                "rank": rank,
                "share": ratio(row["total_ns"], gpu_ns),
                "short_name": short_name(row["name"]),
            }
            for rank, row in enumerate(ranked, start=1)
        ]
    )


def _whole_ns(totals_table: pa.Table) -> int | None:
    (everything,) = [
        row for row in totals_table.to_pylist() if row["activity_group"] == "gpu_activities"
    ]
    total_ns: int | None = everything["total_ns"] or everything["implied_ns"]
    return total_ns


def merged_runs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an activity summary with the processes of a file added up by name.

    Where a name has one row, it is kept as it is. Medians and deviations of several cannot be
    joined and are null.
    """
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["activity_kind"], row["name"]
        merged[key] = _merged(merged[key], row) if key in merged else row
    return list(merged.values())


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    pairs = {name: (first[name], second[name]) for name in ACTIVITY_SUMMARY.columns}
    is_known = {name: None not in pair for name, pair in pairs.items()}
    row = dict.fromkeys(ACTIVITY_SUMMARY.columns) | {
        name: first[name] for name in ("activity_kind", "name", "section")
    }
    added = {n: sum(pairs[n]) for n in ("calls", "total_ns", "bytes") if is_known[n]}
    least = {"min_ns": min(pairs["min_ns"])} if is_known["min_ns"] else {}
    most = {"max_ns": max(pairs["max_ns"])} if is_known["max_ns"] else {}
    row |= added | least | most
    if row["total_ns"] is not None and row["calls"]:
        row["mean_ns"] = row["total_ns"] / row["calls"]
    return row


ANALYSIS: Final = Analysis(
    "Costliest activities",
    TOP_ACTIVITIES,
    (),
    top_activities,
    reads(SUM_READS, COPY_READS),
    needs_any_of=TABLES,
    of_files=TOTALS.of_files,
)
