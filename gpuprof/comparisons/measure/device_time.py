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

from gpuprof import cuda
from gpuprof.analyses.facts.busy import busy_by_device
from gpuprof.analyses.facts.step_times import typical_steps
from gpuprof.analyses.facts.step_windows import StepWindows
from gpuprof.analyses.facts.timeline import COMMUNICATION, COMPUTE, DeviceTimeline, timelines
from gpuprof.comparisons.measure.compared_steps import ComparedSteps
from gpuprof.comparisons.measure.matching import SHAPED_KEY
from gpuprof.facts import PEER_DEVICE_COPY, PEER_STAGED, UNKNOWN
from gpuprof.intervals import NOTHING, Int64s, Intervals, attribute, covered_within, together
from gpuprof.profile import Profile
from gpuprof.statistics import scaled

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
        if self.steps is None:
            return self.timeline.span.length
        return int((self.steps.end_ns - self.steps.start_ns).sum())

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

    def within_typical(self, covered: Intervals) -> float:
        """How many ns of some instants lie in a typical step."""
        assert self.steps is not None  # noqa: S101 - of devices whose steps are known
        ns = covered_within(covered, self.steps.start_ns, self.steps.end_ns)
        return float(ns[self.typical].mean())


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
        busy_ns = device.within(together(device.timeline.busy))
        return busy_ns / (1 if device.steps is None else len(device.steps.start_ns))

    candidates = [device for device in devices if device.steps is not None or not compared.series]
    return max(candidates, key=busy_per_step, default=None)


def exposed_times(compared: ComparedSteps, device: BusiestDevice) -> dict[str, int]:
    """Split the compared time of a device: each of `PARTS` and idle, in ns.

    Args:
        compared: The run.
        device: One of its devices.
    """
    times = {part: device.within(covered) for part, covered in _exposed(compared, device).items()}
    return times | {IDLE: device.total_ns - sum(times.values())}


def exposed_unit(
    compared: ComparedSteps, device: BusiestDevice, unmatched: frozenset[int]
) -> dict[str, int]:
    """Split the median step of a device, or its whole compared time where it has no steps, in ns.

    The parts are those of typical steps, in the ratio that adds up to the median; a mean over all
    steps would be that of outliers.

    Args:
        compared: The run.
        device: One of its devices.
        unmatched: Kernels that the other side lacks, as `SHAPED_KEY` numbers them.
    """
    exposed = _exposed(compared, device, unmatched)
    if device.steps is None:
        times = {part: device.within(covered) for part, covered in exposed.items()}
        return per_step(times | {IDLE: device.total_ns - sum(times.values())}, compared.steps)
    typical = {part: device.within_typical(covered) for part, covered in exposed.items()}
    typical_ns = float(device.steps_ns[device.typical].mean())
    typical[IDLE] = typical_ns - sum(typical.values())
    return scaled(typical, round(float(np.median(device.steps_ns))))


def _exposed(
    compared: ComparedSteps, device: BusiestDevice, unmatched: frozenset[int] = frozenset()
) -> dict[str, Intervals]:
    """When each of `PARTS` runs and none before it does, in the whole recording."""
    recording = compared.profile.unrestricted
    layers = {COMMUNICATING: device.timeline.busy[COMMUNICATION]}
    layers |= recording.once(copy_layers).get(device.timeline.device_id, {})
    layers |= _kernel_layers(recording, device.timeline, unmatched)
    exposed = attribute([layers.get(part, NOTHING) for part in PARTS])
    return dict(zip(PARTS, exposed, strict=True))


def _kernel_layers(
    recording: Profile, device: DeviceTimeline, unmatched: frozenset[int]
) -> dict[str, Intervals]:
    """When matched kernels, others, and graphs recorded as a whole ran on a device."""
    has_graphs = recording.has("graph_launches") and recording.table("graph_launches").num_rows
    if not unmatched and not has_graphs:
        return {COMMON: device.busy[COMPUTE]}
    here = f"coalesce(device_id, {UNKNOWN}) = {device.number}"
    chosen = ", ".join(map(str, sorted(unmatched))) or "NULL"
    is_unmatched = f"coalesce({SHAPED_KEY} IN ({chosen}), false)"
    is_compute = f"{here} AND NOT coalesce(is_communication, false)"
    matched = f"SELECT start_ns, end_ns, {device.number}, {is_unmatched}::TINYINT FROM kernels"
    queries = [f"{matched} WHERE {is_compute}"]
    if has_graphs:
        queries.append(
            f"SELECT start_ns, end_ns, {device.number}, 2 FROM graph_launches WHERE {here}"
        )
    rows = chain.from_iterable(map(recording.arrays, queries))
    busy = busy_by_device(rows, 3).get(device.device_id)
    parts = (COMMON, UNMATCHED, GRAPHS)
    return {} if busy is None else {parts[kind]: times for kind, times in busy.kinds.items()}


def copy_layers(recording: Profile) -> Mapping[int | None, Mapping[str, Intervals]]:
    """When each kind of copy and memsets ran, by device."""
    names = [*TRANSFERS, LOCAL_COPIES, UNKNOWN_COPIES, MEMSETS]
    local = ", ".join(f"'{kind}'" for kind in sorted(cuda.LOCAL_MEMCPY_KINDS))
    kind = (
        f"coalesce(list_position({list(TRANSFERS)}, movement) - 1, CASE WHEN movement IN ({local})"
        f" THEN {names.index(LOCAL_COPIES)} ELSE {names.index(UNKNOWN_COPIES)} END)"
    )
    sql = f"""
        SELECT start_ns, end_ns, busy_device_id, {kind} FROM copies_by_device"""
    if recording.has("memsets"):
        sql += f""" UNION ALL
        SELECT start_ns, end_ns, coalesce(device_id, {UNKNOWN}), {names.index(MEMSETS)}
        FROM memsets"""
    return {
        device: {names[kind]: covered for kind, covered in busy.kinds.items()}
        for device, busy in busy_by_device(recording.arrays(sql), len(names)).items()
    }


def per_step(times: Mapping[str, int], steps: int | None) -> dict[str, int]:
    """The parts of the mean step in whole ns, which add up to the rounded whole of one step."""
    if steps is None:
        return dict(times)
    total_ns = round(sum(times.values()) / steps)
    return scaled({part: Fraction(ns, steps) for part, ns in times.items()}, total_ns)
