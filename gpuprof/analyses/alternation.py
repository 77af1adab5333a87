"""Parts of a program that take turns on two devices, and copy each time: layers placed in turn."""

from collections import defaultdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.copies import EACH_TRANSFER, HOST, end_name
from gpuprof.analyses.launches import UNKNOWN, read_columns
from gpuprof.analyses.nvtx import ranges_around
from gpuprof.analyses.tensor_transfers import scope_of
from gpuprof.analyses.timeline import timeline_of
from gpuprof.intervals import Int64s, covered_within
from gpuprof.profile import Profile
from gpuprof.schema import INT, TEXT, Column, Schema

ALTERNATION: Final = Schema(
    "alternation",
    "all turns from one part of a program to another one on a device and back",
    {
        "src": Column(TEXT, "", "Device that the turn leaves and comes back to.", required=True),
        "dst": Column(TEXT, "", "Device in between.", required=True),
        "there": Column(
            TEXT, "", "NVTX range that copies there, or the operation that takes it.", required=True
        ),
        "back": Column(
            TEXT, "", "NVTX range that copies back, or the operation that makes it.", required=True
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

_LEAST_TURNS: Final = 2
_ROWS: Final = 20
_COPIES: Final = f"""
    SELECT src, dst, start_ns, end_ns, duration_ns, coalesce(bytes, {UNKNOWN}),
        coalesce(process_id, {UNKNOWN}), coalesce(correlation_id, {UNKNOWN})
    FROM {EACH_TRANSFER}
    WHERE src <> dst AND {HOST} NOT IN (src, dst) ORDER BY start_ns"""

Row = dict[str, Any]


def alternation(profile: Profile) -> pa.Table:
    """Find parts that alternate between two devices.

    A turn is a copy from one device to another, then kernels there, then a copy back that
    another NVTX range launched, with no copy between the two devices in between. Of TensorFlow,
    a part of the model (the outermost scope of its names) alternates where its forward pass
    copies both ways between operations of its own on the same two devices in every step.

    Args:
        profile: Needs ``memcpys``, ``kernels``, ``nvtx_ranges`` and ``api_calls``; or
            ``tensor_copies`` and ``functions`` of TensorFlow.

    Returns:
        At most twenty rows, the costliest first, columns as in `ALTERNATION`; turns that occur
        only once are left out. Each copy is in one row at most.
    """
    whole = profile.whole or profile
    rows = _of_tensors(profile) if profile.has("tensor_copies", "functions") else []
    if profile.has("memcpys", "kernels") and whole.has("nvtx_ranges", "api_calls"):
        rows += _of_ranges(profile)
    rows.sort(key=lambda row: (-(row.get("total_ns") or 0), -(row["bytes"] or 0), row["there"]))
    return ALTERNATION.table(rows[:_ROWS])


def _of_ranges(profile: Profile) -> list[Row]:
    src, dst, start, end, duration, size, process, correlation = read_columns(profile, _COPIES, 8)
    if not len(src):
        return []
    there, back = _followers(src, dst)
    is_turn = (src[back] == dst[there]) & (dst[back] == src[there])
    is_turn &= _works_between(profile, dst[there], end[there], start[back])
    there, back = there[is_turn], back[is_turn]
    whole = profile.whole or profile
    texts = [ranges_around(whole, process[way], correlation[way]) for way in (there, back)]
    found: dict[tuple[int, int, str, str], list[int]] = defaultdict(list)
    for index, out, home in zip(there.tolist(), *texts, strict=True):
        if out is not None and home is not None and out != home:
            found[int(src[index]), int(dst[index]), out, home].append(index)
    return [
        {
            "src": end_name(key[0]),
            "dst": end_name(key[1]),
            "there": key[2],
            "back": key[3],
            "turns": len(mine),
            "total_ns": int(duration[mine].sum()),
            "bytes": int(size[mine].sum()) if (size[mine] >= 0).all() else None,
            "suggestion": _suggestion(key[2], key[3]),
        }
        for key, mine in found.items()
        if len(mine) >= _LEAST_TURNS
    ]


def _followers(src: Int64s, dst: Int64s) -> tuple[Int64s, Int64s]:
    """Each copy and the next one between the same two devices."""
    pairs = np.stack([np.minimum(src, dst), np.maximum(src, dst)])
    _, member = np.unique(pairs, axis=1, return_inverse=True)
    order = np.argsort(member, kind="stable")
    same = np.flatnonzero(np.diff(member[order]) == 0)
    return order[same], order[same + 1]


def _works_between(
    profile: Profile, device: Int64s, start: Int64s, end: Int64s
) -> npt.NDArray[np.bool_]:
    """Whether a kernel runs on the device in each window."""
    works = np.zeros(len(device), bool)
    for one in np.unique(device).tolist():
        here = np.flatnonzero((device == one) & (start < end))
        kernels = timeline_of(profile.whole or profile, one).kernels
        works[here] = covered_within(kernels, start[here], end[here]) > 0
    return works


def _suggestion(there: str, back: str) -> str:
    return f'place "{there}" and "{back}" on one device'


def _of_tensors(profile: Profile) -> list[Row]:
    """Parts of a model whose forward pass copies both ways in every step."""
    rows = profile.query("""
        SELECT c.* FROM tensor_copies c JOIN functions f ON f.function = c.function AND f.is_step
        WHERE NOT c.is_control AND c.is_gradient IS false AND c.calls >= f.executions
        ORDER BY c.bytes DESC""").to_pylist()
    ways: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        scope = scope_of(row["src_operation"] or "")
        if scope is not None and scope == scope_of(row["dst_operation"] or ""):
            ways[scope, row["src_device"], row["dst_device"]].append(row)
    return [
        _tensor_row(scope, there, ways[scope, dst, src])
        for (scope, src, dst), there in sorted(ways.items())
        if src < dst and ways.get((scope, dst, src))
    ]


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
    needs_any_of=("memcpys", "tensor_copies"),
)
