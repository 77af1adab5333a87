"""Variants as stacked bars: where the GPU time goes, beside the time by the clock."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof import units
from gpuprof.comparisons.measure.difference_parts import EXPOSED
from gpuprof.render.cells import without_common_ends
from gpuprof.render.charts import canvas
from gpuprof.render.charts.canvas import Look
from gpuprof.render.charts.contract import Chart, Picture, Results
from gpuprof.render.contract import COMPARISON, Row
from gpuprof.variant_figures import of_one_step

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
_KERNELS: Final = ("kernel_ns", "communication_kernel_ns")
_TOTALS: Final = ("gpu_activity_ns", "implied_gpu_activity_ns")
_SHOWN: Final = (
    "variant",
    "step_ns",
    "span_ns",
    *_TOTALS,
    "kernel_ns",
    *TIME_LAYERS,
    "peer_transfer_bytes_per_step",
    *BYTE_LAYERS,
    "seconds_per_epoch",
)


def picture(results: Results) -> Picture:
    """The parts of each variant's GPU time, its time by the clock and its bytes per step.

    The time by the clock is null where the finding is of GPU time or bytes.
    """
    rows = layered(results.table("variants")).select(_SHOWN)
    if EXPOSED in results.table("outcomes").column("basis").to_pylist():
        return Picture(f"By the clock, {results.headline}", rows)
    place = rows.column_names.index("span_ns")
    return Picture(
        results.headline, rows.set_column(place, "span_ns", pa.nulls(len(rows), "int64"))
    )


def layered(variants: pa.Table) -> pa.Table:
    """The figures of `VARIANTS`, of one step where steps are compared, with compute kernels apart.

    Where it is not known which kernels communicate, all kernels count as compute kernels.
    """
    rows = of_one_step(variants)
    times = zip(*(rows.column(n).to_pylist() for n in _KERNELS), strict=True)
    compute_ns = [
        None if kernel is None else kernel - (collective or 0) for kernel, collective in times
    ]
    return rows.append_column("compute_kernel_ns", pa.array(compute_ns, pa.int64()))


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
    if any(row["span_ns"] is not None for row in rows):
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
    spans = [row["span_ns"] for row in rows]
    factor, unit = units.time_axis(max(span or 0 for span in spans))
    _plain(axes, spans, factor, units.format_ns)
    measured = "a step on" if rows[0]["step_ns"] is not None else "span of"
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
    ("variants", "outcomes"),
    picture,
    draw,
)
