"""The page of one recording: the worst finding first, then charts, tables and provenance."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from gpuprof.analyses import analysis_named
from gpuprof.profile import Profile
from gpuprof.render.cells import clean, schema_columns
from gpuprof.render.charts import copy_sizes, utilisation
from gpuprof.render.charts import matrix as matrix_chart
from gpuprof.render.charts.contract import Results
from gpuprof.render.contract import Row
from gpuprof.render.overview import findings_lines, for_people
from gpuprof.render.page.document import Document, html
from gpuprof.render.page.figures import Figure, lanes_data, matrix, stacked
from gpuprof.render.page.lines import copy_size_lines, utilisation_lines
from gpuprof.render.page.tables import page_table
from gpuprof.reports import Report, report
from gpuprof.units import format_bytes, say_ns, say_share

# What a page shows of a recording, beside what was asked for: what does not take much longer than
# the report itself. (Steps and the causes of idle time read all API calls.)
TABLES: Final = (
    "bottom_line",
    "findings",
    "breakdown",
    "totals",
    "peer_matrix",
    "transfers",
    "copy_speeds",
    "copy_sizes",
    "utilisation_over_time",
    "top_activities",
    "kernel_summary",
    "placement_hints",
    "placement",
    "placement_edges",
    "tensor_transfers_per_step",
    "tensor_transfers",
)
_DATA: Final = ("lanes",)
_OPEN: Final = {"totals", "top_activities"}
_PARTS: Final = {
    "compute_ns": ("compute", "compute"),
    "exposed_communication_ns": ("communication", "exposed communication"),
    "exposed_transfer_ns": ("peer", "exposed transfers"),
    "exposed_local_copy_ns": ("local", "exposed local copies"),
    "idle_ns": ("idle", "idle"),
}
_ORIGIN: Final = {
    "source": "File",
    "tool": "Tool",
    "tool_version": "Its version",
    "exporter_version": "Exported by version",
    "reader": "Read as",
    "command": "Command",
    "variant": "Variant",
    "recorded_at": "Recorded",
}


def recording_page(
    profile: Profile, names: Sequence[str] = (), *, has_full_names: bool = False
) -> str:
    """A recording as one HTML file.

    Args:
        profile: The recording.
        names: Tables to show beside those that every page has.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    result = for_people(
        report(profile, tuple(dict.fromkeys((*TABLES, *_DATA, *names)))),
        has_full_names=has_full_names,
    )
    origin = result.origin
    source = clean(str(origin.source))
    return html(
        Document(
            title=f"{origin.source.name} - gpuprof",
            heading=clean(f"{source}: {origin.recorder}, read as {origin.reader}"),
            verdict=verdict(result),
            figures=tuple(figures(result)),
            tables=tuple(
                page_table(
                    (name, analysis_named(name).title),
                    table,
                    schema_columns(name, table),
                    f"gpuprof report FILE --table {name} --format csv",
                    is_open=name in _OPEN,
                )
                for name, table in result.tables.items()
                if table is not None and table.num_rows and name not in _DATA
            ),
            notes=tuple(map(clean, result.notes)),
            provenance=tuple(
                (name, clean(str(value)))
                for field, name in _ORIGIN.items()
                if (value := getattr(origin, field))
            ),
        )
    )


def verdict(result: Report) -> tuple[str, ...]:
    """The bottom line and the worst findings; without these, what is known to take most."""
    lines = findings_lines(result)
    if lines:
        return tuple(lines)
    top, steps = (_rows(result, name) for name in ("top_activities", "tensor_transfers_per_step"))
    if top and top[0]["total_ns"] is not None:
        share = "" if top[0]["share"] is None else f", {say_share(top[0]['share'])} of all"
        name = clean(top[0]["name"])
        time = say_ns(top[0]["total_ns"])
        return (f"{name} takes the most time of the listed activities: {time}{share}",)
    if steps and steps[0]["bytes_per_step"] is not None:
        return (f"A step copies {format_bytes(steps[0]['bytes_per_step'])} between devices",)
    return ("Overview of this recording",)


def figures(result: Report) -> list[Figure]:
    """The charts whose tables the recording has."""
    figures_of = {
        "breakdown": _breakdown,
        "lanes": _timeline,
        "peer_matrix": _matrix,
        "utilisation_over_time": _utilisation,
        "copy_sizes": _copy_sizes,
    }
    return [
        figure_of(result)
        for name, figure_of in figures_of.items()
        if (table := result.tables.get(name)) is not None and table.num_rows
    ]


def _rows(result: Report, name: str) -> list[Row]:
    table: pa.Table | None = result.tables.get(name)
    return [] if table is None else table.to_pylist()


def _breakdown(result: Report) -> Figure:
    bars = stacked(
        [
            (
                "unknown device" if row["device_id"] is None else f"device {row['device_id']}",
                [(kind, row[part]) for part, (kind, _) in _PARTS.items()],
                row["span_ns"],
            )
            for row in _rows(result, "breakdown")
        ],
        dict(_PARTS.values()),
    )
    return Figure(
        "breakdown",
        "Where each device's time went",
        "Each instant of a device's span belongs to the first that runs of compute,"
        " communication, transfers and local copies, else it is idle.",
        bars,
        "bars",
    )


def _timeline(result: Report) -> Figure:
    data = lanes_data(result.tables["lanes"])
    detail = f" What starts within {say_ns(data['slice'])} is one bar." if data["slice"] > 1 else ""
    return Figure(
        "timeline",
        "What each device did when",
        "Full colour: nothing of a lane further up runs (exposed); pale: something does"
        f" (hidden). The height is the share of the time that is busy.{detail} Drag to zoom,"
        " double-click or All for everything, Ctrl or Shift and the wheel to zoom.",
        data,
        "timeline",
    )


def _matrix(result: Report) -> Figure:
    return Figure(
        "matrix",
        matrix_chart.CHART.picture(Results(result.tables)).finding,
        "Rows are sources, columns destinations: time, then bytes and throughput. The darker,"
        " the more time.",
        matrix(_rows(result, "peer_matrix"), matrix_chart.place),
        "matrix",
    )


def _utilisation(result: Report) -> Figure:
    return Figure(
        "utilisation",
        utilisation.CHART.picture(Results(result.tables)).finding,
        "Share of each of twenty equal slices of the time at which a kernel runs.",
        utilisation_lines(_rows(result, "utilisation_over_time")),
        "lines",
    )


def _copy_sizes(result: Report) -> Figure:
    shown = copy_sizes.CHART.picture(Results(result.tables))
    return Figure(
        "copy-sizes",
        shown.finding,
        "Mean duration of the copies of each size; the line is latency + bytes /"
        " bandwidth, fitted to them. Where it is level, copies are too small for their link.",
        copy_size_lines(shown.rows.to_pylist()),
        "lines",
    )
