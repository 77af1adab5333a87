"""What the devices of a job do: heat maps of who works longer in which step, and of what when."""

from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base.units import capital, say_ns, say_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import SINCE_ORIGIN, Chart, HeatMap, Picture, Results

_SAMPLES: Final = ("sample", "outlier")
_OWN_TIMES: Final = pa.schema(
    {
        "phase": pa.string(),
        **dict.fromkeys(("rank", "device_id", "step", "own_ns"), pa.int64()),
        "own_ratio": pa.float64(),
    }
)
# A difference that is smaller is no finding.
_WORTH_SAYING: Final = 0.01
_OVER_TIME: Final = "ranks_over_time"
# Columns -> what devices do meanwhile, in titles and in sentences.
PARTS: Final = {
    "compute_ns": ("compute", "computes"),
    "communication_ns": ("communication that no compute hides", "communicates"),
    "copies_ns": ("copies and memsets that no kernel hides", "copies"),
    "idle_ns": ("idle", "idles"),
}
# What takes less has no panel, and is left out of the title.
_LEAST_SHARE: Final = 0.01
_TWO: Final = 2
# A device differs whose share is so much above the median.
_DIFFERS: Final = 0.05


def in_steps(results: Results) -> Picture:
    """The own time of each device in each step of the phase of `ranks` that takes most time."""
    ranks = results.rows("ranks")
    phase = ranks[0]["phase"] if ranks else None
    devices = [row for row in ranks if row["phase"] == phase]
    table = _own_times(results.table("steps"), phase, devices)
    rows = table.to_pylist()
    if not rows:
        return Picture("", table, [])
    named = {row["device_id"]: results.device_names.in_text(_device_in_words(row)) for row in rows}
    steps = sorted({row["step"] for row in rows})
    longest, usual_ns = devices[0], median(row["own_ns"] for row in devices)
    excess = longest["own_ns"] / usual_ns - 1 if usual_ns else 0
    note = ""
    if excess < _WORTH_SAYING:
        ends = dict.fromkeys(say_ns(devices[place]["own_ns"]) for place in (-1, 0))
        devices_in_words = "Both" if len(devices) == _TWO else f"All {len(devices)}"
        finding = f"{devices_in_words} devices work alike: {' to '.join(ends)} of a step"
    else:
        device = _device_in_words(longest)
        part = f", mostly in {longest['longer_part']}" if longest["longer_part"] else ""
        finding = f"{capital(device)} works {say_share(excess)} longer than the median device"
        note = f"{device} is the slowest in {say_share(longest['slowest_share'])} of them{part}"
    change = {(row["device_id"], row["step"]): row["own_ratio"] - 1 for row in rows}
    cells = HeatMap(
        [*named.values()],
        [str(step) for step in steps],
        [[change.get((device, step)) for step in steps] for device in named],
        # In lines that are shorter than the lowest of the charts is high.
        "time without\ncollectives against\nthe median",
        "change",
        labels=("; ".join(filter(None, ("step", results.device_names.in_text(note)))), ""),
        row_inches=0.22,
    )
    return Picture(finding, table, [cells])


def _own_times(steps: pa.Table, phase: str | None, devices: list[Row]) -> pa.Table:
    """A row per device and step; own times as share of their median over the step's devices."""
    rank_of = {row["device_id"]: row["rank"] for row in devices}
    names = ("phase", "status", "device_id", "step", "span_ns", "exposed_communication_ns")
    columns = [steps[name].to_pylist() for name in names]
    own_ns = {
        (step, device): span - communication
        for name, status, device, step, span, communication in zip(*columns, strict=True)
        if name == phase and status in _SAMPLES and device in rank_of
    }
    by_step: dict[int, list[int]] = {}
    for (step, _), duration_ns in own_ns.items():
        by_step.setdefault(step, []).append(duration_ns)
    usual = {step: median(durations) for step, durations in by_step.items()}
    rows = []
    for step, device in sorted(own_ns, key=lambda key: (key[0], key[1] or 0)):
        if len(by_step[step]) > 1 and usual[step]:
            row = {"phase": phase, "rank": rank_of[device], "device_id": device, "step": step}
            own_time_ns = own_ns[step, device]
            rows.append(row | {"own_ns": own_time_ns, "own_ratio": own_time_ns / usual[step]})
    return pa.Table.from_pylist(rows, _OWN_TIMES)


