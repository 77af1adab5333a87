"""The epochs that a script marked, and what GPUs and host did in them by the monitor's samples."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, Column, Schema

MARKED_EPOCHS: Final = Schema(
    "marked_epochs",
    "one epoch as the script marked it",
    {
        "epoch": Column(INT, "1", "0 for the first.", required=True),
        "wall_ns": Column(INT, "ns", "By the clock of the host; null where it is unknown."),
        "steps": Column(INT, "1", "Steps marked within it; null where none were marked."),
        "step_wall_ns": Column(INT, "ns", "Null where unknown, or where no steps were marked."),
    },
)
MONITORING: Final = Schema(
    "monitoring",
    "one device, or the host, in one epoch or the whole run",
    {
        "epoch": Column(INT, "1", "Null for the whole run."),
        "device_id": Column(INT, "", "As NVML numbers GPUs; null for the host."),
        "samples": Column(INT, "1", "How many.", required=True),
        "gpu_utilisation": Column(
            FLOAT, "1", "Mean share of time in which a kernel ran.", label="GPU utilisation"
        ),
        "cpu_utilisation": Column(
            FLOAT, "1", "Mean over all cores of the host.", label="CPU utilisation"
        ),
        "memory_used_bytes": Column(INT, "B", "Most that was in use at a sample."),
        "power_w": Column(FLOAT, "W", "Mean."),
        "temperature_c": Column(FLOAT, "C", "Highest."),
        "sm_clock_hz": Column(FLOAT, "Hz", "Mean.", label="SM clock"),
        "pcie_received_bytes_per_s": Column(FLOAT, "B/s", "Mean.", label="PCIe received"),
        "pcie_sent_bytes_per_s": Column(FLOAT, "B/s", "Mean.", label="PCIe sent"),
        "nvlink_received_bytes": Column(
            INT, "B", "From the first sample to the last.", label="NVLink received"
        ),
        "nvlink_sent_bytes": Column(
            INT, "B", "From the first sample to the last.", label="NVLink sent"
        ),
    },
)

_FIGURES: Final = {
    "gpu_utilisation": "mean",
    "cpu_utilisation": "mean",
    "memory_used_bytes": "max",
    "power_w": "mean",
    "temperature_c": "max",
    "sm_clock_hz": "mean",
    "pcie_received_bytes_per_s": "mean",
    "pcie_sent_bytes_per_s": "mean",
}
# They count up.
_COUNTERS: Final = ("nvlink_received_bytes", "nvlink_sent_bytes")


def monitoring(profile: Profile) -> pa.Table:
    """Sum up the samples of each device.

    Args:
        profile: Needs ``monitor``.

    Returns:
        The whole run first, then each epoch that has samples; the host before the GPUs. Means
        are of samples, a second apart unless asked for otherwise; what a device does not tell is
        null. Columns as in `MONITORING`.
    """
    samples = profile.table("monitor")
    of_epochs = samples.filter(samples["epoch"].is_valid())
    rows = [*_summed(samples, "device_id"), *_summed(of_epochs, "epoch", "device_id")]
    return MONITORING.table(rows)


def _summed(samples: pa.Table, *keys: str) -> list[dict[str, Any]]:
    ends = [(name, end) for name in _COUNTERS for end in ("min", "max")]
    groups = samples.group_by(keys).aggregate([([], "count_all"), *_FIGURES.items(), *ends])
    rows: list[dict[str, Any]] = groups.to_pylist()
    for row in rows:
        row["samples"] = row["count_all"]
        row |= {name: row[f"{name}_{figure}"] for name, figure in _FIGURES.items()}
        for name in _COUNTERS:
            least, most = row[f"{name}_min"], row[f"{name}_max"]
            row[name] = None if least is None else most - least
    return sorted(rows, key=lambda row: [(row[key] is not None, row[key] or 0) for key in keys])


def marked_epochs(profile: Profile) -> pa.Table:
    """List the marked epochs; the first ones are often longer, as they warm up.

    Args:
        profile: Needs ``epochs``, which a run of ``gpuprof record`` holds whose script marks them.

    Returns:
        Columns as in `MARKED_EPOCHS`.
    """
    rows = profile.table("epochs").sort_by("epoch").to_pylist()
    for row in rows:
        if row["seconds"] is not None:
            wall_ns = row["seconds"] * NS_PER_S
            row["wall_ns"] = int(wall_ns + 0.5)
            row["step_wall_ns"] = int(wall_ns / row["steps"] + 0.5) if row["steps"] else None
    return MARKED_EPOCHS.table(rows)


ANALYSIS: Final = Analysis("Monitor", MONITORING, ("monitor",), monitoring, reads())
EPOCHS_ANALYSIS: Final = Analysis(
    "Marked epochs", MARKED_EPOCHS, ("epochs",), marked_epochs, reads()
)
