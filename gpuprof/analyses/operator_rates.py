"""How fast operators compute and move data, beside what their GPU can, alone and in whole steps.

An operator takes at least as long as its FLOPs at the peak of the GPU for their type, and as its
bytes at the peak of the memory: S. Williams, A. Waterman, D. Patterson, "Roofline" (CACM 2009). The
share of its peak that steps reach is model FLOPs utilisation (MFU): A. Chowdhery et al., "PaLM"
(2022), appendix B; here with the FLOPs that the recorded operators computed, so those of recomputed
activations count.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuprof.base.gpu_models import GpuModel, gpu_named
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.numbers import groups
from gpuprof.facts.operator_calls import OPERATOR_READS, OperatorCalls, gpu_models, operator_calls
from gpuprof.facts.phases import PHASE_READS, steps_in_part
from gpuprof.model.analysis import by, per_file, reads, summed
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Id, Ns, Process, Schema, Share, Text

COMPUTE, MEMORY = "compute", "memory"

OPERATOR_RATES: Final = Schema(
    "operator_rates",
    "all calls of one operator on tensors of the same shapes and types, on GPUs of one kind",
    {
        "calls": Count("Calls that launched a kernel.", required=True),
        "total_ns": Ns("Sum of the durations of their kernels.", required=True),
        "flops_per_s": Column(
            FLOAT,
            "FLOP/s",
            "FLOPs / total; null of what multiplies no matrices, and where a shape is unknown.",
            label="Reached",
        ),
        "bytes_per_s": Column(
            FLOAT,
            "B/s",
            "Bytes of its tensors, each read or written once / total: more than the memory's peak"
            " where they come from caches, or where a tensor is expanded, which its shape does not"
            " tell. Null where a shape or type is unknown.",
        ),
        "roofline_share": Share(
            "Least time for its FLOPs and bytes at the peaks of the GPU, of fp32 that of tf32 /"
            " total; above 1 where caches or expanded tensors spare the memory; null where these or"
            " the work are unknown.",
            label="Of roofline",
        ),
        "limited_by": Text(
            "compute or memory: which of both needs the longer least time; else null."
        ),
        "excess_ns": Ns("Total without the least time; 0 where it is faster; null where unknown."),
        "flops": Count("Of one call.", label="FLOPs"),
        "bytes": Bytes("Of one call, at least."),
        "data_type": Text("float, half, bfloat16, ...; null where unknown."),
        "shapes": Text("Of its tensors: 32x512 512x10.", required=True),
        "operator": Text("Its name.", required=True),
        "gpu": Text("Kind of GPU whose peaks are meant; null for an unknown one."),
    },
)
_SUMS: Final = ("calls", "total_ns")
_ALIKE: Final = ("operator", "shapes", "data_type", "gpu", "flops", "bytes")


@per_file(
    OPERATOR_RATES,
    lambda table: _table(summed(table, _ALIKE, _SUMS).to_pylist()),
    needs=("nvtx_ranges", "api_calls", "kernels"),
)
def operator_rates(profile: Profile) -> pa.Table:
    """Set what operators computed and moved against the time of the kernels that they launched.

    An operator within another one of those whose work is known counts as a part of that.

    Args:
        profile: Needs ``nvtx_ranges`` with inputs, ``api_calls`` and ``kernels``; ``devices`` for
            peaks. PyTorch records inputs with ``record_shapes=True``.

    Returns:
        One row per operator, shapes, types and kind of GPU, the longest total first; columns as in
        `OPERATOR_RATES`. Operators without a formula have none.
    """
    calls = operator_calls(profile)
    if calls is None:
        return OPERATOR_RATES.empty()
    gpus = gpu_models(profile)
    rows = []
    for alike in groups(calls.operator, calls.device):
        operator, inputs, work = calls.operators[calls.operator[alike[0]]]
        gpu = gpus.get(int(calls.device[alike[0]]))
        shapes = " ".join("x".join(map(str, shape)) for shape in inputs.shapes if shape)
        row = {"operator": operator, "shapes": shapes, "calls": len(alike)}
        total_ns = int(calls.kernel_ns[alike].sum())
        of_gpu = {"total_ns": total_ns, "gpu": None if gpu is None else gpu.name}
        rows.append(row | of_gpu | work._asdict())
    return _table(summed(OPERATOR_RATES.table(rows), _ALIKE, _SUMS).to_pylist())


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Sums with what they come to in their time and beside the GPU's peaks, the longest first."""
    rated = []
    for row in rows:
        calls, total_ns = row["calls"], row["total_ns"]
        rates: dict[str, Any] = {}
        for name in ("flops", "bytes") if total_ns else ():
            if row[name] is not None:
                rates[f"{name}_per_s"] = row[name] * calls / (total_ns / NS_PER_S)
        gpu, least_ns = gpu_named(row["gpu"] or ""), dict[str, float]()
        peak = None if gpu is None else gpu.peak_flops_per_s(row["data_type"])
        if gpu is not None and row["bytes"] is not None and (peak or row["flops"] is None):
            flops = row["flops"] or 0
            least_ns[MEMORY] = NS_PER_S * calls * row["bytes"] / gpu.bytes_per_s
            least_ns[COMPUTE] = NS_PER_S * calls * flops / peak if peak else 0
        if least_ns and total_ns:
            limit = max(least_ns, key=least_ns.__getitem__)
            excess_ns = max(total_ns - round(least_ns[limit]), 0)
            share = least_ns[limit] / total_ns
            rates |= {"limited_by": limit, "roofline_share": share, "excess_ns": excess_ns}
        rated.append(row | rates)
    rated.sort(key=lambda row: (-row["total_ns"], row["operator"], row["shapes"]))
    return OPERATOR_RATES.table(rated)


ANALYSIS: Final = operator_rates.analysis("Operators beside the peaks of their GPU", OPERATOR_READS)


STEP_FLOPS: Final = Schema(
    "step_flops",
    "the usual steps of one phase on one device",
    {
        "process_id": Process("Process; null where steps were detected by device."),
        "device_id": Id("CUDA device ordinal.", required=True),
        "phase": Text("Name of its phase, as in the table phases.", required=True),
        "steps": Count("Steps that are samples of it.", required=True),
        "step_ns": Ns("Median of their lengths.", required=True),
        "flops": Count(
            "Median of what operators compute in a step: products, convolutions, attention. Null"
            " where less than 95 % of the time of such kernels is of operators of known work.",
            label="FLOPs of a step",
        ),
        "flops_per_s": Column(FLOAT, "FLOP/s", "FLOPs / length of the step.", label="Reached"),
        "peak_share": Share(
            "The least time for them at the peak of each type, of fp32 that of tf32 / length of the"
            " step (MFU); null for an unknown GPU or type.",
            label="MFU",
        ),
        "counted_share": Share(
            "Of the time of kernels that multiply matrices, that of known operators."
        ),
        "gpu": Text("Kind of GPU whose peak is meant; null for an unknown one."),
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
        for device in map(if_known, series.phase.devices):
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


STEPS_ANALYSIS: Final = step_flops.analysis(
    "FLOPs of steps beside the peak of their GPU", reads(OPERATOR_READS, PHASE_READS)
)