def _device_in_words(row: Row) -> str:
    device = NO_NAMES.called(row["device_id"])
    return device if row["rank"] is None else f"rank {row['rank']}, {device}"


def over_time(results: Results) -> Picture:
    """The rows of `ranks_over_time`.

    The finding is which device differs most from the median, else what most of the time goes to.
    """
    rows = results.table(_OVER_TIME)
    if not rows.num_rows:
        return Picture("", rows, [])
    devices = by_device(rows)
    shares = {part: [_share(of_device, part) for _, of_device in devices] for part in PARTS}
    usual = {part: median(of_part) for part, of_part in shares.items()}
    most = max(PARTS, key=lambda part: usual[part])
    devices_in_words = (
        devices[0][0] if len(devices) == 1 else f"the median of {len(devices):,} devices"
    )
    finding = capital(f"{devices_in_words} {PARTS[most][1]} {say_share(usual[most])} of the time")
    excess, place, part = max(
        (share - usual[part], place, part)
        for part, of_part in shares.items()
        for place, share in enumerate(of_part)
    )
    if excess > _DIFFERS:
        share, of_median = say_share(shares[part][place]), say_share(usual[part])
        finding = f"{capital(devices[place][0])} {PARTS[part][1]} {share} of the time"
        finding += f", {of_median} in the median"
    return Picture(finding, rows, heat_maps(rows, results.device_names))


def by_device(rows: pa.Table, names: DeviceNames = NO_NAMES) -> list[tuple[str, pa.Table]]:
    """The name and the rows of each device, in their order.

    Only of ranks with many devices the device's number stands beside the rank.
    """
    device = rows["device_id"].combine_chunks()
    places = pc.index_in(device, value_set=device.unique()).to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), rows.num_rows]
    tables = [rows.slice(begin, end - begin) for begin, end in pairwise(begins)]
    has_many = len({*rows["rank"].to_pylist()}) < len(tables)
    labels = []
    for row in (table.slice(0, 1).to_pylist()[0] for table in tables):
        number = f"device {row['device_id']}"
        host = "" if row["host"] is None else f" on {row['host']}"
        rank = f"rank {row['rank']}{f', {number}' if has_many else ''}"
        labels.append(names.in_text(f"{number if row['rank'] is None else rank}{host}"))
    return [*zip(labels, tables, strict=True)]


def _share(rows: pa.Table, part: str) -> float:
    """The share of its recorded time that a part takes."""
    share: float = pc.sum(rows[part]).as_py() / pc.sum(rows["recorded_ns"]).as_py()
    return share


def heat_maps(rows: pa.Table, names: DeviceNames = NO_NAMES) -> list[HeatMap]:
    """A panel per part that is worth one: a row per device, a column per slice of time."""
    devices = by_device(rows, names)
    starts, ends = (rows[name].to_pylist() for name in ("start_ns", "end_ns"))
    # The slices of all devices start together, and are as long.
    slices = range(min(starts), max(ends), ends[0] - starts[0])
    parts = [part for part in PARTS if _share(rows, part) >= _LEAST_SHARE]
    panels = []
    for part in parts:
        values: list[list[float | None]] = [[None] * len(slices) for _ in devices]
        for shares, (_, of_device) in zip(values, devices, strict=True):
            columns = (of_device[n].to_pylist() for n in ("start_ns", "recorded_ns", part))
            for start, recorded, spent in zip(*columns, strict=True):
                shares[slices.index(start)] = spent / recorded
        panels.append(
            HeatMap(
                [name for name, _ in devices],
                (),
                values,
                "share of the time",
                "share",
                words=[
                    f"{clean(name)}: {PARTS[part][0]} {say_share(_share(of_device, part))}"
                    for name, of_device in devices
                ],
                times=(slices.start, slices.stop),
                labels=(SINCE_ORIGIN if part == parts[-1] else "", ""),
                title=f"{PARTS[part][0]}: {say_share(median(_share(t, part) for _, t in devices))}"
                + " in the median" * (len(devices) > 1),
                row_inches=0.16,
                inches=(0.8, 3.2),
            )
        )
    return panels


IN_STEPS: Final = Chart(
    "ranks", "Which rank works longest in which step", RECORDING, ("ranks", "steps"), in_steps
)
OVER_TIME: Final = Chart(
    _OVER_TIME,
    "What the devices of all ranks do when: compute, communication, copies and idle time",
    RECORDING,
    (_OVER_TIME,),
    over_time,
)
