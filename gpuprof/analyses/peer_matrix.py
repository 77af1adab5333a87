"""Device by device, the host being one: time, bytes, rate, and what each end waited for it."""

import math
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import (
    PATHS,
    Route,
    end_name,
    known_end,
    running_on,
    sums_of,
    transfer_rows,
    transfer_times,
)
from gpuprof.facts.links import link_between
from gpuprof.facts.numbers import groups
from gpuprof.facts.timeline import TIMELINE_READS, timeline_of
from gpuprof.model.analysis import Analysis, ordered, per_file, summed
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Intervals
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

PEER_MATRIX: Final = Schema(
    "peer_matrix",
    "all transfers from one memory to another by one path",
    {
        "src": Column(TEXT, "", "host, device N, or unknown.", required=True),
        "dst": Column(TEXT, "", "host, device N, or unknown.", required=True),
        "src_device_id": Column(INT, "", "Device copied from; null for host and unknown."),
        "dst_device_id": Column(INT, "", "Device copied to; null for host and unknown."),
        "path": Column(TEXT, "", "direct, staged through the host, or uvm.", required=True),
        "calls": Column(INT, "1", "How often; a staged copy counts once.", required=True),
        "total_ns": Column(INT, "ns", "Sum of durations; of staged copies, both halves."),
        "bytes": Column(INT, "B", "Bytes moved; null where unknown of one."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns."),
        "link": Column(
            TEXT, "", "What joins the two, such as NVLink 2 x2; null where the recording is silent."
        ),
        "peak_bytes_per_s": Column(INT, "B/s", "The link's peak in one direction."),
        "peak_share": Column(
            FLOAT,
            "1",
            "bytes_per_s / peak_bytes_per_s; null above 1, where copies took another link or a "
            "figure of the file is wrong.",
        ),
        "src_busy_ns": Column(
            INT, "ns", "At least one of them runs on the source; null for the host."
        ),
        "dst_busy_ns": Column(
            INT, "ns", "At least one of them runs on the destination; null for the host."
        ),
        "src_exposed_ns": Column(
            INT, "ns", "One runs on the source, and no kernel does; null for the host."
        ),
        "dst_exposed_ns": Column(
            INT, "ns", "One runs on the destination, and no kernel does; null for the host."
        ),
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

    Args:
        profile: Needs ``memcpys`` and ``kernels``.

    Returns:
        One row per source, destination and path, the costliest first, columns as in
        `PEER_MATRIX`; no rows where nothing was transferred.
    """
    return PEER_MATRIX.table(
        [
            row | _ends(row) | _peak(profile, row) | _exposed(profile, row)
            for row in _routes(profile)
        ]
    )


def _routes(profile: Profile) -> list[dict[str, Any]]:
    """Each route with its sums, the costliest first; unknown ends come last."""
    copies, rows = transfer_rows(profile), []
    for route in groups(copies.src, copies.dst, copies.path):
        first = route[0]
        src, dst = (known_end(int(end[first])) for end in (copies.src, copies.dst))
        sums = sums_of(copies, route)
        path = PATHS[int(copies.path[first])]
        rows.append({"src": src, "dst": dst, "path": path, **sums._asdict()})

    def order(row: dict[str, Any]) -> tuple[object, ...]:
        ends = ((end is None, end or 0) for end in (row["src"], row["dst"]))
        return -row["total_ns"], *ends, row["path"]

    return sorted(rows, key=order)


def _ends(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for end in ("src", "dst")
        for name, value in (
            (end, end_name(row[end])),
            (f"{end}_device_id", None if row[end] == HOST else row[end]),
        )
    }


def _peak(profile: Profile, row: dict[str, Any]) -> dict[str, Any]:
    link = None if row["path"] == "staged" else link_between(profile, row["src"], row["dst"])
    if link is None:
        return {}
    share = _share(row["bytes_per_s"], link.bytes_per_s)
    return {"link": link.name, "peak_bytes_per_s": link.bytes_per_s, "peak_share": share}


def _share(achieved: float | None, peak: int | None) -> float | None:
    """The share of a link's peak; None where it is unknown, or above 1."""
    return None if not peak or achieved is None or achieved > peak else achieved / peak


def faster_than_links(profile: Profile) -> list[dict[str, Any]]:
    """The rows whose copies are faster than the link that the recording names."""
    rows = profile.once(peer_matrix).to_pylist()
    return [
        row for row in rows if (row["bytes_per_s"] or 0) > (row["peak_bytes_per_s"] or math.inf)
    ]


def _exposed(profile: Profile, row: dict[str, Any]) -> dict[str, int | None]:
    route = Route(row["src"], row["dst"], row["path"])
    times = transfer_times(profile)[route]
    columns: dict[str, int | None] = {}
    for end in ("src", "dst"):
        if row[end] is not None and row[end] != HOST:
            running = running_on(times, row[end], route)
            columns[f"{end}_busy_ns"] = running.length
            columns[f"{end}_exposed_ns"] = _without_kernels(profile, running, row[end])
    return columns


def _without_kernels(profile: Profile, running: Intervals, device: int) -> int:
    # A copy that starts in a window may end behind it, where kernels hide it too.
    hidden_ns = timeline_of(profile.unrestricted, device).kernel_ns(running.start, running.end)
    return running.length - int(hidden_ns.sum())


ANALYSIS: Final = Analysis(
    "Transfers by device pair",
    PEER_MATRIX,
    ("memcpys", "kernels"),
    peer_matrix,
    TIMELINE_READS,
)
