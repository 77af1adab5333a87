"""The difference of two runs, part by part, without remainder: what grew, and what shrank.

The same work takes kernels that both sides have; what is added or saved is kernels of one side
alone, communication, transfers by kind, local copies, memsets and waiting.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gpuprof.analyses.totals import totals
from gpuprof.base.statistics import difference_interval, scaled
from gpuprof.comparisons.measure.causes import cancel
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
from gpuprof.comparisons.measure.kernels import Side
from gpuprof.comparisons.measure.matching import Kernels, Key, Shaped
from gpuprof.comparisons.measure.runs import MeasuredRun
from gpuprof.comparisons.rows import DifferencePart
from gpuprof.comparisons.variant_figures import COMPONENTS

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

Times = Mapping[str, int]
# Basis -> the parts of every run that knows them.
_TimesOfRuns = Mapping[str, Sequence[Times]]


def difference_parts(base: Side, candidate: Side) -> dict[str, list[DifferencePart]]:
    """The parts of the candidate's difference to the baseline, on each basis that both know.

    Args:
        base: The baseline's runs with their kernels.
        candidate: The candidate's, matched in the same way.

    Returns:
        The candidate's rows of `SPLIT` by basis; `EXPOSED` first.
    """
    # Kernels are a part of the others.
    return _split(base, candidate, (EXPOSED, SUMS)) or _split(base, candidate, (KERNELS,))


def _split(base: Side, candidate: Side, bases: Sequence[str]) -> dict[str, list[DifferencePart]]:
    before = _of_runs(base, candidate.keys, GONE, bases)
    after = _of_runs(candidate, base.keys, NEW, bases)
    name = candidate.variant.label
    return {
        basis: _parts(
            (name, basis),
            (before[basis], after[basis]),
            (_typical(base, basis, before[basis]), _typical(candidate, basis, after[basis])),
        )
        for basis in bases
        if before[basis] and after[basis]
    }


def _of_runs(
    side: Side, other_keys: frozenset[Key], alone: str, bases: Sequence[str]
) -> _TimesOfRuns:
    """What the time of each run went to; kernels that the other side lacks are called so."""
    times_of = {
        basis: [_TIMES[basis](run, kernels, other_keys) for run, kernels in side.pairs]
        for basis in bases
    }
    return {
        basis: [
            {alone if part == UNMATCHED else part: ns for part, ns in times.items()}
            for times in of_runs
            if times is not None
        ]
        for basis, of_runs in times_of.items()
    }


def _typical(side: Side, basis: str, runs: Sequence[Times]) -> Times:
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


def _unmatched(kernels: Kernels, other_keys: frozenset[Key]) -> frozenset[Shaped]:
    """The compute kernels that the other side lacks, as its recording has them."""
    return frozenset(
        shaped
        for key in kernels.keys() - other_keys
        if not kernels[key].is_communication
        for shaped in kernels[key].shaped
    )


def _exposed(run: MeasuredRun, kernels: Kernels, other_keys: frozenset[Key]) -> Times | None:
    """What the time of the busiest device went to; None where no times are recorded."""
    if run.device is None:
        return None
    return exposed_unit(run.compared, run.device, _unmatched(kernels, other_keys))


def _sums(run: MeasuredRun, kernels: Kernels, other_keys: frozenset[Key]) -> Times | None:
    """Durations added up over devices; None where the recording may lack a part of them."""
    metrics = run.metrics
    if any(metrics.get(name) is None for name in ("gpu_activity_ns", *COMPONENTS)):
        return None
    groups = {
        row["activity_group"]: row["total_ns"]
        for row in run.compared.profile.once(totals).to_pylist()
    }
    times = {
        **_kernel_times(run, kernels, other_keys),
        **{kind: groups.get(kind) or 0 for kind in TRANSFERS},
        LOCAL_COPIES: metrics["local_copy_ns"],
        UNKNOWN_COPIES: metrics["unknown_copy_ns"],
        MEMSETS: metrics["memset_ns"],
    }
    return per_step(times, run.compared.steps)


def _kernel_sums(run: MeasuredRun, kernels: Kernels, other_keys: frozenset[Key]) -> Times | None:
    """The same of kernels alone; None where some of them may not be listed."""
    if run.metrics.get("kernel_ns") is None:
        return None
    return per_step(_kernel_times(run, kernels, other_keys), run.compared.steps)


def _kernel_times(run: MeasuredRun, kernels: Kernels, other_keys: frozenset[Key]) -> dict[str, int]:
    communication_ns = run.metrics["communication_kernel_ns"]
    common = (kernel for key, kernel in kernels.items() if key in other_keys)
    matched = [kernel.total_ns or 0 for kernel in common if not kernel.is_communication]
    return {
        COMMON: sum(matched),
        UNMATCHED: run.metrics["kernel_ns"] - communication_ns - sum(matched),
        COMMUNICATING: communication_ns,
    }


_TIMES: Final[Mapping[str, Callable[[MeasuredRun, Kernels, frozenset[Key]], Times | None]]] = {
    EXPOSED: _exposed,
    SUMS: _sums,
    KERNELS: _kernel_sums,
}


def _parts(
    named: tuple[str, str],
    runs: tuple[Sequence[Times], Sequence[Times]],
    typical: tuple[Times, Times],
) -> list[DifferencePart]:
    """Parts that neither side has are left out, but for those that say what did not change."""
    sides = {part: [times.get(part, 0) for times in typical] for part in ORDER}
    more = {part: after - before for part, (before, after) in sides.items()}
    # What cancels out has no shares. 0.0 makes -0.0 a plain 0.
    total = 0 if cancel([*more.values()]) else sum(more.values())
    shares = {part: ns / total + 0.0 if total else None for part, ns in more.items()}
    return [
        DifferencePart(
            *named, part, _GROUPS[part], before, after, more[part], shares[part], low, high
        )
        for part, (before, after) in sides.items()
        if before or after or part == COMMON
        for of_part in [[[times.get(part, 0) for times in side] for side in runs]]
        for low, high in [difference_interval(*of_part) or (None, None)]
    ]
