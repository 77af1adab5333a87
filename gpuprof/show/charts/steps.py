"""The time of each training step as stacked bars: what one device did in it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuprof.analyses.steps import STEPS
from gpuprof.base.units import capital, counted, say_ns, time_axis
from gpuprof.facts.step_times import mean_beside
from gpuprof.model.schema import FLOAT, INT, Column, Schema
from gpuprof.show.cells import clean
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.charts.utilisation import device_name
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 4.2
# More bars than that are not told apart.
_MOST: Final = 200
SAMPLES: Final = ("sample", "outlier")
# Column of `steps` -> how its part of a bar is shown, from the bottom up.
PARTS: Final = {
    "compute_ns": canvas.Look("compute", "compute", canvas.KERNELS.colour),
    "exposed_communication_ns": canvas.Look(
        "exposed communication", "communication", "#56B4E9", "---"
    ),
    "exposed_transfer_ns": canvas.Look("exposed transfers", "peer", "#D55E00", "///"),
    "exposed_local_copy_ns": canvas.Look("exposed local copies", "local", "#E69F00", "\\\\\\"),
    "idle_ns": canvas.NOTHING,
}
_SET_ASIDE_ALPHA: Final = 0.4
_BORDER: Final[dict[str, Any]] = {"color": canvas.DARK, "linewidth": 0.8}
_PHASE_WIDTH: Final = 28
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


def picture(results: Results) -> Picture:
    """The rows of `steps` of the device that computes most, those of many steps as means."""
    rows = of_busiest(results.table("steps").to_pylist())
    return Picture(finding(rows), ROWS.table([*bars(rows)]))


def of_busiest(rows: Sequence[Row]) -> list[Row]:
    """The steps of the device that computes most, in their order."""
    compute_ns: Counter[tuple[int | None, int | None]] = Counter()
    for row in rows:
        compute_ns[row["process_id"], row["device_id"]] += row["compute_ns"]
    if not compute_ns:
        return []
    # `max` takes the first of equal ones.
    busiest = max(compute_ns, key=lambda place: compute_ns[place])
    return [row for row in rows if (row["process_id"], row["device_id"]) == busiest]


def finding(rows: Sequence[Row]) -> str:
    """What a step takes, in the phase of most time, and the longest one."""
    if not rows:
        return ""
    time_ns: Counter[str] = Counter()
    names = phase_names(rows)
    for row in rows:
        time_ns[names[phase_of(row)]] += row["span_ns"]
    phase, _ = time_ns.most_common(1)[0]
    of_phase = [row for row in rows if names[phase_of(row)] == phase]
    samples = [row for row in of_phase if row["status"] in SAMPLES] or of_phase
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


def phase_of(row: Row) -> tuple[str, int]:
    """The phase that a step is of, by name and number."""
    return row["phase"], row["phase_number"]


def phase_names(rows: Iterable[Row]) -> dict[tuple[str, int], str]:
    """The names of phases for people, with numbers where several have one name."""
    phases = dict.fromkeys(map(phase_of, rows))
    alike = Counter(name for name, _ in phases)
    return {(name, n): f"{name} ({n})" if alike[name] > 1 else name for name, n in phases}


def bars(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows as in `ROWS`: of many steps, the means of some that follow one another."""
    size = -(-len(rows) // _MOST)
    for _, alike in groupby(rows, key=lambda row: (*phase_of(row), row["status"])):
        steps = list(alike)
        for first in range(0, len(steps), size):
            yield _bar(steps[first : first + size])


def _bar(steps: Sequence[Row]) -> Row:
    means = {name: sum(row[name] for row in steps) / len(steps) for name in ("span_ns", *PARTS)}
    named = {name: steps[0][name] for name in ROWS.columns if name in steps[0]}
    return named | {"last_step": steps[-1]["step"]} | means


def bar_name(row: Row) -> str:
    """Which steps a bar is of."""
    if row["step"] == row["last_step"]:
        return f"step {row['step']}"
    return f"steps {row['step']} to {row['last_step']} (mean)"


def is_set_aside(row: Row) -> bool:
    """Whether the figures of the phase leave the step out: warm-up, or cut off."""
    return row["status"] not in SAMPLES


def draw(shown: Picture) -> "Figure":
    """A bar per step, its parts on one another; steps that are set aside are pale."""
    rows = shown.rows.to_pylist()
    figure = canvas.new_figure(_HEIGHT)
    axes = figure.subplots()
    factor, unit = time_axis(max(row["span_ns"] for row in rows))
    _draw_bars(axes, rows, factor)
    _draw_phases(axes, rows, factor)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(bottom=0)
    stride = -(-len(rows) // 20)
    places = range(0, len(rows), stride)
    axes.set_xticks(places, [str(rows[place]["step"]) for place in places])
    axes.set(xlabel="step", ylabel=f"time of the step [{unit}]")
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [axes], [look.name for look in PARTS.values()])
    return figure


def _draw_bars(axes: "Axes", rows: Sequence[Row], factor: float) -> None:
    for is_pale in (False, True):
        places = [place for place, row in enumerate(rows) if is_set_aside(row) is is_pale]
        floor = [0.0] * len(places)
        for name, look in PARTS.items():
            heights = [(rows[place][name] or 0) / factor for place in places]
            if not any(heights):
                continue
            bar = {**look.bar, "alpha": _SET_ASIDE_ALPHA if is_pale else 1}
            # A pale bar has the same entry in the legend.
            label = None if is_pale else look.name
            axes.bar(places, heights, 0.85, floor, label=label, **bar)
            floor = [low + height for low, height in zip(floor, heights, strict=True)]
        if is_pale and places:
            axes.bar([0], [0], color=canvas.DARK, alpha=_SET_ASIDE_ALPHA, label="warm-up, cut off")


def _draw_phases(axes: "Axes", rows: Sequence[Row], factor: float) -> None:
    """The median of each phase, and where one ends and the next begins."""
    place = 0
    names = phase_names(rows)
    stretches = [(names[phase], list(steps)) for phase, steps in groupby(rows, key=phase_of)]
    for name, steps in stretches:
        end = place + len(steps)
        samples = [row["span_ns"] for row in steps if not is_set_aside(row)]
        if samples:
            usual = median(samples) / factor
            axes.plot(
                [place - 0.5, end - 0.5], [usual, usual], **_BORDER, linestyle="--", label="median"
            )
        if place:
            axes.axvline(place - 0.5, **_BORDER)
        if len(stretches) > 1:
            axes.annotate(
                canvas.label(name, _PHASE_WIDTH, lines=1),
                (place - 0.4, 1),
                xycoords=("data", "axes fraction"),
                fontsize=8,
                va="bottom",
            )
        place = end


CHART: Final = Chart(
    "steps",
    "The time of each training step: compute, exposed transfers, idle time and so on",
    RECORDING,
    ("steps",),
    picture,
    draw,
)
