"""Links that are slower than others of their kind, over all ranks of a job."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.facts.last_ranks import ranks_of
from gpuprof.analyses.merge import JobStates, Merge
from gpuprof.analyses.transfers.peer_matrix import ANALYSIS as MATRIX_ANALYSIS
from gpuprof.analyses.transfers.peer_matrix import MERGE as MATRIX_MERGE
from gpuprof.analyses.transfers.peer_matrix import peer_matrix
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Kind, Schema

# Of fewer routes none is an outlier.
_LEAST_ROUTES: Final = 4
# A slower route reaches less than this share of the median rate of its kind.
_SLOW: Final = 0.8

SLOW_LINKS: Final = Schema(
    "slow_links",
    "one route whose rate is below 80 % of the median of its kind",
    {
        "src": Column(TEXT, "", "host, device N, or unknown.", required=True),
        "dst": Column(TEXT, "", "host, device N, or unknown.", required=True),
        "path": Column(TEXT, "", "direct, staged through the host, or uvm.", required=True),
        "src_rank": Column(INT, "1", "Rank that uses the source, where known."),
        "dst_rank": Column(INT, "1", "Rank that uses the destination, where known."),
        "routes": Column(
            INT,
            "1",
            "Routes of its kind: as many bytes per call within a factor of two, the same path, and"
            " the host at the same ends.",
            required=True,
        ),
        "calls": Column(INT, "1", "Its copies.", required=True),
        "bytes": Column(INT, "B", "Bytes that they moved.", required=True),
        "bytes_per_s": Column(FLOAT, "B/s", "Their rate.", required=True),
        "usual_bytes_per_s": Column(FLOAT, "B/s", "Median rate of its kind.", required=True),
        "rate_ratio": Column(
            FLOAT, "1", "bytes_per_s / usual_bytes_per_s.", required=True, kind=Kind.RATIO
        ),
        "lost_ns": Column(INT, "ns", "Time that it loses beside the usual rate.", required=True),
    },
)


def slow_links(profile: Profile) -> pa.Table:
    """Compare the routes between memories with others of their kind.

    Args:
        profile: Needs ``memcpys`` and ``kernels``.

    Returns:
        One row per slow route, that which loses most time first, columns as in `SLOW_LINKS`; no
        rows where fewer than four routes are of one kind, or none is slow.
    """
    return _table(profile.once(peer_matrix), ranks_of(profile))


def _of_job(job: JobStates) -> pa.Table:
    return _table(MATRIX_MERGE.answer(job), job.device_ranks())


def _table(matrix: pa.Table, ranks: Mapping[int, int]) -> pa.Table:
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in matrix.to_pylist():
        if row["bytes_per_s"] and row["bytes"]:
            kinds.setdefault(_kind(row), []).append(row)
    rows = [row for routes in kinds.values() for row in _slow(routes)]
    rows.sort(key=lambda row: (-row["lost_ns"], row["src"], row["dst"]))
    for row in rows:
        row["src_rank"] = ranks.get(row["src_device_id"])
        row["dst_rank"] = ranks.get(row["dst_device_id"])
    return SLOW_LINKS.table(rows)


def _kind(row: dict[str, Any]) -> tuple[Any, ...]:
    """What must be alike for rates to be compared: small copies are slower on any link."""
    size = row["bytes"] // row["calls"] if row["calls"] else 0
    return row["path"], row["src"] == "host", row["dst"] == "host", size.bit_length()


def _slow(routes: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if len(routes) < _LEAST_ROUTES:
        return
    usual = float(np.median([row["bytes_per_s"] for row in routes]))
    for row in routes:
        ratio = row["bytes_per_s"] / usual
        if ratio < _SLOW:
            figures = {"usual_bytes_per_s": usual, "rate_ratio": ratio, "routes": len(routes)}
            yield row | figures | {"lost_ns": round(row["total_ns"] * (1 - ratio))}


ANALYSIS: Final = Analysis(
    "Slow links",
    SLOW_LINKS,
    MATRIX_ANALYSIS.needs,
    slow_links,
    MATRIX_ANALYSIS.reads,
    merge=Merge(MATRIX_MERGE.states, _of_job),
)
