"""How much faster a program is on more devices, and with larger batches than another variant."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, Final, TypeVar

import pyarrow as pa

from gpuprof.schema import FLOAT, INT, TEXT, Column, Kind, Schema
from gpuprof.sweeps.break_even import crossing
from gpuprof.sweeps.times import TIMES
from gpuprof.units import counted

_SERIES: Final = Column(TEXT, "", "Name of its line: the label, and what else tells it apart.")
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
            "From where on the series is faster than the first; null for nowhere.",
            kind=Kind.COUNT,
        ),
    },
)

Row = dict[str, Any]
_Key = TypeVar("_Key")


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
    of_label = _by(times.to_pylist(), lambda row: row["label"])
    series = [
        (label, batch, by_devices)
        for label, rows in of_label.items()
        for batch, same_work in sorted(_by(rows, _batch).items())
        if len(by_devices := _by(same_work, _devices)) > 1
    ]
    has_batches = len({batch for _, batch, _ in series}) > 1
    return SCALING.table(
        [
            row | {"series": _name(label, f"batch size {batch}" if has_batches and batch else "")}
            for label, batch, by_devices in series
            for row in _scaled(label, batch or None, by_devices)
        ]
    )


def _scaled(label: str | None, batch: int | None, by_devices: dict[int, list[Row]]) -> list[Row]:
    seconds = {devices: _median(rows) for devices, rows in sorted(by_devices.items())}
    least = min(seconds)
    ideal = least * seconds[least]
    return [
        {
            "label": label,
            "batch_size": batch,
            "devices": devices,
            "runs": sum(row["runs"] or 1 for row in by_devices[devices]),
            "seconds_per_epoch": taken,
            "speed_up": ideal / taken,
            "efficiency": ideal / taken / devices,
        }
        for devices, taken in seconds.items()
    ]


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
    seconds = {
        key: {batch: _median(same_work) for batch, same_work in sorted(_by(rows, _batch).items())}
        for key, rows in series.items()
    }
    (base, first), *others = [
        (_name(label, counted(devices, "device", "devices") if has_numbers else ""), key)
        for key in seconds
        for label, devices in [key]
    ]
    return BATCH_SPEED_UPS.table(
        [
            row | {"series": name, "label": key[0], "devices": key[1], "baseline": base}
            for name, key in others
            for row in _against(seconds[first], seconds[key])
        ]
    )


def _against(baseline: dict[int, float], seconds: dict[int, float]) -> list[Row]:
    points = [(b, baseline[b] / taken) for b, taken in seconds.items() if b in baseline]
    place = crossing(points)
    return [
        {
            "batch_size": batch,
            "seconds_per_epoch": seconds[batch],
            "speed_up": speed_up,
            "break_even_batch_size": place,
        }
        for batch, speed_up in points
    ]


def _name(label: str | None, detail: str) -> str | None:
    return ", ".join(part for part in (label, detail) if part) or None


def _devices(row: Row) -> int:
    return int(row["devices"] or 1)


def _batch(row: Row) -> int:
    """The batch size; 0 where it does not vary."""
    return int(row["batch_size"] or 0)


def _by(rows: Sequence[Row], key: Callable[[Row], _Key]) -> dict[_Key, list[Row]]:
    """Rows by what they have in common, in the order of their first rows."""
    groups: dict[_Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _median(rows: Sequence[Row]) -> float:
    return float(median(row["seconds_per_epoch"] for row in rows))
