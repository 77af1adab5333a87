"""The graph of a training step from programs, without any device.

Of JAX from `jax.make_jaxpr`, of PyTorch from `torch.export`.
"""

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
            flops=_flops_of_equation(equation),
        )
        values.make(operation, equation.invars, {v: bytes_of(v.aval) for v in equation.outvars})


def _flops_of_equation(equation: Any) -> float | None:
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


def step_of_export(joint: Any, devices: Mapping[str, str]) -> StepGraph:
    """The graph of a step: forward pass, gradients, and an update of each parameter.

    Operations belong to the module whose parameters they take, else to that of their inputs;
    gradients to that of their inputs from the forward pass.

    Args:
        joint: A model that returns its loss, exported with its gradients:
            `_export_forward_backward(torch.export.export(model, batch))`, the former from
            torch.export.experimental.
        devices: Module, such as item or item.dense, to its device today; "" for all others.
    """
    values, signature = Values(), joint.graph_signature
    owners = dict(signature.inputs_to_parameters) | dict(signature.inputs_to_buffers)
    backward = signature.backward_signature
    nodes = [node for node in joint.graph.nodes if node.op in {"placeholder", "call_function"}]
    # The loss and all that it depends on.
    waiting = [node for node in nodes if node.name == backward.loss_output]
    forward = {*waiting}
    while waiting:
        new = set(waiting.pop().all_input_nodes) - forward
        forward |= new
        waiting += new
    scopes: dict[Any, str] = {}
    for node in nodes:
        scopes[node] = _scope(node, owners, scopes, forward)
    for node in reversed(nodes):
        takers = {scopes[taker] for taker in node.users if taker in scopes}
        if not scopes[node] and node not in forward and len(takers) == 1:
            scopes[node] = takers.pop()
    for node in nodes:
        size = bytes_of(node.meta.get("val"))
        role = GRADIENT if node not in forward else FORWARD
        if node.op == "placeholder":
            role = VARIABLE if node.name in owners else INPUT
        variable_bytes = size if role == VARIABLE else 0
        kind = getattr(node.target, "__name__", str(node.target)).removesuffix(".default")
        operation = Operation(
            *(owners.get(node.name, node.name), kind, role, scopes[node]),
            flops=_flops_of_node(node),
            bytes=variable_bytes,
        )
        values.make(operation, node.all_input_nodes, {node: size})
    by_name = {node.name: node for node in nodes}
    handles = {owner: by_name[name] for name, owner in owners.items() if name in by_name}
    for name, owner in backward.gradients_to_parameters.items():
        update = Operation(f"update of {owner}", "update", UPDATE, scopes[handles[owner]])
        values.make(update, [by_name[name]], {})
        values.bind(handles[owner])
    return placed(values.graph(), devices)


def _scope(
    node: Any,
    owners: Mapping[str, str],
    scopes: Mapping[Any, str],
    forward: set[Any],
) -> str:
    """The module of a node: that of its parameters, else that of its inputs where all agree."""
    if node.name in owners:
        return owners[node.name].rpartition(".")[0].replace(".", "/")
    makers = [maker for maker in node.all_input_nodes if scopes[maker]]
    if node not in forward:
        makers = [maker for maker in makers if maker in forward] or makers
    trained = [m for m in makers if _is_weight(m, owners)]
    modules = {scopes[maker] for maker in trained or makers}
    if len(modules) > 1:
        modules = {scope.partition("/")[0] for scope in modules}
    return modules.pop() if len(modules) == 1 else ""


def _is_weight(node: Any, owners: Mapping[str, str]) -> bool:
    """Whether a node is a parameter, or a view of one."""
    while node.op == "call_function" and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    return node.name in owners


def _flops_of_node(node: Any) -> float | None:
    """By PyTorch's own formulas; None for operations without one."""
    from torch.utils.flop_counter import flop_registry  # the caller has imported it

    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return None
    words = [_value(word) for word in node.args]
    named = {key: _value(word) for key, word in node.kwargs.items()}
    return float(formula(*words, **named, out_val=node.meta["val"]))


def _value(word: Any) -> Any:
    return getattr(word, "meta", {}).get("val", word)
