"""`gpuprof.compare`: variants of one program side by side."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuprof.api.arguments import Variants, variants
from gpuprof.api.options import SKIP_STEPS
from gpuprof.api.result import Result, Tables
from gpuprof.api.values import checked
from gpuprof.comparisons import Comparison, comparison, labelled
from gpuprof.comparisons.gate import checks, fail, parse
from gpuprof.comparisons.result_tables import TABLES
from gpuprof.show import COMPARISON
from gpuprof.show.charts.catalogue import chart_about, drawn, of_comparison
from gpuprof.show.notebook import Summary, comparison_summary
from gpuprof.show.page.comparison_page import comparison_page

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_NAMES: Final = ("variants", *TABLES)


class ComparisonResult(Result):
    """Variants against a baseline.

    Args:
        comparison: The comparison.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    @property
    def verdict(self) -> str:
        """The outcomes in a sentence or two."""
        return self._comparison.verdict

    @property
    def headline(self) -> str:
        """The verdict's core in one line."""
        return self._comparison.headline

    @property
    def baseline(self) -> str:
        """Label of the variant that the others are compared with."""
        return self._comparison.baseline

    @property
    def unit(self) -> str:
        """What figures and differences are of: ``step``, or the whole ``recording``."""
        return self._comparison.unit

    @property
    def phase(self) -> str | None:
        """The phase whose steps are compared; None where there is only one."""
        return self._comparison.phase

    @property
    def other_phases(self) -> tuple["ComparisonResult", ...]:
        """The comparisons of the other phases that all variants have."""
        return tuple(map(ComparisonResult, self._comparison.other_phases))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to trust the figures, one sentence each."""
        return self._comparison.notes

    @cached_property
    def tables(self) -> Tables:
        """The tables of a comparison, under the names of the command's JSON."""
        return Tables(_NAMES, lambda name: getattr(self._comparison, name))

    @property
    def variants(self) -> "pd.DataFrame":
        """One row per variant, indexed by its label, with its figures and their differences.

        Of each metric there is ``<metric>_difference`` (candidate - baseline, in its unit, of one
        step where steps are compared) where both are known.
        """
        frame = self.tables["variants"].set_index("variant")
        by_metric = self.tables["differences"].pivot_table(
            index="variant", columns="metric", values="difference", sort=False
        )
        return frame.join(by_metric.add_suffix("_difference"))

    def fail_if(self, *conditions: str) -> None:
        """Raise an error if a condition is true of a candidate, as ``step_ns > 1.05x``.

        Args:
            conditions: As the command's ``--fail-if`` takes them.

        Raises:
            GateError: One is true, or cannot be tested.
            UsageError: One is no condition.
        """
        fail(checks(self._comparison, [*map(parse, conditions)]))

    def plot(self, name: str = "variants") -> "Figure":
        """A chart of the comparison, as `gpuprof plot --list` names it.

        Raises:
            UsageError: There is no such chart of a comparison.
            GpuprofError: There is nothing to draw.
        """
        return drawn(chart_about(name, COMPARISON), of_comparison(self._comparison))

    def _page(self) -> str:
        return comparison_page(self._comparison)

    def _inputs(self) -> tuple[str, ...]:
        return tuple(self._comparison.runs.column("source").to_pylist())

    def _summary(self) -> Summary:
        return comparison_summary(self._comparison)


def compare(
    *recordings: Variants,
    baseline: str | None = None,
    epoch_seconds: Mapping[str, float] | None = None,
    range: str | None = None,  # noqa: A002 - the command's word
    skip_steps: int | None = None,
    section: str | int | Mapping[str, str | int] | None = None,
) -> ComparisonResult:
    """Compare recordings of one program in several variants, as `gpuprof compare` does.

    Args:
        recordings: Paths, names of saved baselines, or what `gpuprof.read_profile`,
            `gpuprof.report` or `gpuprof.record` returned; each alone or as ``(label,
            recording)``. Or one list of these, or one mapping of labels to a recording or to
            several runs. The folder of a sweep stands for all of its cells.
        baseline: Label of the variant to compare with, or the name of a saved baseline; None for
            the first one.
        epoch_seconds: Measured seconds per epoch by label, where no recording has them.
        range: Compare what NVTX ranges or operations of this name launched, each as one step.
        skip_steps: Leave out so many steps at the start of each phase; None for the warm-up.
        section: Recording to read from files that hold several, of all or by label.

    Raises:
        GpuprofError: A recording cannot be read, or the labels do not fit together.
        TypeError: An argument is of another type.
    """
    if not isinstance(baseline, str | None):
        msg = f"the baseline must be a label, not {type(baseline).__name__}"
        raise TypeError(msg)
    by_label = section if isinstance(section, Mapping) else {"": section}
    sections = {label: str(name) for label, name in by_label.items() if name is not None}
    skipped = checked(SKIP_STEPS, skip_steps)
    by_variant = labelled(variants(recordings), baseline, sections)
    return ComparisonResult(
        comparison(by_variant, baseline, epoch_seconds, range_text=range, skip_steps=skipped)
    )
