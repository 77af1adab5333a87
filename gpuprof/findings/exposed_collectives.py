"""What a device waits in collectives, for other ranks or for data, and which ranks are late."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.collectives import say_delay
from gpuprof.base.statistics import median
from gpuprof.base.units import counted, listed, say_bytes, say_ns, say_ratio, say_share
from gpuprof.facts.collective_parts import PARTS_READS, PartTimes, collective_parts, part_times
from gpuprof.facts.hosts import DeviceNames
from gpuprof.facts.last_ranks import (
    LAST_READS,
    CollectiveRecord,
    LastRank,
    last_ranks,
    last_ranks_of,
)
from gpuprof.facts.launches import activities
from gpuprof.facts.links import link_of_collectives
from gpuprof.facts.needless_copies import not_sought
from gpuprof.facts.step_windows import FROM_RANGES
from gpuprof.facts.timeline import COMMUNICATION
from gpuprof.findings.scope import Finding, Scope, launched_in
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import (
    Intervals,
    covered_within,
    difference,
    intersection,
    together,
    union,
)

READS: Final = reads(
    PARTS_READS,
    LAST_READS,
    links="device_id peer_device_id link bytes_per_s",
    devices="device_id name compute_capability",
)
# More collectives in a step that take less each are worth joining.
_MANY: Final = 50
_SHORT_NS: Final = 50_000
_MOST: Final = 0.5
# Collectives of which so much is of unknown ranks, as a few calls at a recording's ends are, are
# known.
LITTLE: Final = 0.1
# What the change that mends a cause names.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"same_stream": ("nccl",), "collective_waiting": ()}
_MOST_NAMED: Final = 3
# Of fewer steps or calls one is always most of all.
_LEAST_PLACES: Final = 3

Row = dict[str, Any]


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits in collectives in a step, where no kernel of compute runs."""
    times = part_times(scope.profile).get(scope.device.device_id)
    if times is None:
        return
    exposed = scope.device.exposed[COMMUNICATION]
    waiting = intersection(times.waiting, exposed)
    at_most = intersection(times.waiting_at_most, exposed)
    if len(waiting):
        device = scope.device.device_id
        of_device = (last for last in last_ranks(scope.profile) if device in last.devices)
        suggestion, name = words_of_waiting(next(of_device, None))
        phrase = f"waits in collectives for other ranks, most for {name or 'the last rank'}"
        words = (phrase, "balance", suggestion, name)
        yield _finding("collective_waiting", scope, waiting, words)
    if len(at_most):
        phrase = "may wait in collectives for other ranks, as their durations differ"
        suggestion = "record all ranks together, which tells who comes last and why"
        words = (phrase, "balance", suggestion, "")
        yield _finding("collective_waiting", scope, at_most, words)._replace(is_sure=False)
    moving = difference(exposed, together([times.waiting, times.waiting_at_most, times.setup]))
    if len(moving):
        yield _transfer(scope, moving, times)


def _finding(
    cause: str, scope: Scope, exposed: Intervals, words: tuple[str, str, str, str]
) -> Finding:
    cost_ns, (phrase, means, suggestion, where) = scope.per_step(exposed), words
    return Finding(
        *(cause, scope, phrase, cost_ns, cost_ns, means, suggestion, "collective_waits", where),
        _NAMES.get(cause),
        instants=exposed,
        details=cache(partial(_with_launch, scope, exposed, phrase, where)),
    )


def _with_launch(scope: Scope, exposed: Intervals, phrase: str, where: str) -> dict[str, str]:
    """The words of a finding with the part of the program that launched most of it."""
    recorded, part, share = scope.profile.unrestricted, "", ""
    if not not_sought(scope.profile) and recorded.has("nvtx_ranges", "api_calls"):
        kernels = collective_parts(recorded).kernels
        rows = np.flatnonzero(kernels.device == scope.device.number)
        cost = intersection(exposed, union(scope.start_ns, scope.end_ns))
        times_ns = covered_within(cost, kernels.start_ns[rows], kernels.end_ns[rows])
        part, share = launched_in(scope, len(activities(recorded).copies) + rows, times_ns)
    return {"phrase": phrase + share, "where": where or part}


def words_of_waiting(last: LastRank | None) -> tuple[str, str]:
    """What to do about ranks that wait, and for whom they wait most; empty where for all alike."""
    if last is None or not last.stands_out:
        return "make the ranks arrive together: see which one is last, and what keeps it", ""
    why = "" if last.delay is None else f" ({say_delay(last.delay)})"
    share = say_share(last.share)
    return f"see what keeps {last.name}, which came last to {share} of them{why}", last.name


