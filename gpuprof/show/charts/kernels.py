"""The kernels that take most time, as bars with their share and calls."""

from itertools import accumulate
from typing import Final

from gpuprof.analyses.totals import merged_runs
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import shortened
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.model.schema import Count, Ns, Schema, Share, Text
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import COMMUNICATION, KERNELS, Bars, Chart, Part, Picture, Results

_MOST, _FEWEST = 15, 3
# Of the time of all kernels: what takes less has no bar of its own.
_LEAST_SHARE: Final = 0.01
_LONGEST_NAME: Final = 48
# Kernels that take this much of the time together are worth a sentence.
_MUCH: Final = 0.8
REMAINDER: Final = "everything else"
ROWS: Final = Schema(
    "kernels",
    "the calls of one kernel, or of all others",
    {
        "name": Text("Its short name.", required=True),
        "full_name": Text("Its demangled name; null for all others."),
        "kernels": Count("Different kernels.", required=True),
        "calls": Count("How often; null where unknown."),
        "total_ns": Ns("Sum of durations over all devices.", required=True),
        "share": Share("Share of all kernels' time; null where that is unknown."),
    },
)


def picture(results: Results) -> Picture:
    """The kernels of `activity_summary`, the costliest first."""
    rows = merged_runs(results.rows("activity_summary"))
    kernels = [row for row in rows if row["activity_kind"] == "kernel"]
    shown = short_names(row["name"] for row in kernels)
    named = [row | {"full_name": row["name"], "name": shown[row["name"]]} for row in kernels]
    groups = {row["activity_group"]: row for row in results.rows("totals")}
    costliest = top(named, groups["kernels"]["total_ns"])
    return Picture(finding(costliest), ROWS.table(costliest), [bars(costliest)])


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
    names = ("name", "full_name", "calls", "total_ns")
    rows: list[Row] = [
        {"kernels": 1, **{name: row.get(name) for name in names}} for row in timed[:count]
    ]
    if remainder := timed[count:]:
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
    """Which kernel takes most time."""
    if not rows:
        return ""
    name, share = shortened(clean(rows[0]["name"]), _LONGEST_NAME), rows[0]["share"]
    if share is None:
        return f"{name} takes the most time of the listed kernels"
    return f"{name} takes {say_share(share)} of the kernel time"


def bars(rows: list[Row]) -> Bars:
    """A bar per row of `top`; kernels of communication apart from those that compute."""
    names, figures, parts, notes = [], [], [], []
    named = [row["share"] for row in rows if row["name"] != REMAINDER]
    sums = [] if None in named else [*accumulate(named)]
    number = next((place for place, share in enumerate(sums, start=1) if share >= _MUCH), 0)
    count = sum(row["kernels"] for row in rows)
    # Where one takes most of the time, or only all do, the bars say so.
    if number not in {0, 1, count}:
        notes.append(f"{number} of {count} kernels take {say_share(sums[number - 1])}")
    for place, row in enumerate(rows):
        share = None if row["share"] is None else say_share(row["share"])
        calls = None if row["calls"] is None else counted(row["calls"], "call", "calls")
        figure = ", ".join(filter(None, (say_ns(row["total_ns"]), share, calls)))
        if row["name"] == REMAINDER:
            # A bar of all others would be longer than those that the chart is about.
            undrawn = counted(row["kernels"], "other kernel", "other kernels")
            notes.append(f"not drawn: {undrawn}, {figure}")
            continue
        name = clean(row["name"])
        look = COMMUNICATION if is_communication(row["name"]) else KERNELS
        parts.append(Part(place, look, 0, row["total_ns"], f"{name}: {figure}"))
        names.append(name)
        figures.append(figure)
    looks = tuple(dict.fromkeys(part.look for part in parts))
    return Bars(names, parts, looks, figures, "time, summed over devices", "; ".join(notes))


CHART: Final = Chart(
    "kernels",
    "The kernels that take most time, with their share and calls",
    RECORDING,
    ("activity_summary", "totals"),
    picture,
)
