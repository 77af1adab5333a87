"""What each device did in twenty equal slices of the recording."""

from typing import Final

import pyarrow as pa

from gpuprof.facts.timeline import TIMELINE_READS, TRANSFER, slice_borders, timelines
from gpuprof.model.analysis import Analysis
from gpuprof.model.intervals import covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, Column, Schema, instant_column

_SLICES: Final = 20

UTILISATION_OVER_TIME: Final = Schema(
    "utilisation_over_time",
    "one device in one slice of the time from the first activity to the last",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where none was recorded."),
        "start_ns": instant_column("Start of the slice.", required=True),
        "end_ns": instant_column("Its end.", required=True),
        "kernel_ns": Column(INT, "ns", "At least one kernel runs.", required=True),
        "kernel_share": Column(FLOAT, "1", "kernel_ns / length of the slice."),
        "exposed_transfer_ns": Column(INT, "ns", "A transfer runs, and no kernel.", required=True),
    },
)


def utilisation_over_time(profile: Profile) -> pa.Table:
    """Cut the time into twenty slices, the same for all devices.

    Args:
        profile: Needs ``kernels`` and ``memcpys``.

    Returns:
        Twenty rows per device that did any work, columns as in `UTILISATION_OVER_TIME`; fewer
        where the time has not as many ns.
    """
    devices = [timeline for timeline in timelines(profile) if len(timeline.span)]
    borders = slice_borders(devices, _SLICES)
    start, end = borders[:-1], borders[1:]
    rows = []
    for timeline in devices:
        kernels = timeline.kernel_ns(start, end)
        exposed = covered_within(timeline.exposed[TRANSFER], start, end)
        columns = (start.tolist(), end.tolist(), kernels.tolist(), exposed.tolist())
        rows += [
            {
                "device_id": timeline.device_id,
                "start_ns": begun,
                "end_ns": ended,
                "kernel_ns": busy,
                "kernel_share": busy / (ended - begun),
                "exposed_transfer_ns": waited,
            }
            for begun, ended, busy, waited in zip(*columns, strict=True)
        ]
    return UTILISATION_OVER_TIME.table(rows)


ANALYSIS: Final = Analysis(
    "Utilisation over time",
    UTILISATION_OVER_TIME,
    ("kernels", "memcpys"),
    utilisation_over_time,
    TIMELINE_READS,
)
