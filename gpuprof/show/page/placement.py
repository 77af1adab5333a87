"""The placement of a TensorFlow model on a page: boxes and arrows as SVG."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gpuprof.base.units import counted, format_bytes
from gpuprof.show.cells import clean
from gpuprof.show.charts.placement import (
    FALLBACK,
    FORWARD,
    FORWARD_COPY,
    GRADIENT_COPY,
    GRADIENTS,
    figure_places,
    look_of,
    widths,
)
from gpuprof.show.charts.placement_layout import GAP, Box, Plan, Point, arranged
from gpuprof.show.contract import Row

# Pixels of a unit of the layout's width, and of a row of text.
_ACROSS: Final = 14.0
_DOWN: Final = 19.0
_MARGIN: Final = 2.0


class Shape(NamedTuple):
    """A rectangle with a label.

    Args:
        kind: Which colours it: device, tower, forward, gradients or fallback.
        x: Its left in pixels.
        y: Its top.
        width: Its width.
        height: Its height.
        label: Its name.
        words: What a pointer over it says.
    """

    kind: str
    x: float
    y: float
    width: float
    height: float
    label: str
    words: str


class Arrow(NamedTuple):
    """A copy.

    Args:
        kind: forward or gradients.
        path: As SVG has it.
        width: In pixels.
        words: What a pointer over it says.
    """

    kind: str
    path: str
    width: float
    words: str


class Label(NamedTuple):
    """The bytes of a copy, and the pixel in whose middle they stand."""

    kind: str
    x: float
    y: float
    text: str


class Placement(NamedTuple):
    """All that is drawn; sizes in pixels, the legend as kind to name."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    arrows: tuple[Arrow, ...]
    labels: tuple[Label, ...]
    legend: dict[str, str]


def placement(rows: list[Row]) -> Placement:
    """Devices side by side with their parts, and what these copy.

    Args:
        rows: Those of the chart of the placement.
    """
    nodes = [row for row in rows if row["dst_device"] is None]
    edges = [row for row in rows if row["dst_device"] is not None]
    plan = arranged(nodes, edges)
    shapes = tuple(_shapes(plan))
    thin_last = zip(edges, plan.ends, widths(edges), strict=True)
    used = {shape.kind for shape in shapes}
    legend = {look.kind: look.name for look in (FORWARD, GRADIENTS, FALLBACK) if look.kind in used}
    copies = {f"{look.kind}-copy": look.name for look in (FORWARD_COPY, GRADIENT_COPY)}
    drawn = {f"{look_of(row).kind}-copy" for row in edges}
    return Placement(
        plan.width * _ACROSS + 2 * _MARGIN,
        plan.height * _DOWN + 2 * _MARGIN,
        shapes,
        tuple(_arrow(row, ends, width) for row, ends, width in thin_last),
        tuple(
            Label(look_of(row).kind, *_pixel(place), format_bytes(row["bytes_per_step"]))
            for row, place in figure_places(edges, plan)
        ),
        legend | {kind: name for kind, name in copies.items() if kind in drawn},
    )


def _shapes(plan: Plan) -> Iterator[Shape]:
    for box in plan.devices:
        yield _shape("device", box, box.label)
    for box in plan.towers:
        yield _shape("tower", box, box.label)
    for box in plan.parts:
        row = box.row
        kind = (GRADIENTS if row["src_is_gradient"] else FORWARD).kind
        operations = row.get("operations")
        count = f": {counted(operations, 'operation', 'operations')}" if operations else ""
        yield _shape(FALLBACK.kind if row["fallbacks"] else kind, box, f"{box.label}{count}")


def _shape(kind: str, box: Box, words: str) -> Shape:
    x, y = _pixel((box.x, box.y))
    return Shape(kind, x, y, box.width * _ACROSS, box.height * _DOWN, box.label, words)


def _pixel(point: Point) -> Point:
    return point[0] * _ACROSS + _MARGIN, point[1] * _DOWN + _MARGIN


def _arrow(row: Row, ends: tuple[Point, Point], width: float) -> Arrow:
    (x, y), (to_x, to_y) = map(_pixel, ends)
    # Between parts on one side of a device, an arrow bends around what lies between them.
    bend = GAP / 2 * _ACROSS if x == to_x else 0.0
    points = ((x, y), (x + bend, y), (to_x + bend, to_y), (to_x, to_y))
    begin, *bend_and_end = (f"{across:.1f} {down:.1f}" for across, down in points)
    return Arrow(look_of(row).kind, f"M{begin}C{' '.join(bend_and_end)}", width, _words(row))


def _words(row: Row) -> str:
    size = format_bytes(row["bytes_per_step"])
    ends = (
        "/".join(filter(None, (row[f"{end}_device"], row[f"{end}_tower"], row[f"{end}_layer"])))
        for end in ("src", "dst")
    )
    return clean(f"{' to '.join(ends)}: {size} per step")
