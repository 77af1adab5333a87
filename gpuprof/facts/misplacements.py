"""What of a TensorFlow model is on another device than it should be, and where it should be."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from gpuprof.base.units import listed
from gpuprof.facts.dataflow import Dataflow, FlowTensor, Moves, Node

_JOINS: Final = ("Concat", "Pack", "AddN", "Stack")
_GATHERS: Final = ("Gather", "ResourceGather")
# Crossings on a path of the forward pass from which on a model without towers takes turns.
_LEAST_CROSSINGS: Final = 3
_SHOWN: Final = 3
# Of a model whose operations have no towers.
ALL: Final = "the model"


class Misplacement(NamedTuple):
    """Operations that run elsewhere than they should.

    Args:
        cause: A stable name.
        moves: Operation to the device that it should run on.
        finding: What is wrong, in a clause.
        fix: What to do, in a clause.
        table: The table that tells more.
        pronoun: For what ``finding`` is about: them or it.
        adds_bytes: What a step copies then that it does not copy now; None where unknown.
    """

    cause: str
    moves: Moves
    finding: str
    fix: str
    table: str = "placement_edges"
    pronoun: str = "them"
    adds_bytes: float | None = 0


def misplacements(flow: Dataflow) -> list[Misplacement]:
    """What could be moved, in no order; moves that save nothing are among them."""
    kinds: tuple[Callable[[Dataflow], Iterator[Misplacement]], ...] = (
        _gradients, _weights, _slots, _lookups, _repeated, _joins, _alternating,
    )  # fmt: skip
    return [misplacement for kind in kinds for misplacement in kind(flow)]


def _gradients(flow: Dataflow) -> Iterator[Misplacement]:
    """Gradients on another device than the forward pass that they belong to."""
    away = {
        node: home
        for node, home in _homes(flow).items()
        if home != flow.device[node] and node not in flow.variables
    }
    for (here, home), nodes in _by_way(flow, away).items():
        parts = _names_of(flow, nodes) or f"what runs on {home}"
        yield Misplacement(
            "gradients_outside",
            dict.fromkeys(nodes, home),
            f"gradients of {parts} run on {here}, {'their' if ' and ' in parts else 'its'} forward"
            f" pass on {home}",
            "TensorFlow's gradients ignore the forward scope: try colocating them, with a tape per"
            " tower and its gradient() under the tower's tf.device",
        )


def _homes(flow: Dataflow) -> dict[Node, str]:
    """Each operation of the gradients to the device of its forward pass, as far as known.

    By the scopes of its name, else by what it takes of the forward pass.
    """
    # The operations of each layer, and those of each tower.
    forward: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node, part in flow.part.items():
        is_join = flow.kind[node].startswith(_JOINS)
        if node not in flow.gradients and part.tower is not None and not is_join:
            forward[part[1:3]].append(node)
            forward[part[1:2]].append(node)
    devices = {key: flow.main_device(nodes) for key, nodes in forward.items()}
    homes: dict[Node, str] = {}
    for node in (node for node, part in flow.part.items() if part.is_gradient):
        part = flow.part[node]
        makers = (m for m in flow.makers.get(node, ()) if m in flow.forward)
        runs = (_runs_on(flow, m) for m in makers if flow.kind[m] != "Const")
        home = devices.get(part[1:3]) or devices.get(part[1:2]) or next(filter(None, runs), None)
        if home is not None:
            homes[node] = home
    waiting = list(homes)
    for node in waiting:
        for taker in flow.takers.get(node, ()):
            if taker in flow.gradients and taker not in homes:
                homes[taker] = homes[node]
                waiting.append(taker)
    return homes


def _runs_on(flow: Dataflow, node: Node) -> str | None:
    """Where an operation runs; of one that reads a variable, where that is taken."""
    if not flow.is_bound(node):
        return flow.device[node]
    return flow.main_device(t for t in flow.takers.get(node, ()) if t in flow.forward)


def _weights(flow: Dataflow) -> Iterator[Misplacement]:
    """Weights that one device alone takes, and which are on another one."""
    away: dict[Node, str] = {}
    for variable, readers in flow.readers.items():
        devices = {device for reader in readers if (device := _runs_on(flow, reader))}
        if len(devices) == 1 and flow.place(variable) not in devices:
            away[variable] = devices.pop()
    for (here, home), variables in _by_way(flow, away).items():
        moves = {
            node: home
            for variable in variables
            for node in (*flow.holders[variable], *flow.updates.get(variable, ()))
            if flow.device[node] == here
        }
        parts = _names_of(flow, [node for v in variables for node in flow.readers[v]])
        if not (parts or flow.is_whole):
            continue  # which operations read the same variable is not known
        yield Misplacement(
            "weights_apart",
            moves,
            f"weights of {parts or 'operations'} are on {here}, the layers run on {home}",
            f"build the layers under tf.device('/{home}'), where they run (or call them under"
            f" tf.device('/{here}'), if they are to run there)",
        )


def _slots(flow: Dataflow) -> Iterator[Misplacement]:
    """Updates, with the variables that only they use, on another device than the weights."""
    away: dict[str, dict[Node, str]] = {"optimiser_slots": {}, "update_outside": {}}
    weights: dict[str, set[Node]] = defaultdict(set)
    for variable, nodes in flow.updates.items():
        home = flow.place(variable)
        apart = {node: home for node in nodes if flow.device[node] != home}
        has_slots = any(node in flow.variables for node in apart)
        cause = "optimiser_slots" if has_slots else "update_outside"
        away[cause] |= apart
        weights[cause] |= {variable} if apart else set()
    for cause, moves in away.items():
        for (here, home), apart_nodes in _by_way(flow, moves).items():
            variables = [v for v in weights[cause] if not flow.updates[v].isdisjoint(apart_nodes)]
            parts = _names_of(flow, [node for v in variables for node in flow.readers[v]])
            of = f"of {parts} " if parts else ""
            if cause == "optimiser_slots":
                finding = f"optimiser slots {of}are on {here}, the weights on {home}"
                fix = "create each slot under the device of its variable, and update both there"
            else:
                finding = f"updates of weights {of}run on {here}, the weights are on {home}"
                fix = "update each variable under tf.device(variable.device)"
            yield Misplacement(cause, dict.fromkeys(apart_nodes, home), finding, fix)


def _lookups(flow: Dataflow) -> Iterator[Misplacement]:
    """Tables that several towers look up in: copied whole, or row for row, to one of them."""
    for variable, readers in flow.readers.items():
        here = flow.place(variable)
        runs = {_runs_on(flow, reader) for reader in readers}
        if len(runs) == 1 and runs != {here}:
            continue  # these are weights apart from the layers that run on one device
        lookups = sorted(n for n in _lookups_in(flow, readers) if flow.device[n] != here)
        gathers = [n for n in readers if flow.kind[n].startswith(_GATHERS)]
        away = [n for n in gathers if (_runs_on(flow, n) or here) != here]
        if len({_runs_on(flow, reader) for reader in readers} | {here}) > 1 and lookups:
            far = flow.device[lookups[0]]
            yield Misplacement(
                "shared_embedding",
                dict.fromkeys(lookups, here),
                f"a shared embedding on {here} is copied whole to {far}, where"
                f" {_names_of(flow, lookups) or 'an operation'} looks up in it",
                f"look up under tf.device('/{here}'), where the table is, and send the rows",
                "repeated_transfers",
                "it",
            )
        elif (far_table := _far_table(flow, variable, here)) is not None:
            yield far_table
        elif away and flow.is_shared(variable):
            far = str(_runs_on(flow, away[0]))
            moves = dict.fromkeys(away, far)
            table_bytes = _size(flow, variable)
            is_small = (
                table_bytes is not None
                and table_bytes < flow.copied().less(flow.copied(moves)).bytes
            )
            yield Misplacement(
                "shared_embedding",
                moves,
                f"{_names_of(flow, away) or f'what runs on {far}'} looks up in a shared embedding"
                f" on {here}, and its rows go to {far}",
                f"read the table, which is smaller, once a step under tf.device('/{far}')"
                if is_small
                else "look up each word once, with tf.unique, and send no row twice",
                pronoun="it",
                adds_bytes=table_bytes if is_small else None,
            )


def _far_table(flow: Dataflow, variable: Node, here: str) -> Misplacement | None:
    """A shared table whose rows all go to one other device; None where they do not."""
    if not (flow.is_shared(variable) and flow.is_whole):
        return None
    readers = flow.readers[variable]
    parts = {flow.part[reader][1:3] for reader in readers}
    nodes = {node for node in flow.forward if flow.part[node][1:3] in parts}
    nodes |= {*readers}
    takers = {
        taker
        for node in nodes
        for taker in flow.takers.get(node, ())
        if taker in flow.forward and taker not in nodes
    }
    devices = {device for taker in takers if (device := _runs_on(flow, taker))}
    if len(devices) != 1 or devices == {here}:
        return None
    [far] = devices
    moves = {node: far for node in _with_training(flow, nodes) if flow.device[node] != far}
    towers = _names_of(flow, takers) or "all layers"
    return Misplacement(
        "shared_embedding",
        moves,
        f"a shared embedding is on {here}, and its rows go to {towers} on {far}",
        f"build and call it under tf.device('/{far}'), if it fits there",
        pronoun="it",
    )


def _size(flow: Dataflow, variable: Node) -> float | None:
    """The bytes of a variable, as far as a step reads or writes all of it; else None."""
    accesses = {n for n in flow.holders[variable] if not flow.kind[n].startswith("ResourceGather")}
    sizes = [
        tensor.bytes / flow.steps
        for tensor in flow.tensors
        if tensor.bytes and (tensor.maker in accesses or not accesses.isdisjoint(tensor.takers))
    ]
    return max(sizes, default=None)


def _lookups_in(flow: Dataflow, readers: Iterable[Node]) -> set[Node]:
    """Operations that look up in a variable that was read whole, or in a copy of that."""
    waiting, takers = list(readers), set()
    while waiting:
        for taker in flow.takers.get(waiting.pop(), ()):
            if taker in flow.forward and taker not in takers:
                takers.add(taker)
                waiting += [taker] if flow.kind[taker] in {"Identity", "Cast"} else []
    return {node for node in takers if flow.kind[node].startswith(_GATHERS)}


def _repeated(flow: Dataflow) -> Iterator[Misplacement]:
    """Variables that one device reads several times a step, each time anew."""
    makers: dict[tuple[Node, str], list[FlowTensor]] = defaultdict(list)
    for tensor in flow.tensors:
        for variable in (
            flow.variables.get(tensor.maker, ()) if tensor.maker in flow.forward else ()
        ):
            places = {flow.device[taker] for taker in tensor.takers}
            if flow.kind[tensor.maker].startswith("ReadVariableOp"):
                for far in places - {flow.device[tensor.maker]}:
                    makers[variable, far].append(tensor)
    for (variable, far), tensors in makers.items():
        if len(tensors) > 1:
            here = flow.place(variable)
            parts = _names_of(flow, [tensor.maker for tensor in tensors])
            # Read once: what the others read needs no copy.
            moves = {tensor.maker: far for tensor in tensors[1:]}
            yield Misplacement(
                "repeated_reads",
                moves,
                f"{far} reads a variable {f'of {parts} ' if parts else ''}on {here}"
                f" {len(tensors)} times a step",
                f"read it once a step there, with tf.identity under tf.device('/{far}'), and use"
                " that",
                "repeated_transfers",
            )


def _joins(flow: Dataflow) -> Iterator[Misplacement]:
    """Concatenations and the like on a device whose neighbours would copy less on another one."""
    for node, kind in flow.kind.items():
        if node not in flow.forward or not kind.startswith(_JOINS) or not flow.is_whole:
            continue
        near = {*flow.makers.get(node, ()), *flow.takers.get(node, ())}
        devices = sorted({flow.device[neighbour] for neighbour in near} - {flow.device[node]})
        if not devices:
            continue
        home = min(devices, key=lambda device: flow.copied({node: device}))
        part, here = flow.part[node], flow.device[node]
        name = f"concatenation in {part.tower}" if part.tower else f"concatenation {node[1]}"
        yield Misplacement(
            "concatenation",
            {node: home},
            f"the {name} runs on {here}, and what takes it on {home}",
            f"concatenate under tf.device('/{home}')",
            pronoun="it",
        )


def turning(flow: Dataflow) -> dict[str, set[Node]]:
    """The forward passes of towers, or of a model without, that take turns on two devices."""
    towers: dict[str | None, set[Node]] = defaultdict(set)
    for node, part in flow.part.items():
        if node in flow.forward and not flow.kind[node].startswith((*_JOINS, "Const")):
            towers[part.tower].add(node)
    turns = {
        name: nodes
        for name, nodes in towers.items()
        if name is not None and _crossings(flow, nodes) > 1
    }
    forward = set().union(*towers.values())
    if not turns and flow.is_whole and _crossings(flow, forward) >= _LEAST_CROSSINGS:
        return {ALL: forward}
    return turns


def _alternating(flow: Dataflow) -> Iterator[Misplacement]:
    """Layers that take turns on two devices."""
    turns = turning(flow)
    homes = {name: home for name, nodes in turns.items() if (home := home_of(flow, nodes))}
    if homes:
        moves = {
            node: home for name, home in homes.items() for node in _with_training(flow, turns[name])
        }
        devices = {flow.device[node] for nodes in turns.values() for node in nodes}
        yield Misplacement(
            "alternating_layers",
            {node: home for node, home in moves.items() if flow.device[node] != home},
            f"layers of {_listed(list(homes))} take turns on {_listed(sorted(devices))}",
            f"place all layers of {_listed([f'{n} on {home}' for n, home in homes.items()])}, with"
            " their gradients and updates (a tape per tower, gradient() and apply under its"
            " tf.device)",
            "alternation",
        )


def _crossings(flow: Dataflow, nodes: set[Node]) -> int:
    """How often a path through some operations goes from device to device, at most."""
    computing = {node for node in nodes if not flow.is_bound(node)}
    if len({flow.device[node] for node in computing}) <= 1:
        return 0
    graph = {n: [m for m in flow.makers.get(n, ()) if m in computing] for n in computing}
    most: dict[Node, int] = {}
    try:
        for node in TopologicalSorter(graph).static_order():
            ways = [most[m] + (flow.device[m] != flow.device[node]) for m in graph[node]]
            most[node] = max(ways, default=0)
    except CycleError:  # a loop
        return 0
    return max(most.values())


def home_of(flow: Dataflow, nodes: set[Node]) -> str | None:
    """The device of most layers among some operations; where they have none, of most of these."""
    layers: dict[str | None, list[Node]] = defaultdict(list)
    for node in nodes:
        layers[flow.part[node].layer].append(node)
    homes = [home for members in layers.values() if (home := flow.main_device(members))]
    count = Counter(homes)
    main = flow.main_device(nodes)
    return min(count, key=lambda home: (-count[home], home != main, home), default=None)


def _with_training(flow: Dataflow, nodes: set[Node]) -> set[Node]:
    """The forward operations with their gradients, weights and updates."""
    parts = {(p.tower, p.layer) for p in (flow.part[node] for node in nodes)}
    gradients = {n for n in flow.gradients if flow.part[n][1:3] in parts}
    variables = {v for node in nodes for v in flow.variables.get(node, ())}
    training = {n for v in variables for n in (*flow.holders[v], *flow.updates.get(v, ()))}
    return nodes | gradients | training


def _by_way(flow: Dataflow, away: Moves) -> dict[tuple[str, str], list[Node]]:
    """What is to move, by the devices that it leaves and goes to; of a variable, its place."""
    by_way: dict[tuple[str, str], list[Node]] = defaultdict(list)
    for node, home in away.items():
        here = flow.place(node) if node in flow.holders else flow.device[node]
        by_way[here, home].append(node)
    return by_way


def _names_of(flow: Dataflow, nodes: Iterable[Node]) -> str:
    """The towers, or the layers where not all with weights are meant; empty for none."""
    meant = set(nodes)
    layers: dict[str, set[str | None]] = defaultdict(set)
    for node, part in flow.part.items():
        if node in meant and part.tower is not None:
            layers[part.tower].add(part.layer)
    with_weights: dict[str | None, set[str | None]] = defaultdict(set)
    for readers in flow.readers.values():
        for part in (flow.part[reader] for reader in readers):
            with_weights[part.tower].add(part.layer)
    names = [
        name
        for tower, meant_layers in layers.items()
        for name in (
            [tower]
            if None in meant_layers or meant_layers >= with_weights[tower]
            else [f"{tower}/{layer}" for layer in sorted(filter(None, meant_layers))]
        )
    ]
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    """Names with an "and", the first of many; empty for none."""
    more = len(names) - _SHOWN
    shown = [*names[:_SHOWN], *([f"{more} more"] if more > 0 else [])]
    return listed(shown)
