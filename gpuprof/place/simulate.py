"""Simulate a step with its operations on given devices: kernels, copies and memory.

A kernel takes the longest of its launch, its FLOPs at a share of the GPU's peak, and its bytes at
the same share of the memory bandwidth (Williams, Waterman, Patterson: "Roofline", 2009). A device
runs one kernel at a time: the ready one with the longest path to the end. A link runs one copy at a
time in each direction, concurrently with kernels. Links are those of `gpuprof.predict.link_models`;
``staged`` is PCIe 3 through the host.
"""

import heapq
import re
from collections import defaultdict
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.errors import UsageError, one_of
from gpuprof.base.gpu_models import GPUS, GpuModel, gpu_named
from gpuprof.base.units import NS_PER_S
from gpuprof.model.intervals import Int64s
from gpuprof.place.step_graph import CONSTANT, INPUT, VARIABLE, StepGraph
from gpuprof.predict.link_models import NAMES, STAGED, USUAL, links_named

_MOST_GPUS: Final = 16
_STAGED_OVER: Final = "pcie3"


class GpuMachine(NamedTuple):
    """GPUs, with a separate link between each two of them, which copies take alone.

    Args:
        gpus: The GPUs.
        link: Name of the links.
        latency_s: Of a copy.
        bytes_per_s: Bandwidth of a link.
    """

    gpus: tuple[GpuModel, ...]
    link: str
    latency_s: float
    bytes_per_s: float

    @property
    def name(self) -> str:
        """Its GPUs and link, for people."""
        names = [gpu.name for gpu in self.gpus]
        counted = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
        return f"{', '.join(counted)} over {self.link}"

    def copy_s(self, size: float) -> float:
        """How many seconds a copy of so many bytes takes."""
        return self.latency_s + size / self.bytes_per_s


def machine(gpus: str, link: str) -> GpuMachine:
    """A machine from command-line options: 2xK80 or V100,T4, and pcie3 or 4us,24GB/s.

    Raises:
        UsageError: A name is unknown, or there are no or too many GPUs.
    """
    chosen: list[GpuModel] = []
    for word in gpus.split(","):
        number, _, name = word.strip().partition("x")
        if not number.isdecimal():  # the x of a name
            number, name = "1", word.strip()
        gpu = gpu_named(name)
        if gpu is None:
            msg = f"--gpus {gpus}: unknown GPU {name}"
            raise UsageError(msg, one_of("Known GPUs", name, [gpu.name for gpu in GPUS]))
        chosen += [gpu] * min(int(number), _MOST_GPUS + 1)
    if not 0 < len(chosen) <= _MOST_GPUS:
        msg = f"--gpus {gpus}: expected 1 to {_MOST_GPUS} GPUs"
        raise UsageError(msg)
    name = link.lower() if link.lower() in NAMES else link
    usual = links_named(_STAGED_OVER if name == STAGED else name)[USUAL]
    latency_s, bytes_per_s = usual.latency_ns / NS_PER_S, usual.bytes_per_s
    if name == STAGED:
        # Both halves one after the other, and a gap about as long as a latency.
        latency_s, bytes_per_s = 3 * latency_s, bytes_per_s / 2
    return GpuMachine(tuple(chosen), name, latency_s, bytes_per_s)


# From one launch of a small kernel to the next, as in the findings about small kernels.
LAUNCH_S: Final = 5e-6
LAUNCH_EFFICIENCY: Final = 0.5
# Operations without a kernel: views of the same bytes, or work on the host.
_VIEWS: Final = re.compile(
    r"_?(Mkl|MklNative)?(Const|NoOp|Identity\w*|Reshape|Squeeze|ExpandDims|ReadVariableOp|Shape\w*"
    r"|StopGradient|PreventGradient|_?Arg|view|_unsafe_view|reshape|squeeze|unsqueeze|permute"
    r"|expand|expand_dims|transpose|t|detach|alias|broadcast_in_dim|getitem)(\.\w+)?"
)
# Operations that read no more of a table than they output.
_PICKS: Final = re.compile(r"Gather|Slice|gather|slice|embedding|index|select", re.IGNORECASE)

Floats = npt.NDArray[np.float64]


