"""Speed-up over the batch size, with the break-even point."""

from itertools import cycle, groupby
from typing import TYPE_CHECKING, Any, Final

from gpuprof.render.cells import clean
from gpuprof.render.charts import canvas
from gpuprof.render.charts.contract import Chart, Picture, Results
from gpuprof.render.contract import SWEEP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 4.6
_WIDE: Final = 4

Row = dict[str, Any]


def picture(results: Results) -> Picture:
    """The rows of `batch_speed_ups`."""
    rows = results.table("batch_speed_ups")
    return Picture(_finding(rows.to_pylist()), rows)


def _finding(rows: list[Row]) -> str:
    if not rows:
        return ""
    crossed = [row for row in rows if row["break_even_batch_size"] is not None]
    if crossed:
        first = min(crossed, key=lambda row: float(row["break_even_batch_size"]))
        return (
            f"{first['label']} is faster from a batch size of about"
            f" {first['break_even_batch_size']:,.0f} on"
        )
    best = max(rows, key=lambda row: float(row["speed_up"]))
    faster = all(row["speed_up"] >= 1 for row in rows)
    which = "Faster with every batch size" if faster else "No break-even"
    return f"{which}: at most {best['speed_up']:.2f} times the speed ({best['label']})"


def draw(shown: Picture) -> "Figure":
    """A line per label; where it stays above 1, it is faster than the first label."""
    rows = shown.rows.to_pylist()
    figure = canvas.new_figure(_HEIGHT)
    axes = figure.subplots()
    looks = cycle(canvas.LINES)
    for label, mine in groupby(rows, key=lambda row: row["label"]):
        points, look = list(mine), next(looks)
        sizes, speeds = ([row[n] for row in points] for n in ("batch_size", "speed_up"))
        axes.plot(sizes, speeds, label=clean(label or "measured"), **look)
        _mark(axes, points[0]["break_even_batch_size"], look["color"])
    axes.axhline(1, color=canvas.DARK, linestyle="--", linewidth=1, label="as fast")
    sizes = sorted({row["batch_size"] for row in rows})
    if sizes[-1] >= _WIDE * sizes[0]:
        axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set(xlabel="batch size [examples]", ylabel="speed-up")
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [axes])
    return figure


def _mark(axes: "Axes", place: float | None, colour: str) -> None:
    if place is None:
        return
    axes.plot([place], [1], marker="*", markersize=14, color=colour, markeredgecolor=canvas.DARK)
    axes.annotate(
        f"{place:,.0f}", (place, 1), xytext=(6, -14), textcoords="offset points", color=canvas.DARK
    )


CHART: Final = Chart(
    "batch",
    "Speed-up over the batch size, with the break-even point",
    SWEEP,
    ("batch_speed_ups",),
    picture,
    draw,
)
