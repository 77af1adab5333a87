"""Profile -> table: each analysis is one pure function in one file and one line in `ANALYSES`.

`report` runs every one whose needs a recording meets, in this order; those of `LONG` only by
their names.
"""

from typing import Final

from gpuprof.analyses import (
    activity_summary,
    alternation,
    breakdown,
    collectives,
    copy_sizes,
    copy_speeds,
    device_map,
    findings,
    gaps,
    kernel_summary,
    lanes,
    launch_latency,
    marked_epochs,
    monitoring,
    peer_matrix,
    ping_pong,
    placement,
    placement_bound,
    placement_hints,
    ranges,
    repeated_transfers,
    size_summary,
    steps,
    synchronising_calls,
    tensor_transfers,
    top_activities,
    totals,
    transfers,
    utilisation,
    utilisation_over_time,
)
from gpuprof.analyses.contract import Analysis

ANALYSES: Final[tuple[Analysis, ...]] = (
    findings.ANALYSIS,
    totals.ANALYSIS,
    breakdown.ANALYSIS,
    utilisation.ANALYSIS,
    transfers.ANALYSIS,
    peer_matrix.ANALYSIS,
    ping_pong.ANALYSIS,
    alternation.ANALYSIS,
    repeated_transfers.ANALYSIS,
    placement_bound.ANALYSIS,
    steps.ANALYSIS,
    ranges.ANALYSIS,
    collectives.ANALYSIS,
    copy_speeds.ANALYSIS,
    copy_sizes.ANALYSIS,
    utilisation_over_time.ANALYSIS,
    gaps.ANALYSIS,
    launch_latency.ANALYSIS,
    synchronising_calls.ANALYSIS,
    device_map.ANALYSIS,
    marked_epochs.ANALYSIS,
    monitoring.ANALYSIS,
    top_activities.ANALYSIS,
    placement_hints.ANALYSIS,
    placement.ANALYSIS,
    placement.EDGES_ANALYSIS,
    tensor_transfers.PER_STEP_ANALYSIS,
    tensor_transfers.ANALYSIS,
    activity_summary.ANALYSIS,
    kernel_summary.ANALYSIS,
    size_summary.ANALYSIS,
)
# Made for pictures: too long to be read.
LONG: Final[tuple[Analysis, ...]] = (lanes.ANALYSIS, lanes.OVER_TIME_ANALYSIS)


def analysis_named(name: str) -> Analysis | None:
    """The analysis of this name, or None where there is none."""
    return next((analysis for analysis in (*ANALYSES, *LONG) if analysis.name == name), None)
