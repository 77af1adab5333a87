"""The summary of a sweep: its cells, and where a variant breaks even."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuprof.show.notebook.summary import Summary
from gpuprof.show.sweep import headline, notes, sweep_grids
from gpuprof.sweeps.results import Results

CHARTS: Final = ("scaling", "break-even")


def sweep_summary(results: Results, folder: Path) -> Summary:
    """What a notebook shows of a sweep in a folder."""
    cells, *break_evens = sweep_grids(results)
    return Summary(
        f"Sweep in {folder}",
        headline(results),
        grids=(replace(cells, title="Cells"), *break_evens),
        notes=tuple(notes(results)),
        tables=("cells", "runs", *(["break_evens"] if results.plan.baseline else [])),
        charts=CHARTS,
    )
