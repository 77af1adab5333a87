"""What charts show, as data: panels of bars, columns, lines, cells, lanes or boxes.

Two drawers show them: `gpuprof.show.charts.drawing` with matplotlib, `gpuprof.show.page.figures`
on pages. All figures and words stand here; drawers find places for them.

Colours are those of Okabe and Ito, which colour-blind people tell apart; hatching tells them
apart in grey. Source: https://jfly.uni-koeln.de/color/
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.base.units import bytes_axis, say_ns, say_share, time_axis
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show.cells import clean
from gpuprof.show.output import Output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of an axis whose times can be given to --from and --to.
SINCE_ORIGIN: Final = "time since the recording's origin"
# Of many devices, charts show so many.
MOST_DEVICES: Final = 16
# Of the operations of a step: lanes, differences, and the letters of a name.
MOST_LANES: Final = 16
LARGEST: Final = 10
LONGEST_NAME: Final = 160
_PERCENT: Final = 100

Point = tuple[float, float]


@dataclass(frozen=True)
class Look:
    """How one kind of activity is shown: in the legend, on pages (``kind``), and in a picture."""

    name: str
    kind: str
    colour: str
    hatch: str = ""


KERNELS: Final = Look("compute kernels", "compute", "#0072B2")
COMMUNICATION: Final = Look("communication kernels", "communication", "#56B4E9", "---")
PEER: Final = Look("PtoP", "peer", "#D55E00", "///")
HTOD: Final = Look("HtoD", "htod", "#009E73", "...")
DTOH: Final = Look("DtoH", "dtoh", "#CC79A7", "xxx")
MANAGED: Final = Look("managed memory", "managed", "#F0E442", "|||")
LOCAL: Final = Look("local copies", "local", "#E69F00", "\\\\\\")
MEMSETS: Final = Look("memsets", "memset", "#999999", "ooo")
UNKNOWN: Final = Look("unknown copies", "unknown", "#555555", "+++")
NOTHING: Final = Look("idle", "idle", "#EEEEEE")


class Part(NamedTuple):
    """A part of a bar.

    Args:
        bar: Place of the bar, from the top.
        look: How it looks.
        start: Where it starts, in the unit of the panel.
        end: Where it ends.
        words: What a pointer over it says.
        label: What is written into it.
    """

    bar: int
    look: Look
    start: float
    end: float
    words: str = ""
    label: str = ""


@dataclass(frozen=True)
class Bars:
    """Bars from the left to the right, below each other.

    Args:
        names: What each bar is of, from the top.
        parts: Of all bars.
        looks: Of the parts, in the order of the legend.
        figures: What stands behind each bar.
        label: What the lengths are.
        note: What is said of the axis beside that.
        unit: Of starts and ends: ns, B or s.
        title: What the panel is of.
        first: Where the axis starts; bars that start before it are cut.
        last: Where it ends; with the longest bar where None.
        ranges: From where to where each bar's end varies.
    """

    names: Sequence[str]
    parts: Sequence[Part]
    looks: Sequence[Look]
    figures: Sequence[str] = ()
    label: str = ""
    note: str = ""
    unit: str = "ns"
    title: str = ""
    first: float = 0
    last: float | None = None
    ranges: Sequence[Point] = ()

    @property
    def end(self) -> float:
        """Where the axis ends."""
        return max((p.end for p in self.parts), default=0) if self.last is None else self.last


@dataclass(frozen=True)
class Columns:
    """Columns beside each other, of parts on one another.

    Args:
        series: The look of each part, and its height in each column.
        quantity: What the heights are.
        label: What the columns are.
        note: What is said of the axis beside that.
        unit: Of heights: ns, B or share.
        names: What a pointer over each column says.
        ticks: What stands below each column.
        pale: Whether each column is set aside.
        levels: The first and last column of a stretch, its usual height or None, and its name.
        edges: Where columns begin and end, for columns on an axis of numbers; of columns over
            time, where each begins and the last one ends.
        counts: Of how many each column is, in a row above all.
        ranges: From the least to the greatest height of what each column is the mean of.
        mark: The place, height and name of what the title names; None for none.
        title: What the panel is of.
        inches: Height of the panel.
        is_over_time: Whether columns are slices of time, which touch.
    """

    series: Sequence[tuple[Look, Sequence[float]]]
    quantity: str
    label: str = ""
    note: str = ""
    unit: str = "ns"
    names: Sequence[str] = ()
    ticks: Sequence[str] = ()
    pale: Sequence[bool] = ()
    levels: Sequence[tuple[int, int, float | None, str]] = ()
    edges: Sequence[float] = ()
    counts: Sequence[str] = ()
    ranges: Sequence[Point] = ()
    mark: tuple[int, float, str] | None = None
    title: str = ""
    inches: float = 3.2
    is_over_time: bool = False


class Series(NamedTuple):
    """Points of one line.

    Args:
        name: Of the line.
        points: From the left to the right.
        number: Which of the colours; None for what was not measured.
        style: curve, points, fit, dashed, dotted or star.
        legend: The entry of the legend that it shares with others; its name where empty.
        ranges: At each point, from where to where it varies.
        look: Of what else shows the same; None for one by the number.
    """

    name: str
    points: Sequence[Point]
    number: int | None = None
    style: str = "curve"
    legend: str = ""
    ranges: Sequence[Point] = ()
    look: Look | None = None


@dataclass(frozen=True)
class Lines:
    """Lines over an axis of numbers.

    Args:
        series: The lines.
        x: What the axis is.
        y: What the heights are.
        x_ticks: Measured values; empty for bytes in powers of two.
        is_log: Whether heights are logarithmic, and are times in ns; else they begin at 0.
        inches: Height of the panel.
    """

    series: Sequence[Series]
    x: str
    y: str
    x_ticks: Sequence[float] = ()
    is_log: bool = False
    is_from_zero: bool = False
    inches: float = 3.3


@dataclass(frozen=True)
class HeatMap:
    """Cells in rows and columns, the darker the more.

    Args:
        rows: Their names.
        columns: Their names.
        values: Of each row the value in each column; None where there is none.
        scale: What the values are.
        unit: Of the values: ns, share, or change (a share more or less than usual).
        texts: What is written into cells, by row and column, in lines.
        words: What a pointer over each row says.
        times: From when to when the columns reach, in ns; None for columns with names.
        labels: What the columns and the rows are.
        title: What the panel is of.
        row_inches: Height of a row.
        inches: The least and the greatest height of the panel.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    scale: str
    unit: str
    texts: Mapping[tuple[int, int], Sequence[str]] | None = None
    words: Sequence[str] = ()
    times: tuple[int, int] | None = None
    labels: tuple[str, str] = ("", "")
    title: str = ""
    row_inches: float = 0.2
    inches: tuple[float, float] = (1.6, 8.0)


