"""Says of each graph that TensorFlow ran where its operations ran and what crosses devices.

TensorFlow keeps, per function, the graph before optimisation (the device that the script asked
for), the one after it, and one graph per device that really ran, in which a ``_Send`` stands for
every edge to another device. The size of what is sent comes from TensorFlow's own shape
inference on the graph after optimisation: exact, or unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SENDS = {"_Send", "_HostSend"}
_RECVS = {"_Recv", "_HostRecv"}
_LOOPS = {"Enter", "Exit", "Switch", "Merge", "NextIteration"}
_WITHOUT_SIZE = {"string", "resource", "variant"}
_UPDATES = ("ResourceApply", "ResourceScatter", "AssignVariableOp", "AssignSub", "AssignAdd")
_GRADIENT = ("gradient_tape/", "gradients/", "_grad/")
_ENDS = {"_Arg", "_Retval", "_DeviceArg", "_DeviceRetval"}
_RESOURCE = 20  # DT_RESOURCE
_EAGER = {"_DeviceArg", "_DeviceRetval"}


class Functions:
    """The functions of one TensorFlow context, by what tells their graphs apart."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.known: set[str] = set()
        self.names: dict[Any, list[str]] = {}

    def describe(self, function_graphs: Any) -> Iterator[dict[str, Any]]:
        """One row per graph of a tf.function, as `gpuprof.launch.tensorflow_run` reads it."""
        self._learn()
        for graph in function_graphs:
            names = self.names.get(_signature_of_graph(graph.pre_optimization_graph), [])
            if names or not _is_one_eager_operation(graph):
                yield row(graph, names)

    def _learn(self) -> None:
        for raw in self.context.list_function_names():
            name = raw.decode() if isinstance(raw, bytes) else raw
            if name in self.known or name.startswith("__wrapped__"):
                continue
            self.known.add(name)
            signature = _signature_of_function(self.context.get_function_def(name))
            self.names.setdefault(signature, []).append(name)


def row(graph: Any, names: list[str]) -> dict[str, Any]:
    """What one graph says, with the names of the functions that have exactly this graph."""
    asked = {n.name: n.device for n in graph.pre_optimization_graph.node if n.device}
    nodes = [n for part in graph.partition_graphs for n in part.node]
    real = [n for n in nodes if n.op not in _SENDS | _RECVS | _ENDS]
    sizes = tensor_bytes(graph.post_optimization_graph)
    return {
        "functions": names,
        "is_training": any(n.op.startswith(_UPDATES) for n in real)
        and any(is_gradient(n.name) for n in real),
        "has_control_flow": any(n.op in ("Switch", "_SwitchN") for n in real),
        "collectives": sum(n.op.startswith(("Collective", "Nccl")) for n in real),
        "operations": [
            [n.name, n.op, short(asked[n.name]) if n.name in asked else None, short(n.device)]
            for n in real
        ],
        "copies": list(_copies(nodes, sizes)),
        "inputs": list(_inputs(nodes, sizes)),
    }


def _inputs(nodes: list[Any], sizes: dict[tuple[str, int], int]) -> Iterator[list[Any]]:
    """What each operation takes: tensor, device, taker, its device, bytes, whether a variable.

    An input from another device is that of the operation there, not what received it.
    """
    keys = {n.name: n.attr["tensor_name"].s.decode() for n in nodes if n.op in _RECVS}
    sources = {
        n.attr["tensor_name"].s.decode(): _source(n.input[0]) for n in nodes if n.op in _SENDS
    }
    by_name = {n.name: n for n in nodes}
    for node in nodes:
        if node.op in _SENDS | _RECVS | _ENDS:
            continue
        for item in node.input:
            name, index = _source(item)
            name, index = sources.get(keys.get(name, ""), (name, index))
            source = by_name.get(name)
            if item.startswith("^") or source is None or _is_control(source):
                continue
            is_variable = source.op == "_Arg" and source.attr["T"].type == _RESOURCE
            size = None if is_variable else sizes.get((name, index))
            ends = [f"{name}:{index}", short(source.device), node.name, short(node.device)]
            yield [*ends, size, is_variable]


