"""The placement of a step that copies fewest bytes, with some operations fixed.

For two devices this is a minimum cut in which a tensor counts once for each device that takes it.
It is solved as an integer program by HiGHS, which is part of SciPy. That works for any number of
devices, and for sizes above 2 GiB, where `scipy.sparse.csgraph.maximum_flow` fails (its capacities
have 32 bits). For two devices the vertices of its relaxation are integers.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.model.intervals import Int64s
from gpuprof.place.step_graph import FORWARD, GRADIENT, StepGraph, Tensor

# Among placements of equal bytes fewer copies win: all copies together count less than a byte.
_COPY: Final = 0.5
# The solver stops after this time with the best placement so far.
_LONGEST_S: Final = 60.0

Flags = npt.NDArray[np.bool_]


class _Crossing(NamedTuple):
    """The cost of a tensor per device that it is sent to; ends are units of operations."""

    maker: int
    takers: frozenset[int]
    cost: float


def fewest_bytes(graph: StepGraph, free: Iterable[int]) -> Int64s:
    """The device of each operation so that a step copies fewest bytes.

    Among equal bytes fewest copies, then fewest moves; never more bytes, or copies of unknown size,
    than today. A tensor of unknown size counts as the median of the known ones. The solver computes
    in doubles: what is below a millionth of the largest tensor is improved one operation at a time.

    Args:
        graph: The step.
        free: Operations that may move. Those in loops, and those that must run with a fixed one,
            stay.
    """
    units, place = graph.units, graph.place
    is_free = np.zeros(len(units), bool)
    is_free[list(set(free) - graph.looped)] = True
    movable = np.ones(int(units.max(initial=-1)) + 1, bool)
    np.logical_and.at(movable, units, is_free)
    today = np.zeros(len(movable), np.int64)
    today[units] = place
    crossings = _crossings(graph)
    solved = _solved(crossings, today, movable, graph)
    improved = _improved(graph, solved, movable)
    best = _by_scopes(graph, _with_fewest_moves(graph, improved, today), movable)[units]
    before, after = graph.copies(), graph.copies(best)
    is_worse = after.bytes > before.bytes or after.unknown > before.unknown
    return place if is_worse or after == before else best


def _crossings(graph: StepGraph) -> list[_Crossing]:
    sizes = [tensor.bytes for tensor in graph.sent if tensor.bytes is not None]
    median = float(np.median(sizes)) if sizes else 1.0
    tie = _COPY / max(sum(t.calls * len(t.takers) for t in graph.sent), 1)
    crossings = []
    for tensor in graph.sent:
        maker = int(graph.units[tensor.maker])
        takers = frozenset(int(graph.units[taker]) for taker in tensor.takers) - {maker}
        if takers:
            size = median if tensor.bytes is None else tensor.bytes
            crossings.append(_Crossing(maker, takers, (size + tie) * tensor.calls))
    return crossings


def _solved(crossings: list[_Crossing], today: Int64s, movable: Flags, graph: StepGraph) -> Int64s:
    """The device of each unit; today's where no unit can move."""
    devices = len(graph.devices)
    some = [c for c in crossings if movable[c.maker] or any(movable[t] for t in c.takers)]
    if not some or devices < 2:  # noqa: PLR2004 - nowhere to go
        return today
    from scipy.optimize import Bounds, LinearConstraint, milp  # start-up time
    from scipy.sparse import csr_array, eye_array, kron, vstack

    count = len(today) * devices
    triples = np.array(_sends(some, devices, count), np.int64)
    rows = np.repeat(np.arange(len(triples)), 3)
    signs = np.tile([1.0, -1.0, -1.0], len(triples))
    costs = np.append(np.zeros(count), np.repeat([c.cost for c in some], devices))
    sends = csr_array((signs, (rows, triples.ravel())), shape=(len(triples), len(costs)))
    one_each = kron(eye_array(len(today)), np.ones((1, devices)))
    one_each.resize((len(today), len(costs)))
    least, most = np.zeros(len(costs)), np.ones(len(costs))
    can_go = movable[:, None] & np.isin(np.arange(devices), graph.targets)
    most[:count] = can_go.ravel()
    at_home = np.arange(len(today)) * devices + today
    most[at_home] = 1
    least[at_home[~movable]] = 1
    solution = milp(
        costs / costs.max(),
        integrality=np.arange(len(costs)) < count,
        bounds=Bounds(least, most),
        constraints=LinearConstraint(
            vstack([sends, one_each]).tocsr(),
            np.append(np.full(len(triples), -np.inf), np.ones(len(today))),
            np.append(np.zeros(len(triples)), np.ones(len(today))),
        ),
        options={"time_limit": _LONGEST_S, "mip_rel_gap": 0},
    )
    if solution.x is None:
        return today
    place: Int64s = np.argmax(solution.x[:count].reshape(-1, devices), axis=1).astype(np.int64)
    return place


