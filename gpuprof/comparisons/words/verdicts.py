"""What a comparison comes to, in a sentence or two."""

from collections.abc import Mapping, Sequence
from typing import Final

from gpuprof.comparisons.judge.outcomes import COPIES, EPOCHS, IMPLIED, NONE, SAME
from gpuprof.comparisons.measure.splitting import EXPOSED, KERNELS, SUMS
from gpuprof.comparisons.words.cases import (
    Case,
    Say,
    change,
    interval,
    largest,
    listed,
    noise,
    of_epoch,
    others,
)
from gpuprof.comparisons.words.verdicts_of_time import headline_of, say_clock, say_kernels, say_sums
from gpuprof.metrics import Metrics
from gpuprof.units import format_bytes, format_count, say_ns, say_share


def verdict(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """Say how much the variants differ, how sure that is, and what makes the difference.

    What is known best comes first, and what cannot be told last.

    Args:
        baseline: Label of the variant that the others are compared with.
        cases: The candidates.
        unit: What figures are of, as in `Comparison`.
    """
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.outcome.basis, []).append(case)
    known = [basis for basis in _SAY if basis in groups]
    return " ".join(_SAY[basis](baseline, groups[basis], unit) for basis in known)


def headline(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """The verdict's core in one short line: the candidate that differs most, and why."""
    for bases in ((EXPOSED,), (SUMS,), (KERNELS,), (IMPLIED,)):
        timed = [case for case in cases if case.outcome.basis in bases]
        if timed:
            (case,) = largest(timed, 1)
            if bases == (IMPLIED,):
                said = f"{case.label} takes {change(case)} GPU time than {baseline}"
                return f"{said}, as printed shares imply"
            return headline_of(baseline, case, unit)
    counted = [case for case in cases if case.outcome.basis == COPIES]
    if counted:
        (case,) = largest(counted, 1)
        return f"In each step {_step_copies(case.label, case.found)} between devices"
    measured = [case for case in cases if case.outcome.basis == EPOCHS]
    if measured:
        (case,) = largest(measured, 1)
        return f"{case.label} takes {change(case)} per epoch than {baseline}"
    different = [case.label for case in cases if case.outcome.basis != SAME]
    return f"{baseline} and {listed(different or [case.label for case in cases])}"


def _same(baseline: str, cases: Sequence[Case], _: str) -> str:
    are = "is" if len(cases) == 1 else "are"
    labels = listed([case.label for case in cases])
    return f"{labels} {are} the same recording as {baseline}: nothing differs."


def _unknown(baseline: str, cases: Sequence[Case], _: str) -> str:
    return (
        f"{listed([case.label for case in cases])} and {baseline} have no figure in common that"
        " tells which is slower: neither the time of GPUs, their kernels or an epoch nor copies per"
        " step are known on both sides."
    )


def _epochs(baseline: str, cases: Sequence[Case], _: str) -> str:
    """Where nothing but the wall time of epochs is known on both sides."""
    named = largest(cases)
    said = listed([_of_epochs(case) for case in named])
    return (
        f"Against {baseline}, {said}{others(cases, named)}{noise(named)}."
        " What makes the difference is not known: no other figure that tells it is known on both"
        " sides."
    )


def _of_epochs(case: Case) -> str:
    if case.is_noise:
        return f"{case.label} takes the same time per epoch within noise ({interval(case)})"
    return f"{case.label} takes {change(case)} per epoch"


def _implied(baseline: str, cases: Sequence[Case], _: str) -> str:
    """From excerpts: the totals that the printed shares imply, and the peer rows listed."""
    named = largest(cases)
    more = [
        f"{case.label} takes {of_epoch(case)}{change(case)} GPU time"
        f" ({say_ns(case.outcome.candidate)})"
        for case in named
    ]
    figures = {baseline: named[0].base} | {case.label: case.found for case in named}
    said = (
        f"By the totals that the printed shares imply, against {baseline}"
        f" ({say_ns(named[0].baseline)}) {listed(more)}{others(cases, named)}"
        f"{noise(named)}. {_listed_peers(figures)}"
    )
    return said.rstrip()


def _listed_peers(figures: Mapping[str, Metrics]) -> str:
    unlisted = [label for label, side in figures.items() if side["peer_transfer_ns"] is None]
    times = [
        f"{say_ns(side['peer_transfer_ns'])} ({say_share(side['peer_share'])}) in {label}"
        for label, side in figures.items()
        if side["peer_transfer_ns"]
    ]
    if not times:
        return f"PtoP is not listed for {listed(unlisted)}." if unlisted else ""
    rest = f"; for {listed(unlisted)} it is not listed" if unlisted else ""
    return f"PtoP takes {listed(times)}{rest}."


def _per_step(baseline: str, cases: Sequence[Case], _: str) -> str:
    """From recordings that count copies between devices and cannot time them."""
    named = largest(cases)
    sides = [(baseline, named[0].base), *((case.label, case.found) for case in named)]
    counts = [_step_copies(label, found) for label, found in sides]
    behind = [part for case in named for part in _scope(case)]
    return (
        f"In each step {listed(counts)} between devices{others(cases, named)}."
        f" {listed(behind)}{'; what' if behind else 'What'} the copies would take between GPUs"
        " is not known from this recording."
    )


def _scope(case: Case) -> list[str]:
    """``99.5 % of the bytes in dual go to gradients of item_tower``."""
    found = case.found
    scope, size = found.get("largest_scope"), found.get("peer_transfer_bytes_per_step")
    if not (scope and size):
        return []
    part = say_share(found["largest_scope_bytes_per_step"] / size)
    what = "gradients" if found["largest_scope_is_gradient"] else "the forward pass"
    return [f"{part} of the bytes in {case.label} go to {what} of {scope}"]


def _step_copies(label: str, found: Metrics) -> str:
    calls = found["peer_transfer_calls_per_step"]
    if not calls:
        return f"{label} copies nothing"
    size = found.get("peer_transfer_bytes_per_step")
    moved = "an unknown amount" if size is None else format_bytes(size)
    return f"{label} copies {moved} in {format_count(calls)} {'copy' if calls == 1 else 'copies'}"


_SAY: Final[Mapping[str, Say]] = {
    EXPOSED: say_clock,
    SUMS: say_sums,
    KERNELS: say_kernels,
    IMPLIED: _implied,
    COPIES: _per_step,
    SAME: _same,
    EPOCHS: _epochs,
    NONE: _unknown,
}
