"""Tables of measured times, a sweep's own results as one of them, and the speed-ups in them.

A table is CSV or Parquet, one row per measurement, with columns as in `TIMES`; other columns are
ignored. In the results of ``gpuprof sweep`` (its folder, ``results.csv``, ``results.parquet`` or
the output of ``--format json``), the names of axes (`_DEVICES`, `_BATCH`) show which holds devices
and which batch sizes; all other axes that vary make the label.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.base.short_texts import cut
from gpuprof.base.units import counted
from gpuprof.model.schema import FLOAT, Column, Count, Kind, Schema, Share, Text
from gpuprof.readers import find_reader
from gpuprof.sweeps.break_even import crossing

TIMES: Final = Schema(
    "times",
    "one measurement",
    {
        "label": Text("Variant, such as a placement; null for the only one."),
        "devices": Count("Devices that it used; null for one."),
        "batch_size": Count("Examples in a step; null where it does not vary."),
        "seconds_per_epoch": Column(
            FLOAT, "s", "Time of the same work in each row; or a column seconds.", required=True
        ),
        "runs": Count("Runs that this is the median over; null for one."),
    },
)
_SERIES: Final = Text("Name of its line: the label, with devices or batch size where these vary.")
_speed_up = partial(Column, FLOAT, "1", required=True, kind=Kind.RATIO)
SCALING: Final = Schema(
    "scaling",
    "one label with one batch size on one number of devices",
    {
        "series": _SERIES,
        "label": TIMES.columns["label"],
        "batch_size": TIMES.columns["batch_size"],
        "devices": Count("Devices.", required=True),
        "runs": Count("Measurements.", required=True),
        "seconds_per_epoch": Column(FLOAT, "s", "Median of them.", required=True),
        "speed_up": _speed_up("Seconds of the series' fewest devices / seconds, times these."),
        "efficiency": Share("speed_up / devices.", required=True),
    },
)
BATCH_SPEED_UPS: Final = Schema(
    "batch_speed_ups",
    "one label on one number of devices with one batch size",
    {
        "series": _SERIES,
        "label": TIMES.columns["label"],
        "devices": Count("Devices.", required=True),
        "baseline": Text("The first series, which it is compared with."),
        "batch_size": Count("Examples in a step.", required=True),
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
# Of what a library says of a file.
_LONGEST: Final = 100
_HINT: Final = f"Columns: {', '.join(TIMES.columns)}."
# Columns of a sweep's results; the axes stand before the first.
_CELL: Final = "cell"
_OF_SWEEP: Final = {_CELL, "status", "runs", "seconds"}
_RESULTS: Final = ("results.parquet", "results.csv")
_DEVICES: Final = re.compile(r"(?:n|num|number_of)?_?(?:devices|gpus|workers|ranks)|world_size")
_BATCH: Final = re.compile(r"(?:\w+_)?(?:batch(?:_?size)?|bs)")
Row = dict[str, Any]


def read_times(path: Path) -> pa.Table:
    """A table of measured times.

    Args:
        path: CSV or Parquet, or a sweep's folder, results or JSON.

    Returns:
        Columns as in `TIMES`; of a sweep the cells that ran, the baseline's first.

    Raises:
        InputError: It cannot be read.
        UnknownFormatError: It is a recording.
        CorruptFileError: A column is missing, or has values of another kind.
    """
    file = path
    if path.is_dir():
        results = [path / name for name in _RESULTS if (path / name).is_file()]
        if not results:
            _refuse_recording(path)
            msg = f"{path} has no results of a sweep"
            raise InputError(msg, "Give a table of times, or the folder of `gpuprof sweep`.")
        file = results[0]
    try:
        table = _table(file)
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror or error}"
        raise InputError(msg) from error
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        _refuse_recording(file)
        # Arrow quotes the row, whatever is in it.
        reason = (str(error).splitlines() or [""])[0]
        words = f": {cut(reason, _LONGEST)}" if reason and reason.isprintable() else ""
        msg = f"{file} is not a table{words}"
        raise CorruptFileError(msg, "Give CSV with a header, or Parquet.") from error
    return _times(file, table)


def _refuse_recording(path: Path) -> None:
    """Say of a recording what it is, where a table of times is expected.

    Raises:
        UnknownFormatError: It is one.
    """
    try:
        reader = find_reader(path)
    except GpuprofError:
        return
    msg = f"{path} is a recording (read as {reader.name}), not a table of measured times"
    raise UnknownFormatError(msg, "`gpuprof plot --list` lists the charts of a recording.")


def _times(path: Path, table: pa.Table) -> pa.Table:
    if "seconds_per_epoch" not in table.column_names and "seconds" in table.column_names:
        names = ["seconds_per_epoch" if n == "seconds" else n for n in table.column_names]
        table = table.rename_columns(names)
    if "seconds_per_epoch" not in table.column_names:
        _refuse_recording(path)
        msg = f"{path} has no column seconds_per_epoch"
        raise CorruptFileError(msg, _HINT)
    try:
        times = TIMES.conform(table.filter(table.column("seconds_per_epoch").is_valid()))
    except (pa.ArrowInvalid, ValueError) as error:
        msg = f"{path}: {error}"
        raise CorruptFileError(msg, _HINT) from error
    if not all(0 < row["seconds_per_epoch"] < float("inf") for row in times.to_pylist()):
        msg = f"{path}: seconds_per_epoch must be above 0 in every row"
        raise CorruptFileError(msg)
    return times


def _table(file: Path) -> pa.Table:
    """The table of a file; a sweep's cells as measurements, those of its baseline first."""
    if file.suffix == ".parquet":
        # Without threads that could outlive the command: see parquet_columns.opened.
        table = parquet.ParquetFile(file, pre_buffer=False).read(use_threads=False)
    elif file.suffix == ".json":
        table = pa.Table.from_pylist([dict(cell) for cell in json_input.load(file)["cells"]])
    else:
        table = csv.read_csv(file, csv.ReadOptions(use_threads=False))
    if not {*table.column_names} >= _OF_SWEEP:
        return table
    axes = table.column_names[: table.column_names.index(_CELL)]
    counts = [axis for axis in axes if pa.types.is_integer(table.schema.field(axis).type)]
    devices = next((axis for axis in counts if _DEVICES.fullmatch(axis.lower())), None)
    batch = next((axis for axis in counts if _BATCH.fullmatch(axis.lower())), None)
    # Of the baseline alone the range of speed-ups is a point at 1.
    names = [f"speed_up{end}" for end in ("", "_min", "_max")]
    rows = sorted(table.to_pylist(), key=lambda row: {row.get(name) for name in names} != {1})
    other_axes = [axis for axis in axes if axis not in {devices, batch}]
    named = [axis for axis in other_axes if len({row[axis] for row in rows}) > 1]
    columns = {
        "label": pa.array(
            [", ".join(f"{axis}={row[axis]}" for axis in named) or None for row in rows],
            pa.string(),
        ),
        "devices": pa.array([devices and row[devices] for row in rows], pa.int64()),
        "batch_size": pa.array([batch and row[batch] for row in rows], pa.int64()),
        "seconds_per_epoch": pa.array([row["seconds"] for row in rows]),
        "runs": pa.array([row["runs"] for row in rows]),
    }
    return pa.table(columns)


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
