"""The summary of a sweep: its cells, and where a variant breaks even."""

from pathlib import Path
from typing import Final

from gpuprof.render.notebook.summary import Summary
from gpuprof.render.sweep import headline, notes, sweep_grids
from gpuprof.sweeps.results import Results

TABLES: Final = ("cells", "runs", "break_evens")
CHARTS: Final = ("scaling", "break-even")


def sweep_summary(results: Results, folder: Path) -> Summary:
    """What a notebook shows of a sweep in a folder."""
    return Summary(
        f"Sweep in {folder}",
        headline(results),
        grids=tuple(sweep_grids(results)),
        notes=tuple(notes(results)),
        tables=TABLES,
        charts=CHARTS,
    )
