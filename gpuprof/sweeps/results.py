"""The results of a sweep: a row per run, and a row per cell."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.base.errors import EmptyRecordingError, GpuprofError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import PROGRAM_LOG, read_manifest
from gpuprof.base.sweep_cells import RUNS as SWEPT
from gpuprof.comparisons.variant_figures import VARIANTS, metrics, time_of_epochs
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Kind, Schema
from gpuprof.readers import read_profile
from gpuprof.sweeps.folder import failure, has_ended
from gpuprof.sweeps.grid import Cell, SweepRun, cells, runs_of
from gpuprof.sweeps.plan import Number, Plan, as_number

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
    "seconds_per_epoch": Column(
        FLOAT, "s", "Median of the epochs marked, past the warm-up or without those to skip."
    ),
}
CELLS: Final[Mapping[str, Column]] = {
    "cell": Column(TEXT, "", "Name of the cell, and of its folder under runs.", required=True),
    "status": Column(
        TEXT, "", "ok where at least one run is, else that of the runs.", required=True
    ),
    "reason": Column(TEXT, "", "Why it, or some of its runs, are not ok."),
    "runs": Column(INT, "1", "Runs that are ok.", required=True),
    "seconds": Column(FLOAT, "s", "Median over these runs of seconds per epoch, or of the whole."),
    "seconds_min": Column(FLOAT, "s", "Least of them."),
    "seconds_max": Column(FLOAT, "s", "Greatest of them."),
    "spread": Column(FLOAT, "1", "(seconds_max - seconds_min) / seconds; null for one run."),
    "speed_up": _ratio("Seconds of the baseline with the same other values / seconds."),
    "speed_up_min": _ratio("seconds_min of the baseline / seconds_max."),
    "speed_up_max": _ratio("seconds_max of the baseline / seconds_min."),
}
# The metrics of a recording that a row shows.
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

# The program defines the unit of its figures.
FIGURE: Final = Column(FLOAT, "", "Figure of the program.")

Axes = Mapping[str, str | Number | None]
Figures = Mapping[str, float | None]


class _RunRow(NamedTuple):
    """A run: the values of the axes, `RUNS`, then the program's figures and `RECORDED`."""

    axes: Axes
    run: int
    folder: str
    status: str = NOT_RUN
    reason: str | None = None
    exit_status: int | None = None
    wall_seconds: float | None = None
    seconds_per_epoch: float | None = None
    figures: Figures = MappingProxyType({})


class _CellRow(NamedTuple):
    """A cell: the values of the axes, `CELLS`, then the medians of its runs' figures."""

    axes: Axes
    cell: str
    status: str
    reason: str | None
    runs: int
    seconds: float | None
    seconds_min: float | None
    seconds_max: float | None
    spread: float | None
    figures: Figures
    speed_up: float | None = None
    speed_up_min: float | None = None
    speed_up_max: float | None = None


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
        folder: Its folder.

    Returns:
        Rows in the order of the grid. A figure that a run lacks is null; a figure of a cell is
        the median of the runs that have it. Recordings that cannot be read have the status
        ``unreadable`` with the reason; their times count.
    """
    runs = [
        _run_row(plan, folder, run)
        for cell in cells(plan)
        for run in runs_of(plan, cell)
        if not run.is_warm_up
    ]
    timed = [row for row in runs if row.wall_seconds is not None]
    per_epoch = bool(timed) and all(row.seconds_per_epoch is not None for row in timed)
    rows = [
        _cell_row(plan, cell, [row for row in runs if row.folder.startswith(prefix)], per_epoch)
        for cell in cells(plan)
        for prefix in [f"{SWEPT}/{cell.folder_name}/"]
    ]
    rows = [_with_speed_up(row, _baseline_of(plan, row, rows)) for row in rows]
    return Results(
        plan,
        _schema(plan, "runs", RUNS).table([*map(_flat, runs)]),
        _schema(plan, "cells", CELLS).table([*map(_flat, rows)]),
        per_epoch,
    )


def _flat(row: _RunRow | _CellRow) -> dict[str, Any]:
    fields = row._asdict()
    axes, figures = fields.pop("axes"), fields.pop("figures")
    return {**axes, **fields, **figures}


def _schema(plan: Plan, name: str, columns: Mapping[str, Column]) -> Schema:
    axes = {axis: axis_column(values) for axis, values in plan.axes.items()}
    figures = dict.fromkeys(plan.figures, FIGURE)
    recorded = {} if plan.recorder == TIMING_ONLY else RECORDED
    return Schema(name, f"one of the {name} of a sweep", {**axes, **columns, **figures, **recorded})


def axis_column(values: Iterable[str]) -> Column:
    """The column of an axis: whole or decimal numbers where all its values are, else text."""
    kinds = {type(as_number(value)) for value in values}
    dtype = INT if kinds == {int} else FLOAT if kinds <= {int, float} else TEXT
    return Column(dtype, "", "Axis of the grid.", required=True)


def axis_values(plan: Plan, values: Mapping[str, str]) -> Axes:
    """A cell's values as in the tables: numbers where the axis has numbers only."""
    return {
        axis: value if axis_column(plan.axes[axis]).dtype == TEXT else as_number(value)
        for axis, value in values.items()
    }


