"""Panels on axes of matplotlib: bars, columns, lines, cells, lanes and boxes."""

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any, Final

import numpy as np
from matplotlib import colormaps, rcParams
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from gpuprof.base.short_texts import shortened, shortened_apart
from gpuprof.base.units import say_binary_bytes, tick_ns, time_axis
from gpuprof.show.cells import clean, folded
from gpuprof.show.charts.figure import (
    NOTHING,
    Bars,
    Boxes,
    Columns,
    HeatMap,
    Lanes,
    Lines,
    Look,
    Series,
    round_step,
    scale_of,
)

_DARK: Final = "#333333"  # Outlines of what is filled, and writing on it.
_BAND: Final = "#CC79A7"
_FRAME: Final = "#E69F00"
_PERCENT: Final = 100
_LABEL_WIDTH: Final = 24
LONG_LABEL_WIDTH: Final = 32  # Where one panel takes the width.
_LABEL_LINES: Final = 2
_FIGURE_ROOM: Final = 0.018  # Of the width, for a letter behind a bar.
WORK_WIDTH: Final = 2.4  # Bars of several parts are so much wider than others beside them.
_THIN: Final = 0.002  # Of the width: parts below have no outline of another colour.
_PALE: Final = 0.4
_LANE: Final = 0.85
_LEAST: Final = 0.15  # What runs for less of a slice is drawn so high, so that it shows.
_HIDDEN: Final = 0.35
_DEVICE_GAP: Final = 0.5
_MOST_TICKS: Final = 64
_MOST_COLUMN_TICKS, _COLUMN_LETTERS = 20, 80  # Below an axis, letters and gaps of two.
_LEAST_COLUMN: Final = 9  # Letters of a line below a column: those of "device 10".
_MANY_CELLS: Final = 10  # With more rows, a cell has room for its first line alone.
_DARK_FROM: Final = 0.55  # Of the largest value: writing is white.
# Powers of two between two ticks, by how many there are in all.
_TICK_STEPS: Final = {8: 1, 16: 2}
_FEW_DECADES: Final = 100
# One hue that grows darker in grey as in colour; one for shares, which begin at 0; and orange for
# more, purple for less, which all eyes tell apart.
_COLOURS: Final = {"ns": "Blues", "share": "cividis", "change": "PuOr_r"}
_LEAST_CHANGE: Final = 2.0  # Percent: differences below fill no colour, as they are noise.
_LINE_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS: Final = "osD^vP*X"
# Lines of a chart, each with a marker that tells it apart in grey; the last six are open ones.
LINES: Final[tuple[dict[str, Any], ...]] = tuple(
    {"color": colour, "marker": marker, "markeredgecolor": edge, **more}
    for markers, edges, more in (
        ("os^DvP", [_DARK] * 6, {}),
        ("X*<>ph", _LINE_COLOURS, {"markerfacecolor": "white", "linestyle": "-.", "markersize": 7}),
    )
    for colour, marker, edge in zip(_LINE_COLOURS, markers, edges, strict=True)
)


def _label(text: str, width: int = _LABEL_WIDTH, lines: int = _LABEL_LINES) -> str:
    """A name in a few lines, shortened in its middle where it is longer."""
    name, room = clean(text), lines * width
    while (shown := folded(shortened(name, room), width)).count("\n") >= lines:
        room -= 1
    return shown


def bar_names(names: Sequence[str], width: int) -> list[str]:
    """The names of bars in two lines; of those that need more, the middle is left out."""
    labels = []
    cleaned = [clean(name) for name in names]
    for name in shortened_apart(cleaned, _LABEL_LINES * width - 2, shortened):
        lines = folded(name, width).split("\n")
        head, dots, tail = name.partition("..")
        if dots and name not in cleaned and max(len(head) + 2, len(tail)) <= width:
            lines = [f"{head}..", tail]
        elif len(lines) > _LABEL_LINES:
            lines = [name[at : at + width] for at in range(0, len(name), width)]
        labels.append("\n".join(lines))
    return labels


