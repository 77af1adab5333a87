"""Where charts take their result tables from."""

from dataclasses import fields

import pyarrow as pa

from gpuprof.comparisons import Comparison
from gpuprof.profile import Profile
from gpuprof.render.charts.contract import Chart, Results
from gpuprof.reports import report


def of_recording(profile: Profile, chart: Chart) -> Results:
    """What the analyses say that a chart takes."""
    return Results(report(profile, chart.tables).tables)


def of_comparison(result: Comparison) -> Results:
    """All tables of a comparison, under its headline."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    tables = {name: value for name, value in values.items() if isinstance(value, pa.Table)}
    return Results(tables, result.headline)
