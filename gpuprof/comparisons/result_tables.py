"""The result of a comparison: its tables, documented as data, and its verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from gpuprof.comparisons.measure.compared_steps import ComparedSteps
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.facts.activity_sums import SHORT_NAME
from gpuprof.model.schema import FLOAT, Column, Count, Flag, Kind, Ns, Schema, Share, Text

# The unit of figures of any metric: that of the metric in the same row.
AS_THE_METRIC: Final = "as the metric"
_MEDIAN: Final = "median over its runs; of one step where steps are compared"
_LEVEL: Final = "95 % interval by resampling the runs; null from fewer than two runs"
_MIDDLE: Final = "scaled to its median over the runs: the run in the middle, or the mean of two"
_NO_SHAPE: Final = "null where a side has no launch shapes, or only others"

_text = partial(Text, required=True)
_figure = partial(Column, FLOAT, AS_THE_METRIC)

_CALLS: Final = Column(FLOAT, "1", "Of a step where steps are compared.", kind=Kind.COUNT)
_MEAN: Final = Column(FLOAT, "ns", "Mean of a call; null where unknown or not called.")
_SUM: Final = Ns("Sum over all devices; null where it may be missing.")

RUNS: Final = Schema(
    "compared_runs",
    "one run of one variant, with the figures of all that was compared of it",
    {
        "variant": _text("Label."),
        "run": Count("1 for the first that was given.", required=True),
        "is_median": Flag("Whether it is in the middle; of an even number two are.", required=True),
        **{name: column for name, column in VARIANTS.columns.items() if name != "variant"},
    },
)
FIGURES: Final = Schema(
    "compared_figures",
    "one metric of one variant over its runs; of one step where steps are compared",
    {
        "variant": _text("Label."),
        "metric": _text("A column of `variants`."),
        "runs": Count("Runs in which it is known.", required=True),
        "median": _figure("Median over these runs.", required=True),
        "min": _figure("Smallest.", required=True),
        "max": _figure("Largest.", required=True),
        "low": _figure(f"Lower end of the median's {_LEVEL}."),
        "high": _figure(f"Upper end of the median's {_LEVEL}."),
    },
)
DIFFERENCES: Final = Schema(
    "differences",
    "one metric of one candidate against the baseline; only where both are known",
    {
        "variant": _text("The candidate."),
        "metric": _text("A column of `variants`."),
        "baseline": _figure(f"The baseline's {_MEDIAN}.", required=True),
        "candidate": _figure(f"The candidate's {_MEDIAN}.", required=True),
        "difference": _figure("candidate - baseline.", required=True),
        "percent": Column(FLOAT, "%", "100 * difference / baseline; null where that is 0."),
        "low": _figure(f"Lower end of the difference's {_LEVEL}."),
        "high": _figure(f"Upper end of the difference's {_LEVEL}."),
        "p_value": Column(
            FLOAT,
            "1",
            "Two-sided rank test of Mann and Whitney; null from fewer than two runs on a side.",
            kind=Kind.RATIO,
        ),
        "is_beyond_noise": Flag(
            "Whether interval and rank test separate the sides; null where unknown."
        ),
    },
)
SPLIT: Final = Schema(
    "split",
    "one part of the difference of one candidate to the baseline; the parts of one basis add up"
    " to its total exactly",
    {
        "variant": _text("The candidate."),
        "basis": _text(
            "exposed: of the time of each side's busiest device, an instant belongs to the first"
            " part in this order that runs; sums: durations added up over all devices; kernels:"
            " those of kernels, where a side may not list its copies."
        ),
        "part": _text(
            "kernels_common, kernels_new, kernels_gone, graphs (recorded as a whole),"
            " communication, a kind of transfer (PtoP, PtoP_staged, DtoD_peer, HtoD, ...),"
            " local_copies, unknown_copies, memsets, or idle (of exposed alone)."
        ),
        "part_group": _text("kernels, communication, transfers, local_copies, memsets or idle."),
        "baseline_ns": Ns(f"Of the baseline, {_MIDDLE}.", required=True),
        "candidate_ns": Ns(f"Of the candidate, {_MIDDLE}.", required=True),
        "difference_ns": Ns("candidate_ns - baseline_ns.", required=True),
        "share": Share("Of the whole difference; null where parts of both signs cancel out."),
        "low_ns": Column(FLOAT, "ns", f"Lower end of the difference's {_LEVEL}."),
        "high_ns": Column(FLOAT, "ns", f"Upper end of the difference's {_LEVEL}."),
    },
)
KERNELS: Final = Schema(
    "compared_kernels",
    "one kernel in one launch shape of the baseline or a candidate; the largest difference first",
    {
        "variant": _text("The candidate."),
        "name": _text(
            "Demangled name; the short one, without lines of the source, where both sides have the"
            " kernel under different names alone."
        ),
        "short_name": SHORT_NAME,
        "grid": Text(f"Blocks as 128x1x1; {_NO_SHAPE}."),
        "block": Text(f"Threads of a block as 128x1x1; {_NO_SHAPE}."),
        "status": _text(
            "slower, faster or same by the mean of a call; new or removed where one side lacks it;"
            " unlisted where that side lists only a part; common where a time is unknown."
        ),
        "is_communication": Flag("Whether it moves data between devices."),
        "is_reshaped": Flag(
            "Whether the other side has it in another launch shape, or has others as well."
        ),
        "baseline_calls": _CALLS,
        "candidate_calls": _CALLS,
        "baseline_mean_ns": _MEAN,
        "candidate_mean_ns": _MEAN,
        "baseline_ns": _SUM,
        "candidate_ns": _SUM,
        "difference_ns": Ns("candidate_ns - baseline_ns."),
        "contribution": Share("difference_ns / all kernels of the baseline; null where unknown."),
        "p_value": Column(
            FLOAT,
            "1",
            "Rank test over the runs; null from fewer than two runs on a side.",
            kind=Kind.RATIO,
        ),
        "adjusted_p_value": Column(
            FLOAT,
            "1",
            "The same for as many kernels as were tested (Benjamini and Hochberg).",
            kind=Kind.RATIO,
        ),
    },
)
COMPARABILITY: Final = Schema(
    "comparability",
    "one thing in which a candidate and the baseline differ besides what is compared",
    {
        "variant": _text("The candidate."),
        "aspect": _text(
            "script, batch, steps, work (what a step is), gpu, clock, tool or shapes (of kernels)."
        ),
        "baseline": Text("What the baseline has; null where unknown."),
        "candidate": Text("What the candidate has; null where unknown."),
        "is_known": Flag("Whether both are known; else it was not checked."),
        "warning": _text("In a sentence."),
    },
)
OUTCOMES: Final = Schema(
    "outcomes",
    "the result of comparing one candidate with the baseline",
    {
        "variant": _text("The candidate."),
        "basis": _text(
            "exposed, sums or kernels as in `split`; calls (of recordings whose numbers of calls"
            " differ: the candidate's calls of kernels that both have, at each side's mean);"
            " implied (by printed shares), copies (per step), epochs (wall time alone), same"
            " (recording), none."
        ),
        "metric": Text("The column of `variants` that is judged; null for none."),
        "baseline": _figure("The baseline's figure."),
        "candidate": _figure("The candidate's figure."),
        "difference": _figure("candidate - baseline."),
        "percent": Column(FLOAT, "%", "100 * difference / baseline; null where that is 0."),
        "low_percent": Column(FLOAT, "%", "Lower end of the difference's interval."),
        "high_percent": Column(FLOAT, "%", "Upper end of the difference's interval."),
        "certainty": _text(
            "Of noise between runs: beyond noise, within noise, noise unknown (one run on a side)"
            " or exact (counts)."
        ),
        "cause": Text(
            "Part of `split` that makes most of the difference, kernels for all compute; null where"
            " parts of both signs cancel out."
        ),
        "cause_ns": Ns("The difference of that part."),
        "phase": Text("The phase whose steps are compared; null for none."),
        "baseline_steps": Count("Whole steps of its busiest device that are compared."),
        "candidate_steps": Count("Whole steps of its busiest device that are compared."),
        **{
            f"{side}_{end}_ns": Column(
                FLOAT,
                "ns",
                f"{words} end of the 95 % interval of the median step of one run, by its steps.",
            )
            for side in ("baseline", "candidate")
            for end, words in (("low", "Lower"), ("high", "Upper"))
        },
        "certainty_of_steps": Text(
            "Of noise between the steps of one run: beyond noise where these intervals do not"
            " meet, else within noise; null from fewer than three steps on a side."
        ),
        "work_percent": Column(
            FLOAT,
            "%",
            "How much more work the candidate does in compute kernels that both have, by their"
            " calls at the baseline's means; null where unknown.",
        ),
        "call_percent": Column(
            FLOAT, "%", "How much longer the candidate's calls of these take; null where unknown."
        ),
    },
)
UNCOMPARED: Final = Schema(
    "uncompared_phases",
    "one phase of a variant that is not compared, as another variant lacks it",
    {
        "variant": _text("The variant that has it."),
        "phase": _text("Its name, with what distinguishes it from others of the recording."),
        "devices": Count("Devices that work in its steps.", required=True),
        "steps": Count("Its whole steps past the warm-up.", required=True),
        "step_ns": Column(FLOAT, "ns", "Median over these.", required=True),
    },
)
# By their keys in JSON.
TABLES: Final = {
    "runs": RUNS,
    "figures": FIGURES,
    "differences": DIFFERENCES,
    "split": SPLIT,
    "kernels": KERNELS,
    "comparability": COMPARABILITY,
    "outcomes": OUTCOMES,
    "uncompared": UNCOMPARED,
}


class Outcome(NamedTuple):
    """A row of `OUTCOMES`."""

    variant: str
    basis: str
    metric: str | None = None
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    percent: float | None = None
    low_percent: float | None = None
    high_percent: float | None = None
    certainty: str = ""
    cause: str | None = None
    cause_ns: int | None = None
    phase: str | None = None
    baseline_steps: int | None = None
    candidate_steps: int | None = None
    baseline_low_ns: float | None = None
    baseline_high_ns: float | None = None
    candidate_low_ns: float | None = None
    candidate_high_ns: float | None = None
    certainty_of_steps: str | None = None
    work_percent: float | None = None
    call_percent: float | None = None


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
        headline: The verdict's core in one line.
        title: The same without its reason, as the title of a chart.
        notes: What a reader must know to trust the figures.
        phase: The name of the phase that is compared; None where there is only one.
        other_phases: The comparisons of the other phases that all runs have.
        compared: What is compared of each variant's median run, for pictures of it.
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
    title: str
    notes: tuple[str, ...]
    phase: str | None = None
    other_phases: tuple["Comparison", ...] = ()
    compared: Mapping[str, ComparedSteps] = field(default_factory=dict, repr=False, compare=False)
