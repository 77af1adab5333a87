"""What each step would take if copies between devices cost less and nothing else changed.

These are estimates, and no bounds: they take the copies' own time away and leave all waiting as
it is. Where a late copy keeps another device waiting, a faster link wins more (NVLink in place of
copies through the host won 3.5 % of a solver's steps, and this says 1.2 %); where kernels run
slower beside copies, less.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.copies import transfer_times
from gpuprof.facts.phases import PHASE_READS, steps_by_phase
from gpuprof.facts.timeline import DeviceTimeline, timelines
from gpuprof.model.analysis import Analysis
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Intervals, covered_within, difference, together
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Id, Ns, Process, Schema, Share, Text

PLACEMENT_ESTIMATE: Final = Schema(
    "placement_estimate",
    "one training step, or the whole recording where no steps are found",
    {
        "process_id": Process("Process; null for the whole recording."),
        "phase": Text("The phase whose step it is; null for the whole recording."),
        "step": Count("0 for the first; null for the whole recording."),
        "source": Text("ranges, detected, or recording.", required=True),
        "device_id": Id(
            "Device that waits longest for peer copies: the estimates are for its time."
        ),
        "measured_ns": Ns("What the step took.", required=True),
        "peer_busy_ns": Ns("A peer copy runs on the device.", required=True),
        "peer_exposed_ns": Ns("A peer copy runs, and no kernel or other transfer.", required=True),
        "if_free_ns": Ns(
            "If every peer copy took no time: measured_ns - peer_exposed_ns. Kernels, other "
            "copies and idle time are assumed to stay as they are.",
            required=True,
            label="If copies took no time",
        ),
        "if_hidden_ns": Ns(
            "If every peer copy ran behind kernels: the same, or peer_busy_ns where that is more.",
            required=True,
            label="If copies were hidden",
        ),
        "if_none_hidden_ns": Ns(
            "If none ran behind anything: measured_ns + peer_busy_ns - peer_exposed_ns.",
            required=True,
            label="If no copy was hidden",
        ),
        "gain_if_free_share": Share(
            "peer_exposed_ns / measured_ns: what copies themselves cost, without waiting for them.",
            label="Gain if no time",
        ),
    },
)


def placement_estimate(profile: Profile) -> pa.Table:
    """Estimate what other placements, links or overlap of peer copies could win.

    The estimates are for the device that waits longest for peer copies. They ignore waiting: idle
    time that a late copy causes on any device is not counted as won, and kernels are assumed to
    run no slower beside copies.

    Returns:
        One row per step, columns as in `PLACEMENT_ESTIMATE`; one row for the whole recording
        where no steps are found; no rows where no device did anything.
    """
    part = profile.selection
    devices = [
        device
        for device in timelines(profile.unrestricted)
        if part.device_id in {None, device.device_id}
    ]
    peer = {device.device_id: _peer_copies(profile.unrestricted, device) for device in devices}
    rows = []
    for steps in steps_by_phase(profile):
        start, end = steps.start_ns, steps.end_ns
        working = [device.device_id for device in devices if device.number in steps.phase.devices]
        if not working:
            continue
        figures = np.array([[covered_within(of, start, end) for of in peer[d]] for d in working])
        # Busy and exposed, for each device and step.
        longest = figures[:, 1].argmax(axis=0)
        for step in np.flatnonzero(part.holds(start)).tolist():
            place = int(longest[step])
            busy, exposed = figures[place, :, step].tolist()
            of_step = {
                "process_id": steps.phase.process_id,
                "phase": steps.phase.name,
                "step": int(steps.number[step]),
                "source": steps.phase.source,
                "device_id": working[place],
            }
            rows.append(of_step | _estimates(int(end[step] - start[step]), busy, exposed))
    if not rows:
        rows = _whole_row(timelines(profile), peer)
    rows.sort(key=lambda row: (row["step"] or 0, row["process_id"] or 0, row["device_id"] or 0))
    return PLACEMENT_ESTIMATE.table(rows)


def _peer_copies(profile: Profile, device: DeviceTimeline) -> tuple[Intervals, Intervals]:
    """When peer copies run on a device, and when nothing else does that they could wait for."""
    running: list[Intervals] = []
    host_copies: list[Intervals] = []
    for (route, end), instants in transfer_times(profile).items():
        if end == device.device_id:
            (host_copies if HOST in {route.src, route.dst} else running).append(instants)
    busy = together(running)
    return busy, difference(difference(busy, device.kernels), together(host_copies))


def _whole_row(
    devices: tuple[DeviceTimeline, ...], peer: dict[int | None, tuple[Intervals, Intervals]]
) -> list[dict[str, Any]]:
    if not devices:
        return []
    figures = [
        [int(covered_within(of, d.span.start, d.span.end).sum()) for of in peer[d.device_id]]
        for d in devices
    ]
    device, (busy, exposed) = max(
        zip(devices, figures, strict=True), key=lambda device_and_figures: device_and_figures[1][1]
    )
    place = {"process_id": None, "phase": None, "step": None, "source": "recording"}
    estimates = _estimates(device.span.length, busy, exposed)
    return [place | {"device_id": device.device_id} | estimates]


def _estimates(measured: int, busy: int, exposed: int) -> dict[str, Any]:
    return {
        "measured_ns": measured,
        "peer_busy_ns": busy,
        "peer_exposed_ns": exposed,
        "if_free_ns": measured - exposed,
        "if_hidden_ns": max(measured - exposed, busy),
        "if_none_hidden_ns": measured + busy - exposed,
        "gain_if_free_share": exposed / measured if measured else None,
    }


ANALYSIS: Final = Analysis(
    "Estimates of what cheaper peer copies could win, waiting ignored",
    PLACEMENT_ESTIMATE,
    ("kernels", "memcpys"),
    placement_estimate,
    PHASE_READS,
)
