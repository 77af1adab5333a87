"""One candidate against the baseline, and the phrases that several sentences share."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpuprof.base.units import NS_PER_S, counted, format_change, listed, say_growth, say_ns
from gpuprof.comparisons.judge.certainty import UNKNOWN, WITHIN
from gpuprof.comparisons.judge.outcomes import EPOCHS
from gpuprof.comparisons.judge.step_noise import LEAST_STEPS
from gpuprof.comparisons.measure.calls import Calls
from gpuprof.comparisons.measure.other_kernels import OtherKernels
from gpuprof.comparisons.rows import DifferencePart, Outcome
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
        parts: The parts of the difference on the outcome's basis.
        base: The baseline's figures, as `median_figures` gives them.
        candidate: The candidate's.
        calls: The calls of kernels that both have; None where they are not known.
        of_step: What a step is: ``per step``, or from one call of a kernel to the next.
        devices: The devices of baseline and candidate, of jobs that have different numbers of
            them; else None.
        other_kernels: The kernels that each side has alone, where they take most time of one.
        lacking: Why idle times and sums tell nothing, see `without_idle_times`; empty where they
            do.
    """

    label: str
    outcome: Outcome
    parts: Sequence[DifferencePart]
    base: Metrics
    candidate: Metrics
    calls: Calls | None = None
    of_step: str = PER_STEP
    devices: tuple[int, int] | None = None
    other_kernels: OtherKernels | None = None
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

    def knows(self, metric: str) -> bool:
        """Whether a metric is known on both sides."""
        return self.base.get(metric) is not None and self.candidate.get(metric) is not None


def largest(cases: Sequence[Case], count: int = _NAMED) -> list[Case]:
    """The few with the largest differences, in their own order."""
    chosen = sorted(cases, key=lambda case: -abs(case.difference))[:count]
    return [case for case in cases if case in chosen]


def on_devices(case: Case) -> str:
    """`` on 512 devices instead of 128``, of jobs of different sizes; else nothing."""
    if case.devices is None:
        return ""
    before, after = case.devices
    return f" on {counted(after, 'device', 'devices')} instead of {before:,}"


def further_cases(cases: Sequence[Case], named: Sequence[Case]) -> str:
    """``; the table lists 2 more``: the candidates that a sentence does not name."""
    count = len(cases) - len(named)
    return f"; the table lists {count} more" if count else ""


def change(case: Case) -> str:
    """``2.045 s (10.0 %, interval 8.1 to 11.9 %) more``, or that nothing differs."""
    if not case.difference and not interval(case):
        return "neither more nor less"
    shares = [part for part in (_share(case), interval(case)) if part]
    share = f" ({', '.join(shares)})" if shares else ""
    unit_ns = NS_PER_S if case.outcome.basis == EPOCHS else 1
    size = say_ns(abs(case.difference) * unit_ns)
    return f"{size}{share} {'more' if case.difference >= 0 else 'less'}"


def _share(case: Case) -> str:
    """``10.0 %``, or that all of it is new or removed."""
    if not case.baseline:
        return NEW if case.difference else ""
    return say_growth(case.growth) if case.outcome.candidate else REMOVED


def relative(case: Case) -> str:
    """``-10.0 %``, or that all of it is new or removed."""
    is_both = case.baseline and case.outcome.candidate
    return format_change(100 * case.growth) if is_both else _share(case)


def interval(case: Case) -> str:
    """``interval 8.1 to 11.9 %`` of a difference in the direction that is said; or nothing."""
    ends = _ends(case)
    if ends is None:
        return ""
    low, high = ends if case.difference >= 0 else (-ends[1], -ends[0])
    return f"interval {low:.1f} to {high:.1f} %"


def signed_interval(case: Case) -> str:
    """``interval -1.5 to +0.5 %`` of a difference with its sign; or nothing."""
    ends = _ends(case)
    return "" if ends is None else f"interval {ends[0]:+.1f} to {ends[1]:+.1f} %"


def _ends(case: Case) -> tuple[float, float] | None:
    low, high = case.outcome.low_percent, case.outcome.high_percent
    return None if low is None or high is None or not case.baseline else (low, high)


def of_epoch(case: Case) -> str:
    """``2.045 s (10.0 %) more per epoch and ``; nothing where epochs are not known."""
    if not case.knows("seconds_per_epoch"):
        return ""
    before, after = (side["seconds_per_epoch"] for side in (case.base, case.candidate))
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
    base = _spread(first.baseline_low_ns, first.baseline_high_ns)
    spreads = [
        _spread(case.outcome.candidate_low_ns, case.outcome.candidate_high_ns) for case in cases
    ]
    return f"; median step of one run each: {listed(spreads)} against {base}; other runs may differ"


def _spread(low_ns: float | None, high_ns: float | None) -> str:
    """``2.497 to 2.498 ms``; one figure where both ends are written alike."""
    low, high = say_ns(low_ns), say_ns(high_ns)
    if low == high:
        return low
    number, unit = low.split(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"
