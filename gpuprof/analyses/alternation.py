"""Parts of a program that take turns on two devices, and copy each time: alternating layers."""

from collections import defaultdict
from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.dataflow import dataflow
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
    flow = dataflow(profile) if profile.has("operations") else None
    # Of a model without towers that takes turns, all of it is one.
    alternating = turning(flow).get(ALL, ()) if flow else ()
    names = parts_by_function(profile)
    ways: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        nodes = [(row["function"], row[f"{end}_operation"] or "") for end in ("src", "dst")]
        scopes = [ALL if n in alternating else names[n[0]].tower(n[1]) for n in nodes]
        if scopes[0] is not None and scopes[0] == scopes[1]:
            ways[scopes[0], row["src_device"], row["dst_device"]].append(row)
    alternations = []
    for (scope, src, dst), there in sorted(ways.items()):
        back = ways.get((scope, dst, src), [])
        if src < dst and back:
            sizes = [row["bytes"] for row in (*there, *back)]
            alternations.append(
                {
                    "src": src,
                    "dst": dst,
                    "there": there[0]["dst_operation"] or there[0]["tensor"],
                    "back": back[0]["src_operation"] or back[0]["tensor"],
                    "name_scope": scope,
                    "turns": min(sum(row["calls"] for row in way) for way in (there, back)),
                    "bytes": None if None in sizes else sum(sizes),
                    "suggestion": f"place all of {scope} on one device",
                }
            )
    return alternations


ANALYSIS: Final = Analysis(
    "Parts that take turns on two devices",
    ALTERNATION,
    (),
    alternation,
    reads(RANGE_READS, TIMELINE_READS),
    needs_any_of=("memcpys", "tensor_copies"),
)
