"""How many copies have which size, and how long they take: a histogram over a fitted line."""

from itertools import cycle
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuprof.analyses.copy_speeds import COPY_SIZES, COPY_SPEEDS
from gpuprof.base.labels import label
from gpuprof.base.units import (
    NS_PER_S,
    format_rate,
    say_binary_bytes,
    say_ns,
    say_share,
    tick_ns,
    time_axis,
)
from gpuprof.model.schema import Schema
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FIT: Final = ("latency_ns", "bandwidth_bytes_per_s", "half_speed_bytes")
_KINDS: Final = ("direction", "path", "src_memory_kind", "dst_memory_kind")
ROWS: Final = Schema(
    "copy_sizes",
    "the transfers of one direction, path and kinds of memory whose sizes have as many bits,"
    " with the fit of the route with most such copies",
    {**COPY_SIZES.columns, **{name: COPY_SPEEDS.columns[name] for name in _FIT}},
)
_LOOKS: Final = {
    "host to device": canvas.HTOD,
    "device to host": canvas.DTOH,
    "device to device": canvas.PEER,
}
# For further groups of one direction.
_SPARE: Final = (canvas.KERNELS, canvas.LOCAL, canvas.COMMUNICATION, canvas.MEMSETS)
# They tell groups apart in grey.
_MARKERS: Final = "osD^vP*X"
_HEIGHT: Final = 5.6
_CURVE_POINTS: Final = 60
_MANY: Final = 10_000
_THOUSAND: Final = 1_000
_FEW_DECADES: Final = 100
# Copies too small for their link are worth a title from this share of the time on.
_WORTH_SAYING: Final = 0.01
# Powers of two between two ticks, by how many there are in all.
_TICK_STEPS: Final = {8: 1, 16: 2}

_Group = tuple[str | None, ...]


def picture(results: Results) -> Picture:
    """The rows of `copy_sizes` with the fits of `copy_speeds`."""
    fits = _fits(results.table("copy_speeds").to_pylist())
    sizes = [row for row in results.table("copy_sizes").to_pylist() if row["bytes"]]
    rows = [row | fits.get(group_of(row), {}) for row in sizes]
    return Picture(_finding(rows), ROWS.table(rows))


def group_of(row: Row) -> _Group:
    """Direction, path and kinds of memory: what a series of the chart is."""
    return tuple(row[name] for name in _KINDS)


def group_name(group: _Group) -> str:
    """``host to device, pageable``: what tells a group from others."""
    direction, path, src, dst = group
    memories = {"host to device": src, "device to host": dst}.get(direction or "")
    way = label(path) if path and path != "direct" else None
    return ", ".join(filter(None, (direction, way, memories)))


def _fits(speeds: list[Row]) -> dict[_Group, Row]:
    """The fit of the busiest route of each group."""
    fits: dict[_Group, Row] = {}
    for row in sorted(speeds, key=lambda row: int(row["calls"])):
        direction = " to ".join(row[end].split(" ")[0] for end in ("src", "dst"))
        group = (direction, *(row[name] for name in _KINDS[1:]))
        fits[group] = {name: row[name] for name in _FIT}
    return fits


def _finding(rows: list[Row]) -> str:
    bound = sum(row["latency_bound_ns"] or 0 for row in rows)
    total = sum(row["total_ns"] for row in rows)
    if bound and bound >= _WORTH_SAYING * total:
        return (
            f"Copies too small for their link take {say_ns(bound)},"
            f" {say_share(bound / total)} of the time of all transfers"
        )
    if not rows:
        return ""
    most = max(rows, key=lambda row: int(row["total_ns"]))
    return (
        f"Copies of {say_binary_bytes(most['from_bytes'])} to"
        f" {say_binary_bytes(most['below_bytes'])} take most time: {say_ns(most['total_ns'])},"
        f" {say_share(most['total_ns'] / total)} of all transfers"
    )


def draw(shown: Picture) -> "Figure":
    """What each size costs and how often it is copied, over how long such a copy takes."""
    rows = shown.rows.to_pylist()
    figure = canvas.new_figure(_HEIGHT)
    costs, durations = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    groups = list(dict.fromkeys(map(group_of, rows)))
    stacked = dict.fromkeys((row["from_bytes"] for row in rows), 0.0)
    factor, unit = time_axis(max(row["total_ns"] for row in rows))
    for group, look, marker in zip(groups, _looks(groups), cycle(_MARKERS), strict=False):
        group_rows = [row for row in rows if group_of(row) == group]
        _cost(costs, group_rows, look, (stacked, factor))
        _time(durations, group_rows, look.colour, marker)
    _count(costs, rows, stacked)
    costs.set_ylabel(f"total time [{unit}]")
    costs.set_title("over each bar: number of copies", loc="left", fontsize=8)
    durations.set(xscale="log", yscale="log", xlabel="bytes per copy", ylabel="mean duration")
    _label_axes(durations, rows)
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [costs, durations])
    return figure


