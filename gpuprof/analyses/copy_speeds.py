"""Latency and bandwidth of each route, fitted to its copies, and the time lost to small ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import COPY_READS, PATHS, end_name, transfer_rows
from gpuprof.facts.durations import square_sums
from gpuprof.facts.histograms import SQUARES, square_columns, squares_of
from gpuprof.facts.numbers import groups, sums_by_number
from gpuprof.model.analysis import Analysis, per_file, summed
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Ns, Schema, Text

COPY_SPEEDS: Final = Schema(
    "copy_speeds",
    "all transfers of one route between two kinds of memory",
    {
        "src": Text("host, device N, or unknown.", required=True),
        "dst": Text("host, device N, or unknown.", required=True),
        "path": Text("direct, staged through the host, or uvm.", required=True),
        "src_memory_kind": Text("pageable, pinned, device, managed, ..."),
        "dst_memory_kind": Text("pageable, pinned, device, managed, ..."),
        "calls": Count("Copies of known size.", required=True),
        "sizes": Count("Different sizes among them.", required=True),
        "total_ns": Ns("Sum of their durations.", required=True),
        "latency_ns": Column(
            FLOAT,
            "ns",
            "L of duration = L + bytes / B, at least 0; null with fewer than three sizes, or none "
            "that is twice another.",
        ),
        "latency_error_ns": Column(FLOAT, "ns", "Its standard error."),
        "bandwidth_bytes_per_s": Column(
            FLOAT, "B/s", "B of the same fit; null where durations do not clearly grow with sizes."
        ),
        "bandwidth_error_bytes_per_s": Column(FLOAT, "B/s", "Its standard error."),
        "half_speed_bytes": Column(
            FLOAT,
            "B",
            "L times B: smaller copies spend more time on latency than on data.",
            label="Half-speed size",
        ),
        "latency_bound_calls": Count("Copies below half_speed_bytes."),
        "latency_bound_ns": Ns("Time of these."),
    },
)

_LEAST_SIZES: Final = 3
# A line through sizes that are nearly one tells by chance what other sizes would take.
_LEAST_SPAN: Final = 2
# A slope below this many standard errors gives no bandwidth.
_SURE: Final = 2


# A route between two kinds of memory.
_ROUTE: Final = ("src", "dst", "path", "src_memory_kind", "dst_memory_kind")


@dataclass(frozen=True, eq=False)
class Sizes:
    """The copies of a link by size, one element per size.

    Args:
        bytes: Size of a copy.
        calls: How many had it.
        total_ns: Sum of their durations.
        spread: Variance of their durations, in ns squared.
    """

    bytes: npt.NDArray[np.int64]
    calls: npt.NDArray[np.int64]
    total_ns: npt.NDArray[np.int64]
    spread: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """A line through the durations of copies: latency in ns, ns per byte, and their errors."""

    latency_ns: float
    latency_error_ns: float
    ns_per_byte: float
    ns_per_byte_error: float

    @property
    def half_speed_bytes(self) -> float | None:
        """Size at which latency takes half of the time; None where the slope may be chance."""
        if self.ns_per_byte <= _SURE * self.ns_per_byte_error:
            return None
        return max(self.latency_ns, 0.0) / self.ns_per_byte


@once_per_profile
def sizes_by_link(profile: Profile) -> Mapping[tuple[str, ...], Sizes]:
    """The transfers of known size of every route between two kinds of memory, as in `_ROUTE`."""
    by_route: dict[tuple[str, ...], list[tuple[int, int, int, float]]] = {}
    for row in profile.once(copies_by_size).to_pylist():
        size, calls, total_ns = (row[name] for name in ("bytes", "calls", "total_ns"))
        spread = (calls * squares_of(row) - total_ns**2) / calls**2
        sizes = by_route.setdefault(tuple(row[name] for name in _ROUTE), [])
        sizes.append((size, calls, total_ns, spread))
    return {
        route: Sizes(*map(np.array, zip(*sorted(rows), strict=True)))
        for route, rows in by_route.items()
    }


_BY_SIZE: Final = Schema(
    "copies_by_size",
    "the transfers of one size, route and kinds of memory",
    {name: COPY_SPEEDS.columns[name] for name in _ROUTE}
    | {
        "bytes": Bytes("Size of a copy.", required=True),
        "calls": Count("How many had it.", required=True),
        "total_ns": COPY_SPEEDS.columns["total_ns"],
        **SQUARES,
    },
)


@per_file(
    _BY_SIZE,
    partial(summed, keys=[*_ROUTE, "bytes"], sums=["calls", "total_ns", *SQUARES]),
    needs=("memcpys",),
    device_texts=("src", "dst"),
)
def copies_by_size(profile: Profile) -> pa.Table:
    """The transfers of known size of every link by size."""
    copies = transfer_rows(profile)
    keys = (copies.src, copies.dst, copies.path, copies.src_memory, copies.dst_memory)
    table = []
    for rows in groups(*keys):
        sized = rows[copies.bytes[rows] != UNKNOWN]
        src, dst, path, src_memory, dst_memory = (int(key[rows[0]]) for key in keys)
        link = {
            "src": end_name(if_known(src)),
            "dst": end_name(if_known(dst)),
            "path": PATHS[path],
            "src_memory_kind": copies.src_memories[src_memory],
            "dst_memory_kind": copies.dst_memories[dst_memory],
        }
        different, place, calls = np.unique(
            copies.bytes[sized], return_inverse=True, return_counts=True
        )
        duration_ns = copies.duration_ns[sized]
        total_ns = sums_by_number(place, duration_ns, len(different))
        squares = square_sums(duration_ns, place, len(different))
        columns = different.tolist(), calls.tolist(), total_ns.tolist(), squares
        table += [
            link | {"bytes": size, "calls": number, "total_ns": ns} | square_columns(square)
            for size, number, ns, square in zip(*columns, strict=True)
        ]
    return _BY_SIZE.table(table)


def fit(sizes: Sizes) -> Fit | None:
    """The line that fits the durations best, relative to their sizes.

    Every copy's deviation counts relative to the mean duration of its size: the error of a
    copy of 100 MB is not a thousand times as telling as that of one of 100 kB.

    Returns:
        The line, whose latency is not negative, and the standard errors of its two figures as of
        a line that may be any; None with fewer than three sizes, or where none is twice another.
    """
    if len(sizes.bytes) < _LEAST_SIZES or sizes.bytes[-1] < _LEAST_SPAN * sizes.bytes[0]:
        return None
    mean = sizes.total_ns / sizes.calls
    weight = sizes.calls / np.maximum(mean, 1.0) ** 2
    x, total = sizes.bytes.astype(float), weight.sum()
    centre, middle = (weight * x).sum() / total, (weight * mean).sum() / total
    width = (weight * (x - centre) ** 2).sum()
    if width <= 0:
        return None
    slope = (weight * (x - centre) * (mean - middle)).sum() / width
    latency = middle - slope * centre
    if latency < 0:  # No copy takes less than no time: of all other lines this one fits best.
        latency, slope = 0.0, (weight * x * mean).sum() / (weight * x**2).sum()
    deviation = weight * ((mean - latency - slope * x) ** 2 + sizes.spread)
    scatter = deviation.sum() / max(int(sizes.calls.sum()) - 2, 1)
    return Fit(
        float(latency),
        float(np.sqrt(scatter * (1 / total + centre**2 / width))),
        float(slope),
        float(np.sqrt(scatter / width)),
    )


def copy_speeds(profile: Profile) -> pa.Table:
    """Fit duration = latency + bytes / bandwidth to the copies of every route.

    Returns:
        One row per route and kinds of memory, that which spends most time on copies too small
        for its bandwidth first; columns as in `COPY_SPEEDS`.
    """
    rows = []
    for route, sizes in sizes_by_link(profile).items():
        row: dict[str, Any] = {
            **dict(zip(_ROUTE, route, strict=True)),
            "calls": int(sizes.calls.sum()),
            "sizes": len(sizes.bytes),
            "total_ns": int(sizes.total_ns.sum()),
        }
        rows.append(row)
        line = fit(sizes)
        if line is None:
            continue
        row |= {"latency_ns": line.latency_ns, "latency_error_ns": line.latency_error_ns}
        half = line.half_speed_bytes
        if half is not None:
            error = NS_PER_S * line.ns_per_byte_error / line.ns_per_byte**2
            small = sizes.bytes < half
            row |= {
                "bandwidth_bytes_per_s": NS_PER_S / line.ns_per_byte,
                "bandwidth_error_bytes_per_s": error,
                "half_speed_bytes": half,
                "latency_bound_calls": int(sizes.calls[small].sum()),
                "latency_bound_ns": int(sizes.total_ns[small].sum()),
            }
    rows.sort(key=lambda row: (-(row.get("latency_bound_ns") or 0), -row["total_ns"], row["src"]))
    return COPY_SPEEDS.table(rows)


ANALYSIS: Final = Analysis(
    "Latency and bandwidth of copies",
    COPY_SPEEDS,
    ("memcpys",),
    copy_speeds,
    COPY_READS,
    of_files=(copies_by_size,),
)


COPY_SIZES: Final = Schema(
    "copy_sizes",
    "the transfers of one direction, path and kinds of memory whose sizes have as many bits",
    {
        "direction": Text("host to device, device to host or device to device.", required=True),
        **{name: COPY_SPEEDS.columns[name] for name in _ROUTE[2:]},
        "from_bytes": Bytes("Smallest size of the row: a power of two, or 0."),
        "below_bytes": Bytes("Sizes of the row are smaller than this."),
        "calls": Count("How often.", required=True),
        "bytes": Bytes("Bytes moved.", required=True),
        "total_ns": Ns("Sum of durations.", required=True),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns."),
        "latency_bound_ns": Ns(
            "Time of copies that spend more on their link's latency than on data (see "
            "copy_speeds); null where no latency could be fitted."
        ),
    },
)


def copy_sizes(profile: Profile) -> pa.Table:
    """Count the transfers by size.

    Returns:
        One row per direction, path, kinds of memory and power of two, smallest sizes first;
        columns as in `COPY_SIZES`. Copies of unknown size are in no row.
    """
    by_place: dict[tuple[Any, ...], dict[str, Any]] = {}
    for (src, dst, *of_route), sizes in sizes_by_link(profile).items():
        line = fit(sizes)
        half = line.half_speed_bytes if line is not None else None
        kinds = " to ".join("host" if end == "host" else "device" for end in (src, dst)), *of_route
        columns = (sizes.bytes.tolist(), sizes.calls.tolist(), sizes.total_ns.tolist())
        for size, calls, total_ns in zip(*columns, strict=True):
            low = 1 << (size.bit_length() - 1) if size else 0
            row = by_place.setdefault((*kinds, low, 2 * low or 1), dict.fromkeys(_SUMS, 0))
            row["calls"] += calls
            row["bytes"] += size * calls
            row["total_ns"] += total_ns
            if half is not None:
                bound = row.get("latency_bound_ns", 0)
                row["latency_bound_ns"] = bound + (total_ns if size < half else 0)
    rows = []
    for place, row in by_place.items():
        rate = row["bytes"] * NS_PER_S / row["total_ns"] if row["total_ns"] else None
        derived = {"mean_ns": row["total_ns"] / row["calls"], "bytes_per_s": rate}
        rows.append(dict(zip(_PLACE, place, strict=True)) | row | derived)
    rows.sort(key=lambda row: [str(row[n]) for n in _PLACE[:4]] + [row["from_bytes"] * 1.0])
    return COPY_SIZES.table(rows)


_PLACE: Final = tuple(COPY_SIZES.columns)[:6]
_SUMS: Final = ("calls", "bytes", "total_ns")
SIZES_ANALYSIS: Final = Analysis(
    "Sizes of copies",
    COPY_SIZES,
    ("memcpys",),
    copy_sizes,
    COPY_READS,
    of_files=(copies_by_size,),
)
