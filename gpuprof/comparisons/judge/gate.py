"""Conditions under which a comparison fails, for CI: ``step_ns > 1.05x``.

A condition is ``METRIC OPERATOR NUMBER[UNIT] [beyond noise]``, and tested in each phase:

* METRIC is a column of `VARIANTS` that holds a number; what is tested is the candidate's median
  over its runs, of one step where steps are compared.
* OPERATOR is one of ``>``, ``>=``, ``<`` and ``<=``.
* NUMBER is in base units (ns, bytes, fractions); a UNIT that fits the metric may follow: ns, us,
  ms, s; B, KB, MB, GB, TB (decimal); ``%`` of shares; or ``x``, times the baseline's figure.
* ``beyond noise``: the difference to the baseline must be so as well, by the runs where both
  sides have several, else by the steps of one run each, for ``step_ns`` only.

An unknown figure fails the gate, too: what cannot be tested must not pass silently.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from gpuprof.base.errors import GateError, UsageError
from gpuprof.base.units import BASE_UNITS, format_base, format_share
from gpuprof.comparisons.judge.certainty import BEYOND, WITHIN
from gpuprof.comparisons.measure.phase_names import in_quotes
from gpuprof.comparisons.measure.runs import METRICS
from gpuprof.comparisons.result import Comparison
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.model.schema import Kind

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_CONDITION: Final = re.compile(
    r"\s*([A-Za-z_]\w*)\s*(>=|<=|>|<)\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,2})?)\s*"
    r"((?!beyond\b)\S*)(\s*beyond\s+noise)?\s*"
)
_TIMES: Final = "x"
_NEAR: Final = 3
_EXAMPLE: Final = (
    'Write it as "exposed_transfer_share > 0.10", "step_ns > 1.05x beyond noise" or'
    ' "idle_ns > 2ms".'
)


class Condition(NamedTuple):
    """Something that must not be true of a candidate.

    Args:
        text: As it was written.
        metric: A column of `VARIANTS`.
        operator: One of ``>``, ``>=``, ``<``, ``<=``.
        limit: In the metric's unit, or times the baseline's figure.
        is_ratio: Whether it is the latter.
        is_beyond_noise: Whether the difference must be beyond noise.
    """

    text: str
    metric: str
    operator: str
    limit: float
    is_ratio: bool
    is_beyond_noise: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value, or a ratio to the baseline, makes the comparison fail."""
        return _OPERATORS[self.operator](value, self.limit)


class Check(NamedTuple):
    """One condition put to one candidate.

    Args:
        variant: The candidate.
        condition: The condition.
        reason: Why it fails; None where it passes.
        is_known: Whether it could be tested.
    """

    variant: str
    condition: Condition
    reason: str | None
    is_known: bool = True


def parse(text: str) -> Condition:
    """A condition as its text says it.

    Raises:
        UsageError: It is not a condition, names no metric, or its unit does not fit the metric.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        msg = f'"{text}" is not a condition'
        raise UsageError(msg, _EXAMPLE)
    metric, sign, number, unit, noise = match.groups()
    is_beyond = noise is not None
    if metric not in METRICS:
        # Those that have these letters in their names, then those of similar names.
        alike = [name for name in METRICS if metric.lower() in name]
        near = [*dict.fromkeys([*alike, *get_close_matches(metric.lower(), METRICS)])][:_NEAR]
        msg = f'"{text}": there is no metric {metric}'
        suggestion = " or ".join(near) + "?" if near else "`gpuprof formats --schema` lists them."
        raise UsageError(msg, f"Did you mean {suggestion}" if near else suggestion)
    if unit == _TIMES:
        return Condition(
            text, metric, sign, float(number), is_ratio=True, is_beyond_noise=is_beyond
        )
    factors = {"": 1.0} | BASE_UNITS.get(VARIANTS.columns[metric].unit, {})
    if unit not in factors:
        msg = f'"{text}": {metric} has no unit "{unit}"'
        raise UsageError(msg, f"It may have: {', '.join([*factors, _TIMES][1:])}.")
    limit = float(number) * factors[unit]
    return Condition(text, metric, sign, limit, is_ratio=False, is_beyond_noise=is_beyond)


def checks(result: Comparison, conditions: Sequence[Condition]) -> tuple[Check, ...]:
    """Every condition put to every candidate in every phase, in the order of the conditions."""
    return tuple(
        check
        for condition in conditions
        for of_phase in (result, *result.other_phases)
        for check in _checks(of_phase, condition)
    )


def _checks(result: Comparison, condition: Condition) -> Iterator[Check]:
    figures = {(r["variant"], r["metric"]): r["median"] for r in result.figures.to_pylist()}
    for outcome in result.outcomes.to_pylist():
        label, base = outcome["variant"], figures.get((result.baseline, condition.metric))
        check = _check(label, condition, base, figures)
        if condition.is_beyond_noise and check.is_known and check.reason is not None:
            check = _beyond_noise(check, _certainty(result, outcome, condition.metric))
        if result.phase is not None and check.reason is not None:
            check = check._replace(reason=f"{check.reason}, in {in_quotes(result.phase)}")
        yield check


def _beyond_noise(check: Check, certainty: str | None) -> Check:
    """A failing check, judged by how certain the difference is."""
    if certainty == BEYOND:
        return check._replace(reason=f"{check.reason}, beyond noise")
    if certainty == WITHIN:
        return check._replace(reason=None)
    reason = f"{check.reason}, but noise is unknown: give several runs, or at least three steps"
    return check._replace(reason=reason, is_known=False)


def _certainty(result: Comparison, outcome: Mapping[str, Any], metric: str) -> str | None:
    """How certain the difference of a metric is; None where unknown."""
    flags = [
        row["is_beyond_noise"]
        for row in result.differences.to_pylist()
        if (row["variant"], row["metric"]) == (outcome["variant"], metric)
    ]
    if flags and flags[0] is not None:
        return BEYOND if flags[0] else WITHIN
    certainty: str | None = outcome["certainty_of_steps"]
    return certainty if metric == "step_ns" else None


def _check(
    label: str,
    condition: Condition,
    base: float | None,
    figures: Mapping[tuple[str, str], float],
) -> Check:
    metric, value = condition.metric, figures.get((label, condition.metric))
    if value is None or (condition.is_ratio and base is None):
        of = label if value is None else "the baseline"
        return Check(label, condition, f"{metric} of {of} is not known", is_known=False)
    figure = _text(metric, value)
    if not condition.is_ratio or base is None:
        return Check(label, condition, f"it is {figure}" if condition.holds(value) else None)
    if not base and value:
        ratio, change = float("inf"), "and the baseline has none"
    else:
        ratio = value / base if base else 1.0
        change = f"{ratio:.3f}x of {_text(metric, base)}"
    return Check(label, condition, f"it is {figure}, {change}" if condition.holds(ratio) else None)


def _text(metric: str, value: float) -> str:
    column = VARIANTS.columns[metric]
    return format_share(value) if column.kind == Kind.SHARE else format_base(value, column.unit)


def fail(outcomes: Sequence[Check]) -> None:
    """End the program where a condition holds.

    Raises:
        GateError: One does; the message names each condition and its reason.
    """
    failed = [check for check in outcomes if check.reason is not None]
    lines = [f"{check.variant} fails {check.condition.text}: {check.reason}" for check in failed]
    if lines:
        raise GateError("\n".join(lines))
