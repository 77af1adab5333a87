"""A host that waits for results before it launches more: in which call, and for what it reads."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.units import format_bytes
from gpuprof.facts.copies import copy_rows
from gpuprof.facts.kernel_kinds import JAX, PYTORCH, TENSORFLOW, framework
from gpuprof.facts.pause_causes import Pieces
from gpuprof.facts.pauses import PAUSE_READS, SHORT_WAIT_READS, short_waits
from gpuprof.findings.contract import Scope
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s, Intervals, covered_within

SYNCHRONISING_READS: Final = reads(
    PAUSE_READS,
    SHORT_WAIT_READS,
    memcpys="start_ns end_ns bytes device_id src_device_id dst_device_id memcpy_kind"
    " src_memory_kind dst_memory_kind",
)

# A copy of so few bytes brings a number or a flag.
_FLAG_BYTES: Final = 64
# A link moves so many in less time than a copy takes to start.
_PIECE_BYTES: Final = 1 << 14
# Steps that compute for less of their time do little but copy.
_LITTLE_COMPUTE: Final = 0.25
# Steps copy something if so many of them do.
_MOST_STEPS: Final = 0.9
_READ_LATER: Final = (
    "read results later, or wait for single events, so that the next work is launched before"
)
_AT_ONCE: Final = (
    "copy the data of all steps at once, from one contiguous buffer into memory that is allocated"
    " once, then launch them"
)
_NOT_EACH_STEP: Final = {
    PYTORCH: "read it every n-th step (.item(), .cpu(), if tensor:), or keep the test on the"
    " device (torch.where)",
    TENSORFLOW: "read it every n-th step (.numpy(), float(loss)), or keep the test in the graph"
    " (tf.cond)",
    JAX: "read it every n-th step (float(loss)), or keep the test on the device (jax.lax.cond)",
    "": "read it every n-th step, or test it on the device (a loop of a CUDA graph), so that the"
    " next work is launched before",
}


class Waited(NamedTuple):
    """What a host waited in, and for.

    Args:
        call: Name of the call; empty where none is known.
        result: What it reads back or copies each time, in words; empty where that is much.
        suggestion: What to do.
    """

    call: str
    result: str
    suggestion: str


def waited(scope: Scope, pieces: Pieces, rows: Int64s, lengths: Int64s) -> Waited:
    """In which call the host waited before most of some pauses, and the short gaps of the scope.

    Args:
        scope: Where the pauses were measured.
        pieces: All pieces of pauses.
        rows: Those that calls which wait brought about, by their places.
        lengths: What the scope has of each.
    """
    times = Counter[str]()
    times.update(_of_pauses(pieces, rows, lengths))
    times.update(_of_gaps(scope))
    call = max(times, key=lambda name: times[name], default="")
    if size := _copied(scope, HOST, _FLAG_BYTES):
        result = f", as it reads {format_bytes(size)} back in each step"
        return Waited(call, result, _NOT_EACH_STEP[framework(scope.profile)])
    is_mostly_idle = scope.compute_ns < _LITTLE_COMPUTE * scope.step_ns
    if is_mostly_idle and (size := _copied(scope, scope.device.number, _PIECE_BYTES)):
        result = f", as it copies {format_bytes(size)} to the device in each step"
        return Waited(call, result, _AT_ONCE)
    return Waited(call, "", _READ_LATER)


def synchronised_gaps(scope: Scope) -> Intervals:
    """The short gaps of a scope's device that a waiting host left."""
    return short_waits(scope.profile, scope.device).gaps


def _of_pauses(pieces: Pieces, rows: Int64s, lengths: Int64s) -> Mapping[str, int]:
    """How long pauses last in all, by the call that their first piece is of."""
    if not len(rows):
        return {}
    order = np.lexsort((pieces.stretches.start_ns[rows], pieces.pause[rows]))
    rows, lengths = rows[order], lengths[order]
    first = np.flatnonzero(np.diff(pieces.pause[rows], prepend=-1))
    of_pause = np.add.reduceat(lengths, first)
    label = pieces.stretches.label[rows[first]]
    sums = np.bincount(label, of_pause, len(pieces.labels))
    return {
        detail: int(sums[number])
        for number, (kind, detail) in enumerate(pieces.labels)
        if kind == "synchronising_call" and detail is not None and sums[number]
    }


def _of_gaps(scope: Scope) -> Mapping[str, int]:
    gaps, call, names = short_waits(scope.profile, scope.device)
    if not len(gaps):
        return {}
    steps = Intervals(scope.start_ns, scope.end_ns)
    inside = covered_within(steps, gaps.start, gaps.end)
    sums = np.bincount(call, inside, len(names))
    return {name: int(time) for name, time in zip(names, sums.tolist(), strict=True) if time}


def _copied(scope: Scope, dst: int, most_bytes: int) -> int:
    """Bytes that each step copies between host and device where these are few; else 0.

    Args:
        scope: The steps.
        dst: Where to: `HOST`, or the number of the device.
        most_bytes: How many are few.
    """
    if not scope.has_steps or not scope.profile.unrestricted.has("memcpys"):
        return 0
    copies = copy_rows(scope.profile.unrestricted)
    src = scope.device.number if dst == HOST else HOST
    rows = np.flatnonzero((copies.dst == dst) & (copies.src == src) & (copies.moved_bytes > 0))
    step = np.searchsorted(scope.start_ns, copies.start_ns[rows], side="right") - 1
    is_in = (step >= 0) & (copies.start_ns[rows] < scope.end_ns[step])
    rows, step = rows[is_in], step[is_in]
    copying = len(np.unique(step))
    if not copying or copying < _MOST_STEPS * len(scope.start_ns):
        return 0
    size = round(float(copies.moved_bytes[rows].sum()) / copying)
    return size if size <= most_bytes else 0
