"""`gpuprof.sweep`: one program over a grid of options."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.api.arguments import program_words, say
from gpuprof.api.result import Result, Tables
from gpuprof.base.errors import StoppedError, UsageError, one_of
from gpuprof.launch import check_recorder, check_system
from gpuprof.readers.inputs import AnyPath
from gpuprof.show.charts import sweeps
from gpuprof.show.charts.figure import figure_of
from gpuprof.show.notebook import SWEEP_CHARTS, Summary, sweep_summary
from gpuprof.show.sweep_results import headline, notes, save, sweep_page
from gpuprof.sweeps.break_even import break_evens
from gpuprof.sweeps.execution import run_sweep
from gpuprof.sweeps.results import Results
from gpuprof.sweeps.sweep_file import planned, value_text
from gpuprof.sweeps.sweep_folder import DEFAULT_PARENT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | float | bool


class SweepResult(Result):
    """The results of a sweep. It is a path, too: `gpuprof.compare` takes it.

    Args:
        results: The tables.
        folder: The sweep's folder.
    """

    def __init__(self, results: Results, folder: Path) -> None:
        self._results = results
        self._folder = folder

    def __fspath__(self) -> str:
        """The folder."""
        return os.fspath(self._folder)

    @property
    def folder(self) -> Path:
        """The folder with the recordings, results as CSV and Parquet, and charts."""
        return self._folder

    @property
    def headline(self) -> str:
        """How many cells ran, and the highest speed-up."""
        return headline(self._results)

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the figures, one sentence each."""
        return tuple(notes(self._results))

    @cached_property
    def tables(self) -> Tables:
        """``cells``, ``runs``, and ``break_evens`` where the sweep has a baseline."""
        compute: dict[str, Callable[[], pa.Table]] = {
            "cells": lambda: self._results.cells,
            "runs": lambda: self._results.runs,
        }
        if self._results.plan.baseline:
            compute["break_evens"] = lambda: break_evens(self._results)
        return Tables(tuple(compute), lambda name: compute[name]())

    def plot(self, name: str = "scaling") -> "Figure":
        """A chart of the sweep's folder: ``scaling`` or ``break-even``.

        Raises:
            UsageError: There is no such chart, or the sweep has nothing to draw in it.
        """
        if name not in SWEEP_CHARTS:
            msg = f"there is no chart {name} of a sweep"
            raise UsageError(msg, one_of("Charts", name, SWEEP_CHARTS))
        shown = {"scaling": sweeps.seconds, "break-even": sweeps.break_even}[name]
        if (picture := shown(self._results)) is None:
            msg = f"{name} cannot be drawn: {_NEEDED[name]}"
            raise UsageError(msg)
        return figure_of(picture)

    def _page(self) -> str:
        return sweep_page(self._results, self._folder)

    def _inputs(self) -> tuple[str, ...]:
        return ()

    def _summary(self) -> Summary:
        return sweep_summary(self._results, self._folder)


_NEEDED: Final = {
    "scaling": "no run has succeeded",
    "break-even": "it needs a baseline, and another axis of two numbers or more",
}


def sweep(  # noqa: PLR0913 - the options of the command
    *words: str | AnyPath | float,
    grid: Mapping[str, Sequence[Value]] | None = None,
    baseline: Mapping[str, Value] | None = None,
    figures: Mapping[str, str] | None = None,
    repeat: int | None = None,
    warmup: int | None = None,
    skipped_epochs: int | None = None,
    seed: int | None = None,
    recorder: str | None = None,
    out: AnyPath | None = None,
    force: bool = False,
    retry_failed: bool = False,
) -> SweepResult:
    """Run a program over a grid of options, as `gpuprof sweep` does.

    The same call continues a sweep that was stopped. Progress goes to stderr.

    Args:
        words: A file in TOML; or a script and its arguments, in which ``{axis}`` stands for the
            value of an axis.
        grid: Each axis and its values.
        baseline: Values of some axes: the cell that speed-ups are relative to.
        figures: Names of figures that the program prints, each with its pattern.
        repeat: Runs of each cell; 1 by default.
        warmup: Runs before these that do not count.
        skipped_epochs: First epochs of each run that do not count; 0 for all that do. By default
            the warm-up that is found does not count.
        seed: Seed of the order of runs; by default drawn, and kept.
        recorder: Profiler, as in `gpuprof.record`; ``none`` only times.
        out: Folder of the sweep; by default, one under ``gpuprof-sweeps``.
        force: Whether to remove the sweep in the folder first.
        retry_failed: Whether to run failed cells again.

    Raises:
        GpuprofError: The arguments contradict each other, or the folder cannot be used.
        StoppedError: Ctrl-C stopped it. It is a KeyboardInterrupt, too.
        TypeError: An argument is of another type.
    """
    options = {
        "baseline": baseline and {axis: value_text(value) for axis, value in baseline.items()},
        "figures": figures, "repeat": repeat, "warmup": warmup,
        "skipped_epochs": skipped_epochs, "seed": seed, "recorder": recorder,
    }  # fmt: skip
    axes = None if grid is None else {name: _axis(name, axis) for name, axis in grid.items()}
    plan = planned(
        *(program_words("sweep", words), axes, options),
        grid="grid",
        advice='Give axes: gpuprof.sweep("train.py", "{batch}", grid={"batch": [1]})',
    )
    check_system()
    check_recorder(plan.recorder)
    folder = Path(DEFAULT_PARENT) / plan.name if out is None else Path(out)
    try:
        outcome = run_sweep(plan, folder, say, force=force, retry_failed=retry_failed)
    except KeyboardInterrupt as error:
        msg = f"Ctrl-C stopped the sweep in {folder}"
        raise StoppedError(msg, "The same call continues it.") from error
    save(outcome, folder)
    return SweepResult(outcome, folder)


def _axis(name: str, values: Sequence[Value]) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        msg = f"the values of the axis {name} must be a list, not {type(values).__name__}"
        raise TypeError(msg)
    return tuple(map(value_text, values))
