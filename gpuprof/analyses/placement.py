"""Where the parts of a TensorFlow model run, where they were asked for, and what joins them."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.dataflow import NO_WORK
from gpuprof.facts.model_parts import ModelPart, parts_by_function, step_executions
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLAG, FLOAT, INT, TEXT, Column, Kind, Schema

PLACEMENT: Final = Schema(
    "placement",
    "one part of a TensorFlow model on one device",
    {
        "device": Column(TEXT, "", "Where it ran, such as CPU:0.", required=True),
        "tower": Column(
            TEXT,
            "",
            "Outermost scope of its names; where no scope holds weights, the first operations that"
            " take its own, joined by +; null for neither.",
        ),
        "layer": Column(TEXT, "", "The scope below; null where there is none."),
        "is_gradient": Column(FLAG, "", "Computed for gradients alone.", required=True),
        "operations": Column(INT, "1", "Operations of it.", required=True),
        "requested_device": Column(
            TEXT, "", "Device that the script asked for; null for none, several with commas."
        ),
        "fallbacks": Column(INT, "1", "Operations that ran elsewhere than asked.", required=True),
        "total_ns": Column(INT, "ns", "Host time of the calls that were traced."),
    },
)
EDGES: Final = Schema(
    "placement_edges",
    "all copies from one part of a TensorFlow model to another part on another device",
    {
        "src_device": Column(TEXT, "", "Where it comes from.", required=True),
        "src_tower": Column(TEXT, "", "As in placement; null where unknown."),
        "src_layer": Column(TEXT, "", "As in placement; null where unknown."),
        "src_is_gradient": Column(FLAG, "", "Whether the source is part of the gradients."),
        "dst_device": Column(TEXT, "", "Where it goes.", required=True),
        "dst_tower": Column(TEXT, "", "As in placement; null where unknown."),
        "dst_layer": Column(TEXT, "", "As in placement; null where unknown."),
        "dst_is_gradient": Column(FLAG, "", "Whether the destination is part of the gradients."),
        "is_gradient": Column(FLAG, "", "The forward pass alone would not make these copies."),
        "calls_per_step": Column(FLOAT, "1", "Copies in a step.", required=True, kind=Kind.MEAN),
        "bytes_per_step": Column(FLOAT, "B", "Their bytes; null where one is unknown."),
    },
)

Row = dict[str, Any]


def placement(profile: Profile) -> pa.Table:
    """The parts of the training step on each device, in the order of their last operations.

    Args:
        profile: Needs ``operations`` and ``functions``.

    Returns:
        Columns as in `PLACEMENT`; of programs without a training step, of all their functions.
        A layer that runs on two devices has a row for each. Constants and what only orders
        others are left out.
    """
    by_part: dict[ModelPart, list[Row]] = {}
    names = parts_by_function(profile)
    for row in _in_steps(profile, "operations"):
        if row["operation_type"] not in NO_WORK:
            part = names[row["function"]].part(row["device"], row["operation"])
            by_part[part] = [*by_part.pop(part, []), row]
    return PLACEMENT.table([part._asdict() | _summary(rows) for part, rows in by_part.items()])


def placement_edges(profile: Profile) -> pa.Table:
    """What the parts on different devices copy to each other in a step, most bytes first.

    Args:
        profile: Needs ``tensor_copies``, ``operations`` and ``functions``.

    Returns:
        Columns as in `EDGES`; per execution in programs without a training step. Control edges
        carry no data and are left out. No rows if nothing crossed devices.
    """
    by_ends: dict[tuple[ModelPart, ModelPart], list[Row]] = {}
    names = parts_by_function(profile)
    for row in _in_steps(profile, "tensor_copies"):
        if not row["is_control"]:
            part_of = names[row["function"]].part
            ends = (
                part_of(row["src_device"], row["src_operation"]),
                part_of(row["dst_device"], row["dst_operation"]),
            )
            by_ends.setdefault(ends, []).append(row)
    steps = sum(_steps(profile).values())
    rows = [_edge(*ends, copies, steps) for ends, copies in by_ends.items()]
    return EDGES.table(sorted(rows, key=lambda row: -(row["bytes_per_step"] or 0)))


def _steps(profile: Profile) -> dict[str, int]:
    """Executions of each training step, or of each function where none is one."""
    rows = profile.table("functions").to_pylist()
    executions = {row["function"]: row["executions"] for row in rows}
    return step_executions(profile) or executions


def _in_steps(profile: Profile, table: str) -> list[Row]:
    steps = _steps(profile)
    return [row for row in profile.table(table).to_pylist() if row["function"] in steps]


def _summary(rows: list[Row]) -> Row:
    requested = dict.fromkeys(row["requested_device"] for row in rows if row["requested_device"])
    times = [row["total_ns"] for row in rows if row["total_ns"] is not None]
    return {
        "operations": len(rows),
        "requested_device": ", ".join(requested) or None,
        "fallbacks": sum(map(is_fallback, rows)),
        "total_ns": sum(times) if times else None,
    }


def is_fallback(row: Mapping[str, Any]) -> bool:
    """Whether soft placement put an operation elsewhere than the script asked."""
    requested = row["requested_device"]
    return requested is not None and not row["device"].endswith(requested)


def _edge(source: ModelPart, target: ModelPart, copies: list[Row], steps: int) -> Row:
    sizes = [row["bytes"] for row in copies]
    flags = {row["is_gradient"] for row in copies}
    return {
        **{f"src_{name}": value for name, value in source._asdict().items()},
        **{f"dst_{name}": value for name, value in target._asdict().items()},
        "is_gradient": None if None in flags else any(flags),
        "calls_per_step": sum(row["calls"] for row in copies) / steps,
        "bytes_per_step": None if None in sizes else sum(sizes) / steps,
    }


ANALYSIS: Final = Analysis(
    "Where the parts of the model run", PLACEMENT, ("operations", "functions"), placement, reads()
)
EDGES_ANALYSIS: Final = Analysis(
    "What the parts of the model copy to each other",
    EDGES,
    ("tensor_copies", "operations", "functions"),
    placement_edges,
    reads(),
)
