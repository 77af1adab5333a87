"""What share of a GPU's peak whole training steps reach: model FLOPs utilisation (MFU).

Source of the term: A. Chowdhery et al., "PaLM" (2022), appendix B; here with the FLOPs that the
recorded operators computed, so those of recomputed activations count.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuprof.base.gpu_models import GpuModel
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.operator_calls import (
    OPERATOR_READS,
    OperatorCalls,
    gpu_models,
    operator_calls,
)
from gpuprof.facts.phases import PHASE_READS, steps_in_part
from gpuprof.model.analysis import by, per_file, reads
from gpuprof.model.derived import known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema, process_column

STEP_FLOPS: Final = Schema(
    "step_flops",
    "the usual steps of one phase on one device",
    {
        "process_id": process_column("Process; null where steps were detected by device."),
        "device_id": Column(INT, "", "CUDA device ordinal.", required=True),
        "phase": Column(TEXT, "", "Name of its phase, as in the table phases.", required=True),
        "steps": Column(INT, "1", "Steps that are samples of it.", required=True),
        "step_ns": Column(INT, "ns", "Median of their lengths.", required=True),
        "flops": Column(
            INT,
            "1",
            "Median of what operators compute in a step: products, convolutions, attention. Null"
            " where less than 95 % of the time of such kernels is of operators of known work.",
            label="FLOPs of a step",
        ),
        "flops_per_s": Column(FLOAT, "FLOP/s", "FLOPs / length of the step.", label="Reached"),
        "peak_share": Column(
            FLOAT,
            "1",
            "The least time for them at the peak of each type, of fp32 that of tf32 / length of the"
            " step (MFU); null for an unknown GPU or type.",
            label="MFU",
        ),
        "counted_share": Column(
            FLOAT, "1", "Of the time of kernels that multiply matrices, that of known operators."
        ),
        "gpu": Column(TEXT, "", "Kind of GPU whose peak is meant; null for an unknown one."),
    },
)
_LEAST_COUNTED: Final = 0.95


@per_file(
    STEP_FLOPS,
    by(process_id="ascending", device_id="ascending", phase="ascending"),
    needs=("nvtx_ranges", "api_calls", "kernels"),
)
def step_flops(profile: Profile) -> pa.Table:
    """Add up what the operators of each step computed, beside the peak of the GPU.

    Args:
        profile: Needs ``nvtx_ranges`` with inputs, ``api_calls`` and ``kernels``; ``devices`` for
            peaks.

    Returns:
        One row per phase and device on which operators of known work ran; columns as in
        `STEP_FLOPS`; no rows where no inputs were recorded, or no steps are found.
    """
    calls = operator_calls(profile)
    if calls is None or not profile.has("memcpys"):
        return STEP_FLOPS.empty()
    gpus = gpu_models(profile)
    rows = []
    for series in steps_in_part(profile):
        phase = {"process_id": series.phase.process_id, "phase": series.phase.name}
        starts, ends = (times[series.is_sample] for times in (series.start_ns, series.end_ns))
        step_ns = int(np.median(ends - starts)) if len(starts) else 0
        of_phase = phase | {"steps": len(starts), "step_ns": step_ns}
        for device in map(known, series.phase.devices):
            if step_ns and device is not None and calls.all_product_ns.get(device):
                figures = _figures(calls, device, gpus.get(device), starts, ends)
                rows.append(of_phase | {"device_id": device} | figures)
    return STEP_FLOPS.table(rows)


def _figures(
    calls: OperatorCalls, device: int, gpu: GpuModel | None, starts: Int64s, ends: Int64s
) -> dict[str, Any]:
    """What the steps of one device compute, and how long that takes at least."""
    works = [work for _, _, work in calls.operators]
    has_flops = np.array([work.flops is not None for work in works], bool)
    rows = np.flatnonzero((calls.device == device) & has_flops[calls.operator])
    counted = int(calls.product_ns[rows].sum()) / calls.all_product_ns[device]
    figures: dict[str, Any] = {"counted_share": min(counted, 1.0), "gpu": gpu and gpu.name}
    if counted < _LEAST_COUNTED:
        return figures
    rows = rows[np.argsort(calls.start_ns[rows], kind="stable")]
    first, last = (np.searchsorted(calls.start_ns[rows], times) for times in (starts, ends))

    def per_step(of_operator: list[float]) -> NDArray[np.float64]:
        until = np.append(0.0, np.cumsum(np.array(of_operator)[calls.operator[rows]]))
        of_steps: NDArray[np.float64] = until[last] - until[first]
        return of_steps

    flops = per_step([float(work.flops or 0) for work in works])
    seconds = (ends - starts) / NS_PER_S
    figures |= {
        "flops": round(float(np.median(flops))),
        "flops_per_s": float(np.median(flops / seconds)),
    }
    peaks = [gpu and gpu.peak_flops_per_s(work.data_type or "") for work in works]
    if all(peaks[operator] for operator in np.unique(calls.operator[rows]).tolist()):
        least_s = per_step(
            [
                (work.flops or 0) / peak if peak else 0.0
                for work, peak in zip(works, peaks, strict=True)
            ]
        )
        figures["peak_share"] = float(np.median(least_s / seconds))
    return figures


ANALYSIS: Final = step_flops.analysis(
    "FLOPs of steps beside the peak of their GPU", reads(OPERATOR_READS, PHASE_READS)
)