def _copies(nodes: list[Any], sizes: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    sends = [n for n in nodes if n.op in _SENDS]
    takers = _takers(nodes)
    recvs = {n.attr["tensor_name"].s.decode(): n.name for n in nodes if n.op in _RECVS}
    controls = {n.name for n in nodes if _is_control(n)}
    for send in sends:
        key = send.attr["tensor_name"].s.decode()
        source, index = _source(send.input[0])
        taken_by = takers.get(key, [])
        is_control = source in controls
        is_for_gradients = bool(taken_by) and all(map(is_gradient, taken_by))
        yield {
            "send": send.name,
            "recv": recvs.get(key),
            "src_device": short(send.attr["send_device"].s.decode()),
            "dst_device": short(send.attr["recv_device"].s.decode()),
            "tensor": key.split("_", 2)[-1],
            "src_operation": source,
            "dst_operations": taken_by,
            "is_gradient": is_gradient(source) or is_for_gradients,
            "is_control": is_control,
            "bytes_per_call": None if is_control else sizes.get((source, index)),
        }


def _is_control(node: Any) -> bool:
    """Whether it stands for a control edge between devices: order only, no data."""
    return bool(node.op == "Const" and "/ctrl/_" in node.name)


def _takers(nodes: list[Any]) -> dict[str, list[str]]:
    """What each key that is received goes into."""
    keys = {n.name: n.attr["tensor_name"].s.decode() for n in nodes if n.op in _RECVS}
    takers: dict[str, list[str]] = {}
    for node in nodes:
        for item in node.input:
            name = _source(item)[0]
            if name in keys and node.name not in takers.setdefault(keys[name], []):
                takers[keys[name]].append(node.name)
    return takers


def tensor_bytes(graph: Any) -> dict[tuple[str, int], int]:
    """The size of every tensor whose shape follows from the graph, by operation and output.

    A loop is cut open where an iteration hands its values to the next: a value that would
    come back in another shape than it went in has no one size, nor has what follows from it.
    """
    changing: set[str] = set()
    while True:
        shapes = _shapes_of(graph, changing)
        new = {
            node.name
            for node in graph.node
            if node.op == "Merge" and node.name not in changing and _changes(node, shapes)
        }
        if not new:
            return {output: size for output, (_, size) in shapes.items() if size is not None}
        changing |= new


def _shapes_of(graph: Any, changing: set[str]) -> dict[tuple[str, int], Any]:
    import tensorflow as tf  # noqa: PLC0415 - the script has imported it

    shapes = {}
    with tf.Graph().as_default() as inferred:
        tf.graph_util.import_graph_def(_importable(graph, changing), name="")
        for number, node in enumerate(graph.node):
            for index, tensor in enumerate(inferred.get_operation_by_name(f"n{number}").outputs):
                shapes[node.name, index] = (tensor.shape, _size(tensor))
    return shapes


def _size(tensor: Any) -> int | None:
    count = tensor.shape.num_elements()
    known = count is not None and tensor.dtype.base_dtype.name not in _WITHOUT_SIZE
    return count * tensor.dtype.size if known else None


def _changes(merge: Any, shapes: dict[tuple[str, int], Any]) -> bool:
    """Whether the value that comes back into a loop may have another shape than the first."""
    ends = [_source(item) for item in merge.input if not item.startswith("^")]
    sides = [shapes[name, index if (name, index) in shapes else 0][0] for name, index in ends]
    first = sides[0]
    return any(str(side) != str(first) for side in sides[1:])


def _importable(graph: Any, changing: set[str]) -> Any:
    """The graph without what a second import refuses: its names, devices and loops."""
    plain = type(graph)()
    plain.versions.CopyFrom(graph.versions)
    plain.library.CopyFrom(graph.library)
    numbers = {node.name: (f"n{number}", node.op) for number, node in enumerate(graph.node)}
    for number, node in enumerate(graph.node):
        copy = plain.node.add()
        copy.CopyFrom(node)
        copy.name, copy.device = f"n{number}", ""
        copy.attr.pop("_class", None)
        inputs = [_renamed(item, numbers) for item in node.input]
        if node.op in _LOOPS:
            _cut(copy, node.name in changing)
            inputs = inputs[:1] if copy.op == "Identity" else []
        copy.ClearField("input")
        copy.input.extend(inputs)
    return plain


def _cut(node: Any, changes: bool) -> None:  # noqa: FBT001
    """Make a loop's node hand on its first input, or a tensor of unknown shape."""
    kind = node.attr["T"].type
    node.attr.clear()
    if changes:
        node.op = "Placeholder"
        node.attr["dtype"].type = kind
        node.attr["shape"].shape.unknown_rank = True
    else:
        node.op = "Identity"
        node.attr["T"].type = kind


def _renamed(item: str, numbers: dict[str, tuple[str, str]]) -> str:
    mark = "^" if item.startswith("^") else ""
    name, index = _source(item)
    number, operation = numbers[name]
    # The second output of a Switch is the same tensor on its other branch.
    return f"{mark}{number}" if mark or operation in _LOOPS or not index else f"{number}:{index}"


def _signature_of_function(definition: Any) -> Any:
    arguments = range(len(definition.signature.input_arg))
    shapes = [_shapes(definition.arg_attr[i].attr) for i in arguments]
    return frozenset(n.name for n in definition.node_def), tuple(shapes)


def _signature_of_graph(graph: Any) -> Any:
    shapes = [_shapes(n.attr) for n in graph.node if n.op == "_Arg"]
    return frozenset(n.name for n in graph.node if n.op not in _ENDS), tuple(shapes)


def _shapes(attributes: Any) -> Any:
    if "_output_shapes" not in attributes:
        return None
    shapes = attributes["_output_shapes"].list.shape
    return tuple(None if s.unknown_rank else tuple(d.size for d in s.dim) for s in shapes)


def _is_one_eager_operation(graph: Any) -> bool:
    body = [n.op for n in graph.pre_optimization_graph.node if n.op not in _ENDS]
    return len(body) <= 1 or any(n.op in _EAGER for n in graph.pre_optimization_graph.node)


def _source(item: str) -> tuple[str, int]:
    name, _, index = item.lstrip("^").partition(":")
    return name, int(index or 0)


def is_gradient(name: str) -> bool:
    """Whether a name is in a scope that GradientTape or tf.gradients gives."""
    return any(mark in name for mark in _GRADIENT)


def short(device: str) -> str:
    """``CPU:0`` for a device of this process; a job's full name for one of another."""
    job, _, name = device.rpartition("/device:")
    return name if job in ("", "/job:localhost/replica:0/task:0") and name else device
