"""Device by device, the host being one: time, bytes, rate, and what each end waited for it."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import PATHS, Route, end_name, sums_of, transfer_rows, transfer_times
from gpuprof.facts.hosts import names_of, rails
from gpuprof.facts.links import link_between
from gpuprof.facts.moves import kernel_ns
from gpuprof.facts.numbers import groups
from gpuprof.facts.timeline import TIMELINE_READS
from gpuprof.model.analysis import ordered, per_file, summed
from gpuprof.model.derived import HOST, UNKNOWN, if_known
from gpuprof.model.intervals import Intervals
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, Bytes, Column, Count, Id, Kind, Ns, Schema, Share, Text

PEER_MATRIX: Final = Schema(
    "peer_matrix",
    "all transfers from one memory to another by one path",
    {
        "src": Text("host, device N, or unknown.", required=True),
        "dst": Text("host, device N, or unknown.", required=True),
        "src_device_id": Id("Device copied from; null for host and unknown."),
        "dst_device_id": Id("Device copied to; null for host and unknown."),
        "path": Text("direct, staged through the host, or uvm.", required=True),
        "calls": Count("How often; a staged copy counts once.", required=True),
        "total_ns": Ns("Sum of durations; of staged copies, both halves."),
        "bytes": Bytes("Bytes moved; null where unknown of one."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns."),
        "link": Text(
            "What joins the two, such as NVLink 2 x2; null where the recording is silent."
        ),
        "peak_bytes_per_s": Column(INT, "B/s", "The link's peak in one direction."),
        "peak_share": Share(
            "bytes_per_s / peak_bytes_per_s; null above 1, where copies took another link or a "
            "figure of the file is wrong."
        ),
        "src_busy_ns": Ns("At least one of them runs on the source; null for the host."),
        "dst_busy_ns": Ns("At least one of them runs on the destination; null for the host."),
        "src_exposed_ns": Ns("One runs on the source, and no kernel does; null for the host."),
        "dst_exposed_ns": Ns("One runs on the destination, and no kernel does; null for the host."),
    },
)


def _added(table: pa.Table) -> pa.Table:
    """The routes of all files; the few that two files share are added up."""
    sums = summed(table, _ENDS, ("calls", "total_ns", "bytes", *_SUMMED))
    first = {tuple(row[name] for name in _ENDS): row for row in table.to_pylist()[::-1]}
    rows = []
    for row in sums.to_pylist():
        size, total_ns = row["bytes"], row["total_ns"]
        rate = size * NS_PER_S / total_ns if size is not None and total_ns else None
        of_route = first[tuple(row[name] for name in _ENDS)]
        share = _share(rate, of_route["peak_bytes_per_s"])
        rows.append(of_route | row | {"bytes_per_s": rate, "peak_share": share})
    order = [("total_ns", "descending"), *((f"{end}_device_id", "ascending") for end in _ENDS[:2])]
    return ordered(PEER_MATRIX.table(rows), [*order, ("path", "ascending")])


_ENDS: Final = ("src", "dst", "path")
# A row, which of its ends that is, the device there, and when copies run on it.
_End = tuple[dict[str, Any], str, int, Intervals]
_SUMMED: Final = tuple(f"{end}_{time}_ns" for end in _ENDS[:2] for time in ("busy", "exposed"))


@per_file(PEER_MATRIX, _added, needs=("memcpys", "kernels"), device_texts=("src", "dst"))
def peer_matrix(profile: Profile) -> pa.Table:
    """Sum up the transfers by where they come from and go to.

    A peer copy may be hidden behind kernels on one of its devices and exposed on the other, so
    each end has its own figures, which must not be added up. The halves of a staged copy run
    one after the other: the first on the source, the second on the destination. Where copies
    of several rows run at once, each row counts the instant. Kernels that move data themselves
    (NCCL, direct loads) leave no copy: see `collectives`.

    The link is known from nvprof's databases, or from a device's name (see `facts.links`). A
    staged copy crosses two links one after the other, and has none here.

    Returns:
        One row per source, destination and path, the costliest first, columns as in
        `PEER_MATRIX`; no rows where nothing was transferred.
    """
    copies, rows, ends = transfer_rows(profile), list[dict[str, Any]](), list[_End]()
    path = copies.path
    for alike in groups(copies.src, copies.dst, path):
        first = alike[0]
        src, dst = (if_known(int(end[first])) for end in (copies.src, copies.dst))
        route = Route(src, dst, PATHS[path[first]])
        row: dict[str, Any] = {"path": route.path, **sums_of(copies, alike)}
        link = None if route.path == "staged" else link_between(profile, src, dst)
        if link is not None:
            share = _share(row["bytes_per_s"], link.bytes_per_s)
            row |= {"link": link.name, "peak_bytes_per_s": link.bytes_per_s, "peak_share": share}
        for name, end in (("src", src), ("dst", dst)):
            row |= {name: end_name(end), f"{name}_device_id": None if end == HOST else end}
            if end is not None and end != HOST:
                ends.append((row, name, end, transfer_times(profile)[route, end]))
        rows.append(row)
    _time_ends(profile, ends)

    def order(row: dict[str, Any]) -> tuple[object, ...]:
        # Unknown ends come last, the host before devices.
        ends = ((row[end] == "unknown", row[f"{end}_device_id"] or 0) for end in _ENDS[:2])
        hosts = (row[end] != "host" for end in _ENDS[:2])
        return -row["total_ns"], *zip(ends, hosts, strict=True), row["path"]

    return PEER_MATRIX.table(sorted(rows, key=order))


def _time_ends(profile: Profile, ends: Sequence[_End]) -> None:
    """Fill in the columns of the ends of routes that are devices."""
    if not ends:
        return
    sets = [running for *_, running in ends]
    device = np.repeat([end for _, _, end, _ in ends], [*map(len, sets)])
    start, end = (np.concatenate([getattr(s, of) for s in sets]) for of in ("start", "end"))
    # A copy that starts in a window may end behind it, where kernels hide it too.
    hidden_ns = np.append(0, kernel_ns(profile, device, start, end).cumsum())
    borders = np.cumsum([0, *map(len, sets)])
    for (row, name, _, running), of_end in zip(ends, np.diff(hidden_ns[borders]), strict=True):
        busy_ns = running.length
        row |= {f"{name}_busy_ns": busy_ns, f"{name}_exposed_ns": busy_ns - int(of_end)}


def _share(achieved: float | None, peak: int | None) -> float | None:
    """The share of a link's peak; None where it is unknown, or above 1."""
    return None if not peak or achieved is None or achieved > peak else achieved / peak


