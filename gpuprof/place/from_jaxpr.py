"""The graph of a JAX program's training step, from `jax.make_jaxpr`: no device is needed."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuprof.place.step_graph import (
    FORWARD,
    GRADIENT,
    INPUT,
    UPDATE,
    VARIABLE,
    Operation,
    StepGraph,
    Values,
    bytes_of,
    placed,
)

# Transformations around a scope: transpose(jvp(item))/dense is a gradient of item/dense.
_AROUND: Final = re.compile(r"\w+\(|\)")
_INNER: Final = ("jaxpr", "call_jaxpr")
_LOOPS: Final = ("scan", "while", "cond")


def step_of_jaxpr(
    closed: Any,
    variables: Iterable[int],
    devices: Mapping[str, str],
) -> StepGraph:
    """The graph of a step.

    Gradients are what JAX transposed. A loop is one operation of unknown size.

    Args:
        closed: The result of `jax.make_jaxpr(step)(...)`.
        variables: Indices of trained arguments among its flat arguments.
        devices: Scope of `jax.named_scope`, such as item, to its device today; "" for all others.
    """
    values, jaxpr = Values(), closed.jaxpr
    trained = set(variables)
    for place, argument in enumerate(jaxpr.invars):
        role = VARIABLE if place in trained else INPUT
        size = bytes_of(argument.aval)
        operation = Operation(
            f"argument {place}", "argument", role, bytes=size if role == VARIABLE else 0
        )
        values.make(operation, [], {argument: size})
    for constant in jaxpr.constvars:
        values.make(
            Operation(str(constant), "constant", INPUT), [], {constant: bytes_of(constant.aval)}
        )
    _walk(values, jaxpr, "")
    return placed(values.graph(), devices)


def _walk(values: Values, jaxpr: Any, around: str) -> None:
    for equation in jaxpr.eqns:
        kind = equation.primitive.name
        stack = "/".join(filter(None, (around, str(equation.source_info.name_stack))))
        inner = next((equation.params[key] for key in _INNER if key in equation.params), None)
        if inner is not None and kind not in _LOOPS:
            plain = getattr(inner, "jaxpr", inner)
            values.alias(plain.invars, equation.invars)
            for constant in plain.constvars:
                values.make(Operation(str(constant), "constant", INPUT), [], {constant: 0})
            _walk(values, plain, stack)
            values.alias(equation.outvars, plain.outvars)
            continue
        role = GRADIENT if "transpose(" in stack else FORWARD if "jvp(" in stack else UPDATE
        operation = Operation(
            f"{stack}/{kind} {len(values.operations)}",
            *(kind, role, _AROUND.sub("", stack)),
            flops=_flops(equation),
        )
        values.make(operation, equation.invars, {v: bytes_of(v.aval) for v in equation.outvars})


def _flops(equation: Any) -> float | None:
    """Two per multiply-add; None where it is not a matrix product or convolution."""
    kind, params = equation.primitive.name, equation.params
    if kind not in {"dot_general", "conv_general_dilated"}:
        return None
    left_shape, right_shape = (value.aval.shape for value in equation.invars[:2])
    output_shape = equation.outvars[0].aval.shape
    if kind == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return float(
            2 * math.prod(output_shape) * math.prod(left_shape[axis] for axis in contracted)
        )
    outputs = right_shape[params["dimension_numbers"].rhs_spec[0]]
    return float(2 * math.prod(output_shape) * math.prod(right_shape) / outputs)
