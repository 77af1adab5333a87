"""Where a TensorFlow model runs: devices as boxes, its parts in them, copies as thick as bytes."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.base.units import capital, format_bytes, say_share
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.charts.placement_layout import GAP, Box, Plan, Point, arranged
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORWARD: Final = canvas.Look("forward pass, loss and update", "forward", "#56B4E9")
GRADIENTS: Final = canvas.Look("gradients", "gradients", "#E69F00", "///")
FORWARD_COPY: Final = canvas.Look("copies for the forward pass", "forward", "#0072B2")
GRADIENT_COPY: Final = canvas.Look("copies for gradients", "gradients", "#D55E00", "/////")
FALLBACK: Final = canvas.Look("ran elsewhere than asked", "fallback", "#CC0000")
_INCHES_PER_ROW: Final = 0.24
THICKEST: Final = 11.0
THINNEST: Final = 0.7
# Copies of a smaller share of the step's bytes carry no figure.
LEAST_SHARE: Final = 0.02
MOST_FIGURES: Final = 14
# Where along an arrow its figure may stand, and how far from others.
_PLACES: Final = (0.5, 0.35, 0.65, 0.42, 0.58, 0.28, 0.72)
_FIGURE_WIDTH: Final = 4.6
_FIGURE_HEIGHT: Final = 1.0


def picture(results: Results) -> Picture:
    """The parts of `placement`, then what they copy to each other as `placement_edges` has it."""
    parts = results.table("placement").to_pylist()
    edges = results.table("placement_edges")
    hints = results.table("placement_hints").to_pylist()
    nodes = [
        {
            **{f"src_{name}": row[name] for name in ("device", "tower", "layer", "is_gradient")},
            **{name: row[name] for name in ("operations", "requested_device", "fallbacks")},
        }
        for row in parts
    ]
    kinds = [("operations", pa.int64()), ("requested_device", pa.string())]
    schema = pa.schema([*edges.schema, *kinds, ("fallbacks", pa.int64())])
    rows = pa.Table.from_pylist([*nodes, *edges.to_pylist()], schema=schema)
    return Picture(_finding(edges.to_pylist(), hints), rows)


def _finding(edges: list[Row], hints: list[Row]) -> str:
    if hints:
        return capital(hints[0]["finding"])
    sizes = [row["bytes_per_step"] for row in edges]
    if not edges:
        return "Nothing is copied between devices in a step"
    if None in sizes:
        return "What a step copies between devices; some sizes are not known"
    for_gradients = sum(row["bytes_per_step"] for row in edges if row["is_gradient"])
    share = say_share(for_gradients / sum(sizes)) if for_gradients else "none"
    return f"A step copies {format_bytes(sum(sizes))} between devices, {share} of it for gradients"


def draw(shown: Picture) -> "Figure":
    """Devices side by side; in each, a row per layer: its forward part, then its gradients."""
    rows = shown.rows.to_pylist()
    nodes = [row for row in rows if row["dst_device"] is None]
    edges = [row for row in rows if row["dst_device"] is not None]
    plan = arranged(nodes, edges)
    figure = canvas.new_figure(1.4 + _INCHES_PER_ROW * plan.height)
    axes = figure.subplots()
    axes.set_xlim(0, plan.width)
    axes.set_ylim(plan.height, 0)
    axes.axis("off")
    for box in plan.devices:
        _frame(axes, box, "#F4F4F4", 10.5, "bold")
    for box in plan.towers:
        _frame(axes, box, "#FFFFFF", 8.5, "normal")
    for box in plan.parts:
        _part(axes, box)
    _copies(axes, plan, edges)
    _explain(axes, any(box.row["fallbacks"] for box in plan.parts))
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [axes])
    return figure


def _frame(axes: "Axes", box: Box, colour: str, size: float, weight: str) -> None:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415 - only charts need it

    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y),
            box.width,
            box.height,
            boxstyle="round,pad=0,rounding_size=0.25",
            facecolor=colour,
            edgecolor=canvas.DARK,
            linewidth=0.8,
        )
    )
    axes.text(box.x + 0.25, box.y + 0.62, box.label, fontsize=size, weight=weight, va="center")


def _part(axes: "Axes", box: Box) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - only charts need it

    look = GRADIENTS if box.row["src_is_gradient"] else FORWARD
    has_moved = bool(box.row["fallbacks"])
    axes.add_patch(
        Rectangle(
            (box.x, box.y),
            box.width,
            box.height,
            facecolor=look.colour,
            alpha=0.55,
            hatch=look.hatch,
            edgecolor=FALLBACK.colour if has_moved else canvas.DARK,
            linewidth=2.0 if has_moved else 0.4,
            linestyle="--" if has_moved else "-",
        )
    )
    axes.text(
        box.x + box.width / 2,
        box.y + box.height / 2,
        box.label,
        fontsize=7.5,
        ha="center",
        va="center",
        bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.8},
    )


def _copies(axes: "Axes", plan: Plan, edges: list[Row]) -> None:
    """Arrows, the thick ones first, so that thin ones stay visible."""
    for row, ends, width in zip(edges, plan.ends, widths(edges), strict=True):
        _arrow(axes, row, ends, width)
    for row, place in figure_places(edges, plan):
        _figure(axes, row, place)


def widths(edges: list[Row]) -> list[float]:
    """How thick each copy is drawn, by its bytes."""
    largest = max((row["bytes_per_step"] or 0 for row in edges), default=0) or 1
    return [THINNEST + THICKEST * (row["bytes_per_step"] or 0) / largest for row in edges]


def figure_places(edges: list[Row], plan: Plan) -> list[tuple[Row, Point]]:
    """The copies that carry a figure, and where it stands, far enough from others."""
    total = sum(row["bytes_per_step"] or 0 for row in edges)
    taken: list[Point] = []
    shown = []
    for row, ends in list(zip(edges, plan.ends, strict=True))[:MOST_FIGURES]:
        if total and (row["bytes_per_step"] or 0) >= LEAST_SHARE * total:
            taken.append(free_place(ends, taken))
            shown.append((row, taken[-1]))
    return shown


def _arrow(axes: "Axes", row: Row, ends: tuple[Point, Point], width: float) -> None:
    from matplotlib.patches import FancyArrowPatch  # noqa: PLC0415 - only charts need it

    is_beside = ends[0][0] == ends[1][0]
    axes.add_patch(
        FancyArrowPatch(
            *ends,
            arrowstyle=f"simple,tail_width={width},head_width={width + 5},head_length={6 + width}",
            connectionstyle="arc3,rad=-0.5" if is_beside else "arc3,rad=0",
            mutation_scale=1,
            linewidth=0,
            facecolor=look_of(row).colour,
            edgecolor="white",
            hatch=look_of(row).hatch,
            alpha=0.7,
            shrinkA=0,
            shrinkB=0,
        )
    )


def look_of(row: Row) -> canvas.Look:
    """How a copy is shown: those whose purpose is unknown are with those for gradients."""
    return FORWARD_COPY if row["is_gradient"] is False else GRADIENT_COPY


def free_place(ends: tuple[Point, Point], taken: list[Point]) -> Point:
    """A place along an arrow that is far enough from others, the middle where none is."""
    (x, y), (to_x, to_y) = ends
    bend = GAP / 3 if x == to_x else 0
    places = [(x + share * (to_x - x) + bend, y + share * (to_y - y)) for share in _PLACES]
    free = (
        place
        for place in places
        if all(
            abs(place[0] - taken_place[0]) > _FIGURE_WIDTH
            or abs(place[1] - taken_place[1]) > _FIGURE_HEIGHT
            for taken_place in taken
        )
    )
    return next(free, places[0])


def _figure(axes: "Axes", row: Row, place: Point) -> None:
    axes.text(
        *place,
        format_bytes(row["bytes_per_step"]),
        fontsize=7.5,
        ha="center",
        va="center",
        color=look_of(row).colour,
        bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1},
    )


def _explain(axes: "Axes", has_fallbacks: bool) -> None:  # noqa: FBT001 - a fact, not a switch
    """Entries of the legend, from bars of no size."""
    for look in (FORWARD, GRADIENTS):
        axes.bar(
            [0], [0], color=look.colour, alpha=0.55, hatch=look.hatch, label=look.name,
            edgecolor=canvas.DARK,
        )  # fmt: skip
    for look in (FORWARD_COPY, GRADIENT_COPY):
        axes.bar(
            [0], [0], color=look.colour, alpha=0.7, hatch=look.hatch, edgecolor="white",
            label=f"{look.name}, by bytes",
        )  # fmt: skip
    if has_fallbacks:
        axes.plot([], [], color=FALLBACK.colour, linestyle="--", label=FALLBACK.name)


CHART: Final = Chart(
    "placement",
    "Where the parts of a TensorFlow model run, and what they copy to each other in a step",
    RECORDING,
    ("placement", "placement_edges", "placement_hints"),
    picture,
    draw,
)
