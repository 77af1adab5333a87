"""Curves over measured values, as every chart of a sweep draws them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gpuprof.show.charts import canvas
from gpuprof.sweeps.break_even import break_even_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL_WIDTH: Final = 36

Points = Sequence[tuple[float, float]]


def curve(axes: "Axes", name: str | None, points: Points, look: dict[str, Any]) -> None:
    """A line through what was measured, with its name in the legend."""
    label = canvas.label(name or "", _LABEL_WIDTH) or "measured"
    axes.plot(*zip(*points, strict=True), label=label, **look)


def mark_break_even(axes: "Axes", place: float | None, colour: str) -> None:
    """A star where two variants are equally fast, with its value; nothing for nowhere."""
    if place is None:
        return
    axes.plot([place], [1], marker="*", markersize=14, color=colour, markeredgecolor=canvas.DARK)
    axes.annotate(
        break_even_text(place),
        (place, 1),
        xytext=(6, -14),
        textcoords="offset points",
        color=canvas.DARK,
    )


def mark_as_fast(axes: "Axes", baseline: str) -> None:
    """The line above which a speed-up is one."""
    label = canvas.label(f"as fast as {baseline}", _LABEL_WIDTH)
    axes.axhline(1, color=canvas.DARK, linestyle="--", linewidth=1, label=label)


def over_measured(axes: "Axes", values: Sequence[float], names: tuple[str, str]) -> None:
    """Ticks at what was measured and nowhere else, and the names of both axes.

    The axis is logarithmic where it can be, as a break-even is interpolated: it lies on its line.
    """
    if values[0] > 0:
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.minorticks_off()
    axes.set(xlabel=names[0], ylabel=names[1])
