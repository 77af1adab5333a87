"""The fewest bytes that a step copies when more and more may move: gradients first."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gpuprof.facts.dataflow import Dataflow
from gpuprof.facts.misplacements import home_of, turning
from gpuprof.model.intervals import Int64s
from gpuprof.place.cut import fewest_bytes
from gpuprof.place.from_flow import nodes_of
from gpuprof.place.step_graph import (
    FORWARD,
    GRADIENT,
    UPDATE,
    VARIABLE,
    StepCopies,
    StepGraph,
)

# More freedom must save at least this share of today's bytes.
_LEAST_SHARE: Final = 0.01


class Freedom(NamedTuple):
    """The placement that copies fewest bytes when some of the step may move.

    Args:
        name: What may move in addition to the freedoms before it.
        copies: Copies of a step.
        place: The device number of each operation.
    """

    name: str
    copies: StepCopies
    place: Int64s


def freedoms(graph: StepGraph, flow: Dataflow | None, pinned: frozenset[str]) -> list[Freedom]:
    """The best placements, each with more freedom than the one before.

    Inputs stay, and so do the matrix products and convolutions of the forward pass, except in
    towers whose layers alternate between devices: these may go to the device of most of their
    layers. Otherwise everything would go to one device, which copies nothing.

    Args:
        graph: The step.
        flow: The same as the hints see it; None for other frameworks, where alternating layers
            are not searched.
        pinned: What must stay: variables, forward or neither.

    Returns:
        At least one. Copies never grow from one to the next.
    """
    placements: list[Freedom] = []
    start = graph
    for name, free, place in _kinds(graph, flow, pinned):
        start = graph.on(place)
        best = fewest_bytes(start, free)
        copies = graph.copies(best)
        if placements and copies > placements[-1].copies:
            best, copies = placements[-1].place, placements[-1].copies
        placements.append(Freedom(name, copies, best))
    return placements


def chosen(graph: StepGraph, placements: list[Freedom]) -> Freedom:
    """The placement with least freedom that more freedom does not improve much; maybe today's."""
    least = _LEAST_SHARE * graph.copies().bytes
    best = Freedom("nothing", graph.copies(), graph.place)
    for freedom in placements:
        if best.copies.bytes - freedom.copies.bytes > least or (
            freedom.copies.unknown < best.copies.unknown
        ):
            best = freedom
    return best


def _kinds(
    graph: StepGraph, flow: Dataflow | None, pinned: frozenset[str]
) -> Iterator[tuple[str, set[int], Int64s]]:
    """What may move: its name, operation numbers, and the placement to start from."""
    nodes = nodes_of(flow) if flow else []
    backward = set(graph.named((GRADIENT, UPDATE)).tolist())
    bound = {
        n for n, node in enumerate(nodes) if flow and node in flow.kind and flow.is_bound(node)
    }
    yield "gradients and updates", backward, graph.place
    variables = set() if "variables" in pinned else bound | set(graph.named((VARIABLE,)).tolist())
    if variables:
        yield "variables", backward | variables, graph.place
    if "forward" in pinned:
        return
    allowed = backward | variables
    # Forward operations of towers with alternating layers, to the device of most layers.
    homes = {
        node: home
        for turn in (turning(flow).values() if flow else ())
        if flow and (home := home_of(flow, turn))
        for node in turn
    }
    if homes:
        place = graph.place.copy()
        turning_nodes = [n for n, node in enumerate(nodes) if node in homes]
        for n in turning_nodes:
            place[n] = graph.devices.index(homes[nodes[n]])
        allowed = allowed | {n for n in turning_nodes if not graph.operations[n].flops}
        yield "forward layers that take turns", allowed, place
    light = {n for n in graph.named((FORWARD,)).tolist() if not graph.operations[n].flops}
    light -= set() if variables else bound
    place = place if homes else graph.place
    yield "forward operations without products (lookups, joins)", allowed | light, place
