"""The time of each training step as stacked bars: what one device did in it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Final

import numpy as np

from gpuprof.analyses.steps import STEPS
from gpuprof.base.short_texts import shortened
from gpuprof.base.units import counted, say_ns
from gpuprof.facts.step_times import mean_beside
from gpuprof.model.schema import FLOAT, Column, Count, Ns, Schema
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import (
    KERNELS,
    NOTHING,
    Chart,
    Columns,
    Look,
    Picture,
    Results,
    round_step,
)

# More bars than that are not told apart.
_MOST: Final = 200
_LONGEST_PHASE: Final = 40
_SAMPLES: Final = ("sample", "outlier")
# Column of `steps` -> how its part of a bar is shown, from the bottom up.
PARTS: Final = {
    "compute_ns": Look("compute", "compute", KERNELS.colour),
    "exposed_communication_ns": Look("exposed communication", "communication", "#56B4E9", "---"),
    "exposed_transfer_ns": Look("exposed transfers", "peer", "#D55E00", "///"),
    "exposed_local_copy_ns": Look("exposed local copies", "local", "#E69F00", "\\\\\\"),
    "idle_ns": NOTHING,
}
ROWS: Final = Schema(
    "steps",
    "one training step, or the mean of several that follow one another",
    {
        **{
            name: STEPS.columns[name]
            for name in ("process_id", "device_id", "phase", "phase_number", "status")
        },
        "step": STEPS.columns["step"],
        "last_step": Count("The last step of the bar.", required=True),
        "start_ns": STEPS.columns["start_ns"],
        "span_ns": Column(FLOAT, "ns", "Mean length, idle time included.", required=True),
        "min_span_ns": Ns("Length of the shortest of them.", required=True),
        "max_span_ns": Ns("Length of the longest of them.", required=True),
        **{name: Column(FLOAT, "ns", STEPS.columns[name].meaning) for name in PARTS},
    },
)
_STATUS: Final = {
    "sample": "counted",
    "outlier": "far longer than most",
    "warm_up": "warm-up",
    "cut": "cut off",
    "other": "set aside",
}


def picture(results: Results) -> Picture:
    """The rows of `steps` of the device that computes most, those of many steps as means."""
    rows = results.rows("steps")
    compute_ns: Counter[tuple[int | None, int | None]] = Counter()
    for row in rows:
        compute_ns[row["process_id"], row["device_id"]] += row["compute_ns"]
    if not compute_ns:
        return Picture("", ROWS.table([]), [])
    # `max` takes the first of equal ones.
    busiest = max(compute_ns, key=lambda place: compute_ns[place])
    rows = [row for row in rows if (row["process_id"], row["device_id"]) == busiest]
    # Of many steps, the means of some that follow one another.
    size, means = round_step(len(rows) / _MOST), []
    in_order = groupby(
        rows, key=lambda row: (*_phase_of(row), row["status"] in _SAMPLES or row["status"],
                               row["step"] // size)
    )  # fmt: skip
    for _, alike in in_order:
        steps = list(alike)
        spans_ns = [row["span_ns"] for row in steps]
        named = {name: steps[0][name] for name in ROWS.columns if name in steps[0]}
        of_all = {"min_span_ns": min(spans_ns), "max_span_ns": max(spans_ns)}
        mean = {n: sum(row[n] for row in steps) / len(steps) for n in ("span_ns", *PARTS)}
        means.append(named | {"last_step": steps[-1]["step"]} | of_all | mean)
    table = ROWS.table(means)
    spans: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if row["status"] in _SAMPLES:
            spans.setdefault(_phase_of(row), []).append(row["span_ns"])
    usual = {phase: median(of_phase) for phase, of_phase in spans.items()}
    finding, note, longest = _finding(rows)
    device = results.device_names.called(busiest[1])
    return Picture(finding, table, [_columns(table.to_pylist(), usual, (device, note), longest)])


def _finding(rows: Sequence[Row]) -> tuple[str, str, Row | None]:
    """What a step takes, in the phase of most time; of how many; and the one that is longest."""
    time_ns: Counter[str] = Counter()
    names = _phase_names(rows)
    for row in rows:
        time_ns[names[_phase_of(row)]] += row["span_ns"]
    phase, _ = time_ns.most_common(1)[0]
    of_phase = [row for row in rows if names[_phase_of(row)] == phase]
    samples = [row for row in of_phase if row["status"] in _SAMPLES] or of_phase
    longest = max(samples, key=lambda row: row["span_ns"])
    usual_ns = median(row["span_ns"] for row in samples)
    of_phase_words = f' of "{shortened(clean(phase), _LONGEST_PHASE)}"' if len(time_ns) > 1 else ""
    sentence = f"A step{of_phase_words} takes {say_ns(usual_ns)}"
    mean = mean_beside(np.array([row["span_ns"] for row in samples]))
    note = f"median of {counted(len(samples), 'step', 'steps')}{mean}"
    if longest["span_ns"] == usual_ns:
        return sentence, note, None
    return f"{sentence}, the longest {say_ns(longest['span_ns'])}", note, longest


def _phase_of(row: Row) -> tuple[str, int]:
    return row["phase"], row["phase_number"]


def _phase_names(rows: Sequence[Row]) -> dict[tuple[str, int], str]:
    """The names of phases for people, with numbers where several have one name."""
    phases = dict.fromkeys(map(_phase_of, rows))
    alike = Counter(name for name, _ in phases)
    return {(name, n): f"{name} ({n})" if alike[name] > 1 else name for name, n in phases}


def _columns(
    rows: Sequence[Row],
    usual: Mapping[tuple[str, int], float],
    words: tuple[str, str],
    longest: Row | None,
) -> Columns:
    """A column per row of `ROWS`; warm-up and steps that are cut off are pale.

    Args:
        rows: Those of one device.
        usual: The median of each phase.
        words: What the device is called, and what is said of the dashed line.
        longest: The step that the title names.
    """
    phases, names, levels = _phase_names(rows), [], []
    device, note = words
    pale = [row["status"] not in _SAMPLES for row in rows]
    for row in rows:
        name = f"step {row['step']}"
        if row["step"] != row["last_step"]:
            name = f"steps {row['step']} to {row['last_step']} (mean)"
        names.append(f"{name}, {clean(phases[_phase_of(row)])}, {_STATUS[row['status']]}")
    for phase, steps in groupby(range(len(rows)), key=lambda place: _phase_of(rows[place])):
        places = list(steps)
        levels.append((places[0], places[-1], usual.get(phase), phases[phase]))
    mark = next(
        (
            (place, longest["span_ns"], f"step {longest['step']}")
            for place, row in enumerate(rows)
            if longest
            and row["step"] <= longest["step"] <= row["last_step"]
            and _phase_of(row) == _phase_of(longest)
        ),
        None,
    )
    is_mean = any(row["step"] != row["last_step"] for row in rows)
    return Columns(
        [(look, [row[name] or 0 for row in rows]) for name, look in PARTS.items()],
        "time of the step",
        f"step on {device}",
        f"dashed: {note}",
        names=names,
        ticks=[str(row["step"]) for row in rows],
        pale=pale,
        levels=levels,
        ranges=[(row["min_span_ns"], row["max_span_ns"]) for row in rows] if is_mean else (),
        mark=mark,
    )


CHART: Final = Chart(
    "steps",
    "The time of each training step: compute, exposed transfers, idle time and so on",
    RECORDING,
    ("steps",),
    picture,
)
