"""Panels on a page: bars, matrices and boxes for the template, columns and lines as data."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpuprof.show.charts.figure import (
    SINCE_ORIGIN,
    Arrow,
    Bars,
    Boxes,
    Columns,
    HeatMap,
    Lines,
    Panel,
    Point,
)
from gpuprof.show.charts.placement import GAP

LEVELS: Final = 9
# Pixels of a unit of the width of boxes, and of a row of text, and around all.
ACROSS: Final = 14
DOWN: Final = 19
MARGIN: Final = 2
# What waits for less of every slice has no line.
_LEAST_SHARE: Final = 0.01


class Figure(NamedTuple):
    """One chart of a page.

    Args:
        name: Unique on the page.
        title: The finding.
        caption: How it is to be read.
        kind: What the template or the page's script draws; "sentence" where the title says all.
        shown: What they draw.
        table: Name of the table with the figures; empty for none.
    """

    name: str
    title: str
    caption: str
    kind: str = "sentence"
    shown: Any = None
    table: str = ""


def figure(name: str, title: str, caption: str, panels: Sequence[Panel], table: str = "") -> Figure:
    """Panels of one kind as one chart of a page."""
    first = panels[0]
    kind: str
    shown: Any
    if isinstance(first, Columns) and first.unit != "ns":
        kind, shown = "lines", _stepped_lines([p for p in panels if isinstance(p, Columns)])
    elif isinstance(first, Columns):
        kind, shown = "columns", _columns(first)
    elif isinstance(first, Lines):
        kind, shown = "lines", _lines(first)
    else:
        kind, shown = {HeatMap: "matrix", Boxes: "placement"}.get(type(first), "bars"), first
    return Figure(name, title, caption, kind, shown, table)


def _columns(panel: Columns) -> dict[str, Any]:
    """Columns for the page's script."""
    return {
        "label": panel.label,
        "note": panel.note,
        "quantity": panel.quantity,
        "names": panel.names,
        "labels": panel.ticks,
        "pale": panel.pale or [False] * len(panel.ticks),
        "series": [
            {"label": look.name, "kind": look.kind, "values": [*map(round, values)]}
            for look, values in panel.series
            if any(values)
        ],
        "levels": [
            {"first": first, "last": last, "value": value}
            for first, last, value, _ in panel.levels
            if value is not None
        ],
        "ranges": panel.ranges,
        "mark": panel.mark,
    }


def _lines(panel: Lines) -> dict[str, Any]:
    """Lines over bytes for the page's script; all have the same places on the axis."""
    places = sorted({x for series in panel.series for x, _ in series.points})
    series = []
    for line in panel.series:
        heights = dict(line.points)
        shown: dict[str, Any] = {"label": line.name, "values": _short(heights, places)}
        shown |= {"has_points": True} if line.style == "points" else {}
        kind = {} if line.look is None else {"kind": line.look.kind}
        series.append(shown | {"like": line.number} | kind)
    return {
        "x": {"label": panel.x, "unit": "binary", "log": True, "values": places},
        "y": {"label": panel.y, "unit": "ns", "log": True},
        "series": series,
    }


def _short(heights: Mapping[float, float], places: Sequence[float]) -> list[float | None]:
    """The height at each place, with more digits than are seen; None where there is none."""
    return [float(f"{heights[x]:.6g}") if x in heights else None for x in places]


_STEPPED_AXES: Final[Mapping[str, Mapping[str, Any]]] = {
    "share": {"label": "share of the time", "unit": "share", "range": [0, 1]},
    "B": {"label": "memory", "unit": "bytes"},
}


def _stepped_lines(panels: Sequence[Columns]) -> dict[str, Any]:
    """Heights over time for the page's script, a line per panel, and a dotted one for each other.

    The last slice ends with its own value.
    """
    edges = sorted({edge for panel in panels for edge in panel.edges})
    series = []
    for number, panel in enumerate(panels):
        for place, (look, shares) in enumerate(panel.series):
            if place and max(shares) < _LEAST_SHARE:
                continue
            heights = dict(zip(panel.edges, [*shares, shares[-1]], strict=True))
            name = f"{panel.quantity} {look.name}" if place else panel.quantity
            shown: dict[str, Any] = {"label": name, "values": _short(heights, edges)}
            series.append(shown | {"like": number} | ({"dotted": True} if place else {}))
    return {
        "x": {"label": SINCE_ORIGIN, "unit": "ns", "log": False, "values": edges},
        "y": {**_STEPPED_AXES[panels[0].unit], "log": False},
        "stepped": True,
        "series": series,
    }


def curve(arrow: Arrow) -> str:
    """An arrow as SVG has it; on one side of a device it bends around what lies between."""
    ends = arrow.start, arrow.end
    (x, y), (to_x, to_y) = ((a * ACROSS + MARGIN, d * DOWN + MARGIN) for a, d in ends)
    bend = GAP / 2 * ACROSS if x == to_x else 0.0
    points: tuple[Point, ...] = ((x, y), (x + bend, y), (to_x + bend, to_y), (to_x, to_y))
    begin, *bend_and_end = (f"{across:.1f} {down:.1f}" for across, down in points)
    return f"M{begin}C{' '.join(bend_and_end)}"


def used(panel: Bars) -> list[Any]:
    """The looks of the legend that parts have."""
    looks = {part.look for part in panel.parts}
    return [look for look in panel.looks if look in looks]


def level(panel: HeatMap, row: int, column: int) -> int:
    """How dark a cell is, 1 to `LEVELS`; 0 where there is nothing."""
    value = panel.values[row][column]
    largest = max((v or 0 for of_row in panel.values for v in of_row), default=0) or 1
    return 0 if value is None else min(LEVELS, 1 + round((LEVELS - 1) * value / largest))
