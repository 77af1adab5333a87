"""Data of the page's charts over a numeric axis."""

from itertools import pairwise
from statistics import median
from typing import Any, Final

from gpuprof.facts.hosts import DeviceNames
from gpuprof.show.cells import clean
from gpuprof.show.charts.canvas import SINCE_ORIGIN
from gpuprof.show.charts.copy_sizes import fitted_curve, group_name, group_of
from gpuprof.show.charts.steps import PARTS, bar_name, is_set_aside, phase_names, phase_of
from gpuprof.show.charts.utilisation import device_name
from gpuprof.show.contract import Row

_STATUS: Final = {
    "sample": "counted",
    "outlier": "far longer than most",
    "warm_up": "warm-up",
    "cut": "cut off",
    "other": "set aside",
}


def utilisation_lines(rows: list[Row], names: DeviceNames) -> dict[str, Any]:
    """Share of kernels per slice of `utilisation_over_time`, one line per device.

    The last slice ends with its own value.
    """
    starts = sorted({row["start_ns"] for row in rows})
    last = max(row["end_ns"] for row in rows)
    shares = {(row["device_id"], row["start_ns"]): row["kernel_share"] for row in rows}
    lines = {
        device: [shares.get((device, start)) for start in starts]
        for device in dict.fromkeys(row["device_id"] for row in rows)
    }
    return {
        "x": {
            "label": SINCE_ORIGIN,
            "unit": "ns",
            "log": False,
            "values": [*starts, last],
        },
        "y": {"label": "runs kernels", "unit": "share", "log": False, "range": [0, 1]},
        "stepped": True,
        "series": [
            {"label": names.in_text(device_name(device)), "values": [*values, values[-1]]}
            for device, values in lines.items()
        ],
    }


def copy_size_lines(rows: list[Row]) -> dict[str, Any]:
    """Mean duration over mean size, one line per direction, path and memories, with its fit.

    Args:
        rows: Those of the chart of copy sizes.
    """
    groups = {group: [r for r in rows if group_of(r) == group] for group in map(group_of, rows)}
    curves = {group: dict(fitted_curve(group_rows)) for group, group_rows in groups.items()}
    times = {
        group: {row["bytes"] / row["calls"]: row["mean_ns"] for row in group_rows}
        for group, group_rows in groups.items()
    }
    points = sorted(
        {x for times_by_size in (*times.values(), *curves.values()) for x in times_by_size}
    )
    series: list[Row] = []
    for number, group in enumerate(groups):
        name = group_name(group)
        values = [times[group].get(x) for x in points]
        series.append({"label": name, "values": values, "like": number, "has_points": True})
        if curves[group]:
            values = [curves[group].get(x) for x in points]
            series.append({"label": f"{name}, fitted", "values": values, "like": number})
    return {
        "x": {"label": "bytes per copy", "unit": "binary", "log": True, "values": points},
        "y": {"label": "duration", "unit": "ns", "log": True},
        "series": series,
    }


def step_columns(rows: list[Row]) -> dict[str, Any]:
    """What each step's time went to, for the page's chart of columns.

    Args:
        rows: Those of the chart of steps.
    """
    of_row, names = [phase_of(row) for row in rows], phase_names(rows)
    starts = [n for n, phase in enumerate(of_row) if not n or phase != of_row[n - 1]]
    stretches = list(pairwise([*starts, len(rows)]))
    return {
        "label": "step",
        "quantity": "time of the step",
        "names": [
            f"{bar_name(row)}, {clean(names[phase_of(row)])}, {_STATUS[row['status']]}"
            for row in rows
        ],
        "labels": [str(row["step"]) for row in rows],
        "pale": [is_set_aside(row) for row in rows],
        "series": [
            {
                "label": look.name,
                "kind": look.kind,
                "values": [round(row[part]) for row in rows],
            }
            for part, look in PARTS.items()
            if any(row[part] for row in rows)
        ],
        "levels": [
            {"first": first, "last": last - 1, "value": median(spans)}
            for first, last in stretches
            if (spans := [r["span_ns"] for r in rows[first:last] if not is_set_aside(r)])
        ],
    }
