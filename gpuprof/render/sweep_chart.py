"""Charts of a sweep: speed-up with its break-even, and seconds as the work or the devices grow."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Final

from gpuprof.render.cells import clean, folded
from gpuprof.schema import TEXT
from gpuprof.sweeps.break_even import crossing, lines, numeric_axes
from gpuprof.sweeps.plan import Number, Plan
from gpuprof.sweeps.results import Results, axis_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, each with a marker that tells it apart in grey.
_LOOKS: Final = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
_GREY: Final = "#777777"
# Axes whose greatest value is this many times the least are logarithmic.
_WIDE: Final = 4
_PANEL_INCHES: Final = 5.4
_LABEL_WIDTH: Final = 36

Draw = Callable[["Axes"], None]


def break_even_figure(found: Results) -> "Figure | None":
    """Speed-up along each open axis of numbers; None without a baseline or such an axis."""
    axes = numeric_axes(found.plan) if found.plan.baseline else []
    axes = [axis for axis in axes if lines(found, axis, "speed_up")]
    panels: list[Draw] = [lambda one, axis=axis: _speed_ups(one, found, axis) for axis in axes]  # type: ignore[misc]
    return _figure(panels, _title(found, "Speed-up over the baseline")) if panels else None


def scaling_figure(found: Results) -> "Figure | None":
    """Seconds along each axis of numbers, or a bar per cell; None where nothing ran."""
    if not any(row["seconds"] for row in found.cells.to_pylist()):
        return None
    axes = [axis for axis in _all_numeric(found.plan) if lines(found, axis, "seconds")]
    panels: list[Draw] = [lambda one, axis=axis: _seconds(one, found, axis) for axis in axes]  # type: ignore[misc]
    what = "Seconds per epoch" if found.per_epoch else "Seconds of the program"
    return _figure(panels or [lambda one: _bars(one, found)], _title(found, what))


def _all_numeric(plan: Plan) -> list[str]:
    return [
        name
        for name, values in plan.axes.items()
        if len(values) > 1 and axis_column(values).dtype != TEXT
    ]


def _title(found: Results, what: str) -> str:
    if not found.plan.baseline or what.startswith("Seconds"):
        return what
    values = ", ".join(f"{axis}={value}" for axis, value in found.plan.baseline.items())
    return f"{what} {values}"


def _figure(panels: Sequence[Draw], title: str) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second that only charts need

    figure = Figure(figsize=(max(_PANEL_INCHES * len(panels), 6.4), 4.2), layout="constrained")
    for draw, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(clean(title), x=0.01, ha="left", weight="bold", parse_math=False)
    return figure


def _speed_ups(axes: "Axes", found: Results, axis: str) -> None:
    for (name, points), (colour, marker) in zip(
        lines(found, axis, "speed_up").items(), cycle(_LOOKS), strict=False
    ):
        _line(axes, name, points, (colour, marker))
        place = crossing(points)
        if place is not None:
            axes.plot([place], [1], marker="*", markersize=13, color=colour, linestyle="none")
            axes.annotate(
                f"{place:,.0f}",
                (place, 1),
                xytext=(4, -14),
                textcoords="offset points",
                color=colour,
            )
    axes.axhline(1, color=_GREY, linestyle="--", linewidth=1)
    axes.annotate("as fast as the baseline", (0.01, 1), xycoords=("axes fraction", "data"),
                  xytext=(0, 3), textcoords="offset points", fontsize=8, color=_GREY)  # fmt: skip
    _dress(axes, found, axis, "speed-up")


def _seconds(axes: "Axes", found: Results, axis: str) -> None:
    shown = lines(found, axis, "seconds")
    for (name, points), looks in zip(shown.items(), cycle(_LOOKS), strict=False):
        _line(axes, name, points, looks)
        if axis in found.plan.baseline:
            first, seconds = points[0]
            ideal = [(value, seconds * first / value) for value, _ in points]
            axes.plot(*zip(*ideal, strict=True), color=looks[0], linestyle=":", linewidth=1)
    if axis in found.plan.baseline:
        axes.plot([], [], color=_GREY, linestyle=":", label="ideal")
    _dress(axes, found, axis, "seconds [s]")
    axes.set_ylim(bottom=0)


def _line(
    axes: "Axes", name: str, points: Sequence[tuple[Number, float]], looks: tuple[str, str]
) -> None:
    colour, marker = looks
    label = folded(clean(name), _LABEL_WIDTH) or "all"
    axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=label)


def _dress(axes: "Axes", found: Results, axis: str, what: str) -> None:
    values = sorted(row[axis] for row in found.cells.select([axis]).to_pylist())
    if values[0] > 0 and values[-1] >= _WIDE * values[0]:
        axes.set_xscale("log", base=2)
    ticks = sorted(set(values))
    axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
    axes.minorticks_off()
    axes.set_xlabel(axis, parse_math=False)
    axes.set_ylabel(what)
    if axes.get_legend_handles_labels()[1] != ["all"]:
        axes.legend(frameon=False, fontsize=8)


def _bars(axes: "Axes", found: Results) -> None:
    rows = [row for row in found.cells.to_pylist() if row["seconds"]]
    places = range(len(rows))
    axes.barh(places, [row["seconds"] for row in rows], color=_LOOKS[0][0], height=0.6)
    labels = [folded(clean(row["cell"]), _LABEL_WIDTH) for row in rows]
    axes.set_yticks(places, labels, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("seconds [s]")
