"""As much of cupti-python as the recorder calls: one kernel, handed over late or never."""

import os
import threading
import types
from enum import IntEnum

CALLBACKS = []
KERNEL = {
    "kind": 10, "name": "saxpy", "start": 10**18, "end": 10**18 + 1000, "device_id": 0,
    "context_id": 1, "stream_id": 7, "correlation_id": 1, "grid_x": 1, "grid_y": 1, "grid_z": 1,
    "block_x": 32, "block_y": 1, "block_z": 1, "registers_per_thread": 16,
    "static_shared_memory": 0, "dynamic_shared_memory": 0, "graph_node_id": 0,
}  # fmt: skip


class RuntimeApiTraceCbid(IntEnum):
    pass


DriverApiTraceCbid = RuntimeApiTraceCbid


def activity_register_callbacks(requested, completed):
    requested()
    CALLBACKS.append(completed)


def activity_enable(_):
    pass


activity_disable = activity_enable


def activity_get_num_dropped_records(_, __, ___):
    pass


def activity_flush_all(_):
    if os.environ["HANDED_OVER"] == "late":
        records = [types.SimpleNamespace(**KERNEL)]
        threading.Timer(0.1, CALLBACKS[0], (records,)).start()
