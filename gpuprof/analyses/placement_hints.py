"""What a TensorFlow program's placement costs without need, and what to try."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.placement import placement
from gpuprof.base.units import counted, format_bytes, say_share
from gpuprof.facts.dataflow import Copied, Dataflow, Moves, Node, dataflow
from gpuprof.facts.misplacements import Misplacement, misplacements
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

# What one of them alone saves may be lost to another one.
_JOINT: Final = ("gradients_outside", "weights_apart", "optimiser_slots", "update_outside")
# Less of what a step copies is not worth a sentence.
_LEAST_SHARE: Final = 0.01

HINTS: Final = Schema(
    "placement_hints",
    "one thing about the placement that can be mended",
    {
        "rank": Column(INT, "1", "1 for the worst.", required=True),
        "cause": Column(
            TEXT,
            "",
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
        "share": Column(FLOAT, "1", "Of all that a step copies; null where unknown."),
        "finding": Column(TEXT, "", "What it is.", required=True),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
        "table": Column(TEXT, "", "Table that tells more.", required=True),
    },
)

Row = dict[str, Any]


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
        other_moves = _union(
            misplacement.moves for misplacement in joint if misplacement is not misplaced
        )
        remaining = flow.copied(other_moves | dict(misplaced.moves))
        last = min(flow.copied(other_moves).less(remaining), flow.copied().less(remaining))
        if last > saved:
            also = " with the other findings mended, too, which leaves"
            return last, f": saves {_amount(last)} a step{also} {_amount(remaining)}"
    return saved, f": saves {_amount(saved)} a step, leaves {_amount(alone)}"


def _union(moves: Iterable[Moves]) -> dict[Node, str]:
    return {node: device for some in moves for node, device in some.items()}


def _amount(copied: Copied) -> str:
    unknown_sizes = f"{copied.unknown:g} x an unknown size" if copied.unknown else ""
    known_size = format_bytes(copied.bytes) if copied.bytes or not unknown_sizes else ""
    return " and ".join(filter(None, (known_size, unknown_sizes)))


def _fallbacks(parts: list[Row]) -> Iterator[Row]:
    """Operations that soft placement put elsewhere than the script asked."""
    moved = [row for row in parts if row["fallbacks"]]
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
            "suggestion": "see which device is missing;"
            " tf.config.set_soft_device_placement(False) makes it an error",
            "table": "placement",
        }


ANALYSIS: Final = Analysis(
    "What the placement costs without need",
    HINTS,
    ("tensor_copies", "operations", "functions"),
    placement_hints,
    reads(),
)
