"""Recordings of TensorFlow made by hand: the documents that `gpuprof record` writes."""

import json
from collections import defaultdict
from itertools import pairwise


def copy(tensor, size, calls=10, **changes):
    return {
        "function": "step",
        "src_device": "CPU:1",
        "dst_device": "CPU:0",
        "tensor": tensor,
        "src_operation": tensor,
        "dst_operation": "head/concat",
        "is_gradient": False,
        "is_control": False,
        "calls": calls,
        "bytes_per_call": size,
    } | changes


def operation(name, device="CPU:0", asked=None, **changes):
    return {
        "function": "step",
        "operation": name,
        "operation_type": "MatMul",
        "requested_device": asked,
        "device": device,
        "calls": 10,
        "traced_calls": 10,
        "total_ns": 100,
        "flops": None,
    } | changes


def taken(tensor, taker, device="CPU:0", src_device="CPU:0", size=None, **changes):
    """An input of an operation on a device."""
    return {
        "function": "step",
        "tensor": tensor,
        "src_device": src_device,
        "dst_operation": taker,
        "dst_device": device,
        "bytes": size,
        "is_variable": False,
        "trace": 0,
        "calls": 10,
    } | changes


def document(*copies, **changes):
    return {
        "format": "gpuprof-tensorflow",
        "format_version": 1,
        "process": {
            "process_id": 7,
            "command": ["python", "train.py"],
            "tensorflow_version": "2.21.0",
            "devices": ["CPU:0", "CPU:1"],
            "start_unix_ns": 5,
        },
        "windows": {"count": 1, "recorded_ns": 10, "span_ns": 10, "ended_in_order": True},
        "functions": [
            {"function": "step", "executions": 10, "is_step": True},
            {"function": "evaluate", "executions": 3, "is_step": False},
        ],
        "operations": [
            {
                "function": "step",
                "operation": "head/concat",
                "operation_type": "ConcatV2",
                "requested_device": "CPU:0",
                "device": "CPU:0",
                "calls": 10,
                "traced_calls": 9,
                "total_ns": 1000,
                "flops": 64,
            }
        ],
        "tensor_copies": list(copies),
        "notes": [],
    } | changes


_KINDS = {"concat": "ConcatV2", "shape": "Const"}


def flowing(devices, *paths, sizes=None):
    """The operations of a model, and their inputs.

    Args:
        devices: Operation -> its device. Its type is the last word of its name where that is a
            type, such as ``ReadVariableOp_1``.
        paths: Operations, each of which takes what the one before it made, such as
            ``weights > read > sum``; what has no device is a variable.
        sizes: Operation -> the bytes that it makes; 8 where it has none.
    """
    operations = []
    for name, device in devices.items():
        word = name.rpartition("/")[2].rstrip("_0123456789")
        kind = _KINDS.get(word, word if word[0].isupper() else "MatMul")
        operations.append(operation(name, device, operation_type=kind))
    inputs = []
    for maker, taker in (pair for path in paths for pair in pairwise(path.split(" > "))):
        at, is_variable = devices[taker], maker not in devices
        size = None if is_variable else (sizes or {}).get(maker, 8)
        made_at = devices.get(maker, at)
        inputs.append(taken(f"{maker}:0", taker, at, made_at, size, is_variable=is_variable))
    return operations, inputs


def graphs(inputs):
    """Inputs that `taken` made as the graphs of a document, one per function and trace."""
    alike = defaultdict(list)
    for row in inputs:
        alike[row["function"], row["trace"], row["calls"]].append(row)
    return [_graph(function, calls, rows) for (function, _, calls), rows in alike.items()]


def _graph(function, calls, rows):
    device_of = {row["tensor"].rpartition(":")[0]: row["src_device"] for row in rows}
    device_of |= {row["dst_operation"]: row["dst_device"] for row in rows}
    number = {name: place for place, name in enumerate(device_of)}
    ends = [(*row["tensor"].rsplit(":", 1), row) for row in rows]
    handles = {maker for maker, _, row in ends if row["is_variable"]}
    return {
        "function": function,
        "calls": calls,
        "names": [*device_of],
        "devices": [*device_of.values()],
        "inputs": [
            [number[maker], int(output), number[row["dst_operation"]], row["bytes"]]
            for maker, output, row in ends
        ],
        "variables": [[number[name], None] for name in handles],
    }


def written(folder, made):
    path = folder / "tensorflow-7.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    return path
