"""How much of the time each device runs kernels or waits for transfers, slice by slice."""

from itertools import groupby
from typing import Final

from gpuprof.base.units import capital, say_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames, device_name
from gpuprof.show import RECORDING, Row
from gpuprof.show.charts.figure import (
    KERNELS,
    PEER,
    SINCE_ORIGIN,
    Chart,
    Columns,
    Look,
    Picture,
    Results,
    choose_devices,
)

_WORTH_SAYING: Final = 0.1
_LOOKS: Final = {
    "kernel_ns": Look("runs kernels", KERNELS.kind, KERNELS.colour),
    "exposed_transfer_ns": Look("waits for transfers", PEER.kind, PEER.colour, PEER.hatch),
}


def picture(results: Results) -> Picture:
    """The rows of `utilisation_over_time`.

    The finding is which device waits most where that is worth a word, else how busy they are.
    """
    table = results.table("utilisation_over_time")
    rows = table.to_pylist()
    if not rows:
        return Picture("", table, [])
    # Of each device, the share of the time that each column takes.
    busy, waits = dict[int | None, float](), dict[int | None, float]()
    for device, device_rows in groupby(rows, key=lambda row: row["device_id"]):
        slices = list(device_rows)
        length = sum(row["end_ns"] - row["start_ns"] for row in slices)
        for shares, column in zip((busy, waits), _LOOKS, strict=True):
            shares[device] = sum(row[column] for row in slices) / length
    least, most = (choose(busy, key=lambda device: busy[device]) for choose in (min, max))
    low, high = say_share(busy[least]), say_share(busy[most])
    sentence = f"{capital(device_name(least))} runs kernels {low} of the time"
    if low == high and len(busy) > 1:
        sentence = f"Each of {len(busy)} devices runs kernels {low} of the time"
    elif low != high:
        sentence += f", {device_name(most)} {high}"
    waiting = max(waits, key=lambda device: waits[device])
    if waits[waiting] >= _WORTH_SAYING:
        share = say_share(waits[waiting])
        sentence = f"{capital(device_name(waiting))} waits {share} of the time for transfers"
    chosen, note = choose_devices(busy)
    shown = [row for row in rows if row["device_id"] in chosen]
    return Picture(sentence, table, panels(shown, note, results.device_names))


def panels(rows: list[Row], note: str = "", names: DeviceNames = NO_NAMES) -> list[Columns]:
    """A panel per device: kernels, and on them the transfers that nothing hid."""
    by_device = groupby(rows, key=lambda row: row["device_id"])
    slices = {device: list(of_device) for device, of_device in by_device}
    *_, last = slices
    return [
        Columns(
            [
                (look, [row[n] / (row["end_ns"] - row["start_ns"]) for row in of_device])
                for n, look in _LOOKS.items()
            ],
            names.in_text(device_name(device)),
            f"{SINCE_ORIGIN}\n{note}".strip() if device == last else "",
            unit="share",
            edges=[*(row["start_ns"] for row in of_device), of_device[-1]["end_ns"]],
            inches=0.95,
            is_over_time=True,
        )
        for device, of_device in slices.items()
    ]


CHART: Final = Chart(
    "utilisation",
    "How much of the time each device runs kernels or waits for transfers",
    RECORDING,
    ("utilisation_over_time",),
    picture,
)
