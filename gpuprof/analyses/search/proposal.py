"""What `gpuprof place` proposes: less copied, in the words of the script, and what is at fault."""

from dataclasses import replace
from typing import NamedTuple

from gpuprof.analyses.placement.dataflow import Dataflow
from gpuprof.analyses.search.freedoms import Freedom, chosen, freedoms
from gpuprof.analyses.search.from_flow import step_of
from gpuprof.analyses.search.machines import Machine
from gpuprof.analyses.search.schedules import Search, Timed, fastest
from gpuprof.analyses.search.scopes import Scope, scopes
from gpuprof.analyses.search.step_graph import CONSTANT, INPUT, VARIABLE, Copies, StepGraph
from gpuprof.errors import MissingTableError
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile


class Proposal(NamedTuple):
    """A placement that copies less.

    Args:
        graph: The step.
        today: What it copies.
        best: The placement to try.
        freedoms: The best ones while ever more may move.
        scopes: What to move.
    """

    graph: StepGraph
    today: Copies
    best: Freedom
    freedoms: tuple[Freedom, ...]
    scopes: tuple[Scope, ...]

    @property
    def operations(self) -> int:
        """How many operations the step has."""
        return sum(o.role not in {CONSTANT, INPUT, VARIABLE} for o in self.graph.operations)

    @property
    def moved(self) -> int:
        """How many of them, and of its variables, are to move."""
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
        """Whether most of what can be saved needs another forward pass."""
        rest = self.with_forward_kept.copies.bytes - self.best.copies.bytes
        return rest > self.today.bytes / 2


def proposal(profile: Profile, pinned: frozenset[str]) -> Proposal:
    """The placement of a recorded step to try.

    Args:
        profile: A recording of TensorFlow with graphs.
        pinned: What must stay: variables, forward, or neither.

    Raises:
        MissingTableError: It holds no graph of a training step.
    """
    return proposal_of(*step_of(profile), pinned)


def proposal_of(
    graph: StepGraph, flow: Dataflow | None = None, pinned: frozenset[str] = frozenset()
) -> Proposal:
    """The same of a graph of any framework; ``flow`` is that of TensorFlow's recordings."""
    found = freedoms(graph, flow, pinned)
    best = chosen(graph, found)
    return Proposal(graph, graph.copies(), best, tuple(found), tuple(scopes(graph, best.place)))


class TimedProposal(NamedTuple):
    """The placements of a step on a machine, by estimated time.

    Args:
        graph: The step, what runs on the host with the first GPU.
        machine: The one that is imagined.
        today: As it is; None where the machine has fewer GPUs.
        best: The placement to try; None where none fits into the memory.
        candidates: All that were tried, today's first.
        scopes: What to move.
    """

    graph: StepGraph
    machine: Machine
    today: Timed | None
    best: Timed | None
    candidates: tuple[Timed, ...]
    scopes: tuple[Scope, ...]


def timed_proposal(proposed: Proposal, machine: Machine) -> TimedProposal:
    """The placement of a step that takes least time on a machine, by estimates.

    Raises:
        MissingTableError: The step holds loops, whose times the graph does not tell.
    """
    graph = proposed.graph.on_targets()
    search = Search(graph, machine)
    if search.work.has_loops:
        msg = "the step holds loops, and its graph does not tell how often they run: no times"
        raise MissingTableError(msg, "Leave --gpus out: bytes and copies are known.")
    least = tuple(
        o._replace(device=d)
        for o, d in zip(proposed.graph.operations, proposed.best.place.tolist(), strict=True)
    )
    found = candidates(search, replace(proposed.graph, operations=least).on_targets().place)
    today = found[0] if len(machine.gpus) > graph.place.max(initial=0) else None
    best = fastest(list(found))
    moves = tuple(scopes(graph, best.place)) if best else ()
    return TimedProposal(graph, machine, today, best, found, moves)


def candidates(search: Search, least: Int64s) -> tuple[Timed, ...]:
    """Placements on a machine: today's first, where it has as many GPUs, then the simplest.

    Args:
        search: Of a step on a machine.
        least: The placement that copies fewest bytes.
    """
    graph, gpus = search.graph, len(search.machine.gpus)
    starts = search.alone()
    if gpus > graph.place.max(initial=0):
        known = (("today", graph.place), ("fewest bytes", least))
        starts = [*(search.timed(name, place) for name, place in known), *starts]
    if gpus > 1:
        found = [search.heft(), search.m_etf()]
        starts += [*found, *(search.better(start) for start in [*starts, *found])]
    different: dict[bytes, Timed] = {}
    for one in starts:
        different.setdefault(one.place.tobytes(), one)
    return tuple(different.values())
