"""Placements by time: several initial placements, simulated and then improved.

``HEFT`` (Topcuoglu, Hariri, Wu: "Performance-effective and low-complexity task scheduling", 2002)
sorts operations by the longest path to the end, and places each on the device where it ends first.
``m-ETF`` (Jeon et al.: "Baechi", SoCC 2020) places the ready operation that can start first, on a
device with enough memory.
"""

from collections import defaultdict
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from gpuprof.model.intervals import Int64s
from gpuprof.place.simulate import Floats, GpuMachine, Run, StepWork, simulate
from gpuprof.place.step_graph import CONSTANT, INPUT, StepCopies, StepGraph

# The share of its peak that a GPU reaches: least, the one that placements are made for, most.
EFFICIENCIES: Final = (0.3, 0.5, 0.7)
_MIDDLE: Final = 1
# Estimates are no more accurate than this: among placements this close the first is proposed.
_ALIKE: Final = 0.1
# Simulations to improve a placement; one of 150 operations takes some milliseconds.
_TRIALS: Final = 300
_MOST_OPERATIONS: Final = 100_000


class TimedPlacement(NamedTuple):
    """A placement with its estimates.

    Args:
        name: The algorithm, or what it places where.
        place: The GPU number of each operation.
        runs: A simulated step for each of `EFFICIENCIES`.
        copies: Copies of a step.
        fits: Whether the peak memory of the step fits on each GPU.
    """

    name: str
    place: Int64s
    runs: tuple[Run, ...]
    copies: StepCopies
    fits: bool

    @property
    def middle(self) -> Run:
        """The step in the middle of the range."""
        return self.runs[_MIDDLE]

    @property
    def seconds(self) -> float:
        """How long the step in the middle takes."""
        return self.middle.seconds

    @property
    def devices(self) -> int:
        """How many GPUs run operations other than views."""
        return len({s.device for s in self.middle.spans if s.src is None and s.end_s > s.start_s})

    def loses_to(self, rival: "TimedPlacement") -> bool:
        """Whether another placement is faster anywhere in the range."""
        return any(
            run.seconds > rival_run.seconds
            for run, rival_run in zip(self.runs, rival.runs, strict=True)
        )


