"""Links that are slower than others of their kind, over all ranks of a job."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.peer_matrix import ANALYSIS as MATRIX_ANALYSIS
from gpuprof.analyses.peer_matrix import peer_matrix
from gpuprof.facts.hosts import DeviceNames, names_of, rails
from gpuprof.model.analysis import Analysis
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Kind, Schema

# Of fewer routes none is an outlier.
_LEAST_ROUTES: Final = 4
# A slower route reaches less than this share of the median rate of its kind.
_SLOW: Final = 0.8
# The memory of the host, as an end of a route.
_HOST: Final = "host"
_ENDS: Final = ("src_device_id", "dst_device_id")
# Columns with the share of slow routes, and those in which the routes are alike.
_SHARES: Final = ("slow_of_host_share", "slow_of_rail_share")
_SHARED: Final = (("src_host", "dst_host"), ("rail",))

SLOW_LINKS: Final = Schema(
    "slow_links",
    "one route whose rate is below 80 % of the median of its kind",
    {
        "src": Column(TEXT, "", "host, device N, or unknown.", required=True),
        "dst": Column(TEXT, "", "host, device N, or unknown.", required=True),
        "path": Column(TEXT, "", "direct, staged through the host, or uvm.", required=True),
        "src_rank": Column(INT, "1", "Rank that uses the source, where known."),
        "dst_rank": Column(INT, "1", "Rank that uses the destination, where known."),
        "src_host": Column(TEXT, "", "Host of the source, where those of several are known."),
        "dst_host": Column(TEXT, "", "Host of the destination, where known."),
        "rail": Column(
            TEXT,
            "",
            "Place of its device among those of the host, from 0; of two devices both, as 2 to 3.",
        ),
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
        "slow_of_host_share": Column(
            FLOAT,
            "1",
            "Share of the routes of its kind and hosts that are slow; all of them: the host.",
        ),
        "slow_of_rail_share": Column(
            FLOAT, "1", "Share of the routes of its kind and rail, over all hosts, that are slow."
        ),
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
    names = names_of(profile)
    rail_of = rails(names.hosts)
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in profile.once(peer_matrix).to_pylist():
        if row["bytes_per_s"] and row["bytes"]:
            kinds.setdefault(_kind(row), []).append(row | _place(row, names, rail_of))
    rows = [row for routes in kinds.values() for row in _slow(routes)]
    rows.sort(
        key=lambda row: (
            -row["lost_ns"],
            *(UNKNOWN if row[end] is None else row[end] for end in _ENDS),
            row["src"],
        )
    )
    return SLOW_LINKS.table(rows)


def _place(
    row: dict[str, Any], names: DeviceNames, rail_of: Mapping[int | None, int]
) -> dict[str, Any]:
    """The ranks and hosts of a route's ends, and its rail."""
    src, dst = (row[end] for end in _ENDS)
    hosts = names.hosts.get(src), names.hosts.get(dst)
    places = [str(rail_of[device]) for device in (src, dst) if device in rail_of]
    return {
        "src_rank": names.ranks.get(src),
        "dst_rank": names.ranks.get(dst),
        # A device copies from and to the memory of its own host.
        "src_host": hosts[1] if row["src"] == _HOST else hosts[0],
        "dst_host": hosts[0] if row["dst"] == _HOST else hosts[1],
        "rail": " to ".join(places) or None,
    }


def _kind(row: dict[str, Any]) -> tuple[Any, ...]:
    """What must be alike for rates to be compared: small copies are slower on any link."""
    size = row["bytes"] // row["calls"] if row["calls"] else 0
    return row["path"], row["src"] == _HOST, row["dst"] == _HOST, size.bit_length()


def _slow(routes: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if len(routes) < _LEAST_ROUTES:
        return
    usual = float(np.median([row["bytes_per_s"] for row in routes]))
    ratios = [row["bytes_per_s"] / usual for row in routes]
    of_host, of_rail = (_slow_shares(routes, ratios, *names) for names in _SHARED)
    for row, ratio, *shares in zip(routes, ratios, of_host, of_rail, strict=True):
        if ratio < _SLOW:
            figures = {"usual_bytes_per_s": usual, "rate_ratio": ratio, "routes": len(routes)}
            figures |= dict(zip(_SHARES, shares, strict=True))
            yield row | figures | {"lost_ns": round(row["total_ns"] * (1 - ratio))}


def _slow_shares(
    routes: Sequence[dict[str, Any]], ratios: Sequence[float], *names: str
) -> list[float | None]:
    """For each route the share of slow ones among those that are alike in some columns."""
    slow: dict[tuple[Any, ...], list[bool]] = {}
    keys = [tuple(row[name] for name in names) for row in routes]
    for key, ratio in zip(keys, ratios, strict=True):
        slow.setdefault(key, []).append(ratio < _SLOW)
    return [None if None in key else sum(slow[key]) / len(slow[key]) for key in keys]


ANALYSIS: Final = Analysis(
    "Slow links",
    SLOW_LINKS,
    MATRIX_ANALYSIS.needs,
    slow_links,
    MATRIX_ANALYSIS.reads,
    of_files=MATRIX_ANALYSIS.of_files,
)
