"""The page of a sweep: its cells, and where a variant breaks even."""

from pathlib import Path

from gpuprof.base.secrets import masked_words
from gpuprof.show.cells import clean
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.tables import grid_table
from gpuprof.show.sweep import headline, notes, sweep_grids
from gpuprof.sweeps.results import Results


def sweep_page(results: Results, folder: Path) -> str:
    """The results of a sweep in a folder as one HTML file."""
    name = clean(str(folder))
    return html(
        Document(
            title=f"{name} - gpuprof",
            heading=f"Sweep in {name}",
            verdict=(clean(headline(results)),),
            figures=(),
            tables=tuple(
                grid_table(f"sweep-{number}", grid, grid.title or "Cells")
                for number, grid in enumerate(sweep_grids(results), start=1)
            ),
            notes=tuple(notes(results)),
            provenance=(
                ("Folder", name),
                ("Command", clean(" ".join(masked_words(results.plan.command)))),
                ("Recorder", results.plan.recorder),
            ),
        )
    )
