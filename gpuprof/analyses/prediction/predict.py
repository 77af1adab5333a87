"""The effect of changes: step times as measured, replayed and predicted, and critical paths."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.phases import PHASE_READS, Phase, phases
from gpuprof.analyses.prediction import graph as kinds
from gpuprof.analyses.prediction.build import GRAPH_READS, graph_of
from gpuprof.analyses.prediction.changes import FAST, SLOW, USUAL, Changed, apply, replayable
from gpuprof.analyses.prediction.graph import KINDS, PROVENANCES, Graph
from gpuprof.analyses.prediction.paths import Part, Path, named, path, times
from gpuprof.analyses.prediction.recorded import Flags
from gpuprof.analyses.prediction.replay import Measured, Replay, measured, replay
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.kernel_names import short_names
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Kind, Schema
from gpuprof.units import format_signed, say_ns, say_share, say_signed_ns

PREDICT_READS: Final = reads(
    GRAPH_READS, PHASE_READS, host_calls="start_ns library process_id thread_id"
)
# Where more than this share of the span is unexplained there is no prediction.
MOST_UNEXPLAINED: Final = 0.05
# Clocks disagree where more than this share of launches, or synchronisations, go back in time.
_MOST_AGAINST: Final = {kinds.LAUNCH: 0.05, kinds.SYNCHRONISATION: 0.5}
_LEAST_AGAINST: Final = 50

PREDICTION: Final = Schema(
    "prediction",
    "the time of a step of one phase, or of the recording, for the program or one device",
    {
        "phase": Column(TEXT, "", "The phase; null for the whole recording."),
        "device_id": Column(INT, "", "CUDA device ordinal; null for all devices."),
        "steps": Column(
            INT, "1", "Steps; the times are medians over them. Null for the recording."
        ),
        "measured_ns": Column(INT, "ns", "As recorded.", required=True),
        "replayed_ns": Column(INT, "ns", "Replayed with usual latencies only.", required=True),
        "predicted_ns": Column(INT, "ns", "With the changes; null where there is none."),
        "low_ns": Column(
            INT, "ns", "Least of fast links and usual latencies, minus the unexplained part."
        ),
        "high_ns": Column(
            INT, "ns", "Most of slow links and usual latencies, plus the unexplained part."
        ),
        "change": Column(FLOAT, "%", "From the measured to the predicted time.", kind=Kind.CHANGE),
        "unexplained": Column(
            FLOAT, "1", "Share of the span that usual latencies do not explain.", required=True
        ),
        "assumptions": Column(TEXT, "", "What the prediction assumes.", required=True),
    },
)
CRITICAL_PATH: Final = Schema(
    "critical_path",
    "one part of the critical path of a step, or of the recording",
    {
        "phase": Column(TEXT, "", "The phase; null for the whole recording."),
        "kind": Column(
            TEXT, "", "kernel, collective, copy, memset, call, host or latency.", required=True
        ),
        "name": Column(
            TEXT,
            "",
            "Kernel, call, range or dependency; of a copy its kind and route.",
            required=True,
        ),
        "before_ns": Column(INT, "ns", "Mean time per step on the path as recorded."),
        "after_ns": Column(INT, "ns", "With the changes; null where there is no prediction."),
        "difference_ns": Column(INT, "ns", "after_ns minus before_ns; null where after_ns is."),
    },
)
DEPENDENCIES: Final = Schema(
    "dependencies",
    "one kind of edge in the graph",
    {
        "dependency": Column(TEXT, "", "What waits for what.", required=True),
        "provenance": Column(TEXT, "", "recorded, rule or inferred.", required=True),
        "edges": Column(INT, "1", "Number of edges.", required=True),
        "on_path": Column(INT, "1", "Edges on the critical path as recorded.", required=True),
        "usual_ns": Column(INT, "ns", "Median time of these edges."),
    },
)
_STRETCHES: Final = Schema(
    "stretches",
    "one stretch of a critical path within one step",
    {
        "path": Column(TEXT, "", "before or after.", required=True),
        "kind": Column(TEXT, "", "As in critical_path.", required=True),
        "name": Column(TEXT, "", "As in critical_path.", required=True),
        "start_ns": Column(INT, "ns", "Since the step began.", required=True),
        "end_ns": Column(INT, "ns", "Since the step began.", required=True),
    },
)
SCHEMAS: Final = {
    schema.name: schema for schema in (PREDICTION, CRITICAL_PATH, DEPENDENCIES, _STRETCHES)
}


@dataclass(frozen=True)
class Prediction:
    """The effect of changes, and what the prediction is based on.

    Args:
        changes: As given with ``--what``.
        headline: The prediction in a sentence, or why there is none.
        tables: `PREDICTION`, `CRITICAL_PATH`, `DEPENDENCIES`, and both paths of one step.
        notes: What limits the prediction.
    """

    changes: tuple[str, ...]
    headline: str
    tables: dict[str, pa.Table]
    notes: tuple[str, ...]


class _Step(NamedTuple):
    """The steps of a phase, or the recording, for the program or for one device."""

    phase: Phase | None
    device: int | None
    start_ns: Int64s
    end_ns: Int64s


class _Replays(NamedTuple):
    """A recording as measured, and its replays with changes.

    ``bounds_ns`` has the times of instants with usual latencies, then for slow and for fast links
    those with the recorded lags and with usual latencies.
    """

    measured: Measured
    changed: Changed
    graph: Graph
    predicted: Replay
    bounds_ns: tuple[Int64s, ...]
    usual: Replay


def predict(profile: Profile, changes: Sequence[str]) -> Prediction:
    """Replay a recording with changes.

    Args:
        profile: Needs GPU operations with their times, and CUDA calls for most answers.
        changes: As `gpuprof predict --help` lists them; all are applied together.

    Raises:
        UsageError: A change is unknown, or matches nothing.
        MissingTableError: The recording has no times.
    """
    profile.whole.expect(PREDICT_READS)
    graph = graph_of(profile)
    before = measured(graph)
    replays = _replays(profile, before, changes)
    share = _unexplained(before)
    reason = _doubt(before, share)
    steps = [*_steps(profile, graph)]
    rows = [_row(replays, step, share, reason) for step in steps]
    chosen = _most_changed(rows, steps)
    before_path = path(graph, replay(graph, before.with_lags))
    after_path = None if reason else path(replays.graph, replays.predicted)
    paths = _paths(profile, replays, before_path, after_path, steps[chosen])
    tables = {
        "prediction": PREDICTION.table(rows),
        "critical_path": CRITICAL_PATH.table(paths),
        "dependencies": DEPENDENCIES.table([*_dependencies(before, before_path)]),
        "stretches": _STRETCHES.table(
            [*_stretches(profile, replays, before_path, after_path, steps[chosen])]
        ),
    }
    return Prediction(
        tuple(changes),
        _headline(rows[chosen], reason, is_changed=bool(changes)),
        tables,
        tuple(_notes(replays, share, paths, reason)),
    )


def _replays(profile: Profile, before: Measured, changes: Sequence[str]) -> _Replays:
    """Replay with usual links, and where a link is changed also with slow and fast ones."""
    changed = apply(profile, before, changes, USUAL)
    first = replayable(changed)
    predicted = replay(first.graph, first.with_lags)
    # Keep times only: a replay of a million operations takes 0.1 GB.
    bounds_ns, graph = [replay(first.graph, first.usual).time_ns], first.graph
    del first
    if any(text.startswith("link") for text in changes):
        for bound in (SLOW, FAST):
            bounded = replayable(apply(profile, before, changes, bound))
            weights = bounded.with_lags, bounded.usual
            bounds_ns += [replay(bounded.graph, w).time_ns for w in weights]
    return _Replays(before, changed, graph, predicted, tuple(bounds_ns), before.replayed)


def _unexplained(before: Measured) -> float:
    """How much longer a replay with usual latencies takes, as a share of the span."""
    graph = before.graph
    last, replayed = (int(t[graph.ends].max()) for t in (graph.time_ns, before.replayed.time_ns))
    return (replayed - last) / max(last - int(graph.time_ns[graph.starts].min()), 1)


def _doubt(before: Measured, share: float) -> str:
    """Why there is no prediction, as a sentence; empty where there is one."""
    graph = before.graph
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


def _steps(profile: Profile, graph: Graph) -> Iterator[_Step]:
    """The recording, then each phase: for the program, and for each device of several."""
    o = graph.operations
    start, end = np.array([o.start_ns.min()]), np.array([o.end_ns.max()])
    devices_used = tuple(np.unique(o.device).tolist())
    spans: list[tuple[Phase | None, tuple[int, ...], Int64s, Int64s]]
    spans = [(None, devices_used, start, end)]
    spans += [(phase, phase.devices, phase.start_ns, phase.end_ns) for phase in phases(profile)]
    for phase, devices, start, end in spans:
        if len(devices) != 1:
            yield _Step(phase, None, start, end)
        for device in devices:
            yield _Step(phase, device, start, end)


def _row(replays: _Replays, step: _Step, share: float, reason: str) -> dict[str, Any]:
    graph = replays.measured.graph
    step_ns = _StepTime(graph, step, is_mean=False)
    measured_ns, replayed_ns = step_ns(graph.time_ns), step_ns(replays.usual.time_ns)
    row = {
        "phase": step.phase and step.phase.name,
        "device_id": None if step.device in (None, UNKNOWN) else int(step.device),
        "steps": step.phase and len(step.start_ns),
        "measured_ns": measured_ns,
        "replayed_ns": replayed_ns,
        "unexplained": abs(share),
        "assumptions": "; ".join(replays.changed.assumptions) or "nothing is changed",
    }
    if reason:
        return row
    if replays.changed.is_balanced:
        step_ns = _StepTime(graph, step, is_mean=True)
    predicted_ns = step_ns(replays.predicted.time_ns)
    # Times with usual latencies lack the lags of the recording.
    lags_ns = measured_ns - replayed_ns
    bounds_ns = [predicted_ns]
    for number, time_ns in enumerate(map(step_ns, replays.bounds_ns)):
        bounds_ns.append(time_ns if number % 2 else time_ns + lags_ns)
    margin_ns = int(abs(share) * measured_ns) if replays.changed.assumptions else 0
    return row | {
        "predicted_ns": predicted_ns,
        "low_ns": max(min(bounds_ns) - margin_ns, 0),
        "high_ns": max(bounds_ns) + margin_ns,
        "change": 100 * (predicted_ns - measured_ns) / measured_ns if measured_ns else None,
    }


class _StepTime:
    """The time of a step in a replay: the median over a phase, or the time of the recording.

    The recording lasts from the start of its first operation to the end of the last one. A step
    border moves with the instant before it on the busiest stream of each device. The last device
    counts, or the mean over devices where no rank waits for another.
    """

    def __init__(self, graph: Graph, step: _Step, *, is_mean: bool) -> None:
        devices = np.unique(graph.operations.device) if step.phase is None else step.phase.devices
        devices = devices if step.device is None else (step.device,)
        self._borders = [_borders(graph, step, device) for device in devices]
        self._is_mean = is_mean and step.device is None
        self._is_recording = step.phase is None

    def __call__(self, times_ns: Int64s) -> int:
        if self._is_mean:
            return int(np.mean([self._took([border], times_ns) for border in self._borders]))
        return self._took(self._borders, times_ns)

    def _took(self, borders: Sequence["_Borders"], times_ns: Int64s) -> int:
        moved = [times_ns[border.places] + border.after_ns for border in borders]
        if self._is_recording:
            return max(int(max(ends.max() for ends in moved)), 0)
        last = np.maximum.reduce(moved)
        return int(np.median(last[1] - last[0]))


class _Borders(NamedTuple):
    """Starts and ends of steps, a row each: the instant before each, and the time since then.

    For the recording: the ends of all operations, counted from its first start.
    """

    places: Int64s
    after_ns: Int64s


def _borders(graph: Graph, step: _Step, device: int) -> _Borders:
    o = graph.operations
    on = np.flatnonzero(o.device == device)
    on = on if len(on) else np.arange(len(o))
    if step.phase is None:
        first = graph.time_ns[graph.starts if step.device is None else graph.starts[on]].min()
        return _Borders(graph.ends[on], np.full(len(on), -first))
    since = np.stack([step.start_ns, step.end_ns]) - graph.origin_ns
    inside = on[(o.start_ns[on] < step.end_ns[-1]) & (o.end_ns[on] > step.start_ns[0])]
    if len(inside):
        busiest = np.bincount(o.stream[inside], o.took_ns[inside]).argmax()
        on = on[o.stream[on] == busiest]
    places = np.sort(np.concatenate([graph.starts[on], graph.ends[on]]))
    last = np.searchsorted(graph.time_ns[places], since, side="right") - 1
    near = places[np.maximum(last, 0)]
    return _Borders(near, since - graph.time_ns[near])


def _most_changed(rows: Sequence[dict[str, Any]], steps: Sequence[_Step]) -> int:
    """The phase whose total time changes most; the longest phase where none changes."""
    phases_seen = [None if step.phase is None else id(step.phase) for step in steps]
    programs = [phases_seen.index(number) for number in dict.fromkeys(phases_seen)]
    of_phases = [n for n in programs if steps[n].phase is not None] or programs

    def worth(n: int) -> tuple[int, int]:
        predicted, count = rows[n].get("predicted_ns"), rows[n]["steps"] or 1
        shown = rows[n]["measured_ns"]
        return abs((shown if predicted is None else predicted) - shown) * count, shown * count

    return max(of_phases, key=worth)


def _paths(
    profile: Profile, replays: _Replays, before: Path, after: Path | None, step: _Step
) -> list[dict[str, Any]]:
    """The parts of both paths within the chosen steps, longest first."""
    graph = replays.measured.graph
    shares = []
    for its, along in ((graph, before), (replays.graph, after)):
        if along is not None:
            inside = _is_inside(its, along, step.start_ns, step.end_ns)
            shares.append(times(named(profile, its, along), along, inside))
    first, second = shares[0], shares[1] if len(shares) > 1 else None
    count = len(step.start_ns)
    rows = []
    for part in sorted(
        {*first, *(second or ())}, key=lambda p: (-max(_of(first, p), _of(second, p)), p)
    ):
        was, now = (None if c is None else round(c[part] / count) for c in (first, second))
        if was or now:
            rows.append(
                {
                    "phase": step.phase and step.phase.name,
                    "kind": part.kind,
                    "name": part.name,
                    "before_ns": was,
                    "after_ns": now,
                    "difference_ns": None if now is None else now - (was or 0),
                }
            )
    return rows


def _of(counter: Counter[Part] | None, part: Part) -> int:
    return 0 if counter is None else counter[part]


def _is_inside(graph: Graph, along: Path, start_ns: Int64s, end_ns: Int64s) -> Flags:
    """Which stretches of a path end within steps, by measured times."""
    when = graph.time_ns[along.places] + graph.origin_ns
    step = np.searchsorted(start_ns, when, side="left") - 1
    return np.asarray((step >= 0) & (when <= end_ns[np.maximum(step, 0)]))


def _stretches(
    profile: Profile, replays: _Replays, before: Path, after: Path | None, step: _Step
) -> Iterator[dict[str, Any]]:
    """Both paths over the middle step, for the plot."""
    place = len(step.start_ns) // 2
    start, end = step.start_ns[place : place + 1], step.end_ns[place : place + 1]
    for name, its, along in (
        ("before", replays.measured.graph, before), ("after", replays.graph, after),
    ):  # fmt: skip
        if along is None:
            continue
        rows = np.flatnonzero(_is_inside(its, along, start, end))[::-1]
        some = Path(*(column[rows] for column in along))
        origin = int(some.since_ns[0]) if len(rows) else 0
        stretches = named(profile, its, some)
        for number, since, until in zip(
            *(c.tolist() for c in (stretches.number, some.since_ns, some.until_ns)), strict=True
        ):
            part = stretches.parts[number]
            yield {
                "path": name, "kind": part.kind, "name": part.name,
                "start_ns": since - origin, "end_ns": until - origin,
            }  # fmt: skip


def _dependencies(before: Measured, along: Path) -> Iterator[dict[str, Any]]:
    edges = before.graph.edges
    on_path = np.bincount(edges.kind[along.edges], minlength=len(KINDS))
    for number, kind in enumerate(KINDS):
        rows = edges.kind == number
        if rows.any():
            yield {
                "dependency": kind.name,
                "provenance": PROVENANCES[kind.provenance],
                "edges": int(rows.sum()),
                "on_path": int(on_path[number]),
                "usual_ns": int(np.median(before.usual.edge_ns[rows])),
            }


def _headline(row: dict[str, Any], reason: str, *, is_changed: bool) -> str:
    if reason:
        return f"No prediction: {reason}."
    phase = row["phase"] and _short(row["phase"])
    subject = f'A step of "{phase}"' if phase else "The recording"
    measured_ns, predicted_ns = row["measured_ns"], row["predicted_ns"]
    if not is_changed:
        return f"{subject} takes {say_ns(measured_ns)}; nothing is changed."
    low, high = say_ns(row["low_ns"]), say_ns(row["high_ns"])
    return (
        f"{subject} would take {say_ns(predicted_ns)} instead of {say_ns(measured_ns)}"
        f" ({format_signed(row['change'])}; {low if low == high else f'{low} to {high}'};"
        f" unexplained {say_share(row['unexplained'])}), assuming that {row['assumptions']}."
    )


def _short(name: str) -> str:
    return short_names([name])[name]


def _notes(
    replays: _Replays, share: float, paths: Sequence[dict[str, Any]], reason: str
) -> Iterator[str]:
    yield (
        f"Replayed with usual latencies only, the span differs by"
        f" {format_signed(100 * share)}: this part is unexplained."
    )
    rows = [row for row in paths if row["after_ns"]]
    if rows and not reason:
        top = max(rows, key=lambda row: row["after_ns"])
        total_ns = sum(row["after_ns"] for row in rows)
        yield (
            f"Next bottleneck: {top['kind']} {_short(top['name'])},"
            f" {say_ns(top['after_ns'])} of {say_ns(total_ns)} on the critical path."
        )
    if shift := replays.measured.graph.calls.shift_ns:
        yield (
            f"The clocks of GPU and host disagree: {say_signed_ns(shift)} was added to all host"
            " times, so that the fastest launch takes 5 us."
        )
    for doubt, count in replays.measured.graph.doubts.items():
        yield f"{doubt}: {count:,}; edges that do not fit are left out."
