"""What a change wins of a step, whether the replay of a recording can tell, and how closely."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.labels import copy_label
from gpuprof.base.statistics import quantiles
from gpuprof.base.units import say_ns, say_share
from gpuprof.facts.numbers import NOT_FOUND, order_of
from gpuprof.facts.phases import PHASE_READS
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict import graph as kinds
from gpuprof.predict.build import GRAPH_READS
from gpuprof.predict.changes import apply
from gpuprof.predict.graph import KINDS, Graph
from gpuprof.predict.link_models import USUAL
from gpuprof.predict.recorded import COLLECTIVE
from gpuprof.predict.replay import Changed, Replay, as_measured, replay

PREDICT_READS: Final = reads(
    GRAPH_READS,
    PHASE_READS,
    host_calls="start_ns end_ns library name process_id thread_id",
    page_faults="start_ns end_ns device_id processor",
    devices="device_id name total_memory_bytes",
)
# Where more than this share of the span is unexplained there is no prediction.
MOST_UNEXPLAINED: Final = 0.05
# Clocks disagree where more than this share of launches, or synchronisations, go back in time.
_MOST_AGAINST: Final = {kinds.LAUNCH: 0.05, kinds.SYNCHRONISATION: 0.5}
_LEAST_AGAINST: Final = 50
# No clock, governor or memory layout repeats a step more closely than this from run to run.
LEAST_SHARE: Final = 0.005
# What a change does to contention, clocks and caches is in no recording. Chosen as the roundest
# share with nine in ten truths inside of drawn pairs, and all of four pairs of real recordings
# (docs/predict.md), whose changes are 0 to 4 %; of 260 pairs drawn afterwards, 254 are.
SHARE_OF_CHANGE: Final = 1 / 8
# Where nearly all of a step goes, what is left can be half wrong, as it is in the last of them.
SHARE_OF_REST: Final = 0.5
# Most steps: a median is off by no more than these.
_MOST_STEPS: Final = 0.8
# Half the width of an interval that holds nine tenths of a normal distribution, in deviations; the
# deviation of a median of n values, in theirs / sqrt(n); and theirs in median deviations.
_DEVIATIONS, _OF_MEDIAN, _OF_DEVIATION = 1.6449, 1.2533, 1.4826


class Steps(NamedTuple):
    """The steps of a phase on some devices, or the recording of these.

    Args:
        devices: The devices, as operations name them.
        times: Starts and ends of the steps, in ns; None for the recording.
        is_of_all: Whether these are all devices of the phase, whose mean counts where no rank
            waits for another.
        of_devices: Starts and ends of the steps of each device for itself, which that mean is of: a
            rank that is ahead of another has other borders; empty where they are ``times``.
    """

    devices: tuple[int, ...]
    times: tuple[Int64s, Int64s] | None
    is_of_all: bool = True
    of_devices: tuple[tuple[Int64s, Int64s], ...] = ()


def effect(profile: Profile, changes: Sequence[str], steps: Steps) -> tuple[Int64s, str]:
    """What changes win of each of some steps, or of the recording.

    All changes are applied together to a recording that `doubt` says nothing against.

    Returns:
        How much shorter each step, or the recording, is in ns, negative where it is longer; and
        what the prediction assumes.

    Raises:
        UsageError: A change is unknown, or matches nothing.
    """
    changed = apply(profile, changes, USUAL)
    graph, replayed = changed.graph, changed.replayed()
    if steps.times is None and changed.gone is not None and len(graph.calls):
        # A recording lasts from the first operation to the last that is left; the program goes on.
        calls = len(graph.calls)
        remaining = np.concatenate([np.arange(calls), calls + np.flatnonzero(~changed.gone)])
        ends = 2 * remaining + 1
        last = ends[[graph.time_ns[ends].argmax()]]
        won_ns = (graph.time_ns[last] - replayed.at(last)).astype(np.float64)
    else:
        # What precedes the first operation that is left is no gain of a recording.
        is_left = changed.gone is not None and not changed.is_balanced
        recorded = as_measured(graph, changed.weights if is_left else None)
        before, after = StepTime(graph, changed if is_left else None), StepTime(graph, changed)
        by_rank = [steps]
        if changed.is_balanced and steps.of_devices:
            by_rank = [
                Steps((of,), its) for of, its in zip(steps.devices, steps.of_devices, strict=True)
            ]
        won = [
            before.of_steps(its, recorded)[0] - np.mean(after.of_steps(its, replayed), axis=0)
            for its in by_rank
        ]
        # A rank that is ahead of others may have a step more.
        won_ns = np.mean([of_rank[: min(map(len, won))] for of_rank in won], axis=0)
    return np.rint(won_ns).astype(np.int64), "; ".join(changed.assumptions)


def unexplained(usual: Replay) -> float:
    """How much longer a replay with usual latencies takes, as a share of the span."""
    o = usual.graph.operations
    first, last = int(o.start_ns.min()), int(o.end_ns.max())
    return (max(of[1] for of in usual.spans.values()) - last) / max(last - first, 1)


def doubt(usual: Replay) -> str:
    """Why there is no prediction, as a sentence; empty where there is one."""
    graph, share = usual.graph, unexplained(usual)
    if not graph.calls.clock.is_known:
        return "the clocks of GPU and host disagree, and no constant sets them right"
    for kind, most in _MOST_AGAINST.items():
        against = graph.doubts.get(f"{KINDS[kind].name}: back in time", 0)
        edges = against + graph.counts[kind]
        if against >= _LEAST_AGAINST and against > most * edges:
            return (
                f"{against:,} of {edges:,} edges ({KINDS[kind].name}) go back in time:"
                " the clocks of GPU and host disagree"
            )
    if abs(share) <= MOST_UNEXPLAINED:
        return ""
    why = f"{say_share(abs(share))} of the span is unexplained, more than"
    why += f" {say_share(MOST_UNEXPLAINED)}"
    if not len(graph.calls):
        return f"{why}: no CUDA calls were recorded, so it is unknown what devices waited for"
    with_lags = replay(graph, graph.weights)
    if not with_lags.lag_ns:
        return why
    lag, before = say_ns(with_lags.lag_ns), copy_label(graph.name_of(with_lags.lag_at // 2))
    return f"{why}: the longest lag of unknown cause is {lag}, before {before}"


def margin_ns(measured_ns: Int64s, replayed_ns: Int64s, predicted_ns: int) -> int:
    """Half the width of the range of a predicted step.

    The replay's error in each step, a part of the change itself, and the noise of both medians,
    that of the recording and that of the run that would show the truth.

    Args:
        measured_ns: The time of each step, as recorded.
        replayed_ns: The same from a replay with usual latencies only.
        predicted_ns: The median with the change.
    """
    median_ns = float(np.median(measured_ns))
    # Errors are shares of a step: a step of half the length has half of them.
    scale = predicted_ns / median_ns if median_ns else 1.0
    errors = np.abs(replayed_ns - measured_ns)
    (most,) = quantiles(errors, _MOST_STEPS)
    replay = most * scale
    change = min(SHARE_OF_CHANGE * abs(predicted_ns - median_ns), SHARE_OF_REST * predicted_ns)
    deviation = _OF_DEVIATION * float(np.median(np.abs(measured_ns - median_ns)))
    noise = _DEVIATIONS * _OF_MEDIAN * deviation * math.sqrt(2 / len(measured_ns)) * scale
    together = math.hypot(replay, change, noise)
    return round(max(together, LEAST_SHARE * predicted_ns))


class StepTime:
    """The time of a step in a replay: the median over a phase, or the time of the recording.

    The recording lasts from the start of its first operation to the end of the last one that is
    not removed. A step border moves with the instant before it, or all of them with those after
    them, on the busiest stream of each device; operations that a change moves to another place in
    time, or removes, move no border. The last device counts, or the mean over devices where no rank
    waits for another.

    Args:
        graph: The graph as recorded.
        changed: The graph with changes; None for none.
    """

    def __init__(self, graph: Graph, changed: Changed | None = None) -> None:
        self._graph, self._changed = graph, changed
        self._borders: dict[tuple[int, int], tuple[Int64s, Int64s]] = {}

    def __call__(self, steps: Steps, replayed: Replay) -> int:
        """The time where the instants of the graph come as replayed."""
        return int(np.mean([int(np.median(took)) for took in self.of_steps(steps, replayed)]))

    def of_steps(self, steps: Steps, replayed: Replay) -> list[Int64s]:
        """The times of each step: a row for each device whose mean counts, else one row."""
        is_mean = steps.is_of_all and self._changed is not None and self._changed.is_balanced
        if steps.times is None:
            spans = replayed.spans
            of_all = min(of[0] for of in spans.values()), max(of[1] for of in spans.values())
            its = np.array([spans.get(device, of_all) for device in steps.devices])
            moved = [np.array([[its[:, 0].min()], [last]]) for last in its[:, 1]]
        else:
            moved = []
            for place, device in enumerate(steps.devices):
                clock, times = steps.devices[0], steps.times
                if is_mean and steps.of_devices:
                    clock, times = device, steps.of_devices[place]
                key = id(times[0]), device
                if key not in self._borders:
                    # Steps are on the clock of their first device.
                    since = np.stack(times) + self._graph.operations.shifts_ns.get(clock, 0)
                    self._borders[key] = _borders(self._graph, since, device, self._changed)
                instants, after_ns = self._borders[key]
                moved.append(replayed.at(instants) + after_ns)
        if not is_mean:
            moved = [np.maximum.reduce(moved)]
        # Where nothing is left of steps, their borders may pass each other.
        return [np.maximum(ends - starts, 0) for starts, ends in moved]


def _borders(
    graph: Graph, since: Int64s, device: int, changed: Changed | None
) -> tuple[Int64s, Int64s]:
    """The instant before each border, a row of starts and one of ends; and the time since.

    Or, of steps that follow one another, the instants after the borders, if these lie more equally
    far from them: a pause of the host before a border, which a change may shorten, differs from
    step to step.
    """
    o, times = graph.operations, graph.time_ns
    its = [of for of in o.streams if of.device == device] or o.streams
    is_left = [np.ones(of.high - of.low, bool) for of in its]
    for away in () if changed is None else (changed.gone, changed.moved):
        if away is not None:
            remaining = [
                flags & ~away[of.low : of.high] for flags, of in zip(is_left, its, strict=True)
            ]
            is_left = remaining if any(flags.any() for flags in remaining) else is_left
    took = []
    for flags, of in zip(is_left, its, strict=True):
        # Those of a stream are in the order of their starts.
        last = of.low + int(np.searchsorted(o.start_ns[of.low : of.high], since[1, -1]))
        start, end = o.start_ns[of.low : last], o.end_ns[of.low : last]
        inside = flags[: len(end)] & (end > since[0, 0])
        # A rank that waits in a collective beside its kernels is no step ahead.
        is_compute = o.kind[of.low : last] != COLLECTIVE
        busy_ns = [int((end - start).sum(where=inside & rows)) for rows in (is_compute, True)]
        took.append(busy_ns if inside.any() else [NOT_FOUND])
    chosen = range(len(its)) if (most := max(took)) == [NOT_FOUND] else [took.index(most)]
    streams = [its[n].low + np.flatnonzero(is_left[n]) for n in chosen if is_left[n].any()]
    near, apart_ns = _beside(graph, streams, since, is_after=False)
    # Of steps that follow one another, what lies between a border and that instant cancels out.
    if (since[0, 1:] == since[1, :-1]).all() and apart_ns.any():
        following, later_ns = _beside(graph, streams, since, is_after=True)
        if (following != NOT_FOUND).all() and _spread(later_ns) < _spread(apart_ns):
            near = following
    for place in np.argwhere(near == NOT_FOUND):
        # Before the first of them anything else, such as the call that launches it.
        near[tuple(place)] = graph.last_before(int(since[tuple(place)]))
    return near, since - times[near]


def _beside(
    graph: Graph, streams: Sequence[Int64s], since: Int64s, *, is_after: bool
) -> tuple[Int64s, Int64s]:
    """The last instant of some operations up to each border, or the first after it; and how far.

    `NOT_FOUND` where there is none.
    """
    o, times = graph.operations, graph.time_ns
    near, near_ns = np.full(since.shape, NOT_FOUND), np.full(since.shape, np.iinfo(np.int64).max)
    for on in streams:
        for is_end, on_ns in enumerate((o.start_ns[on], o.end_ns[on])):
            order = order_of(on_ns)
            place = np.searchsorted(on_ns, since, side="right", sorter=order) - (not is_after)
            is_one = (place >= 0) & (place < len(on))
            met = 2 * (len(graph.calls) + on[order[np.where(is_one, place, 0)]]) + is_end
            met_ns = np.abs(since - times[met])
            is_nearer = (met_ns < near_ns) | ((met_ns == near_ns) & (met > near))
            is_nearer &= is_one
            near, near_ns = np.where(is_nearer, met, near), np.where(is_nearer, met_ns, near_ns)
    return near, near_ns


def _spread(values_ns: Int64s) -> float:
    """How far values are from their median, in the mean."""
    return float(np.mean(np.abs(values_ns - np.median(values_ns))))