class StepWork:
    """The work of the operations of a step, and their dependencies.

    Args:
        graph: The step.
    """

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        count = len(graph.operations)
        self.flops = np.array([operation.flops or 0.0 for operation in graph.operations])
        self.made: list[list[int]] = [[] for _ in range(count)]
        self.taken: list[set[int]] = [set() for _ in range(count)]
        for number, tensor in enumerate(graph.tensors):
            self.made[tensor.maker].append(number)
            for taker in tensor.takers:
                self.taken[taker].add(number)
        self.is_view = np.array(
            [
                o.role in {CONSTANT, INPUT, VARIABLE} or _VIEWS.fullmatch(o.kind) is not None
                for o in graph.operations
            ],
            bool,
        )
        self.moved_bytes = np.zeros(count)
        for number, operation in enumerate(graph.operations):
            output_bytes = sum(graph.tensors[n].bytes or 0 for n in self.made[number])
            input_bytes = [graph.tensors[n].bytes or 0 for n in self.taken[number]]
            if output_bytes and _PICKS.search(operation.kind):
                input_bytes = [min(size, output_bytes) for size in input_bytes]
            self.moved_bytes[number] = output_bytes + sum(input_bytes)

    @cached_property
    def order(self) -> list[int]:
        """The operations, makers before takers; values of loops count as made before."""
        waiting = [len(taken) for taken in self.taken]
        free = [number for number, count in enumerate(waiting) if not count]
        unordered, order = set(range(len(waiting))) - set(free), []
        while free or unordered:
            if not free:
                free = [min(unordered)]
                unordered -= set(free)
            number = free.pop()
            order.append(number)
            for tensor in self.made[number]:
                for taker in set(self.graph.tensors[tensor].takers):
                    waiting[taker] -= 1
                    if not waiting[taker] and taker in unordered:
                        unordered.discard(taker)
                        free.append(taker)
        return order

    @cached_property
    def waiting(self) -> list[list[int]]:
        """The operations that wait for each tensor: its takers, except across loop iterations."""
        place = {number: at for at, number in enumerate(self.order)}
        return [
            [taker for taker in set(t.takers) if place[taker] > place[t.maker]]
            for t in self.graph.tensors
        ]

    @cached_property
    def waits_for(self) -> Int64s:
        """How many tensors each operation waits for."""
        count = np.zeros(len(self.graph.operations), np.int64)
        for takers in self.waiting:
            count[takers] += 1
        return count

    @cached_property
    def users(self) -> list[set[int]]:
        """The operations that take each tensor, or a view of it."""
        users: list[set[int]] = [set() for _ in self.graph.tensors]
        for number, takers in enumerate(users):
            tensors = [number]
            while tensors:
                for taker in self.graph.tensors[tensors.pop()].takers:
                    if taker not in takers:
                        takers.add(taker)
                        tensors += self.made[taker] if self.is_view[taker] else []
        return users

    @cached_property
    def has_loops(self) -> bool:
        """Whether an operation depends on its own output."""
        place = {number: at for at, number in enumerate(self.order)}
        tensors = self.graph.tensors
        return any(place[t.maker] >= place[taker] for t in tensors for taker in t.takers)

    def seconds(self, machine: GpuMachine, efficiency: float) -> Floats:
        """How long each operation takes on each GPU, by operation and GPU; views take no time."""
        columns = [
            np.maximum(
                self.flops / (gpu.flops_per_s * efficiency),
                self.moved_bytes / (gpu.bytes_per_s * efficiency),
            )
            for gpu in machine.gpus
        ]
        took: Floats = np.maximum(np.stack(columns, axis=1), launch_s(efficiency))
        took[self.is_view] = 0
        return took

    def ranks(self, seconds: Floats, machine: GpuMachine) -> Floats:
        """The longest path from each operation to the end, with mean times over the GPUs."""
        mean, ranks = seconds.mean(axis=1), np.zeros(len(seconds))
        share = 1 - 1 / len(machine.gpus)
        for number in reversed(self.order):
            behind = 0.0
            for tensor in (self.graph.tensors[n] for n in self.made[number]):
                copy = share * machine.copy_s(tensor.bytes or 0)
                behind = max(behind, *(copy + ranks[taker] for taker in tensor.takers), 0.0)
            ranks[number] = mean[number] + behind
        return ranks


def launch_s(efficiency: float) -> float:
    """From one launch of a small kernel to the next, on a host of this efficiency."""
    return LAUNCH_S * LAUNCH_EFFICIENCY / efficiency


class StepSpan(NamedTuple):
    """The time span of an operation, or of the copy of a tensor to a device.

    Args:
        number: Number of the operation, or of the tensor.
        device: Where it ran, or where the copy went.
        src: Where a copy came from; None for an operation.
        start_s: Start.
        end_s: End.
    """

    number: int
    device: int
    src: int | None
    start_s: float
    end_s: float


class Run(NamedTuple):
    """A simulated step.

    Args:
        seconds: From its start to its end.
        spans: Operations and copies, by end.
        peak_bytes: Peak memory of each device: variables, and tensors until the last operation
            that takes them has run.
    """

    seconds: float
    spans: tuple[StepSpan, ...]
    peak_bytes: tuple[float, ...]