@dataclass(frozen=True)
class Lanes:
    """What runs when, a lane for each device and kind of activity.

    Args:
        names: Of the lanes, from the top.
        devices: Of the lanes.
        lanes: What each is of.
        looks: Of the lanes.
        edges: Of each lane, where its slices begin and end, in ns.
        exposed: Of each lane the share of each slice in which nothing of a lane further up runs.
        hidden: The share of each slice in which something does.
        span: From when to when the axis reaches, in ns.
        label: What the axis is.
        origin: The instant of which the axis' times are counted, in ns.
        note: Which devices these are.
        marks: Instants to mark.
        frame: From when to when the next panel reaches, and its name; None for no such panel.
    """

    names: Sequence[str]
    devices: Sequence[int | None]
    lanes: Sequence[str]
    looks: Sequence[Look]
    edges: Sequence[Any]
    exposed: Sequence[Any]
    hidden: Sequence[Any]
    span: tuple[int, int]
    label: str
    origin: int = 0
    note: str = ""
    marks: Sequence[int] = ()
    frame: tuple[int, int, str] | None = None


class Box(NamedTuple):
    """A rectangle: its left and top, width and height, name, look, and what a pointer says."""

    x: float
    y: float
    width: float
    height: float
    label: str
    look: Look | None = None
    words: str = ""
    is_marked: bool = False


class Arrow(NamedTuple):
    """What goes from one box to another: its ends, width, and a figure at a place, or none."""

    look: Look
    start: Point
    end: Point
    width: float
    words: str
    figure: str = ""
    place: Point = (0, 0)


@dataclass(frozen=True)
class Boxes:
    """Boxes in boxes in boxes, and arrows between them; heights are rows of text.

    Args:
        width: Of all.
        height: Of all.
        outer: Boxes.
        inner: Boxes in them.
        parts: Boxes in these.
        arrows: From part to part.
        mark: How marked parts look.
    """

    width: float
    height: float
    outer: Sequence[Box]
    inner: Sequence[Box]
    parts: Sequence[Box]
    arrows: Sequence[Arrow]
    mark: Look


Panel = Bars | Columns | Lines | HeatMap | Lanes | Boxes