def _ink() -> str:
    """Of what is written and drawn on the paper itself: light in a dark style."""
    return str(rcParams["text.color"])


def _fill(look: Look) -> str:
    """The colour of a surface; that of nothing is close to the paper's."""
    return str(rcParams["grid.color"]) if look.colour == NOTHING.colour else look.colour


def _look(look: Look) -> dict[str, Any]:
    return {"color": _fill(look), "hatch": look.hatch, "edgecolor": _DARK, "linewidth": 0.4}


def _times(axes: Axes, first: float, last: float) -> None:
    """Let an axis of time reach from one instant to another, each tick with all its digits."""
    axes.set_xlim(first, last)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)


def draw_bars(axes: Axes, panel: Bars) -> None:
    """Bars from the top, their parts behind each other."""
    factor, unit = scale_of(panel)
    for look in panel.looks:
        parts = [part for part in panel.parts if part.look == look]
        low, high = (
            np.array([edge(max(part.start, panel.first), part.end) for part in parts]) / factor
            for edge in (min, max)
        )
        if parts:
            # Outlines of many short parts would hide their colour; the legend has the first one.
            is_thin = high - low < _THIN * panel.end / factor
            is_thin[0] = False
            edges = [_fill(look) if thin else _DARK for thin in is_thin]
            axes.barh([part.bar for part in parts], high - low, left=low, height=0.7,
                      label=look.name or None, **{**_look(look), "edgecolor": edges})  # fmt: skip
    if panel.ranges:
        least, most = zip(*panel.ranges, strict=True)
        axes.hlines(range(len(panel.names)), least, most, colors=_ink(), linewidth=2)
    _write_on_bars(axes, panel, factor)
    is_beside = axes.get_subplotspec().get_gridspec().ncols > 1  # type: ignore[union-attr]
    share = 1 / WORK_WIDTH if is_beside and len(panel.looks) == 1 else 1
    room = _FIGURE_ROOM / share * max(map(len, panel.figures), default=3)
    first, last = panel.first / factor, panel.end / factor
    axes.set_xlim(first, last + room * (last - first) or 1)
    names = bar_names(panel.names, _LABEL_WIDTH if is_beside else LONG_LABEL_WIDTH)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xlabel(f"{panel.label} [{unit}]\n{panel.note}".strip() if panel.label else "")


def _write_on_bars(axes: Axes, panel: Bars, factor: float) -> None:
    """Figures behind bars, labels in their parts, and strokes where bars are cut."""
    ends = [panel.first] * len(panel.names)
    for part in panel.parts:
        ends[part.bar] = max(ends[part.bar], part.start, part.end)
        if part.start < panel.first:
            place = ("axes fraction", "data")
            axes.annotate("//", (0.012, part.bar), xycoords=place, color="white", weight="bold",
                          fontsize=14, ha="left", va="center_baseline")  # fmt: skip
        if part.label:
            middle = (part.start + part.end) / 2 / factor
            box = {"fc": rcParams["axes.facecolor"], "ec": "none"}
            axes.annotate(part.label, (middle, part.bar), ha="center", va="center", fontsize=8,
                          bbox=box | {"pad": 1.5})  # fmt: skip
    for number, (end, figure) in enumerate(zip(ends, panel.figures, strict=False)):
        axes.annotate(figure, (end / factor, number), xytext=(4, 0), textcoords="offset points",
                      va="center", fontsize=9)  # fmt: skip


