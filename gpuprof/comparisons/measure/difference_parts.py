"""The difference of two runs, part by part, without remainder: what grew, and what shrank.

The same work takes kernels that both sides have; what is added or saved is kernels of one side
alone, communication, transfers by kind, local copies, memsets and waiting.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gpuprof.analyses.totals.totals import totals
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
from gpuprof.comparisons.measure.matching import Kernels
from gpuprof.comparisons.measure.runs import MeasuredRun
from gpuprof.comparisons.rows import DifferencePart
from gpuprof.statistics import difference_interval
from gpuprof.variant_figures import COMPONENTS

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

Times = Mapping[str, int]
# Basis -> the parts of every run; the first is that of the median run.
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
    before = _of_runs(base, candidate.median, GONE, bases)
    after = _of_runs(candidate, base.median, NEW, bases)
    name = candidate.variant.label
    return {b: _parts((name, b), before[b], after[b]) for b in bases if b in before and b in after}


def _of_runs(side: Side, other_kernels: Kernels, alone: str, bases: Sequence[str]) -> _TimesOfRuns:
    """What the time of each run went to; kernels that the others side lacks are called so."""
    # The median run first.
    runs = sorted(side.pairs, key=lambda pair: pair[0] is not side.run)
    times_of = {basis: [_TIMES[basis](run, k, other_kernels) for run, k in runs] for basis in bases}
    return {
        basis: [
            {alone if part == UNMATCHED else part: ns for part, ns in times.items()}
            for times in of_runs
            if times is not None
        ]
        for basis, of_runs in times_of.items()
        if of_runs[0] is not None
    }


def _unmatched(kernels: Kernels, other_kernels: Kernels) -> frozenset[int]:
    """The numbers of the compute kernels that the others side lacks."""
    return frozenset(
        number
        for key in kernels.keys() - other_kernels.keys()
        if not kernels[key].is_communication
        for number in kernels[key].keys
    )


def _exposed(run: MeasuredRun, kernels: Kernels, other_kernels: Kernels) -> Times | None:
    """What the time of the busiest device went to; None where no times are recorded."""
    if run.device is None:
        return None
    return exposed_unit(run.compared, run.device, _unmatched(kernels, other_kernels))


def _sums(run: MeasuredRun, kernels: Kernels, other_kernels: Kernels) -> Times | None:
    """Durations added up over devices; None where the recording may lack a part of them."""
    metrics = run.metrics
    if any(metrics.get(name) is None for name in ("gpu_activity_ns", *COMPONENTS)):
        return None
    groups = {
        row["activity_group"]: row["total_ns"]
        for row in run.compared.profile.once(totals).to_pylist()
    }
    times = {
        **_kernel_times(run, kernels, other_kernels),
        **{kind: groups.get(kind) or 0 for kind in TRANSFERS},
        LOCAL_COPIES: metrics["local_copy_ns"],
        UNKNOWN_COPIES: metrics["unknown_copy_ns"],
        MEMSETS: metrics["memset_ns"],
    }
    return per_step(times, run.compared.steps)


def _kernel_sums(run: MeasuredRun, kernels: Kernels, other_kernels: Kernels) -> Times | None:
    """The same of kernels alone; None where some of them may not be listed."""
    if run.metrics.get("kernel_ns") is None:
        return None
    return per_step(_kernel_times(run, kernels, other_kernels), run.compared.steps)


def _kernel_times(run: MeasuredRun, kernels: Kernels, other_kernels: Kernels) -> dict[str, int]:
    communication_ns = run.metrics["communication_kernel_ns"]
    common = (kernel for key, kernel in kernels.items() if key in other_kernels)
    matched = [kernel.total_ns or 0 for kernel in common if not kernel.is_communication]
    return {
        COMMON: sum(matched),
        UNMATCHED: run.metrics["kernel_ns"] - communication_ns - sum(matched),
        COMMUNICATING: communication_ns,
    }


_TIMES: Final[Mapping[str, Callable[[MeasuredRun, Kernels, Kernels], Times | None]]] = {
    EXPOSED: _exposed,
    SUMS: _sums,
    KERNELS: _kernel_sums,
}


def _parts(
    named: tuple[str, str], base: Sequence[Times], candidate: Sequence[Times]
) -> list[DifferencePart]:
    """Parts that neither side has are left out, but for those that say what did not change."""
    sides = {p: [[times.get(p, 0) for times in runs] for runs in (base, candidate)] for p in ORDER}
    more = {part: after[0] - before[0] for part, (before, after) in sides.items()}
    # What cancels out has no shares. 0.0 makes -0.0 a plain 0.
    total = 0 if cancel([*more.values()]) else sum(more.values())
    shares = {part: ns / total + 0.0 if total else None for part, ns in more.items()}
    return [
        DifferencePart(
            *named, part, _GROUPS[part], before[0], after[0], more[part], shares[part], low, high
        )
        for part, (before, after) in sides.items()
        if before[0] or after[0] or part == COMMON
        for low, high in [difference_interval(before, after) or (None, None)]
    ]
