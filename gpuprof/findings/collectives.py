"""What a device waits in collectives: for other ranks, or for data that no compute hides."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from gpuprof.analyses.collective_waits import say_delay
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.collective_parts import (
    PARTS_READS,
    PartTimes,
    collective_parts,
    part_times,
)
from gpuprof.facts.last_ranks import LAST_READS, LastRank, last_ranks
from gpuprof.facts.timeline import COMMUNICATION
from gpuprof.findings.contract import Finding, Scope
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Intervals, difference, intersection, together

READS: Final = reads(PARTS_READS, LAST_READS)
# More collectives in a step that take less each are worth joining.
_MANY: Final = 50
_SHORT_NS: Final = 50_000
_MOST: Final = 0.5
# Collectives of which so much is of unknown ranks, as a few calls at a recording's ends are, are
# known.
LITTLE: Final = 0.1
# What the change that mends a cause names.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"same_stream": ("nccl",), "collective_waiting": ()}


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits in collectives in a step, where no kernel of compute runs."""
    times = part_times(scope.profile).get(scope.device.device_id)
    if times is None:
        return
    exposed = scope.device.exposed[COMMUNICATION]
    waiting = intersection(times.waiting, exposed)
    at_most = intersection(times.waiting_at_most, exposed)
    if len(waiting):
        yield _waiting(scope, waiting)
    if len(at_most):
        yield _perhaps_waiting(scope, at_most)
    moving = difference(exposed, together([times.waiting, times.waiting_at_most, times.setup]))
    if len(moving):
        yield _transfer(scope, moving, times)


def _waiting(scope: Scope, waiting: Intervals) -> Finding:
    last = _last_of(scope)
    name, where = "the last rank", ""
    suggestion = "make the ranks arrive together: see which one is last, and what keeps it"
    if last is not None and last.stands_out:
        name = where = last.name
        suggestion = f"see what keeps {name}, which came last to {say_share(last.share)} of them"
        suggestion += "" if last.delay is None else f" ({say_delay(last.delay)})"
    return _finding(
        "collective_waiting",
        scope,
        f"waits in collectives for other ranks, most for {name}",
        waiting,
        ("balance", suggestion, where),
    )


def _last_of(scope: Scope) -> LastRank | None:
    device = scope.device.device_id
    of_device = (last for last in last_ranks(scope.profile) if device in last.devices)
    return next(of_device, None)


def _perhaps_waiting(scope: Scope, at_most: Intervals) -> Finding:
    return _finding(
        "collective_waiting",
        scope,
        "may wait in collectives for other ranks, as their durations differ",
        at_most,
        ("balance", "record all ranks together, which tells who comes last and why", ""),
    )._replace(is_sure=False)


def _transfer(scope: Scope, exposed: Intervals, times: PartTimes) -> Finding:
    """The exposed time in which data moves, or may move."""
    unknown_ns = scope.per_step(intersection(exposed, times.unknown))
    is_known = unknown_ns <= LITTLE * scope.per_step(exposed)
    calls, median_ns, on_compute_stream = _calls(scope)
    if on_compute_stream > _MOST:
        return _finding(
            "same_stream",
            scope,
            "runs collectives on a stream that also computes, so that nothing can hide them",
            exposed,
            ("overlap", "run collectives on a stream of their own", ""),
        )
    phrase, suggestion = words_of_transfer(is_known=is_known, absent=scope.profile.absent_ranks)
    if calls > _MANY and median_ns < _SHORT_NS:
        number = counted(round(calls), "call", "calls")
        phrase += f" ({number} a step, {say_ns(median_ns)} each)"
        suggestion = "join small collectives into buckets, and overlap them with compute"
    if _clocks_disagree(scope):
        phrase += "; as the clocks of ranks disagree, waiting cannot be told from transfer"
    return _finding("collective_transfer", scope, phrase, exposed, ("overlap", suggestion, ""))


def words_of_transfer(*, is_known: bool, absent: Sequence[int]) -> tuple[str, str]:
    """What a device does in collectives beside waiting for ranks that are known, and what to do.

    Args:
        is_known: Whether all ranks of the collectives are known, so that data moves then.
        absent: Ranks without a recording, as far as they are known.
    """
    if is_known:
        return (
            "moves data in collectives that no compute hides",
            "overlap collectives with compute, or send fewer bytes",
        )
    advice = f"add the recording of rank {absent[0]}" if len(absent) == 1 else "record all ranks"
    return (
        "is in collectives that no compute hides",
        f"{advice}, which tells whether data moves or they wait; overlap collectives with compute",
    )


def _clocks_disagree(scope: Scope) -> bool:
    device = scope.device.device_id
    clocks = collective_parts(scope.profile).clocks
    return any(device in {pair.device, pair.second_device} for pair in clocks)


def _calls(scope: Scope) -> tuple[float, int, float]:
    """Communication kernels per step, their median length, their share on a compute stream."""
    kernels = collective_parts(scope.profile).kernels
    rows = np.flatnonzero(kernels.device == scope.device.number)
    first = np.searchsorted(scope.start_ns, kernels.start_ns[rows], side="right") - 1
    rows = rows[(first >= 0) & (kernels.start_ns[rows] < scope.end_ns[first])]
    if not len(rows):
        return 0.0, 0, 0.0
    lengths = kernels.end_ns[rows] - kernels.start_ns[rows]
    is_same = collective_parts(scope.profile).is_same_stream[rows]
    share = float(lengths[is_same].sum() / max(int(lengths.sum()), 1))
    return len(rows) / len(scope.start_ns), int(np.median(lengths)), share


def _finding(
    cause: str, scope: Scope, phrase: str, exposed: Intervals, words: tuple[str, str, str]
) -> Finding:
    cost_ns, (means, suggestion, where) = scope.per_step(exposed), words
    table, names = "collective_waits", _NAMES.get(cause)
    return Finding(cause, scope, phrase, cost_ns, cost_ns, means, suggestion, table, where, names)
