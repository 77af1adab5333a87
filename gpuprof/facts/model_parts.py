"""The parts of a model, from the scopes in the names of TensorFlow's operations.

Where no scope holds weights, the towers of a model are what connects to weights until they join.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from typing import Any, Final, NamedTuple

from gpuprof.model.profile import Profile, once_per_profile

# Scopes that say nothing of the model.
_OUTER: Final = ("StatefulPartitionedCall/", "ConstantFolding/", "GroupCrossDeviceControlEdges_0/")
_GRADIENTS: Final = ("gradient_tape/", "gradients/")
# What Keras calls a model that has no name of its own.
_UNNAMED: Final = re.compile(r"(?:functional|sequential|model)(?:_\d+)*$")
_NUMBER: Final = re.compile(r"(?<=.)_[1-9]\d*$")
_LOSS_OF_KERAS: Final = "compile_loss"
_READS: Final = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd"))
_READ: Final = "ReadVariableOp"
_JOINED: Final = ""
# Weights that a tower has at least, and towers that a model has that is told in towers.
_LEAST: Final = 2
_NAMED: Final = 3

Path = tuple[str, ...]
Row = Mapping[str, Any]
Links = Mapping[str, Sequence[str]]


class ModelPart(NamedTuple):
    """A part of a model on a device, as in `PLACEMENT`."""

    device: str
    tower: str | None
    layer: str | None
    is_gradient: bool


class PartNames:
    """The parts that the names of a program's operations tell.

    Scopes have names in small letters, as Keras gives them; what begins with a capital is an
    operation with others of its own, as is a scope with an operation's name. A scope around
    the whole model is peeled off: the tower is the scope below, if it holds more than one
    operation, and the layer is the one below that, or the next one where it holds several.

    Args:
        operations: Rows with ``operation``, ``operation_type`` and ``device``.
        inputs: Rows with ``tensor``, ``dst_operation`` and ``is_variable``: where no scope holds
            weights, they tell the towers.
    """

    def __init__(self, operations: Iterable[Row], inputs: Iterable[Row] = ()) -> None:
        rows = list(operations)
        self._names = {bare(row["operation"])[0] for row in rows}
        paths = [(row, *self._scopes(row["operation"])) for row in rows]
        self._children: dict[Path, set[str]] = defaultdict(set)
        self._size: dict[Path, int] = defaultdict(int)
        self._devices: dict[Path, set[str]] = defaultdict(set)
        reading, gradient = set(), set()
        for row, path, is_gradient in paths:
            for depth in range(1, len(path) + 1):
                scope = path[:depth]
                self._children[scope[:-1]].add(scope[-1])
                self._size[scope] += 1
                if is_gradient:
                    gradient.add(scope)
                elif row["operation_type"] in _READS:
                    reading.add(scope)
                else:
                    self._devices[scope].add(row["device"])
        scopes = set().union(*self._children.values())
        self._alike = Counter(_NUMBER.sub("", name) for name in scopes)
        self._trained = reading & gradient
        self._model = self._around_all()
        self._is_grouped = self._has_prefixes()
        self._connected = {} if self._trained else connected_towers(rows, inputs)

    def part(self, device: str, operation: str | None) -> ModelPart:
        """The part that an operation belongs to."""
        path, is_gradient = self._scopes(operation or "")
        above: Path = ()
        if path[: len(self._model)] == self._model:
            above, path = self._model, path[len(self._model) :]
        if not path or self._size[(*above, path[0])] <= 1:  # an operation's own
            return ModelPart(device, self._connected.get(operation or ""), None, is_gradient)
        tower = (*above, path[0])
        below = path[1:]
        while self._is_wrapper(tower) and below:
            tower, below = (*tower, below[0]), below[1:]
        layer = (*tower, below[0]) if below else None
        if layer and len(below) > 1 and len(self._children[layer]) > 1:
            layer = (*layer, below[1])
        name = self._shown(tower)
        if self._is_grouped and above == tower[:-1] and layer is None:
            prefix = name.partition("_")[0]
            return ModelPart(device, prefix, name, is_gradient)
        return ModelPart(device, name, self._shown(layer) if layer else None, is_gradient)

    def tower(self, operation: str) -> str | None:
        """The tower of an operation; of one of no known scope, the outermost one of its name."""
        scopes, _ = self._scopes(operation)
        if scopes and scopes[:1] not in self._size:
            return scopes[0]
        return self.part("", operation).tower

    def _scopes(self, operation: str) -> tuple[Path, bool]:
        """The scopes of an operation's name, and whether it is one of the gradients'."""
        name, is_gradient = bare(operation)
        scopes: Path = ()
        for scope in takewhile(lambda word: word[:1].islower(), name.split("/")[:-1]):
            if "/".join((*scopes, scope)) in self._names:
                break
            scopes = (*scopes, scope)
        return scopes, is_gradient

    def _around_all(self) -> Path:
        """The scopes around the whole model: the only ones with weights, layers below them."""
        model: Path = ()
        is_keras = _LOSS_OF_KERAS in self._children[()]
        while True:
            trained = [name for name in self._children[model] if (*model, name) in self._trained]
            scope = (*model, *trained)
            if len(trained) != 1 or not any(
                (*scope, name) in self._trained for name in self._children[scope]
            ):
                return model
            is_spread = len(self._devices[scope]) > 1
            holds_towers = any(self._has_layers((*scope, n)) for n in self._children[scope])
            if not (is_spread or is_keras or holds_towers or _UNNAMED.match(trained[0])):
                return model
            model = scope

    def _is_wrapper(self, scope: Path) -> bool:
        """Whether a scope holds one other alone, which holds layers: a model in a layer."""
        inner = self._children[scope]
        return len(inner) == 1 and len(self._children[(*scope, *inner)]) > 1

    def _has_prefixes(self) -> bool:
        """Whether the layers of several towers lie side by side, named ``user_dense`` and so on."""
        members = defaultdict(set)
        trained = [n for n in self._children[self._model] if (*self._model, n) in self._trained]
        for name in trained:
            prefix, _, layer = _NUMBER.sub("", name).partition("_")
            members[prefix].add(layer)
        several = [layers for layers in members.values() if len(layers - {""}) > 1]
        return len(several) > 1 and not any(
            self._is_wrapper((*self._model, n)) or self._has_layers((*self._model, n))
            for n in trained
        )

    def _has_layers(self, scope: Path) -> bool:
        return any((*scope, name) in self._trained for name in self._children[scope])

    def _shown(self, path: Path) -> str:
        """The name without the number that another trace gives it, where no other has it."""
        base = _NUMBER.sub("", path[-1])
        return base if self._alike[base] == 1 else path[-1]


def bare(operation: str) -> tuple[str, bool]:
    """An operation's name without scopes that say nothing, and whether it is a gradient's."""
    name, is_gradient = operation, False
    while True:
        scope = next((s for s in (*_OUTER, *_GRADIENTS) if name.startswith(s)), None)
        if scope is None:
            return name, is_gradient
        name, is_gradient = name.removeprefix(scope), is_gradient or scope in _GRADIENTS


def connected_towers(operations: Sequence[Row], inputs: Iterable[Row]) -> Mapping[str, str]:
    """The tower of each operation, by what takes which weights and what follows from that.

    A tower begins where weights meet data, and ends where it meets another one. Weights belong to
    what takes them, gradients to what they are named after, else to what they take.

    Args:
        operations: Rows with ``operation`` and ``operation_type`` of one function.
        inputs: Rows with ``tensor``, ``dst_operation`` and ``is_variable``.

    Returns:
        A name, the operations that take its first weights, for each operation of a tower; nothing
        where there are fewer than two towers of two weights.
    """
    kind = {row["operation"]: row["operation_type"] or "" for row in operations}
    # Operation to those that make what it takes, and that take what it makes; variables it reads.
    makers, takers, reads = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in inputs:
        maker, taker = row["tensor"].rpartition(":")[0], row["dst_operation"]
        if not row["is_variable"]:
            makers[taker].append(maker)
            takers[maker].append(taker)
        elif kind.get(taker, "").startswith((_READ, "ResourceGather")):
            reads[taker].append(maker)
    gradients = {name for name in kind if bare(name)[1]}
    waiting, after = [*gradients], set[str]()
    while waiting:
        reached = {*takers.get(waiting.pop(), ())} - after
        after |= reached
        waiting += reached
    forward = kind.keys() - gradients - after
    graph = {name: [m for m in makers.get(name, ()) if m in forward] for name in sorted(forward)}
    try:
        order = [*TopologicalSorter(graph).static_order()]
    except CycleError:  # a loop
        return {}
    towers, weights = _grown(order, graph, kind, reads)
    names = _tower_names(towers, weights)
    of_forward = {name: names[tower] for name, tower in towers.items() if tower in names}
    for name in reversed(order):
        above = {of_forward.get(taker, "") for taker in takers.get(name, ()) if taker in forward}
        if name not in towers and name in weights and len(above) == 1 and "" not in above:
            of_forward[name] = above.pop()
    return of_forward | _of_gradients(sorted(gradients), makers, of_forward)


def _grown(
    order: Sequence[str], makers: Links, kind: Mapping[str, str], reads: Links
) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Operation to the first one of its tower, and to the weights that it takes itself."""
    towers: dict[str, str] = {}
    weights: dict[str, set[str]] = {}
    # Operations that make nothing but weights, as they are or cast.
    plain: set[str] = set()
    for name in order:
        of_makers = makers[name]
        taken = {*reads.get(name, ()), *(w for m in of_makers if m in plain for w in weights[m])}
        before = {towers[maker] for maker in of_makers if maker in towers}
        if taken:
            weights[name] = taken
        if kind[name].startswith(_READ) or (of_makers and plain.issuperset(of_makers)):
            plain.add(name)
        elif before or taken:
            towers[name] = (before.pop() if len(before) == 1 else _JOINED) if before else name
    return towers, weights


