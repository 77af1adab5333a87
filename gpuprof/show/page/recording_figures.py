"""The charts of the page of one recording."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import pyarrow as pa

from gpuprof.analyses.reports import Report
from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import shortened_apart
from gpuprof.base.units import capital, say_ns, say_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.show.cells import clean
from gpuprof.show.charts import copy_sizes, kernels, ranks_over_time, steps, utilisation
from gpuprof.show.charts import matrix as matrix_chart
from gpuprof.show.charts import placement as placement_chart
from gpuprof.show.charts.device_choice import DeviceChoice, choose_devices
from gpuprof.show.charts.results import of_report
from gpuprof.show.charts.utilisation import device_name
from gpuprof.show.contract import Row
from gpuprof.show.page.figures import Bar, Bars, Figure, Segment, lanes_data, matrix, stacked
from gpuprof.show.page.heat_maps import heat_maps
from gpuprof.show.page.lines import copy_size_lines, step_columns, utilisation_lines
from gpuprof.show.page.placement import placement

# What takes less has no chart.
_LEAST_SHARE: Final = 0.01
_LEAST_STEPS: Final = 2
_LONGEST_NAME: Final = 160
_PARTS: Final = {
    "compute_ns": ("compute", "compute"),
    "exposed_communication_ns": ("communication", "exposed communication"),
    "exposed_transfer_ns": ("peer", "exposed transfers"),
    "exposed_local_copy_ns": ("local", "exposed local copies"),
    "idle_ns": ("idle", "idle"),
}
_MARKS: Final = (
    " Steps and NVTX ranges last from the start of the first activity that they launched on the"
    " device to the end of the last; of many ranges, the longest are shown."
)


def figures(result: Report) -> list[Figure]:
    """The charts whose tables the recording has."""
    figures_of = {
        "placement": _placement,
        "breakdown": _breakdown,
        "lanes": _timeline,
        "ranks_over_time": _ranks_over_time,
        "steps": _steps,
        "top_activities": _kernels,
        "peer_matrix": _matrix,
        "utilisation_over_time": _utilisation,
        "copy_sizes": _copy_sizes,
    }
    drawn = (
        figure_of(result)
        for name, figure_of in figures_of.items()
        if (table := result.tables.get(name)) is not None and table.num_rows
    )
    called = result.device_names.in_text
    return [figure._replace(title=called(figure.title)) for figure in drawn if figure is not None]


def _placement(result: Report) -> Figure | None:
    """Where the parts of a TensorFlow model run."""
    names = placement_chart.CHART.tables
    if any(result.tables.get(name) is None for name in names):
        return None
    shown = placement_chart.CHART.picture(of_report(result))
    # The verdict has said a hint.
    title = placement_chart.CHART.title if result.rows("placement_hints") else shown.finding
    return Figure(
        "placement",
        title,
        "Devices with the parts of the model that run on them, in the order of the forward pass."
        " Arrows are copies between devices in a step; the thicker, the more bytes.",
        placement(shown.rows.to_pylist()),
        "placement",
        "placement_edges",
    )


def _device_choice(result: Report) -> DeviceChoice:
    """The devices that a page draws one by one; its tables have all of them."""
    busy = {
        row["device_id"]: 1 - row["idle_ns"] / max(row["span_ns"], 1)
        for row in result.rows("breakdown")
    }
    return choose_devices(busy)


def _on_left_out(result: Report) -> str:
    """Words on the devices that are not drawn, after a caption; empty for none."""
    words = _device_choice(result).words
    if not words:
        return ""
    option = "rank" if result.tables.get("ranks_over_time") is not None else "device"
    return f" Shown: {words}. gpuprof report --{option} N --html shows {option} N alone."


def _breakdown(result: Report) -> Figure:
    devices = _device_choice(result).devices
    rows = [row for row in result.rows("breakdown") if row["device_id"] in devices]
    return breakdown(rows, _on_left_out(result), result.device_names)


def breakdown(rows: Sequence[Row], on_left_out: str = "", names: DeviceNames = NO_NAMES) -> Figure:
    """A bar per device of what its time went to.

    Args:
        rows: Of the table `breakdown`.
        on_left_out: What the caption says of devices that are not among them.
        names: What people know them by.
    """
    bars = stacked(
        [
            (
                names.called(row["device_id"]),
                [(kind, row[part]) for part, (kind, _) in _PARTS.items()],
                row["span_ns"],
            )
            for row in rows
        ],
        dict(_PARTS.values()),
    )
    return Figure(
        "breakdown",
        "Where each device's time went",
        "Each instant of a device's span belongs to the first that runs of compute,"
        f" communication, transfers and local copies, else it is idle.{on_left_out}",
        bars,
        "bars",
        "breakdown",
    )


def _of_devices(table: pa.Table, choice: DeviceChoice) -> pa.Table:
    """The rows of the devices that are drawn."""
    if not choice.words:  # all of them
        return table
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that pages of few devices do not need

    devices = choice.devices
    return table.filter(pc.is_in(table.column("device_id"), pa.array(devices, pa.int64())))


def _timeline(result: Report) -> Figure:
    choice = _device_choice(result)
    ranges, of_lanes = (
        [row for row in result.rows(name) if row["device_id"] in choice.devices]
        for name in ("lane_ranges", "lane_kernels")
    )
    shown = short_names(row["name"] for row in of_lanes)
    named = [row | {"name": shown[row["name"]]} for row in of_lanes]
    lanes = _of_devices(result.tables["lanes"], choice)
    data = lanes_data(lanes, named, ranges, result.device_names)
    detail = f" What starts within {say_ns(data['slice'])} is one bar." if data["slice"] > 1 else ""
    marks = _MARKS if ranges else ""
    return Figure(
        "timeline",
        "What each device did when",
        "Full colour: nothing of a lane further up runs (exposed); pale: something does"
        f" (hidden). The height is the share of the time that is busy.{detail}{marks} Point at a"
        " lane for what runs there. Drag to zoom, double-click or All for everything, Ctrl or"
        f" Shift and the wheel to zoom.{_on_left_out(result)}",
        data,
        "timeline",
    )


def _ranks_over_time(result: Report) -> Figure | None:
    """What the devices of a job do when."""
    shown = ranks_over_time.CHART.picture(of_report(result))
    return Figure(
        "ranks-over-time",
        shown.finding,
        "A row per device. The darker, the more of the time; empty where it was not recorded.",
        heat_maps(shown.rows, result.device_names),
        "heat-maps",
        "breakdown",
    )


def _steps(result: Report) -> Figure | None:
    rows = result.rows("steps")
    if len({row["step"] for row in rows}) < _LEAST_STEPS:
        return None
    shown = steps.CHART.picture(of_report(result))
    return Figure(
        "steps",
        shown.finding,
        "What the time of each step went to, on the device that computes most. Pale: warm-up and"
        " steps that are cut off. Dashed: the median of the phase.",
        step_columns(shown.rows.to_pylist()),
        "columns",
        "phases",
    )


def _kernels(result: Report) -> Figure | None:
    """The kernels that take most time; of a summary those that it lists first."""
    rows = result.rows("kernel_summary") or [
        row for row in result.rows("top_activities") if row["activity_kind"] == "kernel"
    ]
    groups = {row["activity_group"]: row for row in result.rows("totals")}
    group = groups.get("kernels")
    costliest = kernels.top(rows, group["total_ns"] if group else None)
    if not costliest:
        return None
    if group and group["share"] is not None and group["share"] < _LEAST_SHARE:
        return Figure(
            "kernels",
            f"Kernels take {say_share(group['share'])} of the GPU time",
            "That is too little to draw.",
            table="kernel_summary",
        )
    return Figure(
        "kernels",
        kernels.finding(costliest),
        "Time of each kernel, summed over devices, its share of the time of all kernels, and its"
        " calls.",
        _kernel_bars(costliest),
        "bars",
        "kernel_summary" if result.rows("kernel_summary") else "top_activities",
    )


def _kernel_bars(rows: Sequence[Row]) -> Bars:
    longest = max(row["total_ns"] for row in rows) or 1
    bars = []
    names = [clean(kernels.bar_name(row)) for row in rows]
    for row, name, shown in zip(rows, names, shortened_apart(names, _LONGEST_NAME), strict=True):
        figure = kernels.figure_words(row)
        width = 100 * row["total_ns"] / longest
        segment = Segment(kernels.look(row).kind, 0, width, f"{name}: {figure}")
        bars.append(Bar(shown, figure, (segment,)))
    looks = {look.kind: look.name for look in map(kernels.look, rows)}
    return Bars(tuple(bars), looks, is_wide=True)


def _transfer_share(result: Report) -> tuple[float, str]:
    """The share of its time for which the device that transfers most does so, and its name."""
    shares = [
        (row["busy_transfer_ns"] / row["span_ns"], device_name(row["device_id"]))
        for row in result.rows("breakdown")
        if row["span_ns"]
    ]
    return max(shares, key=itemgetter(0), default=(1.0, ""))


def _matrix(result: Report) -> Figure:
    share, device = _transfer_share(result)
    if share < _LEAST_SHARE:
        return Figure(
            "matrix",
            f"{capital(device)} transfers {say_share(share)} of the time, more than any other",
            "Too little to draw where to, and in which sizes.",
            table="peer_matrix",
        )
    rows, note = matrix_chart.of_busiest_ends(result.rows("peer_matrix"))
    shown = f" Shown: {note}." if note else ""
    return Figure(
        "matrix",
        matrix_chart.CHART.picture(of_report(result)).finding,
        "Rows are sources, columns destinations: time, then bytes and throughput. The darker,"
        f" the more time.{shown}",
        matrix(rows, matrix_chart.place, result.device_names),
        "matrix",
        "peer_matrix",
    )


def _utilisation(result: Report) -> Figure:
    devices = _device_choice(result).devices
    rows = [r for r in result.rows("utilisation_over_time") if r["device_id"] in devices]
    return Figure(
        "utilisation",
        utilisation.CHART.picture(of_report(result)).finding,
        "Share of each of twenty equal slices of the time at which a kernel runs."
        f"{_on_left_out(result)}",
        utilisation_lines(rows, result.device_names),
        "lines",
        "utilisation_over_time",
    )


def _copy_sizes(result: Report) -> Figure | None:
    if _transfer_share(result)[0] < _LEAST_SHARE:
        return None
    shown = copy_sizes.CHART.picture(of_report(result))
    return Figure(
        "copy-sizes",
        shown.finding,
        "Mean duration of the copies of each size; the line is latency + bytes /"
        " bandwidth, fitted to them. Where it is level, copies are too small for their link.",
        copy_size_lines(shown.rows.to_pylist()),
        "lines",
        "copy_sizes",
    )
