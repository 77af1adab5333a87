"""Where charts take their result tables from."""

from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from gpuprof.analyses.reports import Report, report
from gpuprof.comparisons import Comparison
from gpuprof.model.profile import Profile
from gpuprof.show.charts.contract import Chart, Results
from gpuprof.sweeps.measured import batch_speed_ups, scaling
from gpuprof.sweeps.times import read_times


def of_recording(profile: Profile, chart: Chart) -> Results:
    """What the analyses say that a chart takes."""
    return of_report(report(profile, chart.tables))


def of_report(result: Report) -> Results:
    """The tables of a report, with what people know its devices by."""
    return Results(result.tables, device_names=result.device_names)


def of_times(path: Path) -> Results:
    """Speed-ups over devices and over batch sizes, of measured times or a sweep's results.

    Raises:
        GpuprofError: It cannot be read, or lacks a column.
    """
    times = read_times(path)
    return Results({"scaling": scaling(times), "batch_speed_ups": batch_speed_ups(times)})


def of_comparison(result: Comparison) -> Results:
    """All tables of a comparison, under its headline."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    tables = {name: value for name, value in values.items() if isinstance(value, pa.Table)}
    return Results(tables, result.headline, result.baseline)
