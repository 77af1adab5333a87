"""The results of a sweep: a row per run, and a row per cell."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.base.errors import EmptyRecordingError, GpuprofError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import PROGRAM_LOG, read_manifest
from gpuprof.base.sweep_cells import RUNS as SWEPT
from gpuprof.comparisons.variant_figures import VARIANTS, metrics, time_of_epochs
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Count, Kind, Schema, Share, Text
from gpuprof.readers import read_profile
from gpuprof.sweeps.plan import Number, Plan, SweepCell, SweepRun, as_number, cells, runs_of
from gpuprof.sweeps.sweep_folder import failure, has_ended

OK: Final = "ok"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
UNREADABLE: Final = "unreadable"

_ratio = partial(Column, FLOAT, "1", kind=Kind.RATIO)
RUNS: Final[Mapping[str, Column]] = {
    "run": Count("Number of the run of its cell, from 1.", required=True),
    "status": Text("ok, failed, unreadable or not run.", required=True),
    "reason": Text("Why it is not ok."),
    "folder": Text("The recording, in the sweep's folder.", required=True),
    "exit_status": Count("Of the program."),
    "wall_seconds": Column(FLOAT, "s", "From the start of the process to its end."),
    "seconds_per_epoch": Column(
        FLOAT, "s", "Median of the epochs marked, past the warm-up or without those to skip."
    ),
}
CELLS: Final[Mapping[str, Column]] = {
    "cell": Text("Name of the cell, and of its folder under runs.", required=True),
    "status": Text("ok where at least one run is, else that of the runs.", required=True),
    "reason": Text("Why it, or some of its runs, are not ok."),
    "runs": Count("Runs that are ok.", required=True),
    "seconds": Column(FLOAT, "s", "Median over these runs of seconds per epoch, or of the whole."),
    "seconds_min": Column(FLOAT, "s", "Least of them."),
    "seconds_max": Column(FLOAT, "s", "Greatest of them."),
    "spread": Share("(seconds_max - seconds_min) / seconds; null for one run."),
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
        folder: Its folder.

    Returns:
        Rows in the order of the grid. A figure that a run lacks is null; a figure of a cell is
        the median of the runs that have it. Recordings that cannot be read have the status
        ``unreadable`` with the reason; their times count.
    """
    every_cell = cells(plan)
    runs = [
        [_run(plan, folder, run) for run in runs_of(plan, cell) if not run.is_warm_up]
        for cell in every_cell
    ]
    ended = [run for of_cell in runs for run, _ in of_cell if run.get("wall_seconds") is not None]
    per_epoch = bool(ended) and all(run["seconds_per_epoch"] is not None for run in ended)
    seconds = "seconds_per_epoch" if per_epoch else "wall_seconds"
    rows = [
        (axis_values(plan, cell.values), *_cell(plan, cell, of_cell, seconds))
        for cell, of_cell in zip(every_cell, runs, strict=True)
    ]
    if plan.baseline:
        baseline = axis_values(plan, plan.baseline)
        fields_of = {tuple(axes.items()): fields for axes, fields, _ in rows}
        for axes, fields, _ in rows:
            fields.update(_speed_ups(fields, fields_of[tuple({**axes, **baseline}.items())]))
    return Results(
        plan,
        _schema(plan, "runs", RUNS).table(
            [
                {**axes, **fields, **figures}
                for (axes, *_), of_cell in zip(rows, runs, strict=True)
                for fields, figures in of_cell
            ]
        ),
        _schema(plan, "cells", CELLS).table([{**a, **fields, **f} for a, fields, f in rows]),
        per_epoch,
    )


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


def axis_values(plan: Plan, values: Mapping[str, str]) -> dict[str, str | Number | None]:
    """A cell's values as in the tables: numbers where the axis has numbers only."""
    return {
        axis: value if axis_column(plan.axes[axis]).dtype == TEXT else as_number(value)
        for axis, value in values.items()
    }


