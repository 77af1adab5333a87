"""API calls: those in which the host waits for a device, and how long what they launch waits."""

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import is_waiting
from gpuprof.facts.durations import figures
from gpuprof.facts.host_clock import host_clock, launched_ns
from gpuprof.facts.launches import LAUNCH_READS, launches
from gpuprof.facts.numbers import columns_of, groups, rows_named
from gpuprof.model.analysis import by, per_file, reads
from gpuprof.model.derived import if_known
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Column, Count, Id, Ns, Process, Schema, Text

SYNCHRONISING_CALLS: Final = Schema(
    "synchronising_calls",
    "all calls of one function of the API that returns when work on a device has ended",
    {
        "name": Text("cudaStreamSynchronize, cudaMemcpy, ...", required=True),
        "process_id": Process("Operating-system process; null where unknown."),
        "calls": Count("How often.", required=True),
        "total_ns": Ns("Host time spent in it.", required=True),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "max_ns": Ns("Longest."),
    },
)

_FIGURES: Final = ("calls", "total_ns", "mean_ns", "max_ns")


@per_file(
    SYNCHRONISING_CALLS,
    by(total_ns="descending", name="ascending", process_id="ascending"),
    needs=("api_calls",),
)
def synchronising_calls(profile: Profile) -> pa.Table:
    """Sum up the calls that wait: synchronisations, synchronous copies and frees.

    Returns:
        One row per function and process, the longest total first, columns as in
        `SYNCHRONISING_CALLS`. It is host time, not to be added to the time of devices.
    """
    names = [name for name in profile.loaded("api_calls").names.distinct if is_waiting(name)]
    parts = rows_named(profile, "api_calls", names, "start_ns", "end_ns", "process_id")
    start, end, process, name = columns_of(parts, 4)
    rows: list[dict[str, Any]] = []
    for alike in groups(name, process):
        of = figures((end - start)[alike])
        if of is not None:
            process_id = if_known(int(process[alike[0]]))
            of_calls = {figure: getattr(of, figure) for figure in _FIGURES}
            rows.append({"name": names[name[alike[0]]], "process_id": process_id, **of_calls})
    rows.sort(
        key=lambda row: (
            -row["total_ns"],
            row["name"],
            (math.inf if row["process_id"] is None else row["process_id"]),
        )
    )
    return SYNCHRONISING_CALLS.table(rows)


SYNCHRONISING_ANALYSIS: Final = synchronising_calls.analysis(
    "Calls that wait for a device",
    reads(api_calls="start_ns end_ns name name_id process_id is_waiting"),
)


LAUNCH_LATENCY: Final = Schema(
    "launch_latency",
    "all activities of one kind whose launching call is known",
    {
        "activity_kind": Text("kernel, memcpy or memset.", required=True),
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "calls": Count("How many.", required=True),
        "early_calls": Count(
            "Those that start before their call: the clocks of host and device disagree, and "
            "the latencies below are null.",
            required=True,
        ),
        "mean_ns": Column(FLOAT, "ns", "From start of the call to start on the device, mean."),
        "median_ns": Column(FLOAT, "ns", "Median; time spent queueing behind others included."),
        "p95_ns": Column(FLOAT, "ns", "95 % waited no longer."),
        "max_ns": Ns("Longest."),
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
            row["device_id"] = if_known(int(device[alike[0]]))
            if agree or not early:
                median, p95 = np.quantile(waited_ns, (0.5, 0.95)).tolist()
                row |= {"mean_ns": float(waited_ns.mean()), "median_ns": median, "p95_ns": p95}
                row["max_ns"] = int(waited_ns.max())
            rows.append(row)
    rows.sort(key=lambda r: (r["activity_kind"], r["device_id"] is None, r["device_id"] or 0))
    return LAUNCH_LATENCY.table(rows)


LATENCY_ANALYSIS: Final = launch_latency.analysis("Launch latency", LAUNCH_READS)
