"""What samples show: of the monitor in the epochs that a script marked, and of GPU metrics."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.metric_samples import METRIC_READS, metric_samples
from gpuprof.facts.step_windows import STEP_READS, step_windows
from gpuprof.facts.timeline import SLICE, TIMELINE_READS, TRANSFER, slice_borders, timelines
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.intervals import intersection, together, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Id, Ns, Schema, Share, Text

MARKED_EPOCHS: Final = Schema(
    "marked_epochs",
    "one epoch as the script marked it",
    {
        "epoch": Count("0 for the first.", required=True),
        "wall_ns": Ns("By the clock of the host; null where it is unknown."),
        "steps": Count("Steps marked within it; null where none were marked."),
        "step_wall_ns": Ns("Null where unknown, or where no steps were marked."),
    },
)
MONITORING: Final = Schema(
    "monitoring",
    "one device, or the host, in one epoch or the whole run",
    {
        "epoch": Count("Null for the whole run."),
        "device_id": Id("As NVML numbers GPUs; null for the host."),
        "samples": Count("How many.", required=True),
        "gpu_utilisation": Share(
            "Mean share of time in which a kernel ran.", label="GPU utilisation"
        ),
        "cpu_utilisation": Share("Mean over all cores of the host.", label="CPU utilisation"),
        "memory_used_bytes": Bytes("Most that was in use at a sample."),
        "power_w": Column(FLOAT, "W", "Mean."),
        "temperature_c": Column(FLOAT, "C", "Highest."),
        "sm_clock_hz": Column(FLOAT, "Hz", "Mean.", label="SM clock"),
        "pcie_received_bytes_per_s": Column(FLOAT, "B/s", "Mean.", label="PCIe received"),
        "pcie_sent_bytes_per_s": Column(FLOAT, "B/s", "Mean.", label="PCIe sent"),
        "nvlink_received_bytes": Bytes(
            "From the first sample to the last.", label="NVLink received"
        ),
        "nvlink_sent_bytes": Bytes("From the first sample to the last.", label="NVLink sent"),
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


MONITORING_ANALYSIS: Final = Analysis("Monitor", MONITORING, ("monitor",), monitoring, reads())
EPOCHS_ANALYSIS: Final = Analysis(
    "Marked epochs", MARKED_EPOCHS, ("epochs",), marked_epochs, reads()
)


GPU_METRIC_MEANS: Final = Schema(
    "gpu_metric_means",
    "one metric of one device that is a share of a peak",
    {
        "device_id": Id("CUDA device ordinal.", required=True),
        "metric": Text("SMs Active, PCIe RX Throughput, ...", required=True),
        "samples": Count("How many, of the whole recording.", required=True),
        "left_out": Count("How many more there are that no share can be: below 0 or above 100 %."),
        "mean_share": Share("Mean over the span of the device; null without samples."),
        "in_steps_share": Share("Mean over steps; null where none are known."),
        "in_kernels_share": Share("Mean while kernels run; null where no sample lies within."),
        "in_exposed_transfers_share": Share(
            "Mean while a transfer runs and no kernel; null as before."
        ),
    },
)
GPU_METRICS_OVER_TIME: Final = Schema(
    "gpu_metrics_over_time",
    "one metric of one device in one slice of the time from the first activity to the last",
    {
        **{name: GPU_METRIC_MEANS.columns[name] for name in ("device_id", "metric")},
        **SLICE,
        "share": Share("Mean share of the peak; null without samples."),
    },
)
_SLICES: Final = 120
_NEEDS: Final = ("gpu_metrics", "kernels", "memcpys")


@per_file(GPU_METRIC_MEANS, by(device_id="ascending", metric="ascending"), needs=_NEEDS)
def gpu_metric_means(profile: Profile) -> pa.Table:
    """Take the means of samples over the whole time, steps, kernels, and exposed transfers.

    A sample counts to a part of the time where nine tenths of it lie within, and by its time.

    Returns:
        One row per device that did any work and metric with a peak, columns as in
        `GPU_METRIC_MEANS`.
    """
    rows = []
    for device in timelines(profile):
        steps = [
            union(of.start_ns, of.end_ns)
            for of in step_windows(profile)
            if device.device_id in of.devices
        ]
        parts = {
            "mean_share": device.span,
            "in_steps_share": intersection(together(steps), device.span),
            "in_kernels_share": device.kernels,
            "in_exposed_transfers_share": device.exposed[TRANSFER],
        }
        rows += [
            {
                "device_id": device.device_id,
                "metric": of.metric,
                "samples": len(of.percent),
                "left_out": of.left_out,
                **{name: of.mean(part) for name, part in parts.items()},
            }
            for of in metric_samples(profile)
            if of.device_id == device.device_id is not None
        ]
    return GPU_METRIC_MEANS.table(rows)


def gpu_metrics_over_time(profile: Profile) -> pa.Table:
    """Take the means of samples in 120 slices of the time, the same for all devices.

    Returns:
        Columns as in `GPU_METRICS_OVER_TIME`, for each device that did any work; fewer slices
        where the time has not as many ns.
    """
    devices = [timeline for timeline in timelines(profile) if len(timeline.span)]
    borders = slice_borders(devices, _SLICES)
    start, end = borders[:-1].tolist(), borders[1:].tolist()
    shown = {device.device_id for device in devices} - {None}
    return GPU_METRICS_OVER_TIME.table(
        [
            {**place, "start_ns": begun, "end_ns": ended, "share": share}
            for of in metric_samples(profile)
            if of.device_id in shown
            for place in [{"device_id": of.device_id, "metric": of.metric}]
            for begun, ended, share in zip(start, end, of.between(borders), strict=True)
        ]
    )


METRICS_ANALYSIS: Final = gpu_metric_means.analysis(
    "GPU metrics, as shares of their peaks", reads(METRIC_READS, TIMELINE_READS, STEP_READS)
)
OVER_TIME_ANALYSIS: Final = Analysis(
    "GPU metrics over time",
    GPU_METRICS_OVER_TIME,
    _NEEDS,
    gpu_metrics_over_time,
    reads(METRIC_READS, TIMELINE_READS),
)
