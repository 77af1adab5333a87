"""How fast operators compute and move data, beside what their GPU can: a roofline in numbers.

An operator takes at least as long as its FLOPs at the peak of the GPU for their type, and as its
bytes at the peak of the memory: S. Williams, A. Waterman, D. Patterson, "Roofline" (CACM 2009).
"""

from typing import Any, Final

import pyarrow as pa

from gpuprof.base.gpu_models import gpu_named
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.numbers import groups
from gpuprof.facts.operator_calls import OPERATOR_READS, gpu_models, operator_calls
from gpuprof.model.analysis import per_file, summed
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

COMPUTE, MEMORY = "compute", "memory"

OPERATOR_RATES: Final = Schema(
    "operator_rates",
    "all calls of one operator on tensors of the same shapes and types, on GPUs of one kind",
    {
        "calls": Column(INT, "1", "Calls that launched a kernel.", required=True),
        "total_ns": Column(INT, "ns", "Sum of the durations of their kernels.", required=True),
        "flops_per_s": Column(
            FLOAT,
            "FLOP/s",
            "FLOPs / total; null of what multiplies no matrices, and where a shape is unknown.",
            label="Reached",
        ),
        "bytes_per_s": Column(
            FLOAT,
            "B/s",
            "Bytes that it has to read and write at least / total: caches can make it more than"
            " the memory's peak. Null where a shape or type is unknown.",
        ),
        "roofline_share": Column(
            FLOAT,
            "1",
            "Least time for its FLOPs and bytes at the peaks of the GPU, of fp32 that of tf32 /"
            " total; null where these or the work are unknown.",
            label="Of roofline",
        ),
        "limited_by": Column(
            TEXT, "", "compute or memory: which of both needs the longer least time; else null."
        ),
        "excess_ns": Column(
            INT, "ns", "Total without the least time; 0 where it is faster; null where unknown."
        ),
        "flops": Column(INT, "1", "Of one call.", label="FLOPs"),
        "bytes": Column(INT, "B", "Of one call, at least."),
        "data_type": Column(TEXT, "", "float, half, bfloat16, ...; null where unknown."),
        "shapes": Column(TEXT, "", "Of its tensors: 32x512 512x10.", required=True),
        "operator": Column(TEXT, "", "Its name.", required=True),
        "gpu": Column(TEXT, "", "Kind of GPU whose peaks are meant; null for an unknown one."),
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
    """Sums with the rates that they make, the longest total first."""
    rated = [row | _rates(row) for row in rows]
    return OPERATOR_RATES.table(
        sorted(rated, key=lambda row: (-row["total_ns"], row["operator"], row["shapes"]))
    )


def _rates(row: dict[str, Any]) -> dict[str, Any]:
    """What the work of a row comes to in its time, and beside the peaks of its GPU."""
    calls, total_ns = row["calls"], row["total_ns"]
    seconds = total_ns / NS_PER_S
    rates = {
        f"{name}_per_s": None if row[name] is None or not total_ns else row[name] * calls / seconds
        for name in ("flops", "bytes")
    }
    gpu, least_ns = gpu_named(row["gpu"] or ""), dict[str, float]()
    peak = None if gpu is None else gpu.peak_flops_per_s(row["data_type"])
    if gpu is not None and row["bytes"] is not None and (peak or row["flops"] is None):
        least_ns[MEMORY] = NS_PER_S * calls * row["bytes"] / gpu.bytes_per_s
        least_ns[COMPUTE] = NS_PER_S * calls * row["flops"] / peak if row["flops"] and peak else 0
    if not (least_ns and total_ns):
        return rates
    limit = max(least_ns, key=lambda name: least_ns[name])
    return rates | {
        "limited_by": limit,
        "roofline_share": least_ns[limit] / total_ns,
        "excess_ns": max(total_ns - round(least_ns[limit]), 0),
    }


ANALYSIS: Final = operator_rates.analysis("Operators beside the peaks of their GPU", OPERATOR_READS)