def simulate(
    work: StepWork, machine: GpuMachine, place: Int64s, seconds: Floats, ranks: Floats
) -> Run:
    """One step with each operation on its GPU.

    Args:
        work: The step.
        machine: Where it runs.
        place: The GPU number of each operation.
        seconds: By operation and GPU, from `StepWork.seconds`.
        ranks: Among ready operations, the one with the highest rank runs first.
    """
    events = _Events(work, machine, place, seconds, ranks)
    now = 0.0
    while (span := events.next(now)) is not None:
        now = span.end_s
        events.end(span)
    # Memory is taken from when a tensor is made until its last taker ends; views take none.
    graph, devices = work.graph, range(len(machine.gpus))
    ran = {span.number: span for span in events.finished if span.src is None}
    changes: list[list[tuple[float, float]]] = [[] for _ in devices]
    for number, tensor in enumerate(graph.tensors):
        if work.is_view[tensor.maker] and graph.operations[tensor.maker].role != INPUT:
            continue
        size, begin = tensor.bytes or 0, ran[tensor.maker].start_s
        last = max((ran[taker].end_s for taker in work.users[number]), default=begin)
        for device in {int(place[end]) for end in (tensor.maker, *tensor.takers)}:
            changes[device] += [(begin, size), (max(last, begin), -size)]
    peak_bytes = [0.0 for _ in devices]
    for number, operation in enumerate(graph.operations):
        peak_bytes[place[number]] += operation.bytes or 0
    for device, of_device in enumerate(changes):
        in_memory = accumulate(size for _, size in sorted(of_device))
        peak_bytes[device] += max(in_memory, default=0.0)
    return Run(now, tuple(events.finished), tuple(peak_bytes))


class _Events:
    """The state of a simulation: running, finished and waiting operations and copies."""

    def __init__(
        self, work: StepWork, machine: GpuMachine, place: Int64s, seconds: Floats, ranks: Floats
    ) -> None:
        self._work, self._machine, self._ranks = work, machine, ranks
        self._place: list[int] = place.tolist()
        self._seconds: list[float] = seconds[np.arange(len(place)), place].tolist()
        self.finished: list[StepSpan] = []
        self._running: list[tuple[float, int, StepSpan]] = []
        self._is_free = [True] * len(machine.gpus)
        self._ready: list[list[tuple[float, int]]] = [[] for _ in machine.gpus]
        self._link_free: dict[tuple[int, int], float] = defaultdict(float)
        self._missing = work.waits_for.tolist()
        for number, missing in enumerate(self._missing):
            if not missing:
                self._is_ready(number)

    def _is_ready(self, number: int) -> None:
        heapq.heappush(self._ready[self._place[number]], (-self._ranks[number], number))

    def _add(self, span: StepSpan) -> None:
        heapq.heappush(self._running, (span.end_s, len(self.finished) + len(self._running), span))

    def next(self, now: float) -> StepSpan | None:
        """Start what is ready, and return the span that ends next; None if nothing runs."""
        for device, waiting in enumerate(self._ready):
            while waiting and (self._is_free[device] or self._work.is_view[waiting[0][1]]):
                _, number = heapq.heappop(waiting)
                took = self._seconds[number]
                self._is_free[device] &= not took
                self._add(StepSpan(number, device, None, now, now + took))
        if not self._running:
            return None
        self.finished.append(heapq.heappop(self._running)[-1])
        return self.finished[-1]

    def end(self, span: StepSpan) -> None:
        """Copy the outputs of an operation to where they are taken, or receive a copy."""
        if span.src is not None:
            self._arrive(span.number, span.device)
            return
        self._is_free[span.device] |= self._seconds[span.number] > 0
        is_constant = self._work.graph.operations[span.number].role == CONSTANT
        for number in self._work.made[span.number]:
            tensor = self._work.graph.tensors[number]
            for device in sorted({self._place[taker] for taker in tensor.takers}):
                if device == span.device or is_constant:
                    self._arrive(number, device)
                    continue
                start = max(span.end_s, self._link_free[span.device, device])
                end = start + self._machine.copy_s(tensor.bytes or 0)
                self._link_free[span.device, device] = end
                self._add(StepSpan(number, device, span.device, start, end))

    def _arrive(self, tensor: int, device: int) -> None:
        for taker in self._work.waiting[tensor]:
            if self._place[taker] == device:
                self._missing[taker] -= 1
                if not self._missing[taker]:
                    self._is_ready(taker)