def faster_than_links(profile: Profile) -> list[dict[str, Any]]:
    """The rows whose copies are faster than the link that the recording names."""
    rows = profile.once(peer_matrix).to_pylist()
    return [
        row for row in rows if (row["bytes_per_s"] or 0) > (row["peak_bytes_per_s"] or math.inf)
    ]


ANALYSIS: Final = peer_matrix.analysis("Transfers by device pair", TIMELINE_READS)


# Of fewer routes none is an outlier.
_LEAST_ROUTES: Final = 4
# A slower route reaches less than this share of the median rate of its kind.
_SLOW: Final = 0.8
# The memory of the host, as an end of a route.
_HOST: Final = "host"
_END_IDS: Final = ("src_device_id", "dst_device_id")
# Columns with the share of slow routes, and those in which the routes are alike.
_SHARED: Final = {
    "slow_of_host_share": ("src_host", "dst_host"),
    "slow_of_rail_share": ("rail",),
}

SLOW_LINKS: Final = Schema(
    "slow_links",
    "one route whose rate is below 80 % of the median of its kind",
    {
        **{name: PEER_MATRIX.columns[name] for name in ("src", "dst", "path")},
        "src_rank": Count("Rank that uses the source, where known."),
        "dst_rank": Count("Rank that uses the destination, where known."),
        "src_host": Text("Host of the source, where those of several are known."),
        "dst_host": Text("Host of the destination, where known."),
        "rail": Text(
            "Place of its device among those of the host, from 0; of two devices both, as 2 to 3."
        ),
        "routes": Count(
            "Routes of its kind: as many bytes per call within a factor of two, the same path, and"
            " the host at the same ends.",
            required=True,
        ),
        "calls": Count("Its copies.", required=True),
        "bytes": Bytes("Bytes that they moved.", required=True),
        "bytes_per_s": Column(FLOAT, "B/s", "Their rate.", required=True),
        "usual_bytes_per_s": Column(FLOAT, "B/s", "Median rate of its kind.", required=True),
        "rate_ratio": Column(
            FLOAT, "1", "bytes_per_s / usual_bytes_per_s.", required=True, kind=Kind.RATIO
        ),
        "lost_ns": Ns("Time that it loses beside the usual rate.", required=True),
        "slow_of_host_share": Share(
            "Share of the routes of its kind and hosts that are slow; all of them: the host."
        ),
        "slow_of_rail_share": Share(
            "Share of the routes of its kind and rail, over all hosts, that are slow."
        ),
    },
)


