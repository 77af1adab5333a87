"""Sentences on time: on the clock of the busiest device, or summed over devices."""

from collections.abc import Sequence
from typing import Final

from gpuprof.analyses.movement import PEER_DEVICE_COPY, PEER_STAGED
from gpuprof.comparisons.cases import (
    NOTHING,
    SAME,
    Case,
    Row,
    capital,
    change,
    interval,
    largest,
    listed,
    noise,
    of_epoch,
    others,
)
from gpuprof.comparisons.work import STEP
from gpuprof.units import say_growth, say_ns, say_share

WORDS: Final = {
    "kernels": "kernels",
    "graphs": "CUDA graphs",
    "communication": "communication",
    "PtoP_staged": "PtoP through the host",
    "DtoD_peer": "DtoD between devices",
    "local_copies": "local copies",
    "unknown_copies": "copies of unknown kind",
    "memsets": "memsets",
    "idle": "idle time",
    **{f"UVM_{ends}": f"migrations {ends}" for ends in ("HtoD", "DtoH", "DtoD")},
}
# What is summed up, by basis.
_TIMES: Final = {"sums": "GPU time", "kernels": "kernel time"}
_PEERS: Final = {"PtoP", PEER_STAGED, PEER_DEVICE_COPY}
_PRACTICALLY_ALL: Final = 0.9
_MOST: Final = 0.5
_WORTH_NAMING: Final = 0.1
_PARTS: Final = 3

Amounts = dict[str, int]


