"""What each device did when: a lane per kind of activity, exposed parts told from hidden ones."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuprof.base.labels import label
from gpuprof.base.units import capital, say_ns, time_axis
from gpuprof.facts.hosts import DeviceNames
from gpuprof.show.charts import canvas
from gpuprof.show.charts.canvas import Look
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.charts.device_choice import choose_devices
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOKS: Final = {
    "compute": canvas.KERNELS,
    "communication": canvas.COMMUNICATION,
    "HtoD": canvas.HTOD,
    "HtoA": canvas.HTOD,
    "DtoH": canvas.DTOH,
    "AtoH": canvas.DTOH,
    "UVM_HtoD": canvas.MANAGED,
    "UVM_DtoH": canvas.MANAGED,
    "local_copies": canvas.LOCAL,
}

_HIDDEN_ALPHA: Final = 0.35
_HEIGHT: Final = 0.85
# What runs for less than this share of a slice is drawn so high, so that it shows.
_LEAST: Final = 0.15
_LANE_INCHES: Final = 0.26
_DEVICE_GAP: Final = 0.5

_Place = tuple[int | None, str]


def look(lane: str) -> Look:
    """How a lane is shown; all kinds that are not named are transfers between devices."""
    return _LOOKS.get(lane, canvas.PEER)


def picture(results: Results) -> Picture:
    """The rows of `lanes_over_time`, under the worst of the findings."""
    rows = results.table("lanes_over_time")
    findings = results.table("findings").to_pylist()
    if findings:
        return Picture(capital(findings[0]["finding"]), rows)
    return Picture(_span(rows.to_pylist()), rows)


def _span(rows: list[Row]) -> str:
    devices = len({row["device_id"] for row in rows})
    first = min((row["start_ns"] for row in rows), default=0)
    last = max((row["end_ns"] for row in rows), default=0)
    return f"What {devices} {'device' if devices == 1 else 'devices'} did in {say_ns(last - first)}"


def draw(shown: Picture) -> "Figure":
    """Lanes below each other, devices apart; as high as the share of a slice that is busy."""
    by_place = groupby(shown.rows.to_pylist(), key=itemgetter("device_id", "lane"))
    lanes = {place: list(rows) for place, rows in by_place}
    choice = choose_devices(_busy_ns(lanes))
    lanes = {place: rows for place, rows in lanes.items() if place[0] in choice.devices}
    floors = _floors(list(lanes))
    first = min(row["start_ns"] for rows in lanes.values() for row in rows)
    last = max(row["end_ns"] for rows in lanes.values() for row in rows)
    factor, unit = time_axis(last)
    figure = canvas.new_figure(1.7 + _LANE_INCHES * max(floors.values()))
    axes = figure.subplots()
    for place, rows in lanes.items():
        _draw_lane(axes, rows, floors[place], factor)
    labels = _labels(list(lanes), shown.device_names)
    axes.set_yticks([floor - _HEIGHT / 2 for floor in floors.values()], labels)
    axes.set_ylim(max(floors.values()) + 0.1, 0)
    canvas.show_instants(axes, first / factor, last / factor)
    scale = f"{canvas.SINCE_ORIGIN} [{unit}]; height: share of it that is busy"
    axes.set_xlabel(f"{scale}\n{choice.words}".strip())
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.spines["left"].set_visible(False)
    canvas.state(figure, shown.finding)
    _explain(figure)
    return figure


def _busy_ns(lanes: Mapping[_Place, list[Row]]) -> dict[int | None, float]:
    """The busy time of each device: each instant of it is exposed in one lane."""
    busy_ns = Counter[int | None]()
    for (device, _), rows in lanes.items():
        busy_ns[device] += sum(row["exposed_ns"] for row in rows)
    return dict(busy_ns)


def _floors(places: list[_Place]) -> dict[_Place, float]:
    """Where each lane stands, counted from the top, with a gap between devices."""
    devices = list(dict.fromkeys(device for device, _ in places))
    return {
        place: number + 1 + _DEVICE_GAP * devices.index(place[0])
        for number, place in enumerate(places)
    }


def _labels(places: list[_Place], names: DeviceNames) -> list[str]:
    """Lanes by name, the first of each device with the device."""
    labels: list[str] = []
    last: object = labels  # no device
    for device, lane in places:
        of_device = "" if device == last else f"{names.called(device)}   "
        labels.append(f"{of_device}{label(lane)}")
        last = device
    return labels


def _draw_lane(axes: "Axes", rows: list[Row], floor: float, factor: float) -> None:
    """Exposed parts stand on the lane's floor, hidden ones on these."""
    start, end, exposed, hidden = (
        np.array([row[name] for row in rows])
        for name in ("start_ns", "end_ns", "exposed_ns", "hidden_ns")
    )
    axes.axhline(floor, color="#DDDDDD", linewidth=0.5, zorder=0)
    edges = np.unique(np.concatenate([start, end]))
    at = np.searchsorted(edges, start)
    low, high = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    low[at] = _visible(exposed / (end - start))
    high[at] = np.maximum(_visible((exposed + hidden) / (end - start)), low[at])
    for bottom, top, alpha in ((np.zeros_like(low), low, 1), (low, high, _HIDDEN_ALPHA)):
        if (top > bottom).any():
            axes.stairs(
                floor - _HEIGHT * top,
                edges / factor,
                baseline=floor - _HEIGHT * bottom,
                fill=True,
                color=look(rows[0]["lane"]).colour,
                alpha=alpha,
                linewidth=0,
                gid=f"{rows[0]['device_id']} {rows[0]['lane']}",
            )


def _visible(shares: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.float64]":
    return np.where(shares > 0, np.maximum(shares, _LEAST), 0)


def _explain(figure: "Figure") -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - only charts need it

    handles = [
        Patch(color=canvas.DARK, label="exposed: nothing of a lane further up runs"),
        Patch(color=canvas.DARK, alpha=_HIDDEN_ALPHA, label="hidden: something does"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=9)


CHART: Final = Chart(
    "timeline",
    "What each device did when, and which transfers were exposed",
    RECORDING,
    ("lanes_over_time", "findings"),
    picture,
    draw,
)
