"""The time of each training step as stacked bars: what one device did in it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Final

import numpy as np

from gpuprof.analyses.steps import STEPS
from gpuprof.base.units import capital, counted, say_ns
from gpuprof.facts.step_times import mean_beside
from gpuprof.model.schema import FLOAT, INT, Column, Schema
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import KERNELS, NOTHING, Chart, Columns, Look, Picture, Results
from gpuprof.show.charts.utilisation import device_name

# More bars than that are not told apart.
_MOST: Final = 200
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
        "last_step": Column(INT, "1", "The last step of the bar.", required=True),
        "start_ns": STEPS.columns["start_ns"],
        "span_ns": Column(FLOAT, "ns", "Mean length, idle time included.", required=True),
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
    table = ROWS.table([*_means(rows)])
    return Picture(_finding(rows), table, [_columns(table.to_pylist())])


def _finding(rows: Sequence[Row]) -> str:
    """What a step takes, in the phase of most time, and the longest one."""
    time_ns: Counter[str] = Counter()
    names = _phase_names(rows)
    for row in rows:
        time_ns[names[_phase_of(row)]] += row["span_ns"]
    phase, _ = time_ns.most_common(1)[0]
    of_phase = [row for row in rows if names[_phase_of(row)] == phase]
    samples = [row for row in of_phase if row["status"] in _SAMPLES] or of_phase
    longest = max(samples, key=lambda row: row["span_ns"])
    usual_ns = median(row["span_ns"] for row in samples)
    of_phase_words = f' of "{clean(phase)}"' if len(time_ns) > 1 else ""
    sentence = (
        f"{capital(device_name(rows[0]['device_id']))}: a step{of_phase_words} takes"
        f" {say_ns(usual_ns)} (median of {counted(len(samples), 'step', 'steps')}"
        f"{mean_beside(np.array([row['span_ns'] for row in samples]))})"
    )
    if longest["span_ns"] == usual_ns:
        return sentence
    return f"{sentence}, the longest {say_ns(longest['span_ns'])} (step {longest['step']})"


def _phase_of(row: Row) -> tuple[str, int]:
    return row["phase"], row["phase_number"]


def _phase_names(rows: Sequence[Row]) -> dict[tuple[str, int], str]:
    """The names of phases for people, with numbers where several have one name."""
    phases = dict.fromkeys(map(_phase_of, rows))
    alike = Counter(name for name, _ in phases)
    return {(name, n): f"{name} ({n})" if alike[name] > 1 else name for name, n in phases}


def _means(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows as in `ROWS`: of many steps, the means of some that follow one another."""
    size = -(-len(rows) // _MOST)
    for _, alike in groupby(rows, key=lambda row: (*_phase_of(row), row["status"])):
        of_status = list(alike)
        for first in range(0, len(of_status), size):
            steps = of_status[first : first + size]
            means = {n: sum(row[n] for row in steps) / len(steps) for n in ("span_ns", *PARTS)}
            named = {name: steps[0][name] for name in ROWS.columns if name in steps[0]}
            yield named | {"last_step": steps[-1]["step"]} | means


def _columns(rows: Sequence[Row]) -> Columns:
    """A column per row of `ROWS`; warm-up and steps that are cut off are pale."""
    phases, names, levels = _phase_names(rows), [], []
    pale = [row["status"] not in _SAMPLES for row in rows]
    for row in rows:
        name = f"step {row['step']}"
        if row["step"] != row["last_step"]:
            name = f"steps {row['step']} to {row['last_step']} (mean)"
        names.append(f"{name}, {clean(phases[_phase_of(row)])}, {_STATUS[row['status']]}")
    for phase, steps in groupby(range(len(rows)), key=lambda place: _phase_of(rows[place])):
        places = list(steps)
        spans = [rows[place]["span_ns"] for place in places if not pale[place]]
        levels.append((places[0], places[-1], median(spans) if spans else None, phases[phase]))
    return Columns(
        [(look, [row[name] or 0 for row in rows]) for name, look in PARTS.items()],
        "time of the step",
        "step",
        names=names,
        ticks=[str(row["step"]) for row in rows],
        pale=pale,
        levels=levels,
    )


CHART: Final = Chart(
    "steps",
    "The time of each training step: compute, exposed transfers, idle time and so on",
    RECORDING,
    ("steps",),
    picture,
)