def _run_row(plan: Plan, folder: Path, run: SweepRun) -> _RunRow:
    row = _RunRow(axis_values(plan, run.cell.values), run.number, run.folder.as_posix())
    if not has_ended(folder, run):
        return row
    failed = failure(folder, run)
    if failed:
        return row._replace(status=FAILED, reason=failed.reason, exit_status=failed.exit_status)
    run_folder = folder / run.folder
    manifest = read_manifest(run_folder)
    epochs = [epoch["seconds"] for epoch in manifest.epochs]
    log = (run_folder / PROGRAM_LOG).read_text(encoding="utf-8", errors="replace")
    printed = {name: _figure(pattern, log) for name, pattern in plan.figures.items()}
    row = row._replace(
        status=OK,
        exit_status=0,
        wall_seconds=manifest.wall_seconds,
        seconds_per_epoch=time_of_epochs(epochs, plan.skipped_epochs)[0],
        figures=printed,
    )
    if plan.recorder == TIMING_ONLY:
        return row
    try:
        figures = metrics(read_profile(run_folder))
    except EmptyRecordingError as error:
        return row._replace(reason=error.message)
    except GpuprofError as error:
        return row._replace(status=UNREADABLE, reason=error.message)
    return row._replace(figures=printed | {name: figures.get(name) for name in RECORDED})


def _figure(pattern: str, log: str) -> float | None:
    matches = re.findall(pattern, log, re.MULTILINE)
    number = as_number(matches[-1]) if matches else None
    return None if number is None else float(number)


def _cell_row(plan: Plan, cell: Cell, runs: Sequence[_RunRow], per_epoch: bool) -> _CellRow:  # noqa: FBT001 - a fact, not a switch
    good = [row for row in runs if row.status in {OK, UNREADABLE}]
    times = [row.seconds_per_epoch if per_epoch else row.wall_seconds for row in good]
    seconds = [time for time in times if time is not None]
    statuses = {row.status for row in runs}
    reasons = dict.fromkeys(row.reason for row in runs if row.reason)
    return _CellRow(
        axis_values(plan, cell.values),
        cell=cell.name,
        status=OK if good else FAILED if FAILED in statuses else NOT_RUN,
        reason="; ".join(reasons) or None,
        runs=len(good),
        seconds=median(seconds) if seconds else None,
        seconds_min=min(seconds, default=None),
        seconds_max=max(seconds, default=None),
        spread=(max(seconds) - min(seconds)) / median(seconds) if len(seconds) > 1 else None,
        figures={
            name: _median(row.figures.get(name) for row in good)
            for name in (*plan.figures, *RECORDED)
        },
    )


def _median(values: Iterable[float | None]) -> float | None:
    """The median of the known values, None where none is known; times in ns stay integers."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None
    middle = median(numbers)
    return round(middle) if all(isinstance(value, int) for value in numbers) else middle


def _baseline_of(plan: Plan, row: _CellRow, rows: Sequence[_CellRow]) -> _CellRow | None:
    """The cell with the baseline's values, and this cell's for all other axes."""
    if not plan.baseline:
        return None
    baseline_axes = {**row.axes, **axis_values(plan, plan.baseline)}
    return next(candidate for candidate in rows if candidate.axes == baseline_axes)


def _with_speed_up(row: _CellRow, baseline: _CellRow | None) -> _CellRow:
    if baseline is None or not row.seconds or not baseline.seconds:
        return row
    (least, most), (own_least, own_most) = (
        (cell.seconds_min or 0.0, cell.seconds_max or 0.0) for cell in (baseline, row)
    )
    is_itself = row is baseline
    return row._replace(
        speed_up=baseline.seconds / row.seconds,
        speed_up_min=1.0 if is_itself else least / own_most,
        speed_up_max=1.0 if is_itself else most / own_least,
    )


def failed_cells(results: Results) -> int:
    """How many cells have a run that failed, or whose recording cannot be read."""
    axes = [*results.plan.axes]
    rows = results.runs.to_pylist()
    return len({tuple(r[a] for a in axes) for r in rows if r["status"] in {FAILED, UNREADABLE}})


def cells_to_compare(results: Results) -> tuple[str, str] | None:
    """Two cells whose comparison says most, as folders in the sweep's own.

    Returns:
        The baseline's cell and the one with the highest speed-up over it; without a baseline the
        slowest and the fastest. None where fewer than two cells ran.
    """
    baseline = results.plan.baseline
    rows = zip(cells(results.plan), results.cells.to_pylist(), strict=True)
    measured = [(cell, row) for cell, row in rows if row["seconds"]]
    if baseline:
        speed_ups = [
            (row["speed_up"], cell)
            for cell, row in measured
            if row["speed_up"] is not None and not baseline.items() <= cell.values.items()
        ]
        best = max(speed_ups, key=itemgetter(0), default=None)
        return best and _folders(best[1]._replace(values={**best[1].values, **baseline}), best[1])
    by_seconds = sorted(measured, key=lambda pair: float(pair[1]["seconds"]))
    return _folders(by_seconds[-1][0], by_seconds[0][0]) if len(by_seconds) > 1 else None


def _folders(first: Cell, second: Cell) -> tuple[str, str]:
    return f"{SWEPT}/{first.folder_name}", f"{SWEPT}/{second.folder_name}"
