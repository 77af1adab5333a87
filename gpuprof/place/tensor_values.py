"""Build the graph of a step from the inputs and outputs of operations."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuprof.place.step_graph import (
    FORWARD,
    UPDATE,
    VARIABLE,
    Operation,
    StepGraph,
    Tensor,
)


class Values:
    """Operations in their order, with their inputs and outputs."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._together: list[tuple[int, int]] = []
        self._made: dict[int, tuple[Any, int, float | None]] = {}
        self._takers: dict[int, dict[int, None]] = {}
        self._same: dict[int, Any] = {}

    def make(
        self, operation: Operation, inputs: Iterable[Any], outputs: Mapping[Any, float | None]
    ) -> None:
        """Add an operation with its inputs, and its outputs with their sizes."""
        number = len(self.operations)
        self.operations.append(operation)
        for value in map(self._original, inputs):
            if id(value) in self._made:
                self._takers[id(value)][number] = None
        for value, size in outputs.items():
            self._made[id(value)] = value, number, size
            self._takers[id(value)] = {}

    def alias(self, names: Sequence[Any], values: Sequence[Any]) -> None:
        """Give values further names, as within a call."""
        for name, value in zip(names, values, strict=True):
            self._same[id(name)] = self._original(value)

    def bind(self, value: Any) -> None:
        """Make the last operation run where a value is made."""
        self._together.append((len(self.operations) - 1, self._made[id(value)][1]))

    def graph(self) -> StepGraph:
        """The graph, on one device."""
        tensors = [
            Tensor(maker, tuple(self._takers[key]), size)
            for key, (_, maker, size) in self._made.items()
            if self._takers[key]
        ]
        return StepGraph(tuple(self.operations), tuple(tensors), tuple(self._together), ("0",))

    def _original(self, value: Any) -> Any:
        return self._same.get(id(value), value)


def bytes_of(value: Any) -> float | None:
    """The size of a tensor; 0 for a tuple, which is unpacked later; None where it is symbolic."""
    if isinstance(value, (tuple, list)):
        return 0
    shape = getattr(value, "shape", None)
    if shape is None or not all(isinstance(size, int) for size in shape):
        return None
    return float(math.prod(shape) * value.dtype.itemsize)


def placed(graph: StepGraph, devices: Mapping[str, str]) -> StepGraph:
    """The same with parts of the model on devices.

    A variable belongs to the part of the forward pass that takes it, if only one does; its updates
    without a part run where the variable is.

    Args:
        graph: The step.
        devices: Part, such as item or item/dense, to its device; "" for all others. The longest
            part that contains an operation counts.
    """
    names = tuple(dict.fromkeys([devices.get("", next(iter(devices.values()))), *devices.values()]))
    operations = list(graph.operations)
    for tensor in graph.tensors:
        maker, takers = operations[tensor.maker], [operations[n] for n in tensor.takers]
        parts = {taker.scope for taker in takers if taker.role == FORWARD}
        if maker.role == VARIABLE and not maker.scope and len(parts) == 1:
            operations[tensor.maker] = maker._replace(scope=parts.pop())
    for place, operation in enumerate(operations):
        words = operation.scope.split("/")
        parts_around = ("/".join(words[:depth]) for depth in range(len(words), 0, -1))
        name = next((devices[part] for part in parts_around if part in devices), names[0])
        operations[place] = operation._replace(device=names.index(name))
    for tensor in sorted(graph.tensors, key=lambda t: operations[t.maker].role == VARIABLE):
        for number in tensor.takers:
            if operations[number].role == UPDATE and not operations[number].scope:
                device = operations[tensor.maker].device
                operations[number] = operations[number]._replace(device=device)
    return StepGraph(tuple(operations), graph.tensors, graph.together, names)