@dataclass(frozen=True)
class Results:
    """Result tables to draw from.

    Args:
        tables: Name to table; None where the recording cannot tell.
        headline: The finding of a comparison.
        baseline: What a comparison is with.
        phase: The phase whose steps are compared; None where there is only one.
        device_names: What people know the devices by.
        steps: A typical step of each side of a comparison, as `side_by_side` gives them.
    """

    tables: Mapping[str, pa.Table | None]
    headline: str = ""
    baseline: str = ""
    phase: str | None = None
    device_names: DeviceNames = NO_NAMES
    steps: Callable[[], dict[str, Any] | None] = lambda: None

    def table(self, name: str) -> pa.Table:
        """A table that is known to be there."""
        table = self.tables[name]
        assert table is not None, name  # noqa: S101 - `picture_of` has looked
        return table

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Its rows."""
        return list(self.table(name).to_pylist())


class Picture(NamedTuple):
    """What a chart shows.

    Args:
        finding: What there is to see, in a sentence: the title.
        rows: What is drawn, in base units: the data beside the picture.
        panels: What is drawn, for drawers; none where there is nothing to draw.
        is_beside: Whether the panels stand beside each other, not below.
    """

    finding: str
    rows: pa.Table
    panels: Sequence[Panel]
    is_beside: bool = False


class Chart(NamedTuple):
    """One kind of chart.

    Args:
        name: As in ``gpuprof plot NAME``.
        title: What it shows, in a line.
        subject: What it is about: a recording, a comparison or a sweep.
        tables: The result tables it is drawn from.
        picture: Result tables -> what is drawn; no rows where there is nothing to draw.
    """

    name: str
    title: str
    subject: str
    tables: tuple[str, ...]
    picture: Callable[[Results], Picture]


def round_step(least: float) -> int:
    """The least of 1, 2, 5, 10, 20, ... that is not less than a number."""
    power: int = 10 ** max(len(str(int(least))) - 1, 0)
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least)


def scale_of(panel: Bars | Columns | HeatMap) -> tuple[float, str]:
    """How much one step of an axis' unit is in the unit of the panel, and its name."""
    if isinstance(panel, Bars):
        largest: float = panel.end
    elif isinstance(panel, HeatMap):
        largest = max((value or 0 for row in panel.values for value in row), default=0)
    else:
        largest = max(map(sum, zip(*(heights for _, heights in panel.series), strict=True)))
    scales: Mapping[str, Callable[[float], tuple[float, str]]] = {"ns": time_axis, "B": bytes_axis}
    if panel.unit in scales:
        return scales[panel.unit](largest)
    return (1, panel.unit) if panel.unit == "s" else (1 / _PERCENT, "%")


def choose_devices(busy: Mapping[int | None, float]) -> tuple[frozenset[int | None], str]:
    """All devices, or of more than `MOST_DEVICES` as many busy as idle ones.

    Args:
        busy: How much each device is busy, in any unit.

    Returns:
        The devices, and which of how many they are; empty where they are all.
    """
    if len(busy) <= MOST_DEVICES:
        return frozenset(busy), ""
    half = MOST_DEVICES // 2
    ordered = sorted(busy, key=lambda device: busy[device])
    return (
        frozenset((*ordered[:half], *ordered[-half:])),
        f"the {half} busiest and the {half} least busy of {len(busy):,} devices",
    )


def stacked(  # noqa: PLR0913 - what bars consist of
    names: Sequence[str],
    parts_of: Sequence[Sequence[tuple[Look, float | None]]],
    totals: Sequence[float | None],
    show: Callable[[float | None], str] = say_ns,
    *,
    label: str = "",
    unit: str = "ns",
) -> Bars:
    """Bars of parts, each with its share.

    Args:
        names: Of the bars.
        parts_of: Looks and sizes of each bar's parts; None where unknown.
        totals: What stands behind each bar.
        show: A size for people.
        label: What the sizes are.
        unit: Of sizes.
    """
    parts = []
    for place, (name, sizes) in enumerate(zip(names, parts_of, strict=True)):
        start, total = 0.0, sum(size or 0 for _, size in sizes) or 1
        for look, size in sizes:
            if size:
                share = say_share(size / total)
                words = f"{clean(name)}: {look.name} {show(size)} ({share})"
                parts.append(Part(place, look, start, start + size, words))
                start += size
    looks = dict.fromkeys(look for sizes in parts_of for look, _ in sizes)
    return Bars(names, parts, tuple(looks), [*map(show, totals)], label, unit=unit)


def figure_of(picture: Picture) -> "Figure":
    """A picture as a figure of matplotlib."""
    from gpuprof.show.charts import drawing  # noqa: PLC0415 - 0.5 s that only pictures need

    return drawing.figure_of(picture)


def save(picture: Picture, output: Output, *, is_dark: bool = False) -> None:
    """Draw a picture into a file of the kind that its ending names.

    Raises:
        OutputError: It cannot be written; no partial file is left behind.
    """
    from gpuprof.show.charts import drawing  # noqa: PLC0415 - 0.5 s that only pictures need

    drawing.save(picture, output, is_dark=is_dark)
