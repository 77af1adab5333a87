"""The page of a comparison: the verdict first, then charts, tables and provenance."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress, groupby
from typing import Final

from gpuprof.base.units import format_bytes, format_ns, say_ns
from gpuprof.comparisons import Comparison
from gpuprof.comparisons.measure.compared_steps import STEP
from gpuprof.comparisons.measure.differences import EXPOSED
from gpuprof.comparisons.result_tables import TABLES
from gpuprof.show.cells import clean, with_one_name
from gpuprof.show.charts import waterfall
from gpuprof.show.charts.canvas import PEER, UNKNOWN, Look
from gpuprof.show.charts.variants import BYTE_LAYERS, TIME_LAYERS, clock_ns, layered
from gpuprof.show.comparison import grid_with_columns, shown_labels
from gpuprof.show.contract import Row
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.figures import Bar, Bars, Figure, Segment, stacked
from gpuprof.show.page.tables import grid_table, page_table

# Of the baseline's time: smaller differences have no chart.
_LEAST_SHARE: Final = 0.01
_CLOCK_PARTS: Final = {
    "compute": "compute",
    "communication": "exposed communication",
    "peer": "exposed copies and memsets",
    "idle": "idle",
    UNKNOWN.kind: "of unknown parts",
}
# Groups of the parts of a difference; all others are copies and memsets.
_KINDS: Final = {"kernels": "compute", "communication": "communication", "idle": "idle"}
_TITLES: Final = {
    "kernels": "Difference by kernel",
    "split": "Parts of the difference",
    "uncompared": "Phases that are not compared",
    "comparability": "Other differences",
    "outcomes": "Outcomes",
    "differences": "Difference of every metric",
    "figures": "Every metric over its runs",
    "runs": "Every run",
}
# What gives all rows of a table that a page has no room for.
_COMMAND: Final = "gpuprof compare FILES --format json"
_COMMANDS: Final = {"kernels": "gpuprof compare FILES --kernels --format csv"}


def comparison_page(result: Comparison, *, has_full_names: bool = False) -> str:
    """A comparison as one HTML file, kernels with their short or their full names."""
    kernels = with_one_name(result.kernels, has_full_names=has_full_names)
    variants = result.variants.to_pylist()
    labels = ", ".join(row["variant"] for row in variants)
    first, point, further_sentences = clean(result.verdict).partition(". ")
    return html(
        Document(
            title=f"{clean(labels)} - gpuprof",
            heading=clean(f"Compared: {labels}; baseline {result.baseline}"),
            verdict=(f"{first}.", further_sentences) if point else (first,),
            figures=tuple(figures(result)),
            tables=(
                grid_table("overview", grid_with_columns(result), "Variants"),
                *(
                    page_table(
                        named,
                        table,
                        {c: TABLES[named[0]].columns[c] for c in table.column_names},
                        _COMMANDS.get(named[0], _COMMAND),
                    )
                    for named in _TITLES.items()
                    if (
                        table := kernels if named[0] == "kernels" else getattr(result, named[0])
                    ).num_rows
                ),
            ),
            notes=tuple(map(clean, result.notes)),
            provenance=tuple(
                (clean(row["variant"]), clean(f"{row['source']} ({row['tool']})"))
                for row in variants
            ),
        )
    )


def figures(result: Comparison) -> list[Figure]:
    """The charts whose figures the comparison has."""
    labels = shown_labels(result)
    rows = layered(result.variants, result.figures)
    by_clock = EXPOSED in result.outcomes.column("basis").to_pylist()
    clock = [_clock(result, rows, labels)] if by_clock else []
    shown = [row | {"variant": labels[row["variant"]]} for row in rows]
    work = [_times(shown)] if any(row[m] for row in shown for m in TIME_LAYERS) else []
    sizes = [_bytes(shown)] if any(row[m] for row in shown for m in BYTE_LAYERS) else []
    return [*clock, *_waterfalls(result, labels), *work, *sizes]


def _clock(result: Comparison, variants: list[Row], labels: Mapping[str, str]) -> Figure:
    """What each variant's busiest device does in the time that the verdict is of."""
    measured = "A step" if result.unit == STEP else "The whole time"
    parts = _parts_by_variant(result)
    bars = [
        (
            labels[row["variant"]],
            [*parts.get(row["variant"], {UNKNOWN.kind: clock_ns(row)}).items()],
            clock_ns(row),
        )
        for row in variants
    ]
    return Figure(
        "clock",
        f"{measured} by the clock, on each variant's busiest device",
        "Where activities overlap, time counts as compute first, then as communication, then as"
        " copies. The rest is idle.",
        stacked(bars, _CLOCK_PARTS),
        "bars",
    )


