"""Speed-ups and times over the number of devices, batch sizes and other axes of a sweep."""

from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.base.units import say_ratio, say_seconds, say_share
from gpuprof.show import SWEEP
from gpuprof.show.charts.figure import (
    KERNELS,
    Bars,
    Chart,
    Lines,
    Look,
    Part,
    Picture,
    Point,
    Results,
    Series,
)
from gpuprof.sweeps.break_even import break_even_text, break_evens, crossing, lines, numeric_axes
from gpuprof.sweeps.results import Results as SweepResults

_IDEAL: Final = "ideal"
_PERCENT: Final = 100


def scaling(results: Results) -> Picture:
    """The rows of `scaling`: speed-up on the left, efficiency on the right, a line per series.

    Raises:
        EmptyRecordingError: Nothing was measured on two numbers of devices.
    """
    table = results.table("scaling")
    rows = table.to_pylist()
    if not rows:
        msg = "scaling needs one label measured on two numbers of devices"
        raise EmptyRecordingError(msg, "Give rows of one label and batch size that differ in"
                                       " devices, or a sweep with an axis devices.")  # fmt: skip
    most = max(rows, key=lambda row: (int(row["devices"]), float(row["speed_up"])))
    subject = f"{most['series']} on " * bool(most["series"])
    fast = f"{subject}{most['devices']} devices: {say_ratio(most['speed_up'])} times as fast"
    devices = sorted({row["devices"] for row in rows})
    panels = []
    for quantity, factor, label, ideal in (
        ("speed_up", 1, "speed-up over one device", [(n, n) for n in devices]),
        ("efficiency", _PERCENT, "efficiency [%]", [(n, _PERCENT) for n in devices]),
    ):
        by_series = groupby(rows, key=lambda row: row["series"])
        series = [
            Series(name or "", [(r["devices"], factor * r[quantity]) for r in measured], number)
            for number, (name, measured) in enumerate(by_series)
        ]
        series.append(Series(_IDEAL, ideal, style="dashed"))
        panels.append(Lines(series, "devices", label, devices, is_from_zero=True))
    finding = f"{fast}, {say_share(most['efficiency'])} of the ideal"
    return Picture(finding, table, panels, is_beside=True)


def batch(results: Results) -> Picture:
    """The rows of `batch_speed_ups`: a line per series, faster than the first one above 1.

    Raises:
        EmptyRecordingError: No batch size was measured twice.
    """
    table = results.table("batch_speed_ups")
    rows = table.to_pylist()
    if not rows:
        msg = "batch needs two labels measured at the same batch sizes"
        raise EmptyRecordingError(msg, "Give rows of one batch size that differ in label or"
                                       " devices, or a sweep with an axis batch.")  # fmt: skip
    than = rows[0]["baseline"] or "the first"
    series: list[Series] = []
    crossed: dict[float | None, str | None] = {}
    for number, (name, measured) in enumerate(groupby(rows, key=lambda row: row["series"])):
        of_series = list(measured)
        points = [(row["batch_size"], row["speed_up"]) for row in of_series]
        place = of_series[0]["break_even_batch_size"]
        crossed.setdefault(place, name)
        series += [Series(name or "", points, number), *_star(place, number)]
    sizes = sorted({row["batch_size"] for row in rows})
    series.append(_as_fast(than, sizes))
    first = min((size for size in crossed if size is not None), default=None)
    best = max(rows, key=lambda row: float(row["speed_up"]))
    is_faster = min(row["speed_up"] for row in rows) >= 1
    most = f"at most {say_ratio(best['speed_up'])} times"
    finding = f"No break-even: {most} the speed of {than}"
    if is_faster:
        finding = f"Faster than {than} with every batch size, {most}"
    if first is not None:
        finding = f"{crossed[first]} is faster than {than} from about batch size {first:,.0f} on"
    panel = Lines(series, "batch size [examples]", f"speed-up over {than}", sizes)
    return Picture(finding, table, [panel], is_beside=True)


