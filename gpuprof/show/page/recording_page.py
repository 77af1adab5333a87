"""The page of one recording: the worst finding first, then charts, tables and provenance."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.analyses import analysis_named
from gpuprof.analyses.reports import Report, report
from gpuprof.base.kernel_names import short_names
from gpuprof.base.units import capital, say_ns, say_share
from gpuprof.facts.hosts import NO_NAMES, DeviceNames, device_name
from gpuprof.findings.causes import time_and_share, winnings
from gpuprof.model.profile import Profile
from gpuprof.predict.predict import Prediction
from gpuprof.show import Row
from gpuprof.show.cells import clean, schema_columns
from gpuprof.show.charts import (
    copy_sizes,
    gpu_metrics,
    kernels,
    matrix,
    memory,
    placement,
    roofline,
    steps,
    timeline,
    utilisation,
)
from gpuprof.show.charts.catalogue import of_report
from gpuprof.show.charts.figure import choose_devices, stacked
from gpuprof.show.charts.step_path import KERNELS_OF_PATHS, path_of, rows_on_path
from gpuprof.show.overview import advice, first_findings, for_people, replay_command
from gpuprof.show.page.document import Card, Document, html
from gpuprof.show.page.figures import Figure, figure
from gpuprof.show.page.ranks_figure import ranks_figure
from gpuprof.show.page.tables import MOST_ROWS, page_table
from gpuprof.show.prediction import path_in_words

# What a page shows of a recording, beside what was asked for: what does not take much longer than
# the report itself. (Steps and the causes of idle time read all API calls.)
TABLES: Final = (
    "bottom_line",
    "findings",
    "breakdown",
    "phases",
    "totals",
    "peer_matrix",
    "transfers",
    "copy_speeds",
    "copy_sizes",
    "utilisation_over_time",
    "gpu_metric_means",
    "top_activities",
    "kernel_summary",
    "operator_rates",
    "memory",
    "placement_hints",
    "placement",
    "placement_edges",
    "tensor_transfers_per_step",
    "tensor_transfers",
)
# Shown where a run has them; of a run that was only timed, there is nothing else to see.
_OF_RUNS: Final = ("marked_epochs", "monitoring")
# What charts are drawn from; shown as tables only where they are asked for.
_DATA: Final = (
    "lanes", "lane_kernels", "lane_ranges", "steps", "memory_over_time", "gpu_metrics_over_time",
)  # fmt: skip
_DATA_OF_JOBS: Final = ("ranks_over_time", "ranks_in_step")
# Of a job that workers have read, in which no timeline is kept.
TABLES_OF_JOB: Final = (*TABLES, "ranks", "steps", *_DATA_OF_JOBS)
# The tables whose rows name the table that tells more.
_NAMING: Final = ("findings", "placement_hints")
_OPEN: Final = {"totals", "top_activities", "marked_epochs"}
_OPEN_OF_TENSORS: Final = {"placement_edges"}
_ORIGIN: Final = {
    "source": "File",
    "tool": "Tool",
    "tool_version": "Tool version",
    "exporter_version": "Exported by version",
    "reader": "Read as",
    "command": "Command",
    "variant": "Variant",
    "recorded_at": "Recorded",
}
# Charts that a page draws as pictures do, by the table that they are drawn from: the table that
# tells more, and the caption.
_AS_PICTURES: Final = {
    "gpu_metrics_over_time": (
        gpu_metrics.CHART,
        "gpu_metric_means",
        (
            "Samples of GPU metrics, over the same time as the timeline. The darker, the more of"
            " its peak; metrics that stay below 1 % are left out."
        ),
    ),
    "steps": (
        steps.CHART,
        "phases",
        (
            "What the time of each step went to, on the device that computes most. Pale: warm-up"
            " and steps that are cut off. Dashed: the median of the phase. Pink, where a column is"
            " the mean of several steps: from the shortest to the longest."
        ),
    ),
    "operator_rates": (
        roofline.CHART,
        "operator_rates",
        (
            "Time of the kernels of each operator with tensors of the same shapes. The coloured"
            " part is what its FLOPs and bytes take at the peaks of the GPU, whichever is longer."
        ),
    ),
}
# What takes less has no chart.
_LEAST_SHARE: Final = 0.01
_LEAST_STEPS: Final = 2
_PARTS: Final = steps.PARTS
_DETAILS: Final = (
    " Point at a lane for what runs there. Drag to zoom, double-click or All for everything, Ctrl"
    " or Shift and the wheel to zoom. Find marks kernels, steps and ranges by name; Enter"
    " shows each."
)
_PATH: Final = " Critical path stripes what a typical step waits for."
_MARKS: Final = (
    " Steps and NVTX ranges last from the start of the first activity that they launched on the"
    " device to the end of the last; of many ranges, the longest are shown."
)


def recording_page(
    profile: Profile, names: Sequence[str] = (), *, has_full_names: bool = False
) -> str:
    """A recording as one HTML file.

    Args:
        profile: The recording.
        names: Tables to show beside those that every page has.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    drawn = (*_DATA, *(("ranks", *_DATA_OF_JOBS) if profile.parts else ()), *_OF_RUNS)
    data = (name for name in drawn if not analysis_named(name).missing(profile))
    result = report(profile, tuple(dict.fromkeys((*TABLES, *data, *names))))
    tables = tuple(dict.fromkeys((*result.tables, *_named_tables(result))))
    # What was computed is kept: only the tables that findings name take time.
    complete = result if len(tables) == len(result.tables) else report(profile, tables)
    return report_page(complete, names, path_of(profile), has_full_names=has_full_names)


