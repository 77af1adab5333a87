"""How many copies have which size, and how long they take: a histogram over a fitted line."""

from dataclasses import replace
from itertools import cycle
from typing import Final

import numpy as np

from gpuprof.analyses.copy_speeds import COPY_SIZES, COPY_SPEEDS
from gpuprof.base.labels import label
from gpuprof.base.units import NS_PER_S, counted, say_binary_bytes, say_ns, say_rate, say_share
from gpuprof.model.schema import Schema
from gpuprof.show import RECORDING, Row
from gpuprof.show.charts.figure import (
    COMMUNICATION,
    DTOH,
    HTOD,
    KERNELS,
    LOCAL,
    MEMSETS,
    PEER,
    Chart,
    Columns,
    Lines,
    Look,
    Panel,
    Picture,
    Point,
    Results,
    Series,
)

_FIT: Final = ("latency_ns", "bandwidth_bytes_per_s", "half_speed_bytes")
_KINDS: Final = ("direction", "path", "src_memory_kind", "dst_memory_kind")
ROWS: Final = Schema(
    "copy_sizes",
    "the transfers of one direction, path and kinds of memory whose sizes have as many bits,"
    " with the fit of the route with most such copies",
    {**COPY_SIZES.columns, **{name: COPY_SPEEDS.columns[name] for name in _FIT}},
)
_LOOKS: Final = {"host to device": HTOD, "device to host": DTOH, "device to device": PEER}
# For further groups of one direction.
_SPARE: Final = (KERNELS, LOCAL, COMMUNICATION, MEMSETS)
_CURVE_POINTS: Final = 60
_MANY: Final = 10_000
# Copies too small for their link are worth a title from this share of the time on.
_WORTH_SAYING: Final = 0.01


def picture(results: Results) -> Picture:
    """The rows of `copy_sizes` with the fit of the busiest route of each group.

    The finding is what copies pay for being small, or else the size that takes most time.
    """
    fits: dict[tuple[str | None, ...], Row] = {}
    for row in sorted(results.rows("copy_speeds"), key=lambda row: int(row["calls"])):
        direction = " to ".join(row[end].split(" ")[0] for end in ("src", "dst"))
        group = (direction, *(row[name] for name in _KINDS[1:]))
        fits[group] = {name: row[name] for name in _FIT}
    sizes = [row for row in results.rows("copy_sizes") if row["bytes"]]
    table = ROWS.table([row | fits.get(_group_of(row), {}) for row in sizes])
    rows = table.to_pylist()
    if not rows:
        return Picture("", table, [])
    bound = sum(row["latency_bound_ns"] or 0 for row in rows)
    total = sum(row["total_ns"] for row in rows)
    most = max(rows, key=lambda row: int(row["total_ns"]))
    if bound and bound >= _WORTH_SAYING * total:
        finding = (
            f"Copies too small for their link take {say_share(bound / total)} of the transfer time"
        )
    else:
        finding = (
            f"Copies of {say_binary_bytes(most['from_bytes'])} to"
            f" {say_binary_bytes(most['below_bytes'])} take {say_share(most['total_ns'] / total)}"
            " of the transfer time"
        )
    return Picture(finding, table, _panels(rows))


def _group_of(row: Row) -> tuple[str | None, ...]:
    """Direction, path and kinds of memory: what a series of the chart is."""
    return tuple(row[name] for name in _KINDS)


def _panels(rows: list[Row]) -> list[Panel]:
    """What each size costs and how often it is copied, over how long such a copy takes."""
    sizes = sorted({(row["from_bytes"], row["below_bytes"]) for row in rows})
    looks: dict[str, Look | None] = {**_LOOKS}
    spare = cycle(_SPARE)
    costs: list[tuple[Look, list[float]]] = []
    lines: list[Series] = []
    for number, group in enumerate(dict.fromkeys(map(_group_of, rows))):
        direction, path, src, dst = group
        of_group = [row for row in rows if _group_of(row) == group]
        memories = {"host to device": src, "device to host": dst}.get(str(direction))
        way = label(path) if path and path != "direct" else None
        name = legend = ", ".join(filter(None, (direction, way, memories)))
        points = [(row["bytes"] / row["calls"], row["mean_ns"]) for row in of_group]
        curve: list[Point] = []
        latency_ns, rate = of_group[0]["latency_ns"], of_group[0]["bandwidth_bytes_per_s"]
        if rate is not None and latency_ns is not None:
            legend = f"{name}: line of {say_ns(latency_ns)} + bytes / ({say_rate(rate)})"
            places = np.geomspace(min(points)[0], max(points)[0], _CURVE_POINTS).tolist()
            heights = [latency_ns + place * NS_PER_S / rate for place in places]
            curve = [(x, ns) for x, ns in zip(places, heights, strict=True) if ns > 0]
        # The first group of a direction has its colour.
        look = replace(looks.pop(str(direction), None) or next(spare), name=legend)
        lines.append(Series(name, points, number, "points", legend, look=look))
        lines += [Series(legend, curve, number, "fit", look=look)] if curve else []
        by_size = {row["from_bytes"]: row["total_ns"] for row in of_group}
        costs.append((look, [by_size.get(size, 0) for size, _ in sizes]))
    calls = [sum(row["calls"] for row in rows if row["from_bytes"] == size) for size, _ in sizes]
    ends = [tuple(map(say_binary_bytes, size)) for size in sizes]
    columns = Columns(
        costs,
        "total time",
        names=[
            f"{low} to {high}: {counted(n, 'copy', 'copies')}"
            for (low, high), n in zip(ends, calls, strict=True)
        ],
        ticks=[low for low, _ in ends],
        edges=[edge for size in sizes for edge in size],
        counts=[f"{n:,}" if n < _MANY else f"{n / 1_000:,.0f}k" for n in calls],
        title="number of copies of each size, over their time",
        inches=1.7,
    )
    return [columns, Lines(lines, "bytes per copy", "mean duration", is_log=True, inches=2.6)]


CHART: Final = Chart(
    "copy_sizes",
    "Sizes of copies, how often they occur, and how long they take",
    RECORDING,
    ("copy_sizes", "copy_speeds"),
    picture,
)
