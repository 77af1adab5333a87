"""What the charts of a page show: bars and matrices drawn ahead, lines and lanes as data."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base.labels import label
from gpuprof.base.short_texts import cut
from gpuprof.base.units import format_bytes, format_ns, format_rate, format_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show.cells import clean
from gpuprof.show.contract import Row

_LEVELS: Final = 9
_STEPS_OF_SLICE: Final = 128
_LONGEST_NAME: Final = 160


class Segment(NamedTuple):
    """A part of a bar: its kind (which colours it), place and width in percent, and words."""

    kind: str
    start: float
    width: float
    words: str


class Bar(NamedTuple):
    """A bar: its name, the figure beside it, its parts, and whether its beginning is cut off."""

    name: str
    figure: str
    segments: tuple[Segment, ...]
    is_cut: bool = False


class Bars(NamedTuple):
    """Bars below each other.

    Args:
        bars: From the top.
        legend: Kind to name.
        is_wide: Whether the figures beside the bars are several words long.
    """

    bars: tuple[Bar, ...]
    legend: Mapping[str, str]
    is_wide: bool = False


class MatrixCell(NamedTuple):
    """What is written in a cell of a heat map, and how dark it is, 0 to 9."""

    lines: tuple[str, ...] = ()
    level: int = 0


class Matrix(NamedTuple):
    """A heat map of sources (rows) and destinations (columns)."""

    ends: tuple[str, ...]
    rows: tuple[tuple[MatrixCell, ...], ...]


class Figure(NamedTuple):
    """One chart of a page.

    Args:
        name: Unique on the page.
        title: The finding.
        caption: How it is to be read.
        shown: `Bars`, `Matrix`, `Placement`, data for the page's script, or None for a sentence.
        kind: "bars", "matrix", "placement", "sentence" where the title says everything, or which
            of the script's charts.
        table: Name of the table with the figures; empty for none.
    """

    name: str
    title: str
    caption: str
    shown: Any = None
    kind: str = "sentence"
    table: str = ""


def stacked(
    rows: Iterable[tuple[str, Sequence[tuple[str, float | None]], float | None]],
    names: Mapping[str, str],
    show: Callable[[float | None], str] = format_ns,
) -> Bars:
    """Bars of parts.

    Args:
        rows: Each bar's name, its parts as kind and size (None where unknown), and its total.
        names: Kind to name for people.
        show: A size for people; in ns where nothing is said.
    """
    bar_rows = list(rows)
    longest = max((sum(size or 0 for _, size in parts) for _, parts, _ in bar_rows), default=0) or 1
    bars = tuple(
        Bar(clean(name), show(total), tuple(_segments(name, parts, (names, show), longest)))
        for name, parts, total in bar_rows
    )
    used = {segment.kind for bar in bars for segment in bar.segments}
    return Bars(bars, {kind: name for kind, name in names.items() if kind in used})


def _segments(
    name: str,
    parts: Sequence[tuple[str, float | None]],
    words_of: tuple[Mapping[str, str], Callable[[float | None], str]],
    longest: float,
) -> Iterable[Segment]:
    names, show = words_of
    start = 0.0
    total = sum(size or 0 for _, size in parts) or 1
    for kind, size in parts:
        if size:
            words = f"{clean(name)}: {names[kind]} {show(size)} ({format_share(size / total)})"
            yield Segment(kind, 100 * start / longest, 100 * size / longest, words)
            start += size


def matrix(
    rows: Sequence[Row],
    place: Any,
    device_names: DeviceNames = NO_NAMES,
) -> Matrix:
    """Who copies to whom.

    Args:
        rows: Those of `peer_matrix`.
        place: Order of the ends.
        device_names: What people know the devices by.
    """
    ends = sorted({row[end] for row in rows for end in ("src", "dst")}, key=place)
    largest = max((row["total_ns"] for row in rows), default=0) or 1
    by_ends = groupby(sorted(rows, key=itemgetter("src", "dst")), key=itemgetter("src", "dst"))
    cells = {pair: _matrix_cell(list(paths), largest) for pair, paths in by_ends}
    lines = (tuple(cells.get((src, dst), MatrixCell()) for dst in ends) for src in ends)
    return Matrix(tuple(map(device_names.in_text, ends)), tuple(lines))


def _matrix_cell(rows: list[Row], largest: int) -> MatrixCell:
    total = sum(row["total_ns"] for row in rows)
    lines = [format_ns(total)]
    for row in rows:
        way = "" if row["path"] == "direct" else f"{label(row['path'])}: "
        # Below each other, so that nine ends fit beside each other.
        lines += [f"{way}{format_bytes(row['bytes'])}", format_rate(row["bytes_per_s"])]
    return MatrixCell(tuple(lines), min(_LEVELS, 1 + round((_LEVELS - 1) * total / largest)))


def lanes_data(
    table: pa.Table,
    kernels: Sequence[Row] = (),
    ranges: Sequence[Row] = (),
    device_names: DeviceNames = NO_NAMES,
) -> dict[str, Any]:
    """The rows of `lanes` for the page's timeline.

    Each lane has its exposed and its hidden intervals as one flat list of three whole numbers
    per interval: the pause since the last one's end, the length, and how much of it is idle.
    They are in units of ``unit`` ns, a part of a slice too small to be seen, from ``first`` on,
    in ns since the recording's origin.

    Kernels and marks (steps and ranges) are flat lists, too, of three or four numbers: the time
    since the last one's start, the length, the place of the name in ``names``, and how many
    kernels it stands for.

    Args:
        table: Rows of `lanes`.
        kernels: Those of `lane_kernels`, under the names to show.
        ranges: Those of `lane_ranges`.
        device_names: What people know the devices by.
    """
    first, last, slice_ns = (
        int(find(table.column(name)).as_py())
        for name, find in (("start_ns", pc.min), ("end_ns", pc.max), ("slice_ns", pc.min))
    )
    unit = max(1, slice_ns // _STEPS_OF_SLICE)
    lanes: dict[tuple[int | None, str], dict[str, Any]] = {}
    for (device, lane, is_exposed), part in _parts(table):
        head = {"device": device, "owner": device_names.called(device)}
        head |= {"lane": lane, "name": label(lane)}
        intervals = lanes.setdefault((device, lane), head | {"exposed": [], "hidden": []})
        intervals["exposed" if is_exposed else "hidden"] = _deltas(part, first, unit)
    names = _Names()
    of_lane = itemgetter("device_id", "lane")
    for key, rows in groupby(kernels, key=of_lane):
        if key in lanes:
            lanes[key]["kernels"] = _named(rows, "name", names, (first, unit))
    marks: dict[int | None, list[dict[str, Any]]] = {}
    for (device, level), rows in groupby(ranges, key=itemgetter("device_id", "level")):
        head = {"device": device, "owner": device_names.called(device)}
        head |= {"lane": "marks", "name": "NVTX ranges" if level else "steps"}
        marked = _named(rows, "text", names, (first, unit))
        marks.setdefault(device, []).append(head | {"marks": marked})
    by_device = groupby(lanes.values(), key=itemgetter("device"))
    lists = [lane for device, of in by_device for lane in (*marks.get(device, ()), *of)]
    times = {"first": first, "length": last - first, "slice": slice_ns, "unit": unit}
    return times | {"names": names.listed, "lanes": lists}


class _Names:
    """Names, each once, by their places."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, name: str) -> int:
        """Where a name stands, at the end if it is new."""
        if name not in self._places:
            self._places[name] = len(self.listed)
            self.listed.append(cut(clean(name), _LONGEST_NAME))
        return self._places[name]


