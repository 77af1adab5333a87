"""What the runs of a sweep show: a row per run, and a row per cell."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.errors import EmptyRecordingError, GpuprofError
from gpuprof.manifest import PROGRAM_LOG, UNRECORDED, read_manifest
from gpuprof.metrics import VARIANTS, metrics
from gpuprof.readers import read_profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Kind, Schema
from gpuprof.sweep_cells import RUNS as SWEPT
from gpuprof.sweeps.folder import failure, has_ended
from gpuprof.sweeps.grid import Cell, Run, cells, runs_of
from gpuprof.sweeps.plan import Plan, as_number

OK: Final = "ok"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
UNREADABLE: Final = "unreadable"

_ratio = partial(Column, FLOAT, "1", kind=Kind.RATIO)
RUNS: Final[Mapping[str, Column]] = {
    "run": Column(INT, "1", "Number of the run of its cell, from 1.", required=True),
    "status": Column(TEXT, "", "ok, failed, unreadable or not run.", required=True),
    "reason": Column(TEXT, "", "Why it is not ok."),
    "folder": Column(TEXT, "", "The recording, in the sweep's folder.", required=True),
    "exit_status": Column(INT, "1", "Of the program."),
    "wall_seconds": Column(FLOAT, "s", "From the start of the process to its end."),
    "seconds_per_epoch": Column(FLOAT, "s", "Median of the epochs marked, without those to skip."),
}
CELLS: Final[Mapping[str, Column]] = {
    "cell": Column(TEXT, "", "Name of the cell, and of its folder under runs.", required=True),
    "status": Column(TEXT, "", "ok where one run is, else why not.", required=True),
    "reason": Column(TEXT, "", "Why it is not ok, or why some of its runs are not."),
    "runs": Column(INT, "1", "Runs that are ok.", required=True),
    "seconds": Column(FLOAT, "s", "Median over these runs of seconds per epoch, or of the whole."),
    "seconds_min": Column(FLOAT, "s", "Least of them."),
    "seconds_max": Column(FLOAT, "s", "Greatest of them."),
    "spread": Column(FLOAT, "1", "(seconds_max - seconds_min) / seconds; null for one run."),
    "speed_up": _ratio("Seconds of the baseline with the same other values / seconds."),
    "speed_up_min": _ratio("seconds_min of the baseline / seconds_max."),
    "speed_up_max": _ratio("seconds_max of the baseline / seconds_min."),
}
# Of a recording's figures, those that a row has room for.
RECORDED: Final[Mapping[str, Column]] = {
    name: VARIANTS.columns[name]
    for name in (
        "gpu_activity_ns",
        "kernel_ns",
        "transfer_ns",
        "peer_transfer_ns",
        "exposed_transfer_ns",
        "peer_transfer_calls_per_step",
        "peer_transfer_bytes_per_step",
        "gradient_bytes_per_step",
    )
}

# A figure of the program, whose unit is the program's matter.
FIGURE: Final = Column(FLOAT, "", "Figure of the program.")

Row = dict[str, Any]


class Results(NamedTuple):
    """A sweep's tables.

    Args:
        plan: The sweep.
        runs: A row per run that counts: axes, then `RUNS`, the program's figures, `RECORDED`.
        cells: A row per cell: axes, then `CELLS`, and the medians of the same figures.
        per_epoch: Whether ``seconds`` are per epoch; else of the whole program.
    """

    plan: Plan
    runs: pa.Table
    cells: pa.Table
    per_epoch: bool


def results(plan: Plan, folder: Path) -> Results:
    """The tables of a sweep as far as it has run.

    Args:
        plan: The sweep.
        folder: Its own.

    Returns:
        Rows in the order of the grid. A figure that a run lacks is null there; a figure of a
        cell is the median of the runs that have it. Runs that were recorded and cannot be
        read have the status ``unreadable`` with the reason; their times count.
    """
    runs = [
        _run_row(plan, folder, run)
        for cell in cells(plan)
        for run in runs_of(plan, cell)
        if not run.is_warm_up
    ]
    timed = [row for row in runs if row["wall_seconds"] is not None]
    per_epoch = bool(timed) and all(row["seconds_per_epoch"] is not None for row in timed)
    time = "seconds_per_epoch" if per_epoch else "wall_seconds"
    rows = [
        _cell_row(plan, cell, [row for row in runs if row["folder"].startswith(prefix)], time)
        for cell in cells(plan)
        for prefix in [f"{SWEPT}/{cell.folder_name}/"]
    ]
    rows = [row | _speed_up(row, _baseline_of(plan, row, rows)) for row in rows]
    return Results(
        plan,
        _schema(plan, "runs", RUNS).table(runs),
        _schema(plan, "cells", CELLS).table(rows),
        per_epoch,
    )


def _schema(plan: Plan, name: str, columns: Mapping[str, Column]) -> Schema:
    axes = {axis: axis_column(values) for axis, values in plan.axes.items()}
    figures = dict.fromkeys(plan.figures, FIGURE)
    recorded = {} if plan.recorder == UNRECORDED else RECORDED
    return Schema(name, f"one of the {name} of a sweep", {**axes, **columns, **figures, **recorded})


def axis_column(values: Iterable[str]) -> Column:
    """The column of an axis: whole or decimal numbers where all its values are, else text."""
    kinds = {type(as_number(value)) for value in values}
    dtype = INT if kinds == {int} else FLOAT if kinds <= {int, float} else TEXT
    return Column(dtype, "", "Axis of the grid.", required=True)


def axis_values(plan: Plan, values: Mapping[str, str]) -> Row:
    """A cell's values as they stand in the tables: numbers where their axes hold numbers."""
    return {
        axis: value if axis_column(plan.axes[axis]).dtype == TEXT else as_number(value)
        for axis, value in values.items()
    }