def _tower_names(towers: Mapping[str, str], weights: Mapping[str, set[str]]) -> Mapping[str, str]:
    """The first operation of each tower with weights enough, to its name."""
    taking: dict[str, list[str]] = defaultdict(list)
    for name, tower in towers.items():
        if tower != _JOINED and name in weights:
            taking[tower].append(name)
    of_weights = {t: {w for name in names for w in weights[name]} for t, names in taking.items()}
    chosen = [tower for tower, some in of_weights.items() if len(some) >= _LEAST]
    if len(chosen) < _LEAST:
        return {}
    return {
        tower: " + ".join(taking[tower][:_NAMED]) + " + ..." * (len(taking[tower]) > _NAMED)
        for tower in chosen
    }


def _of_gradients(
    gradients: Iterable[str], makers: Links, of_forward: Mapping[str, str]
) -> dict[str, str]:
    towers = {}
    for gradient in gradients:
        scopes = bare(gradient)[0].split("/")[:-1]
        above = ["/".join(scopes[:depth]) for depth in range(len(scopes), 0, -1)]
        named = [of_forward[scope] for scope in above if scope in of_forward]
        taken = {of_forward[maker] for maker in makers.get(gradient, ()) if maker in of_forward}
        if named or len(taken) == 1:
            towers[gradient] = named[0] if named else taken.pop()
    return towers


