"""What each device's time went to, how much of it ran kernels, and why not more."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.host_clock import HOST_READS, host_calls, host_clock
from gpuprof.facts.kernel_kinds import KIND_READS, LAYOUT, kernels_of_kinds, kind_of
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    DEVICE_ID,
    LOCAL_COPY,
    SLICE,
    TIMELINE_READS,
    TRANSFER,
    slice_borders,
    timelines,
)
from gpuprof.model.analysis import Analysis, ordered, per_file, reads, summed
from gpuprof.model.intervals import covered_within, difference, intersection, together, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Flag, Ns, Schema, Share, Text

# Layers beside compute, as columns name them.
LAYER_NAMES: Final = {
    COMMUNICATION: "communication",
    TRANSFER: "transfer",
    LOCAL_COPY: "local_copy",
}

BREAKDOWN: Final = Schema(
    "breakdown",
    "one device that did any work",
    {
        "device_id": DEVICE_ID,
        "span_ns": Ns(
            "First start to last end, or the part of it that is looked at; of several recordings of"
            " a process, of all of them.",
            required=True,
        ),
        "compute_ns": Ns("A compute kernel runs.", required=True),
        "exposed_communication_ns": Ns(
            "A communication kernel runs, and no compute kernel.", required=True
        ),
        "exposed_transfer_ns": Ns("A transfer runs, and no kernel.", required=True),
        "exposed_local_copy_ns": Ns(
            "A local copy or memset runs, and no kernel or transfer.", required=True
        ),
        "idle_ns": Ns("Nothing runs.", required=True),
        "busy_communication_ns": Ns("A communication kernel runs."),
        "busy_transfer_ns": Ns("A transfer runs."),
        "busy_local_copy_ns": Ns("A local copy or memset runs."),
        "hidden_communication_ns": Ns("busy less exposed communication."),
        "hidden_transfer_ns": Ns("busy less exposed transfer."),
        "hidden_local_copy_ns": Ns("busy less exposed local copy."),
        "hidden_transfer_fraction": Share(
            "hidden / busy transfer; null where nothing was transferred."
        ),
        "layout_conversion_ns": Ns(
            "Of compute: kernels that convert the layout of tensors run, which moves data within"
            " the device."
        ),
    },
)


_TIMES: Final = [
    name for name in BREAKDOWN.columns if name not in {"device_id", "hidden_transfer_fraction"}
]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    for row in rows:
        if row["busy_transfer_ns"]:
            row["hidden_transfer_fraction"] = row["hidden_transfer_ns"] / row["busy_transfer_ns"]
    return BREAKDOWN.table(rows)


# Those of several recordings of one process are added up.
@per_file(
    BREAKDOWN,
    lambda table: ordered(
        _table(summed(table, ["device_id"], _TIMES).to_pylist()), [("device_id", "ascending")]
    ),
    needs=("kernels", "memcpys"),
)
def breakdown(profile: Profile) -> pa.Table:
    """Split each device's span among what it did.

    An instant belongs to the first that runs of compute kernel, communication kernel,
    transfer, local copy or memset, else to idle; hence ``span_ns`` is exactly ``compute_ns`` +
    ``exposed_communication_ns`` + ``exposed_transfer_ns`` + ``exposed_local_copy_ns`` +
    ``idle_ns``. A peer copy counts on both of its ends: never add devices up.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``memsets`` and ``graph_launches`` count
            where they were recorded.

    Returns:
        One row per device that did any work, columns as in `BREAKDOWN`; no rows if none did.
    """
    rows = []
    for device in timelines(profile):
        kernels = kernels_of_kinds(profile).get(device.device_id, {})
        layouts = together([times for name, times in kernels.items() if kind_of(name) == LAYOUT])
        row: dict[str, Any] = {
            "device_id": device.device_id,
            "span_ns": device.span.length,
            "compute_ns": device.busy[COMPUTE].length,
            "layout_conversion_ns": intersection(layouts, device.busy[COMPUTE]).length,
        }
        for layer, name in LAYER_NAMES.items():
            busy, exposed = device.busy[layer].length, device.exposed[layer].length
            row[f"busy_{name}_ns"] = busy
            row[f"exposed_{name}_ns"] = exposed
            row[f"hidden_{name}_ns"] = busy - exposed
        row["idle_ns"] = row["span_ns"] - sum(instants.length for instants in device.exposed)
        rows.append(row)
    return _table(rows)


ANALYSIS: Final = breakdown.analysis(
    "Where each device's time goes", reads(TIMELINE_READS, KIND_READS)
)


# Below this, a second device is likely to idle as much: use one better first.
ENOUGH: Final = 0.9

UTILISATION: Final = Schema(
    "utilisation",
    "one device that did any work",
    {
        "device_id": DEVICE_ID,
        "span_ns": Ns("First start to last end.", required=True),
        "kernel_ns": Ns("At least one kernel runs.", required=True),
        "kernel_share": Share("kernel_ns / span_ns."),
        "is_enough": Flag("Whether that is at least 90 %; below, use one device better first."),
        "biggest_reason": Text(
            "Where most of the other time goes: exposed transfers, exposed local copies, "
            "synchronisation, launching, input or other host work, or idle (of unknown cause)."
        ),
        "biggest_reason_ns": Ns("That time; null where it is enough."),
        "exposed_transfer_ns": Ns("A transfer runs, and no kernel."),
        "exposed_local_copy_ns": Ns("A local copy or memset runs, nothing else."),
        "idle_waiting_ns": Ns("The device idles while a thread waits in a synchronising call."),
        "idle_launching_ns": Ns("The device idles while threads are in other API calls only."),
        "idle_host_ns": Ns(
            "The device idles while no thread is in an API call: input, Python, ..."
        ),
    },
)
UTILISATION_OVER_TIME: Final = Schema(
    "utilisation_over_time",
    "one device in one slice of the time from the first activity to the last",
    {
        "device_id": DEVICE_ID,
        **SLICE,
        "kernel_ns": UTILISATION.columns["kernel_ns"],
        "kernel_share": Share("kernel_ns / length of the slice."),
        "exposed_transfer_ns": Ns("A transfer runs, and no kernel.", required=True),
    },
)
_SLICES: Final = 20


# What takes the time in which no kernel runs, by the column.
_REASONS: Final = {
    "exposed_transfer_ns": "exposed transfers",
    "exposed_local_copy_ns": "exposed local copies",
    "idle_waiting_ns": "synchronisation",
    "idle_launching_ns": "launching",
    "idle_host_ns": "input or other host work",
}
_UTILISATION_TIMES: Final = ("span_ns", "kernel_ns", *_REASONS)


# Those of several recordings of one process are added up.
@per_file(
    UTILISATION,
    lambda table: ordered(
        UTILISATION.table(
            [*map(_with_reason, summed(table, ["device_id"], _UTILISATION_TIMES).to_pylist())]
        ),
        [("device_id", "ascending")],
    ),
    needs=("kernels", "memcpys"),
)
def utilisation(profile: Profile) -> pa.Table:
    """Measure the share of time at which a device runs at least one kernel.

    Idle time is split by what the host's threads did: waiting in a call that synchronises,
    inside other calls (launching), or in none. Threads of all processes of a file count, so that
    with several processes in one file the causes are a hint.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls`` tell the causes of idle time.

    Returns:
        One row per device that did any work, columns as in `UTILISATION`; the split of idle
        time is null without API calls, or with calls on a clock that disagrees.
    """
    recording, host = profile.unrestricted, None
    if recording.has("api_calls") and (clock := host_clock(recording)).is_known:
        *times, process, is_wait = host_calls(recording)
        start, end = (clock.on_devices(ns, process) for ns in times)
        host = union(start[is_wait], end[is_wait]), union(start, end)
    rows = []
    for device in timelines(profile):
        row: dict[str, Any] = {
            "device_id": device.device_id,
            "span_ns": device.span.length,
            "kernel_ns": device.kernels_ns,
            "exposed_transfer_ns": device.exposed[TRANSFER].length,
            "exposed_local_copy_ns": device.exposed[LOCAL_COPY].length,
        }
        if host is not None:
            idle, (waiting, calling) = device.idle, host
            waits_ns = intersection(idle, waiting).length
            calls_ns = intersection(difference(idle, waiting), calling).length
            row |= {"idle_waiting_ns": waits_ns, "idle_launching_ns": calls_ns}
            row["idle_host_ns"] = idle.length - waits_ns - calls_ns
        rows.append(_with_reason(row))
    return UTILISATION.table(rows)


def _with_reason(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the share of kernels, and where most of the other time goes."""
    span, kernels = row["span_ns"], row["kernel_ns"]
    if not span:
        return row
    shares = {"kernel_share": kernels / span, "is_enough": kernels >= ENOUGH * span}
    if shares["is_enough"]:
        return row | shares
    reasons = {word: row[name] for name, word in _REASONS.items() if row.get(name) is not None}
    if row.get("idle_waiting_ns") is None:
        reasons["idle"] = span - kernels - sum(reasons.values())
    most = max(reasons, key=lambda reason: reasons[reason])
    return row | shares | {"biggest_reason": most, "biggest_reason_ns": reasons[most]}


def utilisation_over_time(profile: Profile) -> pa.Table:
    """Cut the time into twenty slices, the same for all devices.

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


UTILISATION_ANALYSIS: Final = utilisation.analysis("Utilisation", reads(TIMELINE_READS, HOST_READS))
UTILISATION_OVER_TIME_ANALYSIS: Final = Analysis(
    "Utilisation over time",
    UTILISATION_OVER_TIME,
    ("kernels", "memcpys"),
    utilisation_over_time,
    TIMELINE_READS,
)