def say_clock(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against single, dual takes 2 ms (10.0 %) more per step: kernels are the same, ...``."""
    named = largest(cases)
    parts = [_on_the_clock(case, unit) for case in named]
    return f"Against {baseline}, {'; '.join(parts)}{others(cases, named)}{noise(named)}."


def _on_the_clock(case: Case, unit: str) -> str:
    per = " per step" if unit == STEP else " on its busiest device"
    if case.is_noise:
        return f"{case.label} takes the same time{per} within noise ({_noise(case)})"
    return f"{case.label} takes {of_epoch(case)}{change(case)}{per}{_reasons(case)}"


def _noise(case: Case) -> str:
    return f"{case.growth * 100:+.1f} %, {interval(case)}"


def _reasons(case: Case) -> str:
    """What kernels did, and the parts that grew or shrank by a share worth naming."""
    amounts = _amounts(case.parts)
    # Where next to nothing is left, parts that grew may hide behind others that shrank.
    is_small = abs(case.growth) < NOTHING
    least = NOTHING * case.outcome["baseline"] if is_small else _WORTH_NAMING * abs(case.difference)
    if all(abs(amount) < least for amount in amounts.values()):
        return ""
    kernels = amounts.pop("kernels", 0)
    before = sum(r["baseline_ns"] for r in case.parts if r["part_group"] == "kernels")
    chosen = sorted(amounts, key=lambda part: -abs(amounts[part]))[:_PARTS]
    said = [_moved(part, amounts[part]) for part in chosen if abs(amounts[part]) >= least]
    grown = [part for part in chosen if amounts[part] >= least]
    return f": {listed([_kernels_of(kernels, before, least), *said])}{_backward(case, grown)}"


def _backward(case: Case, grown: Sequence[str]) -> str:
    """How much of the copies between devices the backward pass makes, where that grew."""
    share = case.found.get("backward_peer_share")
    if share is None or not {*grown} & _PEERS:
        return ""
    return f" ({say_share(share)} of the time of copies between devices is of the backward pass)"


def _kernels_of(difference: int, before: int, least: float) -> str:
    growth = difference / before if before else float(bool(difference))
    if abs(growth) <= SAME and abs(difference) < least:
        return f"compute is the same within {say_share(abs(growth))}"
    share = f" ({say_growth(growth)})" if before else ""
    return f"{_moved('kernels', difference)}{share}"


def _moved(part: str, amount: int) -> str:
    word = "compute" if part == "kernels" else WORDS.get(part, part)
    exposed = "" if part in {"kernels", "idle"} else "exposed "
    return f"{exposed}{word} {'grew' if amount > 0 else 'shrank'} by {say_ns(abs(amount))}"


def _amounts(parts: Sequence[Row]) -> Amounts:
    """Differences by part, all compute kernels as one."""
    found: Amounts = {}
    for row in parts:
        name = "kernels" if row["part"].startswith("kernels") else row["part"]
        found[name] = found.get(name, 0) + row["difference_ns"]
    return found


def say_sums(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against single, dual takes 10.84 s (27.5 %) more GPU time. Kernel time is the same``."""
    named = largest(cases)
    more = listed([_of_sums(case, unit) for case in named])
    first = f"Against {baseline}, {more}{others(cases, named)}{noise(named)}."
    real = [case for case in named if not case.is_noise]
    return f"{first} {_causes(real)}" if real else first


def _of_sums(case: Case, unit: str) -> str:
    what = _TIMES[case.outcome["basis"]] + (" a step" if unit == STEP else "")
    if case.is_noise:
        return f"{case.label} takes the same {what} within noise ({_noise(case)})"
    return f"{case.label} takes {of_epoch(case)}{change(case)} {what}"


def say_kernels(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against a, b takes 2 s (5.6 %) more kernel time. Most of it is communication: ...``."""
    named = largest(cases)
    more = listed([_of_sums(case, unit) for case in named])
    first = f"Against {baseline}, {more}{others(cases, named)}{noise(named)}."
    causes = [_of_kernels(case) for case in named if not case.is_noise and _has_causes(case)]
    said = f" {capital('; '.join(causes))}." if causes else ""
    return f"{first}{said} What copies take is not known on both sides."


def _has_causes(case: Case) -> bool:
    """Whether there is a difference of note, and communication that may be its cause."""
    return abs(case.growth) >= NOTHING and "communication" in _amounts(case.parts)


def _of_kernels(case: Case) -> str:
    size, top = cause(case)
    amounts = _amounts(case.parts)
    of = f"{say_ns(abs(amounts[top]))} of {say_ns(abs(sum(amounts.values())))}"
    return f"{size} is {'compute' if top == 'kernels' else _word(top)}, {of} in {case.label}"


def _causes(cases: Sequence[Case]) -> str:
    """What the kernels did, then what makes each difference: one clause where all agree."""
    kernels = _kernels(cases)
    real = [case for case in cases if abs(case.growth) >= NOTHING]
    if not real:
        return f"{kernels}, and no difference is large enough to name its cause."
    causes = {case.label: cause(case) for case in real}
    amounts = [f"{_amount(case)} in {case.label}" for case in real]
    if len(set(causes.values())) == 1:
        size, top = causes[real[0].label]
        return f"{kernels}, and {size} is {_word(top)}: {listed(amounts)}."
    parts = [
        f"{causes[case.label][0]} is {_word(causes[case.label][1])}, {amount}"
        for case, amount in zip(real, amounts, strict=True)
    ]
    return f"{kernels}; {'; '.join(parts)}."


def _word(part: str) -> str:
    return WORDS.get(part, part)


def _kernels(cases: Sequence[Case]) -> str:
    growths = [_kernel_growth(case) for case in cases]
    if max(map(abs, growths)) <= SAME:
        return f"Kernel time is the same within {say_share(max(map(abs, growths)))}"
    return f"Kernel time changes by {listed([f'{growth * 100:+.1f} %' for growth in growths])}"


def _kernel_growth(case: Case) -> float:
    before, after = case.base["kernel_ns"], case.found["kernel_ns"]
    return (after - before) / before if before else float(bool(after))


def cause(case: Case) -> tuple[str, str]:
    """How much of the difference one part makes, in words, and which it is."""
    amounts = _amounts(case.parts)
    whole = sum(amounts.values())
    top = max(amounts, key=lambda part: amounts[part] / whole)
    share = amounts[top] / whole
    if share >= _PRACTICALLY_ALL:
        return "practically the whole difference", top
    return ("most" if share >= _MOST else "the largest part") + " of the difference", top


def _amount(case: Case) -> str:
    """``10.10 s of 10.84 s``, and how much all transfers make where they are not the cause."""
    amounts = _amounts(case.parts)
    top, whole = cause(case)[1], sum(amounts.values())
    said = f"{say_ns(abs(amounts[top]))} of {say_ns(abs(whole))}"
    moved = [row for row in case.parts if row["part_group"] == "transfers"]
    if top in {row["part"] for row in moved}:
        return said
    return f"{said} (transfers: {say_ns(sum(row['difference_ns'] for row in moved))})"


def headline_of(baseline: str, case: Case, unit: str) -> str:
    """``dual takes 10.84 s (27.5 %) more GPU time than single: most is PtoP``."""
    what = f" {_TIMES[case.outcome['basis']]}" if case.outcome["basis"] in _TIMES else ""
    per = " per step" if unit == STEP else ""
    first = f"{case.label} takes {change(case)}{what}{per} than {baseline}"
    if case.is_noise or abs(case.growth) < NOTHING or not sum(_amounts(case.parts).values()):
        return first
    size, top = cause(case)
    return f"{first}: {size} is {_word(top)}"
