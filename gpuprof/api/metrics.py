"""`gpuprof.metrics`: the figures of one run as a flat dict, for experiment trackers."""

import math
from collections.abc import Mapping
from typing import Any, Final

from gpuprof.api.arguments import Recording, read
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.comparisons.variant_figures import metrics as recording_figures
from gpuprof.facts.parts import RecordingPart
from gpuprof.findings.bottom_line import ANALYSIS, BOTTOM_LINE
from gpuprof.model.schema import FLOAT, INT, Column, Ns

# Before each key, so that trackers show them in a section of their own.
PREFIX: Final = "gpuprof/"
_OF_RECORDING: Final = (
    "devices", "gpu_activity_ns", "kernel_ns", "kernel_calls", "communication_kernel_ns",
    "transfer_ns", "transfer_calls", "transfer_bytes", "transfer_share", "peer_transfer_ns",
    "peer_transfer_calls", "peer_transfer_bytes", "peer_share", "htod_ns", "dtoh_ns",
    "api_call_ns", "seconds_per_epoch", "epochs", "peer_transfer_calls_per_step",
    "peer_transfer_bytes_per_step", "gradient_bytes_per_step",
)  # fmt: skip
_STEP: Final = {
    name: column
    for name, column in BOTTOM_LINE.columns.items()
    if column.dtype in {INT, FLOAT} and name != "device_id"
}
# Every key without its prefix, with its unit and meaning.
METRICS: Final[Mapping[str, Column]] = {
    "step_ns": Ns("Median length of a step; left out where none is known."),
    "span_ns": Ns("The device's span where no step is known."),
    **{name: column for name, column in _STEP.items() if name != "step_ns"},
    **{name: VARIANTS.columns[name] for name in _OF_RECORDING},
}


def metrics(recording: Recording) -> dict[str, float]:
    """The figures of a run, as `mlflow.log_metrics` and `wandb.log` take them.

    Args:
        recording: As `gpuprof.report` takes it.

    Returns:
        Figures by key, as ``gpuprof/step_ns``, in base units: ns, bytes, shares of 0 to 1. Times
        and shares of a step are those of the device and phase of the report's first sentence;
        totals are of the whole recording and all of its devices. What is unknown is left out.

    Raises:
        GpuprofError: The recording cannot be read.
        TypeError: It is no recording.
    """
    profile = read(recording, RecordingPart())
    figures: dict[str, Any] = recording_figures(profile)
    # Those of the report's first sentence, where the recording can tell.
    if not ANALYSIS.missing(profile):
        for row in profile.once(ANALYSIS.run).slice(0, 1).to_pylist():
            of_step = {name: row[name] for name in _STEP}
            if row["steps"] is None:
                of_step["span_ns"] = of_step.pop("step_ns")
            figures = figures | of_step
    return {
        PREFIX + name: float(figures[name])
        for name in METRICS
        if figures.get(name) is not None and math.isfinite(figures[name])
    }