def slow_links(profile: Profile) -> pa.Table:
    """Compare the routes between memories with others of their kind.

    Returns:
        One row per slow route, that which loses most time first, columns as in `SLOW_LINKS`; no
        rows where fewer than four routes are of one kind, or none is slow.
    """
    names = names_of(profile)
    rail_of = rails(names.hosts)
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in profile.once(peer_matrix).to_pylist():
        if row["bytes_per_s"] and row["bytes"]:
            src, dst = (row[end] for end in _END_IDS)
            is_from_host, is_to_host = (row[end] == _HOST for end in ("src", "dst"))
            places = [str(rail_of[device]) for device in (src, dst) if device in rail_of]
            row |= {
                "src_rank": names.ranks.get(src),
                "dst_rank": names.ranks.get(dst),
                # A device copies from and to the memory of its own host.
                "src_host": names.hosts.get(dst if is_from_host else src),
                "dst_host": names.hosts.get(src if is_to_host else dst),
                "rail": " to ".join(places) or None,
            }
            # Small copies are slower on any link.
            size = row["bytes"] // row["calls"] if row["calls"] else 0
            kind = row["path"], is_from_host, is_to_host, size.bit_length()
            kinds.setdefault(kind, []).append(row)
    rows = [row for routes in kinds.values() for row in _slow(routes)]
    rows.sort(
        key=lambda row: (
            -row["lost_ns"],
            *(UNKNOWN if row[end] is None else row[end] for end in _END_IDS),
            row["src"],
        )
    )
    return SLOW_LINKS.table(rows)


def _slow(routes: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those of some routes of one kind that are slow."""
    if len(routes) < _LEAST_ROUTES:
        return
    usual = float(np.median([row["bytes_per_s"] for row in routes]))
    ratios = [row["bytes_per_s"] / usual for row in routes]
    shares: dict[str, list[float | None]] = {}
    for share, names in _SHARED.items():
        keys = [tuple(row[name] for name in names) for row in routes]
        slow = Counter(key for key, ratio in zip(keys, ratios, strict=True) if ratio < _SLOW)
        alike = Counter(keys)
        shares[share] = [None if None in key else slow[key] / alike[key] for key in keys]
    for place, (row, ratio) in enumerate(zip(routes, ratios, strict=True)):
        if ratio < _SLOW:
            figures = {"usual_bytes_per_s": usual, "rate_ratio": ratio, "routes": len(routes)}
            figures |= {share: of_routes[place] for share, of_routes in shares.items()}
            yield row | figures | {"lost_ns": round(row["total_ns"] * (1 - ratio))}


SLOW_LINKS_ANALYSIS: Final = replace(
    ANALYSIS, title="Slow links", schema=SLOW_LINKS, run=slow_links
)