def _transfer(scope: Scope, exposed: Intervals, times: PartTimes) -> Finding:
    """The exposed time in which data moves, or may move."""
    parts, kernels = collective_parts(scope.profile), collective_parts(scope.profile).kernels
    rows = np.flatnonzero(kernels.device == scope.device.number)
    rows = rows[scope.step_of(kernels.start_ns[rows]) >= 0]
    lengths = kernels.end_ns[rows] - kernels.start_ns[rows]
    on_compute_ns = lengths[parts.is_same_stream[rows]].sum()
    if len(rows) and on_compute_ns > _MOST * max(int(lengths.sum()), 1):
        phrase = "runs collectives on a stream that also computes, so that nothing can hide them"
        words = (phrase, "overlap", "run collectives on a stream of their own", "")
        return _finding("same_stream", scope, exposed, words)
    unknown_ns = scope.per_step(intersection(exposed, times.unknown))
    is_known = unknown_ns <= LITTLE * scope.per_step(exposed)
    phrase, suggestion = words_of_transfer(is_known=is_known, absent=scope.profile.absent_ranks)
    if not is_known and (scope.profile.absent_ranks or (kernels.device == kernels.device[0]).all()):
        phrase += ", and not all of their ranks were recorded"
    if rate := parts.bus_bytes_per_s(rows):
        link = link_of_collectives(scope.profile, scope.device.device_id)
        phrase += f", at {say_bytes(rate)}/s of bus bandwidth"
        if link is not None and link.bytes_per_s:
            phrase += f" ({say_share(rate / link.bytes_per_s)} of {link.name})"
    calls = len(rows) / len(scope.start_ns)
    if calls > _MANY and int(median(lengths)) < _SHORT_NS:
        number = counted(round(calls), "call", "calls")
        phrase += f" ({number} a step, {say_ns(int(median(lengths)))} each)"
        suggestion = "join small collectives into buckets, and overlap them with compute"
    device = scope.device.device_id
    if any(device in pair[:2] for pair in parts.clocks):
        phrase += "; as the clocks of ranks disagree, waiting cannot be told from transfer"
    words = (phrase, "overlap", suggestion, "")
    return _finding("collective_transfer", scope, exposed, words)


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


def rank_sentences(record: CollectiveRecord, steps: pa.Table, ranks: pa.Table) -> Iterator[str]:
    """Who makes the others wait, why and when, and who is slow without collectives.

    ``steps`` and ``ranks`` are the tables of these names.
    """
    lasts = last_ranks_of(record)
    # Of ranks that all come last as often, none is late.
    if lasts and lasts[0].stands_out:
        last = lasts[0]
        why = "" if last.delay is None else f" ({say_delay(last.delay)})"
        # Names of hosts may have capitals: the other letters stay.
        yield (
            f"{last.name[:1].upper()}{last.name[1:]} makes the others wait: it came last to"
            f" {say_share(last.share)} of the collectives of {len(last.devices):,} ranks, in the"
            f" median {say_ns(last.median_lag_ns)} late{why}{_when(steps, last)}"
        )
    marks = zip(steps["phase"].to_pylist(), steps["source"].to_pylist(), strict=True)
    inferred = {phase for phase, source in marks if source != FROM_RANGES}
    yield from _of_slow(ranks.to_pylist(), record.names, inferred)


def _when(steps: pa.Table, last: LastRank) -> str:
    """The step, else the call, in which the others wait for a rank most of that time, if in one."""
    import pyarrow.compute as pc  # noqa: PLC0415 - start-up time of other recordings

    # Steps that are inferred have numbers that nobody knows.
    is_step = pc.and_(
        pc.equal(steps["device_id"], last.device_id), pc.equal(steps["source"], FROM_RANGES)
    )
    rows = steps.filter(is_step).sort_by("start_ns")
    start, span, number = (rows[name].to_numpy() for name in ("start_ns", "span_ns", "step"))
    place = np.searchsorted(start, last.start_ns, side="right") - 1
    # Between steps and before the first one is no step.
    inside = place >= 0
    inside[inside] = last.start_ns[inside] < (start + span)[place[inside]]
    by_step = np.bincount(place[inside], last.waited_ns[inside], len(start))
    of_steps = [f"in step {step}" for step in number.tolist()]
    of_calls = [f"in one call, at {say_ns(ns)}" for ns in last.start_ns.tolist()]
    for waited, places in ((by_step, of_steps), (last.waited_ns, of_calls)):
        if len(waited) >= _LEAST_PLACES and 2 * waited.max() > last.waited_ns.sum():
            share = say_share(float(waited.max() / last.waited_ns.sum()))
            return f"; {share} of the waiting for it is {places[int(waited.argmax())]}"
    return ""


def _of_slow(ranks: Sequence[Row], names: DeviceNames, inferred: Collection[str]) -> Iterator[str]:
    """The devices that are slow beside the others, three at most."""
    has_phases = len({row["phase"] for row in ranks}) > 1
    slowest: dict[str, str] = {}
    for row in sorted((row for row in ranks if row["is_slow"]), key=lambda row: -row["slow_ratio"]):
        phase = f' of "{row["phase"]}"' if has_phases else ""
        step = "inferred step" if row["phase"] in inferred else "step"
        first, last = row["slow_from_step"], row["slow_to_step"]
        stretch = "" if last is None else f" up to {step} {last}"
        if first is not None:
            stretch = f" from {step} {first} {'on' if last is None else f'to {last}'}"
        slowest.setdefault(
            names.in_words([row["device_id"]]),
            f"takes {say_ratio(row['slow_ratio'])} times the median of the others{phase}"
            f"{stretch} ({row['longer_part']} {say_ns(row['longer_ns'])} longer)",
        )
    if not slowest:
        return
    words = [f"{name} {text}" for name, text in [*slowest.items()][:_MOST_NAMED]]
    more = f", and {len(slowest) - _MOST_NAMED} more" if len(slowest) > _MOST_NAMED else ""
    yield f"Slow without collectives: {listed(words)}{more} (--table ranks)"