def _named(rows: Iterable[Row], key: str, names: _Names, scale: tuple[int, int]) -> list[int]:
    """Times, names and, of kernels, counts as one flat list; rows are sorted by start."""
    first, unit = scale
    flat, before = [], 0
    for row in rows:
        begun, ended = (row["start_ns"] - first) // unit, -((first - row["end_ns"]) // unit)
        flat += [begun - before, ended - begun, names.place(row[key])]
        flat += [row["kernels"]] if "kernels" in row else []
        before = begun
    return flat


def _parts(table: pa.Table) -> Iterator[tuple[tuple[int | None, str, bool], pa.Table]]:
    """The rows of each lane, exposed or hidden; they follow one another in the table."""
    names = ("device_id", "lane", "is_exposed")
    keys = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    at = 0
    for key, rows in groupby(keys):
        length = sum(1 for _ in rows)
        yield key, table.slice(at, length)
        at += length


def _deltas(rows: pa.Table, first: int, unit: int) -> list[int]:
    start, end, busy = (rows.column(n).to_numpy() for n in ("start_ns", "end_ns", "busy_ns"))
    # What is rounded are places, not lengths, so that nothing adds up.
    begun, ended = (start - first) // unit, -((first - end) // unit)
    pause = begun - np.concatenate([[0], ended[:-1]])
    idle = (ended - begun) - np.maximum(-(-busy // unit), 1)
    return np.stack([pause, ended - begun, np.maximum(idle, 0)], axis=1).ravel().tolist()