def _parts_by_variant(result: Comparison) -> dict[str, dict[str, int]]:
    """The parts of each variant's time as in the split; none where they are unknown."""
    rows = [row for row in result.split.to_pylist() if row["basis"] == EXPOSED]
    parts: dict[str, dict[str, int]] = {}
    for row in rows:
        sides = {row["variant"]: row["candidate_ns"]}
        if row["variant"] == rows[0]["variant"]:
            sides[result.baseline] = row["baseline_ns"]
        for label, part_ns in sides.items():
            of_variant = parts.setdefault(label, dict.fromkeys(_CLOCK_PARTS, 0))
            of_variant[_KINDS.get(row["part_group"], PEER.kind)] += part_ns
    return parts


def _times(variants: list[Row]) -> Figure:
    per = "" if variants[0]["step_ns"] is None else " of one step"
    totals = [
        next(filter(None, (row["gpu_activity_ns"], row["implied_gpu_activity_ns"])), None)
        for row in variants
    ]
    return Figure(
        "variants",
        f"Where each variant's GPU time{per} goes",
        "Sums over all devices: how much work of each kind there was, not how long it took.",
        _layered(variants, TIME_LAYERS, totals, format_ns),
        "bars",
    )


def _layered(
    variants: list[Row],
    layers: Mapping[str, Look],
    totals: Iterable[float | None],
    show: Callable[[float | None], str],
) -> Bars:
    bars = [
        (row["variant"], [(look.kind, row[metric]) for metric, look in layers.items()], total)
        for row, total in zip(variants, totals, strict=True)
    ]
    return stacked(bars, {look.kind: look.name for look in layers.values()}, show)


def _bytes(variants: list[Row]) -> Figure:
    totals = [row["peer_transfer_bytes_per_step"] for row in variants]
    return Figure(
        "bytes",
        "What each variant copies between devices in a step",
        "Bytes; what only gradients need apart from all others.",
        _layered(variants, BYTE_LAYERS, totals, format_bytes),
        "bars",
    )


def _waterfalls(result: Comparison, labels: Mapping[str, str]) -> Iterator[Figure]:
    """From the baseline to each candidate, a bar per part of the difference, on one axis."""
    split = waterfall.by_candidate_basis(result.split).to_pylist()
    panels = [list(rows) for _, rows in groupby(split, key=lambda row: row["variant"])]
    baseline = labels[result.baseline]
    bars = [waterfall.steps(rows, baseline, labels[rows[0]["variant"]]) for rows in panels]
    drawn = [
        max(abs(row["difference_ns"]) for row in rows) >= _LEAST_SHARE * of_panel[0].end_ns
        for rows, of_panel in zip(panels, bars, strict=True)
    ]
    axis = waterfall.axis([*compress(bars, drawn)])
    count = result.outcomes.num_rows
    few = f" One of the {waterfall.MOST} that differ most of {count}." * (count > waterfall.MOST)
    for number, (rows, of_panel, is_drawn) in enumerate(zip(panels, bars, drawn, strict=True)):
        title = f"From {baseline} to {labels[rows[0]['variant']]}"
        measured = f"Per {result.unit}: {waterfall.basis_words(rows[0]['basis'])}.{few}"
        yield Figure(
            f"waterfall-{number}",
            title if is_drawn else f"{title}: no part differs by 1 % of the time of {baseline}",
            f"{measured}{_cut_words(axis[0])}" if is_drawn else "Too little to draw.",
            _steps(of_panel, axis) if is_drawn else None,
            "bars" if is_drawn else "sentence",
            "split",
        )


def _cut_words(first: float) -> str:
    return f" Totals are cut at the strokes: bars begin at {say_ns(first)}." if first else ""


def _steps(steps: list[waterfall.Step], axis: tuple[float, float]) -> Bars:
    first, last = axis
    scale = 100 / ((last - first) or 1)
    bars = []
    for step in steps:
        low, high = sorted((max(step.start_ns, first), step.end_ns))
        words = clean(f"{step.name}: {step.figure}")
        segment = Segment(step.kind, (low - first) * scale, (high - low) * scale, words)
        is_cut = bool(first) and step.kind == waterfall.TOTAL
        bars.append(Bar(clean(step.name), step.figure, (segment,), is_cut))
    used = {step.kind for step in steps}
    return Bars(tuple(bars), {k: name for k, name in waterfall.LEGEND.items() if k in used})
