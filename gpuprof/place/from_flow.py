"""The graph of a TensorFlow program's training step, as input of the search."""

from collections import defaultdict
from collections.abc import Mapping

from gpuprof.base.errors import MissingTableError
from gpuprof.facts.dataflow import Dataflow, Node, dataflow
from gpuprof.model.profile import Profile
from gpuprof.place.step_graph import (
    CONSTANT,
    FORWARD,
    GRADIENT,
    INPUT,
    UPDATE,
    VARIABLE,
    Operation,
    StepGraph,
    Tensor,
)


def step_of(profile: Profile) -> tuple[StepGraph, Dataflow]:
    """The training step of a recording, and the same as the hints see it.

    Operations of the graph stand in the order of `nodes_of`.

    Raises:
        MissingTableError: The recording is of another framework, has no training step, or was
            made before recordings had graphs.
    """
    source = profile.origin.source
    if not profile.has("operations", "functions", "tensor_copies"):
        msg = f"{source} has no graph of a training step (read as {profile.origin.reader})"
        hint = (
            "Record a TensorFlow program with `gpuprof record --recorder tensorflow`; of"
            " PyTorch see `gpuprof report --table module_moves`."
        )
        raise MissingTableError(msg, hint)
    flow = dataflow(profile)
    if flow is None:
        msg = f"{source}: no training step was recorded completely"
        raise MissingTableError(msg, "Record more steps.")
    if not flow.is_whole:
        msg = f"{source} was made before gpuprof recorded graphs of a step"
        raise MissingTableError(msg, "Record it again.")
    return _graph(profile, flow), flow


def nodes_of(flow: Dataflow) -> list[Node]:
    """Operations, inputs and variables of a step, in the order of the graph's operations."""
    handles = {variable for variables in flow.variables.values() for variable in variables}
    return list(dict.fromkeys([*flow.device, *handles]))


def _graph(profile: Profile, flow: Dataflow) -> StepGraph:
    nodes = nodes_of(flow)
    number = {node: place for place, node in enumerate(nodes)}
    # Devices of the same kind as those of the step, also if nothing ran on them.
    kinds = {device.rpartition(":")[0] for device in flow.device.values()}
    kinds = {kind for kind in kinds if kind.endswith("GPU")} or kinds
    names = profile.table("devices").column("name").to_pylist() if profile.has("devices") else []
    alike = (name for name in names if name and name.rpartition(":")[0] in kinds)
    devices = sorted({*flow.device.values(), *alike})
    rows = profile.table("variables").to_pylist() if profile.has("variables") else []
    sizes = {(row["function"], row["variable"]): row["bytes"] for row in rows}
    flops = _flops(profile)
    return StepGraph(
        tuple(
            Operation(
                node[1],
                flow.kind.get(node, ""),
                _role(flow, node),
                _scope(flow, node),
                devices.index(flow.device[node]),
                flops.get(node),
                sizes.get(node) if _role(flow, node) == VARIABLE else 0,
            )
            for node in nodes
        ),
        tuple(
            Tensor(
                number[tensor.maker],
                tuple(number[taker] for taker in tensor.takers),
                None if tensor.bytes is None else tensor.bytes / tensor.calls,
                tensor.calls / flow.steps,
            )
            for tensor in flow.tensors
            if tensor.calls
        ),
        tuple(
            (number[node], number[variable])
            for node, variables in flow.variables.items()
            for variable in variables
        ),
        tuple(devices),
        frozenset(number[node] for node in _looped(flow)),
    )


def _looped(flow: Dataflow) -> set[Node]:
    """The operations within loops, from Enter to Exit."""
    looped = {node for node, kind in flow.kind.items() if kind == "Enter"}
    waiting = list(looped)
    while waiting:
        takers = flow.takers.get(waiting.pop(), ())
        new = {node for node in takers if node not in looped and flow.kind.get(node) != "Exit"}
        looped |= new
        waiting += new
    return looped


def _role(flow: Dataflow, node: Node) -> str:
    if node not in flow.kind:
        is_variable = any(node in variables for variables in flow.variables.values())
        return VARIABLE if is_variable else INPUT
    if flow.kind[node] == "Const":
        return CONSTANT
    if node in flow.gradients:
        return GRADIENT
    return FORWARD if node in flow.forward else UPDATE


def _scope(flow: Dataflow, node: Node) -> str:
    part = flow.part.get(node)
    if part is None or part.tower is None:
        return ""
    return f"{part.tower}/{part.layer}" if part.layer else part.tower


def _flops(profile: Profile) -> Mapping[Node, float]:
    """FLOPs of each operation, in the mean over its calls with batches of any length."""
    sums: dict[Node, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in profile.table("operations").to_pylist():
        if row["flops"] is not None:
            calls = row["calls"] or 1
            total = sums[row["function"], row["operation"]]
            total[0] += row["flops"] * calls
            total[1] += calls
    return {node: flops / calls for node, (flops, calls) in sums.items()}