def step_executions(profile: Profile) -> dict[str, int]:
    """Executions of each function that is a training step, or of the only one where none is."""
    rows = profile.table("functions").to_pylist()
    steps = [row for row in rows if row["is_step"]] or (rows if len(rows) == 1 else [])
    return {row["function"]: row["executions"] for row in steps}


def tensor_copies(profile: Profile) -> list[dict[str, Any]]:
    """The rows of ``tensor_copies`` without control edges, which carry no data."""
    return [row for row in profile.table("tensor_copies").to_pylist() if not row["is_control"]]


def copied_in_every_step(profile: Profile) -> list[tuple[dict[str, Any], int]]:
    """The tensors that each training step copies, with how often its function ran."""
    runs = {
        row["function"]: row["executions"]
        for row in profile.table("functions").to_pylist()
        if row["is_step"]
    }
    return [
        (row, number)
        for row in tensor_copies(profile)
        if (number := runs.get(row["function"], 0)) and row["calls"] >= number
    ]


@once_per_profile
def parts_by_function(profile: Profile) -> defaultdict[str | None, PartNames]:
    """The parts of the model that a function's operation names tell, by function."""
    rows: dict[str, dict[str, list[Row]]] = {}
    for table in ("operations", "operation_inputs"):
        rows[table] = defaultdict(list)
        for row in profile.table(table).to_pylist() if profile.has(table) else ():
            rows[table][row["function"]].append(row)
    names: defaultdict[str | None, PartNames] = defaultdict(lambda: PartNames(()))
    inputs = rows["operation_inputs"]
    names.update({f: PartNames(of, inputs.get(f, ())) for f, of in rows["operations"].items()})
    return names
