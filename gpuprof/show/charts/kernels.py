"""The kernels that take most time, as bars with their share and calls."""

from typing import TYPE_CHECKING, Final

from gpuprof.analyses.totals import merged_runs
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import cut, shortened_apart
from gpuprof.base.units import counted, format_ns, format_share, say_share, time_axis
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.show.cells import clean, folded
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST, _FEWEST = 15, 3
# Of the time of all kernels: what takes less has no bar of its own.
_LEAST_SHARE: Final = 0.01
_ROW_INCHES: Final = 0.34
_LINE_INCHES: Final = 0.16
_NAME_WIDTH: Final = 46
_NAME_LINES: Final = 3
_LONGEST_NAME: Final = 80
# Kernels that take this much of the time together are worth a sentence.
_MUCH: Final = 0.8
REMAINDER: Final = "everything else"
_REMAINDER_LOOK: Final = canvas.Look(REMAINDER, "memset", canvas.MEMSETS.colour)
ROWS: Final = Schema(
    "kernels",
    "the calls of one kernel, or of all others",
    {
        "name": Column(TEXT, "", "Its short name.", required=True),
        "full_name": Column(TEXT, "", "Its demangled name; null for all others."),
        "kernels": Column(INT, "1", "Different kernels.", required=True),
        "calls": Column(INT, "1", "How often; null where unknown."),
        "total_ns": Column(INT, "ns", "Sum of durations over all devices.", required=True),
        "share": Column(FLOAT, "1", "Share of all kernels' time; null where that is unknown."),
    },
)


def picture(results: Results) -> Picture:
    """The kernels of `activity_summary`, the costliest first."""
    rows = merged_runs(results.table("activity_summary").to_pylist())
    kernels = [row for row in rows if row["activity_kind"] == "kernel"]
    shown = short_names(row["name"] for row in kernels)
    named = [row | {"full_name": row["name"], "name": shown[row["name"]]} for row in kernels]
    groups = {row["activity_group"]: row for row in results.table("totals").to_pylist()}
    costliest = top(named, groups["kernels"]["total_ns"])
    return Picture(finding(costliest), ROWS.table(costliest))


def top(kernels: list[Row], total_ns: int | None) -> list[Row]:
    """The costliest kernels, then all others as one row.

    Args:
        kernels: With ``name``, ``calls`` and ``total_ns``; those of unknown time are left out.
        total_ns: The time of all kernels; None where unknown.

    Returns:
        Rows as in `ROWS`.
    """
    timed = [row for row in kernels if row["total_ns"] is not None]
    timed.sort(key=lambda row: (-row["total_ns"], row["name"]))
    least_ns = _LEAST_SHARE * sum(row["total_ns"] for row in timed)
    worth = sum(row["total_ns"] >= least_ns for row in timed)
    count = min(max(worth, _FEWEST), _MOST)
    shown, remainder = timed[:count], timed[count:]
    rows = [
        {
            "name": row["name"],
            "full_name": row.get("full_name"),
            "kernels": 1,
            "calls": row["calls"],
            "total_ns": row["total_ns"],
        }
        for row in shown
    ]
    if remainder:
        calls = [row["calls"] for row in remainder]
        rows.append(
            {
                "name": REMAINDER,
                "kernels": len(remainder),
                "calls": None if None in calls else sum(calls),
                "total_ns": sum(row["total_ns"] for row in remainder),
            }
        )
    return [row | {"share": row["total_ns"] / total_ns if total_ns else None} for row in rows]


def finding(rows: list[Row]) -> str:
    """Which kernel takes most time, and how few take most of it."""
    if not rows:
        return ""
    name, share_of_first = cut(clean(rows[0]["name"]), _LONGEST_NAME), rows[0]["share"]
    if share_of_first is None:
        return f"{name} takes the most time of the listed kernels"
    sentence = f"{name} takes {say_share(share_of_first)} of the kernel time"
    number, share = 0, 0.0
    for row in rows:
        if row["name"] == REMAINDER:
            return sentence
        number, share = number + 1, share + row["share"]
        if share >= _MUCH:
            break
    count = sum(row["kernels"] for row in rows)
    if number in {1, count}:
        return sentence
    return f"{sentence}; {number} of {count} kernels take {say_share(share)}"


def figure_words(row: Row) -> str:
    """What stands beside a bar: time, share and calls."""
    share = None if row["share"] is None else format_share(row["share"])
    calls = None if row["calls"] is None else counted(row["calls"], "call", "calls")
    return ", ".join(filter(None, (format_ns(row["total_ns"]), share, calls)))


def bar_name(row: Row) -> str:
    """The name of a bar: of a kernel, or of how many others."""
    return f"{REMAINDER} ({row['kernels']:,})" if row["name"] == REMAINDER else row["name"]


def bar_labels(names: list[str]) -> list[str]:
    """The names of bars in a few lines; of those that need more, the end is cut."""
    room = _NAME_LINES * _NAME_WIDTH
    labels = []
    for name in shortened_apart([clean(name) for name in names], room):
        lines = folded(name, _NAME_WIDTH).split("\n")
        if len(lines) > _NAME_LINES:
            lines = [name[at : at + _NAME_WIDTH] for at in range(0, len(name), _NAME_WIDTH)]
        labels.append("\n".join(lines))
    return labels


def look(row: Row) -> canvas.Look:
    """How a bar is shown: kernels of communication apart from those that compute."""
    if row["name"] == REMAINDER:
        return _REMAINDER_LOOK
    return canvas.COMMUNICATION if is_communication(row["name"]) else canvas.KERNELS


def draw(shown: Picture) -> "Figure":
    """A bar per kernel, the longest at the top."""
    rows = shown.rows.to_pylist()
    names = bar_labels([bar_name(row) for row in rows])
    most_lines = max(name.count("\n") + 1 for name in names)
    row_inches = max(_ROW_INCHES, _LINE_INCHES * (most_lines + 0.6))
    figure = canvas.new_figure(1.3 + row_inches * len(rows))
    axes = figure.subplots()
    factor, unit = time_axis(max(row["total_ns"] for row in rows))
    for place, row in enumerate(rows):
        of_kernel = look(row)
        end = row["total_ns"] / factor
        axes.barh(place, end, height=0.7, label=of_kernel.name, **of_kernel.bar)
        canvas.annotate(axes, figure_words(row), (end, place))
    axes.set_yticks(range(len(rows)), names, fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"time, summed over devices [{unit}]")
    canvas.state(figure, shown.finding)
    canvas.explain(figure, [axes])
    return figure


CHART: Final = Chart(
    "kernels",
    "The kernels that take most time, with their share and calls",
    RECORDING,
    ("activity_summary", "totals"),
    picture,
    draw,
)
