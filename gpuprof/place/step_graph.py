"""The graph of one training step, for any framework, and its copies between devices."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

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
