"""Tables -> text, files and charts: each format of ``--format`` is one file and one name here.

Renderers compute nothing: all they show is a column of a table, in a unit for people.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprof.analyses.reports import Report
    from gpuprof.comparisons import Comparison
    from gpuprof.show.overview import Grid

# Modules in this folder, imported when their format is first used.
RENDERERS: Final = ("terminal", "markdown", "csv", "json")
# What a chart is about: one recording, a comparison of several, or a table of measured times.
RECORDING: Final = "recording"
COMPARISON: Final = "comparison"
SWEEP: Final = "sweep"

Row = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """How much room there is, and what of a result to show.

    Args:
        width: Columns of the terminal.
        is_colour: Whether colours can be shown.
        is_wide: Whether no name is cut, however wide that gets.
        tables: Names of the tables to show whole; None for the overview.
        has_full_names: Whether kernels have their full names, not their short ones.
    """

    width: int = 80
    is_colour: bool = False
    is_wide: bool = False
    tables: tuple[str, ...] | None = None
    has_full_names: bool = False


class Renderer(Protocol):
    """The module of a format."""

    def report(self, result: "Report", page: Page, /) -> str:
        """A report as text."""

    def comparison(self, result: "Comparison", page: Page, /) -> str:
        """A comparison as text."""

    def grids_text(
        self, headline: str, grids: "Sequence[Grid]", notes: "Sequence[str]", page: Page, /
    ) -> str:
        """A sentence, tables, and notes; of formats for people alone."""


def renderer_named(name: str) -> Renderer:
    """The renderer of this name."""
    return cast("Renderer", import_module(f"gpuprof.show.{name}"))
