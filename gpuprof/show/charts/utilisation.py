"""How much of the time each device runs kernels or waits for transfers, slice by slice."""

from itertools import groupby
from typing import TYPE_CHECKING, Final

from gpuprof.base.units import capital, say_share, time_axis
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.charts.device_choice import choose_devices
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES: Final = 0.95
_PERCENT: Final = 100
_WORTH_SAYING: Final = 0.1


def picture(results: Results) -> Picture:
    """The rows of `utilisation_over_time`."""
    rows = results.table("utilisation_over_time")
    return Picture(_finding(rows.to_pylist()), rows)


def _finding(rows: list[Row]) -> str:
    """How busy the devices are, and which waits most for transfers where that is worth a word."""
    if not rows:
        return ""
    busy, waits = (_shares(rows, column) for column in ("kernel_ns", "exposed_transfer_ns"))
    least, most = (choose(busy, key=lambda device: busy[device]) for choose in (min, max))
    low, high = say_share(busy[least]), say_share(busy[most])
    sentence = f"{capital(device_name(least))} runs kernels {low} of the time"
    if low == high and len(busy) > 1:
        sentence = f"Each of {len(busy)} devices runs kernels {low} of the time"
    elif low != high:
        sentence += f", {device_name(most)} {high}"
    waiting = max(waits, key=lambda device: waits[device])
    if waits[waiting] < _WORTH_SAYING:
        return sentence
    device = "it" if len(waits) == 1 else device_name(waiting)
    return f"{sentence}; {device} waits {say_share(waits[waiting])} for transfers"


def _shares(rows: list[Row], column: str) -> dict[int | None, float]:
    """A column's share of the time, by device."""
    shares = {}
    for device, device_rows in groupby(rows, key=lambda row: row["device_id"]):
        slices = list(device_rows)
        length = sum(row["end_ns"] - row["start_ns"] for row in slices)
        shares[device] = sum(row[column] for row in slices) / length
    return shares


def device_name(device: int | None) -> str:
    """A device for people."""
    return "an unknown device" if device is None else f"device {device}"


def draw(shown: Picture) -> "Figure":
    """A panel per device: kernels, and on them the transfers that nothing hid."""
    rows = shown.rows.to_pylist()
    choice = choose_devices(_shares(rows, "kernel_ns"))
    devices = {
        device: list(device_rows)
        for device, device_rows in groupby(rows, key=lambda row: row["device_id"])
        if device in choice.devices
    }
    first, last = min(r["start_ns"] for r in rows), max(r["end_ns"] for r in rows)
    factor, unit = time_axis(last)
    figure = canvas.new_figure(1.6 + _PANEL_INCHES * len(devices))
    panels = figure.subplots(len(devices), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for (device, device_rows), axes in zip(devices.items(), panels, strict=True):
        _draw_device(axes, device_rows, factor)
        name = shown.device_names.in_text(device_name(device))
        axes.set_ylabel(f"{name}\n[%]", rotation=0, ha="right", va="center")
    panels[0].set_ylim(0, _PERCENT)
    canvas.show_instants(panels[-1], first / factor, last / factor)
    panels[-1].set_xlabel(f"{canvas.SINCE_ORIGIN} [{unit}]\n{choice.words}".strip())
    canvas.state(figure, shown.finding)
    canvas.explain(figure, list(panels))
    return figure


def _draw_device(axes: "Axes", rows: list[Row], factor: float) -> None:
    edges = [row["start_ns"] / factor for row in rows]
    edges.append(rows[-1]["end_ns"] / factor)
    kernels, waits = (
        [_PERCENT * row[column] / (row["end_ns"] - row["start_ns"]) for row in rows]
        for column in ("kernel_ns", "exposed_transfer_ns")
    )
    tops = [kernel + wait for kernel, wait in zip(kernels, waits, strict=True)]
    axes.stairs(kernels, edges, fill=True, color=canvas.KERNELS.colour, label="runs kernels")
    axes.stairs(
        tops,
        edges,
        baseline=kernels,
        fill=True,
        facecolor=canvas.PEER.colour,
        edgecolor=canvas.DARK,
        hatch=canvas.PEER.hatch,
        linewidth=0.3,
        label="waits for transfers",
    )


CHART: Final = Chart(
    "utilisation",
    "How much of the time each device runs kernels or waits for transfers",
    RECORDING,
    ("utilisation_over_time",),
    picture,
    draw,
)