class Search:
    """The placements of a step on a machine.

    Args:
        graph: The step.
        machine: The GPUs, at least as many as the step uses today.
    """

    def __init__(self, graph: StepGraph, machine: GpuMachine) -> None:
        self.graph, self.machine, self.work = graph, machine, StepWork(graph)
        self._seconds = [self.work.seconds(machine, part) for part in EFFICIENCIES]
        self._ranks = [self.work.ranks(seconds, machine) for seconds in self._seconds]

    @property
    def middle_seconds(self) -> Floats:
        """How long each operation takes on each GPU, in the middle of the range."""
        return self._seconds[_MIDDLE]

    def timed(self, name: str, place: Int64s) -> TimedPlacement:
        """A placement with its estimates."""
        runs = tuple(self._run(place, level) for level in range(len(EFFICIENCIES)))
        room = [gpu.memory_bytes for gpu in self.machine.gpus]
        fits = all(n <= most for n, most in zip(runs[_MIDDLE].peak_bytes, room, strict=True))
        return TimedPlacement(name, place, runs, self.graph.copies(place), fits)

    def _run(self, place: Int64s, level: int) -> Run:
        return simulate(self.work, self.machine, place, self._seconds[level], self._ranks[level])

    def alone(self) -> list[TimedPlacement]:
        """All operations on one GPU, for each GPU model."""
        first = {gpu.name: number for number, gpu in reversed([*enumerate(self.machine.gpus)])}
        count = len(self.graph.operations)
        return [
            self.timed(f"all on one {name}", np.full(count, number, np.int64))
            for name, number in sorted(first.items(), key=lambda pair: pair[1])
        ]

    def heft(self) -> TimedPlacement:
        """Each operation where it ends first, in the order of the longest path to the end."""
        placing = _Placing(self)
        ranks = self._ranks[_MIDDLE]
        position = {number: at for at, number in enumerate(self.work.order)}
        for number in sorted(position, key=lambda n: (-ranks[n], position[n])):
            device, _, end_s = min(placing.choices(number), key=lambda choice: choice[2])
            placing.put(number, device, end_s)
        return self.timed("HEFT", placing.place)

    def m_etf(self) -> TimedPlacement:
        """The ready operation that can start first, on a device with enough memory."""
        placing, ranks = _Placing(self), self._ranks[_MIDDLE]
        missing = self.work.waits_for.copy()
        ready = set(np.flatnonzero(missing == 0).tolist())
        while ready:
            _, _, first, device, end_s = min(
                (start_s, -ranks[number], number, device, end_s)
                for number in ready
                for device, start_s, end_s in placing.choices(number)
            )
            placing.put(first, device, end_s)
            ready.discard(first)
            for tensor in self.work.made[first]:
                for taker in self.work.waiting[tensor]:
                    missing[taker] -= 1
                    ready |= set() if missing[taker] else {taker}
        return self.timed("m-ETF", placing.place)

    def better(self, start: TimedPlacement) -> TimedPlacement:
        """The same with parts of the model moved to other GPUs as long as the step gets shorter."""
        # Towers, then the gradients and layers of each, with what must run with them.
        units = self.graph.units
        members: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for unit, operation in zip(units.tolist(), self.graph.operations, strict=True):
            scope, tower = operation.scope, operation.scope.partition("/")[0]
            for key in ((tower,), (tower, operation.role), (scope, "layer")) if scope else ():
                members[key].add(unit)
        in_order = sorted(members, key=lambda key: (len(key), key))
        parts = [np.flatnonzero(np.isin(units, [*members[key]])) for key in in_order]
        place, run = start.place, start.middle
        room = [gpu.memory_bytes for gpu in self.machine.gpus]
        trials_left = min(_TRIALS, _MOST_OPERATIONS // max(len(place), 1))
        has_improved = True
        while has_improved:
            has_improved = False
            for part, device in product(parts, range(len(self.machine.gpus))):
                trial = place.copy()
                trial[part] = device
                if trials_left <= 0 or np.array_equal(trial, place):
                    continue
                trials_left -= 1
                tried = self._run(trial, _MIDDLE)
                fits = all(n <= m for n, m in zip(tried.peak_bytes, room, strict=True))
                if fits and tried.seconds < run.seconds:
                    place, run, has_improved = trial, tried, True
        return start if place is start.place else self.timed(f"{start.name}, improved", place)


class _Placing:
    """Operations placed one after another, makers before takers."""

    def __init__(self, search: Search) -> None:
        graph = search.graph
        self.search = search
        self.place = graph.place.copy()
        self._unit_device: dict[int, int] = {
            int(graph.units[n]): int(self.place[n])
            for n, operation in enumerate(graph.operations)
            if operation.role == INPUT
        }
        self._end_s = np.zeros(len(self.place))
        self._free_s = [0.0] * len(search.machine.gpus)
        self._sent: dict[tuple[int, int], float] = {}
        self._link_s: dict[tuple[int, int], float] = defaultdict(float)
        self._used_bytes = [0.0] * len(search.machine.gpus)

    def choices(self, number: int) -> list[tuple[int, float, float]]:
        """Devices with enough memory for an operation, else all; its start and end there in s."""
        unit = int(self.search.graph.units[number])
        devices = range(len(self._free_s))
        if unit in self._unit_device:
            devices = range(self._unit_device[unit], self._unit_device[unit] + 1)
        gpus = self.search.machine.gpus
        has_room = [
            d for d in devices if self._used_bytes[d] + self._size(number) <= gpus[d].memory_bytes
        ]
        work, seconds = self.search.work, self.search.middle_seconds[number]
        choices = []
        for device in has_room or devices:
            start = max((self._arrival(n, device) for n in work.taken[number]), default=0.0)
            if not work.is_view[number]:
                start = max(start, self._free_s[device])
            choices.append((device, start, start + float(seconds[device])))
        return choices

    def put(self, number: int, device: int, end_s: float) -> None:
        """Place an operation, which ends then."""
        graph = self.search.graph
        for tensor in self.search.work.taken[number]:
            maker = graph.tensors[tensor].maker
            src = int(self.place[maker])
            if (
                src != device
                and not self._is_constant(maker)
                and (tensor, device) not in self._sent
            ):
                self._sent[tensor, device] = self._arrival(tensor, device)
                self._link_s[src, device] = self._sent[tensor, device]
        self.place[number] = self._unit_device[int(graph.units[number])] = device
        self._end_s[number] = end_s
        if not self.search.work.is_view[number]:
            self._free_s[device] = end_s
        self._used_bytes[device] += self._size(number)

    def _is_constant(self, maker: int) -> bool:
        return self.search.graph.operations[maker].role == CONSTANT

    def _size(self, number: int) -> float:
        """The memory that an operation adds to its device if nothing is freed."""
        graph, work = self.search.graph, self.search.work
        output_bytes = (
            0.0
            if work.is_view[number]
            else sum(graph.tensors[n].bytes or 0 for n in work.made[number])
        )
        return output_bytes + (graph.operations[number].bytes or 0)

    def _arrival(self, number: int, device: int) -> float:
        tensor = self.search.graph.tensors[number]
        src, end = int(self.place[tensor.maker]), float(self._end_s[tensor.maker])
        if src == device or self._is_constant(tensor.maker):
            return end
        if (number, device) in self._sent:
            return self._sent[number, device]
        start = max(end, self._link_s[src, device])
        return start + self.search.machine.copy_s(tensor.bytes or 0)


def fastest(candidates: list[TimedPlacement]) -> TimedPlacement | None:
    """The proposed placement, the first among similar ones; None where none fits.

    On several GPUs only where no placement on fewer is faster anywhere in the range.
    """
    fitting = [candidate for candidate in candidates if candidate.fits]
    paying = [
        candidate
        for candidate in fitting
        if not any(
            candidate.loses_to(rival) for rival in fitting if rival.devices < candidate.devices
        )
    ]
    least = min((candidate.seconds for candidate in paying), default=0.0)
    return next(
        (candidate for candidate in paying if candidate.seconds <= least * (1 + _ALIKE)), None
    )
