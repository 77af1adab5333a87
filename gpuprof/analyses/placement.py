"""Where the parts of a TensorFlow model run, where they were asked for, and what they copy.

Of single tensors, of a step, and of what joins the parts, with what can be mended.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import counted, say_bytes, say_share
from gpuprof.facts.dataflow import NO_WORK, Copied, Dataflow, dataflow
from gpuprof.facts.misplacements import Misplacement, misplacements
from gpuprof.facts.model_parts import ModelPart, parts_by_function, step_executions, tensor_copies
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Flag, Kind, Ns, Schema, Share, Text

PLACEMENT: Final = Schema(
    "placement",
    "one part of a TensorFlow model on one device",
    {
        "device": Text("Where it ran, such as CPU:0.", required=True),
        "tower": Text(
            "Outermost scope of its names; where no scope holds weights, the first operations that"
            " take its own, joined by +; null for neither."
        ),
        "layer": Text("The scope below; null where there is none."),
        "is_gradient": Flag("Computed for gradients alone.", required=True),
        "operations": Count("Operations of it.", required=True),
        "requested_device": Text(
            "Device that the script asked for; null for none, several with commas."
        ),
        "fallbacks": Count("Operations that ran elsewhere than asked.", required=True),
        "total_ns": Ns("Host time of the calls that were traced."),
    },
)
EDGES: Final = Schema(
    "placement_edges",
    "all copies from one part of a TensorFlow model to another part on another device",
    {
        "src_device": Text("Where it comes from.", required=True),
        "src_tower": Text("As in placement; null where unknown."),
        "src_layer": Text("As in placement; null where unknown."),
        "src_is_gradient": Flag("Whether the source is part of the gradients."),
        "dst_device": Text("Where it goes.", required=True),
        "dst_tower": Text("As in placement; null where unknown."),
        "dst_layer": Text("As in placement; null where unknown."),
        "dst_is_gradient": Flag("Whether the destination is part of the gradients."),
        "is_gradient": Flag("The forward pass alone would not make these copies."),
        "calls_per_step": Column(FLOAT, "1", "Copies in a step.", required=True, kind=Kind.MEAN),
        "bytes_per_step": Column(FLOAT, "B", "Their bytes; null where one is unknown."),
    },
)

Row = dict[str, Any]


def placement(profile: Profile) -> pa.Table:
    """The parts of the training step on each device, in the order of their last operations.

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
    table = []
    for part, rows in by_part.items():
        requested = dict.fromkeys(filter(None, (row["requested_device"] for row in rows)))
        times = [row["total_ns"] for row in rows if row["total_ns"] is not None]
        summary = {
            "operations": len(rows),
            "requested_device": ", ".join(requested) or None,
            "fallbacks": sum(map(is_fallback, rows)),
            "total_ns": sum(times) if times else None,
        }
        table.append(part._asdict() | summary)
    return PLACEMENT.table(table)


