"""How much of its peak each part of a GPU was used, by samples: SMs, memory, PCIe, NVLink."""

from typing import Final

import pyarrow as pa

from gpuprof.facts.metric_samples import METRIC_READS, metric_samples
from gpuprof.facts.step_windows import STEP_READS, step_windows
from gpuprof.facts.timeline import SLICE, TIMELINE_READS, TRANSFER, slice_borders, timelines
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.intervals import intersection, together, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

GPU_METRIC_MEANS: Final = Schema(
    "gpu_metric_means",
    "one metric of one device that is a share of a peak",
    {
        "device_id": Column(INT, "", "CUDA device ordinal.", required=True),
        "metric": Column(TEXT, "", "SMs Active, PCIe RX Throughput, ...", required=True),
        "samples": Column(INT, "1", "How many, of the whole recording.", required=True),
        "left_out": Column(
            INT, "1", "How many more there are that no share can be: below 0 or above 100 %."
        ),
        "mean_share": Column(FLOAT, "1", "Mean over the span of the device; null without samples."),
        "in_steps_share": Column(FLOAT, "1", "Mean over steps; null where none are known."),
        "in_kernels_share": Column(
            FLOAT, "1", "Mean while kernels run; null where no sample lies within."
        ),
        "in_exposed_transfers_share": Column(
            FLOAT, "1", "Mean while a transfer runs and no kernel; null as before."
        ),
    },
)
GPU_METRICS_OVER_TIME: Final = Schema(
    "gpu_metrics_over_time",
    "one metric of one device in one slice of the time from the first activity to the last",
    {
        **{name: GPU_METRIC_MEANS.columns[name] for name in ("device_id", "metric")},
        **SLICE,
        "share": Column(FLOAT, "1", "Mean share of the peak; null without samples."),
    },
)
_SLICES: Final = 120
_NEEDS: Final = ("gpu_metrics", "kernels", "memcpys")


@per_file(GPU_METRIC_MEANS, by(device_id="ascending", metric="ascending"), needs=_NEEDS)
def gpu_metric_means(profile: Profile) -> pa.Table:
    """Take the means of samples over the whole time, steps, kernels, and exposed transfers.

    A sample counts to a part of the time where nine tenths of it lie within, and by its time.

    Args:
        profile: Needs ``gpu_metrics``, ``kernels`` and ``memcpys``.

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

    Args:
        profile: Needs ``gpu_metrics``, ``kernels`` and ``memcpys``.

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


ANALYSIS: Final = gpu_metric_means.analysis(
    "GPU metrics, as shares of their peaks", reads(METRIC_READS, TIMELINE_READS, STEP_READS)
)
OVER_TIME_ANALYSIS: Final = Analysis(
    "GPU metrics over time",
    GPU_METRICS_OVER_TIME,
    _NEEDS,
    gpu_metrics_over_time,
    reads(METRIC_READS, TIMELINE_READS),
)
