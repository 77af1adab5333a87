"""What a TensorFlow program's placement costs without need, and what to try."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.placement.placement import placement, placement_edges
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.units import counted, format_bytes, say_share

# Less of what a step copies is not worth a sentence.
_LEAST_SHARE: Final = 0.01

HINTS: Final = Schema(
    "placement_hints",
    "one thing about the placement that can be mended",
    {
        "rank": Column(INT, "1", "1 for the worst.", required=True),
        "bytes_per_step": Column(FLOAT, "B", "What it makes a step copy; null where unknown."),
        "share": Column(FLOAT, "1", "Of all that a step copies; null where unknown."),
        "finding": Column(TEXT, "", "What it is.", required=True),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
        "table": Column(TEXT, "", "Table that tells more.", required=True),
    },
)

Row = dict[str, Any]


def placement_hints(profile: Profile) -> pa.Table:
    """Gradients that run elsewhere than their forward pass, and operations moved silently.

    TensorFlow does not place gradients with the operations that they belong to: under
    `tf.device` scopes around the forward pass alone they run on the default device.

    Args:
        profile: Needs ``tensor_copies``, ``operations`` and ``functions``.

    Returns:
        Columns as in `HINTS`, what copies most first; no rows where nothing is amiss.
    """
    parts = profile.once(placement).to_pylist()
    edges = profile.once(placement_edges).to_pylist()
    found = [*_misplaced(parts, edges), *_fallbacks(parts)]
    found.sort(key=lambda row: -(row["bytes_per_step"] or 0))
    return HINTS.table([row | {"rank": rank} for rank, row in enumerate(found, start=1)])


def _misplaced(parts: list[Row], edges: list[Row]) -> Iterator[Row]:
    """Towers whose gradients run on another device than their forward pass."""
    total = _bytes(edges)
    for tower in dict.fromkeys(row["tower"] for row in parts if row["tower"]):
        forward, gradients = (
            _main_device([r for r in parts if r["tower"] == tower and r["is_gradient"] is flag])
            for flag in (False, True)
        )
        moved = _bytes([row for row in edges if row["is_gradient"] and _touches(row, tower)])
        share = moved / total if moved is not None and total else None
        if None in (forward, gradients) or forward == gradients or (share or 0) < _LEAST_SHARE:
            continue
        yield {
            "bytes_per_step": moved,
            "share": share,
            "finding": f"gradients of {tower} run on {gradients}, its forward pass on {forward}:"
            f" for them each step copies {format_bytes(moved)}, {say_share(share)} of all",
            "suggestion": "TensorFlow's gradients ignore the forward scope: try colocating them,"
            " with a tape per tower and its gradient() under the tower's tf.device",
            "table": "placement_edges",
        }


def _main_device(rows: list[Row]) -> str | None:
    """The device of most operations; None for none."""
    count: Counter[str] = Counter()
    for row in rows:
        count[row["device"]] += row["operations"]
    return max(count, key=lambda name: count[name]) if count else None


def _touches(edge: Row, tower: str) -> bool:
    return tower in (edge["src_tower"], edge["dst_tower"])


def _bytes(edges: list[Row]) -> float | None:
    sizes = [row["bytes_per_step"] for row in edges]
    return None if None in sizes else sum(sizes)


def _fallbacks(parts: list[Row]) -> Iterator[Row]:
    """Operations that soft placement put elsewhere than the script asked."""
    moved = [row for row in parts if row["fallbacks"]]
    count: Counter[tuple[str, str]] = Counter()
    for row in moved:
        count[row["requested_device"], row["device"]] += row["fallbacks"]
    for (asked, ran), operations in count.items():
        ops = counted(operations, "operation", "operations")
        yield {
            "bytes_per_step": None,
            "share": None,
            "finding": f"{ops} ran on {ran}, though {asked} was asked for",
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
