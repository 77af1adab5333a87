"""Copies that go to a memory and come straight back."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.copies import end_name
from gpuprof.facts.moves import origins, usual
from gpuprof.facts.needless_copies import repeated_pairs, suggestion
from gpuprof.facts.nvtx import RANGE_READS
from gpuprof.model.analysis import Analysis
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

PING_PONG: Final = Schema(
    "ping_pong",
    "all pairs of copies of one size that went to a memory and came back next",
    {
        "src": Column(TEXT, "", "Memory that the data left: host, or device N.", required=True),
        "dst": Column(TEXT, "", "Memory that it went to and came back from.", required=True),
        "copy_bytes": Column(INT, "B", "Size of each copy.", required=True),
        "pairs": Column(INT, "1", "How often it went there and came back.", required=True),
        "total_ns": Column(INT, "ns", "Time of the copies of all pairs.", required=True),
        "median_stay_ns": Column(
            FLOAT, "ns", "Median time from the end of the way there to the start of the way back."
        ),
        "there_range": Column(
            TEXT, "", "NVTX range or operation that launched most ways there; null where unknown."
        ),
        "back_range": Column(
            TEXT, "", "NVTX range or operation that launched most ways back; null where unknown."
        ),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
    },
)

_ROWS: Final = 20


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
    for rows in alike[:_ROWS]:
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


ANALYSIS: Final = Analysis("Copies there and back", PING_PONG, ("memcpys",), ping_pong, RANGE_READS)
