"""Profile -> table: each analysis is one pure function in one file and one line in `ANALYSES`.

`report` runs every one whose needs a recording meets, in this order; those of `LONG` only by
their names.
"""

from importlib import import_module
from typing import Final

from gpuprof.base.errors import UsageError, one_of
from gpuprof.model.analysis import Analysis

# Name of an analysis -> its module, which is imported when the analysis is asked for.
ANALYSES: Final = {
    "bottom_line": "findings.bottom_line",
    "findings": "findings.findings",
    "totals": "analyses.totals",
    "breakdown": "analyses.breakdown",
    "utilisation": "analyses.breakdown:UTILISATION_ANALYSIS",
    "transfers": "analyses.transfers",
    "peer_matrix": "analyses.peer_matrix",
    "slow_links": "analyses.peer_matrix:SLOW_LINKS_ANALYSIS",
    "ping_pong": "analyses.avoidable_copies:PING_PONG_ANALYSIS",
    "alternation": "analyses.avoidable_copies:ALTERNATION_ANALYSIS",
    "repeated_transfers": "analyses.avoidable_copies:REPEATED_ANALYSIS",
    "module_moves": "analyses.module_moves",
    "placement_estimate": "analyses.placement_estimate",
    "phases": "analyses.steps:PHASES_ANALYSIS",
    "steps": "analyses.steps",
    "ranks": "analyses.ranks",
    "rank_quantiles": "analyses.ranks:QUANTILES_ANALYSIS",
    "rank_groups": "analyses.ranks:GROUPS_ANALYSIS",
    "ranges": "analyses.ranges",
    "movements": "analyses.movements",
    "collectives": "analyses.collectives",
    "collective_waits": "analyses.collectives:WAITS_ANALYSIS",
    "clock_offsets": "analyses.clock_offsets",
    "copy_speeds": "analyses.copy_speeds",
    "copy_sizes": "analyses.copy_speeds:SIZES_ANALYSIS",
    "utilisation_over_time": "analyses.breakdown:UTILISATION_OVER_TIME_ANALYSIS",
    "gpu_metric_means": "analyses.samples:METRICS_ANALYSIS",
    "gaps": "analyses.pauses:GAPS_ANALYSIS",
    "pauses": "analyses.pauses",
    "launch_latency": "analyses.api_calls:LATENCY_ANALYSIS",
    "synchronising_calls": "analyses.api_calls:SYNCHRONISING_ANALYSIS",
    "device_map": "analyses.device_map",
    "marked_epochs": "analyses.samples:EPOCHS_ANALYSIS",
    "monitoring": "analyses.samples:MONITORING_ANALYSIS",
    "top_activities": "analyses.totals:TOP_ANALYSIS",
    "placement_hints": "analyses.placement:HINTS_ANALYSIS",
    "placement": "analyses.placement",
    "placement_edges": "analyses.placement:EDGES_ANALYSIS",
    "tensor_transfers_per_step": "analyses.placement:PER_STEP_ANALYSIS",
    "tensor_transfers": "analyses.placement:TENSORS_ANALYSIS",
    "activity_summary": "analyses.activity_summary",
    "kernel_summary": "analyses.activity_summary:KERNELS_ANALYSIS",
    "kernel_occupancy": "analyses.kernel_occupancy",
    "operator_rates": "analyses.operator_rates",
    "step_flops": "analyses.operator_rates:STEPS_ANALYSIS",
    "memory": "analyses.memory",
    "size_summary": "analyses.activity_summary:SIZES_ANALYSIS",
}
# Made for pictures: too long to be read.
LONG: Final = {
    "ranks_over_time": "analyses.ranks_over_time",
    "ranks_in_step": "analyses.lanes:RANKS_IN_STEP_ANALYSIS",
    "memory_over_time": "analyses.memory:OVER_TIME_ANALYSIS",
    "lanes": "analyses.lanes",
    "lanes_over_time": "analyses.lanes:OVER_TIME_ANALYSIS",
    "lanes_in_step": "analyses.lanes:IN_STEP_ANALYSIS",
    "lane_kernels": "analyses.lane_details:KERNELS_ANALYSIS",
    "lane_ranges": "analyses.lane_details:RANGES_ANALYSIS",
    "gpu_metrics_over_time": "analyses.samples:OVER_TIME_ANALYSIS",
}
_MODULES: Final = ANALYSES | LONG


def analysis_named(name: str) -> Analysis:
    """The analysis of this name.

    Raises:
        UsageError: There is none.
        TypeError: It is no text.
    """
    if not isinstance(name, str):
        msg = f"a table name must be text, not {type(name).__name__}"
        raise TypeError(msg)
    if name not in _MODULES:
        msg = f"there is no table {name}"
        raise UsageError(msg, one_of("Tables", name, [*_MODULES]))
    module, _, constant = _MODULES[name].partition(":")
    analysis: Analysis = getattr(import_module(f"gpuprof.{module}"), constant or "ANALYSIS")
    return analysis


def all_analyses() -> list[Analysis]:
    """Every analysis, those of `LONG` last."""
    return [*map(analysis_named, _MODULES)]
