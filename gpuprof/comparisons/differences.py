"""Every metric of a candidate against the baseline's, with what repeats say of chance."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuprof.statistics import (
    difference_interval,
    is_beyond_noise,
    median,
    median_interval,
    rank_test,
)

Row = dict[str, Any]
Known = Mapping[str, Mapping[str, Sequence[float]]]


def figure_rows(known: Known) -> list[Row]:
    """Each variant's metrics over its runs, as rows of `FIGURES`."""
    return [
        {"variant": label, "metric": metric, "runs": len(values)} | _spread(values)
        for label, figures in known.items()
        for metric, values in figures.items()
    ]


def _spread(values: Sequence[float]) -> Row:
    low, high = median_interval(values) or (None, None)
    ends = {"min": min(values), "max": max(values), "low": low, "high": high}
    return {"median": median(values)} | ends


def difference_rows(baseline: str, known: Known) -> list[Row]:
    """Each candidate's metrics that the baseline knows as well, as rows of `DIFFERENCES`."""
    base = known[baseline]
    return [
        {"variant": label, "metric": metric} | _difference(base[metric], figures[metric])
        for label, figures in known.items()
        for metric in base
        if label != baseline and metric in figures
    ]


def _difference(base: Sequence[float], candidate: Sequence[float]) -> Row:
    before, after = median(base), median(candidate)
    found = difference_interval(base, candidate)
    p_value = rank_test(base, candidate)
    runs = len(base), len(candidate)
    return {
        "baseline": before,
        "candidate": after,
        "difference": after - before,
        "percent": 100 * (after - before) / before if before else None,
        "low": found and found[0],
        "high": found and found[1],
        "p_value": p_value,
        "is_beyond_noise": found and is_beyond_noise(found, p_value, runs),
    }
