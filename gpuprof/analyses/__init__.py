"""Profile -> table: each analysis is one pure function in one file and one line in `ANALYSES`.

`report` runs every one whose needs a recording meets, in this order; those of `LONG` only by
their names.
"""

from importlib import import_module
from typing import Final

from gpuprof.analyses.contract import Analysis
from gpuprof.base.errors import UsageError, one_of

# Name of an analysis -> its module here, which is imported when the analysis is asked for.
ANALYSES: Final = {
    "bottom_line": "findings.bottom_line",
    "findings": "findings.findings",
    "totals": "totals.totals",
    "breakdown": "time.breakdown",
    "utilisation": "time.utilisation",
    "transfers": "transfers.transfers",
    "peer_matrix": "transfers.peer_matrix",
    "slow_links": "transfers.slow_links",
    "ping_pong": "transfers.ping_pong",
    "alternation": "placement.alternation",
    "repeated_transfers": "transfers.repeated_transfers",
    "placement_estimate": "placement.placement_estimate",
    "phases": "time.phases",
    "steps": "time.steps",
    "ranks": "time.ranks",
    "rank_quantiles": "time.rank_quantiles",
    "rank_groups": "time.rank_groups",
    "ranges": "time.ranges",
    "collectives": "transfers.collectives",
    "collective_waits": "transfers.collective_waits",
    "clock_offsets": "transfers.clock_offsets",
    "copy_speeds": "transfers.copy_speeds",
    "copy_sizes": "transfers.copy_sizes",
    "utilisation_over_time": "time.utilisation_over_time",
    "gaps": "time.gaps",
    "pauses": "time.pauses",
    "launch_latency": "time.launch_latency",
    "synchronising_calls": "time.synchronising_calls",
    "device_map": "placement.device_map",
    "marked_epochs": "time.marked_epochs",
    "monitoring": "time.monitoring",
    "top_activities": "totals.top_activities",
    "placement_hints": "placement.placement_hints",
    "placement": "placement.placement",
    "placement_edges": "placement.placement:EDGES_ANALYSIS",
    "tensor_transfers_per_step": "transfers.tensor_transfers:PER_STEP_ANALYSIS",
    "tensor_transfers": "transfers.tensor_transfers",
    "activity_summary": "totals.activity_summary",
    "kernel_summary": "totals.kernel_summary",
    "kernel_occupancy": "totals.kernel_occupancy",
    "size_summary": "totals.size_summary",
}
# Made for pictures: too long to be read.
LONG: Final = {
    "ranks_over_time": "time.ranks_over_time",
    "lanes": "time.lanes",
    "lanes_over_time": "time.lanes:OVER_TIME_ANALYSIS",
    "lane_kernels": "time.lane_kernels",
    "lane_ranges": "time.lane_ranges",
}
_MODULES: Final = ANALYSES | LONG


def analysis_named(name: str) -> Analysis:
    """The analysis of this name.

    Raises:
        UsageError: There is none.
    """
    if name not in _MODULES:
        msg = f"there is no table {name}"
        raise UsageError(msg, one_of("Tables", name, [*_MODULES]))
    module, _, constant = _MODULES[name].partition(":")
    analysis: Analysis = getattr(
        import_module(f"gpuprof.analyses.{module}"), constant or "ANALYSIS"
    )
    return analysis


def all_analyses() -> list[Analysis]:
    """Every analysis, those of `LONG` last."""
    return [*map(analysis_named, _MODULES)]
