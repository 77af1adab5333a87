"""How long after its API call each kind of activity starts."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.host_clock import host_clock, launched_ns
from gpuprof.facts.launches import LAUNCH_READS, launches
from gpuprof.facts.numbers import groups
from gpuprof.model.analysis import by, per_file
from gpuprof.model.derived import known
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

LAUNCH_LATENCY: Final = Schema(
    "launch_latency",
    "all activities of one kind whose launching call is known",
    {
        "activity_kind": Column(TEXT, "", "kernel, memcpy or memset.", required=True),
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
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


@per_file(
    LAUNCH_LATENCY,
    by(activity_kind="ascending", device_id="ascending"),
    needs=("api_calls", "kernels"),
)
def launch_latency(profile: Profile) -> pa.Table:
    """Measure the time from API call to start on the device.

    Where several calls have the id of an activity, the earliest counts. Of a CUDA graph's
    nodes, which share one call, each counts.

    Args:
        profile: Needs ``api_calls`` and ``kernels``.

    Returns:
        One row per kind and device, columns as in `LAUNCH_LATENCY`.
    """
    all_launches = launches(profile)
    activities = all_launches.activities
    places = np.arange(len(all_launches.order))
    waited = all_launches.of(activities.start_ns) - launched_ns(profile, places)
    agree = host_clock(profile).is_known
    rows = []
    for table, kind in _KINDS.items():
        low, high = activities.tables.get(table, (0, 0))
        of_kind = np.flatnonzero((all_launches.order >= low) & (all_launches.order < high))
        device = activities.device[all_launches.order[of_kind]]
        for alike in groups(device):
            waited_ns = waited[of_kind[alike]]
            early = int((waited_ns < 0).sum())
            row: dict[str, Any] = {"activity_kind": kind, "calls": len(alike), "early_calls": early}
            row["device_id"] = known(int(device[alike[0]]))
            if agree or not early:
                median, p95 = np.quantile(waited_ns, (0.5, 0.95)).tolist()
                row |= {"mean_ns": float(waited_ns.mean()), "median_ns": median, "p95_ns": p95}
                row["max_ns"] = int(waited_ns.max())
            rows.append(row)
    rows.sort(key=lambda r: (r["activity_kind"], r["device_id"] is None, r["device_id"] or 0))
    return LAUNCH_LATENCY.table(rows)


ANALYSIS: Final = launch_latency.analysis("Launch latency", LAUNCH_READS)
