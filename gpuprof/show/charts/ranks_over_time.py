"""What the devices of all ranks do when, as heat maps: a row per device, a column per slice."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof.base.units import capital, counted, listed, say_share, time_axis
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import RECORDING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE: Final = "ranks_over_time"
# Columns -> what devices do meanwhile, in titles and in sentences.
PARTS: Final = {
    "compute_ns": ("compute", "computes"),
    "communication_ns": ("communication that no compute hides", "communicates"),
    "copies_ns": ("copies and memsets that no kernel hides", "copies"),
    "idle_ns": ("idle", "idles"),
}
_COLOURS: Final = "cividis"
_PERCENT: Final = 100
# What takes less has no panel, and is left out of the title.
_LEAST_SHARE: Final = 0.01
# A device differs whose share is so much above the median.
_DIFFERS: Final = 0.05
_ROW_INCHES: Final = 0.16
_LEAST_INCHES, _MOST_INCHES = 0.8, 3.2
_MOST_LABELS: Final = 16

Shares = dict[str, list[float]]


def picture(results: Results) -> Picture:
    """The rows of `ranks_over_time`."""
    rows = results.table(TABLE)
    return Picture(finding(rows), rows)


def finding(rows: pa.Table) -> str:
    """What devices do in the median, and which differs most from that."""
    if not rows.num_rows:
        return ""
    names, shares = _shares(rows)
    usual = {part: median(shares[part]) for part in PARTS}
    words = [
        f"{verb} {say_share(usual[part])}"
        for part, (_, verb) in PARTS.items()
        if usual[part] >= _LEAST_SHARE
    ]
    if len(names) == 1:
        return f"{capital(names[0])} {listed(words)} of the time"
    text = f"Of {counted(len(names), 'device', 'devices')} the median {listed(words)} of the time"
    excess, place, part = max(
        (share - usual[part], place, part)
        for part, of_part in shares.items()
        for place, share in enumerate(of_part)
    )
    if excess <= _DIFFERS:
        return f"{text}; none differs by more than {say_share(_DIFFERS)}"
    return f"{text}; {names[place]} {PARTS[part][1]} {say_share(shares[part][place])}"


def _shares(rows: pa.Table) -> tuple[list[str], Shares]:
    """The names of the devices, and the share of its time that each spends on each part."""
    devices = device_rows(rows)
    names = [name for name, _ in devices]
    shares: Shares = {part: [] for part in PARTS}
    for _, of_device in devices:
        recorded_ns = sum(of_device["recorded_ns"].to_pylist())
        for part, of_part in shares.items():
            of_part.append(sum(of_device[part].to_pylist()) / recorded_ns)
    return names, shares


def device_rows(rows: pa.Table, names: DeviceNames = NO_NAMES) -> list[tuple[str, pa.Table]]:
    """The name and the rows of each device, in their order."""
    import numpy as np  # noqa: PLC0415 - start-up time
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    device = rows["device_id"].combine_chunks()
    places = pc.index_in(device, value_set=device.unique()).to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), rows.num_rows]
    tables = [rows.slice(begin, end - begin) for begin, end in pairwise(begins)]
    has_many = len({*rows["rank"].to_pylist()}) < len(tables)
    firsts = (table.slice(0, 1).to_pylist()[0] for table in tables)
    labels = (names.in_text(_name(first, has_many=has_many)) for first in firsts)
    return [*zip(labels, tables, strict=True)]


def _name(row: dict[str, Any], *, has_many: bool) -> str:
    """A device for people; only of ranks with many devices its number stands beside the rank."""
    device = f"device {row['device_id']}"
    host = "" if row["host"] is None else f" on {row['host']}"
    if row["rank"] is None:
        return f"{device}{host}"
    return f"rank {row['rank']}{f', {device}' if has_many else ''}{host}"


def shares_of_slices(rows: pa.Table, part: str, starts: range) -> list[float | None]:
    """What share of each slice a part takes on one device; None where it was not recorded."""
    names = ("start_ns", "recorded_ns", part)
    shares: list[float | None] = [None] * len(starts)
    for start, recorded, spent in zip(*(rows[n].to_pylist() for n in names), strict=True):
        shares[starts.index(start)] = spent / recorded
    return shares


def slice_starts(rows: pa.Table) -> range:
    """When the slices of all devices start in ns; as long as each is the step of the range."""
    starts, ends = (rows[name].to_pylist() for name in ("start_ns", "end_ns"))
    return range(min(starts), max(ends), ends[0] - starts[0])


def shown_parts(rows: pa.Table) -> Sequence[str]:
    """The parts that are worth a panel."""
    recorded_ns = sum(rows["recorded_ns"].to_pylist())
    return [p for p in PARTS if sum(rows[p].to_pylist()) >= _LEAST_SHARE * recorded_ns]


def draw(shown: Picture) -> "Figure":
    """A panel per part: the brighter, the more of the slice it takes."""
    from matplotlib import colormaps  # noqa: PLC0415 - half a second that only charts need

    devices = device_rows(shown.rows, shown.device_names)
    starts = slice_starts(shown.rows)
    parts = shown_parts(shown.rows)
    height = min(max(_ROW_INCHES * len(devices), _LEAST_INCHES), _MOST_INCHES)
    figure = canvas.new_figure(1.2 + len(parts) * (height + 0.4))
    panels = figure.subplots(len(parts), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    factor, unit = time_axis(starts.stop)
    stride = -(-len(devices) // _MOST_LABELS)
    for part, axes in zip(parts, panels, strict=True):
        shares = [shares_of_slices(rows, part, starts) for _, rows in devices]
        image = axes.imshow(
            [[float("nan") if s is None else _PERCENT * s for s in of_row] for of_row in shares],
            cmap=colormaps[_COLOURS],
            vmin=0,
            vmax=_PERCENT,
            aspect="auto",
            interpolation="nearest",
            extent=(starts.start / factor, starts.stop / factor, len(devices) - 0.5, -0.5),
        )
        axes.set_title(PARTS[part][0], loc="left", fontsize=9)
        labels = [canvas.label(name, lines=1) for name, _ in devices[::stride]]
        axes.set_yticks(range(0, len(devices), stride), labels)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    canvas.show_instants(panels[-1], starts.start / factor, starts.stop / factor)
    panels[-1].set_xlabel(f"{canvas.SINCE_ORIGIN} [{unit}]")
    bar = figure.colorbar(image, ax=[*panels], label="share of the time [%]", pad=0.01)
    bar.outline.set_visible(False)
    canvas.state(figure, shown.finding)
    return figure


CHART: Final = Chart(
    TABLE,
    "What the devices of all ranks do when: compute, communication, copies and idle time",
    RECORDING,
    (TABLE,),
    picture,
    draw,
)
