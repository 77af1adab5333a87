"""Speed-ups: over the number of devices, and over another variant by batch size."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import counted
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Kind, Schema
from gpuprof.sweeps.break_even import crossing
from gpuprof.sweeps.times import TIMES

_SERIES: Final = Column(
    TEXT, "", "Name of its line: the label, with devices or batch size where these vary."
)
_speed_up = partial(Column, FLOAT, "1", required=True, kind=Kind.RATIO)
SCALING: Final = Schema(
    "scaling",
    "one label with one batch size on one number of devices",
    {
        "series": _SERIES,
        "label": TIMES.columns["label"],
        "batch_size": TIMES.columns["batch_size"],
        "devices": Column(INT, "1", "Devices.", required=True),
        "runs": Column(INT, "1", "Measurements.", required=True),
        "seconds_per_epoch": Column(FLOAT, "s", "Median of them.", required=True),
        "speed_up": _speed_up("Seconds of the series' fewest devices / seconds, times these."),
        "efficiency": Column(FLOAT, "1", "speed_up / devices.", required=True),
    },
)
BATCH_SPEED_UPS: Final = Schema(
    "batch_speed_ups",
    "one label on one number of devices with one batch size",
    {
        "series": _SERIES,
        "label": TIMES.columns["label"],
        "devices": Column(INT, "1", "Devices.", required=True),
        "baseline": Column(TEXT, "", "The first series, which it is compared with."),
        "batch_size": Column(INT, "1", "Examples in a step.", required=True),
        "seconds_per_epoch": Column(FLOAT, "s", "Median of the measurements.", required=True),
        "speed_up": _speed_up("Seconds of the first series with this batch size / seconds."),
        "break_even_batch_size": Column(
            FLOAT,
            "1",
            "Batch size above which the series is faster than the first; null for none.",
            kind=Kind.COUNT,
        ),
    },
)

Row = dict[str, Any]


def scaling(times: pa.Table) -> pa.Table:
    """How much faster each label gets with more devices, batch size by batch size.

    The fewest devices of a series are taken to scale ideally: with one among them, the speed-up
    is that over one device.

    Args:
        times: As in `TIMES`.

    Returns:
        Columns as in `SCALING`, by label in the order given, then batch size and devices. No
        rows where no label has two numbers of devices with one batch size.
    """
    series = [
        (label, batch, by_devices)
        for label, rows in _by(times.to_pylist(), itemgetter("label")).items()
        for batch, same_work in sorted(_by(rows, _batch).items())
        if len(by_devices := _by(same_work, _devices)) > 1
    ]
    has_batches = len({batch for _, batch, _ in series}) > 1
    scaled = []
    for label, batch, by_devices in series:
        name = _name(label, f"batch size {batch}" if has_batches and batch else "")
        seconds = {devices: _median(rows) for devices, rows in sorted(by_devices.items())}
        ideal = min(seconds) * seconds[min(seconds)]
        for devices, taken in seconds.items():
            scaled.append({
                "series": name,
                "label": label,
                "batch_size": batch or None,
                "devices": devices,
                "runs": sum(row["runs"] or 1 for row in by_devices[devices]),
                "seconds_per_epoch": taken,
                "speed_up": ideal / taken,
                "efficiency": ideal / taken / devices,
            })  # fmt: skip
    return SCALING.table(scaled)


def batch_speed_ups(times: pa.Table) -> pa.Table:
    """How much faster than the first series each other is, batch size by batch size.

    A series is a label on one number of devices.

    Args:
        times: As in `TIMES`.

    Returns:
        Columns as in `BATCH_SPEED_UPS`, by series in the order given, then batch size. No rows
        where no batch size was measured with the first series and another.
    """
    rows = [row for row in times.to_pylist() if row["batch_size"]]
    series = _by(rows, lambda row: (row["label"], _devices(row)))
    if not series:
        return BATCH_SPEED_UPS.empty()
    has_numbers = len({devices for _, devices in series}) > 1
    names = {
        (label, devices): _name(label, counted(devices, "device", "devices") * has_numbers)
        for label, devices in series
    }
    (first, baseline), *candidates = (
        (key, {batch: _median(alike) for batch, alike in sorted(_by(of_key, _batch).items())})
        for key, of_key in series.items()
    )
    speed_ups = []
    for key, seconds in candidates:
        points = [(b, baseline[b] / taken) for b, taken in seconds.items() if b in baseline]
        of_series = {
            "series": names[key],
            "label": key[0],
            "devices": key[1],
            "baseline": names[first],
            "break_even_batch_size": crossing(points),
        }
        speed_ups += [
            of_series | {"batch_size": b, "seconds_per_epoch": seconds[b], "speed_up": speed_up}
            for b, speed_up in points
        ]
    return BATCH_SPEED_UPS.table(speed_ups)


def _name(label: str | None, detail: str) -> str | None:
    return ", ".join(part for part in (label, detail) if part) or None


def _devices(row: Row) -> int:
    return row["devices"] or 1


def _batch(row: Row) -> int:
    """The batch size; 0 where it does not vary."""
    return row["batch_size"] or 0


def _by(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by what they have in common, in the order of their first rows."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _median(rows: Sequence[Row]) -> float:
    return float(median(row["seconds_per_epoch"] for row in rows))
