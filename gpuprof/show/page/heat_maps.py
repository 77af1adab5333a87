"""What the devices of a job do when, on a page: a heat map for each part, as SVG."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from gpuprof.base.short_texts import shortened
from gpuprof.base.units import say_share, tick_ns
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show.cells import clean
from gpuprof.show.charts.ranks_over_time import (
    PARTS,
    device_rows,
    shares_of_slices,
    shown_parts,
    slice_starts,
)

WIDTH: Final = 1000
_NAMES_WIDTH: Final = 170
_LONGEST_NAME: Final = 24
_ROW: Final = 14
_MOST_HEIGHT: Final = 360
_LEAST_ROW_OF_NAME: Final = 12
_TITLE_HEIGHT: Final = 24
_AXIS_HEIGHT: Final = 20
# More cells of a panel are joined, so that a page stays small.
_MOST_CELLS: Final = 25_600
_LEVELS: Final = 9
_TICKS: Final = 5


class Label(NamedTuple):
    """A text: where it begins, or ends for names of devices."""

    x: float
    y: float
    text: str


class HeatRow(NamedTuple):
    """A device: its top, what a pointer over it says, and by level (0 to 9) a path of its cells."""

    y: float
    words: str
    paths: tuple[tuple[int, str], ...]


class Panel(NamedTuple):
    """A heat map: its title, the names of devices, and a row for each."""

    title: Label
    names: tuple[Label, ...]
    rows: tuple[HeatRow, ...]


class HeatMaps(NamedTuple):
    """Heat maps below each other, with one axis of time.

    Args:
        panels: From the top.
        ticks: Of the axis.
        height: Of all.
        cells_x: Where cells begin.
        scale: Width of a cell.
        row_height: Height of a row.
    """

    panels: tuple[Panel, ...]
    ticks: tuple[Label, ...]
    height: float
    cells_x: float
    scale: float
    row_height: float


def heat_maps(rows: pa.Table, names: DeviceNames = NO_NAMES) -> HeatMaps:
    """The heat maps of `ranks_over_time`, which has rows."""
    devices, starts = device_rows(rows, names), slice_starts(rows)
    row_height = min(_ROW, _MOST_HEIGHT / len(devices))
    joined = -(-len(starts) * len(devices) // _MOST_CELLS)
    panels, top = [], 0.0
    for part in shown_parts(rows):
        panels.append(_panel(part, devices, starts, (top, row_height, joined)))
        top += _TITLE_HEIGHT + row_height * len(devices)
    room = WIDTH - _NAMES_WIDTH
    ticks = tuple(
        Label(
            _NAMES_WIDTH + room * (tick - starts.start) / (starts.stop - starts.start),
            top + _AXIS_HEIGHT - 4,
            tick_ns(tick),
        )
        for tick in _ticks(starts)
    )
    scale = room * joined / len(starts)
    return HeatMaps(tuple(panels), ticks, top + _AXIS_HEIGHT, _NAMES_WIDTH, scale, row_height)


def _ticks(starts: range) -> range:
    """Round times within the slices, at least `_TICKS` of them."""
    most_ns = max((starts.stop - starts.start) // _TICKS, 1)
    power = 10 ** (len(str(most_ns)) - 1)
    step = max(power * n for n in (1, 2, 5) if power * n <= most_ns)
    return range(-(-starts.start // step) * step, starts.stop + 1, step)


def _panel(
    part: str,
    devices: Sequence[tuple[str, pa.Table]],
    starts: range,
    layout: tuple[float, float, int],
) -> Panel:
    """A panel.

    Args:
        part: The column that it shows.
        devices: Names and rows of the devices.
        starts: When the slices start.
        layout: Its top, the height of a row, and how many slices are one cell.
    """
    top, row_height, joined = layout
    top += _TITLE_HEIGHT
    stride = max(round(_LEAST_ROW_OF_NAME / row_height), 1)
    named, heat_rows = [], []
    for place, (name, rows) in enumerate(devices):
        y = top + place * row_height
        shares = shares_of_slices(rows, part, starts)
        mean = sum(rows[part].to_pylist()) / sum(rows["recorded_ns"].to_pylist())
        words = f"{clean(name)}: {PARTS[part][0]} {say_share(mean)}"
        heat_rows.append(HeatRow(y, words, tuple(_paths(_cells(shares, joined)))))
        if place % stride == 0:
            text = shortened(clean(name), _LONGEST_NAME)
            named.append(Label(_NAMES_WIDTH - 6, y + row_height / 2 + 4, text))
    return Panel(Label(_NAMES_WIDTH, top - 7, PARTS[part][0]), tuple(named), tuple(heat_rows))


def _cells(shares: Sequence[float | None], joined: int) -> list[int | None]:
    """The level of each cell, of the mean of its slices; None where nothing was recorded."""
    cells: list[int | None] = []
    for begin in range(0, len(shares), joined):
        recorded = [share for share in shares[begin : begin + joined] if share is not None]
        cells.append(round(_LEVELS * sum(recorded) / len(recorded)) if recorded else None)
    return cells


def _paths(cells: Sequence[int | None]) -> Iterator[tuple[int, str]]:
    """By level the runs of its cells, as one path of lines each; a cell is 1 wide.

    The last cell may be of fewer slices than others, and is as wide.
    """
    runs: dict[int, list[str]] = {}
    begin = 0
    for place in range(1, len(cells) + 1):
        if place < len(cells) and cells[place] == cells[begin]:
            continue
        level = cells[begin]
        if level is not None:
            runs.setdefault(level, []).append(f"M{begin} 0h{place - begin}")
        begin = place
    return ((level, "".join(runs[level])) for level in sorted(runs))
