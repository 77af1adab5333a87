"""When each device computed, communicated, transferred and copied locally: sets of instants.

A device's activities are its kernels, its memsets, and every copy whose device, source or
destination it is: a peer copy is on both its ends' timelines. The halves of a staged copy are
each on the timeline of the device that they run on. CUDA graphs that were recorded as a whole
count as compute: what they contain is unknown.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.movement import IS_STAGED, IS_TRANSFER
from gpuprof.cuda import COMMUNICATION_PATTERN
from gpuprof.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    attribute,
    difference,
    single,
    together,
    union,
)
from gpuprof.profile import Profile

# In the order in which they claim an instant: the first that runs has it.
COMPUTE, COMMUNICATION, TRANSFER, LOCAL_COPY = LAYERS = range(4)

# Stands for "no device is named" while grouping.
UNKNOWN_DEVICE: Final = -1

_DEVICE: Final = f"coalesce(device_id, {UNKNOWN_DEVICE})"
_ENDS: Final = "[device_id, src_device_id, dst_device_id]"
_SOURCES: Final = {
    "kernels": f"""
        SELECT start_ns, end_ns, {_DEVICE} AS device,
            regexp_matches(name, '{COMMUNICATION_PATTERN}', 'i')::TINYINT AS layer
        FROM kernels""",
    "graph_launches": f"""
        SELECT start_ns, end_ns, {_DEVICE} AS device, {COMPUTE}::TINYINT AS layer
        FROM graph_launches""",
    "memcpys": f"""
        SELECT start_ns, end_ns,
            unnest(CASE WHEN {IS_STAGED} THEN [{_DEVICE}]
                WHEN len(list_distinct({_ENDS})) = 0 THEN [{UNKNOWN_DEVICE}]
                ELSE list_distinct({_ENDS}) END) AS device,
            (CASE WHEN {IS_TRANSFER} THEN {TRANSFER} ELSE {LOCAL_COPY} END)::TINYINT AS layer
        FROM memcpys""",
    "memsets": f"""
        SELECT start_ns, end_ns, {_DEVICE} AS device, {LOCAL_COPY}::TINYINT AS layer
        FROM memsets""",
}


@dataclass(frozen=True, eq=False)
class DeviceTimeline:
    """What one device did when.

    Args:
        device_id: The device; None for activities of which no device is known.
        start_ns: Start of its first activity.
        end_ns: End of its last activity.
        busy: For each of `LAYERS`, the instants at which at least one such activity runs.
    """

    device_id: int | None
    start_ns: int
    end_ns: int
    busy: tuple[Intervals, ...]

    @cached_property
    def exposed(self) -> tuple[Intervals, ...]:
        """For each of `LAYERS`, the instants at which it runs and none before it does."""
        return tuple(attribute(self.busy))

    @cached_property
    def idle(self) -> Intervals:
        """The instants of the span at which nothing runs."""
        left = single(self.start_ns, self.end_ns)
        for layer in self.exposed:
            left = difference(left, layer)
        return left


@dataclass
class _Gathered:
    """The activities of one device as they come in, each piece already a union."""

    start_ns: int
    end_ns: int
    layers: dict[int, list[Intervals]]

    def finished(self, device: int) -> DeviceTimeline:
        busy = tuple(together(self.layers.get(layer, [NOTHING])) for layer in LAYERS)
        device_id = None if device == UNKNOWN_DEVICE else device
        return DeviceTimeline(device_id, self.start_ns, self.end_ns, busy)


def timelines(profile: Profile) -> tuple[DeviceTimeline, ...]:
    """The timeline of every device that did anything, by device id; an unknown one comes last."""
    return profile.once(_timelines)


def timeline_of(profile: Profile, device_id: int | None) -> DeviceTimeline:
    """The timeline of one device; an empty one where it did nothing."""
    found = [one for one in timelines(profile) if one.device_id == device_id]
    return found[0] if found else DeviceTimeline(device_id, 0, 0, (NOTHING,) * len(LAYERS))


def _timelines(profile: Profile) -> tuple[DeviceTimeline, ...]:
    gathered: dict[int, _Gathered] = {}
    for table, sql in _SOURCES.items():
        if profile.has(table):
            for batch in profile.batches(sql):
                _gather(gathered, batch)
    made = [found.finished(device) for device, found in gathered.items()]
    return tuple(sorted(made, key=lambda one: (one.device_id is None, one.device_id)))


def _gather(gathered: dict[int, _Gathered], batch: pa.RecordBatch) -> None:
    start, end, device, layer = (batch.column(i).to_numpy() for i in range(4))
    key = device.astype(np.int64) * len(LAYERS) + layer
    for value in np.unique(key).tolist():
        chosen = key == value
        _add(gathered, divmod(value, len(LAYERS)), start[chosen], end[chosen])


def _add(
    gathered: dict[int, _Gathered], place: tuple[int, int], start: Int64s, end: Int64s
) -> None:
    device, layer = place
    first, last = int(start.min()), int(end.max())
    found = gathered.setdefault(device, _Gathered(first, last, defaultdict(list)))
    found.start_ns, found.end_ns = min(found.start_ns, first), max(found.end_ns, last)
    found.layers[layer].append(union(start, end))
