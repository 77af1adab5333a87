"""Variants as stacked bars: where the GPU time goes, beside the time by the clock."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.base import units
from gpuprof.base.statistics import scaled
from gpuprof.comparisons.measure.differences import EXPOSED
from gpuprof.comparisons.variant_figures import VARIANTS, of_medians
from gpuprof.show.cells import without_common_ends
from gpuprof.show.charts import canvas
from gpuprof.show.charts.canvas import Look
from gpuprof.show.charts.contract import Chart, Picture, Results
from gpuprof.show.contract import COMPARISON, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR_INCHES: Final = 0.55

# Metric -> how its part of a bar is shown, from the left to the right.
TIME_LAYERS: Final = {
    "compute_kernel_ns": canvas.KERNELS,
    "communication_kernel_ns": canvas.COMMUNICATION,
    "peer_transfer_ns": canvas.PEER,
    "htod_ns": canvas.HTOD,
    "dtoh_ns": canvas.DTOH,
    "managed_transfer_ns": canvas.MANAGED,
    "local_copy_ns": canvas.LOCAL,
    "memset_ns": canvas.MEMSETS,
    "unknown_copy_ns": canvas.UNKNOWN,
    "unlisted_gpu_activity_ns": Look("not listed (implied)", "idle", canvas.NOTHING.colour),
}
BYTE_LAYERS: Final = {
    "gradient_bytes_per_step": replace(canvas.PEER, name="for gradients"),
    "forward_bytes_per_step": replace(canvas.KERNELS, name="for the forward pass"),
}
_COMPUTE: Final = pa.field("compute_kernel_ns", pa.int64())
_TOTALS: Final = ("gpu_activity_ns", "implied_gpu_activity_ns")
_SHOWN: Final = (
    "variant",
    "step_ns",
    "clock_ns",
    *_TOTALS,
    "kernel_ns",
    *TIME_LAYERS,
    "peer_transfer_bytes_per_step",
    *BYTE_LAYERS,
    "seconds_per_epoch",
)


def picture(results: Results) -> Picture:
    """The parts of each variant's GPU time, its time by the clock and its bytes per step.

    Medians over the runs; the time by the clock is null where the finding is of GPU time or bytes.
    """
    rows = layered(results.table("variants"), results.table("figures"))
    is_timed = EXPOSED in results.table("outcomes").column("basis").to_pylist()
    clock = [clock_ns(row) if is_timed else None for row in rows]
    drawn = pa.Table.from_pylist(rows, VARIANTS.table([]).schema.append(_COMPUTE))
    drawn = drawn.append_column("clock_ns", pa.array(clock, pa.int64())).select(_SHOWN)
    return Picture(f"By the clock, {results.headline}" if is_timed else results.headline, drawn)


def clock_ns(row: Row) -> int | None:
    """The time by the clock: the median step, or the span where steps are not compared."""
    time_ns = row["span_ns"] if row["step_ns"] is None else row["step_ns"]
    return None if time_ns is None else round(time_ns)


def layered(variants: pa.Table, figures: pa.Table) -> list[Row]:
    """Rows of `VARIANTS` with what the tables of a comparison show, and compute kernels apart.

    The parts of the GPU time are scaled to its median over the runs, which medians of parts need
    not add up to. Where it is not known which kernels communicate, all count as compute kernels.
    """
    rows: list[Row] = of_medians(variants, figures).to_pylist()
    for row in rows:
        kernel_ns, collective_ns = row["kernel_ns"], row["communication_kernel_ns"]
        row["compute_kernel_ns"] = None if kernel_ns is None else kernel_ns - (collective_ns or 0)
        parts = {name: row[name] for name in TIME_LAYERS if row[name] is not None}
        total_ns = next((row[name] for name in _TOTALS if row[name] is not None), None)
        if total_ns is not None:
            row.update(scaled(parts, total_ns))
    return rows


def draw(shown: Picture) -> "Figure":
    """Bars per variant: GPU time by kind or bytes per step, beside the times that are known."""
    rows = shown.rows.to_pylist()
    panels = _panels(rows)
    figure = canvas.new_figure(1.9 + _BAR_INCHES * len(rows))
    widths = [1 if panel in {_draw_clock, _draw_epochs} else 2.4 for panel in panels]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=widths)[0]
    for draw_panel, panel_axes in zip(panels, axes, strict=True):
        draw_panel(panel_axes, rows)
        panel_axes.set_xlim(left=0)
        panel_axes.tick_params(axis="y", length=0)
    names = without_common_ends([row["variant"] for row in rows])
    labels = [canvas.label(name) for name in names.values()]
    axes[0].set_yticks(range(len(rows)), labels)
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    canvas.state(figure, shown.finding)
    canvas.explain(figure, axes)
    return figure


def _panels(rows: Sequence[Row]) -> "list[Callable[[Axes, Sequence[Row]], None]]":
    """The figures that at least one variant has."""
    panels: list[Callable[[Axes, Sequence[Row]], None]] = []
    if any(row[metric] for row in rows for metric in TIME_LAYERS):
        panels.append(_draw_times)
    if any(row["clock_ns"] is not None for row in rows):
        panels.append(_draw_clock)
    if any(row["peer_transfer_bytes_per_step"] is not None for row in rows):
        panels.append(_draw_bytes)
    if any(row["seconds_per_epoch"] is not None for row in rows):
        panels.append(_draw_epochs)
    return panels or [_draw_times]


def _draw_times(axes: "Axes", rows: Sequence[Row]) -> None:
    totals = [next((row[n] for n in _TOTALS if row[n] is not None), None) for row in rows]
    # How long a bar is; its total may be unknown all the same.
    factor, unit = units.time_axis(max(sum(row[n] or 0 for n in TIME_LAYERS) for row in rows))
    ends = _stack(axes, rows, TIME_LAYERS, factor)
    _annotate(axes, ends, map(units.format_ns, totals))
    per = " of one step" if rows[0]["step_ns"] is not None else ""
    axes.set_xlabel(f"GPU time{per}, summed over devices [{unit}]")


def _draw_bytes(axes: "Axes", rows: Sequence[Row]) -> None:
    totals = [row["peer_transfer_bytes_per_step"] for row in rows]
    factor, unit = units.bytes_axis(max((t or 0 for t in totals), default=0))
    ends = _stack(axes, rows, BYTE_LAYERS, factor)
    _annotate(axes, ends, map(units.format_bytes, totals))
    axes.set_xlabel(f"copied between devices per step [{unit}]")


def _draw_clock(axes: "Axes", rows: Sequence[Row]) -> None:
    times = [row["clock_ns"] for row in rows]
    factor, unit = units.time_axis(max(time_ns or 0 for time_ns in times))
    _plain(axes, times, factor, units.format_ns)
    measured = "median step on" if rows[0]["step_ns"] is not None else "span of"
    axes.set_xlabel(f"by the clock: {measured}\nthe busiest device [{unit}]")


def _draw_epochs(axes: "Axes", rows: Sequence[Row]) -> None:
    _plain(axes, [row["seconds_per_epoch"] for row in rows], 1, units.format_seconds)
    axes.set_xlabel("seconds per epoch [s]")


def _plain(
    axes: "Axes",
    values: Sequence[float | None],
    factor: float,
    words: Callable[[float | None], str],
) -> None:
    lengths = [(value or 0) / factor for value in values]
    axes.barh(range(len(lengths)), lengths, height=0.6, color="#999999")
    _annotate(axes, lengths, map(words, values), margin=0.36)


def _stack(
    axes: "Axes", rows: Sequence[Row], layers: dict[str, Look], factor: float
) -> list[float]:
    """Draw the layers of each bar; where the bars end."""
    starts = [0.0] * len(rows)
    for metric, look in layers.items():
        widths = [(row[metric] or 0) / factor for row in rows]
        if not any(widths):
            continue
        axes.barh(
            range(len(rows)),
            widths,
            left=starts,
            height=0.6,
            label=look.name,
            **look.bar,
        )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    return starts


def _annotate(
    axes: "Axes", ends: Sequence[float], words: Iterable[str], margin: float = 0.16
) -> None:
    """Figures behind the ends of bars."""
    for place, (end, text) in enumerate(zip(ends, words, strict=True)):
        canvas.annotate(axes, text, (end, place))
    axes.margins(x=margin)


CHART: Final = Chart(
    "variants",
    "Where each variant's GPU time goes, beside its time by the clock and per epoch",
    COMPARISON,
    ("variants", "figures", "outcomes"),
    picture,
    draw,
)
