"""The parts of a model, from the scopes in the names of TensorFlow's operations."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple

from gpuprof.facts.connected_parts import connected_towers

# Scopes that say nothing of the model.
_OUTER: Final = ("StatefulPartitionedCall/", "ConstantFolding/", "GroupCrossDeviceControlEdges_0/")
_GRADIENTS: Final = ("gradient_tape/", "gradients/")
# What Keras calls a model that has no name of its own.
_UNNAMED: Final = re.compile(r"(?:functional|sequential|model)(?:_\d+)*$")
_NUMBER: Final = re.compile(r"(?<=.)_[1-9]\d*$")
_LOSS_OF_KERAS: Final = "compile_loss"
_READS: Final = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd"))

Path = tuple[str, ...]
Row = Mapping[str, Any]


class ModelPart(NamedTuple):
    """A part of a model on a device, as in `PLACEMENT`."""

    device: str
    tower: str | None
    layer: str | None
    is_gradient: bool


class Names:
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
        self._connected = {} if self._trained else connected_towers(rows, inputs, bare)

    def part(self, device: str, operation: str | None) -> ModelPart:
        """The part that an operation belongs to."""
        path, is_gradient = self._scopes(operation or "")
        above: Path = ()
        if path[: len(self._model)] == self._model:
            above, path = self._model, path[len(self._model) :]
        if not path or self._size[(*above, path[0])] < 2:  # noqa: PLR2004 - an operation's own
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
