"""The difference of two variants: of every metric, and of their time part by part.

The same work takes kernels that both sides have; what is added or saved is kernels of one side
alone, communication, transfers by kind, local copies, memsets and waiting. The parts add up without
remainder.
"""

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from gpuprof.analyses.totals import totals
from gpuprof.base.statistics import (
    difference_interval,
    is_beyond_noise,
    median_interval,
    rank_test,
    scaled,
)
from gpuprof.comparisons.measure.compared_kernels import Side
from gpuprof.comparisons.measure.device_time import (
    COMMON,
    COMMUNICATING,
    GRAPHS,
    IDLE,
    LOCAL_COPIES,
    MEMSETS,
    TRANSFERS,
    UNKNOWN_COPIES,
    UNMATCHED,
    exposed_unit,
    per_step,
)
from gpuprof.comparisons.measure.matching import Kernels, Key
from gpuprof.comparisons.measure.measured_runs import MeasuredRun
from gpuprof.comparisons.variant_figures import COMPONENTS

# What is counted in the steps that were recorded.
_COUNTED: Final = (
    *("steps", "transfer_calls", "transfer_bytes"),
    *("peer_transfer_calls", "peer_transfer_bytes"),
)
EXPOSED: Final = "exposed"
SUMS: Final = "sums"
KERNELS: Final = "kernels"
NEW: Final = "kernels_new"
GONE: Final = "kernels_gone"
_GROUPS: Final = {
    **dict.fromkeys((COMMON, NEW, GONE, GRAPHS), "kernels"),
    COMMUNICATING: "communication",
    **dict.fromkeys(TRANSFERS, "transfers"),
    LOCAL_COPIES: LOCAL_COPIES,
    UNKNOWN_COPIES: LOCAL_COPIES,
    MEMSETS: MEMSETS,
    IDLE: IDLE,
}
ORDER: Final = tuple(_GROUPS)
# Basis -> the metric that its parts add up to: the first that is known.
_METRICS: Final = {
    EXPOSED: ("step_ns", "span_ns"),
    SUMS: ("gpu_activity_ns",),
    KERNELS: ("kernel_ns",),
}
# All compute kernels as one part.
COMPUTE: Final = "kernels"
# Parts that work against the difference cancel others where they add up to more of it than this.
_CANCELLING: Final = 0.05

FiguresByLabel = Mapping[str, Mapping[str, Sequence[float]]]
_Times = Mapping[str, int]


class Sides(NamedTuple):
    """The time of all kernels, or of another part of a comparison, on both sides."""

    baseline_ns: int
    candidate_ns: int

    @property
    def difference_ns(self) -> int:
        """Candidate less baseline."""
        return self.candidate_ns - self.baseline_ns


Parts = Mapping[str, Sides]


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
) -> list[dict[str, Any]]:
    """Each candidate's metrics that the baseline knows as well, as rows of `DIFFERENCES`.

    Args:
        baseline: Its label.
        figures_by_label: Label -> metric -> its values over the runs.
        sampled: Labels of variants whose profiler sampled steps. Their counts of copies differ
            by sampling alone, except where one side copies nothing.
    """
    rows = []
    base = figures_by_label[baseline]
    for label, figures in figures_by_label.items():
        is_sampled = bool({label, baseline} & {*sampled})
        for metric in (m for m in base if label != baseline and m in figures):
            sides = base[metric], figures[metric]
            if is_sampled and metric in _COUNTED and all(map(any, sides)):
                continue
            before, after = map(median, sides)
            interval, p_value = difference_interval(*sides), rank_test(*sides)
            low, high = interval or (None, None)
            runs = len(sides[0]), len(sides[1])
            row = {"variant": label, "metric": metric, "baseline": before, "candidate": after}
            row |= {"difference": after - before, "low": low, "high": high, "p_value": p_value}
            row["percent"] = 100 * (after - before) / before if before else None
            row["is_beyond_noise"] = interval and is_beyond_noise(interval, p_value, runs)
            rows.append(row)
    return rows


def difference_parts(base: Side, candidate: Side) -> dict[str, list[dict[str, Any]]]:
    """The parts of the candidate's difference to the baseline, on each basis that both know.

    The kernels of both sides are matched in the same way.

    Returns:
        The candidate's rows of `SPLIT` by basis; `EXPOSED` first.
    """
    split: dict[str, list[dict[str, Any]]] = {}
    # Kernels are a part of the others.
    for basis in (EXPOSED, SUMS, KERNELS):
        if basis == KERNELS and split:
            break
        before = _of_runs(base, candidate.keys, GONE, basis)
        after = _of_runs(candidate, base.keys, NEW, basis)
        if not before or not after:
            continue
        typical = _typical(base, basis, before), _typical(candidate, basis, after)
        sides = {part: Sides(*(times.get(part, 0) for times in typical)) for part in ORDER}
        more = {part: side.difference_ns for part, side in sides.items()}
        # What cancels out has no shares. 0.0 makes -0.0 a plain 0.
        total = 0 if cancel([*more.values()]) else sum(more.values())
        head, split[basis] = {"variant": candidate.variant.label, "basis": basis}, []
        # Parts that neither side has are left out, but for those that say what did not change.
        for part in (part for part in ORDER if any(sides[part]) or part == COMMON):
            share = more[part] / total + 0.0 if total else None
            of_runs = ([times.get(part, 0) for times in side] for side in (before, after))
            low, high = difference_interval(*of_runs) or (None, None)
            row = head | {"part": part, "part_group": _GROUPS[part]} | sides[part]._asdict()
            ends = {"difference_ns": more[part], "share": share, "low_ns": low, "high_ns": high}
            split[basis].append(row | ends)
    return split


