"""Speed-up and efficiency over the number of devices, beside the ideal."""

from itertools import cycle, groupby
from typing import TYPE_CHECKING, Any, Final

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.base.units import say_share
from gpuprof.show.charts import canvas, curves
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import SWEEP, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 4.4
_PERCENT: Final = 100


def picture(results: Results) -> Picture:
    """The rows of `scaling`.

    Raises:
        EmptyRecordingError: Nothing was measured on two numbers of devices.
    """
    rows = results.table("scaling")
    if not rows.num_rows:
        msg = "scaling needs one label measured on two numbers of devices"
        raise EmptyRecordingError(msg, "Give rows of one label and batch size that differ in"
                                       " devices, or a sweep with an axis devices.")  # fmt: skip
    return Picture(_finding(rows.to_pylist()), rows)


def _finding(rows: list[Row]) -> str:
    most = max(rows, key=lambda row: (int(row["devices"]), float(row["speed_up"])))
    fast = f"{most['speed_up']:.2f} times as fast"
    size = "" if most["batch_size"] is None else f" with batch size {most['batch_size']}"
    sentence = (
        f"{most['label']} runs {fast} on {most['devices']} devices{size}"
        if most["label"]
        else f"{most['devices']} devices are {fast} as one{size}"
    )
    return f"{sentence}: {say_share(most['efficiency'])} of the ideal"


def draw(shown: Picture) -> "Figure":
    """Speed-up on the left, efficiency on the right, a line per series."""
    rows = shown.rows.to_pylist()
    figure = canvas.new_figure(_HEIGHT)
    speed, efficiency = figure.subplots(1, 2)
    looks = cycle(canvas.LINES)
    for series, measured in groupby(rows, key=lambda row: row["series"]):
        points, look = list(measured), next(looks)
        curves.curve(speed, series, [(r["devices"], r["speed_up"]) for r in points], look)
        shares = [(r["devices"], _PERCENT * r["efficiency"]) for r in points]
        curves.curve(efficiency, series, shares, look)
    _ideal(speed, efficiency, sorted({row["devices"] for row in rows}))
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [speed, efficiency])
    return figure


def _ideal(speed: "Axes", efficiency: "Axes", devices: list[int]) -> None:
    ideal: dict[str, Any] = {
        "color": canvas.DARK,
        "linestyle": "--",
        "linewidth": 1,
        "label": "ideal",
    }
    speed.plot(devices, devices, **ideal)
    efficiency.plot(devices, [_PERCENT] * len(devices), **ideal)
    for axes, name in ((speed, "speed-up over one device"), (efficiency, "efficiency [%]")):
        axes.set_xticks(devices)
        axes.set(xlabel="devices", ylabel=name)
        axes.set_ylim(bottom=0)


CHART: Final = Chart(
    "scaling",
    "Speed-up and efficiency over the number of devices",
    SWEEP,
    ("scaling",),
    picture,
    draw,
)
