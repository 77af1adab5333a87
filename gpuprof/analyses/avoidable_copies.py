"""Copies that need not be: there and straight back, in turns, and the same again in every step.

The rules that find them are in `gpuprof.facts.needless_copies`.
"""

from collections import defaultdict
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import Copies, end_name
from gpuprof.facts.dataflow import dataflow
from gpuprof.facts.misplacements import ALL, turning
from gpuprof.facts.model_parts import copied_in_every_step, parts_by_function
from gpuprof.facts.moves import origins, usual
from gpuprof.facts.needless_copies import (
    WORST,
    copied_again,
    cost_of_repeated,
    repeated_pairs,
    suggestion,
    turns,
)
from gpuprof.facts.numbers import columns_of
from gpuprof.facts.nvtx import RANGE_READS
from gpuprof.facts.step_windows import STEP_READS
from gpuprof.facts.timeline import TIMELINE_READS
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Flag, Kind, Ns, Process, Schema, Text

PING_PONG: Final = Schema(
    "ping_pong",
    "all pairs of copies of one size that went to a memory and came back next",
    {
        "src": Text("Memory that the data left: host, or device N.", required=True),
        "dst": Text("Memory that it went to and came back from.", required=True),
        "copy_bytes": Bytes("Size of each copy.", required=True),
        "pairs": Count("How often it went there and came back.", required=True),
        "total_ns": Ns("Time of the copies of all pairs.", required=True),
        "median_stay_ns": Column(
            FLOAT, "ns", "Median time from the end of the way there to the start of the way back."
        ),
        "there_range": Text(
            "NVTX range or operation that launched most ways there; null where unknown."
        ),
        "back_range": Text(
            "NVTX range or operation that launched most ways back; null where unknown."
        ),
        "suggestion": Text("What to try.", required=True),
    },
)


def ping_pong(profile: Profile) -> pa.Table:
    """Find data that goes to a memory and comes straight back.

    Two copies are a pair if they follow one another between the same two memories, in opposite
    directions, with the same size, the second after the first has ended. That the bytes are
    the same data is likely where it repeats, not certain: the contents of copies are not
    recorded. Copies below 1 KiB are left out.

    Args:
        profile: Needs ``memcpys``; ``nvtx_ranges`` and ``api_calls`` name who copied.

    Returns:
        At most twenty rows, the costliest first, columns as in `PING_PONG`; pairs that occur
        only once are left out.
    """
    all_pairs, alike = repeated_pairs(profile)
    is_named = profile.unrestricted.has("nvtx_ranges", "api_calls")
    table: list[dict[str, Any]] = []
    for rows in alike[:WORST]:
        there, back = (way.take(rows) for way in all_pairs)
        src, dst = int(there.src[0]), int(there.dst[0])
        row = {
            "src": end_name(src),
            "dst": end_name(dst),
            "copy_bytes": int(there.bytes[0]),
            "pairs": len(there),
            "total_ns": int(there.duration_ns.sum() + back.duration_ns.sum()),
            "median_stay_ns": float(np.median(back.start_ns - there.end_ns)),
            "suggestion": suggestion(src, dst),
        }
        if is_named:
            row |= {
                "there_range": usual(*origins(profile, there)),
                "back_range": usual(*origins(profile, back)),
            }
        table.append(row)
    return PING_PONG.table(table)


PING_PONG_ANALYSIS: Final = Analysis(
    "Copies there and back", PING_PONG, ("memcpys",), ping_pong, RANGE_READS
)


ALTERNATION: Final = Schema(
    "alternation",
    "all turns from one part of a program to another one on a device and back",
    {
        "src": Text("Device that the turn leaves and comes back to.", required=True),
        "dst": Text("Device in between.", required=True),
        "there": Text(
            "NVTX range that copies there, or the operation that takes it.",
            required=True,
            label="Copies there",
        ),
        "back": Text(
            "NVTX range that copies back, or the operation that makes it.",
            required=True,
            label="Copies back",
        ),
        "name_scope": Text("Part of a TensorFlow model; null for NVTX ranges."),
        "turns": Count("How often.", required=True),
        "total_ns": Ns("Time of the copies there; null where none was recorded."),
        "bytes": Bytes("Bytes of the copies there, of TensorFlow both ways; null where unknown."),
        "suggestion": Text("What to try.", required=True),
    },
)


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
    rows = _turns_of_tensors(profile) if profile.has("tensor_copies", "functions") else []
    if profile.has("memcpys", "kernels"):
        rows += [row for _, row in turns(profile)]
    rows.sort(key=lambda row: (-(row.get("total_ns") or 0), -(row["bytes"] or 0), row["there"]))
    return ALTERNATION.table(rows[:WORST])


def _turns_of_tensors(profile: Profile) -> list[Row]:
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


ALTERNATION_ANALYSIS: Final = Analysis(
    "Parts that take turns on two devices",
    ALTERNATION,
    (),
    alternation,
    reads(RANGE_READS, TIMELINE_READS),
    needs_any_of=("memcpys", "tensor_copies"),
)


REPEATED_TRANSFERS: Final = Schema(
    "repeated_transfers",
    "all copies of one size from one memory to another that one place makes in every step",
    {
        "process_id": Process("Process; null where unknown."),
        "src": Text("Memory copied from: host, device N, CPU:0, ...", required=True),
        "dst": Text("Memory copied to.", required=True),
        "copy_bytes": Bytes("Size of each copy; null where unknown."),
        "steps": Count("Steps that copy it.", required=True),
        "step_source": Text(
            "What tells steps: ranges, a detected pattern, or a function.", required=True
        ),
        "calls_per_step": Column(FLOAT, "1", "Copies per step.", required=True, kind=Kind.MEAN),
        "bytes_per_step": Column(FLOAT, "B", "Their bytes; null where unknown."),
        "total_ns": Ns("Time of all of them; null where no times were recorded."),
        "exposed_ns": Ns("The part of total_ns at which no kernel runs on the destination."),
        "is_constant": Flag(
            "Whether it is known to be the same bytes; null where only the size is."
        ),
        "range": Text("NVTX range or operation that launched it; null where unknown."),
        "src_operation": Text(
            "What made it: the operation, or the kernel that ended last on the source."
        ),
        "dst_operation": Text("What takes it: the operation, or the kernel that starts next."),
        "suggestion": Text("What to try.", required=True),
    },
)

# How far before or after a copy what makes or takes it is looked for.
_NEAR_NS: Final = NS_PER_S
# What makes a constant, and what reads a variable.
_CONSTANT, _VARIABLE = "Const", "ReadVariableOp"


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
    rows = (
        _constants_and_variables(profile)
        if profile.has("tensor_copies", "functions", "operations")
        else []
    )
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


def _constants_and_variables(profile: Profile) -> list[Row]:
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


REPEATED_ANALYSIS: Final = Analysis(
    "Copies that every step makes again",
    REPEATED_TRANSFERS,
    (),
    repeated_transfers,
    reads(STEP_READS, TIMELINE_READS),
    needs_any_of=("memcpys", "tensor_copies"),
)
