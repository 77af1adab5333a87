"""Towers of a model whose operations have no scopes: what connects to weights until they join."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

_READ: Final = "ReadVariableOp"
_LOOKUP: Final = "ResourceGather"
_JOINED: Final = ""
# Weights that a tower has at least, and towers that a model has that is told in towers.
_LEAST: Final = 2
_NAMED: Final = 3

Row = Mapping[str, Any]
Links = Mapping[str, Sequence[str]]


def connected_towers(
    operations: Sequence[Row],
    inputs: Iterable[Row],
    bare: Callable[[str], tuple[str, bool]],
) -> Mapping[str, str]:
    """The tower of each operation, by what takes which weights and what follows from that.

    A tower begins where weights meet data, and ends where it meets another one. Weights belong to
    what takes them, gradients to what they are named after, else to what they take.

    Args:
        operations: Rows with ``operation`` and ``operation_type`` of one function.
        inputs: Rows with ``tensor``, ``dst_operation`` and ``is_variable``.
        bare: The name of an operation without scopes that say nothing, and whether it is one of
            the gradients.

    Returns:
        A name, the operations that take its first weights, for each operation of a tower; nothing
        where there are fewer than two towers of two weights.
    """
    kind = {row["operation"]: row["operation_type"] or "" for row in operations}
    makers, takers, reads = _links(inputs, kind)
    gradients = {name for name in kind if bare(name)[1]}
    forward = kind.keys() - gradients - _reached(gradients, takers)
    graph = {name: [m for m in makers.get(name, ()) if m in forward] for name in sorted(forward)}
    try:
        order = [*TopologicalSorter(graph).static_order()]
    except CycleError:  # a loop
        return {}
    towers, weights = _grown(order, graph, kind, reads)
    names = _names(towers, weights)
    of_forward = {name: names[tower] for name, tower in towers.items() if tower in names}
    for name in reversed(order):
        above = {of_forward.get(taker, "") for taker in takers.get(name, ()) if taker in forward}
        if name not in towers and name in weights and len(above) == 1 and "" not in above:
            of_forward[name] = above.pop()
    return of_forward | _of_gradients(sorted(gradients), makers, of_forward, bare)


def _links(inputs: Iterable[Row], kind: Mapping[str, str]) -> tuple[Links, Links, Links]:
    """Operation to those that make what it takes, that take what it makes; variables it reads."""
    makers, takers, reads = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in inputs:
        maker, taker = row["tensor"].rpartition(":")[0], row["dst_operation"]
        if not row["is_variable"]:
            makers[taker].append(maker)
            takers[maker].append(taker)
        elif kind.get(taker, "").startswith((_READ, _LOOKUP)):
            reads[taker].append(maker)
    return makers, takers, reads


def _reached(first: Iterable[str], takers: Links) -> set[str]:
    waiting, reached = list(first), set()
    while waiting:
        for taker in takers.get(waiting.pop(), ()):
            if taker not in reached:
                reached.add(taker)
                waiting.append(taker)
    return reached


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


def _names(towers: Mapping[str, str], weights: Mapping[str, set[str]]) -> Mapping[str, str]:
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
    gradients: Iterable[str],
    makers: Links,
    of_forward: Mapping[str, str],
    bare: Callable[[str], tuple[str, bool]],
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
