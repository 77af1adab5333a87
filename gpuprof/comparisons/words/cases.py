"""One candidate against the baseline, and the phrases that several sentences share."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpuprof.base.units import NS_PER_S, counted, format_change, listed, say_growth, say_ns
from gpuprof.comparisons.measure.compared_kernels import CommonCalls
from gpuprof.comparisons.measure.differences import Parts
from gpuprof.comparisons.outcomes import EPOCHS, LEAST_STEPS, UNKNOWN, WITHIN
from gpuprof.comparisons.result_tables import Outcome
from gpuprof.comparisons.variant_figures import Metrics

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
    """``; with one run each, noise cannot be judged``; empty where all variants have repeats."""
    unknown = [case for case in cases if case.outcome.certainty == UNKNOWN]
    if not unknown:
        return ""
    single = [case.label for case in unknown if case.candidate.get("runs", 1) == 1]
    if not single:
        return "; with one run of the baseline, noise cannot be judged"
    if len(single) == len(cases) and cases[0].base.get("runs", 1) == 1:
        return _of_steps(unknown) or "; with one run each, noise cannot be judged"
    return f"; with one run of {listed(single)}, noise cannot be judged"


def _of_steps(cases: Sequence[Case]) -> str:
    """``; median step of one run each: 2.5 to 2.6 ms against 2.4 ms; other runs may differ``.

    Nothing where steps are not timed.
    """
    if any(case.outcome.baseline_steps is None for case in cases):
        return ""
    counts = [cases[0].outcome.baseline_steps, *(case.outcome.candidate_steps for case in cases)]
    few = min(filter(None, counts), default=0)
    if any(case.outcome.certainty_of_steps is None for case in cases):
        steps = counted(few, "step", "steps")
        runs = f"one run of {steps}" if few < LEAST_STEPS else "one run each"
        return f"; with {runs}, noise cannot be judged"
    first = cases[0].outcome
    ends = [(first.baseline_low_ns, first.baseline_high_ns)]
    ends += [(c.outcome.candidate_low_ns, c.outcome.candidate_high_ns) for c in cases]
    spreads = []
    for low, high in (map(say_ns, of_side) for of_side in ends):
        # The unit stands once, and one figure where both are written alike.
        number, unit = low.split(" ")
        first_end = number if high.endswith(f" {unit}") else low
        spreads.append(low if low == high else f"{first_end} to {high}")
    of_cases, of_base = listed(spreads[1:]), spreads[0]
    return f"; median step of one run each: {of_cases} against {of_base}; other runs may differ"
