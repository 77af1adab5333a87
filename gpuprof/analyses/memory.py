"""Memory that is allocated: its peak, where that is, and what each step leaves behind.

A trace of PyTorch holds what its allocator gave out, a recording of nsys what CUDA gave out.

PyTorch's allocator keeps what it took from the device: what it reserved is seldom less than its
peak so far (https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management).
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.facts.numbers import groups, read_columns
from gpuprof.facts.nvtx import RANGE_READS, ranges_of, texts_around
from gpuprof.facts.phases import PHASE_READS, steps_in_part
from gpuprof.facts.step_times import LEAST_STEPS
from gpuprof.facts.timeline import SLICE
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import Bytes, Count, Id, Instant, Process, Schema, Share, Text

_SLICES: Final = 120
_PLACE: Final = {
    "process_id": Process("Operating-system process; null where unknown."),
    "device_id": Id("The GPU; null for the memory of the host."),
}

MEMORY: Final = Schema(
    "memory",
    "the memory of one device, as it was given out to one process",
    {
        **_PLACE,
        "allocations": Count("How often memory was allocated.", required=True),
        "before_bytes": Bytes("Allocated before the first recorded event; null where unknown."),
        "peak_bytes": Bytes(
            "Most that was allocated at a time; where before_bytes is unknown, at least.",
            required=True,
        ),
        "peak_ns": Instant("When that was reached, on the host.", required=True),
        "peak_range": Text("Innermost NVTX range or annotation of the thread then; null for none."),
        "peak_operation": Text("Outermost operation of a framework then; null for none."),
        "reserved_bytes": Bytes("Most that the allocator reserved; null where unknown."),
        "total_memory_bytes": Bytes("There is; null where unknown."),
        "peak_share": Share("peak_bytes / total_memory_bytes."),
        "steps": Count("Usual steps that were looked at; null for fewer than three."),
        "step_peak_bytes": Bytes("Median of the most that is allocated in a step."),
        "growth_bytes_per_step": Bytes(
            "Median of how much the least that a step keeps grew since the step before."
        ),
        "growing_share": Share("Of these steps, those in which it grew."),
    },
)
MEMORY_OVER_TIME: Final = Schema(
    "memory_over_time",
    "one slice of the time from the first to the last event of a device's memory",
    {
        **_PLACE,
        "measure": Text(
            "allocated, by events; without any, in use by whomever, by the monitor's samples.",
            required=True,
        ),
        **SLICE,
        "most_bytes": Bytes("Most that was so in it.", required=True),
        "least_bytes": Bytes("Least that was so.", required=True),
        "reserved_bytes": MEMORY.columns["reserved_bytes"],
    },
)
_EVENTS: Final = (
    "start_ns", "process_id", "thread_id", "device_id", "bytes", "allocated_bytes",
    "reserved_bytes",
)  # fmt: skip
_CAPACITY: Final = ("device_id", "total_memory_bytes")
_EVENT_READS: Final = reads(memory_events=" ".join(_EVENTS))
_SAMPLES: Final = ("time_ns", "device_id", "memory_used_bytes")


class _Memory(NamedTuple):
    """The events of one process and device, by start.

    Args:
        process: The process; `UNKNOWN` where unknown.
        device: The device; `UNKNOWN` for the host.
        start_ns: When each happened.
        thread: On which thread.
        bytes: Bytes; negative of a release.
        allocated: Allocated since then; where that is unknown, the least by the recorded events.
        reserved: Reserved by the allocator; `UNKNOWN` where unknown.
        before: Allocated before the first event; None where unknown.
    """

    process: int
    device: int
    start_ns: Int64s
    thread: Int64s
    bytes: Int64s
    allocated: Int64s
    reserved: Int64s
    before: int | None


@once_per_profile
def _memories(profile: Profile) -> tuple[_Memory, ...]:
    """The events by process and device."""
    if not profile.has("memory_events"):
        return ()
    memories = []
    events = read_columns(profile, "memory_events", *_EVENTS)
    start_ns, process, thread, device, size, allocated, reserved = events
    for alike in groups(process, device):
        rows = alike[np.argsort(start_ns[alike], kind="stable")]
        changes = size[rows].astype(np.int64)
        levels, before = allocated[rows].astype(np.int64), None
        if (levels == UNKNOWN).any():
            # What is released without having been allocated was so before.
            levels = np.cumsum(changes)
            levels -= min(int(levels.min()), 0)
        else:
            before = max(int(levels[0] - changes[0]), 0)
        first = rows[0]
        columns = (start_ns[rows], thread[rows], changes, levels, reserved[rows])
        memories.append(_Memory(int(process[first]), int(device[first]), *columns, before))
    return tuple(memories)


def _sampled(profile: Profile) -> list[_Memory]:
    """What was in use on each GPU when the monitor looked."""
    if not profile.has("monitor"):
        return []
    time_ns, device, used = read_columns(profile, "monitor", *_SAMPLES)
    is_known = (device != UNKNOWN) & (used != UNKNOWN)
    time_ns, device, used = time_ns[is_known], device[is_known], used[is_known]
    memories = []
    for rows in groups(device):
        unknown = np.full(len(rows), UNKNOWN)
        at, levels = (time_ns[rows], unknown, unknown), used[rows]
        memories.append(_Memory(UNKNOWN, int(device[rows[0]]), *at, levels, unknown, None))
    return memories


@per_file(MEMORY, by(process_id="ascending", device_id="ascending"), needs=("memory_events",))
def memory(profile: Profile) -> pa.Table:
    """Find the peak of the memory of each device, and what steps leave behind.

    Allocations happen on the host, which runs ahead of the device: the least that a step keeps is
    taken from all of its time, so that it does not matter which allocation belongs to which step.

    Args:
        profile: Needs ``memory_events``; ``nvtx_ranges`` tell where the peak is, ``kernels`` and
            ``memcpys`` what a step is.

    Returns:
        One row per process and device, columns as in `MEMORY`.
    """
    capacity: dict[int, int] = {}
    if profile.has("devices"):
        capacity = dict(zip(*read_columns(profile, "devices", *_CAPACITY), strict=True))
    has_steps = profile.has("kernels", "memcpys")
    series = steps_in_part(profile) if has_steps else []
    ranges = ranges_of(profile) if profile.has("nvtx_ranges") else None
    rows = []
    for of in _memories(profile):
        peak = int(np.argmax(of.allocated))
        lane, peak_ns = (of.process, int(of.thread[peak])), int(of.start_ns[peak])
        texts = {} if ranges is None else texts_around(ranges, lane, peak_ns)
        total = if_known(int(capacity.get(of.device, UNKNOWN)))
        peak_bytes = int(of.allocated[peak])
        row: dict[str, Any] = {
            "process_id": if_known(of.process),
            "device_id": if_known(of.device),
            "allocations": int(np.count_nonzero(of.bytes > 0)),
            "before_bytes": of.before,
            "peak_bytes": peak_bytes,
            "peak_ns": peak_ns,
            "peak_range": texts.get("nvtx_range"),
            "peak_operation": texts.get("operation"),
            "reserved_bytes": if_known(int(of.reserved.max())),
            "total_memory_bytes": total,
            "peak_share": peak_bytes / total if total and of.before is not None else None,
        }
        bounds = [
            _bounds(of, steps.start_ns[steps.is_sample], steps.end_ns[steps.is_sample])
            for steps in series
            if of.device in steps.phase.devices
        ]
        growth = np.concatenate([np.diff(least) for least, _ in bounds] or [np.empty(0, np.int64)])
        if len(growth) >= LEAST_STEPS - 1:
            row |= {
                "steps": sum(len(least) for least, _ in bounds),
                "step_peak_bytes": int(np.median(np.concatenate([most for _, most in bounds]))),
                "growth_bytes_per_step": int(np.median(growth)),
                "growing_share": float(np.mean(growth > 0)),
            }
        rows.append(row)
    return MEMORY.table(rows)


def _bounds(of: _Memory, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """The least and the most that is allocated within each of some windows that have events."""
    first = np.maximum(np.searchsorted(of.start_ns, start, side="right") - 1, 0)
    last = np.searchsorted(of.start_ns, end)
    has_events = last > first
    windows = [*zip(first[has_events].tolist(), last[has_events].tolist(), strict=True)]
    least, most = (
        np.array([bound(of.allocated[low:high]) for low, high in windows], np.int64)
        for bound in (np.min, np.max)
    )
    return least, most


@per_file(
    MEMORY_OVER_TIME,
    by(process_id="ascending", device_id="ascending", start_ns="ascending"),
)
def memory_over_time(profile: Profile) -> pa.Table:
    """Cut the time into slices with the most and the least that was allocated in each.

    Returns:
        At most 120 rows per process and device, columns as in `MEMORY_OVER_TIME`.
    """
    rows = []
    memories = _memories(profile)
    measure = "allocated" if memories else "in use"
    for of in memories or _sampled(profile):
        first_ns, last_ns = int(of.start_ns[0]), int(of.start_ns[-1]) + 1
        count = min(_SLICES, last_ns - first_ns)
        borders = np.linspace(first_ns, last_ns, count + 1).astype(np.int64)
        # What was allocated before a slice is so at its start.
        low = np.maximum(np.searchsorted(of.start_ns, borders[:-1], side="right") - 1, 0)
        high = np.searchsorted(of.start_ns, borders[1:])
        for start, end, begin, stop in zip(
            borders[:-1].tolist(), borders[1:].tolist(), low.tolist(), high.tolist(), strict=True
        ):
            recorded = slice(begin, max(stop, begin + 1))
            levels, reserved_bytes = of.allocated[recorded], of.reserved[recorded].max()
            rows.append(
                {
                    "process_id": if_known(of.process),
                    "device_id": if_known(of.device),
                    "measure": measure,
                    "start_ns": start,
                    "end_ns": end,
                    "most_bytes": int(levels.max()),
                    "least_bytes": int(levels.min()),
                    "reserved_bytes": if_known(int(reserved_bytes)),
                }
            )
    return MEMORY_OVER_TIME.table(rows)


ANALYSIS: Final = memory.analysis(
    "Memory by device", reads(_EVENT_READS, RANGE_READS, PHASE_READS, devices=" ".join(_CAPACITY))
)
OVER_TIME_ANALYSIS: Final = Analysis(
    "Memory over time",
    MEMORY_OVER_TIME,
    ("memory_events",),
    memory_over_time,
    reads(_EVENT_READS, monitor=" ".join(_SAMPLES)),
    instead=("monitor",),
)
