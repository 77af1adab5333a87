"""The difference of two runs, part by part, without remainder: what grew, and what shrank.

The same work takes kernels that both sides have; what is added or saved is kernels of one side
alone, communication, transfers by kind, local copies, memsets and waiting.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuprof.analyses.totals import totals
from gpuprof.comparisons.exposure import (
    COMMON,
    COMMUNICATING,
    GRAPHS,
    IDLE,
    LOCAL_COPIES,
    MEMSETS,
    PARTS,
    TRANSFERS,
    UNKNOWN_COPIES,
    UNMATCHED,
    exposed_times,
    per_step,
)
from gpuprof.comparisons.matching import Kernels
from gpuprof.comparisons.runs import Run
from gpuprof.metrics import COMPONENTS

EXPOSED: Final = "exposed"
SUMS: Final = "sums"
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


def split(
    runs: tuple[Run, Run], kernels: tuple[Kernels, Kernels]
) -> dict[str, list[dict[str, Any]]]:
    """The parts of the candidate's difference to the baseline, on each basis that both know.

    Args:
        runs: The baseline's run and the candidate's.
        kernels: Their kernels, matched in the same way.

    Returns:
        Basis -> rows as in `SPLIT`, the variant's name not; `EXPOSED` first.
    """
    unmatched = _unmatched(kernels)
    sides = {
        EXPOSED: [_exposed(run, keys) for run, keys in zip(runs, unmatched, strict=True)],
        SUMS: [_sums(run, own, other) for run, own, other in _each(runs, kernels)],
    }
    return {
        basis: _rows(basis, base, candidate)
        for basis, (base, candidate) in sides.items()
        if base is not None and candidate is not None
    }


def _each(
    runs: tuple[Run, Run], kernels: tuple[Kernels, Kernels]
) -> list[tuple[Run, Kernels, Kernels]]:
    return [(runs[0], kernels[0], kernels[1]), (runs[1], kernels[1], kernels[0])]


def _unmatched(kernels: tuple[Kernels, Kernels]) -> list[frozenset[int]]:
    """The numbers of the compute kernels that the other side lacks, of both sides."""
    return [
        frozenset(
            number
            for key in own.keys() - other.keys()
            if not own[key].is_communication
            for number in own[key].keys
        )
        for own, other in (kernels, kernels[::-1])
    ]


def _exposed(run: Run, unmatched: frozenset[int]) -> Times | None:
    if run.device is None:
        return None
    steps = run.device.steps
    times = exposed_times(run.work, run.device, unmatched)
    # What steps there are is known by number alone where epochs were marked.
    return per_step(times, run.work.steps if steps is None else len(steps.start_ns))


def _sums(run: Run, own: Kernels, other: Kernels) -> Times | None:
    """Durations added up over devices; None where the recording may lack a part of them."""
    found = run.found
    if any(found.get(name) is None for name in ("gpu_activity_ns", *COMPONENTS)):
        return None
    talking = found["communication_kernel_ns"]
    matched = [k.total_ns or 0 for key, k in own.items() if key in other and not k.is_communication]
    groups = {
        row["activity_group"]: row["total_ns"] for row in run.work.profile.once(totals).to_pylist()
    }
    times = {
        COMMON: sum(matched),
        UNMATCHED: found["kernel_ns"] - talking - sum(matched),
        COMMUNICATING: talking,
        **{kind: groups.get(kind) or 0 for kind in TRANSFERS},
        LOCAL_COPIES: found["local_copy_ns"],
        UNKNOWN_COPIES: found["unknown_copy_ns"],
        MEMSETS: found["memset_ns"],
    }
    return per_step(times, run.work.steps)


def _rows(basis: str, base: Times, candidate: Times) -> list[dict[str, Any]]:
    """Parts that neither side has are left out, but for those that say what did not change."""
    sides = _named(base, candidate)
    whole = sum(after - before for before, after in sides.values())
    return [
        {
            "basis": basis,
            "part": part,
            "part_group": _GROUPS[part],
            "baseline_ns": before,
            "candidate_ns": after,
            "difference_ns": after - before,
            "share": (after - before) / whole if whole else None,
        }
        for part, (before, after) in sides.items()
        if before or after or part == COMMON
    ]


def _named(base: Times, candidate: Times) -> dict[str, tuple[int, int]]:
    """Both sides of each part; kernels without a match are gone of one, new of the other."""
    named: dict[str, tuple[int, int]] = {}
    for part in (*PARTS, IDLE):
        before, after = base.get(part, 0), candidate.get(part, 0)
        if part == UNMATCHED:
            named |= {NEW: (0, after), GONE: (before, 0)}
        else:
            named[part] = (before, after)
    return named
