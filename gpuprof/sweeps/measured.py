"""Measured times of one program on several numbers of devices, or with several batch sizes.

The table is CSV or Parquet, one row per measurement, with columns as in `TIMES`; others are
ignored, so that the ``results`` that ``gpuprof sweep`` writes of axes called ``devices`` or
``batch_size`` will do.
"""

from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa

from gpuprof.errors import CorruptFileError, InputError
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.sweeps.break_even import crossing

TIMES: Final = Schema(
    "times",
    "one measurement",
    {
        "label": Column(TEXT, "", "Variant, such as a placement; null for the only one."),
        "devices": Column(INT, "1", "Devices that it used; null for one."),
        "batch_size": Column(INT, "1", "Examples in a step; null where it does not vary."),
        "seconds_per_epoch": Column(
            FLOAT, "s", "Time of the same work in each row; or a column seconds.", required=True
        ),
    },
)
SCALING: Final = Schema(
    "scaling",
    "one label on one number of devices",
    {
        "label": TIMES.columns["label"],
        "devices": Column(INT, "1", "Devices.", required=True),
        "runs": Column(INT, "1", "Measurements.", required=True),
        "seconds_per_epoch": Column(FLOAT, "s", "Median of them.", required=True),
        "speed_up": Column(
            FLOAT,
            "1",
            "Seconds of the label's fewest devices / seconds, times these.",
            required=True,
        ),
        "efficiency": Column(FLOAT, "1", "speed_up / devices.", required=True),
    },
)
BATCH_SPEED_UPS: Final = Schema(
    "batch_speed_ups",
    "one label with one batch size",
    {
        "label": TIMES.columns["label"],
        "baseline": Column(TEXT, "", "The first label, which it is compared with."),
        "batch_size": Column(INT, "1", "Examples in a step.", required=True),
        "seconds_per_epoch": Column(FLOAT, "s", "Median of the measurements.", required=True),
        "speed_up": Column(
            FLOAT, "1", "Seconds of the first label with this batch size / seconds.", required=True
        ),
        "break_even_batch_size": Column(
            FLOAT, "1", "From where on the label is faster than the first; null for nowhere."
        ),
    },
)

Row = dict[str, Any]


def read_times(path: Path) -> pa.Table:
    """A table of measured times.

    Raises:
        InputError: It cannot be read.
        CorruptFileError: A column is missing, or holds something else than it should.
    """
    from pyarrow import csv, parquet  # noqa: PLC0415 - what else is drawn needs neither

    try:
        is_parquet = path.suffix == ".parquet"
        found = parquet.read_table(path) if is_parquet else csv.read_csv(path)
        return _times(path, found)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise InputError(msg) from error
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        msg = f"{path} is no table: {str(error).splitlines()[0]}"
        raise CorruptFileError(msg, "Give CSV with a header, or Parquet.") from error


def _times(path: Path, found: pa.Table) -> pa.Table:
    if "seconds_per_epoch" not in found.column_names and "seconds" in found.column_names:
        names = ["seconds_per_epoch" if n == "seconds" else n for n in found.column_names]
        found = found.rename_columns(names)
    hint = f"Columns: {', '.join(TIMES.columns)}."
    if "seconds_per_epoch" not in found.column_names:
        msg = f"{path} has no column seconds_per_epoch"
        raise CorruptFileError(msg, hint)
    try:
        times = TIMES.conform(found.filter(found.column("seconds_per_epoch").is_valid()))
    except (pa.ArrowInvalid, ValueError) as error:
        msg = f"{path}: {error}"
        raise CorruptFileError(msg, hint) from error
    if not all(0 < row["seconds_per_epoch"] < float("inf") for row in times.to_pylist()):
        msg = f"{path}: seconds_per_epoch holds what is no time above 0"
        raise CorruptFileError(msg)
    return times


def scaling(times: pa.Table) -> pa.Table:
    """How much faster each label gets with more devices.

    The fewest devices of a label are taken to scale ideally: with one among them, the speed-up
    is that over one device.

    Args:
        times: As in `TIMES`.

    Returns:
        Columns as in `SCALING`, by label in the order given, then devices; where a label was
        measured with several batch sizes, the one of most rows counts. No rows where no label
        has two numbers of devices.
    """
    rows: list[Row] = []
    for label, mine in _by(times.to_pylist(), "label").items():
        batches = _by(mine, "batch_size")
        same_work = max(batches.values(), key=len)
        seconds = {n or 1: _median(found) for n, found in _by(same_work, "devices").items()}
        least = min(seconds)
        if len(seconds) > 1:
            rows += [
                {
                    "label": label,
                    "devices": devices,
                    "runs": sum((row["devices"] or 1) == devices for row in same_work),
                    "seconds_per_epoch": seconds[devices],
                    "speed_up": least * seconds[least] / seconds[devices],
                    "efficiency": least * seconds[least] / seconds[devices] / devices,
                }
                for devices in sorted(seconds)
            ]
    return SCALING.table(rows)


def batch_speed_ups(times: pa.Table) -> pa.Table:
    """How much faster than the first label each other is, batch size by batch size.

    Args:
        times: As in `TIMES`.

    Returns:
        Columns as in `BATCH_SPEED_UPS`, by label in the order given, then batch size. No rows
        where no batch size was measured with the first label and another.
    """
    labels = _by([row for row in times.to_pylist() if row["batch_size"]], "label")
    seconds = {
        label: {batch: _median(found) for batch, found in sorted(_by(mine, "batch_size").items())}
        for label, mine in labels.items()
    }
    baseline, first = next(iter(seconds.items()), (None, {}))
    rows: list[Row] = []
    for label, mine in list(seconds.items())[1:]:
        points = [(batch, first[batch] / s) for batch, s in mine.items() if batch in first]
        place = crossing(points)
        rows += [
            {
                "label": label,
                "baseline": baseline,
                "batch_size": batch,
                "seconds_per_epoch": mine[batch],
                "speed_up": speed_up,
                "break_even_batch_size": place,
            }
            for batch, speed_up in points
        ]
    return BATCH_SPEED_UPS.table(rows)


def _by(rows: list[Row], column: str) -> dict[Any, list[Row]]:
    """Rows by a column's values, in the order of their first rows."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


def _median(rows: list[Row]) -> float:
    return float(median(row["seconds_per_epoch"] for row in rows))
