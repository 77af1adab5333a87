"""The figures of every run, and the run that stands for its variant: the median one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuprof.comparisons.measure.exposure import (
    COMMUNICATING,
    IDLE,
    Device,
    busiest_device,
    exposed_times,
)
from gpuprof.comparisons.measure.work import Work
from gpuprof.metrics import EXTENSIVE, VARIANTS, Metrics, metrics
from gpuprof.schema import FLOAT, INT
from gpuprof.units import encodable

METRICS: Final = tuple(
    name
    for name, column in VARIANTS.columns.items()
    if column.dtype in {INT, FLOAT} and name != "runs"
)
# The first of these that all runs of a variant know orders them.
_ORDERING: Final = ("step_ns", "span_ns", "gpu_activity_ns", "seconds_per_epoch")


@dataclass(frozen=True)
class Run:
    """One run of a variant.

    Args:
        work: What of it is compared.
        device: Its busiest device; None where it tells no times.
        metrics: Its metrics by name, of all that is compared; absent or None where unknown.
    """

    work: Work
    device: Device | None
    metrics: Metrics

    @property
    def knows_steps(self) -> bool:
        """Whether its steps are known, compared or not."""
        return self.work.source is not None

    def figure(self, metric: str) -> float | None:
        """A metric, of one step where steps are compared."""
        value: float | None = self.metrics.get(metric)
        if value is None or self.work.steps is None or metric not in EXTENSIVE:
            return value
        return value / self.work.steps


@dataclass(frozen=True)
class Variant:
    """A variant: its runs, the median one of them, and every figure that is known of each."""

    label: str
    runs: tuple[Run, ...]
    median: Run

    def figures(self, metric: str) -> list[float]:
        """A metric of every run that knows it."""
        values = (run.figure(metric) for run in self.runs)
        return [value for value in values if value is not None]


def variant_of(label: str, works: Sequence[Work], epoch_seconds: float | None) -> Variant:
    """The runs of a variant with their figures.

    Args:
        label: Its label.
        works: What of each run is compared.
        epoch_seconds: Measured seconds per epoch in place of marked ones; None for none.
    """
    measured = {} if epoch_seconds is None else {"seconds_per_epoch": epoch_seconds}
    runs = tuple(_run(work, measured) for work in works)
    return Variant(label, runs, _median(runs))


def _run(work: Work, measured: Metrics) -> Run:
    figures = metrics(work.profile)
    device = busiest_device(work)
    if work.steps is not None:
        figures["steps"] = work.steps
    if device is not None:
        figures |= _of_device(work, device)
    return Run(work, device, figures | measured)


def _of_device(work: Work, device: Device) -> Metrics:
    times = exposed_times(work, device)
    step_ns = device.total_ns / work.steps if work.steps else None
    return {
        "span_ns": device.total_ns,
        "step_ns": float(np.median(device.steps_ns)) if device.steps else step_ns,
        "compute_ns": sum(times[part] for part in ("kernels_common", "graphs")),
        "exposed_communication_ns": times[COMMUNICATING],
        "idle_ns": times[IDLE],
    }


def _median(runs: Sequence[Run]) -> Run:
    """The run in the middle; of an even number the faster one of the two."""
    metrics = (m for m in _ORDERING if all(run.figure(m) is not None for run in runs))
    if (metric := next(metrics, None)) is None:
        return runs[0]
    return sorted(runs, key=lambda run: run.figure(metric) or 0)[(len(runs) - 1) // 2]


def run_rows(variant: Variant) -> list[Metrics]:
    """Its runs as rows of `RUNS`."""
    return [
        variant_row(variant, run) | {"run": number, "is_median": run is variant.median}
        for number, run in enumerate(variant.runs, start=1)
    ]


def variant_row(variant: Variant, run: Run) -> Metrics:
    """A run of a variant as a row of `VARIANTS`."""
    origin = run.work.profile.origin
    head = {"variant": variant.label, "source": encodable(str(origin.source)), "tool": origin.tool}
    return head | run.metrics | {"runs": len(variant.runs)}


def median_figures(variant: Variant) -> Metrics:
    """The median run's figures for sentences, of one step where steps are compared.

    ``gpu_ns`` is its GPU time as recorded, or else as printed shares imply it; ``runs`` how many
    there are.
    """
    run = variant.median
    figures = run.metrics | {metric: run.figure(metric) for metric in METRICS}
    recorded, implied = figures["gpu_activity_ns"], figures["implied_gpu_activity_ns"]
    gpu_ns = implied if recorded is None else recorded
    return figures | {"runs": len(variant.runs), "gpu_ns": gpu_ns}


def known_figures(variants: Mapping[str, Variant]) -> dict[str, dict[str, list[float]]]:
    """Label -> metric -> its values over the runs; metrics that no run knows are absent."""
    return {
        label: {metric: values for metric in METRICS if (values := variant.figures(metric))}
        for label, variant in variants.items()
    }
