"""Puts a model's parts on the devices of a file that ``gpuprof place --output`` wrote.

``scopes`` are beginnings of names of operations: TensorFlow traces these onto their devices.
``layers`` are ends of the paths of Keras layers: their variables and operations go there, too.
Nothing in the script is edited. What the file names and the program lacks is noted.
"""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuprof_importing import when_imported

_LAYER = "keras.src.layers.layer"
_OPTIMIZER = "keras.src.backend.tensorflow.optimizer"
# What inlining puts before the names of a function's operations.
_CALLS = re.compile(r"^(?:\w*PartitionedCall(?:_\d+)?/)+")


def apply(path: str, note: Callable[[str], None]) -> None:
    """Place what TensorFlow traces, and what Keras builds, from now on.

    Args:
        path: The file.
        note: Takes a sentence on what the program lacks, at its end.
    """
    from tensorflow.python.framework import ops  # the script has imported it

    document = json.loads(Path(path).read_text(encoding="utf-8"))
    scopes = {_CALLS.sub("", name): device for name, device in document["scopes"].items()}
    met: set[str] = set()
    original = ops.Graph._apply_device_functions  # noqa: SLF001 - nothing public sees gradients

    def apply_device_functions(self: Any, operation: Any) -> None:
        original(self, operation)
        scope = scope_of(operation.name, scopes)
        if scope is not None:
            met.add(scope)
            operation._set_device(f"/{scopes[scope]}")  # noqa: SLF001 - as `original` does

    @atexit.register
    def note_absent() -> None:
        if absent := sorted(scopes.keys() - met):
            note(f"the placement names operations that were not traced: {', '.join(absent)}")

    ops.Graph._apply_device_functions = apply_device_functions  # noqa: SLF001
    when_imported(_LAYER, lambda module: _place_layers(module, document["layers"]))
    when_imported(_OPTIMIZER, _keep_gradients_apart)


def scope_of(name: str, scopes: Mapping[str, str]) -> str | None:
    """The scope of an operation: the longest beginning of its name, at a slash."""
    words = name.split("/")
    beginnings = ("/".join(words[:depth]) for depth in range(len(words), 0, -1))
    return next((beginning for beginning in beginnings if beginning in scopes), None)


def layer_of(path: str, layers: Mapping[str, str]) -> str | None:
    """The layer of a path: the longest end of it, at a slash."""
    words = path.split("/")
    ends = ("/".join(words[first:]) for first in range(len(words)))
    return next((end for end in ends if end in layers), None)


def _place_layers(module: Any, layers: Mapping[str, str]) -> None:
    from keras.src.backend.common.name_scope import current_path  # it is imported
    from tensorflow.python.framework import ops

    original = module.Layer.__call__

    def call(self: Any, *inputs: Any, **named: Any) -> Any:
        layer = layer_of("/".join(filter(None, (current_path(), self.name))), layers)
        if layer is None:
            return original(self, *inputs, **named)
        with ops.device(f"/{layers[layer]}"):
            return original(self, *inputs, **named)

    call.__doc__, call.__name__ = original.__doc__, original.__name__
    setattr(call, "__wrapped__", original)  # noqa: B010 - Keras looks at its signature
    module.Layer.__call__ = call


def _keep_gradients_apart(module: Any) -> None:
    """Skip the sum over replicas where there is one: an operation that all gradients pass.

    It is on one device, and TensorFlow takes it away only where all gradients are on that device.
    """
    from tensorflow.python.distribute import distribute_lib  # it is imported

    original = module.TFOptimizer._all_reduce_sum_gradients  # noqa: SLF001 - called by name

    def all_reduce_sum_gradients(self: Any, grads_and_vars: Any) -> Any:
        context = distribute_lib.get_replica_context()
        if context is None or context.num_replicas_in_sync > 1:
            return original(self, grads_and_vars)
        pairs = list(grads_and_vars)
        module.filter_empty_gradients(pairs)  # says so where there are none
        return pairs

    module.TFOptimizer._all_reduce_sum_gradients = all_reduce_sum_gradients  # noqa: SLF001