def placement_edges(profile: Profile) -> pa.Table:
    """What the parts on different devices copy to each other in a step, most bytes first.

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
    rows = []
    for (source, target), copies in by_ends.items():
        sizes = [row["bytes"] for row in copies]
        flags = {row["is_gradient"] for row in copies}
        rows.append(
            {
                **{f"src_{name}": value for name, value in source._asdict().items()},
                **{f"dst_{name}": value for name, value in target._asdict().items()},
                "is_gradient": None if None in flags else any(flags),
                "calls_per_step": sum(row["calls"] for row in copies) / steps,
                "bytes_per_step": None if None in sizes else sum(sizes) / steps,
            }
        )
    return EDGES.table(sorted(rows, key=lambda row: -(row["bytes_per_step"] or 0)))


def _steps(profile: Profile) -> dict[str, int]:
    """Executions of each training step, or of each function where none is one."""
    rows = profile.table("functions").to_pylist()
    executions = {row["function"]: row["executions"] for row in rows}
    return step_executions(profile) or executions


def _in_steps(profile: Profile, table: str) -> list[Row]:
    steps = _steps(profile)
    return [row for row in profile.table(table).to_pylist() if row["function"] in steps]


def is_fallback(row: Mapping[str, Any]) -> bool:
    """Whether soft placement put an operation elsewhere than the script asked."""
    requested = row["requested_device"]
    return requested is not None and not row["device"].endswith(requested)


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


# What one of them alone saves may be lost to another one.
_JOINT: Final = ("gradients_outside", "weights_apart", "optimiser_slots", "update_outside")
# Less of what a step copies is not worth a sentence.
_LEAST_SHARE: Final = 0.01

HINTS: Final = Schema(
    "placement_hints",
    "one thing about the placement that can be mended",
    {
        "rank": Count("1 for the worst.", required=True),
        "cause": Text(
            "gradients_outside, weights_apart, optimiser_slots, update_outside, shared_embedding,"
            " repeated_reads, concatenation, alternating_layers or moved_silently.",
            required=True,
        ),
        "bytes_per_step": Column(
            FLOAT, "B", "What a step copies to and from what is misplaced; null where unknown."
        ),
        "saves_bytes_per_step": Column(
            FLOAT, "B", "What a step copies less at most where it is mended; null where unknown."
        ),
        "share": Share("Of all that a step copies; null where unknown."),
        "finding": Text("What it is.", required=True),
        "suggestion": Text("What to try.", required=True),
        "table": Text("Table that tells more.", required=True),
    },
)


def placement_hints(profile: Profile) -> pa.Table:
    """What runs on another device than it should, and operations moved silently.

    Each misplacement is judged on the graph of the training step: what would be copied if it were
    mended. What others hide, as weights whose gradients are elsewhere, too, counts as it would
    with the gradients, the weights and the updates mended together.

    Args:
        profile: Needs ``tensor_copies``, ``operations`` and ``functions``; without
            ``operation_inputs`` what would be copied anew is not known, and saves less.

    Returns:
        Columns as in `HINTS`, what saves most first; no rows where nothing is amiss.
    """
    flow = dataflow(profile)
    hints = [*(_misplaced(flow) if flow else ()), *_fallbacks(profile.once(placement).to_pylist())]
    hints.sort(key=lambda row: (-(row["saves_bytes_per_step"] or 0), row["finding"]))
    return HINTS.table([row | {"rank": rank} for rank, row in enumerate(hints, start=1)])


def _misplaced(flow: Dataflow) -> Iterator[Row]:
    """What of the model is elsewhere than it should be, if it costs a part of the copies."""
    today = flow.copied()
    candidates = misplacements(flow)
    joint = [misplaced for misplaced in candidates if misplaced.cause in _JOINT]
    for misplaced in candidates:
        saved, leaves = _saving(flow, misplaced, joint)
        is_known = misplaced.adds_bytes is not None and not saved.unknown
        if is_known and saved.bytes < _LEAST_SHARE * today.bytes:
            continue
        touched = flow.touching(misplaced.moves)
        share = touched.bytes / today.bytes if today.bytes and not today.unknown else None
        of_all = "" if share is None else f", {say_share(share)} of all"
        yield {
            "cause": misplaced.cause,
            "bytes_per_step": None if touched.unknown else touched.bytes,
            "saves_bytes_per_step": saved.bytes if is_known else None,
            "share": share,
            "finding": f"{misplaced.finding}: for {misplaced.pronoun} each step copies"
            f" {_amount(touched)}{of_all}",
            "suggestion": misplaced.fix + leaves,
            "table": misplaced.table,
        }


def _saving(
    flow: Dataflow, misplaced: Misplacement, joint: Sequence[Misplacement]
) -> tuple[Copied, str]:
    """What a step copies less where something is mended, and what that leaves, in a clause."""
    if misplaced.adds_bytes is None:
        return Copied(0, 0), ""
    alone = flow.copied(misplaced.moves).less(Copied(-misplaced.adds_bytes, 0))
    saved = flow.copied().less(alone)
    if misplaced in joint:
        moves_of_others = (hint.moves.items() for hint in joint if hint is not misplaced)
        other_moves = dict(chain.from_iterable(moves_of_others))
        remaining = flow.copied(other_moves | dict(misplaced.moves))
        last = min(flow.copied(other_moves).less(remaining), flow.copied().less(remaining))
        if last > saved:
            also = " with the other findings mended, too, which leaves"
            return last, f": saves {_amount(last)} a step{also} {_amount(remaining)}"
    return saved, f": saves {_amount(saved)} a step, leaves {_amount(alone)}"


def _amount(copied: Copied) -> str:
    unknown_sizes = f"{copied.unknown:g} x an unknown size" if copied.unknown else ""
    known_size = say_bytes(copied.bytes) if copied.bytes or not unknown_sizes else ""
    return " and ".join(filter(None, (known_size, unknown_sizes)))


def _fallbacks(parts: list[Row]) -> Iterator[Row]:
    """Operations that soft placement put elsewhere than the script asked."""
    moved = [row for row in parts if row["fallbacks"]]
    used = {row["device"] for row in parts}
    count: Counter[tuple[str, str]] = Counter()
    for row in moved:
        count[row["requested_device"], row["device"]] += row["fallbacks"]
    for (requested, ran), operations in count.items():
        ops = counted(operations, "operation", "operations")
        yield {
            "cause": "moved_silently",
            "bytes_per_step": None,
            "saves_bytes_per_step": None,
            "share": None,
            "finding": f"{ops} ran on {ran}, though {requested} was requested",
            "suggestion": (
                f"list the operations that have no kernel for {requested}"
                if requested in used
                else f"see why {requested} is missing"
            )
            + "; tf.config.set_soft_device_placement(False) makes it an error",
            "table": "placement",
        }


HINTS_ANALYSIS: Final = Analysis(
    "What the placement costs without need",
    HINTS,
    ("tensor_copies", "operations", "functions"),
    placement_hints,
    reads(),
)


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


TENSORS_ANALYSIS: Final = Analysis(
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
