"""Profile -> table: each analysis is one pure function in one file and one line in `ANALYSES`.

`report` runs every one whose needs a recording meets, in this order.
"""

from typing import Final

from gpuprof.analyses import (
    activity_summary,
    breakdown,
    peer_matrix,
    ranges,
    tensor_transfers,
    top_activities,
    totals,
    transfers,
)
from gpuprof.analyses.contract import Analysis

ANALYSES: Final[tuple[Analysis, ...]] = (
    totals.ANALYSIS,
    breakdown.ANALYSIS,
    transfers.ANALYSIS,
    peer_matrix.ANALYSIS,
    ranges.ANALYSIS,
    top_activities.ANALYSIS,
    tensor_transfers.PER_STEP_ANALYSIS,
    tensor_transfers.ANALYSIS,
    activity_summary.ANALYSIS,
)


def analysis_named(name: str) -> Analysis | None:
    """The analysis of this name, or None where there is none."""
    return next((analysis for analysis in ANALYSES if analysis.name == name), None)
