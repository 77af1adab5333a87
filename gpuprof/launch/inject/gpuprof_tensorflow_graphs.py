"""Writes, per graph that TensorFlow ran, where its operations ran and what crosses devices.

TensorFlow keeps, per function, the graph before optimisation (the device that the script asked
for), the one after it, and one graph per device that really ran, in which a ``_Send`` stands for
every edge to another device. The size of a sent tensor comes from TensorFlow's own shape
inference on the graph after optimisation: exact, or unknown. Where a dataset gives batches of
unknown length, it is inferred for three lengths; what grows linearly is written as bytes without
rows and bytes per row, and the profiler records the bytes of each element of the dataset.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_SENDS = {"_Send", "_HostSend"}
_RECVS = {"_Recv", "_HostRecv"}
_LOOPS = {"Enter", "Exit", "Switch", "Merge", "NextIteration"}
_WITHOUT_SIZE = {"string", "resource", "variant"}
_UPDATES = ("ResourceApply", "ResourceScatter", "AssignVariableOp", "AssignSub", "AssignAdd")
_GRADIENT = ("gradient_tape/", "gradients/", "_grad/")
_ENDS = {"_Arg", "_Retval", "_DeviceArg", "_DeviceRetval"}
_RESOURCE = 20  # DT_RESOURCE
_PLAIN = re.compile(r"^_(MklNative|Mkl)?(Fused)?")
_EAGER = {"_DeviceArg", "_DeviceRetval"}
_NEXT = "IteratorGetNext"
# Evenly spaced, and unlikely as dimensions of a model.
_LENGTHS = (1009, 2018, 3027)


class Functions:
    """The functions of one TensorFlow context, by what tells their graphs apart."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.known: set[str] = set()
        self.names: dict[Any, list[str]] = {}

    def describe(self, function_graphs: Any) -> Iterator[dict[str, Any]]:
        """One row per graph of a tf.function, as `gpuprof.launch.tensorflow_run` reads it."""
        for raw in self.context.list_function_names():
            name = raw.decode() if isinstance(raw, bytes) else raw
            if name not in self.known and not name.startswith("__wrapped__"):
                self.known.add(name)
                definition = self.context.get_function_def(name)
                arguments = range(len(definition.signature.input_arg))
                shapes = (_shapes(definition.arg_attr[i].attr) for i in arguments)
                signature = frozenset(n.name for n in definition.node_def), tuple(shapes)
                self.names.setdefault(signature, []).append(name)
        for graph in function_graphs:
            nodes = graph.pre_optimization_graph.node
            body = [n for n in nodes if n.op not in _ENDS]
            shapes = (_shapes(n.attr) for n in nodes if n.op == "_Arg")
            names = self.names.get((frozenset(n.name for n in body), tuple(shapes)), [])
            is_one_eager_operation = len(body) <= 1 or any(n.op in _EAGER for n in nodes)
            if names or not is_one_eager_operation:
                yield row(graph, names)


def row(graph: Any, names: list[str]) -> dict[str, Any]:
    """What one graph says, with the names of the functions that have exactly this graph."""
    requested = {n.name: n.device for n in graph.pre_optimization_graph.node if n.device}
    nodes = [n for part in graph.partition_graphs for n in part.node]
    real = [n for n in nodes if n.op not in _SENDS | _RECVS | _ENDS]
    optimized = graph.post_optimization_graph
    batch = batch_of(optimized)
    lengths = _LENGTHS if batch else (None,)
    by_length = [outputs_of(optimized, length) for length in lengths]
    sizes = {key: _by_rows([outputs[key][1] for outputs in by_length]) for key in by_length[0]}
    flops = {
        node.name: _by_rows([flops_of(node, outputs) for outputs in by_length])
        for node in optimized.node
    }
    return {
        "batch": batch,
        "functions": names,
        "is_training": any(n.op.startswith(_UPDATES) for n in real)
        and any(is_gradient(n.name) for n in real),
        "has_control_flow": any(n.op in ("Switch", "_SwitchN") for n in real),
        "collectives": sum(n.op.startswith(("Collective", "Nccl")) for n in real),
        "operations": [
            [
                *(n.name, n.op, short(requested[n.name]) if n.name in requested else None),
                *(short(n.device), flops.get(n.name)),
            ]
            for n in real
        ],
        "copies": list(_copies(nodes, sizes)),
        "inputs": list(_inputs(nodes, sizes)),
        "variables": [
            [n.name, short(n.device), _handle_bytes(n)] for n in nodes if _is_variable(n)
        ],
    }


