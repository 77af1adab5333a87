"""The placements that `gpuprof place` proposes, by bytes and by estimated time."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gpuprof.base.errors import MissingTableError
from gpuprof.facts.dataflow import Dataflow
from gpuprof.facts.misplacements import home_of, turning
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.place.cut import fewest_bytes
from gpuprof.place.from_flow import nodes_of, step_of
from gpuprof.place.schedules import Search, TimedPlacement, fastest
from gpuprof.place.scopes import Scope, scopes
from gpuprof.place.simulate import GpuMachine
from gpuprof.place.step_graph import (
    CONSTANT,
    FORWARD,
    GRADIENT,
    INPUT,
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


class Proposal(NamedTuple):
    """A placement that copies less.

    Args:
        graph: The step.
        today: Copies of a step as recorded.
        best: The placement to try.
        freedoms: The best placements as more and more may move.
        scopes: What to move.
    """

    graph: StepGraph
    today: StepCopies
    best: Freedom
    freedoms: tuple[Freedom, ...]
    scopes: tuple[Scope, ...]

    @property
    def operations(self) -> int:
        """How many operations the step has."""
        return sum(o.role not in {CONSTANT, INPUT, VARIABLE} for o in self.graph.operations)

    @property
    def moved(self) -> int:
        """How many operations and variables are to move."""
        return sum(scope.operations for scope in self.scopes)

    @property
    def unknown_sizes(self) -> int:
        """How many tensors between operations have no known size."""
        return sum(tensor.bytes is None for tensor in self.graph.sent)

    @property
    def with_forward_kept(self) -> Freedom:
        """The best placement whose forward pass stays."""
        return [freedom for freedom in self.freedoms if "forward" not in freedom.name][-1]

    @property
    def is_forward_at_fault(self) -> bool:
        """Whether most of the savings need another placement of the forward pass."""
        saved_bytes = self.with_forward_kept.copies.bytes - self.best.copies.bytes
        return saved_bytes > self.today.bytes / 2


def proposal(profile: Profile, pinned: frozenset[str]) -> Proposal:
    """The proposed placement of a recorded step.

    What is ``pinned`` must stay: variables, forward, or neither.

    Raises:
        MissingTableError: It has no graph of a training step.
    """
    return proposal_of(*step_of(profile), pinned)


def proposal_of(
    graph: StepGraph, flow: Dataflow | None = None, pinned: frozenset[str] = frozenset()
) -> Proposal:
    """The same for a graph of any framework; ``flow`` comes with TensorFlow recordings."""
    placements = freedoms(graph, flow, pinned)
    best = chosen(graph, placements)
    return Proposal(
        graph, graph.recorded_copies, best, tuple(placements), tuple(scopes(graph, best.place))
    )


def freedoms(graph: StepGraph, flow: Dataflow | None, pinned: frozenset[str]) -> list[Freedom]:
    """The best placements, each with more freedom than the one before.

    Inputs stay, and so do the matrix products and convolutions of the forward pass, except in
    towers whose layers alternate between devices: these may go to the device of most of their
    layers. Otherwise everything would go to one device, which copies nothing. What is ``pinned``
    must stay: variables, forward, or neither. Without ``flow``, as of other frameworks than
    TensorFlow, alternating layers are not searched.

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


class TimedProposal(NamedTuple):
    """The placements of a step on a machine, by estimated time.

    Args:
        graph: The step, with the operations of the host on the first GPU.
        machine: The machine to estimate for.
        today: As recorded; None where the machine has fewer GPUs.
        best: The proposed placement; None where none fits into memory.
        candidates: All placements with estimates, today's first.
        scopes: What to move.
    """

    graph: StepGraph
    machine: GpuMachine
    today: TimedPlacement | None
    best: TimedPlacement | None
    candidates: tuple[TimedPlacement, ...]
    scopes: tuple[Scope, ...]


def timed_proposal(proposed: Proposal, machine: GpuMachine) -> TimedProposal:
    """The placement of a step with the least estimated time on a machine.

    Raises:
        MissingTableError: The step has loops, and the graph has no iteration counts.
    """
    graph = proposed.graph.on_targets()
    search = Search(graph, machine)
    if search.work.has_loops:
        msg = "the step has loops of unknown iteration counts: its time cannot be estimated"
        raise MissingTableError(msg, "Leave out --gpus to place by bytes and copies.")
    timed = candidates(search, proposed.graph.on(proposed.best.place).on_targets().place)
    today = timed[0] if len(machine.gpus) > graph.place.max(initial=0) else None
    best = fastest(list(timed))
    moves = tuple(scopes(graph, best.place)) if best else ()
    return TimedProposal(graph, machine, today, best, timed, moves)


def candidates(search: Search, least: Int64s) -> tuple[TimedPlacement, ...]:
    """Placements on a machine: today's first, if it has as many GPUs, then the simplest.

    ``least`` is the placement that copies fewest bytes.
    """
    graph, gpus = search.graph, len(search.machine.gpus)
    starts = search.alone()
    if gpus > graph.place.max(initial=0):
        recorded = (("today", graph.place), ("fewest bytes", least))
        starts = [*(search.timed(name, place) for name, place in recorded), *starts]
    if gpus > 1:
        scheduled = [search.heft(), search.m_etf()]
        starts += [*scheduled, *(search.better(start) for start in [*starts, *scheduled])]
    different: dict[bytes, TimedPlacement] = {}
    for candidate in starts:
        different.setdefault(candidate.place.tobytes(), candidate)
    return tuple(different.values())
