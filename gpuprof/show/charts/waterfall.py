"""From the baseline to each candidate, part by part: what the difference is made of."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress, groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from gpuprof.base.labels import label
from gpuprof.base.units import format_ns, say_ns, time_axis
from gpuprof.show.cells import signed_ns, without_common_ends
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import COMPARISON, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOTAL: Final = "total"
SLOWER: Final = "worse"
FASTER: Final = "better"
LEGEND: Final = {TOTAL: "total", SLOWER: "takes longer", FASTER: "takes less"}
_LOOKS: Final = {TOTAL: canvas.KERNELS, SLOWER: canvas.PEER, FASTER: canvas.HTOD}

_BASES: Final = {
    "exposed": "time of each side's busiest device; time hidden behind kernels does not count",
    "sums": "sums over all devices, which measure work and not elapsed time",
    "kernels": "sums of kernels over all devices; copy times are not known",
}
# Parts that make less than this share of the greatest difference are one step.
_SMALL: Final = 0.01
_CUT_FROM: Final = 4
MOST: Final = 6
_ROOM: Final = 0.5
_STEP_INCHES: Final = 0.34
_MARGIN: Final = 0.14  # For the figures behind the bars.


class Step(NamedTuple):
    """One bar: from where to where it goes, and whether it is a total, slower or faster."""

    name: str
    kind: str
    start_ns: int
    end_ns: int

    @property
    def figure(self) -> str:
        """A total's time, or a part's difference with its sign."""
        is_total = self.kind == TOTAL
        return format_ns(self.end_ns) if is_total else signed_ns(self.end_ns - self.start_ns)


def picture(results: Results) -> Picture:
    """The rows of `split` on the better of its bases, with the baseline's name in each."""
    split = results.table("split")
    rows = by_candidate_basis(split)
    names = pa.array([results.baseline] * len(rows), pa.string())
    candidates = len(set(split.column("variant").to_pylist()))
    few = f" (of {candidates} candidates the {MOST} that differ most)" * (candidates > MOST)
    return Picture(results.headline + few, rows.append_column("baseline", names))


def by_candidate_basis(split: pa.Table) -> pa.Table:
    """Each candidate's rows on the first of its bases: exposed times where they are known.

    Of many candidates those that differ most: more pictures are not looked at.
    """
    rows = split.to_pylist()
    chosen = {row["variant"]: row["basis"] for row in reversed(rows)}
    is_chosen = [chosen[row["variant"]] == row["basis"] for row in rows]
    differences: Counter[str] = Counter()
    for row in compress(rows, is_chosen):
        differences[row["variant"]] += row["difference_ns"]
    largest = sorted(differences, key=lambda variant: -abs(differences[variant]))[:MOST]
    shown = [
        is_own and row["variant"] in largest for row, is_own in zip(rows, is_chosen, strict=True)
    ]
    return split.filter(pa.array(shown, pa.bool_()))


def basis_words(basis: str) -> str:
    """What the times of a basis are."""
    return _BASES.get(basis, basis)


def steps(rows: Sequence[Row], baseline: str, candidate: str) -> list[Step]:
    """The bars from a baseline to one candidate, the largest part first.

    Args:
        rows: Those of one candidate on one basis.
        baseline: What the baseline is called.
        candidate: What the candidate is called.
    """
    at = sum(row["baseline_ns"] for row in rows)
    bars = [Step(baseline, TOTAL, 0, at)]
    least = _SMALL * max((abs(row["difference_ns"]) for row in rows), default=0)
    shown = [row for row in rows if row["difference_ns"] and abs(row["difference_ns"]) >= least]
    shown.sort(key=lambda row: -abs(row["difference_ns"]))
    rest_ns = sum(row["difference_ns"] for row in rows) - sum(row["difference_ns"] for row in shown)
    parts = [(label(row["part"]), row["difference_ns"]) for row in shown]
    for name, difference in [*parts, *([("everything else", rest_ns)] if rest_ns else [])]:
        bars.append(Step(name, SLOWER if difference > 0 else FASTER, at, at + difference))
        at += difference
    return [*bars, Step(candidate, TOTAL, 0, at)]


def axis(panels: Sequence[Sequence[Step]]) -> tuple[float, float]:
    """Where the axis of all panels begins and ends.

    It begins at 0, or nearer where the totals would dwarf the differences of all panels.
    """
    ends = [step.end_ns for bars in panels for step in bars]
    low, high = min(ends, default=0), max(ends, default=0)
    is_cut = low > _CUT_FROM * (high - low) > 0
    return (low - _ROOM * (high - low) if is_cut else 0.0), high


def draw(shown: Picture) -> "Figure":
    """A panel per candidate, on one axis."""
    panels = [list(rows) for _, rows in groupby(shown.rows.to_pylist(), key=lambda r: r["variant"])]
    labels = without_common_ends(
        [panels[0][0]["baseline"], *(rows[0]["variant"] for rows in panels)]
    )
    bars = [steps(rows, labels[rows[0]["baseline"]], labels[rows[0]["variant"]]) for rows in panels]
    figure = canvas.new_figure(1.4 + sum(0.7 + _STEP_INCHES * len(of_panel) for of_panel in bars))
    heights = [len(of_panel) + 1 for of_panel in bars]
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel_axes, rows, of_panel in zip(axes, panels, bars, strict=True):
        _draw_steps(panel_axes, of_panel, axis(bars), rows[0]["basis"])
    canvas.state(figure, shown.finding)
    canvas.explain(figure, list(axes), LEGEND.values())
    return figure


def _draw_steps(axes: "Axes", bars: Sequence[Step], ends: tuple[float, float], basis: str) -> None:
    first, last = ends
    factor, unit = time_axis(last)
    for place, step in enumerate(bars):
        low, high = sorted((max(step.start_ns, first), step.end_ns))
        axes.barh(
            place,
            (high - low) / factor,
            left=low / factor,
            height=0.7,
            label=LEGEND[step.kind],
            **_LOOKS[step.kind].bar,
        )
        canvas.annotate(axes, step.figure, (high / factor, place))
    names = [canvas.label(step.name, lines=2) for step in bars]
    axes.set_yticks(range(len(bars)), names, fontsize=9)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(first / factor, (last + _MARGIN * (last - first)) / factor)
    if first:
        _mark_cuts(axes, bars)
    quantity, _, remark = basis_words(basis).partition("; ")
    cut = f"the axis begins at {say_ns(first)}" if first else ""
    axes.set_xlabel("; ".join(filter(None, (f"{quantity} [{unit}]", remark, cut))), fontsize=9)


def _mark_cuts(axes: "Axes", bars: Sequence[Step]) -> None:
    """Two strokes through the beginning of each total, which is not shown in full."""
    for place in (place for place, step in enumerate(bars) if step.kind == TOTAL):
        axes.annotate(
            "//",
            (0.012, place),
            xycoords=("axes fraction", "data"),
            color="white",
            weight="bold",
            fontsize=14,
            ha="left",
            va="center_baseline",
        )


CHART: Final = Chart(
    "waterfall",
    "What the difference of each candidate to the baseline is made of",
    COMPARISON,
    ("split",),
    picture,
    draw,
)
