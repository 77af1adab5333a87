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
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from typing import Final, NamedTuple

from gpuprof.base.errors import GateError, UsageError
from gpuprof.base.units import BASE_UNITS, format_base, format_share
from gpuprof.comparisons.measure.compared_steps import in_quotes
from gpuprof.comparisons.measure.measured_runs import METRICS
from gpuprof.comparisons.outcomes import BEYOND, WITHIN
from gpuprof.comparisons.result_tables import Comparison
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
_NEAR: Final = 3  # Metrics of similar names that a message names.
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
    if metric not in METRICS:
        # Those that have these letters in their names, then those of similar names.
        alike = [name for name in METRICS if metric.lower() in name]
        near = [*dict.fromkeys([*alike, *get_close_matches(metric.lower(), METRICS)])][:_NEAR]
        msg = f'"{text}": there is no metric {metric}'
        suggestion = " or ".join(near) + "?" if near else "`gpuprof formats --schema` lists them."
        raise UsageError(msg, f"Did you mean {suggestion}" if near else suggestion)
    factors = {"": 1.0} | BASE_UNITS.get(VARIANTS.columns[metric].unit, {}) | {_TIMES: 1.0}
    if unit not in factors:
        msg = f'"{text}": {metric} has no unit "{unit}"'
        raise UsageError(msg, f"It may have: {', '.join([*factors][1:])}.")
    limit = float(number) * factors[unit]
    return Condition(text, metric, sign, limit, unit == _TIMES, noise is not None)


def checks(result: Comparison, conditions: Sequence[Condition]) -> tuple[Check, ...]:
    """Every condition put to every candidate in every phase, in the order of the conditions."""
    checked = []
    for condition, phase in product(conditions, (result, *result.other_phases)):
        metric = condition.metric
        figures = {r["variant"]: r for r in phase.figures.to_pylist() if r["metric"] == metric}
        medians = {label: row["median"] for label, row in figures.items()}
        differences = [row for row in phase.differences.to_pylist() if row["metric"] == metric]
        is_beyond = {row["variant"]: row["is_beyond_noise"] for row in differences}
        for outcome in phase.outcomes.to_pylist():
            label = outcome["variant"]
            check = _check(label, condition, medians.get(phase.baseline), medians.get(label))
            if condition.is_beyond_noise and check.is_known and check.reason is not None:
                of_steps = outcome["certainty_of_steps"] if metric == "step_ns" else None
                of_runs = {None: of_steps, True: BEYOND, False: WITHIN}
                certainty, reason = of_runs[is_beyond.get(label)], check.reason
                unknown = "but noise is unknown: give several runs, or at least three steps"
                if certainty == WITHIN:
                    check = check._replace(reason=None)
                elif certainty == BEYOND:
                    check = check._replace(reason=f"{reason}, beyond noise")
                else:
                    check = check._replace(reason=f"{reason}, {unknown}", is_known=False)
            if phase.phase is not None and check.reason is not None:
                check = check._replace(reason=f"{check.reason}, in {in_quotes(phase.phase)}")
            checked.append(check)
    return tuple(checked)


def _check(label: str, condition: Condition, base: float | None, value: float | None) -> Check:
    column = VARIANTS.columns[condition.metric]

    def text(figure: float) -> str:
        is_share = column.kind == Kind.SHARE
        return format_share(figure) if is_share else format_base(figure, column.unit)

    if value is None or (condition.is_ratio and base is None):
        of = label if value is None else "the baseline"
        reason = f"{condition.metric} of {of} is not known"
        return Check(label, condition, reason, is_known=False)
    tested, reason = value, f"it is {text(value)}"
    if condition.is_ratio and base is not None:
        tested = value / base if base else float("inf") if value else 1.0
        no_base = not base and value
        change = "and the baseline has none" if no_base else f"{tested:.3f}x of {text(base)}"
        reason = f"{reason}, {change}"
    holds = _OPERATORS[condition.operator](tested, condition.limit)
    return Check(label, condition, reason if holds else None)


def fail(outcomes: Sequence[Check]) -> None:
    """End the program where a condition holds.

    Raises:
        GateError: One does; the message names each condition and its reason.
    """
    lines = [
        f"{check.variant} fails {check.condition.text}: {check.reason}"
        for check in outcomes
        if check.reason is not None
    ]
    if lines:
        raise GateError("\n".join(lines))
