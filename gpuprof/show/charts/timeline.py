"""What each device did when: a lane per kind of activity, exposed parts told from hidden ones."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base.labels import label
from gpuprof.base.short_texts import cut
from gpuprof.base.units import capital, format_instant, say_ns, say_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import (
    COMMUNICATION,
    DTOH,
    HTOD,
    KERNELS,
    LOCAL,
    MANAGED,
    PEER,
    SINCE_ORIGIN,
    Chart,
    Lanes,
    Look,
    Picture,
    Results,
    choose_devices,
)

_LOOKS: Final = {
    "compute": KERNELS,
    "communication": COMMUNICATION,
    "HtoD": HTOD,
    "HtoA": HTOD,
    "DtoH": DTOH,
    "AtoH": DTOH,
    "UVM_HtoD": MANAGED,
    "UVM_DtoH": MANAGED,
    "local_copies": LOCAL,
}
_COMPUTE: Final = "compute"
_PARTS: Final = {
    "compute": _COMPUTE,
    "communication": "exposed communication",
    "local_copies": "exposed local copies",
}
_LANES_OF_PATH: Final = {
    "kernel": _COMPUTE,
    "collective": "communication",
    "memset": "local_copies",
}
_WORTH_SAYING: Final = 0.05  # Of the time; compute is named where nothing else takes as much.
_MOST_MARKS: Final = 60  # Of steps in the strip; more are a grey area.
_LONGEST_NAME: Final = 160
# Of a slice too small to be seen: places of intervals on a page are that exact.
_STEPS_OF_SLICE: Final = 128


def _look(lane: str) -> Look:
    """How a lane is shown; all kinds that are not named are transfers between devices."""
    return _LOOKS.get(lane, PEER)


def picture(results: Results) -> Picture:
    """A typical step under a strip of the whole recording; the whole where no step is known."""
    over_time, in_step = results.table("lanes_over_time"), results.table("lanes_in_step")
    rows, names = over_time.to_pylist(), results.device_names
    if not rows:
        return Picture("", over_time, [])
    first, last = min(row["start_ns"] for row in rows), max(row["end_ns"] for row in rows)
    if not in_step.num_rows:
        span = f"the recorded {say_ns(last - first)}"
        panel = _lanes(rows, names, (first, last), SINCE_ORIGIN)
        return Picture(_message(rows, (first, last), span, names), over_time, [panel])
    of_step = in_step.to_pylist()
    step, start, end = (of_step[0][n] for n in ("step", "step_start_ns", "step_end_ns"))
    steps = sorted({row["start_ns"] for row in results.rows("steps")})
    strip = _strip(rows, steps, (start, end, f"step {step}"), (first, last))
    axis = (
        f"time since the start of step {step}, {format_instant(start)} after the recording's origin"
    )
    panel = _lanes(of_step, names, (start, end), axis, origin=start)
    title = _message(of_step, (start, end), f"a {say_ns(end - start)} step", names)
    return Picture(title, in_step, [strip, panel])


def _message(rows: list[Row], span: tuple[int, int], words: str, names: DeviceNames) -> str:
    """What takes most of the time beside compute, and on which device."""
    length, parts_ns = span[1] - span[0], Counter[tuple[str, int | None]]()
    for row in rows:
        device, lane = row["device_id"], row["lane"]
        parts_ns["idle", device] += 0 if parts_ns["idle", device] else length
        parts_ns["idle", device] -= row["exposed_ns"]
        parts_ns[_PARTS.get(lane, "exposed copies"), device] += row["exposed_ns"]
    computing_ns = {key: ns for key, ns in parts_ns.items() if key[0] == _COMPUTE}
    beside_ns = {key: ns for key, ns in parts_ns.items() if key[0] != _COMPUTE}
    (part, device), ns = max(beside_ns.items(), key=itemgetter(1))
    if ns < _WORTH_SAYING * length and computing_ns:
        (part, device), ns = min(computing_ns.items(), key=itemgetter(1))
    return capital(f"{names.called(device)}: {say_share(ns / length)} of {words} is {part}")


def _strip(
    rows: list[Row], steps: Sequence[int], frame: tuple[int, int, str], span: tuple[int, int]
) -> Lanes:
    """How busy all devices are over the whole recording, where each step starts, and a frame."""
    busy_ns, devices = Counter[tuple[int, int]](), len({row["device_id"] for row in rows})
    for row in rows:
        busy_ns[row["start_ns"], row["end_ns"]] += row["exposed_ns"]
    start, end = (np.array(edge) for edge in zip(*sorted(busy_ns), strict=True))
    edges = np.unique(np.concatenate([start, end]))
    shares = np.zeros(len(edges) - 1)
    shares[np.searchsorted(edges, start)] = [
        busy_ns[key] / (key[1] - key[0]) / devices for key in sorted(busy_ns)
    ]
    name = "whole recording" if devices == 1 else "all devices, whole recording"
    return Lanes(
        names=[name],
        devices=[None],
        lanes=["busy"],
        looks=[Look("busy", "busy", "#555555")],
        edges=[edges],
        exposed=[shares],
        hidden=[np.zeros_like(shares)],
        span=span,
        label=SINCE_ORIGIN,
        marks=steps if len(steps) <= _MOST_MARKS else (),
        frame=frame,
    )


def _lanes(
    rows: list[Row], names: DeviceNames, span: tuple[int, int], axis: str, origin: int = 0
) -> Lanes:
    """The lanes of the devices that there is room for."""
    busy_ns = Counter[int | None]()
    # Each instant in which a device is busy is exposed in one lane.
    for row in rows:
        busy_ns[row["device_id"]] += row["exposed_ns"]
    chosen, note = choose_devices(busy_ns)
    by_lane = groupby(
        (row for row in rows if row["device_id"] in chosen), key=itemgetter("device_id", "lane")
    )
    names_shown, devices, lanes, edges, shares = [], [], [], [], []
    for (device, lane), of_lane in by_lane:
        slices = list(of_lane)
        start, end, exposed, hidden = (
            np.array([row[name] for row in slices])
            for name in ("start_ns", "end_ns", "exposed_ns", "hidden_ns")
        )
        edges.append(np.unique(np.concatenate([start, end])))
        of_slices = np.zeros((2, len(edges[-1]) - 1))
        of_slices[:, np.searchsorted(edges[-1], start)] = [
            exposed / (end - start),
            hidden / (end - start),
        ]
        head = "" if device in devices else f"{names.called(device)}   "
        names_shown.append(f"{head}{label(lane)}")
        devices.append(device)
        lanes.append(lane)
        shares.append(of_slices)
    exposed_shares, hidden_shares = zip(*shares, strict=True)
    looks = [*map(_look, lanes)]
    return Lanes(names_shown, devices, lanes, looks, edges, exposed_shares, hidden_shares, span,
                 axis, origin, note)  # fmt: skip


def intervals(
    table: pa.Table,
    kernels: Sequence[Row] = (),
    ranges: Sequence[Row] = (),
    device_names: DeviceNames = NO_NAMES,
    path: Sequence[Row] = (),
) -> Row:
    """The rows of `lanes` for the page's timeline.

    Each lane has its exposed and its hidden intervals as one flat list of three whole numbers
    per interval: the pause since the last one's end, the length, and how much of it is idle.
    They are in units of ``unit`` ns, a part of a slice too small to be seen, from ``first`` on,
    in ns since the recording's origin. ``closely`` is from when to when slices are shorter.

    Kernels and marks (steps and ranges) are flat lists, too, of three or four numbers: the time
    since the last one's start, the length, the place of the name in ``names``, and how many
    kernels it stands for.

    Args:
        table: Rows of `lanes`.
        kernels: Those of `lane_kernels`, under the names to show.
        ranges: Those of `lane_ranges`.
        device_names: What people know the devices by.
        path: Of the step_timeline of a prediction, what is on the critical path, by start.
    """
    first, last, *slices_ns = (
        int(find(table.column(name)).as_py())
        for name, find in (
            *(("start_ns", pc.min), ("end_ns", pc.max)),
            *(("slice_ns", pc.min), ("slice_ns", pc.max)),
        )
    )
    unit = max(1, slices_ns[0] // _STEPS_OF_SLICE)
    lanes: dict[tuple[int | None, str], Row] = {}
    columns = (table.column(name).to_pylist() for name in ("device_id", "lane", "is_exposed"))
    at = 0
    for (device, lane, is_exposed), rows in groupby(zip(*columns, strict=True)):
        length = sum(1 for _ in rows)
        head = {"owner": device_names.called(device), "kind": _look(lane).kind}
        head |= {"device": device, "lane": lane, "name": label(lane)}
        drawn = lanes.setdefault((device, lane), head | {"exposed": [], "hidden": []})
        flat = _deltas(table.slice(at, length), first, unit)
        drawn["exposed" if is_exposed else "hidden"] = flat
        at += length
    names: dict[str, int] = {}
    for key, of_lane in groupby(kernels, key=itemgetter("device_id", "lane")):
        if key in lanes:
            lanes[key]["kernels"] = _named(of_lane, "name", names, (first, unit))
    marks: dict[int | None, list[Row]] = {}
    for (device, level), of_level in groupby(ranges, key=itemgetter("device_id", "level")):
        head = {"device": device, "owner": device_names.called(device)}
        head |= {"lane": "marks", "name": "NVTX ranges" if level else "steps"}
        marked = _named(of_level, "text", names, (first, unit))
        marks.setdefault(device, []).append(head | {"marks": marked})
    by_device = groupby(lanes.values(), key=itemgetter("device"))
    lists = [lane for device, of in by_device for lane in (*marks.get(device, ()), *of)]
    lists = [*_path(path, lanes, names, (first, unit)), *lists]
    times: Row = {"first": first, "length": last - first, "slices": slices_ns, "unit": unit}
    if slices_ns[0] < slices_ns[1]:
        closely = table.filter(pc.equal(table.column("slice_ns"), slices_ns[0]))
        times["closely"] = [
            pc.min(closely.column("start_ns")).as_py(),
            pc.max(closely.column("end_ns")).as_py(),
        ]
    shown = [cut(clean(name), _LONGEST_NAME) for name in names]
    return times | {"names": shown, "lanes": lists}


def _path(
    path: Sequence[Row],
    lanes: Mapping[tuple[int | None, str], Row],
    names: dict[str, int],
    scale: tuple[int, int],
) -> list[Row]:
    """Adds to each lane what of it is on the critical path; returns a lane of what is elsewhere."""
    elsewhere: Row = {
        "device": None,
        "owner": "critical path",
        "lane": "path",
        "name": "host, waits",
    }
    of_lanes = defaultdict[int, list[Row]](list)
    by_lane: dict[int, Row] = {}
    for row in path:
        kind = _LANES_OF_PATH.get(row["kind"], row["name"].partition(" ")[0])
        keys = ((row["device_id"], key) for key in (kind, *_LANES_OF_PATH.values()))
        lane = next((lanes[key] for key in keys if key in lanes), elsewhere)
        lane = elsewhere if row["operation"] is None else lane
        by_lane[id(lane)] = lane
        of_lanes[id(lane)].append(row)
    for number, rows in of_lanes.items():
        by_lane[number]["path"] = _named(rows, "name", names, scale)
    return [elsewhere] if "path" in elsewhere else []


def _named(
    rows: Iterable[Row], key: str, names: dict[str, int], scale: tuple[int, int]
) -> list[int]:
    """Times, names and, of kernels, counts as one flat list; rows are sorted by start."""
    first, unit = scale
    flat, before = [], 0
    for row in rows:
        begun, ended = (row["start_ns"] - first) // unit, -((first - row["end_ns"]) // unit)
        flat += [begun - before, ended - begun, names.setdefault(row[key], len(names))]
        flat += [row["kernels"]] if "kernels" in row else []
        before = begun
    return flat


def _deltas(rows: pa.Table, first: int, unit: int) -> list[int]:
    start, end, busy = (rows.column(n).to_numpy() for n in ("start_ns", "end_ns", "busy_ns"))
    # What is rounded are places, not lengths, so that nothing adds up.
    begun, ended = (start - first) // unit, -((first - end) // unit)
    pause = begun - np.concatenate([[0], ended[:-1]])
    idle = (ended - begun) - np.maximum(-(-busy // unit), 1)
    return np.stack([pause, ended - begun, np.maximum(idle, 0)], axis=1).ravel().tolist()


CHART: Final = Chart(
    "timeline",
    "What each device did when, and which transfers were exposed",
    RECORDING,
    ("lanes_over_time", "lanes_in_step", "steps"),
    picture,
)
