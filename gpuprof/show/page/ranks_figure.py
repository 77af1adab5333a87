"""The ranks of a job on one clock: cells of ranks x time for the page's script, small for many."""

from base64 import b64encode
from collections.abc import Collection
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.analyses.reports import Report
from gpuprof.show import Row
from gpuprof.show.cells import clean
from gpuprof.show.charts import ranks
from gpuprof.show.charts.catalogue import of_report
from gpuprof.show.page.figures import Figure

# Three bytes each, a third more as text: with more cells, slices of time are joined.
_MOST_CELLS: Final = 150_000
# Ranks whose typical step is on the page, 1 KiB each: those that are latest, and the median one.
_MOST_IN_STEP: Final = 128
_FULL: Final = 250
_UNKNOWN: Final = 255
_LANES: Final = {
    "compute": ("compute", "compute"),
    "communication": ("communication", "communication"),
    "transfer": ("transfers", "peer"),
    "local_copy": ("local copies", "local"),
}
# Causes of waiting, whose findings name the rank that the others wait for.
_WAITING: Final = ("collective_waiting", "waits_for_device", "unbalanced_devices")
_CAPTION: Final = (
    "A row per device, on one clock. The colour is what takes most of a slice of time, the fuller"
    " the more; Show has each kind alone. Empty: not recorded. Thin lines: steps of the first"
    " device. A triangle marks a rank that the others wait for, or that is slow. Drag to zoom,"
    " double-click or All for everything. Up and down choose a rank; it and the median one are"
    " shown below in a typical step."
)


def ranks_figure(result: Report) -> Figure:
    """What the devices of a job do when, and each in a typical step."""
    shown, names = ranks.over_time(of_report(result)), result.device_names
    rows = shown.rows
    devices = rows["device_id"].unique().to_pylist()
    of_ranks = [row for row in result.rows("ranks") if row["device_id"] is not None]
    # Own times beside the median in the phase of most time.
    of_phase = [row for row in of_ranks if row["phase"] == of_ranks[0]["phase"]]
    ratios = {row["device_id"]: row["own_ratio"] for row in of_phase if row["own_ratio"]}
    late = {row["device_id"]: "slow" for row in of_ranks if row["is_slow"]}
    # As findings name them.
    awaited = {row["where"] for row in result.rows("findings") if row["cause"] in _WAITING}
    named = (device for device in devices if names.in_words([device]) in awaited)
    late |= dict.fromkeys(named, "the others wait for it")
    by_lateness = sorted(devices, key=lambda device: (device not in late, -ratios.get(device, 0)))
    # One that is there: of an even number the lower one.
    middle = sorted(ratios, key=lambda device: ratios[device])[(len(ratios) - 1) // 2 :][:1]
    data = _cells(rows, devices)
    data["devices"] = [
        [clean(name), ratios.get(device), late.get(device, "")]
        for device, (name, _) in zip(devices, ranks.by_device(rows, names), strict=True)
    ]
    place = {device: number for number, device in enumerate(devices)}
    data["late_first"] = [place[device] for device in by_lateness]
    data["median"] = next(map(place.get, middle), None)
    data["lanes"] = [*_LANES.values()]
    chosen = {*by_lateness[: _MOST_IN_STEP - 1], *middle} & {*devices}
    data["in_step"] = _in_step(_rows(result, "ranks_in_step", chosen), place)
    data["steps"] = sorted(row["start_ns"] for row in _rows(result, "steps", devices[:1]))
    return Figure("ranks-over-time", shown.finding, _CAPTION, "ranks", data, "ranks")


def _rows(result: Report, name: str, devices: Collection[int]) -> list[Row]:
    """The rows of some devices; none where the recording lacks what the table needs."""
    table = result.tables.get(name)
    if table is None:
        return []
    is_of_them = pc.is_in(table["device_id"], pa.array([*devices], pa.int64()))
    rows: list[Row] = table.filter(is_of_them).to_pylist()
    return rows


def _cells(rows: pa.Table, devices: list[int]) -> Row:
    """Shares of compute, communication and copies in each slice, and of all the time, by device."""
    start, end, device = (rows[name].to_numpy() for name in ("start_ns", "end_ns", "device_id"))
    first, slice_ns = int(start.min()), int(end[0] - start[0])
    slices = int(start.max() - first) // slice_ns + 1
    joined = -(-slices * len(devices) // _MOST_CELLS)
    cells = np.zeros((len(devices), -(-slices // joined), 4), np.int64)
    place = np.searchsorted(devices, device), (start - first) // slice_ns // joined
    parts = ("recorded_ns", *[*ranks.PARTS][:-1])
    np.add.at(cells, place, np.array([rows[name].to_numpy() for name in parts]).T)
    levels = np.where(
        cells[..., :1], np.round(_FULL * cells[..., 1:] / np.maximum(cells[..., :1], 1)), _UNKNOWN
    )
    totals = cells.sum(axis=1)
    return {
        "first": first,
        "slice": slice_ns * joined,
        "count": cells.shape[1],
        "cells": _packed(levels),
        "totals": (totals[:, 1:] / totals[:, :1]).round(4).tolist(),
        "parts": [words for words, _ in ranks.PARTS.values()],
    }


def _in_step(rows: list[Row], place: dict[int, int]) -> dict[int, Row]:
    """By place of a device its typical step: number, start, length, slices and sums of its lanes.

    Slices are shares, of each lane first those that are exposed, then hidden ones.
    """
    steps = {}
    for device, of_device in groupby(rows, key=itemgetter("device_id")):
        slices = [*of_device]
        length = np.array([row["end_ns"] - row["start_ns"] for row in slices])
        names = [f"{kind}{lane}_ns" for lane in _LANES for kind in ("", "hidden_")]
        times = np.array([[row[name] for row in slices] for name in names])
        steps[place[device]] = {
            "step": slices[0]["step"],
            "start": slices[0]["start_ns"],
            "length": int(length.sum()),
            "slices": _packed(np.round(_FULL * times / length)),
            "sums": times.sum(axis=1).tolist(),
        }
    return steps


def _packed(levels: Any) -> str:
    return b64encode(levels.astype(np.uint8).tobytes()).decode()