def draw_columns(axes: Axes, panel: Columns) -> None:
    """Columns from the left, their parts on one another."""
    factor, unit = scale_of(panel)
    count = len(panel.series[0][1])
    if panel.is_over_time:
        _draw_stairs(axes, panel, factor, unit)
        return
    pale = np.array(panel.pale) if panel.pale else np.zeros(count, bool)
    begin, width = np.arange(count) - 0.425, np.full(count, 0.85)
    if panel.edges:
        begin, right = np.array(panel.edges, float).reshape(-1, 2).T
        width = right - begin
    floor = np.zeros(count)
    for look, values in panel.series:
        heights = np.array(values) / factor
        for is_pale in (False, True):
            chosen = pale == is_pale
            if heights[chosen].any():
                # A pale bar has the same entry in the legend.
                bar = {**_look(look), "alpha": _PALE if is_pale else 1}
                axes.bar(begin[chosen], heights[chosen], width[chosen], floor[chosen], align="edge",
                         label=None if is_pale else look.name, **bar)  # fmt: skip
        floor += heights
    # On an axis of powers of two, in the middle.
    for middle, top, text in zip(begin * 2**0.5, floor, panel.counts, strict=False):
        axes.annotate(text, (middle, top), xytext=(0, 2), textcoords="offset points", ha="center",
                      fontsize=8)  # fmt: skip
    if not panel.edges:
        _write_on_columns(axes, panel, factor)
        axes.set_xlim(-0.6, count - 0.4)
        _thin(axes.set_xticks, panel.ticks, _column_ticks(panel.ticks))
    axes.set_ylim(bottom=0)
    axes.set_title(panel.title, loc="left", fontsize=8, pad=14 if panel.counts else None)
    axes.set_xlabel("; ".join(filter(None, (panel.label, panel.note))))
    axes.set_ylabel(f"{panel.quantity} [{unit}]")


def _write_on_columns(axes: Axes, panel: Columns, factor: float) -> None:
    """From where to where columns reach, what the title names, and each stretch with its median."""
    if panel.ranges:
        least, most = np.array(panel.ranges).T / factor
        axes.fill_between(np.arange(len(least)), least, most, step="mid", color=_BAND,
                          alpha=_PALE, linewidth=0, label="shortest to longest")  # fmt: skip
    if panel.mark:
        place, height, text = panel.mark
        is_right = place > len(panel.ticks) / 2
        axes.annotate(text, (place, height / factor), xytext=(-14 if is_right else 14, 12),
                      textcoords="offset points", ha="right" if is_right else "left", fontsize=8,
                      arrowprops={"arrowstyle": "-|>", "color": _ink()})  # fmt: skip
    if any(panel.pale):
        axes.bar([0], [0], color=_ink(), alpha=_PALE, label="warm-up, cut off")
    border: dict[str, Any] = {"color": _ink(), "linewidth": 0.8}
    for first, last, value, name in panel.levels:
        if value is not None:
            ends = [first - 0.5, last + 0.5]
            axes.plot(ends, [value / factor] * 2, linestyle="--", label="median", **border)
        if first:
            axes.axvline(first - 0.5, **border)
        if len(panel.levels) > 1:
            axes.annotate(_label(name, 28, 1), (first - 0.4, 1), va="bottom", fontsize=8,
                          xycoords=("data", "axes fraction"))  # fmt: skip


def _draw_stairs(axes: Axes, panel: Columns, height_factor: float, height_unit: str) -> None:
    """Columns that touch, over time."""
    factor, unit = time_axis(panel.edges[-1])
    edges, floor = np.array(panel.edges) / factor, np.zeros(len(panel.edges) - 1)
    for look, values in panel.series:
        top = floor + np.array(values) / height_factor
        outline: dict[str, Any] = (
            {"edgecolor": _DARK, "hatch": look.hatch, "linewidth": 0.3} if look.hatch else {}
        )
        axes.stairs(top, edges, baseline=floor, fill=True, facecolor=_fill(look), label=look.name,
                    **outline)  # fmt: skip
        floor = top
    axes.set_ylim(0, _PERCENT if panel.unit == "share" else None)
    _times(axes, edges[0], edges[-1])
    axes.set_ylabel(f"{panel.quantity}\n[{height_unit}]", rotation=0, ha="right", va="center")
    time, _, note = panel.label.partition("\n")
    axes.set_xlabel(f"{time} [{unit}]\n{note}".strip() if time else "")


