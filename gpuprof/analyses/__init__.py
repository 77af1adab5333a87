"""Profile -> table: each analysis is one pure function in one file and one line in `ANALYSES`.

`report` runs every one whose needs a recording meets, in this order; those of `LONG` only by
their names.
"""

from typing import Final

from gpuprof.analyses import findings
from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.placement import (
    alternation,
    device_map,
    placement,
    placement_bound,
    placement_hints,
)
from gpuprof.analyses.time import (
    breakdown,
    gaps,
    lanes,
    launch_latency,
    marked_epochs,
    monitoring,
    ranges,
    steps,
    synchronising_calls,
    utilisation,
    utilisation_over_time,
)
from gpuprof.analyses.totals import (
    activity_summary,
    kernel_summary,
    size_summary,
    top_activities,
    totals,
)
from gpuprof.analyses.transfers import (
    collectives,
    copy_sizes,
    copy_speeds,
    peer_matrix,
    ping_pong,
    repeated_transfers,
    tensor_transfers,
    transfers,
)

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