def _by_rows(amounts: list[int | None]) -> Any:
    """An amount, where batches change it ``[without rows, per row]``; None where not linear."""
    if None in amounts:
        return None
    if len(set(amounts)) == 1:
        return amounts[0]
    first, second, third = (amount or 0 for amount in amounts)
    per_row, left_over = divmod(second - first, _LENGTHS[1] - _LENGTHS[0])
    is_linear = not left_over and third - second == second - first
    return [first - per_row * _LENGTHS[0], per_row] if is_linear else None


def batch_of(graph: Any) -> list[int] | None:
    """Bytes of a dataset's element without rows, and of each row; None where rows are not all.

    They are if the graph takes elements in one place, and all that is unknown is the length of the
    first dimension of their tensors, which then is the same for all.
    """
    places = [node for node in graph.node if node.op == _NEXT]
    if len(places) != 1:
        return None
    kinds = [tf.dtypes.as_dtype(kind) for kind in places[0].attr["output_types"].list.type]
    shapes = [tf.TensorShape(shape) for shape in places[0].attr["output_shapes"].list.shape]
    without_rows = per_row = 0
    for kind, shape in zip(kinds, shapes, strict=True):
        is_rows = shape.rank is not None and shape.rank > 0 and shape[0] is None
        count = (shape[1:] if is_rows else shape).num_elements()
        if count is None or kind.name in _WITHOUT_SIZE:
            return None
        per_row += count * kind.size * is_rows
        without_rows += count * kind.size * (not is_rows)
    return [without_rows, per_row] if per_row else None


def _is_variable(node: Any) -> bool:
    return bool(node.op == "_Arg" and node.attr["T"].type == _RESOURCE)


def _handle_bytes(handle: Any) -> int | None:
    """The size of the variable behind a handle; None where TensorFlow does not say."""
    kinds = handle.attr["_handle_dtypes"].list.type
    shapes = handle.attr["_handle_shapes"].list.shape
    if len(kinds) != 1 or len(shapes) != 1:
        return None
    count, kind = tf.TensorShape(shapes[0]).num_elements(), tf.dtypes.as_dtype(kinds[0])
    return None if count is None or kind.name in _WITHOUT_SIZE else count * kind.size


def _inputs(nodes: list[Any], sizes: dict[tuple[str, int], int | None]) -> Iterator[list[Any]]:
    """What each operation takes: maker, output, device, taker, its device, bytes, if a variable.

    An input from another device is that of the operation there, not what received it. Outputs
    that only the rewriting for a device adds, as oneDNN's, cross no devices and are left out.
    """
    inferred = {name for name, _ in sizes}
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
            if name in inferred and (name, index) not in sizes:
                continue
            is_variable = _is_variable(source)
            size = None if is_variable else sizes.get((name, index))
            maker = [name, index, short(source.device)]
            yield [*maker, node.name, short(node.device), size, is_variable]


def _copies(nodes: list[Any], sizes: dict[tuple[str, int], int | None]) -> Iterator[dict[str, Any]]:
    sends = [n for n in nodes if n.op in _SENDS]
    keys = {n.name: n.attr["tensor_name"].s.decode() for n in nodes if n.op in _RECVS}
    recvs = {key: name for name, key in keys.items()}
    takers: dict[str, dict[str, None]] = {key: {} for key in recvs}
    for node in nodes:
        for item in node.input:
            takers.get(keys.get(_source(item)[0], ""), {})[node.name] = None
    controls = {n.name for n in nodes if _is_control(n)}
    for send in sends:
        key = send.attr["tensor_name"].s.decode()
        source, index = _source(send.input[0])
        taken_by = [*takers.get(key, ())]
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


def outputs_of(graph: Any, length: int | None = None) -> dict[tuple[str, int], Any]:
    """The shape and size of every tensor, by operation and output; None where not known.

    With a length, a dataset's elements have so many rows where that is unknown.

    A loop is cut open where an iteration hands its values to the next: a value that would
    come back in another shape than it went in has no one size, nor has what follows from it.
    """
    changing: set[str] = set()
    while True:
        shapes = _shapes_of(graph, changing, length)
        new = set()
        for node in graph.node:
            if node.op == "Merge" and node.name not in changing:
                # The value that comes back may have another shape than the first.
                ends = [_source(item) for item in node.input if not item.startswith("^")]
                sides = [shapes[end if end in shapes else (end[0], 0)][0] for end in ends]
                new |= {node.name} if len(set(map(str, sides))) > 1 else set()
        if not new:
            return shapes
        changing |= new


