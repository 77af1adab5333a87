"""Recordings of TensorFlow made by hand: the documents that `gpuprof record` writes."""

import json
from collections import defaultdict


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
