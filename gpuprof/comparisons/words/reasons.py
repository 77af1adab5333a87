"""What makes a difference in time: on the clock of the busiest device, or summed over devices."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gpuprof.base.labels import LABELS
from gpuprof.base.units import (
    MANYFOLD,
    capital,
    listed,
    say_growth,
    say_ns,
    say_share,
    say_signed_ns,
)
from gpuprof.comparisons.measure.causes import (
    COMPUTE,
    Parts,
    Sides,
    difference_of,
    largest_part,
    parts_of,
)
from gpuprof.comparisons.measure.difference_parts import KERNELS, SUMS
from gpuprof.comparisons.words.cases import NEW, NOTHING, REMOVED, SAME_WITHIN, Case
from gpuprof.model.derived import PEER_DEVICE_COPY, PEER_STAGED

_PART_NAMES: Final = {**LABELS, "idle": "idle time"}
# Beside communication, and on the clock, kernels are what computes.
_COMPUTE: Final = {**_PART_NAMES, COMPUTE: "compute"}
_PEERS: Final = {"PtoP", PEER_STAGED, PEER_DEVICE_COPY}
_ALMOST_ALL: Final = 0.9
_MOST: Final = 0.5
_WORTH_NAMING: Final = 0.1
_PARTS: Final = 3


def reasons(case: Case) -> str:
    """What grew and what shrank by a share worth naming, largest first, and what compute did."""
    parts = parts_of(case.parts)
    # Where next to nothing is left, parts that grew may hide behind others that shrank.
    is_small = abs(case.growth) < NOTHING
    least = NOTHING * case.baseline if is_small else _WORTH_NAMING * abs(case.difference)
    large = [name for name in _by_size(parts) if abs(parts[name].difference_ns) >= least]
    if not large:
        return ""
    shown = [name for name in large if name != COMPUTE][:_PARTS]
    compute = parts.get(COMPUTE, Sides(0, 0))
    is_same = COMPUTE not in large and abs(_growth(compute)) <= SAME_WITHIN
    named = _by_size({name: parts.get(name, compute) for name in (COMPUTE, *shown)})
    clauses = [_moved(name, parts.get(name, compute)) for name in named]
    if is_same:
        clauses = [f"compute is the same within {say_share(abs(_growth(compute)))}"]
        clauses += [_moved(name, parts[name]) for name in shown]
    share = case.candidate.get("backward_peer_share")
    have_peers_grown = any(parts[name].difference_ns > 0 for name in _PEERS.intersection(shown))
    backward = ""
    if share is not None and have_peers_grown:
        backward = f" ({say_share(share)} of the copy time between devices is in the backward pass)"
    return f": {listed(clauses)}{backward}"


def _by_size(parts: Parts) -> list[str]:
    """The names of parts, that of the largest difference first."""
    return sorted(parts, key=lambda name: -abs(parts[name].difference_ns))


def _growth(part: Sides) -> float:
    """The difference as a share of the baseline; all of it where the baseline is 0."""
    if not part.baseline_ns:
        return float(bool(part.difference_ns))
    return part.difference_ns / part.baseline_ns


def _moved(name: str, part: Sides) -> str:
    """``exposed PtoP grew by 2.000 ms``; with the growth of compute; ``(new)``, ``(removed)``."""
    exposed = "" if name in {COMPUTE, "idle"} else "exposed "
    share = f" ({say_growth(_growth(part))})" if name == COMPUTE else ""
    note = (
        f" ({NEW})" if not part.baseline_ns else f" ({REMOVED})" if not part.candidate_ns else share
    )
    size = say_ns(abs(part.difference_ns))
    verb = "grew" if part.difference_ns > 0 else "shrank"
    return f"{exposed}{_COMPUTE.get(name, name)} {verb} by {size}{note}"


def reason(case: Case) -> str:
    """``: most of the difference is PtoP``; nothing where no cause is known or worth naming."""
    has_cause = difference_of(parts_of(case.parts)) and abs(case.growth) >= NOTHING
    is_known = case.outcome.basis != KERNELS or _knows_communication(case)
    if case.is_noise or not has_cause or not is_known:
        return ""
    return f": {_cause_text(case) or _signed(case)}"


def causes_in_kernels(cases: Sequence[Case]) -> str:
    """`` Most of the difference is communication: ...``; nothing where compute alone is known."""
    with_causes = [case for case in cases if _has_cause(case) and _knows_communication(case)]
    clauses = [_cause(case, _sizes(with_causes)) for case in with_causes]
    return f" {capital('; '.join(clauses))}." if clauses else ""


def _knows_communication(case: Case) -> bool:
    """Whether anything but compute may be the cause of a difference of kernels."""
    return "communication" in parts_of(case.parts)


def _has_cause(case: Case) -> bool:
    """Whether the difference, or one of its parts that others cancel, is worth naming."""
    differences = [part.difference_ns for part in parts_of(case.parts).values()]
    is_large = max(map(abs, differences), default=0) > NOTHING * case.baseline
    return bool(case.difference and abs(case.growth) >= NOTHING) or is_large


def causes(cases: Sequence[Case]) -> str:
    """What the kernels did, then what makes each difference: one clause where all agree."""
    kernels = _kernels(cases)
    real = [case for case in cases if _has_cause(case)]
    if not real:
        return f"{kernels}, and no difference is large enough to name a cause."
    causes = {_cause_text(case) for case in real}
    if len(causes) == 1 and None not in causes:
        amounts = [f"{_amount(case, _sizes(real))} in {case.label}" for case in real]
        return f"{kernels}, and {causes.pop()}: {listed(amounts)}."
    clauses = [_cause(case, _sizes(real)) for case in real]
    return f"{kernels}{', and' if len(clauses) == 1 else ';'} {'; '.join(clauses)}."


def _kernels(cases: Sequence[Case]) -> str:
    growths = [_growth(_kernel_time(case)) for case in cases]
    are_cause = any(_has_cause(c) and _by_size(parts_of(c.parts))[0] == COMPUTE for c in cases)
    if max(map(abs, growths)) <= SAME_WITHIN and not are_cause:
        return f"Kernel time is the same within {say_share(max(map(abs, growths)))}"
    changes = [_kernel_change(_kernel_time(case)) for case in cases]
    if len(cases) == 1:
        return f"Kernel time {changes[0]}"
    clauses = [f"{text} in {case.label}" for text, case in zip(changes, cases, strict=True)]
    return f"Kernel time {listed(clauses)}"


def _kernel_time(case: Case) -> Sides:
    return Sides(case.base["kernel_ns"], case.candidate["kernel_ns"])


def _kernel_change(kernels: Sides) -> str:
    if not kernels.baseline_ns and kernels.candidate_ns:
        return "rises from 0"
    if kernels.baseline_ns and not kernels.candidate_ns:
        return "drops to 0"
    growth = _growth(kernels)
    if growth >= MANYFOLD:
        return f"is {1 + growth:,.1f} times the baseline's"
    return f"{'shrinks' if growth < 0 else 'grows'} by {say_growth(growth)}"


def _sizes(cases: Sequence[Case]) -> Callable[[int], str]:
    """How differences are written: with signs where some cases take more, and others less."""
    is_one_way = len({case.difference > 0 for case in cases}) == 1
    return (lambda ns: say_ns(abs(ns))) if is_one_way else say_signed_ns


def _cause(case: Case, say: Callable[[int], str]) -> str:
    """``most of the difference is PtoP, 3 s of 4 s in dual``; else the parts that cancel out."""
    cause = _cause_text(case)
    if cause is not None:
        return f"{cause}, {_amount(case, say)} in {case.label}"
    return f"parts of the difference cancel out in {case.label}: {_signed(case)}"


def _cause_text(case: Case) -> str | None:
    """How much of the difference one part makes; None where parts of both signs cancel out."""
    parts = parts_of(case.parts)
    name = largest_part(parts)
    if name is None:
        return None
    share = parts[name].difference_ns / difference_of(parts)
    size = "the largest part of the difference"
    if share >= _MOST:
        size = "most of the difference"
    if share >= _ALMOST_ALL:
        size = "almost all of the difference"
    return f"{size} is {_part_names(case).get(name, name)}"


def _part_names(case: Case) -> Mapping[str, str]:
    return _PART_NAMES if case.outcome.basis == SUMS else _COMPUTE


def _amount(case: Case, say: Callable[[int], str]) -> str:
    """``10.10 s of 10.84 s``, and how much all transfers make where they are not the cause."""
    parts = parts_of(case.parts)
    name, difference = largest_part(parts), difference_of(parts)
    part = 0 if name is None else parts[name].difference_ns
    of = f" of {say(difference)}" if abs(part) <= abs(difference) else ""
    transfers = [row for row in case.parts if row.part_group == "transfers"]
    moved = sum(row.difference_ns for row in transfers)
    is_besides = moved * difference > 0 and name not in {row.part for row in transfers}
    return f"{say(part)}{of}{f' (transfers: {say(moved)})' if is_besides else ''}"


def _signed(case: Case) -> str:
    """The largest parts with their signs, then the sum of the others: ``HtoD +3 ms, ...``."""
    parts, part_names = parts_of(case.parts), _part_names(case)
    shown = _worth_showing(parts)
    sizes = [f"{part_names.get(n, n)} {say_signed_ns(parts[n].difference_ns)}" for n in shown]
    others_ns = difference_of(parts) - sum(parts[name].difference_ns for name in shown)
    if others_ns and abs(others_ns) >= _WORTH_NAMING * abs(difference_of(parts)):
        sizes.append(f"other parts {say_signed_ns(others_ns)}")
    return ", ".join(sizes)


def _worth_showing(parts: Parts) -> list[str]:
    """The names of the largest parts, and of the largest that has the other sign."""
    names = _by_size(parts)
    first = parts[names[0]].difference_ns
    large = [n for n in names if abs(parts[n].difference_ns) >= _WORTH_NAMING * abs(first)]
    opposed = next((name for name in names if parts[name].difference_ns * first < 0), names[0])
    return [*large[:_PARTS], *([opposed] if opposed not in large[:_PARTS] else [])]
