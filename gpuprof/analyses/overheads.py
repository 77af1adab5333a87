"""How long the profiler, and CUDA itself, held up the program while its devices worked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuprof.model.intervals import intersection, single, union
from gpuprof.model.profile import Profile

_WORK = ("kernels", "memcpys", "memsets", "graph_launches")


@dataclass(frozen=True)
class Overhead:
    """What one source cost, of the time from the first activity of any device to the last.

    Args:
        source: ``profiler`` or ``cuda``.
        held_ns: For how long at least one thread was held up.
        span_ns: The whole time.
        most: What held up threads longest; None where it has no name.
    """

    source: str
    held_ns: int
    span_ns: int
    most: str | None


def overheads(profile: Profile) -> list[Overhead]:
    """What held up threads between the first activity of any device and the last.

    What is set up before and cleared up after that changes no figure of the devices.

    Args:
        profile: ``overheads`` and the tables of activities are read where they were recorded.
    """
    work = [name for name in _WORK if profile.has(name)]
    if not work or not profile.has("overheads") or not profile.table("overheads").num_rows:
        return []
    spans = [
        (int(start.min()), int(end.max()))
        for name in work
        for start, end in profile.integers(name, "start_ns", "end_ns")
        if len(start)
    ]
    if not spans:
        return []
    span = min(start for start, _ in spans), max(end for _, end in spans)
    rows = profile.table("overheads").to_pylist()
    sources = sorted({row["source"] for row in rows}, reverse=True)
    return [
        _overhead(source, [row for row in rows if row["source"] == source], span)
        for source in sources
    ]


def _overhead(source: str, rows: list[dict[str, Any]], span: tuple[int, int]) -> Overhead:
    start, end = (np.array([row[name] for row in rows]) for name in ("start_ns", "end_ns"))
    covered = intersection(union(start, end), single(*span))
    within = np.maximum(np.minimum(end, span[1]) - np.maximum(start, span[0]), 0)
    by_name: dict[str | None, int] = {}
    for row, ns in zip(rows, within.tolist(), strict=True):
        by_name[row["name"]] = by_name.get(row["name"], 0) + ns
    most = max(by_name, key=lambda name: by_name[name])
    return Overhead(source, covered.length, span[1] - span[0], most)
