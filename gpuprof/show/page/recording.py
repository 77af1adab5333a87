"""The page of one recording: the worst finding first, then charts, tables and provenance."""

from collections.abc import Sequence
from typing import Final

from gpuprof.analyses import analysis_named
from gpuprof.analyses.reports import Report, report
from gpuprof.base.units import say_ns, say_share
from gpuprof.model.profile import Profile
from gpuprof.show.cells import clean, schema_columns
from gpuprof.show.overview import findings_lines, for_people
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.recording_figures import figures
from gpuprof.show.page.tables import page_table

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
    "top_activities",
    "kernel_summary",
    "placement_hints",
    "placement",
    "placement_edges",
    "tensor_transfers_per_step",
    "tensor_transfers",
)
# What charts are drawn from; shown as tables only where they are asked for.
_DATA: Final = ("lanes", "lane_kernels", "lane_ranges", "steps")
_DATA_OF_JOBS: Final = ("ranks_over_time",)
# Of a job that workers have read, in which no timeline is kept.
TABLES_OF_JOB: Final = (*TABLES, "steps", *_DATA_OF_JOBS)
# The tables whose rows name the table that tells more.
_NAMING: Final = ("findings", "placement_hints")
_OPEN: Final = {"totals", "top_activities"}
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


def recording_page(
    profile: Profile, names: Sequence[str] = (), *, has_full_names: bool = False
) -> str:
    """A recording as one HTML file.

    Args:
        profile: The recording.
        names: Tables to show beside those that every page has.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    return report_page(_with_named_tables(profile, names), names, has_full_names=has_full_names)


def report_page(
    report_of_page: Report, names: Sequence[str] = (), *, has_full_names: bool = False
) -> str:
    """A report as one HTML file, with a chart for each table that has one.

    Args:
        report_of_page: The report.
        names: Tables that were asked for.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    result = for_people(report_of_page, has_full_names=has_full_names)
    named = {*names, *_named_tables(result)}
    has_tensors = bool(result.rows("placement_edges"))
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


def _with_named_tables(profile: Profile, names: Sequence[str]) -> Report:
    """The tables that every page has, those asked for, and those that findings name."""
    drawn = (*_DATA, *(_DATA_OF_JOBS if profile.parts else ()))
    data = (name for name in drawn if not analysis_named(name).missing(profile))
    result = report(profile, tuple(dict.fromkeys((*TABLES, *data, *names))))
    tables = tuple(dict.fromkeys((*result.tables, *_named_tables(result))))
    # What was computed is kept: only the named tables take time.
    return result if len(tables) == len(result.tables) else report(profile, tables)


def _named_tables(result: Report) -> list[str]:
    """The tables that tell more of findings."""
    return [row["table"] for name in _NAMING for row in result.rows(name)]


def verdict(result: Report) -> tuple[str, ...]:
    """The bottom line and the worst findings; without these, what is known to take most."""
    lines = findings_lines(result)
    if lines:
        return tuple(lines)
    top = result.rows("top_activities")
    if top and top[0]["total_ns"] is not None:
        share = "" if top[0]["share"] is None else f", {say_share(top[0]['share'])} of all"
        name = clean(top[0]["name"])
        time = say_ns(top[0]["total_ns"])
        return (f"{name} takes the most time of the listed activities: {time}{share}",)
    return ("Overview of this recording",)