def _run(plan: Plan, folder: Path, run: SweepRun) -> tuple[Row, Row]:
    """A run: `RUNS`, then the program's figures and `RECORDED`."""
    row: Row = {"run": run.number, "folder": run.folder.as_posix(), "status": NOT_RUN}
    if not has_ended(folder, run):
        return row, {}
    failed = failure(folder, run)
    if failed:
        reason, status = failed
        return row | {"status": FAILED, "reason": reason, "exit_status": status}, {}
    run_folder = folder / run.folder
    manifest = read_manifest(run_folder)
    epochs = [epoch["seconds"] for epoch in manifest.epochs]
    row |= {
        "status": OK,
        "exit_status": 0,
        "wall_seconds": manifest.wall_seconds,
        "seconds_per_epoch": time_of_epochs(epochs, plan.skipped_epochs)[0],
    }
    log = (run_folder / PROGRAM_LOG).read_text(encoding="utf-8", errors="replace")
    figures: Row = {}
    for name, pattern in plan.figures.items():
        printed = re.findall(pattern, log, re.MULTILINE)
        number = as_number(printed[-1]) if printed else None
        figures[name] = None if number is None else float(number)
    if plan.recorder == TIMING_ONLY:
        return row, figures
    try:
        recorded = metrics(read_profile(run_folder))
    except EmptyRecordingError as error:
        return row | {"reason": error.message}, figures
    except GpuprofError as error:
        return row | {"status": UNREADABLE, "reason": error.message}, figures
    return row, figures | {name: recorded.get(name) for name in RECORDED}


def _cell(
    plan: Plan, cell: SweepCell, runs: Sequence[tuple[Row, Row]], time: str
) -> tuple[Row, Row]:
    """A cell: `CELLS` but for the speed-ups, then the medians of its runs' figures.

    Args:
        plan: The sweep.
        cell: The cell.
        runs: As of `_run`.
        time: The time of runs that ``seconds`` are of.
    """
    good = [(run, figures) for run, figures in runs if run["status"] in {OK, UNREADABLE}]
    seconds = [run[time] for run, _ in good if run[time] is not None]
    statuses = {run["status"] for run, _ in runs}
    reasons = dict.fromkeys(run["reason"] for run, _ in runs if run.get("reason"))
    fields = {
        "cell": cell.name,
        "status": OK if good else FAILED if FAILED in statuses else NOT_RUN,
        "reason": "; ".join(reasons) or None,
        "runs": len(good),
        "seconds": median(seconds) if seconds else None,
        "seconds_min": min(seconds, default=None),
        "seconds_max": max(seconds, default=None),
        "spread": (max(seconds) - min(seconds)) / median(seconds) if len(seconds) > 1 else None,
    }
    names = (*plan.figures, *RECORDED)
    return fields, {name: _median(figures.get(name) for _, figures in good) for name in names}


def _median(values: Iterable[float | None]) -> float | None:
    """The median of the known values, None where none is known; times in ns stay integers."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None
    middle = median(numbers)
    return round(middle) if all(isinstance(value, int) for value in numbers) else middle


def _speed_ups(cell: Row, baseline: Row) -> Row:
    """The speed-ups of a cell over the baseline with the same other values, where both ran."""
    if not cell["seconds"] or not baseline["seconds"]:
        return {}
    least, most = baseline["seconds_min"], baseline["seconds_max"]
    is_itself = cell is baseline
    return {
        "speed_up": baseline["seconds"] / cell["seconds"],
        "speed_up_min": 1.0 if is_itself else least / cell["seconds_max"],
        "speed_up_max": 1.0 if is_itself else most / cell["seconds_min"],
    }


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
        if best is None:
            return None
        pair = best[1]._replace(values={**best[1].values, **baseline}), best[1]
    elif len(measured) > 1:
        by_seconds = sorted(measured, key=lambda pair: float(pair[1]["seconds"]))
        pair = by_seconds[-1][0], by_seconds[0][0]
    else:
        return None
    return f"{SWEPT}/{pair[0].folder_name}", f"{SWEPT}/{pair[1].folder_name}"
