"""One candidate against the baseline: phrases that sentences share, and what makes a difference."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from gpuprof.base.labels import LABELS
from gpuprof.base.units import (
    MANYFOLD,
    NS_PER_S,
    capital,
    counted,
    format_change,
    listed,
    say_growth,
    say_ns,
    say_share,
    say_signed_ns,
)
from gpuprof.comparisons.measure.compared_kernels import CommonCalls
from gpuprof.comparisons.measure.device_time import TRANSFERS
from gpuprof.comparisons.measure.differences import (
    COMPUTE,
    KERNELS,
    SUMS,
    Parts,
    Sides,
    difference_of,
    largest_part,
)
from gpuprof.comparisons.outcomes import EPOCHS, LEAST_STEPS, UNKNOWN, WITHIN
from gpuprof.comparisons.result_tables import Outcome
from gpuprof.comparisons.variant_figures import Metrics
from gpuprof.facts.step_times import IN_THE_MEAN
from gpuprof.model.derived import PEER_DEVICE_COPY, PEER_STAGED

_NAMED: Final = 3  # Candidates that a sentence names; the table has all.
SAME_WITHIN: Final = 0.05  # Kernel times closer than this are called the same, with the figure.
PER_STEP: Final = "per step"
NEW: Final = "new"  # The baseline has none.
REMOVED: Final = "removed"  # The candidate has none.
NOTHING: Final = 0.005  # A smaller difference has no cause worth naming.


class Case(NamedTuple):
    """A candidate and the baseline.

    Args:
        label: The candidate's.
        outcome: What the comparison comes to.
        parts: The parts of the difference on the outcome's basis, compute as one.
        base: The baseline's figures, as `median_figures` gives them.
        candidate: The candidate's.
        calls: The calls of kernels that both have; None where they are not known.
        of_step: What a step is: ``per step``, or from one call of a kernel to the next.
        devices: The devices of baseline and candidate, of jobs that have different numbers of
            them; else None.
        other_kernels: The kernels that each side has alone, where they take much of one's time, as
            `other_kernels_of` gives them.
        lacking: Why idle times and sums tell nothing, see `without_idle_times`; empty where they
            do.
        usual_ns: What a step of baseline and candidate takes in the mean, where single steps of one
            of them often take longer, see `uneven_ns`; None where medians tell.
    """

    label: str
    outcome: Outcome
    parts: Parts
    base: Metrics
    candidate: Metrics
    calls: CommonCalls | None = None
    of_step: str = PER_STEP
    devices: tuple[int, int] | None = None
    other_kernels: Sequence[tuple[str, int, float]] | None = None
    lacking: str = ""
    usual_ns: tuple[int, int] | None = None

    @property
    def difference(self) -> float:
        """Candidate less baseline, in the unit of the judged metric; 0 where none is judged."""
        return self.outcome.difference or 0

    @property
    def baseline(self) -> float:
        """The judged metric of the baseline; 0 where none is judged."""
        return self.outcome.baseline or 0

    @property
    def growth(self) -> float:
        """Difference as a share of the baseline; all of it where the baseline is 0."""
        return self.difference / self.baseline if self.baseline else float(bool(self.difference))

    @property
    def is_noise(self) -> bool:
        """Whether the difference may well be chance, by the runs, or by the steps of one each."""
        certainty = self.outcome.certainty
        return WITHIN in {certainty, certainty == UNKNOWN and self.outcome.certainty_of_steps}


def largest(cases: Sequence[Case], count: int = _NAMED) -> list[Case]:
    """The few with the largest differences, in their own order."""
    chosen = sorted(cases, key=lambda case: -abs(case.difference))[:count]
    return [case for case in cases if case in chosen]


def further_cases(cases: Sequence[Case], named: Sequence[Case]) -> str:
    """``; the table lists 2 more``: the candidates that a sentence does not name."""
    count = len(cases) - len(named)
    return f"; the table lists {count} more" if count else ""


def change(case: Case) -> str:
    """``2.045 s (10.0 %, interval 8.1 to 11.9 %) more``, or that nothing differs."""
    if not case.difference and not interval(case):
        return "neither more nor less"
    shares = ", ".join(filter(None, (_share(case), interval(case))))
    unit_ns = NS_PER_S if case.outcome.basis == EPOCHS else 1
    size = say_ns(abs(case.difference) * unit_ns) + (f" ({shares})" if shares else "")
    return f"{size} {'more' if case.difference >= 0 else 'less'}"


def _share(case: Case) -> str:
    """``10.0 %``, or that all of it is new or removed."""
    if not case.baseline:
        return NEW if case.difference else ""
    return say_growth(case.growth) if case.outcome.candidate else REMOVED


def relative(case: Case) -> str:
    """``-10.0 %``, or that all of it is new or removed."""
    is_both = case.baseline and case.outcome.candidate
    return format_change(100 * case.growth) if is_both else _share(case)


def interval(case: Case, *, is_signed: bool = False) -> str:
    """``interval 8.1 to 11.9 %`` of a difference, in the direction that is said; or nothing.

    Signed: ``interval -1.5 to +0.5 %``.
    """
    low, high = case.outcome.low_percent, case.outcome.high_percent
    if low is None or high is None or not case.baseline:
        return ""
    if is_signed:
        return f"interval {low:+.1f} to {high:+.1f} %"
    low, high = (low, high) if case.difference >= 0 else (-high, -low)
    return f"interval {low:.1f} to {high:.1f} %"


def in_the_mean(case: Case) -> str:
    """What the mean of uneven steps comes to, in a sentence; empty where medians tell the same."""
    if case.usual_ns is None:
        return ""
    before_ns, after_ns = case.usual_ns
    share, more = (after_ns - before_ns) / before_ns, "more" if after_ns >= before_ns else "less"
    if abs(share - case.growth) <= SAME_WITHIN:
        return ""
    return (
        f"{IN_THE_MEAN} {case.label} takes {say_ns(abs(after_ns - before_ns))}"
        f" ({say_growth(share)}) {more} {PER_STEP}."
    )


def within_noise(case: Case) -> str:
    """``within noise (-0.5 %, interval -1.5 to +0.5 %)``."""
    figures = filter(None, (relative(case), interval(case, is_signed=True)))
    return f"within noise ({', '.join(figures)})"


def of_epoch(case: Case) -> str:
    """``2.045 s (10.0 %) more per epoch and ``; nothing where epochs are not known."""
    before, after = (side.get("seconds_per_epoch") for side in (case.base, case.candidate))
    if before is None or after is None:
        return ""
    more = "more" if after >= before else "less"
    size = say_ns(abs(after - before) * NS_PER_S)
    share = f" ({say_growth((after - before) / before)})" if before else ""
    return f"{size}{share} {more} per epoch and "


def noise(cases: Sequence[Case]) -> str:
    """``; with one run each, noise cannot be judged``; empty where all variants have repeats.

    Of one run each whose steps are timed, such as ``; median step of one run each: 2.5 to 2.6 ms
    against 2.4 ms; other runs may differ``.
    """
    unknown = [case for case in cases if case.outcome.certainty == UNKNOWN]
    if not unknown:
        return ""
    single = [case.label for case in unknown if case.candidate.get("runs", 1) == 1]
    if not single:
        return "; with one run of the baseline, noise cannot be judged"
    if len(single) < len(cases) or cases[0].base.get("runs", 1) > 1:
        return f"; with one run of {listed(single)}, noise cannot be judged"
    outcomes = [case.outcome for case in unknown]
    are_timed = all(outcome.baseline_steps is not None for outcome in outcomes)
    if not are_timed or any(outcome.certainty_of_steps is None for outcome in outcomes):
        counts = [outcomes[0].baseline_steps, *(outcome.candidate_steps for outcome in outcomes)]
        few = min(filter(None, counts), default=0)
        is_few = are_timed and few < LEAST_STEPS
        runs = f"one run of {counted(few, 'step', 'steps')}" if is_few else "one run each"
        return f"; with {runs}, noise cannot be judged"
    ends = [(outcomes[0].baseline_low_ns, outcomes[0].baseline_high_ns)]
    ends += [(outcome.candidate_low_ns, outcome.candidate_high_ns) for outcome in outcomes]
    spreads = []
    for low, high in (map(say_ns, of_side) for of_side in ends):
        # The unit stands once, and one figure where both are written alike.
        number, unit = low.split(" ")
        first_end = number if high.endswith(f" {unit}") else low
        spreads.append(low if low == high else f"{first_end} to {high}")
    of_cases, of_base = listed(spreads[1:]), spreads[0]
    return f"; median step of one run each: {of_cases} against {of_base}; other runs may differ"


_PART_NAMES: Final = {**LABELS, "idle": "idle time"}
# Beside communication, and on the clock, kernels are what computes.
_COMPUTE: Final = {**_PART_NAMES, COMPUTE: "compute"}
_PEERS: Final = {"PtoP", PEER_STAGED, PEER_DEVICE_COPY}
_COMMUNICATION: Final = "communication"
_ALMOST_ALL: Final = 0.9
_MOST: Final = 0.5
_WORTH_NAMING: Final = 0.1
_PARTS: Final = 3


def reasons(case: Case) -> str:
    """What grew and what shrank by a share worth naming, largest first, and what compute did."""
    parts = case.parts
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
    parts = case.parts
    has_cause = difference_of(parts) and abs(case.growth) >= NOTHING
    is_known = case.outcome.basis != KERNELS or _COMMUNICATION in parts
    if case.is_noise or not has_cause or not is_known:
        return ""
    return f": {_cause_text(case) or _signed(case)}"


def causes_in_kernels(cases: Sequence[Case]) -> str:
    """`` Most of the difference is communication: ...``; nothing where compute alone is known."""
    explained = [case for case in cases if _has_cause(case) and _COMMUNICATION in case.parts]
    clauses = [_cause(case, _sizes(explained)) for case in explained]
    return f" {capital('; '.join(clauses))}." if clauses else ""


def _has_cause(case: Case) -> bool:
    """Whether the difference, or one of its parts that others cancel, is worth naming."""
    differences = [part.difference_ns for part in case.parts.values()]
    is_large = max(map(abs, differences), default=0) > NOTHING * case.baseline
    return bool(case.difference and abs(case.growth) >= NOTHING) or is_large


def causes(cases: Sequence[Case]) -> str:
    """What the kernels did, then what makes each difference: one clause where all agree."""
    real = [case for case in cases if _has_cause(case)]
    are_cause = any(_by_size(case.parts)[0] == COMPUTE for case in real)
    times = {c.label: Sides(c.base["kernel_ns"], c.candidate["kernel_ns"]) for c in cases}
    growths = {label: _growth(of_case) for label, of_case in times.items()}
    changes = []
    for label, growth in growths.items():
        text = f"{'shrinks' if growth < 0 else 'grows'} by {say_growth(growth)}"
        if growth >= MANYFOLD:
            text = f"is {1 + growth:,.1f} times the baseline's"
        if not all(times[label]) and any(times[label]):
            text = "drops to 0" if times[label].baseline_ns else "rises from 0"
        changes.append(text if len(cases) == 1 else f"{text} in {label}")
    kernels, most = f"Kernel time {listed(changes)}", max(map(abs, growths.values()))
    if most <= SAME_WITHIN and not are_cause:
        kernels = f"Kernel time is the same within {say_share(most)}"
    if not real:
        return f"{kernels}, and no difference is large enough to name a cause."
    causes = {_cause_text(case) for case in real}
    if len(causes) == 1 and None not in causes:
        amounts = [f"{_amount(case, _sizes(real))} in {case.label}" for case in real]
        return f"{kernels}, and {causes.pop()}: {listed(amounts)}."
    clauses = [_cause(case, _sizes(real)) for case in real]
    return f"{kernels}{', and' if len(clauses) == 1 else ';'} {'; '.join(clauses)}."


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
    parts = case.parts
    name = largest_part(parts)
    if name is None:
        return None
    share = parts[name].difference_ns / difference_of(parts)
    size = "the largest part of the difference"
    if share >= _MOST:
        size = "most of the difference"
    if share >= _ALMOST_ALL:
        size = "almost all of the difference"
    return f"{size} is {_names_of(case).get(name, name)}"


def _names_of(case: Case) -> Mapping[str, str]:
    return _PART_NAMES if case.outcome.basis == SUMS else _COMPUTE


def _amount(case: Case, say: Callable[[int], str]) -> str:
    """``10.10 s of 10.84 s``, and how much all transfers make where they are not the cause."""
    parts = case.parts
    name, difference = largest_part(parts), difference_of(parts)
    part = 0 if name is None else parts[name].difference_ns
    of = f" of {say(difference)}" if abs(part) <= abs(difference) else ""
    transfers = [parts[kind] for kind in TRANSFERS if kind in parts]
    moved = sum(transfer.difference_ns for transfer in transfers)
    is_besides = moved * difference > 0 and name not in TRANSFERS
    return f"{say(part)}{of}{f' (transfers: {say(moved)})' if is_besides else ''}"


def _signed(case: Case) -> str:
    """The largest parts with their signs, then the sum of the others: ``HtoD +3 ms, ...``."""
    parts, part_names = case.parts, _names_of(case)
    names = _by_size(parts)
    first_ns, all_ns = parts[names[0]].difference_ns, difference_of(parts)
    least_ns = _WORTH_NAMING * abs(first_ns)
    shown = [name for name in names if abs(parts[name].difference_ns) >= least_ns][:_PARTS]
    # Of those that have the other sign, the largest one is always named.
    opposed = next((name for name in names if parts[name].difference_ns * first_ns < 0), names[0])
    shown += [opposed] if opposed not in shown else []
    sizes = [f"{part_names.get(n, n)} {say_signed_ns(parts[n].difference_ns)}" for n in shown]
    others_ns = all_ns - sum(parts[name].difference_ns for name in shown)
    if others_ns and abs(others_ns) >= _WORTH_NAMING * abs(all_ns):
        sizes.append(f"other parts {say_signed_ns(others_ns)}")
    return ", ".join(sizes)
