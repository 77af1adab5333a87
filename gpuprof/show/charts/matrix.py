"""Who copies to whom, as a heat map of time, with bytes and throughput in its cells."""

from collections import Counter
from typing import Final

from gpuprof.base.labels import label
from gpuprof.base.units import capital, say_bytes, say_ns, say_rate, say_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show import RECORDING, Row
from gpuprof.show.charts.figure import Chart, HeatMap, Picture, Results

_SHOWN: Final = ("src", "dst", "path", "calls", "total_ns", "bytes", "bytes_per_s")
# Cells grow with the square of the ends: 65 ends make a megabyte of a page.
MOST_ENDS: Final = 64
# What makes this share of its way is named alone.
_MOST: Final = 0.6


def picture(results: Results) -> Picture:
    """The routes of `peer_matrix`, and which of them takes most time."""
    table = results.table("peer_matrix").select(_SHOWN)
    rows = table.to_pylist()
    panels = [heat_map(rows, results.device_names)] if rows else []
    return Picture(finding(rows), table, panels)


def finding(rows: list[Row]) -> str:
    """The way that takes most time, and its route where one route makes most of it."""
    if not rows:
        return ""
    time_ns = Counter[str]()
    for row in rows:
        time_ns[_way(row)] += row["total_ns"]
    (way, of_way), total = time_ns.most_common(1)[0], time_ns.total()
    most = max((row for row in rows if _way(row) == way), key=lambda row: int(row["total_ns"]))
    is_one_route = most["total_ns"] >= _MOST * of_way
    path = "" if most["path"] == "direct" else f" {label(most['path'])}"
    from_to = f"{most['src']} to {most['dst']}{path}" if is_one_route else way
    ns = most["total_ns"] if is_one_route else of_way
    return f"{capital(from_to)}: {say_share(ns / total if total else None)} of the transfer time"


def _way(row: Row) -> str:
    ends = tuple("devices" if row[end].startswith("device") else row[end] for end in ("src", "dst"))
    return "between devices" if ends == ("devices", "devices") else f"{ends[0]} to {ends[1]}"


def heat_map(rows: list[Row], names: DeviceNames = NO_NAMES) -> HeatMap:
    """Sources as rows, destinations as columns: those whose copies take most time."""
    time_ns = Counter[str]()
    for row in rows:
        time_ns.update(dict.fromkeys((row["src"], row["dst"]), row["total_ns"]))
    # The host first, devices by number, what is unknown last.
    order = {"host": (0, 0), "unknown": (2, 0)}
    ends = sorted(
        (end for end, _ in time_ns.most_common(MOST_ENDS)),
        key=lambda end: order.get(end) or (1, int(end.rpartition(" ")[2])),
    )
    places = {end: place for place, end in enumerate(ends)}
    paths: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if row["src"] in places and row["dst"] in places:
            paths.setdefault((places[row["src"]], places[row["dst"]]), []).append(row)
    values: list[list[float | None]] = [[None] * len(ends) for _ in ends]
    texts = {}
    for (src, dst), routes in paths.items():
        total_ns = values[src][dst] = sum(row["total_ns"] for row in routes)
        lines = [say_ns(total_ns)]
        for row in routes:
            is_plain = len(routes) == 1 and row["path"] == "direct"
            way = "" if is_plain else f"{label(row['path'])}: "
            # Below each other, so that nine ends fit beside each other.
            lines += [f"{way}{say_bytes(row['bytes'])}", say_rate(row["bytes_per_s"])]
        texts[src, dst] = lines
    shown = [*map(names.in_text, ends)]
    few = len(time_ns) > MOST_ENDS
    note = f" (the {MOST_ENDS} of {len(time_ns):,} ends with the most time of copies)" * few
    return HeatMap(
        shown,
        shown,
        values,
        "time of copies",
        "ns",
        texts,
        labels=(f"to{note}", "from"),
        row_inches=0.8,
        inches=(0.8, 60.0),
    )


CHART: Final = Chart(
    "matrix",
    "Time, bytes and throughput of copies from each device to each other",
    RECORDING,
    ("peer_matrix",),
    picture,
)
