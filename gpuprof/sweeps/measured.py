"""Speed-ups: over the number of devices, and over another variant by batch size."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Final, NamedTuple, TypeVar

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

_Key = TypeVar("_Key")


class _Time(NamedTuple):
    """A row of `TIMES`."""

    label: str | None
    devices: int | None
    batch_size: int | None
    seconds_per_epoch: float
    runs: int | None


class _Scaled(NamedTuple):
    """A row of `SCALING` but for its series."""

    label: str | None
    batch_size: int | None
    devices: int
    runs: int
    seconds_per_epoch: float
    speed_up: float
    efficiency: float


class _BatchSpeedUp(NamedTuple):
    """A row of `BATCH_SPEED_UPS` but for its series."""

    batch_size: int
    seconds_per_epoch: float
    speed_up: float
    break_even_batch_size: float | None


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
    of_label = _by(_rows(times), lambda row: row.label)
    series = [
        (label, batch, by_devices)
        for label, rows in of_label.items()
        for batch, same_work in sorted(_by(rows, _batch).items())
        if len(by_devices := _by(same_work, _devices)) > 1
    ]
    has_batches = len({batch for _, batch, _ in series}) > 1
    return SCALING.table(
        [
            row._asdict()
            | {"series": _name(label, f"batch size {batch}" if has_batches and batch else "")}
            for label, batch, by_devices in series
            for row in _scaled(label, batch or None, by_devices)
        ]
    )


def _scaled(
    label: str | None, batch: int | None, by_devices: dict[int, list[_Time]]
) -> list[_Scaled]:
    seconds = {devices: _median(rows) for devices, rows in sorted(by_devices.items())}
    least = min(seconds)
    ideal = least * seconds[least]
    return [
        _Scaled(
            *(label, batch, devices, sum(row.runs or 1 for row in by_devices[devices]), taken),
            speed_up=ideal / taken,
            efficiency=ideal / taken / devices,
        )
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
    rows = [row for row in _rows(times) if row.batch_size]
    series = _by(rows, lambda row: (row.label, _devices(row)))
    if not series:
        return BATCH_SPEED_UPS.empty()
    has_numbers = len({devices for _, devices in series}) > 1
    seconds = {
        key: {batch: _median(same_work) for batch, same_work in sorted(_by(rows, _batch).items())}
        for key, rows in series.items()
    }
    (base, first), *other_series = [
        (_name(label, counted(devices, "device", "devices") if has_numbers else ""), key)
        for key in seconds
        for label, devices in [key]
    ]
    return BATCH_SPEED_UPS.table(
        [
            row._asdict() | {"series": name, "label": key[0], "devices": key[1], "baseline": base}
            for name, key in other_series
            for row in _against(seconds[first], seconds[key])
        ]
    )


def _against(baseline: dict[int, float], seconds: dict[int, float]) -> list[_BatchSpeedUp]:
    points = [(b, baseline[b] / taken) for b, taken in seconds.items() if b in baseline]
    place = crossing(points)
    return [_BatchSpeedUp(b, seconds[b], speed_up, place) for b, speed_up in points]


def _rows(times: pa.Table) -> list[_Time]:
    return [_Time(**row) for row in times.to_pylist()]


def _name(label: str | None, detail: str) -> str | None:
    return ", ".join(part for part in (label, detail) if part) or None


def _devices(row: _Time) -> int:
    return row.devices or 1


def _batch(row: _Time) -> int:
    """The batch size; 0 where it does not vary."""
    return row.batch_size or 0


def _by(rows: Sequence[_Time], key: Callable[[_Time], _Key]) -> dict[_Key, list[_Time]]:
    """Rows by what they have in common, in the order of their first rows."""
    groups: dict[_Key, list[_Time]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _median(rows: Sequence[_Time]) -> float:
    return float(median(row.seconds_per_epoch for row in rows))
