"""What a change wins of a step, and whether the replay of a recording can tell."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.units import say_ns, say_share
from gpuprof.facts.phases import PHASE_READS
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.predict import graph as kinds
from gpuprof.predict.build import GRAPH_READS, graph_of
from gpuprof.predict.changes import USUAL, Changed, apply, replayable
from gpuprof.predict.graph import KINDS, Graph
from gpuprof.predict.replay import Measured, measured, replay

PREDICT_READS: Final = reads(
    GRAPH_READS, PHASE_READS, host_calls="start_ns library process_id thread_id"
)
# Where more than this share of the span is unexplained there is no prediction.
MOST_UNEXPLAINED: Final = 0.05
# Clocks disagree where more than this share of launches, or synchronisations, go back in time.
_MOST_AGAINST: Final = {kinds.LAUNCH: 0.05, kinds.SYNCHRONISATION: 0.5}
_LEAST_AGAINST: Final = 50


class Steps(NamedTuple):
    """The steps of a phase on some devices, or the recording of these.

    Args:
        devices: The devices, as operations name them.
        times: Starts and ends of the steps, in ns; None for the recording.
        is_of_all: Whether these are all devices of the phase, whose mean counts where no rank
            waits for another.
    """

    devices: tuple[int, ...]
    times: tuple[Int64s, Int64s] | None
    is_of_all: bool = True


def measured_of(profile: Profile) -> Measured:
    """The graph of the whole recording with the times of its edges."""
    return profile.unrestricted.once(_measured)


def _measured(profile: Profile) -> Measured:
    return measured(graph_of(profile))


class Effect(NamedTuple):
    """What changes win.

    Args:
        won_ns: How much shorter each step, or the recording, is; negative where it is longer.
        assumptions: What the prediction assumes.
    """

    won_ns: Int64s
    assumptions: str


def effect(profile: Profile, changes: Sequence[str], steps: Steps) -> Effect:
    """What changes win of each of some steps, or of the recording.

    Args:
        profile: A recording that `doubt` says nothing against.
        changes: As given with ``--what``; all are applied together.
        steps: The steps.

    Raises:
        UsageError: A change is unknown, or matches nothing.
    """
    before = measured_of(profile)
    changed = apply(profile, before, changes, USUAL)
    after = replayable(changed)
    predicted = StepTime(before.graph, steps, changed).of_steps(
        replay(after.graph, after.with_lags).time_ns
    )
    # What precedes the first operation that is left is no gain of a recording.
    is_left = changed if changed.gone is not None and not changed.is_balanced else None
    took = StepTime(before.graph, steps, is_left).of_steps(before.graph.time_ns)[0]
    won_ns = np.rint(took - predicted.mean(axis=0)).astype(np.int64)
    return Effect(won_ns, "; ".join(changed.assumptions))


def unexplained(before: Measured) -> float:
    """How much longer a replay with usual latencies takes, as a share of the span."""
    graph = before.graph
    last, replayed = (int(t[graph.ends].max()) for t in (graph.time_ns, before.replayed.time_ns))
    return (replayed - last) / max(last - int(graph.time_ns[graph.starts].min()), 1)


def doubt(before: Measured) -> str:
    """Why there is no prediction, as a sentence; empty where there is one."""
    graph, share = before.graph, unexplained(before)
    if not graph.calls.clock.is_known:
        return "the clocks of GPU and host disagree, and no constant sets them right"
    for kind, most in _MOST_AGAINST.items():
        against = graph.doubts.get(f"{KINDS[kind].name}: back in time", 0)
        edges = int((graph.edges.kind == kind).sum())
        if against >= _LEAST_AGAINST and against > most * (against + edges):
            return (
                f"{against:,} of {against + edges:,} edges ({KINDS[kind].name}) go back in time:"
                " the clocks of GPU and host disagree"
            )
    if abs(share) <= MOST_UNEXPLAINED:
        return ""
    why = f"{say_share(abs(share))} of the span is unexplained, more than"
    why += f" {say_share(MOST_UNEXPLAINED)}"
    if not len(graph.calls):
        return f"{why}: no CUDA calls were recorded, so it is unknown what devices waited for"
    lag = before.with_lags.lag_ns.copy()
    lag[np.diff(graph.bounds) == 0] = 0
    item = int(graph.item[int(lag.argmax())])
    calls = len(graph.calls)
    name = (
        graph.calls.labels[graph.calls.label[item]]
        if item < calls
        else graph.operations.labels[graph.operations.label[item - calls]]
        if item < calls + len(graph.operations)
        else "a collective"
    )
    return f"{why}: the longest lag of unknown cause is {say_ns(int(lag.max()))}, before {name}"


class StepTime:
    """The time of a step in a replay: the median over a phase, or the time of the recording.

    The recording lasts from the start of its first operation to the end of the last one that is
    not removed. A step border moves with the instant before it on the busiest stream of each
    device; operations that a change moves to another place in time, or removes, move no border. The
    last device counts, or the mean over devices where no rank waits for another.

    Args:
        graph: The graph as recorded.
        steps: What is timed.
        changed: The graph with changes; None for none.
    """

    def __init__(self, graph: Graph, steps: Steps, changed: Changed | None = None) -> None:
        self._borders = [_borders(graph, steps, device, changed) for device in steps.devices]
        self._is_mean = changed is not None and changed.is_balanced and steps.is_of_all
        self._is_recording = steps.times is None

    def __call__(self, times_ns: Int64s) -> int:
        """The time where the instants of the graph come at these times."""
        return int(np.mean([int(np.median(took)) for took in self.of_steps(times_ns)]))

    def of_steps(self, times_ns: Int64s) -> Int64s:
        """The times of each step: a row for each device whose mean counts, else one row."""
        moved = [times_ns[border.places] + border.after_ns for border in self._borders]
        if self._is_recording:
            first = min(int(starts.min()) for starts, _ in moved)
            moved = [np.array([[first], [ends.max()]]) for _, ends in moved]
        if not self._is_mean:
            moved = [np.maximum.reduce(moved)]
        return np.array([ends - starts for starts, ends in moved])


class _Borders(NamedTuple):
    """Starts and ends of steps, a row each: the instant before each, and the time since then.

    For the recording: the starts and ends of all operations.
    """

    places: Int64s
    after_ns: Int64s


def _borders(graph: Graph, steps: Steps, device: int, changed: Changed | None) -> _Borders:
    o = graph.operations
    on = np.flatnonzero(o.device == device)
    on = on if len(on) else np.arange(len(o))
    if changed is not None and changed.gone is not None and not changed.gone[on].all():
        on = on[~changed.gone[on]]
    if steps.times is None:
        places = np.stack([graph.starts[on], graph.ends[on]])
        return _Borders(places, np.zeros_like(places))
    # Steps are on the clock of the device.
    starts, ends = (times + o.shifts_ns.get(device, 0) for times in steps.times)
    if changed is not None and changed.moved is not None and not changed.moved[on].all():
        on = on[~changed.moved[on]]
    since = np.stack([starts, ends]) - graph.origin_ns
    inside = on[(o.start_ns[on] < ends[-1]) & (o.end_ns[on] > starts[0])]
    if len(inside):
        busiest = np.bincount(o.stream[inside], o.took_ns[inside]).argmax()
        on = on[o.stream[on] == busiest]
    places = np.sort(np.concatenate([graph.starts[on], graph.ends[on]]))
    last = np.searchsorted(graph.time_ns[places], since, side="right") - 1
    # Before the first of them anything else, such as the call that launches it.
    earlier = np.maximum(np.searchsorted(graph.time_ns, since, side="left") - 1, 0)
    near = np.where(last < 0, earlier, places[last])
    return _Borders(near, since - graph.time_ns[near])
