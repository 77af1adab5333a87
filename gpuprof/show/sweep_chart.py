"""Charts of a sweep: speed-up with its break-even, and seconds as the work or the devices grow."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from gpuprof.base.units import format_seconds
from gpuprof.show.charts import canvas, curves
from gpuprof.sweeps.break_even import break_even_rows, crossing, lines, numeric_axes
from gpuprof.sweeps.plan import Number, Plan
from gpuprof.sweeps.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 4.6
_BAR_INCHES: Final = 0.4

Draw = Callable[["Axes"], None]


def break_even_figure(results: Results) -> "Figure | None":
    """Speed-up along each open axis of numbers; None without a baseline or such an axis."""
    rows = break_even_rows(results) if results.plan.baseline else []
    if not rows:
        return None
    axes = list(dict.fromkeys(row.axis for row in rows))
    panels: list[Draw] = [partial(_speed_ups, results=results, axis=axis) for axis in axes]
    crossed = {row.break_even: row for row in reversed(rows) if row.break_even is not None}
    first = crossed[min(crossed)] if crossed else rows[0]
    finding = f"Along {first.axis}, {first.variant} is {first.meaning}"
    return _figure(panels, finding + _caution(results.plan))


def scaling_figure(results: Results) -> "Figure | None":
    """Seconds along each axis of numbers, or a bar per cell; None where nothing ran."""
    ran = [row for row in results.cells.to_pylist() if row["seconds"]]
    if not ran:
        return None
    axes = [axis for axis in numeric_axes(results.plan) if lines(results, axis, "seconds")]
    panels: list[Draw] = [partial(_seconds, results=results, axis=axis) for axis in axes]
    best = min(ran, key=lambda row: float(row["seconds"]))
    timed = "an epoch" if results.per_epoch else "the program"
    finding = f"Fastest is {best['cell']}: {format_seconds(best['seconds'])} for {timed}"
    finding += _caution(results.plan)
    if not panels:
        return _figure([lambda panel: _bars(panel, ran)], finding, 1.6 + _BAR_INCHES * len(ran))
    return _figure(panels, finding)


def _caution(plan: Plan) -> str:
    return " (one run each)" if plan.repeat == 1 else ""


def _figure(panels: Sequence[Draw], finding: str, height: float = _HEIGHT) -> "Figure":
    from matplotlib import rc_context  # noqa: PLC0415 - half a second that only charts need

    with rc_context(canvas.STYLE):
        figure = canvas.new_figure(height)
        all_axes = list(figure.subplots(1, len(panels), squeeze=False)[0])
        for draw, axes in zip(panels, all_axes, strict=True):
            draw(axes)
        canvas.state(figure, finding)
        canvas.explain(figure, all_axes)
    return figure


def _speed_ups(axes: "Axes", results: Results, axis: str) -> None:
    shown = lines(results, axis, "speed_up")
    for (name, points), look in zip(shown.items(), cycle(canvas.LINES), strict=False):
        curves.curve(axes, name, points, look)
        _ranges(axes, results, (axis, "speed_up", name), look)
        curves.mark_break_even(axes, crossing(points), look["color"])
    baseline = ", ".join(f"{name}={value}" for name, value in results.plan.baseline.items())
    curves.mark_as_fast(axes, baseline)
    over = canvas.label(f"speed-up over {baseline}", lines=2)
    curves.over_measured(axes, _values(results, axis), (axis, over))


def _seconds(axes: "Axes", results: Results, axis: str) -> None:
    shown = lines(results, axis, "seconds")
    for (name, points), look in zip(shown.items(), cycle(canvas.LINES), strict=False):
        curves.curve(axes, name, points, look)
        _ranges(axes, results, (axis, "seconds", name), look)
        if axis in results.plan.baseline:
            values = [value for value, _ in points]
            first, seconds = points[0]
            ideal = [seconds * first / value for value in values]
            axes.plot(values, ideal, color=look["color"], linestyle=":", linewidth=1)
    if axis in results.plan.baseline:
        axes.plot([], [], color=canvas.DARK, linestyle=":", label="ideal")
    curves.over_measured(axes, _values(results, axis), (axis, "seconds [s]"))
    axes.set_ylim(bottom=0)


def _ranges(
    axes: "Axes", results: Results, line: tuple[str, str, str], look: Mapping[str, Any]
) -> None:
    """From the least to the most of the runs at each point of a line: axis, column and name."""
    axis, column, name = line
    least, most = (lines(results, axis, f"{column}_{end}")[name] for end in ("min", "max"))
    values, low = zip(*least, strict=True)
    high = [value for _, value in most]
    axes.vlines(values, low, high, colors=look["color"], linewidth=2, alpha=0.5)


def _values(results: Results, axis: str) -> list[Number]:
    return sorted({*results.cells.column(axis).to_pylist()})


def _bars(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    places = range(len(rows))
    axes.barh(places, [row["seconds"] for row in rows], color=canvas.LINES[0]["color"], height=0.6)
    least, most = ([row[f"seconds_{end}"] for row in rows] for end in ("min", "max"))
    axes.hlines(places, least, most, colors=canvas.DARK, linewidth=2)
    axes.set_yticks(places, [canvas.label(row["cell"]) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("seconds [s]")