def draw_lines(axes: Axes, panel: Lines) -> None:
    """Lines over measured values, or over bytes in powers of two."""
    if panel.x_ticks and panel.x_ticks[0] > 0 and not panel.is_from_zero:
        axes.set_xscale("log", base=2)
    if panel.is_log:
        axes.set(xscale="log", yscale="log")
    for series in panel.series:
        _draw_series(axes, series)
    if panel.x_ticks:
        axes.set_xticks(panel.x_ticks, [f"{value:,g}" for value in panel.x_ticks])
        axes.minorticks_off()
    if panel.is_from_zero:
        axes.set_ylim(bottom=0)
    if panel.is_log:
        # Bytes in powers of two, and times in round figures.
        sizes = [x for series in panel.series for x, _ in series.points]
        least, most = (2 ** int(np.floor(np.log2(size))) for size in (min(sizes), max(sizes)))
        most *= 2
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
    axes.set(xlabel=panel.x, ylabel=_label(panel.y, 36, 2))


def _draw_series(axes: Axes, series: Series) -> None:
    xs, ys = zip(*series.points, strict=True)
    number = series.number
    look = LINES[(number or 0) % len(LINES)]
    if series.look is not None:
        look = look | {"color": series.look.colour}
    name = _label(series.legend or series.name or "measured", 36)
    if series.style == "points":
        marker = _MARKERS[(number or 0) % len(_MARKERS)]
        colour = look["color"]
        axes.plot(xs, ys, marker, color=colour, markeredgecolor=_DARK, label=series.legend)
    elif series.style == "fit":
        axes.plot(xs, ys, "-", color=look["color"], linewidth=1.2)
    elif series.style == "star":
        axes.plot(xs, ys, marker="*", markersize=14, color=look["color"], markeredgecolor=_DARK)
        axes.annotate(series.name, (xs[0], ys[0]), xytext=(6, -14), textcoords="offset points")
    elif series.style in {"dashed", "dotted"}:
        colour = _ink() if number is None else look["color"]
        style = {"dashed": "--", "dotted": ":"}[series.style]
        axes.plot(xs, ys, color=colour, linestyle=style, linewidth=1, label=name)
    else:
        axes.plot(xs, ys, label=name, **look)
    if series.ranges:
        low, high = zip(*series.ranges, strict=True)
        axes.vlines(xs, low, high, colors=look["color"], linewidth=2, alpha=0.5)


