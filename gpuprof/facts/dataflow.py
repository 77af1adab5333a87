"""The training step of a TensorFlow program as a graph, and what it would copy placed otherwise."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from gpuprof.facts.model_parts import ModelPart, parts_by_function, step_executions, tensor_copies
from gpuprof.model.profile import Profile, once_per_profile

# What a graph holds beside what computes: its place tells nothing.
NO_WORK: Final = ("Const", "NoOp", "Identity")
_READS: Final = ("ReadVariableOp", "ResourceGather")
_WRITES: Final = ("Assign", "Resource")

Row = dict[str, Any]
# A function, and the name of one of its operations or arguments.
Node = tuple[str, str]
Moves = Mapping[Node, str]


class FlowTensor(NamedTuple):
    """What one operation makes for others.

    Args:
        maker: Operation or argument.
        takers: Operations.
        bytes: Of all executions; None where unknown.
        calls: Executions.
    """

    maker: Node
    takers: tuple[Node, ...]
    bytes: int | None
    calls: int


class Copied(NamedTuple):
    """What a step copies: bytes of known size, and copies of unknown size."""

    bytes: float
    unknown: float

    def less(self, deducted: "Copied") -> "Copied":
        """The difference."""
        return Copied(self.bytes - deducted.bytes, self.unknown - deducted.unknown)


@dataclass(frozen=True)
class Dataflow:
    """Operations of the training step, and what goes from one to another.

    Args:
        steps: Executions.
        kind: Operation to its type, such as MatMul.
        part: Operation to its part of the model.
        device: Operation or argument to where it runs.
        variables: Operation to the variables that it reads or writes, which it cannot leave.
        requested: Operation to the device that the script asked for; None for none.
        tensors: What operations make and take; of recordings of gpuprof before 2026-11-23 only
            what was copied.
        is_whole: Whether all tensors are known.
    """

    steps: int
    kind: Mapping[Node, str]
    part: Mapping[Node, ModelPart]
    device: Mapping[Node, str]
    variables: Mapping[Node, frozenset[Node]]
    requested: Mapping[Node, str | None]
    tensors: tuple[FlowTensor, ...]
    is_whole: bool

    def copied(self, moves: Moves | None = None) -> Copied:
        """What a step copies if some operations run on other devices; constants follow."""
        touched = self._touched(moves or {})
        before, after = self._sum(touched, {}), self._sum(touched, moves or {})
        return self._per_step(
            *(t - b + a for t, b, a in zip(self._today, before, after, strict=True))
        )

    def touching(self, moves: Moves) -> Copied:
        """What a step copies today to and from the operations that are to be moved."""
        return self._per_step(*self._sum(self._touched(moves), {}))

    def _per_step(self, known_bytes: int, unknown_copies: int) -> Copied:
        return Copied(known_bytes / self.steps, unknown_copies / self.steps)

    @cached_property
    def _today(self) -> tuple[int, int]:
        return self._sum(self.tensors, {})

    @cached_property
    def _at(self) -> Mapping[Node, list[int]]:
        """Each operation to the places of the tensors that it makes or takes."""
        places: dict[Node, list[int]] = defaultdict(list)
        for place, tensor in enumerate(self.tensors):
            for node in {tensor.maker, *tensor.takers}:
                places[node].append(place)
        return places

    def _touched(self, moves: Moves) -> list[FlowTensor]:
        places = {place for node in moves for place in self._at.get(node, ())}
        return [self.tensors[place] for place in places]

    def _sum(self, tensors: Iterable[FlowTensor], moves: Moves) -> tuple[int, int]:
        """Bytes of known size and copies of unknown size, of all steps."""
        known_bytes = unknown_copies = 0
        for tensor in tensors:
            places = {moves.get(taker, self.device[taker]) for taker in tensor.takers}
            follows = self.kind.get(tensor.maker) == "Const" and not moves.keys().isdisjoint(
                tensor.takers
            )
            maker_device = moves.get(tensor.maker, self.device[tensor.maker])
            copies = 0 if follows else len(places - {maker_device})
            known_bytes += copies * (tensor.bytes or 0)
            unknown_copies += copies * tensor.calls * (tensor.bytes is None)
        return known_bytes, unknown_copies

    @cached_property
    def takers(self) -> Mapping[Node, list[Node]]:
        """Operation to those that take what it makes."""
        takers: dict[Node, list[Node]] = defaultdict(list)
        for tensor in self.tensors:
            takers[tensor.maker] += tensor.takers
        return takers

    @cached_property
    def makers(self) -> Mapping[Node, list[Node]]:
        """Operation to those that make what it takes."""
        makers: dict[Node, list[Node]] = defaultdict(list)
        for tensor in self.tensors:
            for taker in tensor.takers:
                makers[taker].append(tensor.maker)
        return makers

    @cached_property
    def gradients(self) -> frozenset[Node]:
        """Operations of the backward pass."""
        return frozenset(node for node, part in self.part.items() if part.is_gradient)

    @cached_property
    def forward(self) -> frozenset[Node]:
        """Operations whose results gradients take, or from which such results follow.

        All that are no gradients where there are none, or only copies are known.
        """
        if not (self.is_whole and self.gradients):
            return frozenset(self.part) - self.gradients
        before = reached(self.gradients, self.makers) - self.gradients
        return frozenset(before & self.part.keys())

    @cached_property
    def readers(self) -> Mapping[Node, list[Node]]:
        """Each variable to the operations that read it in the forward pass."""
        reading = {
            variable: [node for node in nodes if node in self.forward and self.reads(node)]
            for variable, nodes in self.holders.items()
        }
        return {variable: nodes for variable, nodes in reading.items() if nodes}

    @cached_property
    def holders(self) -> Mapping[Node, list[Node]]:
        """Each variable to all operations that read or write it."""
        holders: dict[Node, list[Node]] = defaultdict(list)
        for node, variables in self.variables.items():
            for variable in variables:
                holders[variable].append(node)
        return holders

    def reads(self, node: Node) -> bool:
        """Whether an operation reads a variable."""
        return self.kind[node].startswith(_READS)

    def is_bound(self, node: Node) -> bool:
        """Whether an operation runs where it does for its variable alone.

        A lookup in a table does more than to read it, if it was not asked for elsewhere and other
        towers do not look up in the same one.
        """
        if node not in self.variables or not self.kind[node].startswith("ResourceGather"):
            return node in self.variables
        is_there = self.requested[node] is None or self.device[node].endswith(
            self.requested[node] or ""
        )
        return not is_there or any(self.is_shared(table) for table in self.variables[node])

    def is_shared(self, variable: Node) -> bool:
        """Whether several towers, or several operations without one, read a variable."""
        towers = Counter(self.part[reader].tower for reader in self.readers.get(variable, ()))
        return len(towers) > 1 or towers[None] > 1

    def place(self, variable: Node) -> str:
        """The device that a variable is on."""
        return self.device[self.holders[variable][0]]

    @cached_property
    def updates(self) -> Mapping[Node, frozenset[Node]]:
        """Each variable of the forward pass to the operations that only its update needs.

        The variables that only these read or write, as momentum, are its slots.
        """
        passes = self.forward | self.gradients
        slots = {
            node: [holder for variable in variables for holder in self.holders[variable]]
            for node, variables in self.variables.items()
            if not any(variable in self.readers for variable in variables)
        }
        makers = {
            node: [
                maker
                for maker in (*self.makers.get(node, ()), *slots.get(node, ()))
                if maker in self.part and maker not in passes
            ]
            for node in self.part
        }
        reaches: dict[Node, set[Node]] = defaultdict(set)
        for variable, nodes in self.holders.items():
            writes = {node for node in nodes if not self.reads(node)}
            if variable in self.readers and writes:
                for node in reached(writes, makers) | writes:
                    reaches[node].add(variable)
        updates: dict[Node, set[Node]] = defaultdict(set)
        for node, variables in reaches.items():
            if len(variables) == 1:
                updates[next(iter(variables))].add(node)
        for of_one in updates.values():
            # What writes the slots that these read, and reads them, for this variable alone.
            own_slots = {slot for node in of_one for slot in self.variables.get(node, ())}
            of_one.update(
                node
                for slot in own_slots - self.readers.keys()
                for node in self.holders[slot]
                if len(reaches.get(node, ())) <= 1
            )
        return {variable: frozenset(nodes) for variable, nodes in updates.items()}

    def main_device(self, nodes: Iterable[Node]) -> str | None:
        """Where most of some operations run that do more than read variables; None for none."""
        count = Counter(
            self.device[node]
            for node in nodes
            if self.kind[node] not in NO_WORK and not self.is_bound(node)
        )
        return min(count, key=lambda device: (-count[device], device), default=None)


def reached(first: Iterable[Node], along: Mapping[Node, Iterable[Node]]) -> set[Node]:
    """What can be reached from some nodes, in one step or more."""
    waiting = [node for start in first for node in along.get(start, ())]
    nodes: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in nodes:
            nodes.add(node)
            waiting += along.get(node, ())
    return nodes


@once_per_profile
def dataflow(profile: Profile) -> Dataflow | None:
    """The training step's operations; None where none was seen.

    Args:
        profile: Needs ``operations``, ``functions`` and ``tensor_copies``; ``operation_inputs``
            adds the tensors that are not copied today.
    """
    steps = step_executions(profile)
    all_operations = profile.table("operations").to_pylist()
    operations = {_node(r, "operation"): r for r in all_operations if r["function"] in steps}
    if not operations:
        return None
    names = parts_by_function(profile)
    kind = {node: row["operation_type"] or "" for node, row in operations.items()}
    part = {
        node: names[function].part(row["device"], operation)
        for node, row in operations.items()
        for function, operation in [node]
    }
    device = {node: row["device"] for node, row in operations.items()}
    is_whole = profile.has("operation_inputs")
    all_inputs = (
        profile.table("operation_inputs").to_pylist()
        if is_whole
        else [_input_of(row) for row in tensor_copies(profile)]
    )
    inputs = [row for row in all_inputs if row["function"] in steps]
    variables: dict[Node, set[Node]] = defaultdict(set)
    for row in inputs:
        device.setdefault(_maker(row), row["src_device"])
        device.setdefault(_node(row, "dst_operation"), row["dst_device"])
        if row["is_variable"]:
            variables[_node(row, "dst_operation")].add(_maker(row))
    tensors = [*_tensors(inputs)]
    if not is_whole:
        variables |= {n: {n} for n, k in kind.items() if k.startswith((*_READS, *_WRITES))}
        tensors += _returning(tensors, part, device)
    return Dataflow(
        sum(steps.values()),
        kind,
        part,
        device,
        {node: frozenset(some) for node, some in variables.items() if node in part},
        {node: row["requested_device"] for node, row in operations.items()},
        tuple(tensors),
        is_whole,
    )


def _input_of(copy: Row) -> Row:
    """A copy as an input of what takes it."""
    return copy | {
        "tensor": f"{copy['src_operation'] or copy['tensor']}:0",
        "trace": 0,
        "is_variable": False,
        "bytes": copy["bytes_per_call"],
        "dst_operation": copy["dst_operation"] or copy["tensor"],
    }


def _tensors(inputs: Iterable[Row]) -> Iterable[FlowTensor]:
    """Each tensor with all that take it, of all traces together where the same take it."""
    alike: dict[tuple[Any, ...], dict[Node, None]] = defaultdict(dict)
    for row in inputs:
        if not row["is_variable"]:
            key = (row["function"], row["tensor"], row["trace"], row["bytes"], row["calls"])
            alike[key][_node(row, "dst_operation")] = None
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for (function, tensor, _, size, calls), takers in alike.items():
        total = sums[function, tensor, size is None, tuple(takers)]
        total[0] += (size or 0) * calls
        total[1] += calls
    for (function, tensor, is_unknown, takers), (size, calls) in sums.items():
        maker = (function, tensor.rpartition(":")[0])
        yield FlowTensor(maker, takers, None if is_unknown else size, calls)


def _returning(
    tensors: Iterable[FlowTensor], part: Mapping[Node, ModelPart], device: Mapping[Node, str]
) -> Iterable[FlowTensor]:
    """Gradients of what the forward pass copies, as large, that do not cross devices today.

    They would if they ran with their forward passes. Only what crosses was recorded.
    """
    gradients = {p[1:3]: node for node, p in part.items() if p.is_gradient and p.tower}
    for tensor in tensors:
        maker, taker = part.get(tensor.maker), part.get(tensor.takers[0])
        if maker is None or taker is None or maker.is_gradient or taker.is_gradient:
            continue
        back = gradients.get(maker[1:3])
        start = gradients.get(taker[1:3], tensor.takers[0])
        if back is not None and back != start and device[back] == device[start]:
            yield FlowTensor(start, (back,), tensor.bytes, tensor.calls)


def _node(row: Row, end: str) -> Node:
    return row["function"], row[end]


def _maker(row: Row) -> Node:
    return row["function"], row["tensor"].rpartition(":")[0]
