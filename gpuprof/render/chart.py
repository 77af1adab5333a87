"""Charts of a comparison: where each variant's GPU time goes, beside its seconds per epoch.

Colours are those of Okabe and Ito, which colour-blind people tell apart; hatching tells them
apart in grey. Source: https://jfly.uni-koeln.de/color/
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprof import units
from gpuprof.comparisons import Comparison
from gpuprof.errors import UsageError
from gpuprof.render.cells import clean, folded
from gpuprof.render.output import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".svg", ".pdf")
_LABEL_WIDTH: Final = 24
_TITLE_WIDTH: Final = 84
_DPI: Final = 150
_BAR_INCHES: Final = 0.55
_DARK: Final = "#333333"

Row = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """One part of a stacked bar: a metric, its name in the legend, and its looks."""

    metric: str
    name: str
    colour: str
    hatch: str = ""


TIME_LAYERS: Final = (
    Layer("kernel_ns", "kernels", "#0072B2"),
    Layer("peer_transfer_ns", "PtoP", "#D55E00", "///"),
    Layer("htod_ns", "HtoD", "#009E73", "..."),
    Layer("dtoh_ns", "DtoH", "#F0E442", "xxx"),
    Layer("managed_transfer_ns", "managed memory", "#56B4E9", "---"),
    Layer("local_copy_ns", "local copies", "#E69F00", "\\\\\\"),
    Layer("memset_ns", "memsets", "#CC79A7", "ooo"),
    Layer("unknown_copy_ns", "unknown copies", "#999999", "+++"),
    Layer("unlisted_gpu_activity_ns", "not listed (implied)", "#EEEEEE"),
)
BYTE_LAYERS: Final = (
    Layer("gradient_bytes_per_step", "for gradients", "#D55E00", "///"),
    Layer("forward_bytes_per_step", "for the forward pass", "#0072B2"),
)


def check_suffix(path: str) -> str:
    """The path itself, where its ending names a kind of picture.

    Raises:
        UsageError: It does not.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        msg = f"{path} does not end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(msg, "The ending says what kind of picture it becomes.")
    return path


def save_comparison(result: Comparison, output: Output) -> None:
    """Draw a comparison into a file.

    Raises:
        OutputError: It cannot be written; nothing of it is left behind.
    """
    save_figure(comparison_figure(result), output)


def save_figure(figure: "Figure", output: Output) -> None:
    """Write a figure as what its file's ending says.

    Raises:
        OutputError: It cannot be written; nothing of it is left behind.
    """
    form = output.path.suffix[1:].lower() if output.path else "png"
    # No date in the file: the same comparison is the same picture.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    output.save(lambda file: figure.savefig(file, format=form, dpi=_DPI, metadata=dates))


def comparison_figure(result: Comparison) -> "Figure":
    """Bars per variant: GPU time by kind or bytes per step, and seconds per epoch if known."""
    rows = result.variants.to_pylist()
    panels = _panels(rows)
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second that only charts need

    height = 1.9 + _BAR_INCHES * len(rows)
    figure = Figure(figsize=(10, height), layout="constrained")
    widths = [2.4 if panel is not _draw_epochs else 1 for panel in panels]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=widths)[0]
    for draw, one in zip(panels, axes, strict=True):
        draw(one, rows)
        _tidy(one)
    labels = [folded(clean(row["variant"]), _LABEL_WIDTH) for row in rows]
    # A label is not a formula, whatever dollars are in it.
    axes[0].set_yticks(range(len(rows)), labels, parse_math=False)
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    title = folded(clean(result.headline), _TITLE_WIDTH)
    figure.suptitle(title, x=0.01, ha="left", weight="bold", parse_math=False)
    _legend(figure, axes)
    return figure


def _panels(rows: Sequence[Row]) -> "list[Callable[[Axes, Sequence[Row]], None]]":
    """The figures that at least one variant has."""
    panels: list[Callable[[Axes, Sequence[Row]], None]] = []
    if any(row[layer.metric] for row in rows for layer in TIME_LAYERS):
        panels.append(_draw_times)
    if any(row["peer_transfer_bytes_per_step"] is not None for row in rows):
        panels.append(_draw_bytes)
    if any(row["seconds_per_epoch"] is not None for row in rows):
        panels.append(_draw_epochs)
    return panels or [_draw_times]


def _draw_times(axes: "Axes", rows: Sequence[Row]) -> None:
    totals = [_first(row, "gpu_activity_ns", "implied_gpu_activity_ns") for row in rows]
    factor, unit = units.time_axis(max((t or 0 for t in totals), default=0))
    _stack(axes, rows, TIME_LAYERS, factor)
    _annotate(axes, totals, factor, units.format_ns)
    axes.set_xlabel(f"GPU time, summed over devices [{unit}]")


def _draw_bytes(axes: "Axes", rows: Sequence[Row]) -> None:
    totals = [row["peer_transfer_bytes_per_step"] for row in rows]
    factor, unit = units.bytes_axis(max((t or 0 for t in totals), default=0))
    _stack(axes, rows, BYTE_LAYERS, factor)
    _annotate(axes, totals, factor, units.format_bytes)
    axes.set_xlabel(f"copied between devices per step [{unit}]")


def _draw_epochs(axes: "Axes", rows: Sequence[Row]) -> None:
    seconds = [row["seconds_per_epoch"] for row in rows]
    axes.barh(range(len(rows)), [s or 0 for s in seconds], height=0.6, color="#999999")
    _annotate(axes, seconds, 1, units.format_seconds, margin=0.36)
    axes.set_xlabel("seconds per epoch [s]")


def _first(row: Row, *names: str) -> float | None:
    return next((row[name] for name in names if row[name] is not None), None)


def _stack(axes: "Axes", rows: Sequence[Row], layers: Sequence[Layer], factor: float) -> None:
    left = [0.0] * len(rows)
    for layer in layers:
        widths = [(row[layer.metric] or 0) / factor for row in rows]
        if not any(widths):
            continue
        axes.barh(
            range(len(rows)),
            widths,
            left=left,
            height=0.6,
            label=layer.name,
            color=layer.colour,
            hatch=layer.hatch,
            edgecolor=_DARK,
            linewidth=0.4,
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]


def _annotate(
    axes: "Axes",
    totals: Sequence[float | None],
    factor: float,
    words: Callable[[float | None], str],
    margin: float = 0.16,
) -> None:
    for place, total in enumerate(totals):
        axes.annotate(
            words(total),
            ((total or 0) / factor, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.margins(x=margin)


def _tidy(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)


def _legend(figure: "Figure", axes: "Sequence[Axes]") -> None:
    found = [pair for one in axes for pair in zip(*one.get_legend_handles_labels(), strict=True)]
    if found:
        handles, names = zip(*found, strict=True)
        figure.legend(
            handles,
            names,
            loc="outside lower left",
            ncols=min(len(names), 6),
            frameon=False,
            fontsize=9,
        )
