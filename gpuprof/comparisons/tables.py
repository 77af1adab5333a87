"""The result tables of a comparison, documented as data."""

from typing import Final

from gpuprof.metrics import VARIANTS
from gpuprof.schema import FLAG, FLOAT, INT, TEXT, Column, Schema

# The unit of figures of any metric: that of the metric in the same row.
AS_THE_METRIC: Final = "as the metric"
_MEDIAN: Final = "median over its runs; of one step where steps are compared"
_LEVEL: Final = "95 % interval by resampling the runs; null from fewer than two runs"

RUNS: Final = Schema(
    "compared_runs",
    "one run of one variant, with the figures of all that was compared of it",
    {
        "variant": Column(TEXT, "", "Label.", required=True),
        "run": Column(INT, "1", "1 for the first that was given.", required=True),
        "is_median": Column(FLAG, "", "Whether it stands for its variant.", required=True),
        **{name: column for name, column in VARIANTS.columns.items() if name != "variant"},
    },
)
FIGURES: Final = Schema(
    "compared_figures",
    "one metric of one variant over its runs; of one step where steps are compared",
    {
        "variant": Column(TEXT, "", "Label.", required=True),
        "metric": Column(TEXT, "", "A column of `variants`.", required=True),
        "runs": Column(INT, "1", "Runs in which it is known.", required=True),
        "median": Column(FLOAT, AS_THE_METRIC, "Median over these runs.", required=True),
        "min": Column(FLOAT, AS_THE_METRIC, "Smallest.", required=True),
        "max": Column(FLOAT, AS_THE_METRIC, "Largest.", required=True),
        "low": Column(FLOAT, AS_THE_METRIC, f"Lower end of the median's {_LEVEL}."),
        "high": Column(FLOAT, AS_THE_METRIC, f"Upper end of the median's {_LEVEL}."),
    },
)
DIFFERENCES: Final = Schema(
    "differences",
    "one metric of one candidate against the baseline; only where both are known",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "metric": Column(TEXT, "", "A column of `variants`.", required=True),
        "baseline": Column(FLOAT, AS_THE_METRIC, f"The baseline's {_MEDIAN}.", required=True),
        "candidate": Column(FLOAT, AS_THE_METRIC, f"The candidate's {_MEDIAN}.", required=True),
        "difference": Column(FLOAT, AS_THE_METRIC, "candidate - baseline.", required=True),
        "percent": Column(FLOAT, "%", "100 * difference / baseline; null where that is 0."),
        "low": Column(FLOAT, AS_THE_METRIC, f"Lower end of the difference's {_LEVEL}."),
        "high": Column(FLOAT, AS_THE_METRIC, f"Upper end of the difference's {_LEVEL}."),
        "p_value": Column(
            FLOAT,
            "1",
            "Two-sided rank test of Mann and Whitney; null from fewer than two runs on a side.",
        ),
        "is_beyond_noise": Column(
            FLAG, "", "Whether interval and ranks tell the sides apart; null where unknown."
        ),
    },
)
SPLIT: Final = Schema(
    "split",
    "one part of the difference of one candidate to the baseline; the parts of one basis add up"
    " to its total exactly",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "basis": Column(
            TEXT,
            "",
            "exposed: of the time of each side's busiest device, an instant belongs to the first"
            " part in this order that runs; sums: durations added up over all devices; kernels:"
            " those of kernels, where a side may not list its copies.",
            required=True,
        ),
        "part": Column(
            TEXT,
            "",
            "kernels_common, kernels_new, kernels_gone, graphs (recorded as a whole),"
            " communication, a kind of transfer (PtoP, PtoP_staged, DtoD_peer, HtoD, ...),"
            " local_copies, unknown_copies, memsets, or idle (of exposed alone).",
            required=True,
        ),
        "part_group": Column(
            TEXT,
            "",
            "kernels, communication, transfers, local_copies, memsets or idle.",
            required=True,
        ),
        "baseline_ns": Column(INT, "ns", "Of the baseline's median run.", required=True),
        "candidate_ns": Column(INT, "ns", "Of the candidate's median run.", required=True),
        "difference_ns": Column(INT, "ns", "candidate_ns - baseline_ns.", required=True),
        "share": Column(
            FLOAT,
            "1",
            "Of the whole difference; null where parts of both signs cancel out.",
        ),
        "low_ns": Column(FLOAT, "ns", f"Lower end of the difference's {_LEVEL}."),
        "high_ns": Column(FLOAT, "ns", f"Upper end of the difference's {_LEVEL}."),
    },
)
KERNELS: Final = Schema(
    "compared_kernels",
    "one kernel in one launch shape of the baseline or a candidate; the largest difference first",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "name": Column(TEXT, "", "Demangled name.", required=True),
        "grid": Column(TEXT, "", "Blocks as 128x1x1; null where a side tells no launch shapes."),
        "block": Column(TEXT, "", "Threads of a block; null likewise."),
        "status": Column(
            TEXT,
            "",
            "slower, faster or same; new or gone where one side lacks it; unlisted where that"
            " side lists only a part; common where a time is unknown.",
            required=True,
        ),
        "is_communication": Column(FLAG, "", "Whether it moves data between devices."),
        "is_reshaped": Column(
            FLAG, "", "Whether a new or gone one is on the other side in another launch shape."
        ),
        "baseline_calls": Column(FLOAT, "1", "Of a step where steps are compared."),
        "candidate_calls": Column(FLOAT, "1", "Likewise."),
        "baseline_ns": Column(INT, "ns", "Sum over all devices; null where it may be missing."),
        "candidate_ns": Column(INT, "ns", "Likewise."),
        "difference_ns": Column(INT, "ns", "candidate_ns - baseline_ns."),
        "contribution": Column(
            FLOAT, "1", "difference_ns / all kernels of the baseline; null where unknown."
        ),
        "p_value": Column(
            FLOAT, "1", "Rank test over the runs; null from fewer than two runs on a side."
        ),
        "adjusted_p_value": Column(
            FLOAT, "1", "The same for as many kernels as were tested (Benjamini and Hochberg)."
        ),
    },
)
COMPARABILITY: Final = Schema(
    "comparability",
    "one thing in which a candidate and the baseline differ beside what is compared",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "aspect": Column(
            TEXT,
            "",
            "script, batch, steps, work (what a step is), gpu, clock, tool or shapes (of kernels).",
            required=True,
        ),
        "baseline": Column(TEXT, "", "What the baseline has; null where unknown."),
        "candidate": Column(TEXT, "", "What the candidate has; null where unknown."),
        "is_known": Column(FLAG, "", "Whether both are known; else it was not checked."),
        "warning": Column(TEXT, "", "In a sentence.", required=True),
    },
)
OUTCOMES: Final = Schema(
    "outcomes",
    "what the comparison of one candidate with the baseline comes to",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "basis": Column(
            TEXT,
            "",
            "exposed, sums or kernels as in `split`; implied (by printed shares), copies (per"
            " step), epochs (wall time alone), same (recording), none.",
            required=True,
        ),
        "metric": Column(TEXT, "", "The column of `variants` that is judged; null for none."),
        "baseline": Column(FLOAT, AS_THE_METRIC, "The baseline's figure."),
        "candidate": Column(FLOAT, AS_THE_METRIC, "The candidate's figure."),
        "difference": Column(FLOAT, AS_THE_METRIC, "candidate - baseline."),
        "percent": Column(FLOAT, "%", "100 * difference / baseline; null where that is 0."),
        "low_percent": Column(FLOAT, "%", "Lower end of the difference's interval."),
        "high_percent": Column(FLOAT, "%", "Upper end of the difference's interval."),
        "certainty": Column(
            TEXT,
            "",
            "beyond noise, within noise, noise unknown (one run on a side) or exact (counts).",
            required=True,
        ),
        "cause": Column(
            TEXT,
            "",
            "Part of `split` that makes most of the difference, kernels for all compute; null where"
            " parts of both signs cancel out.",
        ),
        "cause_ns": Column(INT, "ns", "The difference of that part."),
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
}