def _shapes_of(graph: Any, changing: set[str], length: int | None) -> dict[tuple[str, int], Any]:
    shapes = {}
    with tf.Graph().as_default() as inferred:
        tf.graph_util.import_graph_def(_importable(graph, changing, length), name="")
        for number, node in enumerate(graph.node):
            for index, tensor in enumerate(inferred.get_operation_by_name(f"n{number}").outputs):
                count, kind = tensor.shape.num_elements(), tensor.dtype.base_dtype.name
                has_size = count is not None and kind not in _WITHOUT_SIZE
                size = count * tensor.dtype.size if has_size else None
                shapes[node.name, index] = (tensor.shape, size)
            if node.op == "Switch":  # the same tensor on its other branch
                shapes[node.name, 1] = shapes[node.name, 0]
            elif node.op == "Merge":  # which input came
                shapes[node.name, 1] = (tf.TensorShape([]), tf.int32.size)
    return shapes


def flops_of(node: Any, outputs: dict[tuple[str, int], Any]) -> int | None:
    """Operations of a matrix product or convolution, two for each product that is added up.

    None for other operations, whose time is that of moving what they take and make, and where
    a shape is not known. The filter of a convolution has its outputs last in any layout.
    """
    kind = _PLAIN.sub("", node.op)
    ends = [_source(item) for item in node.input if not item.startswith("^")]
    shapes = [_dimensions(outputs, end) for end in ends]
    output = _dimensions(outputs, (node.name, 0))
    if kind.startswith(("MatMul", "BatchMatMul")) and len(shapes) > 1 and shapes[0] and output:
        is_turned = node.attr["transpose_a"].b or node.attr["adj_x"].b
        return int(2 * math.prod(output) * shapes[0][-2 if is_turned else -1])
    if not kind.startswith(("Conv2D", "Conv3D")) or len(shapes) <= 1:
        return None
    is_backward = "Backprop" in kind
    weights = output if "Filter" in kind else shapes[1]
    values = shapes[2] if is_backward and shapes[2:] else output
    return int(2 * math.prod(values) * math.prod(weights[:-1])) if weights and values else None


def _dimensions(outputs: dict[tuple[str, int], Any], output: tuple[str, int]) -> Any:
    """The dimensions of a tensor; None where one is not known."""
    shape, _ = outputs.get(output, (None, None))
    return shape.as_list() if shape is not None and shape.is_fully_defined() else None


def _importable(graph: Any, changing: set[str], length: int | None) -> Any:
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
        inputs = []
        for item in node.input:
            (name, index), mark = _source(item), "^" * item.startswith("^")
            of, operation = numbers[name]
            # The second output of a Switch is the same tensor on its other branch.
            is_first = mark or operation in _LOOPS or not index
            inputs.append(f"{mark}{of}" if is_first else f"{of}:{index}")
        if node.op == _NEXT and length is not None:
            for shape in copy.attr["output_shapes"].list.shape:
                for dimension in shape.dim[:1]:
                    dimension.size = length if dimension.size < 0 else dimension.size
        if node.op in _LOOPS:
            # It hands on its first input, or a tensor of unknown shape.
            kind, changes = node.attr["T"].type, node.name in changing
            inputs, copy.op = ([], "Placeholder") if changes else (inputs[:1], "Identity")
            copy.attr.clear()
            copy.attr["dtype" if changes else "T"].type = kind
            if changes:
                copy.attr["shape"].shape.unknown_rank = True
        copy.ClearField("input")
        copy.input.extend(inputs)
    return plain


def _shapes(attributes: Any) -> Any:
    if "_output_shapes" not in attributes:
        return None
    shapes = attributes["_output_shapes"].list.shape
    return tuple(None if s.unknown_rank else tuple(d.size for d in s.dim) for s in shapes)


def _source(item: str) -> tuple[str, int]:
    name, _, index = item.lstrip("^").partition(":")
    return name, int(index or 0)


def is_gradient(name: str) -> bool:
    """Whether a name is in a scope that GradientTape or tf.gradients gives."""
    return any(mark in name for mark in _GRADIENT)


def short(device: str) -> str:
    """``CPU:0`` for a device of this process; a job's full name for one of another."""
    job, _, name = device.rpartition("/device:")
    is_here = job in ("", "/job:localhost/replica:0/task:0") and name
    return name.removeprefix("/") if is_here else device