def _star(place: float | None, number: int) -> list[Series]:
    """Where two variants are equally fast, with its value; nothing for nowhere."""
    if place is None:
        return []
    return [Series(break_even_text(place), [(place, 1)], number, "star")]


def _as_fast(baseline: str, values: list[Any]) -> Series:
    """The line above which a speed-up is one."""
    ends: list[Point] = [(values[0], 1), (values[-1], 1)]
    return Series(f"as fast as {baseline}", ends, style="dashed")


def break_even(results: SweepResults) -> Picture | None:
    """Speed-up along each open axis of numbers; None without a baseline or such an axis."""
    rows = break_evens(results).to_pylist()
    if not rows:
        return None
    places = [row for row in rows if row["break_even"] is not None]
    first = min(places, key=itemgetter("break_even"), default=rows[0])
    baseline = ", ".join(f"{name}={value}" for name, value in results.plan.baseline.items())
    panels = []
    for axis in dict.fromkeys(row["axis"] for row in rows):
        values, series = _values(results, axis), _measured(results, axis, "speed_up")
        stars = [star for line in series for star in _star(crossing(line.points), line.number or 0)]
        series += [*stars, _as_fast(baseline, values)]
        panels.append(Lines(series, axis, f"speed-up over {baseline}", values))
    finding = f"Along {first['axis']}, {first['variant']} is {first['meaning']}{_caution(results)}"
    return Picture(finding, results.cells, panels, is_beside=True)


def seconds(results: SweepResults) -> Picture | None:
    """Seconds along each axis of numbers, or a bar per cell; None where nothing ran."""
    ran = [row for row in results.cells.to_pylist() if row["seconds"]]
    if not ran:
        return None
    best = min(ran, key=lambda row: float(row["seconds"]))
    timed = "an epoch" if results.per_epoch else "the program"
    finding = f"Fastest is {best['cell']}: {say_seconds(best['seconds'])} for {timed}"
    panels: list[Any] = []
    for axis in numeric_axes(results.plan):
        if not (series := _measured(results, axis, "seconds")):
            continue
        if axis in results.plan.baseline:
            # As many times as fast as there are more devices.
            ideals = [
                [(x, line.points[0][1] * line.points[0][0] / x) for x, _ in line.points]
                for line in series
            ]
            series += [
                Series(_IDEAL, points, number, "dotted") for number, points in enumerate(ideals)
            ]
        panels.append(Lines(series, axis, "seconds [s]", _values(results, axis), is_from_zero=True))
    if not panels:
        look = Look("", "compute", KERNELS.colour)
        parts = [Part(place, look, 0, row["seconds"]) for place, row in enumerate(ran)]
        ranges = [(row["seconds_min"], row["seconds_max"]) for row in ran]
        names = [row["cell"] for row in ran]
        panels = [Bars(names, parts, (look,), label="seconds", unit="s", ranges=ranges)]
    return Picture(finding + _caution(results), results.cells, panels, is_beside=True)


def _caution(results: SweepResults) -> str:
    return " (one run each)" if results.plan.repeat == 1 else ""


def _measured(results: SweepResults, axis: str, column: str) -> list[Series]:
    """A line per variant, with the least and the most of the runs at each point."""
    shown, least, most = (
        lines(results, axis, name) for name in (column, f"{column}_min", f"{column}_max")
    )
    return [
        Series(name or "", points, number, ranges=[
            (low, high) for (_, low), (_, high) in zip(least[name], most[name], strict=True)
        ])
        for number, (name, points) in enumerate(shown.items())
    ]  # fmt: skip


def _values(results: SweepResults, axis: str) -> list[Any]:
    return sorted({*results.cells.column(axis).to_pylist()})


SCALING: Final = Chart(
    "scaling", "Speed-up and efficiency over the number of devices", SWEEP, ("scaling",), scaling
)
BATCH: Final = Chart(
    "batch",
    "Speed-up over the batch size, with the break-even point",
    SWEEP,
    ("batch_speed_ups",),
    batch,
)