def report_page(
    report_of_page: Report,
    names: Sequence[str] = (),
    path: Prediction | None = None,
    *,
    has_full_names: bool = False,
) -> str:
    """A report as one HTML file, with a chart for each table that has one.

    Args:
        report_of_page: The report.
        names: Tables that were asked for.
        path: The critical path; None where it is not known.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    result = for_people(report_of_page, MOST_ROWS, has_full_names=has_full_names)
    named = {*names, *_named_tables(result)}
    has_tensors = bool(result.rows("placement_edges"))
    origin = result.origin
    source = clean(str(origin.source))
    of_findings, more = _cards(result)
    return html(
        Document(
            title=f"{origin.source.name} - gpuprof",
            heading=clean(f"{source}: {origin.recorder}, read as {origin.reader}"),
            verdict=verdict(result),
            cards=tuple(of_findings),
            more=more,
            figures=tuple(figures(result, path)),
            tables=tuple(
                page_table(
                    (name, analysis_named(name).title),
                    table,
                    schema_columns(name, table),
                    f"gpuprof report FILE --table {name} --format csv",
                    result.device_names,
                    is_open=name in (_OPEN_OF_TENSORS if has_tensors else _OPEN),
                )
                for name, table in result.tables.items()
                if table is not None
                and table.num_rows
                and (name not in {*_DATA, *_DATA_OF_JOBS} or name in named)
            ),
            notes=tuple(map(clean, result.notes)),
            provenance=tuple(
                (name, clean(str(value)))
                for field, name in _ORIGIN.items()
                if (value := getattr(origin, field))
            ),
        )
    )


def _named_tables(result: Report) -> list[str]:
    """The tables that tell more of findings."""
    return [row["table"] for name in _NAMING for row in result.rows(name)]


def verdict(result: Report) -> tuple[str, ...]:
    """The bottom line, its first sentence first; without it, what is known to take most."""
    for row in result.rows("bottom_line")[:1]:
        first, _, further = f"{capital(clean(row['bottom_line']))}.".partition(". ")
        return (f"{first}.", further) if further else (first,)
    top = result.rows("top_activities")
    if top and top[0]["total_ns"] is not None:
        share = "" if top[0]["share"] is None else f", {say_share(top[0]['share'])} of all"
        name = clean(top[0]["name"])
        time = say_ns(top[0]["total_ns"])
        return (f"{name} takes the most time of the listed activities: {time}{share}",)
    return ("Overview of this recording",)


def figures(result: Report, path: Prediction | None = None) -> list[Figure]:
    """The charts whose tables the recording has."""
    busy = {
        row["device_id"]: 1 - row["idle_ns"] / max(row["span_ns"], 1)
        for row in result.rows("breakdown")
    }
    devices, words = choose_devices(busy)
    option = "rank" if result.tables.get("ranks_over_time") is not None else "device"
    shown = f" Shown: {words}. gpuprof report --{option} N --html shows {option} N alone."
    on_left_out = shown if words else ""
    of_steps = result.tables.get("steps")
    numbers = () if of_steps is None else {*of_steps.column("step").to_pylist()}

    def chosen(name: str) -> list[Row]:
        return [row for row in result.rows(name) if row["device_id"] in devices]

    figures_of: dict[str, Callable[[], Sequence[Figure]]] = {
        "placement": lambda: _placement(result),
        "breakdown": lambda: [breakdown(chosen("breakdown"), on_left_out, result.device_names)],
        "lanes": lambda: [_timeline(result, chosen, on_left_out, path)],
        "gpu_metrics_over_time": lambda: _picture("gpu_metrics_over_time", result, on_left_out),
        "ranks_over_time": lambda: [ranks_figure(result)],
        "steps": lambda: _picture("steps", result) if len(numbers) >= _LEAST_STEPS else [],
        "top_activities": lambda: _kernels(result),
        "operator_rates": lambda: _picture("operator_rates", result),
        "peer_matrix": lambda: _copies(result),
        "utilisation_over_time": lambda: [
            _utilisation(result, chosen("utilisation_over_time"), on_left_out)
        ],
        "copy_sizes": lambda: _copy_sizes(result),
        "memory_over_time": lambda: [_memory(result)],
    }
    drawn = (
        figure
        for name, figures_of_table in figures_of.items()
        if (table := result.tables.get(name)) is not None and table.num_rows
        for figure in figures_of_table()
    )
    return [figure._replace(title=result.device_names.in_text(figure.title)) for figure in drawn]


def _picture(table: str, result: Report, on_left_out: str = "") -> list[Figure]:
    """A chart of `_AS_PICTURES`, if there is anything to draw."""
    chart, further, caption = _AS_PICTURES[table]
    shown = chart.picture(of_report(result))
    if not shown.panels:
        return []
    name = chart.name.replace("_", "-")
    return [figure(name, shown.finding, caption + on_left_out, shown.panels, further)]


def _placement(result: Report) -> list[Figure]:
    """Where the parts of a TensorFlow model run."""
    if any(result.tables.get(name) is None for name in placement.CHART.tables):
        return []
    shown = placement.picture(of_report(result))
    # The verdict has said a hint.
    title = placement.CHART.title if result.rows("placement_hints") else shown.finding
    caption = (
        "Devices with the parts of the model that run on them, in the order of the forward pass."
        " Arrows are copies between devices in a step; the thicker, the more bytes."
    )
    return [figure("placement", title, caption, shown.panels, "placement_edges")]


def breakdown(rows: Sequence[Row], on_left_out: str = "", names: DeviceNames = NO_NAMES) -> Figure:
    """A bar per device of what its time went to.

    Args:
        rows: Of the table `breakdown`.
        on_left_out: What the caption says of devices that are not among them.
        names: What people know them by.
    """
    bars = stacked(
        [names.called(row["device_id"]) for row in rows],
        [[(look, row[part]) for part, look in steps.PARTS.items()] for row in rows],
        [row["span_ns"] for row in rows],
    )
    caption = (
        "Each instant of a device's span belongs to the first that runs of compute,"
        f" communication, transfers and local copies, else it is idle.{on_left_out}"
    )
    return figure("breakdown", "Where each device's time went", caption, [bars], "breakdown")


def _timeline(
    result: Report,
    chosen: Callable[[str], list[Row]],
    on_left_out: str,
    path: Prediction | None,
) -> Figure:
    table = of_report(result).table("lanes")
    if on_left_out:
        drawn = {row["device_id"] for row in chosen("breakdown")}
        is_drawn = pc.is_in(table.column("device_id"), pa.array([*drawn], pa.int64()))
        table = table.filter(is_drawn)
    ranges, of_lanes = chosen("lane_ranges"), chosen("lane_kernels")
    on_path = [] if path is None else rows_on_path(path)
    kernels_on_path = (row for row in on_path if row["kind"] in KERNELS_OF_PATHS)
    shown = short_names(row["name"] for row in (*of_lanes, *kernels_on_path))
    named = [row | {"name": shown[row["name"]]} for row in of_lanes]
    on_path = [row | {"name": shown.get(row["name"], row["name"])} for row in on_path]
    data = timeline.intervals(table, named, ranges, result.device_names, on_path)
    if path is not None and on_path:
        data["path"] = [on_path[0]["start_ns"], max(row["end_ns"] for row in on_path)]
        data["of_path"] = path_in_words(path)
    shortest_ns, slice_ns = data["slices"]
    closer = f", in a typical step within {say_ns(shortest_ns)}" * (shortest_ns < slice_ns)
    detail = f" What starts within {say_ns(slice_ns)}{closer} is one bar." * (slice_ns > 1)
    caption = (
        "Full colour: nothing of a lane further up runs (exposed); pale: something does"
        f" (hidden). The height is the share of the time that is busy.{detail}"
        f"{_MARKS if ranges else ''}{_DETAILS}{_PATH if on_path else ''}{on_left_out}"
    )
    return Figure("timeline", "What each device did when", caption, "timeline", data)


def _kernels(result: Report) -> list[Figure]:
    """The kernels that take most time; of a summary those that it lists first."""
    rows = result.rows("kernel_summary") or [
        row for row in result.rows("top_activities") if row["activity_kind"] == "kernel"
    ]
    groups = {row["activity_group"]: row for row in result.rows("totals")}
    group = groups.get("kernels")
    costliest = kernels.top(rows, group["total_ns"] if group else None)
    if not costliest:
        return []
    if group and group["share"] is not None and group["share"] < _LEAST_SHARE:
        title = f"Kernels take {say_share(group['share'])} of the GPU time"
        return [Figure("kernels", title, "That is too little to draw.", table="kernel_summary")]
    caption = (
        "Time of each kernel, summed over devices, its share of the time of all kernels, and its"
        " calls."
    )
    table = "kernel_summary" if result.rows("kernel_summary") else "top_activities"
    bars = kernels.bars(costliest)
    caption += f" {capital(bars.note)}." * bool(bars.note)
    return [figure("kernels", kernels.finding(costliest), caption, [bars], table)]


def _transfer_share(result: Report) -> tuple[float, str]:
    """The share of its time for which the device that transfers most does so, and its name."""
    shares = [
        (row["busy_transfer_ns"] / row["span_ns"], device_name(row["device_id"]))
        for row in result.rows("breakdown")
        if row["span_ns"]
    ]
    return max(shares, key=lambda share: share[0], default=(1.0, ""))


def _copies(result: Report) -> list[Figure]:
    """Who copies to whom."""
    share, device = _transfer_share(result)
    if share < _LEAST_SHARE:
        title = f"{capital(device)} transfers {say_share(share)} of the time, more than any other"
        caption = "Too little to draw where to, and in which sizes."
        return [Figure("matrix", title, caption, table="peer_matrix")]
    shown = matrix.picture(of_report(result))
    _, _, note = shown.panels[0].labels[0].partition(" (")  # type: ignore[union-attr]
    caption = (
        "Rows are sources, columns destinations: time, then bytes and throughput. The darker,"
        f" the more time.{f' Shown: {note[:-1]}.' if note else ''}"
    )
    return [figure("matrix", shown.finding, caption, shown.panels, "peer_matrix")]


def _utilisation(result: Report, rows: list[Row], on_left_out: str) -> Figure:
    caption = (
        "Share of each of twenty equal slices of the time at which a kernel runs. Dotted: share at"
        f" which a transfer runs and no kernel.{on_left_out}"
    )
    return figure(
        "utilisation",
        utilisation.picture(of_report(result)).finding,
        caption,
        utilisation.panels(rows, names=result.device_names),
        "utilisation_over_time",
    )


def _memory(result: Report) -> Figure:
    shown = memory.picture(of_report(result))
    caption = (
        "Most that was in use in each slice of the time. Dotted: reserved by the allocator,"
        " where that was recorded."
    )
    panels = memory.levels(of_report(result).rows("memory_over_time"), result.device_names)
    return figure("memory", shown.finding, caption, panels, "memory_over_time")


def _copy_sizes(result: Report) -> list[Figure]:
    """What copies of each size cost, and how long one takes."""
    if _transfer_share(result)[0] < _LEAST_SHARE:
        return []
    shown = copy_sizes.picture(of_report(result))
    costs, durations = shown.panels
    caption = (
        "Mean duration of the copies of each size; the line is latency + bytes /"
        " bandwidth, fitted to them. Where it is level, copies are too small for their link."
    )
    return [
        figure("copy-sizes", shown.finding, caption, [durations], "copy_sizes"),
        figure(
            "copy-costs",
            "What copies of each size cost",
            "Time of all copies of each size, by direction. Point at a column for how many there"
            " are.",
            [replace(costs, label="bytes per copy")],  # type: ignore[arg-type]
            "copy_sizes",
        ),
    ]


_NONE: Final = {"cost": "", "of": "", "win": "", "bar": None, "start_ns": None}


def _cards(result: Report) -> tuple[list[Card], str]:
    """The first and the costly findings, a card for what is mended in one place.

    Returns:
        Of each card its ``head``, what its causes cost together, empty where it has one; and its
        ``parts``, one per cause. Then how many more findings there are; empty for none.
    """
    shown, more = first_findings(result)
    of_families = [
        {"head": f"{capital(head)}." if head else "", "parts": [_part(result, row) for row in rows]}
        for head, rows in shown
    ]
    return of_families, more


def _part(result: Report, row: Row) -> Card:
    """One cause: its figures, empty where it costs no time; its sentence, advice and places."""
    words = {
        "finding": f"{capital(clean(row['finding']))}.",
        "advice": clean(advice(row)),
        "replay": replay_command(row),
        "table": row["table"],
    }
    if not row.get("cost_ns"):
        return words | _NONE
    predicted, cost = row["predicted_win_share"], time_and_share(row, "cost")
    return words | {
        "cost": say_ns(row["cost_ns"]),
        "of": f"{say_share(row['cost_share'])} of {'a step' if row['steps'] else 'the span'}",
        "win": winnings(row, cost),
        # In percent: what it costs, and what of that can be won.
        "bar": [
            100 * min(share, 1)
            for share in (row["cost_share"], row["win_share"] if predicted is None else predicted)
        ],
        "start_ns": row["start_ns"],
        "end_ns": row["end_ns"],
        "owner": result.device_names.called(row["device_id"]),
    }
