"""Who copies to whom, as a heat map of time, with bytes and throughput in its cells."""

from collections import Counter
from math import nan
from typing import TYPE_CHECKING, Final

from gpuprof.base.labels import label
from gpuprof.base.units import format_bytes, format_rate, say_ns, say_share, time_axis
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN: Final = ("src", "dst", "path", "calls", "total_ns", "bytes", "bytes_per_s")
# Grows darker in grey as in colour, and is one hue for all eyes.
_COLOURS: Final = "Blues"
_DARK_FROM: Final = 0.55
_CELL_INCHES: Final = 0.72
# With more ends than this, a cell has room for its time alone.
_MANY: Final = 10
# Cells grow with the square of the ends: 65 ends make a megabyte of a page.
MOST_ENDS: Final = 64
# What makes this share of its way is named alone.
_MOST: Final = 0.6


def picture(results: Results) -> Picture:
    """The routes of `peer_matrix`, and which of them takes most time."""
    rows = results.table("peer_matrix").select(_SHOWN)
    return Picture(_finding(rows.to_pylist()), rows)


def _finding(rows: list[Row]) -> str:
    """The way that takes most time, and its route where one route makes most of it."""
    if not rows:
        return ""
    ways: dict[str, list[Row]] = {}
    for row in rows:
        ways.setdefault(_way(row), []).append(row)
    way = max(ways, key=lambda way: _sum_ns(ways[way]))
    total, of_way = _sum_ns(rows), _sum_ns(ways[way])
    most = max(ways[way], key=lambda row: int(row["total_ns"]))
    if most["total_ns"] < _MOST * of_way:
        return f"Copies {way} take most time: {_part(of_way, total)}"
    path = "" if most["path"] == "direct" else f" {label(most['path'])}"
    rate = f", at {format_rate(most['bytes_per_s'])}" if most["bytes_per_s"] else ""
    return (
        f"Copies from {most['src']} to {most['dst']}{path} take most time:"
        f" {_part(most['total_ns'], total)}{rate}"
    )


def _way(row: Row) -> str:
    ends = tuple("devices" if row[end].startswith("device") else row[end] for end in ("src", "dst"))
    return "between devices" if ends == ("devices", "devices") else f"from {ends[0]} to {ends[1]}"


def _sum_ns(rows: list[Row]) -> int:
    return sum(row["total_ns"] for row in rows)


def _part(ns: int, total: int) -> str:
    return f"{say_ns(ns)}, {say_share(ns / total if total else None)} of all transfers"


def of_busiest_ends(rows: list[Row]) -> tuple[list[Row], str]:
    """The routes between the ends whose copies take most time, as many as a picture has room for.

    Returns:
        The rows, and words on those that are left out; empty where there are none.
    """
    total_ns = Counter[str]()
    for row in rows:
        total_ns.update({row["src"]: row["total_ns"]})
        total_ns.update({row["dst"]: row["total_ns"] if row["dst"] != row["src"] else 0})
    if len(total_ns) <= MOST_ENDS:
        return rows, ""
    busiest = {end for end, _ in total_ns.most_common(MOST_ENDS)}
    of_these = [row for row in rows if {row["src"], row["dst"]} <= busiest]
    return of_these, f"the {MOST_ENDS} of {len(total_ns):,} ends with the most time of copies"


def draw(shown: Picture) -> "Figure":
    """A row per source, a column per destination; the darker, the more time."""
    rows, note = of_busiest_ends(shown.rows.to_pylist())
    ends = sorted({row[end] for row in rows for end in ("src", "dst")}, key=place)
    cells = _cells(rows)
    largest = max(sum(row["total_ns"] for row in cell_rows) for cell_rows in cells.values())
    figure = canvas.new_figure(2.2 + _CELL_INCHES * len(ends))
    axes = figure.subplots()
    factor, unit = time_axis(largest)
    image = axes.imshow(
        [
            [_sum_ns(cells[src, dst]) / factor if (src, dst) in cells else nan for dst in ends]
            for src in ends
        ],
        cmap=_COLOURS,
        vmin=0,
        aspect="auto",
    )
    for (src, dst), cell_rows in cells.items():
        _write(
            axes, (ends.index(dst), ends.index(src)), cell_rows, largest, is_short=len(ends) > _MANY
        )
    names = [*map(shown.device_names.in_text, ends)]
    axes.set_xticks(range(len(ends)), names)
    axes.set_yticks(range(len(ends)), names)
    axes.set(xlabel=f"to ({note})" if note else "to", ylabel="from")
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    borders = [number - 0.5 for number in range(len(ends) + 1)]
    axes.set_xticks(borders, minor=True)
    axes.set_yticks(borders, minor=True)
    axes.grid(which="minor", color="#CCCCCC", linewidth=0.6)
    figure.colorbar(image, label=f"time of copies [{unit}]", pad=0.01).outline.set_visible(False)
    canvas.state(figure, shown.finding)
    return figure


def place(end: str) -> tuple[int, int]:
    """The host first, devices by number, what is unknown last."""
    order = {"host": 0, "unknown": 2}.get(end, 1)
    return order, int(end.rpartition(" ")[2]) if order == 1 else 0


def _cells(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """The paths of each pair of ends."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["src"], row["dst"]), []).append(row)
    return cells


def _write(
    axes: "Axes", where: tuple[int, int], cell_rows: list[Row], largest: int, *, is_short: bool
) -> None:
    total = sum(row["total_ns"] for row in cell_rows)
    lines = [say_ns(total)]
    if not is_short:
        lines += [_path_line(row, len(cell_rows)) for row in cell_rows]
    axes.text(
        *where,
        "\n".join(lines),
        ha="center",
        va="center",
        fontsize=9 if len(cell_rows) == 1 else 7.5,
        color="white" if largest and total > _DARK_FROM * largest else canvas.DARK,
    )


def _path_line(row: Row, paths: int) -> str:
    name = f"{label(row['path'])}\n" if paths > 1 or row["path"] != "direct" else ""
    gap = " " if paths > 1 else "\n"
    return f"{name}{format_bytes(row['bytes'])}{gap}{format_rate(row['bytes_per_s'])}"


CHART: Final = Chart(
    "matrix",
    "Time, bytes and throughput of copies from each device to each other",
    RECORDING,
    ("peer_matrix",),
    picture,
    draw,
)