def _of_runs(side: Side, other_keys: frozenset[Key], alone: str, basis: str) -> list[_Times]:
    """What the time of each run that knows it went to; kernels of this side alone are called so."""
    of_runs: list[_Times] = []
    for run, kernels in side.pairs:
        times: _Times | None
        if basis == EXPOSED:
            unmatched = frozenset(
                shaped
                for key in kernels.keys() - other_keys
                if not kernels[key].is_communication
                for shaped in kernels[key].shaped
            )
            device = run.device
            times = None if device is None else exposed_unit(run.compared, device, unmatched)
        else:
            times = _sums(run, kernels, other_keys, is_whole=basis == SUMS)
        if times is not None:
            of_runs.append({alone if part == UNMATCHED else part: ns for part, ns in times.items()})
    return of_runs


def _sums(
    run: MeasuredRun, kernels: Kernels, other_keys: frozenset[Key], *, is_whole: bool
) -> _Times | None:
    """Durations added up over devices, at least of kernels; None where some may not be listed."""
    metrics = run.metrics
    needed = ("gpu_activity_ns", *COMPONENTS) if is_whole else ("kernel_ns",)
    if any(metrics.get(name) is None for name in needed):
        return None
    common = (kernel for key, kernel in kernels.items() if key in other_keys)
    matched_ns = sum(kernel.total_ns or 0 for kernel in common if not kernel.is_communication)
    communication_ns = metrics["communication_kernel_ns"]
    times = {
        COMMON: matched_ns,
        UNMATCHED: metrics["kernel_ns"] - communication_ns - matched_ns,
        COMMUNICATING: communication_ns,
    }
    if is_whole:
        rows = run.compared.profile.once(totals).to_pylist()
        groups = {row["activity_group"]: row["total_ns"] for row in rows}
        times |= {kind: groups.get(kind) or 0 for kind in TRANSFERS}
        times[LOCAL_COPIES] = metrics["local_copy_ns"]
        times[UNKNOWN_COPIES] = metrics["unknown_copy_ns"]
        times[MEMSETS] = metrics["memset_ns"]
    return per_step(times, run.compared.steps)


def _typical(side: Side, basis: str, runs: Sequence[_Times]) -> _Times:
    """The parts that add up to the figure of the verdict, the median over the runs.

    They are those of the run in the middle; of an even number, the mean of both.
    """
    in_order = sorted(runs, key=lambda times: sum(times.values()))
    first, last = in_order[(len(runs) - 1) // 2], in_order[len(runs) // 2]
    names = dict.fromkeys((*first, *last))
    totals_ns = (side.variant.median_figure(metric) for metric in _METRICS[basis])
    total_ns = next(total_ns for total_ns in totals_ns if total_ns is not None)
    sums_ns = {name: first.get(name, 0) + last.get(name, 0) for name in names}
    return scaled(sums_ns, round(total_ns))


def parts_of(rows: Sequence[Mapping[str, Any]]) -> Parts:
    """The rows of a split by part, all compute kernels as one."""
    parts: dict[str, Sides] = {}
    for row in rows:
        name = COMPUTE if row["part"].startswith(COMPUTE) else row["part"]
        before, after = parts.get(name, (0, 0))
        parts[name] = Sides(before + row["baseline_ns"], after + row["candidate_ns"])
    return parts


def difference_of(parts: Parts) -> int:
    """The whole difference in ns."""
    return sum(part.difference_ns for part in parts.values())


def cancel(differences: Sequence[int]) -> bool:
    """Whether parts of both signs cancel out, so that a share of what they leave misleads."""
    total = sum(differences)
    opposed = sum(abs(difference) for difference in differences if difference * total < 0)
    return opposed > _CANCELLING * abs(total)


def largest_part(parts: Parts) -> str | None:
    """The part that makes most of the difference; None without one, or where parts cancel."""
    if not difference_of(parts) or cancel([part.difference_ns for part in parts.values()]):
        return None
    return max(parts, key=lambda name: abs(parts[name].difference_ns))