def draw_heat_map(axes: Axes, panel: HeatMap) -> None:
    """Cells, with what is written into them."""
    factor, _ = scale_of(panel)
    values = np.array([[nan if v is None else v for v in row] for row in panel.values]) / factor
    low: float | None = 0
    high = _PERCENT if panel.unit == "share" else np.nanmax(values)
    if panel.unit == "change":
        high = max(_LEAST_CHANGE, np.nanmax(np.abs(values)))
        low = -high
    how: dict[str, Any] = {"vmin": low, "vmax": high, "cmap": colormaps[_COLOURS[panel.unit]]}
    if panel.times is not None:
        scale, unit = time_axis(panel.times[1])
        first, last = (instant / scale for instant in panel.times)
        how["extent"] = (first, last, len(panel.rows) - 0.5, -0.5)
    axes.imshow(values, aspect="auto", interpolation="nearest", **how)
    axes.set(xlabel=panel.labels[0], ylabel=panel.labels[1])
    if panel.times is not None:
        _times(axes, first, last)
        axes.set_xlabel(f"{panel.labels[0]} [{unit}]" if panel.labels[0] else "")
    else:
        _name_columns(axes, panel.columns)
    room = min(_MOST_TICKS, int(panel.inches[1] / panel.row_inches))
    _thin(axes.set_yticks, [_label(name, lines=1) for name in panel.rows], room)
    axes.set_title(panel.title, loc="left", fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if panel.texts is not None:
        _write(axes, panel.texts, values)


def _name_columns(axes: Axes, names: Sequence[str]) -> None:
    """Numbers below columns as far as there is room; else names, in lines or upright."""
    if all(name.isdecimal() for name in names):
        _thin(axes.set_xticks, names, _column_ticks(names))
        return
    room = _COLUMN_LETTERS // len(names)
    is_upright = room < min(_LEAST_COLUMN, max(map(len, names)))
    shown = [_label(n, lines=1) if is_upright else _label(n, room, 3) for n in names]
    _thin(axes.set_xticks, shown, _MOST_TICKS)
    if is_upright:
        axes.tick_params(axis="x", labelrotation=90, labelsize=8)


def _column_ticks(names: Sequence[str]) -> int:
    """How many names there is room for below an axis."""
    return min(_MOST_COLUMN_TICKS, _COLUMN_LETTERS // (2 + max(map(len, names), default=0)))


def _thin(ticks: Callable[..., Any], names: Sequence[str], most: int) -> None:
    """Names of rows or columns, as many as there is room for: numbers at multiples of 1, 2 or 5."""
    numbers = [int(n) for n in names] if all(n.isdecimal() for n in names) else range(len(names))
    step = round_step(max((numbers[-1] - numbers[0] + 1) / most, len(names) / most))
    places = [place for place, number in enumerate(numbers) if number % step == 0]
    ticks(places, [names[place] for place in places])


def _write(axes: Axes, texts: Mapping[tuple[int, int], Sequence[str]], values: Any) -> None:
    """Lines in cells, which borders part."""
    largest, is_short = np.nanmax(values), len(values) > _MANY_CELLS
    for (row, column), lines in texts.items():
        axes.text(
            column,
            row,
            lines[0] if is_short else "\n".join(lines),
            ha="center",
            va="center",
            fontsize=9 if len(lines) <= _LABEL_LINES else 7.5,
            color="white" if values[row, column] > _DARK_FROM * largest else _DARK,
        )
    borders = [number - 0.5 for number in range(len(values) + 1)]
    axes.set_xticks(borders, minor=True)
    axes.set_yticks(borders, minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(which="minor", color="#CCCCCC", linewidth=0.6)


def floors_of(panel: Lanes) -> list[float]:
    """Where each lane stands, counted from the top, with a gap between devices."""
    devices = list(dict.fromkeys(panel.devices))
    return [
        number + _DEVICE_GAP * devices.index(device)
        for number, device in enumerate(panel.devices, start=1)
    ]


def draw_lanes(axes: Axes, panel: Lanes) -> None:
    """Exposed parts stand on the lane's floor, hidden ones on these."""
    first, last = (instant - panel.origin for instant in panel.span)
    factor, unit = time_axis(last)
    floors = floors_of(panel)
    for place, floor in enumerate(floors):
        shares = np.stack([panel.exposed[place], panel.exposed[place] + panel.hidden[place]])
        low, high = np.where(shares > 0, np.maximum(shares, _LEAST), 0)
        high = np.maximum(low, high)
        axes.axhline(floor, color=rcParams["grid.color"], linewidth=0.5, zorder=0)
        for bottom, top, alpha in ((np.zeros_like(low), low, 1), (low, high, _HIDDEN)):
            if (top > bottom).any():
                axes.stairs(
                    floor - _LANE * top,
                    (panel.edges[place] - panel.origin) / factor,
                    baseline=floor - _LANE * bottom,
                    fill=True,
                    color=panel.looks[place].colour,
                    alpha=alpha,
                    linewidth=0,
                    gid=f"{panel.devices[place]} {panel.lanes[place]}",
                )
    axes.set_yticks([floor - _LANE / 2 for floor in floors], panel.names)
    axes.set_ylim(floors[-1] + 0.1, 0)
    _times(axes, first / factor, last / factor)
    axes.set_xlabel(f"{panel.label} [{unit}]\n{panel.note}".strip())
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.spines["left"].set_visible(False)
    if panel.frame:
        _mark(axes, panel, panel.frame, factor)
        return
    for alpha, name in (
        (1, "height: share of the time that it runs; full colour: exposed, nothing above it runs"),
        (_HIDDEN, "pale: hidden, something above it runs"),
    ):
        axes.add_patch(Rectangle((first / factor, 0), 0, 0, color=_ink(), alpha=alpha, label=name))


def _mark(axes: Axes, panel: Lanes, frame: tuple[int, int, str], factor: float) -> None:
    """Mark in a strip where steps start and what the panel below shows."""
    start, end, name = frame
    for mark in panel.marks:
        axes.axvline(mark / factor, color=_ink(), linewidth=0.5, linestyle=":")
    axes.axvspan(start / factor, end / factor, color=_FRAME, alpha=_PALE, zorder=3)
    is_right = start - panel.span[0] > (panel.span[1] - panel.span[0]) / 2
    axes.annotate(f"{name}, shown below", ((end if is_right else start) / factor, 0),
                  xytext=(0, 3), textcoords="offset points", fontsize=8.5,
                  ha="right" if is_right else "left", va="bottom")  # fmt: skip


def draw_boxes(axes: Axes, panel: Boxes) -> None:
    """Boxes in boxes, and arrows as wide as what they carry."""
    axes.set_xlim(0, panel.width)
    axes.set_ylim(panel.height, 0)
    axes.axis("off")
    frames = (*((b, "#F4F4F4", 10.5, "bold") for b in panel.outer),
              *((b, "#FFFFFF", 8.5, "normal") for b in panel.inner))  # fmt: skip
    border: dict[str, Any] = {"edgecolor": _DARK, "linewidth": 0.8}
    border["boxstyle"] = "round,pad=0,rounding_size=0.25"
    for box, colour, size, weight in frames:
        corner, width, height = (box.x, box.y), box.width, box.height
        axes.add_patch(FancyBboxPatch(corner, width, height, facecolor=colour, **border))
        look: dict[str, Any] = {"fontsize": size, "weight": weight, "color": _DARK}
        axes.text(box.x + 0.25, box.y + 0.62, box.label, va="center", **look)
    for box in panel.parts:
        _draw_box(axes, box, panel.mark)
    # The thick ones first, so that thin ones stay visible.
    plain: dict[str, Any] = {"mutation_scale": 1, "linewidth": 0, "shrinkA": 0, "shrinkB": 0}
    plain |= {"edgecolor": "white", "alpha": 0.7}
    for arrow in panel.arrows:
        shape = f"tail_width={arrow.width},head_width={arrow.width + 5}"
        axes.add_patch(
            FancyArrowPatch(
                *(arrow.start, arrow.end),
                arrowstyle=f"simple,{shape},head_length={6 + arrow.width}",
                connectionstyle=f"arc3,rad={-0.5 if arrow.start[0] == arrow.end[0] else 0}",
                facecolor=arrow.look.colour,
                hatch=arrow.look.hatch,
                label=f"{arrow.look.name}, by bytes",
                **plain,
            )
        )
    for arrow in panel.arrows:
        if arrow.figure:
            box_look = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1}
            axes.text(*arrow.place, arrow.figure, fontsize=7.5, ha="center", va="center",
                      color=arrow.look.colour, bbox=box_look)  # fmt: skip


def _draw_box(axes: Axes, box: Any, mark: Look) -> None:
    look = {"edgecolor": _DARK, "linewidth": 0.4, "linestyle": "-", "label": box.look.name}
    if box.is_marked:
        look = {"edgecolor": mark.colour, "linewidth": 2.0, "linestyle": "--", "label": mark.name}
    look |= {"facecolor": box.look.colour, "hatch": box.look.hatch, "alpha": 0.55}
    axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, **look))
    middle = box.x + box.width / 2, box.y + box.height / 2
    behind = {"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.8}
    axes.text(*middle, box.label, fontsize=7.5, ha="center", va="center", color=_DARK, bbox=behind)


DRAW: Final[Mapping[type, Callable[[Axes, Any], None]]] = {
    Bars: draw_bars,
    Columns: draw_columns,
    Lines: draw_lines,
    HeatMap: draw_heat_map,
    Lanes: draw_lanes,
    Boxes: draw_boxes,
}
