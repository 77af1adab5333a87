"""What a comparison comes to, in a sentence or two."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gpuprof.comparisons.judge.outcomes import COPIES, EPOCHS, IMPLIED, NONE, SAME
from gpuprof.comparisons.measure.splitting import EXPOSED, KERNELS, SUMS
from gpuprof.comparisons.measure.work import STEP
from gpuprof.comparisons.words.cases import (
    Case,
    change,
    interval,
    largest,
    listed,
    noise,
    of_epoch,
    others,
    relative,
    signed_interval,
)
from gpuprof.comparisons.words.reasons import causes, causes_in_kernels, reason, reasons
from gpuprof.metrics import Metrics
from gpuprof.units import format_bytes, format_count, say_ns, say_share

# What is summed up, by basis.
_TIMES: Final = {SUMS: "GPU time", KERNELS: "kernel time"}


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
    for basis in (EXPOSED, SUMS, KERNELS, IMPLIED, COPIES, EPOCHS):
        judged = [case for case in cases if case.outcome.basis == basis]
        if not judged:
            continue
        (case,) = largest(judged, 1)
        if basis == COPIES:
            return f"In each step {_step_copies(case.label, case.found)} between devices"
        if basis == EPOCHS:
            return f"{case.label} takes {change(case)} per epoch than {baseline}"
        if basis == IMPLIED:
            said = f"{case.label} takes {change(case)} GPU time than {baseline}"
            return f"{said}, as printed shares imply"
        what = f" {_TIMES[basis]}" if basis in _TIMES else ""
        per = " per step" if unit == STEP else ""
        return f"{case.label} takes {change(case)}{what}{per} than {baseline}{reason(case)}"
    different = [case.label for case in cases if case.outcome.basis != SAME]
    return f"{baseline} and {listed(different or [case.label for case in cases])}"


def _clock(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against single, dual takes 2 ms (10.0 %) more per step: compute is the same, ...``."""
    named = largest(cases)
    clauses = [_on_the_clock(case, unit) for case in named]
    return f"Against {baseline}, {'; '.join(clauses)}{others(cases, named)}{noise(named)}."


def _on_the_clock(case: Case, unit: str) -> str:
    per = " per step" if unit == STEP else " on its busiest device"
    if case.is_noise:
        return f"{case.label} takes the same time{per} within noise ({_noise(case)})"
    return f"{case.label} takes {of_epoch(case)}{change(case)}{per}{reasons(case)}"


def _noise(case: Case) -> str:
    return ", ".join(filter(None, (relative(case), signed_interval(case))))


def _sums(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against single, dual takes 10.84 s (27.5 %) more GPU time. Kernel time is the same``."""
    real = [case for case in largest(cases) if not case.is_noise]
    return _of_sums(baseline, cases, unit) + (f" {causes(real)}" if real else "")


def _kernels(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against a, b takes 2 s (5.6 %) more kernel time. Most of it is communication: ...``."""
    real = [case for case in largest(cases) if not case.is_noise]
    said = _of_sums(baseline, cases, unit) + causes_in_kernels(real)
    return f"{said} What copies take is not known on both sides."


def _of_sums(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """How much more or less time the candidates take that differ most."""
    named = largest(cases)
    more = listed([_of_sum(case, unit) for case in named])
    return f"Against {baseline}, {more}{others(cases, named)}{noise(named)}."


def _of_sum(case: Case, unit: str) -> str:
    what = _TIMES[case.outcome.basis] + (" a step" if unit == STEP else "")
    if case.is_noise:
        return f"{case.label} takes the same {what} within noise ({_noise(case)})"
    return f"{case.label} takes {of_epoch(case)}{change(case)} {what}"


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


_SAY: Final[Mapping[str, Callable[[str, Sequence[Case], str], str]]] = {
    EXPOSED: _clock,
    SUMS: _sums,
    KERNELS: _kernels,
    IMPLIED: _implied,
    COPIES: _per_step,
    SAME: _same,
    EPOCHS: _epochs,
    NONE: _unknown,
}
