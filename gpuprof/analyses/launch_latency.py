"""How long after its API call each kind of activity starts."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.host_activity import clocks_agree
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema

LAUNCH_LATENCY: Final = Schema(
    "launch_latency",
    "all activities of one kind whose launching call is known",
    {
        "activity_kind": Column(TEXT, "", "kernel, memcpy or memset.", required=True),
        "device_id": Column(INT, "1", "CUDA device ordinal; null where unknown."),
        "calls": Column(INT, "1", "How many.", required=True),
        "early_calls": Column(
            INT,
            "1",
            "Those that start before their call: the clocks of host and device disagree, and "
            "the latencies below are null.",
            required=True,
        ),
        "mean_ns": Column(FLOAT, "ns", "From start of the call to start on the device, mean."),
        "median_ns": Column(FLOAT, "ns", "Median; time spent queueing behind others included."),
        "p95_ns": Column(FLOAT, "ns", "95 % waited no longer."),
        "max_ns": Column(INT, "ns", "Longest."),
    },
)
_KINDS: Final = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset"}


def launch_latency(profile: Profile) -> pa.Table:
    """Measure the time from API call to start on the device.

    Where several calls bear the id of an activity, the earliest counts. Of a CUDA graph's
    nodes, which share one call, each counts.

    Args:
        profile: Needs ``api_calls`` and ``kernels``.

    Returns:
        One row per kind and device, columns as in `LAUNCH_LATENCY`.
    """
    parts = " UNION ALL ".join(
        f"SELECT '{kind}' AS activity_kind, device_id, process_id, correlation_id, start_ns"
        f" FROM {table} WHERE correlation_id IS NOT NULL"
        for table, kind in _KINDS.items()
        if profile.has(table)
    )
    known = "CASE WHEN early_calls = 0 OR agrees THEN"
    agrees = "true" if clocks_agree(profile) else "false"
    return LAUNCH_LATENCY.conform(
        profile.query(f"""
        WITH calls AS (
            SELECT coalesce(process_id, -1) AS process, correlation_id, min(start_ns) AS launch_ns
            FROM whole.api_calls WHERE correlation_id IS NOT NULL GROUP BY ALL),
        figures AS (
            SELECT activity_kind, device_id, count(*) AS calls,
                count(*) FILTER (latency_ns < 0) AS early_calls, {agrees} AS agrees,
                avg(latency_ns) AS mean_ns, quantile_cont(latency_ns, 0.5) AS median_ns,
                quantile_cont(latency_ns, 0.95) AS p95_ns, max(latency_ns) AS max_ns
            FROM (SELECT activity_kind, device_id, start_ns - launch_ns AS latency_ns
                FROM ({parts}) a JOIN calls c
                ON coalesce(a.process_id, -1) = c.process AND a.correlation_id = c.correlation_id)
            GROUP BY activity_kind, device_id)
        SELECT activity_kind, device_id, calls, early_calls, {known} mean_ns END AS mean_ns,
            {known} median_ns END AS median_ns, {known} p95_ns END AS p95_ns,
            {known} max_ns END AS max_ns
        FROM figures ORDER BY activity_kind, device_id""")
    )


ANALYSIS: Final = Analysis(
    "Launch latency", LAUNCH_LATENCY, ("api_calls", "kernels"), launch_latency
)
