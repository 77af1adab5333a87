"""How large the copies of each kind are, and which sizes are too small for their link."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.copy_speeds import (
    Link,
    copies_by_size,
    fit,
    link_kind,
    sizes_by_link,
)
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import COPY_READS
from gpuprof.model.analysis import Analysis
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

COPY_SIZES: Final = Schema(
    "copy_sizes",
    "the transfers of one direction, path and kinds of memory whose sizes have as many bits",
    {
        "direction": Column(
            TEXT, "", "host to device, device to host or device to device.", required=True
        ),
        "path": Column(TEXT, "", "direct, staged through the host, or uvm.", required=True),
        "src_memory_kind": Column(TEXT, "", "pageable, pinned, device, managed, ..."),
        "dst_memory_kind": Column(TEXT, "", "pageable, pinned, device, managed, ..."),
        "from_bytes": Column(INT, "B", "Smallest size of the row: a power of two, or 0."),
        "below_bytes": Column(INT, "B", "Sizes of the row are smaller than this."),
        "calls": Column(INT, "1", "How often.", required=True),
        "bytes": Column(INT, "B", "Bytes moved.", required=True),
        "total_ns": Column(INT, "ns", "Sum of durations.", required=True),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns."),
        "latency_bound_ns": Column(
            INT,
            "ns",
            "Time of copies that spend more on their link's latency than on data (see "
            "copy_speeds); null where no latency could be fitted.",
        ),
    },
)


def copy_sizes(profile: Profile) -> pa.Table:
    """Count the transfers by size.

    Args:
        profile: Needs ``memcpys``.

    Returns:
        One row per direction, path, kinds of memory and power of two, smallest sizes first;
        columns as in `COPY_SIZES`. Copies of unknown size are in no row.
    """
    by_place: dict[tuple[Any, ...], dict[str, Any]] = {}
    for link, sizes in sizes_by_link(profile).items():
        line = fit(sizes)
        half = line.half_speed_bytes if line is not None else None
        columns = (sizes.bytes.tolist(), sizes.calls.tolist(), sizes.total_ns.tolist())
        for size, calls, total_ns in zip(*columns, strict=True):
            row = by_place.setdefault(_place(link, size), _empty())
            row["calls"] += calls
            row["bytes"] += size * calls
            row["total_ns"] += total_ns
            if half is not None:
                row["latency_bound_ns"] = row["latency_bound_ns"] or 0
                row["latency_bound_ns"] += total_ns if size < half else 0
    rows = [_row(place, row) for place, row in by_place.items()]
    rows.sort(key=lambda row: [str(row[n]) for n in _PLACE[:4]] + [row["from_bytes"] * 1.0])
    return COPY_SIZES.table(rows)


_PLACE: Final = tuple(COPY_SIZES.columns)[:6]


def _place(link: Link, size: int) -> tuple[Any, ...]:
    low = 1 << (size.bit_length() - 1) if size else 0
    kinds = (link_kind(link), link.path, link.src_memory_kind, link.dst_memory_kind)
    return (*kinds, low, 2 * low or 1)


def _empty() -> dict[str, Any]:
    return {"calls": 0, "bytes": 0, "total_ns": 0, "latency_bound_ns": None}


def _row(place: tuple[Any, ...], row: dict[str, Any]) -> dict[str, Any]:
    rate = row["bytes"] * NS_PER_S / row["total_ns"] if row["total_ns"] else None
    derived = {"mean_ns": row["total_ns"] / row["calls"], "bytes_per_s": rate}
    return dict(zip(_PLACE, place, strict=True)) | row | derived


ANALYSIS: Final = Analysis(
    "Sizes of copies",
    COPY_SIZES,
    ("memcpys",),
    copy_sizes,
    COPY_READS,
    of_files=(copies_by_size,),
)
