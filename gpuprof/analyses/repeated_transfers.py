"""Copies that every training step makes again: of constants, or of the same size and place."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import Copies
from gpuprof.facts.model_parts import copied_in_every_step
from gpuprof.facts.needless_copies import WORST, copied_again, cost_of_repeated
from gpuprof.facts.numbers import columns_of
from gpuprof.facts.step_windows import STEP_READS
from gpuprof.facts.timeline import TIMELINE_READS
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLAG, FLOAT, INT, TEXT, Column, Kind, Schema, process_column

REPEATED_TRANSFERS: Final = Schema(
    "repeated_transfers",
    "all copies of one size from one memory to another that one place makes in every step",
    {
        "process_id": process_column("Process; null where unknown."),
        "src": Column(TEXT, "", "Memory copied from: host, device N, CPU:0, ...", required=True),
        "dst": Column(TEXT, "", "Memory copied to.", required=True),
        "copy_bytes": Column(INT, "B", "Size of each copy; null where unknown."),
        "steps": Column(INT, "1", "Steps that copy it.", required=True),
        "step_source": Column(
            TEXT, "", "What tells steps: ranges, a detected pattern, or a function.", required=True
        ),
        "calls_per_step": Column(FLOAT, "1", "Copies per step.", required=True, kind=Kind.MEAN),
        "bytes_per_step": Column(FLOAT, "B", "Their bytes; null where unknown."),
        "total_ns": Column(INT, "ns", "Time of all of them; null where no times were recorded."),
        "exposed_ns": Column(
            INT, "ns", "The part of total_ns at which no kernel runs on the destination."
        ),
        "is_constant": Column(
            FLAG, "", "Whether it is known to be the same bytes; null where only the size is."
        ),
        "range": Column(TEXT, "", "NVTX range or operation that launched it; null where unknown."),
        "src_operation": Column(
            TEXT, "", "What made it: the operation, or the kernel that ended last on the source."
        ),
        "dst_operation": Column(
            TEXT, "", "What takes it: the operation, or the kernel that starts next."
        ),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
    },
)

# How far before or after a copy what makes or takes it is looked for.
_NEAR_NS: Final = NS_PER_S
# What makes a constant, and what reads a variable.
_CONSTANT, _VARIABLE = "Const", "ReadVariableOp"

Row = dict[str, Any]


def repeated_transfers(profile: Profile) -> pa.Table:
    """Find what every step copies to a device again.

    The contents of copies are not recorded: copies of the same size between the same memories,
    launched in the same NVTX range or operation, in every one of at least three steps, may be the
    same bytes (a table, a mask, weights that do not change), or the next batch. Only where
    TensorFlow says that a constant is copied, it is certain. Copies to the host are left out: they
    are results.

    Args:
        profile: Needs ``memcpys`` and ``kernels``, with steps that can be told (see `steps`); or
            ``tensor_copies``, ``functions`` and ``operations`` of TensorFlow, of which constants
            and variables that another device reads are named.

    Returns:
        At most twenty rows, the longest exposed and the largest first, columns as in
        `REPEATED_TRANSFERS`; none where nothing tells steps.
    """
    rows = _tensors(profile) if profile.has("tensor_copies", "functions", "operations") else []
    if profile.has("memcpys", "kernels"):
        rows += _with_kernels(profile, copied_again(profile))
    rows.sort(key=cost_of_repeated)
    return REPEATED_TRANSFERS.table(rows[:WORST])


def _with_kernels(profile: Profile, repeated: list[tuple[Copies, Row]]) -> list[Row]:
    """The rows, with the kernels before and after each one's first copy."""
    if not repeated:
        return []
    firsts = [
        tuple(int(column[0]) for column in (some.src, some.dst, some.start_ns, some.end_ns))
        for some, _ in repeated
    ]
    low = min(start for _, _, start, _ in firsts) - _NEAR_NS
    high = max(end for _, _, _, end in firsts) + _NEAR_NS
    recorded = profile.unrestricted
    parts = recorded.columns("kernels", "device_id", "start_ns", "end_ns", "name_id")
    near = ([c[(part[1] >= low) & (part[1] <= high)] for c in part] for part in parts)
    device, start_ns, end_ns, number = columns_of(near, 4)
    name = recorded.loaded("kernels").names.by_number
    rows = []
    for (src, dst, start, end), (_, row) in zip(firsts, repeated, strict=True):
        before = np.flatnonzero((device == src) & (end_ns <= start))
        after = np.flatnonzero((device == dst) & (start_ns >= end))
        kernels = {}
        if len(before):
            kernels["src_operation"] = name.get(int(number[before[end_ns[before].argmax()]]))
        if len(after):
            kernels["dst_operation"] = name.get(int(number[after[start_ns[after].argmin()]]))
        rows.append(row | kernels)
    return rows


def _tensors(profile: Profile) -> list[Row]:
    """Constants and variables that every step copies to another device."""
    kinds = {
        (row["function"], row["operation"]): row["operation_type"]
        for row in profile.table("operations").to_pylist()
    }
    rows = []
    for copied, steps in copied_in_every_step(profile):
        kind = kinds.get((copied["function"], copied["src_operation"]))
        if kind not in {_CONSTANT, _VARIABLE}:
            continue
        row = {
            "src": copied["src_device"],
            "dst": copied["dst_device"],
            "copy_bytes": copied["bytes_per_call"],
            "steps": steps,
            "step_source": "function",
            "calls_per_step": copied["calls"] / steps,
            "bytes_per_step": None if copied["bytes"] is None else copied["bytes"] / steps,
            "src_operation": copied["src_operation"],
            "dst_operation": copied["dst_operation"],
            "is_constant": True if kind == _CONSTANT else None,
        }
        dst = row["dst"]
        row["suggestion"] = (
            f"make the constant under tf.device({dst!r}), where it is taken"
            if row["is_constant"]
            else f"place the variable on {dst}, where it is read, or read it once per step there"
        )
        rows.append(row)
    return rows


ANALYSIS: Final = Analysis(
    "Copies that every step makes again",
    REPEATED_TRANSFERS,
    (),
    repeated_transfers,
    reads(STEP_READS, TIMELINE_READS),
    needs_any_of=("memcpys", "tensor_copies"),
)
