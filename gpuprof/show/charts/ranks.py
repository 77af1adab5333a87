"""Which rank works longest in which step, as a heat map of the time apart from collectives."""

from math import nan
from statistics import median
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.base.units import capital, say_ns, say_share
from gpuprof.show.charts import canvas
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import RECORDING, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SAMPLES: Final = ("sample", "outlier")
_PERCENT: Final = 100
# Orange for longer and purple for shorter, which all eyes tell apart.
_COLOURS: Final = "PuOr_r"
# Differences below that fill no colour: they are noise.
_LEAST_RANGE_PERCENT: Final = 2.0
_ROW_INCHES: Final = 0.22
_LEAST_INCHES, _MOST_INCHES = 1.6, 8.0
_MOST_LABELS: Final = 36
_WORTH_SAYING: Final = 0.01

# In lines that are shorter than the lowest of the charts is high.
_SCALE: Final = "time without\ncollectives against\nthe median [%]"


def picture(results: Results) -> Picture:
    """The own time of each device in each step of the phase of `ranks` that takes most time."""
    ranks = results.table("ranks").to_pylist()
    phase = ranks[0]["phase"] if ranks else None
    devices = [row for row in ranks if row["phase"] == phase]
    shown = _cells(results.table("steps"), phase, devices)
    return Picture(_finding(devices), shown)


def _cells(steps: pa.Table, phase: str | None, devices: list[Row]) -> pa.Table:
    """A row per device and step; own times as share of their median over the step's devices."""
    rank_of = {row["device_id"]: row["rank"] for row in devices}
    names = ("phase", "status", "device_id", "step", "span_ns", "exposed_communication_ns")
    columns = [steps[name].to_pylist() for name in names]
    own_ns = {
        (step, device): span - communication
        for name, status, device, step, span, communication in zip(*columns, strict=True)
        if name == phase and status in _SAMPLES and device in rank_of
    }
    by_step: dict[int, list[int]] = {}
    for (step, _), duration_ns in own_ns.items():
        by_step.setdefault(step, []).append(duration_ns)
    usual = {step: median(durations) for step, durations in by_step.items()}
    keys = [
        (step, device)
        for step, device in sorted(own_ns, key=lambda key: (key[0], key[1] or 0))
        if len(by_step[step]) > 1 and usual[step]
    ]
    return pa.table(
        {
            "phase": pa.array([phase] * len(keys), pa.string()),
            "rank": pa.array([rank_of[device] for _, device in keys], pa.int64()),
            "device_id": pa.array([device for _, device in keys], pa.int64()),
            "step": pa.array([step for step, _ in keys], pa.int64()),
            "own_ns": pa.array([own_ns[key] for key in keys], pa.int64()),
            "own_ratio": pa.array([own_ns[key] / usual[key[0]] for key in keys], pa.float64()),
        }
    )


def _finding(devices: list[Row]) -> str:
    """The device of longest own time, or that all work as long."""
    if not devices:
        return ""
    longest, usual_ns = devices[0], median(row["own_ns"] for row in devices)
    excess = longest["own_ns"] / usual_ns - 1 if usual_ns else 0
    if excess < _WORTH_SAYING:
        ends = dict.fromkeys(say_ns(devices[place]["own_ns"]) for place in (-1, 0))
        return (
            f"All {len(devices)} devices work alike: {' to '.join(ends)} of a step, collectives"
            " left out"
        )
    part = f", most of it {longest['longer_part']}" if longest["longer_part"] else ""
    return (
        f"{capital(_name(longest))} works {say_share(excess)} longer than"
        f" the median device in a step{part}; it is the slowest in"
        f" {say_share(longest['slowest_share'])} of the steps"
    )


def _name(row: Row) -> str:
    device = "unknown device" if row["device_id"] is None else f"device {row['device_id']}"
    return device if row["rank"] is None else f"rank {row['rank']}, {device}"


def draw(shown: Picture) -> "Figure":
    """A row per device, a column per step; the deeper the orange, the longer it works."""
    rows = shown.rows.to_pylist()
    devices = {row["device_id"]: shown.device_names.in_text(_name(row)) for row in rows}
    steps = sorted({row["step"] for row in rows})
    height = min(max(_ROW_INCHES * len(devices), _LEAST_INCHES), _MOST_INCHES)
    figure = canvas.new_figure(1.4 + height)
    axes = figure.subplots()
    excess = {(row["device_id"], row["step"]): _PERCENT * (row["own_ratio"] - 1) for row in rows}
    widest = max(_LEAST_RANGE_PERCENT, *(abs(value) for value in excess.values()))
    image = axes.imshow(
        [[excess.get((device, step), nan) for step in steps] for device in devices],
        cmap=_COLOURS,
        vmin=-widest,
        vmax=widest,
        aspect="auto",
        interpolation="nearest",
    )
    _label(axes, [*devices.values()], steps)
    bar = figure.colorbar(image, label=_SCALE, pad=0.01)
    bar.outline.set_visible(False)
    canvas.state(figure, shown.finding)
    return figure


def _label(axes: "Axes", devices: list[str], steps: list[int]) -> None:
    """Names of the devices, thinned where there is no room for all."""
    stride = -(-len(devices) // _MOST_LABELS)
    axes.set_yticks(range(0, len(devices), stride), devices[::stride])
    stride = -(-len(steps) // _MOST_LABELS)
    axes.set_xticks(range(0, len(steps), stride), [str(step) for step in steps[::stride]])
    axes.set(xlabel="step")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


CHART: Final = Chart(
    "ranks",
    "Which rank works longest in which step",
    RECORDING,
    ("ranks", "steps"),
    picture,
    draw,
)
