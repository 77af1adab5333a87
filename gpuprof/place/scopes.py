"""A placement as the scopes to write in a script, and as a document."""

from collections import Counter, defaultdict
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.base.units import counted
from gpuprof.facts.dataflow import NO_WORK
from gpuprof.model.intervals import Int64s
from gpuprof.place.step_graph import FORWARD, GRADIENT, UPDATE, VARIABLE, StepGraph

FORMAT: Final = "gpuprof-placement"
FORMAT_VERSION: Final = 1
_ORDER: Final = (VARIABLE, FORWARD, GRADIENT, UPDATE)
_CALLS: Final = {
    VARIABLE: "layer.build(...)  # or the call that makes them",
    FORWARD: "layer(...)",
    GRADIENT: "gradients = tape.gradient(...)  # a tape of their own",
    UPDATE: "variable.assign_sub(...)  # and what only it takes",
}


class Scope(NamedTuple):
    """Operations to run on another device, as one scope of a script.

    Args:
        device: Where it should run, such as CPU:1.
        role: As in `step_graph`.
        part: Part of the model; "" for none.
        operations: How many move.
    """

    device: str
    role: str
    part: str
    operations: int

    @property
    def description(self) -> str:
        """What moves, in words."""
        of = f" of {self.part}" if self.part else ""
        operations = counted(self.operations, "operation", "operations")
        return {
            VARIABLE: f"{counted(self.operations, 'variable', 'variables')}{of}",
            FORWARD: f"{self.part or 'forward pass'}: {operations}",
            GRADIENT: f"gradients{of}: {operations}",
            UPDATE: f"updates on {self.device}: {operations}",
        }[self.role]

    def lines(self) -> tuple[str, str]:
        """The lines of a TensorFlow script."""
        device = "variable.device" if self.role == UPDATE else f'"/{self.device}"'
        return f"with tf.device({device}):  # {self.description}", f"    {_CALLS[self.role]}"


def scopes(graph: StepGraph, place: Int64s) -> list[Scope]:
    """The scopes to move, by device, kind and part of the model.

    A scope is a tower where all of it goes to one device, else a layer.
    """
    # A variable and its updates belong to the part of its readers.
    of_unit: dict[int, str] = {}
    for number, operation in enumerate(graph.operations):
        if operation.scope and operation.role == FORWARD:
            of_unit.setdefault(int(graph.units[number]), operation.scope)
    units = graph.units.tolist()
    parts = [
        o.scope or of_unit.get(unit, "") for o, unit in zip(graph.operations, units, strict=True)
    ]
    moved: Counter[tuple[str, str, str]] = Counter()
    homes: dict[tuple[str, str], set[int]] = defaultdict(set)
    for number, operation in enumerate(graph.operations):
        if _works(graph, number):
            homes[operation.role, parts[number].partition("/")[0]].add(int(place[number]))
    for number in np.flatnonzero(place != graph.place).tolist():
        role, part = graph.operations[number].role, parts[number]
        tower = part.partition("/")[0]
        if _works(graph, number):
            is_one = len(homes[role, tower]) == 1
            part = "" if role == UPDATE else tower if is_one else part
            moved[graph.devices[place[number]], role, part] += 1
    moved_scopes = [Scope(*key, count) for key, count in moved.items()]
    return sorted(
        moved_scopes, key=lambda scope: (_ORDER.index(scope.role), scope.device, scope.part)
    )


def _works(graph: StepGraph, number: int) -> bool:
    operation = graph.operations[number]
    return operation.role in _ORDER and operation.kind not in NO_WORK


def document(graph: StepGraph, place: Int64s) -> dict[str, Any]:
    """The placement as JSON for scripts.

    ``layers`` has the device of each layer of the forward pass and of its variables. ``scopes`` has
    prefixes of operation names, split at slashes, with the device of all operations under them; the
    longest prefix counts. What is in neither stays where the script puts it.
    """
    copies = graph.copies(place)
    devices: dict[str, Counter[int]] = defaultdict(Counter)
    homes: dict[str, set[int]] = defaultdict(set)
    moved: set[str] = set()
    for number, operation in enumerate(graph.operations):
        if operation.role == VARIABLE or not _works(graph, number):
            continue
        device = int(place[number])
        if operation.role == FORWARD and operation.scope:
            devices[operation.scope][device] += 1
        prefixes = [*accumulate(operation.name.split("/"), "{}/{}".format)]
        for prefix in prefixes:
            homes[prefix].add(device)
        moved.update(prefixes if device != graph.place[number] else ())
    above = {prefix: prefix.rpartition("/")[0] for prefix in sorted(moved)}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "bytes_per_step": copies.bytes,
        "copies_per_step": copies.calls,
        "layers": {
            scope: graph.devices[count.most_common(1)[0][0]]
            for scope, count in sorted(devices.items())
        },
        # The shortest prefixes whose operations all go to one device.
        "scopes": {
            prefix: graph.devices[min(homes[prefix])]
            for prefix, shorter in above.items()
            if len(homes[prefix]) == 1 and (not shorter or len(homes[shorter]) > 1)
        },
    }
