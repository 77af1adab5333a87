"""What the time of a run's busiest device goes to, part by part, without remainder.

Of several devices the one that is busy longest stands for the run: it is the one that the
others wait for. Spans of devices are never added up, since they run at the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from gpuprof.base import cuda
from gpuprof.base.statistics import scaled
from gpuprof.comparisons.measure.compared_steps import ComparedSteps
from gpuprof.comparisons.measure.matching import Shaped, numbered_kernels, shaped_kernels
from gpuprof.facts.copies import copy_rows
from gpuprof.facts.numbers import columns_of
from gpuprof.facts.step_times import typical_steps
from gpuprof.facts.step_windows import StepWindows
from gpuprof.facts.timeline import COMMUNICATION, COMPUTE, DeviceTimeline, busy_by_device, timelines
from gpuprof.model.derived import PEER_DEVICE_COPY, PEER_STAGED
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, attribute, covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.model.table import Selection

COMMON: Final = "kernels_common"
UNMATCHED: Final = "kernels_unmatched"
GRAPHS: Final = "graphs"
COMMUNICATING: Final = "communication"
LOCAL_COPIES: Final = "local_copies"
UNKNOWN_COPIES: Final = "unknown_copies"
MEMSETS: Final = "memsets"
IDLE: Final = "idle"
# An instant belongs to the first of these that runs; copies between devices come first.
TRANSFERS: Final = (
    "PtoP",
    PEER_STAGED,
    PEER_DEVICE_COPY,
    "UVM_DtoD",
    "UVM_HtoD",
    "UVM_DtoH",
    "HtoD",
    "HtoA",
    "DtoH",
    "AtoH",
)
PARTS: Final = (
    COMMON,
    UNMATCHED,
    GRAPHS,
    COMMUNICATING,
    *TRANSFERS,
    LOCAL_COPIES,
    UNKNOWN_COPIES,
    MEMSETS,
)
_TIMES: Final = ("start_ns", "end_ns", "device_id")


@dataclass(frozen=True)
class BusiestDevice:
    """The busiest device of a run.

    Args:
        timeline: What it did when, in the whole recording.
        steps: Its compared steps, as windows; None where it is compared as a whole.
    """

    timeline: DeviceTimeline
    steps: StepWindows | None

    @property
    def total_ns(self) -> int:
        """Time of all its steps, or from its first start to its last end."""
        return self.timeline.span.length if self.steps is None else int(self.steps_ns.sum())

    @cached_property
    def steps_ns(self) -> Int64s:
        """How long each of its steps took; none where it is compared as a whole."""
        if self.steps is None:
            return np.array([], np.int64)
        return self.steps.end_ns - self.steps.start_ns

    @cached_property
    def typical(self) -> Int64s:
        """Those of its steps that are nearest to the median in length."""
        return typical_steps(self.steps_ns)

    def within(self, covered: Intervals) -> int:
        """How many ns of some instants are compared."""
        if self.steps is None:
            return covered.length
        return int(covered_within(covered, self.steps.start_ns, self.steps.end_ns).sum())


def busiest_device(compared: ComparedSteps) -> BusiestDevice | None:
    """The device that is busy longest, per step where steps are compared; None for no device."""
    recording = compared.profile.unrestricted
    if not recording.all_have("kernels", "memcpys"):
        return None
    devices = []
    for timeline in timelines(recording):
        steps = (s for s in compared.series if timeline.number in s.devices and len(s.start_ns))
        devices.append(BusiestDevice(timeline, next(steps, None)))

    def busy_per_step(device: BusiestDevice) -> float:
        busy_ns = sum(map(device.within, device.timeline.exposed))
        return busy_ns / (1 if device.steps is None else len(device.steps.start_ns))

    candidates = [device for device in devices if device.steps is not None or not compared.series]
    return max(candidates, key=busy_per_step, default=None)


def exposed_times(
    compared: ComparedSteps, device: BusiestDevice, unmatched: frozenset[Shaped] = frozenset()
) -> dict[str, int]:
    """Split the compared time of a device: each of `PARTS` and idle, in ns.

    Kernels are ``unmatched`` that the other side lacks, as the recording has them.
    """
    exposed = _exposed(compared.profile.unrestricted, device.timeline, unmatched)
    times = {part: device.within(covered) for part, covered in exposed.items()}
    return times | {IDLE: device.total_ns - sum(times.values())}


def exposed_unit(
    compared: ComparedSteps, device: BusiestDevice, unmatched: frozenset[Shaped]
) -> dict[str, int]:
    """Split the median step of a device, or its whole compared time where it has no steps, in ns.

    The parts are those of typical steps, in the ratio that adds up to the median; a mean over all
    steps would be that of outliers.
    """
    if device.steps is None:
        return per_step(exposed_times(compared, device, unmatched), compared.steps)
    windows = device.steps.start_ns, device.steps.end_ns
    exposed = _exposed(compared.profile.unrestricted, device.timeline, unmatched)
    typical = {
        part: float(covered_within(covered, *windows)[device.typical].mean())
        for part, covered in exposed.items()
    }
    typical_ns = float(device.steps_ns[device.typical].mean())
    typical[IDLE] = typical_ns - sum(typical.values())
    return scaled(typical, round(float(np.median(device.steps_ns))))


def _exposed(
    recording: Profile, device: DeviceTimeline, unmatched: frozenset[Shaped]
) -> dict[str, Intervals]:
    """When each of `PARTS` runs and none before it does, in the whole recording."""
    layers = {COMMUNICATING: device.busy[COMMUNICATION], COMMON: device.busy[COMPUTE]}
    layers |= recording.once(copy_layers).get(device.device_id, {})
    has_graphs = recording.has("graph_launches") and recording.table("graph_launches").num_rows
    if unmatched or has_graphs:
        on_device = Selection(device_id=device.number)
        number, start, end = columns_of(numbered_kernels(recording, on_device), 3)
        _, shapes = shaped_kernels(recording)
        is_compute = np.array([not cuda.is_communication(name) for name, _ in shapes], bool)[number]
        is_unmatched = np.array([shaped in unmatched for shaped in shapes], bool)[number]
        for part, is_part in ((COMMON, is_compute & ~is_unmatched), (UNMATCHED, is_unmatched)):
            layers[part] = union(start[is_part], end[is_part])
    if has_graphs:
        start, end, of_device = columns_of(recording.columns("graph_launches", *_TIMES), 3)
        is_here = of_device == device.number
        layers[GRAPHS] = union(start[is_here], end[is_here])
    exposed = attribute([layers.get(part, NOTHING) for part in PARTS])
    return dict(zip(PARTS, exposed, strict=True))


def copy_layers(recording: Profile) -> Mapping[int | None, Mapping[str, Intervals]]:
    """When each kind of copy and memsets ran, by device."""
    names = [*TRANSFERS, LOCAL_COPIES, UNKNOWN_COPIES, MEMSETS]
    number = {name: place for place, name in enumerate(names)}
    number |= dict.fromkeys(cuda.LOCAL_MEMCPY_KINDS, number[LOCAL_COPIES])
    unknown = number[UNKNOWN_COPIES]
    copies = (
        (c.start_ns, c.end_ns, c.device, c.movements(lambda m: number.get(m, unknown)))
        for c in copy_rows(recording).by_device()
    )
    memsets = (
        (*part, np.full(len(part[0]), number[MEMSETS], np.int8))
        for part in (recording.columns("memsets", *_TIMES) if recording.has("memsets") else ())
    )
    return {
        device: {names[kind]: covered for kind, covered in busy.kinds.items()}
        for device, busy in busy_by_device(chain(copies, memsets), len(names)).items()
    }


def per_step(times: Mapping[str, int], steps: int | None) -> dict[str, int]:
    """The parts of the mean step in whole ns, which add up to the rounded whole of one step."""
    if steps is None:
        return dict(times)
    total_ns = round(sum(times.values()) / steps)
    return scaled({part: Fraction(ns, steps) for part, ns in times.items()}, total_ns)
