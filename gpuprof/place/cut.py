"""The placement of a step that copies fewest bytes, with some operations fixed.

For two devices this is a minimum cut in which a tensor counts once for each device that takes it.
It is solved as an integer program by HiGHS, which is part of SciPy. That works for any number of
devices, and for sizes above 2 GiB, where `scipy.sparse.csgraph.maximum_flow` fails (its capacities
have 32 bits). For two devices the vertices of its relaxation are integers.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.model.intervals import Int64s
from gpuprof.place.step_graph import (
    FORWARD,
    GRADIENT,
    StepCopies,
    StepGraph,
    Tensor,
    copies_of,
    crossings_of,
)

# Among placements of equal bytes fewer copies win: all copies together count less than a byte.
_COPY: Final = 0.5
# The solver stops after this time with the best placement so far.
_LONGEST_S: Final = 60.0

Flags = npt.NDArray[np.bool_]


def fewest_bytes(graph: StepGraph, free: Iterable[int]) -> Int64s:
    """The device of each operation so that a step copies fewest bytes.

    Among equal bytes fewest copies, then fewest moves; never more bytes, or copies of unknown size,
    than today. A tensor of unknown size counts as the median of the known ones. The solver computes
    in doubles: what is below a millionth of the largest tensor is improved one operation at a time.
    Of the ``free`` operations those in loops, and those that must run with a fixed one, stay.
    """
    units, place = graph.units, graph.place
    is_free = np.zeros(len(units), bool)
    is_free[list(set(free) - graph.looped)] = True
    movable = np.ones(int(units.max(initial=-1)) + 1, bool)
    np.logical_and.at(movable, units, is_free)
    today = np.zeros(len(movable), np.int64)
    today[units] = place
    unit = units.tolist()
    # Those that may cross devices, from unit to units.
    tensors = [
        t._replace(maker=unit[t.maker], takers=(*{unit[n] for n in t.takers} - {unit[t.maker]},))
        for t in graph.sent
    ]
    solved = _solved(tensors, today, movable, graph)
    improved = _improved(tensors, solved, today, movable, graph.targets)
    # The gradients, or the layers, of a tower go together where that costs nothing: they are then
    # one scope in a script.
    towers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, operation in zip(unit, graph.operations, strict=True):
        if operation.scope and operation.role in {FORWARD, GRADIENT} and movable[number]:
            towers[operation.role, operation.scope.partition("/")[0]].append(number)
    for together in towers.values():
        device = int(np.bincount(improved[together]).argmax())
        joined = improved.copy()
        joined[together] = device
        costs = [copies_of(crossings_of(tensors, placed)) for placed in (joined, improved)]
        if device in graph.targets and costs[0] <= costs[1]:
            improved = joined
    best = improved[units]
    before, after = graph.copies(), graph.copies(best)
    is_worse = after.bytes > before.bytes or after.unknown > before.unknown
    return place if is_worse or after == before else best


def _solved(tensors: list[Tensor], today: Int64s, movable: Flags, graph: StepGraph) -> Int64s:
    """The device of each unit; today's where no unit can move."""
    devices = len(graph.devices)
    some = [t for t in tensors if t.takers and movable[[t.maker, *t.takers]].any()]
    if not some or devices <= 1:
        return today
    sizes = [tensor.bytes for tensor in tensors if tensor.bytes is not None]
    median = float(np.median(sizes)) if sizes else 1.0
    tie = _COPY / max(sum(t.calls * len(t.takers) for t in graph.sent), 1)
    costs_of_tensors = [((median if t.bytes is None else t.bytes) + tie) * t.calls for t in some]
    from scipy.optimize import Bounds, LinearConstraint, milp  # start-up time
    from scipy.sparse import csr_array, eye_array, kron, vstack

    count = len(today) * devices
    triples = np.array(_sends(some, devices, count), np.int64)
    rows = np.repeat(np.arange(len(triples)), 3)
    signs = np.tile([1.0, -1.0, -1.0], len(triples))
    costs = np.append(np.zeros(count), np.repeat(costs_of_tensors, devices))
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


def _sends(tensors: list[Tensor], devices: int, count: int) -> list[tuple[int, int, int]]:
    """Columns of the taker on a device, of the maker there, and of sending the tensor there.

    The first is at most the sum of the others.
    """
    return [
        (taker * devices + device, tensor.maker * devices + device, column)
        for number, tensor in enumerate(tensors)
        for device in range(devices)
        for column in (count + number * devices + device,)
        for taker in tensor.takers
    ]


def _improved(
    tensors: list[Tensor],
    solved: Int64s,
    today: Int64s,
    movable: Flags,
    targets: tuple[int, ...],
) -> Int64s:
    """The same after moves of single units that copy less, or as much from where they are today."""
    place = solved.copy()
    touching: dict[int, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        for end in (tensor.maker, *tensor.takers):
            touching[end].append(tensor)

    def cost(unit: int, device: int) -> tuple[StepCopies, bool]:
        trial = place.copy()
        trial[unit] = device
        return copies_of(crossings_of(touching[unit], trial)), device != today[unit]

    waiting = set(np.flatnonzero(movable).tolist())
    while waiting:
        unit = waiting.pop()
        here = int(place[unit])
        costs = {device: cost(unit, device) for device in (here, int(today[unit]), *targets)}
        best = min(costs, key=lambda device: costs[device])
        if costs[best] < costs[here]:
            place[unit] = best
            ends = {end for t in touching[unit] for end in (t.maker, *t.takers)}
            waiting |= {end for end in ends if movable[end]}
    return place
