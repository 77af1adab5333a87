"""Speed-up over the batch size, with the break-even point."""

from itertools import cycle, groupby
from typing import TYPE_CHECKING, Final

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts import canvas, curves
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import SWEEP, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT: Final = 4.6


def picture(results: Results) -> Picture:
    """The rows of `batch_speed_ups`.

    Raises:
        EmptyRecordingError: No batch size was measured twice.
    """
    rows = results.table("batch_speed_ups")
    if not rows.num_rows:
        msg = "batch needs two labels measured at the same batch sizes"
        raise EmptyRecordingError(msg, "Give rows of one batch size that differ in label or"
                                       " devices, or a sweep with an axis batch.")  # fmt: skip
    return Picture(_finding(rows.to_pylist()), rows)


def _finding(rows: list[Row]) -> str:
    than = rows[0]["baseline"] or "the first"
    crossed = [row for row in rows if row["break_even_batch_size"] is not None]
    if crossed:
        first = min(crossed, key=lambda row: float(row["break_even_batch_size"]))
        return (
            f"{first['series']} is faster than {than} from a batch size of about"
            f" {first['break_even_batch_size']:,.0f} on"
        )
    best = max(rows, key=lambda row: float(row["speed_up"]))
    faster = all(row["speed_up"] >= 1 for row in rows)
    outcome = f"Faster than {than} with every batch size" if faster else "No break-even"
    return (
        f"{outcome}: at most {best['speed_up']:.2f} times the speed of {than}"
        f" ({best['series']}, batch size {best['batch_size']})"
    )


def draw(shown: Picture) -> "Figure":
    """A line per series; where it stays above 1, it is faster than the first one."""
    rows = shown.rows.to_pylist()
    figure = canvas.new_figure(_HEIGHT)
    axes = figure.subplots()
    looks = cycle(canvas.LINES)
    for series, measured in groupby(rows, key=lambda row: row["series"]):
        line, look = list(measured), next(looks)
        points = [(row["batch_size"], row["speed_up"]) for row in line]
        curves.curve(axes, series, points, look)
        curves.mark_break_even(axes, line[0]["break_even_batch_size"], look["color"])
    than = rows[0]["baseline"] or "the first"
    curves.mark_as_fast(axes, than)
    sizes = sorted({row["batch_size"] for row in rows})
    curves.over_measured(
        axes, sizes, ("batch size [examples]", f"speed-up over {canvas.label(than)}")
    )
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [axes])
    return figure


CHART: Final = Chart(
    "batch",
    "Speed-up over the batch size, with the break-even point",
    SWEEP,
    ("batch_speed_ups",),
    picture,
    draw,
)
