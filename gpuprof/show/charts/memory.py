"""Memory over time: what was allocated or in use in each slice, and what was reserved."""

from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import numpy as np

from gpuprof.base.units import capital, say_bytes
from gpuprof.facts.hosts import NO_NAMES, DeviceNames, device_name
from gpuprof.show import RECORDING, Row
from gpuprof.show.charts.figure import (
    HTOD,
    KERNELS,
    NOTHING,
    SINCE_ORIGIN,
    Chart,
    Columns,
    Look,
    Picture,
    Results,
)

_THROUGHOUT: Final = Look("in use throughout", KERNELS.kind, KERNELS.colour)
_FOR_A_WHILE: Final = Look("in use at the peak", HTOD.kind, HTOD.colour, HTOD.hatch)
_UNUSED: Final = Look("reserved, not in use", NOTHING.kind, NOTHING.colour, NOTHING.hatch)
_RESERVED: Final = replace(_UNUSED, name="reserved")
_MOST: Final = 8


def picture(results: Results) -> Picture:
    """The rows of `memory_over_time` of GPUs; of the host where there are no others."""
    table = results.table("memory_over_time")
    rows = _of_gpus(table.to_pylist())
    if not rows:
        return Picture("", table, [])
    most = max(rows, key=lambda row: row["most_bytes"])
    finding = f"{capital(_name(most))} has up to {say_bytes(most['most_bytes'])} {most['measure']}"
    if most["reserved_bytes"] is None and most["measure"] == "allocated":
        # nsys and old traces do not tell what was allocated before they began.
        finding += " since the start"
    elif most["reserved_bytes"] is not None:
        reserved = max(row["reserved_bytes"] for row in rows if _place(row) == _place(most))
        finding += f", of {say_bytes(reserved)} reserved"
    return Picture(finding, table, panels(rows, results.device_names))


def levels(rows: list[Row], names: DeviceNames = NO_NAMES) -> list[Columns]:
    """The same for lines beside each other: what was allocated at most, and what was reserved."""
    of_panels = []
    for panel in panels(_of_gpus(rows), names):
        throughout, for_a_while, *unused = (np.array(heights) for _, heights in panel.series)
        most = throughout + for_a_while
        reserved = [(_RESERVED, (most + heights).tolist()) for heights in unused]
        of_panels.append(replace(panel, series=[(_THROUGHOUT, most.tolist()), *reserved]))
    return of_panels


def _of_gpus(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["device_id"] is not None] or rows


def panels(rows: list[Row], names: DeviceNames = NO_NAMES) -> list[Columns]:
    """A panel for each process and device, the eight that need most."""
    places = {place: [*of] for place, of in groupby(rows, key=_place)}
    peaks = {place: max(row["most_bytes"] for row in of) for place, of in places.items()}
    shown = sorted(sorted(peaks, key=lambda place: -peaks[place])[:_MOST], key=str)
    of_places = []
    for place in shown:
        slices = places[place]
        unused = [max((row["reserved_bytes"] or 0) - row["most_bytes"], 0) for row in slices]
        series = [
            (_THROUGHOUT, [row["least_bytes"] for row in slices]),
            (_FOR_A_WHILE, [row["most_bytes"] - row["least_bytes"] for row in slices]),
            *([(_UNUSED, unused)] if any(unused) else []),
        ]
        of_places.append(
            Columns(
                series,
                names.in_text(_name(slices[0])),
                SINCE_ORIGIN if place == shown[-1] else "",
                unit="B",
                edges=[*(row["start_ns"] for row in slices), slices[-1]["end_ns"]],
                inches=1.6,
                is_over_time=True,
            )
        )
    return of_places


def _place(row: Row) -> tuple[Any, Any]:
    return row["process_id"], row["device_id"]


def _name(row: Row) -> str:
    return "the host" if row["device_id"] is None else device_name(row["device_id"])


CHART: Final = Chart(
    "memory",
    "Memory that a framework or CUDA allocates over time",
    RECORDING,
    ("memory_over_time",),
    picture,
)
