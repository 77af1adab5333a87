"""What a sweep leaves in its folder: tables and charts, and the page of its results."""

from pathlib import Path

from pyarrow import parquet

from gpuprof.base.secrets import masked_words
from gpuprof.show import csv
from gpuprof.show.cells import clean
from gpuprof.show.charts import sweeps
from gpuprof.show.charts.figure import save as save_picture
from gpuprof.show.output import Output
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.tables import grid_table
from gpuprof.show.sweep_results import headline, notes, sweep_grids
from gpuprof.sweeps.results import Results


def save(results: Results, folder: Path) -> list[str]:
    """Write the charts that there are, and as CSV and Parquet ``results`` and ``runs``.

    Returns:
        Names of the files: ``results`` has a row per cell, ``runs`` one per run.

    Raises:
        OutputError: One cannot be written.
    """
    names = ["results.csv", "results.parquet", "runs.csv", "runs.parquet"]
    for name, table in (("results", results.cells), ("runs", results.runs)):
        text = csv.rows_text(table.column_names, table.to_pylist())
        Output(folder / f"{name}.csv").write_text(text)
        Output(folder / f"{name}.parquet").save(
            lambda path, table=table: parquet.write_table(table, path)  # type: ignore[misc]
        )
    for name, shown in (("break-even.svg", sweeps.break_even), ("scaling.svg", sweeps.seconds)):
        if (picture := shown(results)) is not None:
            save_picture(picture, Output(folder / name))
            names.append(name)
    return names


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
