"""Variants as stacked bars: where the GPU time goes, beside the time by the clock."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from gpuprof.base import units
from gpuprof.base.statistics import scaled
from gpuprof.comparisons.measure.differences import EXPOSED
from gpuprof.comparisons.variant_figures import VARIANTS, of_medians
from gpuprof.show import COMPARISON, Row
from gpuprof.show.cells import clean, without_common_ends
from gpuprof.show.charts.figure import (
    COMMUNICATION,
    DTOH,
    HTOD,
    KERNELS,
    LOCAL,
    MANAGED,
    MEMSETS,
    NOTHING,
    PEER,
    UNKNOWN,
    Bars,
    Chart,
    Look,
    Picture,
    Results,
    stacked,
)

# Metric -> how its part of a bar is shown, from the left to the right.
TIME_LAYERS: Final = {
    "compute_kernel_ns": KERNELS,
    "communication_kernel_ns": COMMUNICATION,
    "peer_transfer_ns": PEER,
    "htod_ns": HTOD,
    "dtoh_ns": DTOH,
    "managed_transfer_ns": MANAGED,
    "local_copy_ns": LOCAL,
    "memset_ns": MEMSETS,
    "unknown_copy_ns": UNKNOWN,
    "unlisted_gpu_activity_ns": Look("not listed (implied)", "idle", NOTHING.colour),
}
BYTE_LAYERS: Final = {
    "gradient_bytes_per_step": replace(PEER, name="for gradients"),
    "forward_bytes_per_step": replace(KERNELS, name="for the forward pass"),
}
_PLAIN: Final = Look("", "memset", "#999999")
_TOTALS: Final = ("gpu_activity_ns", "implied_gpu_activity_ns")
_COPIED: Final = "peer_transfer_bytes_per_step"
_SHOWN: Final = (
    "variant",
    "step_ns",
    "clock_ns",
    *_TOTALS,
    "kernel_ns",
    *TIME_LAYERS,
    _COPIED,
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
    drawn = pa.Table.from_pylist(
        rows, VARIANTS.table([]).schema.append(pa.field("compute_kernel_ns", pa.int64()))
    )
    drawn = drawn.append_column("clock_ns", pa.array(clock, pa.int64())).select(_SHOWN)
    names = [*without_common_ends([row["variant"] for row in rows]).values()]
    measured = "span of" if rows and rows[0]["step_ns"] is None else "median step on"
    seconds = [row["seconds_per_epoch"] for row in rows]
    by_clock = stacked(
        *(names, [[(_PLAIN, ns)] for ns in clock], clock),
        label=f"by the clock: {measured}\nthe busiest device",
    )
    epochs = stacked(
        *(names, [[(_PLAIN, s)] for s in seconds], seconds, units.say_seconds),
        label="seconds per epoch",
        unit="s",
    )
    sizes = [row[_COPIED] for row in rows]
    work, copied = times(rows, names, results.phase), bytes_per_step(rows, names)
    further = ((by_clock, clock), (copied, sizes), (epochs, seconds))
    panels = [bars for bars, values in further if any(value is not None for value in values)]
    finding = f"By the clock, {results.headline}" if is_timed else results.headline
    shown = [work, *panels] if work.parts or not panels else panels
    return Picture(finding, drawn, shown, is_beside=True)


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


def times(rows: Sequence[Row], names: Sequence[str], phase: str | None = None) -> Bars:
    """The GPU time of each row of `layered`, by kind."""
    totals = [next((row[n] for n in _TOTALS if row[n] is not None), None) for row in rows]
    per = " of one step" if rows and rows[0]["step_ns"] is not None else ""
    per += f' of "{clean(phase)}"' if per and phase else ""
    label = f"GPU time{per}, summed over devices"
    return stacked(names, _parts(rows, TIME_LAYERS), totals, label=label)


def bytes_per_step(rows: Sequence[Row], names: Sequence[str]) -> Bars:
    """What each row of `layered` copies between devices in a step, by what needs it."""
    label, sizes = "copied between devices per step", [row[_COPIED] for row in rows]
    shown = units.say_bytes
    return stacked(names, _parts(rows, BYTE_LAYERS), sizes, shown, label=label, unit="B")


def _parts(rows: Sequence[Row], layers: dict[str, Look]) -> list[list[tuple[Look, float | None]]]:
    return [[(look, row[metric]) for metric, look in layers.items()] for row in rows]


CHART: Final = Chart(
    "variants",
    "Where each variant's GPU time goes, beside its time by the clock and per epoch",
    COMPARISON,
    ("variants", "figures", "outcomes"),
    picture,
)
