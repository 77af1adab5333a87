"""Which tensors a TensorFlow program copies between devices, and which operations make it so."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.model_parts import parts_by_function, step_executions, tensor_copies
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Flag, Kind, Schema, Text

TENSOR_TRANSFERS: Final = Schema(
    "tensor_transfers",
    "one tensor that is copied from one TensorFlow device to another",
    {
        "src_device": Text("Such as CPU:0.", required=True),
        "dst_device": Text("Such as CPU:1.", required=True),
        "src_operation": Text("Operation that makes it."),
        "dst_operation": Text("Operation that takes it; the first of several."),
        "name_scope": Text("Part of the model, as the tower of placement."),
        "is_gradient": Flag("The forward pass alone would not make this copy."),
        "function": Text("tf.function it is part of; null for eager copies."),
        "calls": Count("How often, in the executions seen.", required=True),
        "calls_per_step": Column(
            FLOAT, "1", "Per training step; null outside of steps.", kind=Kind.MEAN
        ),
        "bytes_per_call": Bytes("Size; null where unknown."),
        "bytes_per_step": Column(FLOAT, "B", "Per training step; null where size unknown."),
    },
)
PER_STEP: Final = Schema(
    "tensor_transfers_per_step",
    "the training step of a TensorFlow program",
    {
        "steps": Count(
            "Executions that were seen whole; those of the only function if none trains.",
            required=True,
        ),
        "copies_per_step": Column(
            FLOAT,
            "1",
            "Copies between devices; null where collective operations move data, too.",
            kind=Kind.MEAN,
        ),
        "bytes_per_step": Column(FLOAT, "B", "Bytes of these copies; null if one is unknown."),
        "gradient_bytes_per_step": Column(
            FLOAT, "B", "Bytes that only gradients need; null if unknown."
        ),
        "unknown_copies_per_step": Column(
            FLOAT, "1", "Copies of unknown size; null if copies are not counted.", kind=Kind.MEAN
        ),
    },
)

_COLLECTIVES: Final = ("Collective", "Nccl")

Row = dict[str, Any]


def tensor_transfers(profile: Profile) -> pa.Table:
    """Each tensor's copies, those that move most bytes in a step first.

    Control edges carry no data and are left out.

    Returns:
        Columns as in `TENSOR_TRANSFERS`. No rows if nothing crossed devices.
    """
    steps = step_executions(profile)
    names = parts_by_function(profile)
    rows = []
    for row in tensor_copies(profile):
        count, size = steps.get(row["function"]), row["bytes"]
        ends = (row[end] or "" for end in ("src_operation", "dst_operation"))
        towers = map(names[row["function"]].tower, ends)
        rows.append(
            {name: row[name] for name in row if name in TENSOR_TRANSFERS.columns}
            | {
                "name_scope": next(filter(None, towers), None),
                "calls_per_step": row["calls"] / count if count else None,
                "bytes_per_step": size / count if count and size is not None else None,
            }
        )

    def cost(row: Row) -> tuple[float, int, str]:
        return -(row["bytes_per_step"] or 0.0), -row["calls"], row["src_operation"] or ""

    return TENSOR_TRANSFERS.table(sorted(rows, key=cost))


def per_step(profile: Profile) -> pa.Table:
    """What one training step copies between devices.

    Args:
        profile: Needs ``tensor_copies`` and ``functions``; ``operations`` tell collective ones,
            whose bytes no recording has.

    Returns:
        One row, columns as in `PER_STEP`; no row if no step was seen whole.
    """
    steps = step_executions(profile)
    count = sum(steps.values())
    if not count:
        return PER_STEP.empty()
    operations = profile.table("operations").to_pylist() if profile.has("operations") else []
    kinds = [row["operation_type"] or "" for row in operations if row["function"] in steps]
    if any(kind.startswith(_COLLECTIVES) for kind in kinds):
        return PER_STEP.table([{"steps": count}])
    rows = [row for row in tensor_copies(profile) if row["function"] in steps]
    gradients = [row for row in rows if row["is_gradient"] is not False]
    unknown = sum(row["calls"] for row in rows if row["bytes"] is None)
    return PER_STEP.table(
        [
            {
                "steps": count,
                "copies_per_step": sum(row["calls"] for row in rows) / count,
                "bytes_per_step": _bytes_per_step(rows, count),
                "gradient_bytes_per_step": _bytes_per_step(gradients, count),
                "unknown_copies_per_step": unknown / count,
            }
        ]
    )


def _bytes_per_step(rows: list[Row], steps: int) -> float | None:
    sizes = [row["bytes"] for row in rows]
    return None if None in sizes else sum(sizes) / steps


ANALYSIS: Final = Analysis(
    "Tensors copied between devices",
    TENSOR_TRANSFERS,
    ("tensor_copies", "functions"),
    tensor_transfers,
    reads(),
)
PER_STEP_ANALYSIS: Final = Analysis(
    "Copies between devices per training step",
    PER_STEP,
    ("tensor_copies", "functions"),
    per_step,
    reads(),
)
