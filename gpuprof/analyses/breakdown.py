"""What each device's time went to: compute, exposed communication and transfers, idle."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.kernel_kinds import KIND_READS, LAYOUT, kernels_of_kinds, kind_of
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    DEVICE_ID,
    LOCAL_COPY,
    TIMELINE_READS,
    TRANSFER,
    timelines,
)
from gpuprof.model.analysis import ordered, per_file, reads, summed
from gpuprof.model.intervals import intersection, together
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, Column, Schema

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
        "span_ns": Column(
            INT,
            "ns",
            "First start to last end, or the part of it that is looked at; of several recordings of"
            " a process, of all of them.",
            required=True,
        ),
        "compute_ns": Column(INT, "ns", "A compute kernel runs.", required=True),
        "exposed_communication_ns": Column(
            INT, "ns", "A communication kernel runs, and no compute kernel.", required=True
        ),
        "exposed_transfer_ns": Column(INT, "ns", "A transfer runs, and no kernel.", required=True),
        "exposed_local_copy_ns": Column(
            INT, "ns", "A local copy or memset runs, and no kernel or transfer.", required=True
        ),
        "idle_ns": Column(INT, "ns", "Nothing runs.", required=True),
        "busy_communication_ns": Column(INT, "ns", "A communication kernel runs."),
        "busy_transfer_ns": Column(INT, "ns", "A transfer runs."),
        "busy_local_copy_ns": Column(INT, "ns", "A local copy or memset runs."),
        "hidden_communication_ns": Column(INT, "ns", "busy less exposed communication."),
        "hidden_transfer_ns": Column(INT, "ns", "busy less exposed transfer."),
        "hidden_local_copy_ns": Column(INT, "ns", "busy less exposed local copy."),
        "hidden_transfer_fraction": Column(
            FLOAT, "1", "hidden / busy transfer; null where nothing was transferred."
        ),
        "layout_conversion_ns": Column(
            INT,
            "ns",
            "Of compute: kernels that convert the layout of tensors run, which moves data within"
            " the device.",
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
