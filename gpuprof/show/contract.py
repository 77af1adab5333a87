"""What an output is: a name, and how it shows a report and a comparison as text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from gpuprof.analyses.reports import Report
    from gpuprof.comparisons import Comparison

Row = dict[str, Any]
# What a chart is about: one recording, a comparison of several, or a table of measured times.
RECORDING: Final = "recording"
COMPARISON: Final = "comparison"
SWEEP: Final = "sweep"


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


class Renderer(NamedTuple):
    """One output format.

    Args:
        name: As in ``--format``.
        title: One line for people.
        report: A report as text.
        comparison: A comparison as text.
    """

    name: str
    title: str
    report: "Callable[[Report, Page], str]"
    comparison: "Callable[[Comparison, Page], str]"