def _looks(groups: list[_Group]) -> list[canvas.Look]:
    """The look of its direction for the first group, another one for the next."""
    spare = cycle(_SPARE)
    directions: list[str | None] = []
    looks = []
    for direction, *_ in groups:
        is_first = direction not in directions and direction in _LOOKS
        looks.append(_LOOKS[direction or ""] if is_first else next(spare))
        directions.append(direction)
    return looks


def _cost(
    axes: "Axes", rows: list[Row], look: canvas.Look, scale: tuple[dict[int, float], float]
) -> None:
    stacked, factor = scale
    heights = [row["total_ns"] / factor for row in rows]
    axes.bar(
        [row["from_bytes"] for row in rows],
        heights,
        width=[row["below_bytes"] - row["from_bytes"] for row in rows],
        bottom=[stacked[row["from_bytes"]] for row in rows],
        align="edge",
        label=_entry(rows),
        **look.bar,
    )
    for row, height in zip(rows, heights, strict=True):
        stacked[row["from_bytes"]] += height


def _entry(rows: list[Row]) -> str:
    """A group in the legend, with the line that was fitted to it."""
    name, fit = group_name(group_of(rows[0])), rows[0]
    if fit["bandwidth_bytes_per_s"] is None or fit["latency_ns"] is None:
        return name
    rate = format_rate(fit["bandwidth_bytes_per_s"])
    return f"{name}: line of {say_ns(fit['latency_ns'])} + bytes / ({rate})"


def _count(axes: "Axes", rows: list[Row], tops: dict[int, float]) -> None:
    """How many copies a bar stands for, over it."""
    for start, top in tops.items():
        calls = sum(row["calls"] for row in rows if row["from_bytes"] == start)
        text = f"{calls:,}" if calls < _MANY else f"{calls / _THOUSAND:,.0f}k"
        axes.annotate(
            text,
            (start * 2**0.5, top),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )


def _time(axes: "Axes", rows: list[Row], colour: str, marker: str) -> None:
    sizes = [row["bytes"] / row["calls"] for row in rows]
    means = [row["mean_ns"] for row in rows]
    name = _entry(rows)
    axes.plot(sizes, means, marker, color=colour, markeredgecolor=canvas.DARK, label=name)
    curve = fitted_curve(rows)
    if curve:
        axes.plot(*zip(*curve, strict=True), "-", color=colour, linewidth=1.2)


def fitted_curve(rows: list[Row]) -> list[tuple[float, float]]:
    """Size and duration along the fit of a group, from its least size to its greatest."""
    sizes = [row["bytes"] / row["calls"] for row in rows]
    points = np.geomspace(min(sizes), max(sizes), _CURVE_POINTS).tolist()
    return [(size, ns) for size in points if (ns := fitted_ns(rows[0], size)) is not None]


def fitted_ns(row: Row, size: float) -> float | None:
    """The fitted time of a copy of a size, in ns; None where there is no fit."""
    if row["bandwidth_bytes_per_s"] is None or row["latency_ns"] is None:
        return None
    fitted: float = row["latency_ns"] + size * NS_PER_S / row["bandwidth_bytes_per_s"]
    return fitted if fitted > 0 else None


def _label_axes(axes: "Axes", rows: list[Row]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    least = min(row["from_bytes"] for row in rows)
    most = max(row["below_bytes"] for row in rows)
    powers = (most // least).bit_length()
    step = next((step for many, step in _TICK_STEPS.items() if powers <= many), 4)
    ticks = [1 << power for power in range(0, 64, step) if least / 2 <= 1 << power <= most * 2]
    axes.set_xlim(least / 2, most * 2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: say_binary_bytes(int(size))))
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high < _FEW_DECADES * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ns, _: tick_ns(ns)))


CHART: Final = Chart(
    "copy_sizes",
    "Sizes of copies, how often they occur, and how long they take",
    RECORDING,
    ("copy_sizes", "copy_speeds"),
    picture,
    draw,
)