def _sends(crossings: list[_Crossing], devices: int, count: int) -> list[tuple[int, int, int]]:
    """Columns of the taker on a device, of the maker there, and of sending the tensor there.

    The first is at most the sum of the others.
    """
    return [
        (taker * devices + device, crossing.maker * devices + device, column)
        for number, crossing in enumerate(crossings)
        for device in range(devices)
        for column in (count + number * devices + device,)
        for taker in crossing.takers
    ]


def _touching(graph: StepGraph) -> dict[int, set[int]]:
    """The tensors that each unit makes or takes."""
    touching: dict[int, set[int]] = defaultdict(set)
    for number, tensor in enumerate(graph.sent):
        for end in (tensor.maker, *tensor.takers):
            touching[int(graph.units[end])].add(number)
    return touching


def _improved(graph: StepGraph, solved: Int64s, movable: Flags) -> Int64s:
    """The same after moves of single units that copy less, until there are none."""
    place, touching = solved.copy(), _touching(graph)
    waiting = {unit for unit in touching if movable[unit]}
    while waiting:
        unit = waiting.pop()
        tensors = [graph.sent[number] for number in touching[unit]]
        costs: dict[int, tuple[float, float, float]] = {}
        for device in (int(place[unit]), *graph.targets):
            trial = place.copy()
            trial[unit] = device
            costs.setdefault(device, _cost(graph, tensors, trial))
        best = min(costs, key=lambda device: costs[device])
        if costs[best] < costs[int(place[unit])]:
            place[unit] = best
            ends = {int(graph.units[end]) for t in tensors for end in (t.maker, *t.takers)}
            waiting |= {end for end in ends if movable[end]}
    return place


def _with_fewest_moves(graph: StepGraph, solved: Int64s, today: Int64s) -> Int64s:
    """The same with each unit back on today's device where that costs nothing."""
    place, touching = solved.copy(), _touching(graph)
    waiting = set(np.flatnonzero(solved != today).tolist())
    while waiting:
        unit = waiting.pop()
        tensors = [graph.sent[number] for number in touching[unit]]
        here, before = place[unit], _cost(graph, tensors, place)
        place[unit] = today[unit]
        if _cost(graph, tensors, place) > before:
            place[unit] = here
            continue
        ends = {int(graph.units[end]) for t in tensors for end in (t.maker, *t.takers)}
        waiting |= {end for end in ends if place[end] != today[end]}
    return place


def _by_scopes(graph: StepGraph, place: Int64s, movable: Flags) -> Int64s:
    """The same with the gradients, or the layers, of a tower together where that costs nothing.

    They are then one scope in a script.
    """
    towers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, operation in enumerate(graph.operations):
        unit = int(graph.units[number])
        if operation.scope and operation.role in {FORWARD, GRADIENT} and movable[unit]:
            towers[operation.role, operation.scope.partition("/")[0]].append(unit)
    tensors = list(graph.sent)
    for units in towers.values():
        device = int(np.bincount(place[units]).argmax())
        if device not in graph.targets:
            continue
        joined = place.copy()
        joined[units] = device
        if _cost(graph, tensors, joined) <= _cost(graph, tensors, place):
            place = joined
    return place


def _cost(graph: StepGraph, tensors: list[Tensor], place: Int64s) -> tuple[float, float, float]:
    """Bytes, copies of unknown size, and copies of these tensors in a placement of units."""
    known_bytes = unknown = calls = 0.0
    for tensor in tensors:
        home = place[graph.units[tensor.maker]]
        sends = len({int(place[graph.units[t]]) for t in tensor.takers} - {int(home)})
        known_bytes += (tensor.bytes or 0) * tensor.calls * sends
        unknown += tensor.calls * sends * (tensor.bytes is None)
        calls += tensor.calls * sends
    return known_bytes, unknown, calls