def _run_row(plan: Plan, folder: Path, run: Run) -> Row:
    row = dict.fromkeys((*RUNS, *plan.figures)) | axis_values(plan, run.cell.values)
    row |= {"run": run.number, "folder": run.folder.as_posix(), "status": NOT_RUN}
    if not has_ended(folder, run):
        return row
    why = failure(folder, run)
    if why:
        return row | {"status": FAILED, "reason": why.reason, "exit_status": why.exit_status}
    where = folder / run.folder
    manifest = read_manifest(where)
    epochs = [epoch["seconds"] for epoch in manifest.epochs[plan.skipped_epochs :]]
    log = (where / PROGRAM_LOG).read_text(encoding="utf-8", errors="replace")
    return row | {
        "status": OK,
        "exit_status": 0,
        "wall_seconds": manifest.wall_seconds,
        "seconds_per_epoch": float(median(epochs)) if epochs and None not in epochs else None,
        **{name: _figure(pattern, log) for name, pattern in plan.figures.items()},
        **_recorded(where, plan),
    }


def _figure(pattern: str, log: str) -> float | None:
    matches = re.findall(pattern, log, re.MULTILINE)
    number = as_number(matches[-1]) if matches else None
    return None if number is None else float(number)


def _recorded(where: Path, plan: Plan) -> Row:
    if plan.recorder == UNRECORDED:
        return {}
    try:
        figures = metrics(read_profile(where))
    except EmptyRecordingError as error:
        return {"reason": error.message}
    except GpuprofError as error:
        return {"status": UNREADABLE, "reason": error.message}
    return {name: figures.get(name) for name in RECORDED}


def _cell_row(plan: Plan, cell: Cell, runs: list[Row], time: str) -> Row:
    good = [row for row in runs if row["status"] in {OK, UNREADABLE}]
    seconds = [row[time] for row in good if row[time] is not None]
    statuses = {row["status"] for row in runs}
    reasons = dict.fromkeys(row["reason"] for row in runs if row["reason"])
    figures = (*plan.figures, *RECORDED)
    return {
        **axis_values(plan, cell.values),
        "cell": cell.name,
        "status": OK if good else FAILED if FAILED in statuses else NOT_RUN,
        "reason": "; ".join(reasons) or None,
        "runs": len(good),
        "seconds": median(seconds) if seconds else None,
        "seconds_min": min(seconds, default=None),
        "seconds_max": max(seconds, default=None),
        "spread": ((max(seconds) - min(seconds)) / median(seconds) if len(seconds) > 1 else None),
        **{name: _median(row.get(name) for row in good) for name in figures},
    }


def _median(values: Iterable[float | None]) -> float | None:
    """The median of what is known, as what it is: times in ns stay whole numbers."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    middle = median(known)
    return round(middle) if all(isinstance(value, int) for value in known) else middle


def _baseline_of(plan: Plan, row: Row, rows: Sequence[Row]) -> Row | None:
    """The cell with the baseline's values, and this cell's for all other axes."""
    if not plan.baseline:
        return None
    wanted = {axis: row[axis] for axis in plan.axes if axis not in plan.baseline}
    wanted |= axis_values(plan, plan.baseline)
    return next(other for other in rows if all(other[a] == v for a, v in wanted.items()))


def _speed_up(row: Row, baseline: Row | None) -> Row:
    if baseline is None or not row["seconds"] or not baseline["seconds"]:
        return {}
    is_itself = row is baseline
    return {
        "speed_up": baseline["seconds"] / row["seconds"],
        "speed_up_min": 1.0 if is_itself else baseline["seconds_min"] / row["seconds_max"],
        "speed_up_max": 1.0 if is_itself else baseline["seconds_max"] / row["seconds_min"],
    }
