"""Calls of operators whose work is known, with the kernels that they launched."""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuprof.base.gpu_models import GpuModel, gpu_of_device
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import Numbers
from gpuprof.facts.nvtx import RANGE_READS, operations_of
from gpuprof.facts.operator_work import NAMES, Inputs, Work, inputs_of, work_of
from gpuprof.facts.range_launches import launches_within, without_nested
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile

OPERATOR_READS: Final = reads(
    RANGE_READS,
    nvtx_ranges="inputs",
    kernels="name name_id",
    devices="device_id name total_memory_bytes",
)
# Of libraries' kernels that multiply matrices, as cuBLAS, cuDNN, CUTLASS and PyTorch name them.
_PRODUCT: Final = re.compile(
    r"(?<!fb)gemm|conv(?!ert|ers)|cutlass|xmma|[wd]grad|fmha|flash_(?:fwd|bwd)|scudnn|884cudnn|gemv"
    r"|winograd|nvjet",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class OperatorCalls:
    """Calls that launched kernels, one element each; those within others are a part of these.

    Args:
        operators: Name, inputs and work of one call of each operator that is called alike.
        operator: Place of each call among these.
        device: Where its first kernel ran.
        start_ns: When that started.
        kernel_ns: Sum of the durations of its kernels.
        product_ns: The part of kernels that multiply matrices, by their names.
        all_product_ns: By device, the same of all kernels, whoever launched them.
    """

    operators: tuple[tuple[str, Inputs, Work], ...]
    operator: Int64s
    device: Int64s
    start_ns: Int64s
    kernel_ns: Int64s
    product_ns: Int64s
    all_product_ns: dict[int, int]


@once_per_profile
def operator_calls(profile: Profile) -> OperatorCalls | None:
    """The calls of a recording; None where no inputs were recorded, or of no known operator."""
    if not profile.loaded("nvtx_ranges").holds("inputs"):
        return None
    operations = operations_of(profile.unrestricted)
    operators: list[tuple[str, Inputs, Work]] = []
    of_label = np.full(len(operations.labels), -1)
    for label, (name, text, _) in enumerate(operations.labels):
        inputs = inputs_of(text) if text and name in NAMES else None
        work = None if inputs is None else work_of(name, inputs)
        if inputs is not None and work is not None and any(work[:2]):
            of_label[label] = len(operators)
            operators.append((name, inputs, work))
    if not operators:
        return None
    chosen = without_nested(operations.take(np.flatnonzero(of_label[operations.label] >= 0)))
    launched = launches(profile)
    activities = launched.activities
    low, high = activities.tables.get("kernels", (0, 0))
    is_kernel = (launched.order >= low) & (launched.order < high)
    spans = launches_within(chosen, launched).among(is_kernel)
    kernels = launched.order[is_kernel]
    took = activities.duration_ns[low:high]
    product_ns = np.where(_is_product(profile), took, 0)
    used = np.flatnonzero(spans.last > spans.first)
    first, last = spans.first[used], spans.last[used]

    def summed(values: Numbers) -> Int64s:
        until = np.append(0, np.cumsum(values[kernels - low], dtype=np.int64))
        return np.asarray(until[last] - until[first])

    device = activities.device[low:high].astype(np.int64)
    return OperatorCalls(
        tuple(operators),
        of_label[chosen.label[used]],
        activities.device[kernels[first]].astype(np.int64),
        activities.start_ns[kernels[first]],
        summed(took),
        summed(product_ns),
        {int(d): int(product_ns[device == d].sum()) for d in np.unique(device)},
    )


def _is_product(profile: Profile) -> Numbers:
    """Of each kernel, whether its name is that of one that multiplies matrices."""
    numbered = profile.loaded("kernels").names
    is_product = np.array([bool(_PRODUCT.search(name)) for name in numbered.distinct], bool)
    places = [numbered.places.of(name_id) for (name_id,) in profile.columns("kernels", "name_id")]
    return is_product[np.concatenate(places)] if places else np.zeros(0, bool)


def gpu_models(profile: Profile) -> dict[int, GpuModel]:
    """The kind of each GPU that is known."""
    recording = profile.unrestricted
    rows = recording.table("devices").to_pylist() if recording.has("devices") else ()
    kinds = {
        row["device_id"]: gpu_of_device(row["name"] or "", row["total_memory_bytes"])
        for row in rows
    }
    return {device: gpu for device, gpu in kinds.items() if gpu is not None}
