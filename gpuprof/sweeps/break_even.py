"""The break-even: the batch size above which a placement is faster than the baseline."""

import math
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from gpuprof.model.schema import FLOAT, TEXT, Column, Schema, Text
from gpuprof.sweeps.plan import Number, Plan
from gpuprof.sweeps.results import Results, axis_column, axis_values

BREAK_EVENS: Final = Schema(
    "break_evens",
    "one placement along one axis of numbers",
    {
        "axis": Text("The axis of numbers, such as a batch size.", required=True),
        "variant": Text("The other values of these cells.", required=True),
        "break_even": Column(
            FLOAT, "", "Value above which it is faster, interpolated between measured values."
        ),
        "break_even_min": Column(FLOAT, "", "The same by speed_up_max, the best runs."),
        "break_even_max": Column(FLOAT, "", "The same by speed_up_min, the worst runs."),
        "lowest": Column(FLOAT, "", "Smallest measured value.", required=True),
        "highest": Column(FLOAT, "", "Largest measured value.", required=True),
        "meaning": Text("In words.", required=True),
        "at_best": Text("The same by speed_up_max."),
        "at_worst": Text("The same by speed_up_min."),
    },
)

# Two points do not determine decimals of a larger break-even.
_WHOLE_NUMBERS_FROM: Final = 10

Points = Sequence[tuple[Number, float]]


def break_evens(results: Results) -> pa.Table:
    """Where speed-up reaches 1 along each axis of numbers that is not the baseline's.

    Args:
        results: The sweep's results.

    Returns:
        Columns as in `BREAK_EVENS`. One row per axis and per combination of the other axes, without
        the baseline itself, none without a baseline; ``break_even`` is null where no speed-up stays
        above 1 within the measured values. Nothing is extrapolated. The best and worst cases are
        null where each cell ran once.
    """
    rows: list[dict[str, Any]] = []
    for axis in (name for name in numeric_axes(results.plan) if name not in results.plan.baseline):
        medians, best, worst = (
            lines(results, axis, f"speed_up{end}") for end in ("", "_max", "_min")
        )
        for name, points in medians.items():
            if len(points) == 1:
                continue
            row: dict[str, Any] = {
                "axis": axis,
                "variant": name,
                "lowest": points[0][0],
                "highest": points[-1][0],
            }
            row |= {"break_even": crossing(points), "meaning": _meaning(points)}
            if results.plan.repeat > 1:
                at_best, at_worst = best[name], worst[name]
                row |= {"break_even_min": crossing(at_best), "break_even_max": crossing(at_worst)}
                row |= {"at_best": _meaning(at_best), "at_worst": _meaning(at_worst)}
            rows.append(row)
    return BREAK_EVENS.table(rows)


def numeric_axes(plan: Plan) -> list[str]:
    """Axes of two numbers or more."""
    return [
        axis
        for axis, values in plan.axes.items()
        if len(values) > 1 and axis_column(values).dtype != TEXT
    ]


def lines(results: Results, axis: str, column: str) -> dict[str, list[tuple[Number, float]]]:
    """A column along an axis: one line per combination of the other axes, without the baseline's.

    Cells in which it is unknown are left out, and axes of one value in the lines' names.
    """
    plan = results.plan
    baseline = axis_values(plan, plan.baseline)
    named = [name for name, values in plan.axes.items() if len(values) > 1]
    lines: dict[str, list[tuple[Number, float]]] = {}
    for row in results.cells.to_pylist():
        other_values = {name: row[name] for name in plan.axes if name != axis}
        is_speed_up = column.startswith("speed_up")
        is_baseline = bool(is_speed_up and baseline) and baseline.items() <= other_values.items()
        if row[column] is not None and not is_baseline:
            name = ", ".join(
                f"{name}={value}" for name, value in other_values.items() if name in named
            )
            lines.setdefault(name, []).append((row[axis], row[column]))
    return {name: sorted(points) for name, points in lines.items()}


def crossing(points: Points) -> float | None:
    """Where speed-up rises through 1 and stays there, on a logarithmic axis.

    Between the last point below 1 and the next one, which must be at 1 or more, the speed-up
    is taken to grow in proportion to the logarithm of the axis (to the axis itself where it
    has values of 0 and below).
    """
    below = [place for place, (_, speed_up) in enumerate(points) if speed_up < 1]
    if not below or below[-1] == len(points) - 1:
        return None
    (below_one, low), (above_one, high) = points[below[-1]], points[below[-1] + 1]
    share = (1 - low) / (high - low)
    if points[0][0] <= 0:
        return below_one + share * (above_one - below_one)
    return math.exp(math.log(below_one) + share * math.log(above_one / below_one))


def _meaning(points: Points) -> str:
    place = crossing(points)
    if place is not None:
        return f"faster from about {break_even_text(place)} on"
    if all(speed_up >= 1 for _, speed_up in points):
        return f"faster at all measured values, from {points[0][0]} on"
    if all(speed_up < 1 for _, speed_up in points):
        return f"slower at all measured values, up to {points[-1][0]}"
    faster = ", ".join(str(value) for value, speed_up in points if speed_up >= 1)
    return f"slower at {points[-1][0]}, the largest measured value; faster only at {faster}"


def break_even_text(place: float) -> str:
    """A break-even, with decimals only where it is small."""
    return f"{place:.{0 if place >= _WHOLE_NUMBERS_FROM else 2}f}"
