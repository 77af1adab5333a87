"""Parts of a program that take turns on two devices, and copy each time: alternating layers."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.dataflow import Node, dataflow
from gpuprof.facts.misplacements import ALL, turning
from gpuprof.facts.model_parts import copied_in_every_step, parts_by_function
from gpuprof.facts.needless_copies import turns
from gpuprof.facts.nvtx import RANGE_READS
from gpuprof.facts.timeline import TIMELINE_READS
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema

ALTERNATION: Final = Schema(
    "alternation",
    "all turns from one part of a program to another one on a device and back",
    {
        "src": Column(TEXT, "", "Device that the turn leaves and comes back to.", required=True),
        "dst": Column(TEXT, "", "Device in between.", required=True),
        "there": Column(
            TEXT,
            "",
            "NVTX range that copies there, or the operation that takes it.",
            required=True,
            label="Copies there",
        ),
        "back": Column(
            TEXT,
            "",
            "NVTX range that copies back, or the operation that makes it.",
            required=True,
            label="Copies back",
        ),
        "name_scope": Column(TEXT, "", "Part of a TensorFlow model; null for NVTX ranges."),
        "turns": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(INT, "ns", "Time of the copies there; null where none was recorded."),
        "bytes": Column(
            INT, "B", "Bytes of the copies there, of TensorFlow both ways; null where unknown."
        ),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
    },
)

_ROWS: Final = 20
_ENDS: Final = ("src", "dst")

Row = dict[str, Any]


def alternation(profile: Profile) -> pa.Table:
    """Find parts that alternate between two devices.

    A turn is a copy from one device to another, then kernels there, then a copy back that
    another NVTX range launched, with no copy between the two devices in between. Of TensorFlow,
    a tower of the model alternates where its forward pass
    copies both ways between operations of its own on the same two devices in every step.

    Args:
        profile: Needs ``memcpys``, ``kernels``, ``nvtx_ranges`` and ``api_calls``; or
            ``tensor_copies`` and ``functions`` of TensorFlow.

    Returns:
        At most twenty rows, the costliest first, columns as in `ALTERNATION`; turns that occur
        only once are left out. Each copy is in one row at most.
    """
    rows = _of_tensors(profile) if profile.has("tensor_copies", "functions") else []
    if profile.has("memcpys", "kernels"):
        rows += [row for _, row in turns(profile)]
    rows.sort(key=lambda row: (-(row.get("total_ns") or 0), -(row["bytes"] or 0), row["there"]))
    return ALTERNATION.table(rows[:_ROWS])


def _of_tensors(profile: Profile) -> list[Row]:
    """Parts of a model whose forward pass copies both ways in every step."""
    rows = [row for row, _ in copied_in_every_step(profile) if row["is_gradient"] is False]
    rows.sort(key=lambda row: -1 if row["bytes"] is None else row["bytes"], reverse=True)
    ways: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    scope_of = _scopes(profile)
    for row in rows:
        scope, dst_scope = (scope_of((row["function"], row[f"{e}_operation"] or "")) for e in _ENDS)
        if scope is not None and scope == dst_scope:
            ways[scope, row["src_device"], row["dst_device"]].append(row)
    return [
        _tensor_row(scope, there, ways[scope, dst, src])
        for (scope, src, dst), there in sorted(ways.items())
        if src < dst and ways.get((scope, dst, src))
    ]


def _scopes(profile: Profile) -> Callable[[Node], str | None]:
    """The tower of an operation; of a model without towers that takes turns, all of it."""
    flow = dataflow(profile) if profile.has("operations") else None
    alternating = turning(flow).get(ALL, ()) if flow else ()
    names = parts_by_function(profile)
    return lambda node: ALL if node in alternating else names[node[0]].tower(node[1])


def _tensor_row(scope: str, there: list[Row], back: list[Row]) -> Row:
    sizes = [row["bytes"] for row in (*there, *back)]
    first = there[0]
    return {
        "src": first["src_device"],
        "dst": first["dst_device"],
        "there": first["dst_operation"] or first["tensor"],
        "back": back[0]["src_operation"] or back[0]["tensor"],
        "name_scope": scope,
        "turns": min(sum(row["calls"] for row in way) for way in (there, back)),
        "bytes": None if None in sizes else sum(sizes),
        "suggestion": f"place all of {scope} on one device",
    }


ANALYSIS: Final = Analysis(
    "Parts that take turns on two devices",
    ALTERNATION,
    (),
    alternation,
    reads(RANGE_READS, TIMELINE_READS),
    needs_any_of=("memcpys", "tensor_copies"),
)
