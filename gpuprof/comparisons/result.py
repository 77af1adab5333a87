"""The result of a comparison: its tables and its verdict."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Comparison:
    """Variants against a baseline.

    Args:
        baseline: Label of the variant that the others are compared with.
        unit: What figures, differences, split and kernels are of: "step", or the whole
            "recording" where not all runs know their steps.
        variants: One row per variant in the order given, columns as in `VARIANTS`: all that was
            compared of its median run.
        runs: The same of every run; several rows where a variant was run several times.
        figures: Every metric of every variant over its runs, as in `FIGURES`.
        differences: Each candidate's metrics against the baseline's, as in `DIFFERENCES`.
        split: Each candidate's difference part by part without remainder, as in `SPLIT`.
        kernels: Each candidate's kernels joined to the baseline's, as in `KERNELS`.
        comparability: What differs besides what is compared, as in `COMPARABILITY`.
        outcomes: The result of each candidate, as in `OUTCOMES`.
        uncompared: The phases that only some variants have, as in `UNCOMPARED`.
        verdict: The outcomes in a sentence or two.
        headline: The verdict's core in one line, as the title of a chart.
        notes: What a reader must know to trust the figures.
        phase: The name of the phase that is compared; None where there is only one.
        other_phases: The comparisons of the other phases that all runs have.
    """

    baseline: str
    unit: str
    variants: pa.Table
    runs: pa.Table
    figures: pa.Table
    differences: pa.Table
    split: pa.Table
    kernels: pa.Table
    comparability: pa.Table
    outcomes: pa.Table
    uncompared: pa.Table
    verdict: str
    headline: str
    notes: tuple[str, ...]
    phase: str | None = None
    other_phases: tuple["Comparison", ...] = ()
