"""The graph of one training step, for any framework: how it is built, and its copies."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.model.intervals import Int64s

FORWARD: Final = "forward"
GRADIENT: Final = "gradient"
UPDATE: Final = "update"
INPUT: Final = "input"
VARIABLE: Final = "variable"
# Created on each device that takes it.
CONSTANT: Final = "constant"


class Operation(NamedTuple):
    """An operation of the step, an input or a variable.

    Args:
        name: Its name, unique in the graph.
        kind: Its type, such as MatMul.
        role: One of the words above.
        scope: Part of the model, such as item_tower or item_tower/item_dense; "" for none.
        device: Number of the device that it runs on.
        flops: Per step; None where it is not a product or convolution, or unknown.
        bytes: Size of a variable; None where unknown, 0 for other operations.
    """

    name: str
    kind: str
    role: str
    scope: str = ""
    device: int = 0
    flops: float | None = None
    bytes: float | None = 0


class Tensor(NamedTuple):
    """An output of an operation.

    Args:
        maker: Number of the operation.
        takers: Numbers of the operations that take it.
        bytes: Size; None where unknown.
        calls: How often a step makes it.
    """

    maker: int
    takers: tuple[int, ...]
    bytes: float | None
    calls: float = 1


class StepCopies(NamedTuple):
    """Copies of a step: bytes of known sizes, copies of unknown size, and all copies."""

    bytes: float
    unknown: float
    calls: float


@dataclass(frozen=True)
class StepGraph:
    """Operations of a training step and the tensors between them.

    Args:
        operations: Operations of the step, its inputs and its variables.
        tensors: Their outputs.
        together: Pairs of operations that must run on one device, as a variable and its readers.
        devices: Names of the devices, by number.
        looped: Operations within loops, which may run many times a step, and stay where they are.
    """

    operations: tuple[Operation, ...]
    tensors: tuple[Tensor, ...]
    together: tuple[tuple[int, int], ...]
    devices: tuple[str, ...]
    looped: frozenset[int] = frozenset()

    @cached_property
    def place(self) -> Int64s:
        """The number of the device that each operation runs on."""
        return np.array([operation.device for operation in self.operations], np.int64)

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """The numbers of the devices that operations may move to: GPUs if there are any."""
        numbers = range(len(self.devices))
        gpus = tuple(n for n in numbers if self.devices[n].rpartition(":")[0].endswith("GPU"))
        return gpus or tuple(numbers)

    def on_targets(self) -> "StepGraph":
        """The same with operations of other devices, such as the host, on the first target."""
        number = {device: place for place, device in enumerate(self.targets)}
        operations = tuple(o._replace(device=number.get(o.device, 0)) for o in self.operations)
        names = tuple(self.devices[device] for device in self.targets)
        return replace(self, operations=operations, devices=names)

    def on(self, place: Int64s) -> "StepGraph":
        """The same with each operation on the device of this number."""
        if np.array_equal(place, self.place):
            return self
        pairs = zip(self.operations, place.tolist(), strict=True)
        return replace(self, operations=tuple(o._replace(device=device) for o, device in pairs))

    @cached_property
    def units(self) -> Int64s:
        """The number, from 0, of the group of each operation that must run on one device."""
        from scipy.sparse import coo_array  # 0.5 s that few commands need
        from scipy.sparse.csgraph import connected_components

        count = len(self.operations)
        ends = np.array(self.together, np.int64).reshape(-1, 2)
        pairs = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
        labels: Int64s = connected_components(pairs, directed=False)[1].astype(np.int64)
        return labels

    @cached_property
    def sent(self) -> tuple[Tensor, ...]:
        """The tensors that may cross devices: constants are created where they are taken."""
        return tuple(t for t in self.tensors if self.operations[t.maker].role != CONSTANT)

    @property
    def recorded_copies(self) -> StepCopies:
        """The copies of a step as recorded: constants, too, where they were not made twice."""
        return copies_of(crossings_of(self.tensors, self.place))

    def copies(self, place: Int64s | None = None) -> StepCopies:
        """The copies of a step with each operation on the device of this number.

        A tensor is sent once to each device that takes it.
        """
        return copies_of(crossings_of(self.sent, self.place if place is None else place))

    def named(self, roles: Sequence[str]) -> Int64s:
        """The numbers of the operations of some roles."""
        members = [n for n, operation in enumerate(self.operations) if operation.role in roles]
        return np.array(members, np.int64)


def crossings_of(tensors: Iterable[Tensor], place: Int64s) -> Iterator[tuple[Tensor, int]]:
    """Each tensor that is sent, with the device that it is sent to."""
    for tensor in tensors:
        home = place[tensor.maker]
        for device in {place[taker] for taker in tensor.takers} - {home}:
            yield tensor, int(device)


def copies_of(crossings: Iterable[tuple[Tensor, int]]) -> StepCopies:
    """The copies of tensors that are sent."""
    known_bytes = unknown = calls = 0.0
    for tensor, _ in crossings:
        known_bytes += (tensor.bytes or 0) * tensor.calls
        unknown += tensor.calls * (tensor.bytes is None)
        calls += tensor.calls
    return StepCopies(known_bytes, unknown, calls)


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
