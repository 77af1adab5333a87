"""The summary of a comparison: its verdict, the time of a step, and where differences lie."""

from typing import Final

from gpuprof.comparisons import Comparison
from gpuprof.comparisons.result_tables import TABLES
from gpuprof.show.charts import charts_about
from gpuprof.show.comparison import grid_with_columns, split_grids
from gpuprof.show.contract import COMPARISON
from gpuprof.show.notebook.summary import Summary
from gpuprof.show.page import comparison

_CLOCK: Final = "clock"


def comparison_summary(result: Comparison) -> Summary:
    """What a notebook shows of a comparison."""
    labels = result.variants.column("variant").to_pylist()
    return Summary(
        f"Compared: {', '.join(labels)}; baseline {result.baseline}",
        result.verdict,
        figures=tuple(f for f in comparison.figures(result) if f.name == _CLOCK),
        grids=(*split_grids(result), grid_with_columns(result)),
        notes=result.notes,
        tables=("variants", *TABLES),
        charts=tuple(chart.name for chart in charts_about(COMPARISON)),
    )
