"""Every metric of a candidate against the baseline's, with its noise over repeats."""

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any, Final

from gpuprof.base.statistics import difference_interval, is_beyond_noise, median_interval, rank_test
from gpuprof.comparisons.rows import Difference

# What is counted in the steps that were recorded.
_COUNTED: Final = (
    *("steps", "transfer_calls", "transfer_bytes"),
    *("peer_transfer_calls", "peer_transfer_bytes"),
)
FiguresByLabel = Mapping[str, Mapping[str, Sequence[float]]]


def figure_rows(figures_by_label: FiguresByLabel) -> list[dict[str, Any]]:
    """Each variant's metrics over its runs, as rows of `FIGURES`."""
    return [
        {
            "variant": label,
            "metric": metric,
            "runs": len(values),
            "median": median(values),
            "min": min(values),
            "max": max(values),
            "low": low,
            "high": high,
        }
        for label, figures in figures_by_label.items()
        for metric, values in figures.items()
        for low, high in [median_interval(values) or (None, None)]
    ]


def difference_rows(
    baseline: str, figures_by_label: FiguresByLabel, sampled: Collection[str] = ()
) -> list[Difference]:
    """Each candidate's metrics that the baseline knows as well, as rows of `DIFFERENCES`.

    Args:
        baseline: Its label.
        figures_by_label: Label -> metric -> its values over the runs.
        sampled: Labels of variants whose profiler sampled steps. Their counts of copies differ
            by sampling alone, except where one side copies nothing.
    """
    base = figures_by_label[baseline]
    return [
        _difference((label, metric), base[metric], figures[metric])
        for label, figures in figures_by_label.items()
        for metric in base
        if label != baseline and metric in figures
        if not (metric in _COUNTED and {label, baseline} & {*sampled})
        or not (any(base[metric]) and any(figures[metric]))
    ]


def _difference(
    named: tuple[str, str], base: Sequence[float], candidate: Sequence[float]
) -> Difference:
    before, after = median(base), median(candidate)
    percent = 100 * (after - before) / before if before else None
    interval, p_value = difference_interval(base, candidate), rank_test(base, candidate)
    is_beyond = interval and is_beyond_noise(interval, p_value, (len(base), len(candidate)))
    low, high = interval or (None, None)
    more = after - before
    return Difference(*named, before, after, more, percent, low, high, p_value, is_beyond)
