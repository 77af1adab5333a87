"""The effect of changes: step times as measured, replayed and predicted, and critical paths."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.base.kernel_names import short_names
from gpuprof.base.statistics import scaled
from gpuprof.base.units import counted, format_signed, say_ns, say_share
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import activities, launches
from gpuprof.facts.phases import Phase, phases
from gpuprof.facts.step_times import IN_THE_MEAN, are_similar, uneven_ns, usual_of
from gpuprof.facts.timeline import timelines
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Column, Count, Id, Kind, Ns, Schema, Share, Text
from gpuprof.predict.build import graph_of
from gpuprof.predict.changes import OPEN, apply
from gpuprof.predict.effects import PREDICT_READS, Steps, StepTime, doubt, margin_ns, unexplained
from gpuprof.predict.graph import KINDS, PROVENANCES, SYNCHRONISATION, Graph
from gpuprof.predict.link_models import FAST, SLOW, USUAL
from gpuprof.predict.paths import (
    CALL,
    HOST,
    LATENCY,
    STEP_TIMELINE,
    STRETCHES,
    WAIT,
    Path,
    PathPart,
    StepTimes,
    named,
    path,
    step_times,
    steps_rows,
    stretches,
)
from gpuprof.predict.recorded import Flags, calls_and_launches
from gpuprof.predict.replay import Changed, Replay, as_measured, replay

PREDICTION: Final = Schema(
    "prediction",
    "the time of a step of one phase, or of the recording, for the program or one device",
    {
        "phase": Text("The phase; null for the whole recording."),
        "device_id": Id("CUDA device ordinal; null for all devices."),
        "steps": Count("Steps; the times are medians over them. Null for the recording."),
        "measured_ns": Ns("As recorded.", required=True),
        "replayed_ns": Ns("Replayed with usual latencies only.", required=True),
        "predicted_ns": Ns("With the changes; null where there is none."),
        "low_ns": Ns(
            "Least of fast links and usual latencies, less the error of the replay, an eighth of"
            " the change and the noise of medians, at least 0.5 %."
        ),
        "high_ns": Ns("Most of slow links and usual latencies, plus the same."),
        "change": Column(FLOAT, "%", "From the measured to the predicted time.", kind=Kind.CHANGE),
        "unexplained": Share(
            "Share of the span that usual latencies do not explain.", required=True
        ),
        "assumptions": Text("What the prediction assumes.", required=True),
    },
)
CRITICAL_PATH: Final = Schema(
    "critical_path",
    "one part of the critical path of a step, or of the recording",
    {
        "phase": Text("The phase; null for the whole recording."),
        "kind": Text(
            "kernel, collective, copy, memset, call, host, wait or latency.", required=True
        ),
        "name": Text(
            "Kernel, call, range or dependency; of a copy its kind and route.", required=True
        ),
        "before_ns": Ns(
            "Time on the path as recorded: the mean over the steps, scaled so that all parts add up"
            " to the measured time of a step."
        ),
        "after_ns": Ns("The same with the changes; null where there is no prediction."),
        "difference_ns": Ns("after_ns minus before_ns; null where after_ns is."),
    },
)
DEPENDENCIES: Final = Schema(
    "dependencies",
    "one kind of edge in the graph",
    {
        "dependency": Text("What waits for what.", required=True),
        "provenance": Text("recorded, rule or inferred.", required=True),
        "edges": Count("Number of edges.", required=True),
        "on_path": Count("Edges on the critical path as recorded.", required=True),
        "usual_ns": Ns("Median time of these edges."),
    },
)
SCHEMAS: Final = {
    schema.name: schema for schema in (PREDICTION, CRITICAL_PATH, DEPENDENCIES, STRETCHES)
}


@dataclass(frozen=True)
class Prediction:
    """The effect of changes, and what the prediction is based on.

    Args:
        changes: As given with ``--what``.
        headline: The prediction in a sentence, or why there is none.
        tables: `PREDICTION`, `CRITICAL_PATH`, `DEPENDENCIES`, and both paths of one step.
        notes: What limits the prediction.
        step: A typical step with both paths, as in `STEP_TIMELINE`.
    """

    changes: tuple[str, ...]
    headline: str
    tables: dict[str, pa.Table]
    notes: tuple[str, ...]
    step: pa.Table


class _Step(NamedTuple):
    """The steps of a phase, or the recording, for the program or for one device, as replayed."""

    phase: Phase | None
    device: int | None
    start_ns: Int64s
    end_ns: Int64s
    steps: Steps

    @property
    def typical_ns(self) -> tuple[Int64s, Int64s]:
        """From when to when the one nearest to the median takes, an element each."""
        lengths = self.end_ns - self.start_ns
        place = int(np.argmin(np.abs(lengths - np.median(lengths))))
        return self.start_ns[place : place + 1], self.end_ns[place : place + 1]

    def path_and_times(self, replayed: Replay) -> tuple[Path, StepTimes]:
        """The critical path of a replay, and when the operations of a typical step run in it."""
        first_ns, last_ns = (int(ns[0]) for ns in self.typical_ns)
        times = step_times(replayed, self.steps.devices, first_ns, last_ns)
        return path(replayed, int(self.end_ns.max())), times


# Tables that changes and paths look at beside the graph.
_READ_LATER: Final = ("host_calls", "page_faults", "devices")
# The mean of steps and their median differ by at most this share in most recordings.
_ALIKE: Final = 0.01
# Changes of median and mean that are no further apart are the same.
_SAME_CHANGE: Final = 0.05
# What `Maker.add` counts where waits do not fit.
_EARLY_WAITS: Final = f"{KINDS[SYNCHRONISATION].name}: back in time"
# Parts of a path that a replay keeps as they are, but where a change says otherwise.
_AS_RECORDED: Final = (CALL, HOST, WAIT, LATENCY)
# Name -> critical path, and what a step takes that its parts in a step are scaled to.
_Along = dict[str, tuple[Path, int]]
# The same name -> the number of the part that each stretch of the path is of, and the parts.
_Parts = dict[str, tuple[Int64s, list[PathPart]]]


def predict(profile: Profile, changes: Sequence[str]) -> Prediction:
    """Replay a recording with changes.

    It needs GPU operations with their times, and CUDA calls for most answers. Changes are as
    `gpuprof predict --help` lists them; all are applied together.

    Raises:
        UsageError: A change is unknown, or matches nothing.
        MissingTableError: The recording has no times.
    """
    graph = _graph_alone(profile)
    changed = apply(profile, changes, USUAL)
    steps = [*_steps(profile, graph)]
    recorded, usual = as_measured(graph), replay(graph, graph.weights, is_usual=True)
    share, reason, timed = unexplained(usual), doubt(usual), StepTime(graph)
    rows: list[dict[str, Any]] = [
        {
            "phase": step.phase and step.phase.name,
            "device_id": None if step.device in (None, UNKNOWN) else step.device,
            "steps": step.phase and len(step.start_ns),
            "measured_ns": timed(step.steps, recorded),
            "replayed_ns": timed(step.steps, usual),
            "unexplained": abs(share),
            "assumptions": "; ".join(changed.assumptions) or "nothing is changed",
        }
        for step in steps
    ]
    each_step = [
        (step, timed.of_steps(step.steps, recorded)[0], timed.of_steps(step.steps, usual)[0])
        for step in steps
    ]
    # One replay at a time: of millions of operations each takes 0.1 GB and more.
    del usual
    after, means = None, ""
    if changes and not reason:
        after, means = _predicted(profile, changes, changed, each_step, rows)
    chosen = _most_changed(rows, steps)
    before = steps[chosen].path_and_times(recorded)
    if not changes and not reason:
        after = before
        for row in rows:
            row.update(dict.fromkeys(("predicted_ns", "low_ns", "high_ns"), row["measured_ns"]))
            row["change"] = 0.0 if row["measured_ns"] else None
    along = {"before": (before[0], rows[chosen]["measured_ns"])}
    if after is not None:
        along["after"] = (after[0], rows[chosen]["predicted_ns"])
    parts = {name: named(profile, graph, its) for name, (its, _) in along.items()}
    in_step = {
        name: (Path(*(column[rows] for column in its)), parts[name][0][rows], parts[name][1])
        for name, (its, _) in along.items()
        # The places of a path within the step, the first instant first.
        for rows in [np.flatnonzero(_is_inside(graph, its, *steps[chosen].typical_ns))[::-1]]
    }
    paths = _paths(graph, along, parts, steps[chosen])
    tables = {
        "prediction": PREDICTION.table(rows),
        "critical_path": CRITICAL_PATH.table(paths),
        "dependencies": DEPENDENCIES.table([*_dependencies(graph, before[0])]),
        "stretches": STRETCHES.table(
            [row for name, its in in_step.items() for row in stretches(name, its, along[name][1])]
        ),
    }
    return Prediction(
        tuple(changes),
        _headline(rows[chosen], reason, paths, is_changed=bool(changes)) + means,
        tables,
        tuple(_notes(profile, graph, share, paths, reason)),
        STEP_TIMELINE.table([*steps_rows(graph, in_step, before, after)]),
    )


def _graph_alone(profile: Profile) -> Graph:
    """The graph, without what only it is made from."""
    recording, reads = profile.unrestricted, dict(PREDICT_READS)
    recording.expect(reads)
    if recording.has("kernels") or recording.has("memcpys"):
        # What needs launches comes first: they take as much memory as a replay.
        phases(profile)
        host_clock(profile)
        calls_and_launches(profile)
        recording.forget(launches, activities)
        waits = recording.sources.keys() & {"synchronizations"}
        if not any(recording.loaded(name).rows_known() for name in waits):
            recording.release(but={**reads, "api_calls": ()})
    graph = graph_of(profile)
    recording.forget(timelines)
    recording.release(but={name: reads[name] for name in _READ_LATER})
    return graph


def _steps(profile: Profile, graph: Graph) -> Iterator[_Step]:
    """The recording, then each phase: for the program, and for each device of several.

    Steps of ranks that meet in collectives are those of the program, as long as one of them and of
    the same name; on all devices they begin with those of the first rank.
    """
    o = graph.operations
    times = np.array([o.start_ns.min()]), np.array([o.end_ns.max()])
    spans: list[tuple[Phase | None, list[tuple[tuple[int, ...], tuple[Int64s, Int64s]]]]]
    spans = [(None, [(o.devices, times)])]
    for phase in phases(profile):
        alike = (
            ranks
            for first, ranks in spans
            if first is not None
            and len(graph.collectives)
            and (first.name, first.source) == (phase.name, phase.source)
            and are_similar(first.step_ns, phase.step_ns)
            and not any({*devices} & {*phase.devices} for devices, _ in ranks)
        )
        if not (ranks := next(alike, [])):
            spans.append((phase, ranks))
        ranks.append((phase.devices, (phase.start_ns, phase.end_ns)))
    for first, ranks in spans:
        of_each = [((device,), times) for devices, times in ranks for device in devices]
        all_devices = tuple(device for (device,), _ in of_each)
        program = [] if len(of_each) == 1 else [(all_devices, ranks[0][1])]
        for devices, (start_ns, end_ns) in (*program, *of_each):
            only_device = devices[0] if len(devices) == 1 else None
            steps = Steps(
                devices,
                None if first is None else (start_ns, end_ns),
                is_of_all=only_device is None,
                of_devices=tuple(its for (device,), its in of_each if device in devices),
            )
            shift_ns = 0 if first is None else o.shifts_ns.get(devices[0], 0)
            yield _Step(first, only_device, start_ns + shift_ns, end_ns + shift_ns, steps)


def _predicted(
    profile: Profile,
    changes: Sequence[str],
    changed: Changed,
    each_step: Sequence[tuple[_Step, Int64s, Int64s]],
    rows: Sequence[dict[str, Any]],
) -> tuple[tuple[Path, StepTimes], str]:
    """Adds predictions to the rows of steps.

    Args:
        profile: The recording.
        changes: The changes.
        changed: Its graph with them.
        each_step: What each of the steps of a row took as measured and as replayed.
        rows: The rows.

    Returns:
        What a step goes through with the changes, and a sentence about the mean of uneven steps.
    """
    steps = [step for step, _, _ in each_step]
    timed = StepTime(changed.graph, changed)
    predicted = changed.replayed()
    predicted_ns = [timed(step.steps, predicted) for step in steps]
    for row, in_changed_ns in zip(rows, predicted_ns, strict=True):
        row["predicted_ns"] = in_changed_ns
    most = _most_changed(rows, steps)
    path_and_times = steps[most].path_and_times(predicted)
    means = _means(each_step[most][1], timed.of_steps(steps[most].steps, predicted))
    del predicted
    bounds_ns = [predicted_ns]
    bounds = [(changed, True)]
    # Where times are left open, also slow and fast ones, with the recorded lags and without.
    if any(text.startswith(OPEN) for text in changes):
        for bound in (SLOW, FAST):
            bounded = apply(profile, changes, bound)
            bounds += [(bounded, False), (bounded, True)]
    for bounded, is_usual in bounds:
        replayed = bounded.replayed(is_usual=is_usual)
        # Times with usual latencies lack the lags of the recording.
        bounds_ns.append(
            [
                timed(step.steps, replayed)
                + (row["measured_ns"] - row["replayed_ns"] if is_usual else 0)
                for step, row in zip(steps, rows, strict=True)
            ]
        )
    for row, (_, *took_ns), *its_bounds_ns in zip(rows, each_step, *bounds_ns, strict=True):
        measured_ns, in_changed_ns = row["measured_ns"], row["predicted_ns"]
        within_ns = margin_ns(took_ns[0], took_ns[1], in_changed_ns)
        row |= {
            "low_ns": max(min(its_bounds_ns) - within_ns, 0),
            "high_ns": max(its_bounds_ns) + within_ns,
            "change": 100 * (in_changed_ns - measured_ns) / measured_ns if measured_ns else None,
        }
    return path_and_times, means


def _means(measured_ns: Int64s, predicted_ns: Sequence[Int64s]) -> str:
    """What uneven steps would take in the mean, in a sentence; empty where medians tell the same.

    ``predicted_ns`` has a row for each device whose mean counts.
    """
    if not np.median(measured_ns) or not any(map(uneven_ns, (measured_ns, *predicted_ns))):
        return ""
    before_ns, after_ns = usual_of(measured_ns), float(np.mean([*map(usual_of, predicted_ns)]))
    change = after_ns / before_ns - 1
    of_medians = np.mean([np.median(of) for of in predicted_ns]) / np.median(measured_ns) - 1
    if abs(change - of_medians) <= _SAME_CHANGE:
        return ""
    return (
        f" {IN_THE_MEAN} a step would take {say_ns(after_ns)} instead of {say_ns(before_ns)}"
        f" ({format_signed(100 * change)})."
    )


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


def _paths(graph: Graph, along: _Along, parts: _Parts, step: _Step) -> list[dict[str, Any]]:
    """The parts of both paths within the chosen steps, longest first."""
    in_steps = []
    for path_name, (its, _) in along.items():
        is_inside = _is_inside(graph, its, step.start_ns, step.end_ns)
        lengths_ns = np.where(is_inside, its.until_ns - its.since_ns, 0)
        total = Counter[PathPart]()
        numbers, names = parts[path_name]
        sums = np.zeros(len(names), np.int64)
        np.add.at(sums, numbers, lengths_ns)
        for part, time_ns in zip(names, sums.tolist(), strict=True):
            total[part] += time_ns
        in_steps.append(total)
    # With one scale for both a part that does not change has no difference.
    scale = along["before"][1] / max(in_steps[0].total(), 1)
    shares = []
    for total, (_, step_ns) in zip(in_steps, along.values(), strict=True):
        total_ns = round(total.total() * scale)
        is_step = abs(total_ns - step_ns) <= _ALIKE * step_ns
        shares.append(Counter(scaled(total, total_ns if is_step else step_ns)))
    was, now = shares[0], shares[-1]
    return [
        {
            "phase": step.phase and step.phase.name,
            "kind": part[0],
            "name": part[1],
            "before_ns": was[part],
            "after_ns": now[part] if "after" in along else None,
            "difference_ns": now[part] - was[part] if "after" in along else None,
        }
        for part in sorted({*was, *now}, key=lambda part: (-max(was[part], now[part]), part))
        if was[part] or now[part]
    ]


def _is_inside(graph: Graph, along: Path, start_ns: Int64s, end_ns: Int64s) -> Flags:
    """Which stretches of a path end within steps, by measured times."""
    when = graph.time_ns[along.instants]
    step = np.searchsorted(start_ns, when, side="left") - 1
    return np.asarray((step >= 0) & (when <= end_ns[np.maximum(step, 0)]))


def _dependencies(graph: Graph, along: Path) -> Iterator[dict[str, Any]]:
    on_path = np.bincount(along.kinds, minlength=len(KINDS)).tolist()
    for number, (kind, edges) in enumerate(zip(KINDS, graph.counts.tolist(), strict=True)):
        if edges:
            yield {
                "dependency": kind.name,
                "provenance": PROVENANCES[kind.provenance],
                "edges": edges,
                "on_path": on_path[number],
                "usual_ns": graph.usual_of(number),
            }


def _headline(
    row: dict[str, Any], reason: str, paths: Sequence[dict[str, Any]], *, is_changed: bool
) -> str:
    if reason:
        return f"No prediction: {reason}."
    phase = row["phase"] and _short(row["phase"])
    subject = f'A step of "{phase}"' if phase else "The recording"
    measured_ns, predicted_ns = row["measured_ns"], row["predicted_ns"]
    if not is_changed:
        return f"{subject} takes {say_ns(measured_ns)}; nothing is changed."
    low, high = say_ns(row["low_ns"]), say_ns(row["high_ns"])
    after_ns = sum(part["after_ns"] or 0 for part in paths)
    kept_ns = sum(part["after_ns"] or 0 for part in paths if part["kind"] in _AS_RECORDED)
    as_recorded = (
        f"; {say_share(kept_ns / max(after_ns, 1))} of it is host work, calls and waits,"
        " as recorded"
    )
    return (
        f"{subject} would take {say_ns(predicted_ns)} instead of {say_ns(measured_ns)}"
        f" ({format_signed(row['change'])}; {low if low == high else f'{low} to {high}'}"
        f"{as_recorded if after_ns else ''}), assuming that {row['assumptions']}."
    )


def _short(name: str) -> str:
    return short_names([name])[name]


def _notes(
    profile: Profile, graph: Graph, share: float, paths: Sequence[dict[str, Any]], reason: str
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
    waits = [row for row in paths if row["kind"] == WAIT]
    if waited_ns := sum(
        row["before_ns"] if row["after_ns"] is None else row["after_ns"] for row in waits
    ):
        yield (
            f"The host waits for other ranks in MPI for {say_ns(waited_ns)} of the critical path,"
            " as recorded: a change here is taken to be one of all ranks."
        )
    if note := host_clock(profile).note():
        yield note
    if shifts := graph.operations.shifts_ns:
        yield (
            f"The clocks of {counted(len(shifts), 'device', 'devices')} are up to"
            f" {say_ns(max(map(abs, shifts.values())))} from those of others. Their times were set"
            " right by the common ends of collectives (gpuprof report --table clock_offsets)."
        )
    doubts = dict(graph.doubts)
    if early := doubts.pop(_EARLY_WAITS, 0):
        yield (
            f"In {counted(early, 'case', 'cases')} a call that waits returns before work that it"
            " waits for ends: the clocks of GPU and host are apart, or it waits for less of the"
            " work. These waits could not be matched and are left out."
        )
    for text, count in doubts.items():
        yield f"{text}: {count:,}; edges that do not fit are left out."
