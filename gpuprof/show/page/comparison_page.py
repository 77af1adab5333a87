"""The page of a comparison: the verdict first, then charts, tables and provenance."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from gpuprof.base.units import capital, format_instant, listed
from gpuprof.comparisons import Comparison
from gpuprof.comparisons.measure.compared_steps import STEP
from gpuprof.comparisons.measure.differences import EXPOSED
from gpuprof.comparisons.result_tables import TABLES
from gpuprof.show import Row
from gpuprof.show.cells import clean, with_one_name
from gpuprof.show.charts import waterfall
from gpuprof.show.charts.figure import COMMUNICATION, KERNELS, NOTHING, PEER, UNKNOWN, Look, stacked
from gpuprof.show.charts.side_by_side import side_by_side
from gpuprof.show.charts.variants import bytes_per_step, clock_ns, layered, times
from gpuprof.show.comparison import figures_grid, shown_labels
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.figures import Figure, figure
from gpuprof.show.page.tables import grid_table, page_table

# Of the baseline's time: smaller differences have no chart.
_LEAST_SHARE: Final = 0.01
# Groups of the parts of a difference; all others are copies and memsets.
_COPIES: Final = replace(PEER, name="exposed copies and memsets")
_CLOCK_PARTS: Final = {
    "kernels": replace(KERNELS, name="compute"),
    "communication": replace(COMMUNICATION, name="exposed communication"),
    "copies": _COPIES,
    "idle": NOTHING,
}
_OF_UNKNOWN: Final = replace(UNKNOWN, name="of unknown parts")
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
_MARKED: Final = (
    " Striped: ▲ longer or ▼ shorter in"
    " the lower one by 2 % or more (10 % of fewer than three steps) and than it varies over steps,"
    " ● only here. A bar without length ends the step. Point at one for its times;"
    " Find marks names, and Enter shows each."
)
# Between what came out and what it is made of.
_PARTS: Final = re.compile(r"[;:] |(?<=\.) ")
_WORD: Final = re.compile(r"[a-z-]+[ ,]")
# What gives all rows of a table that a page has no room for.
_COMMAND: Final = "gpuprof compare FILES --format json"
_COMMANDS: Final = {"kernels": "gpuprof compare FILES --kernels --format csv"}


def comparison_page(result: Comparison, *, has_full_names: bool = False) -> str:
    """A comparison as one HTML file, kernels with their short or their full names."""
    kernels = with_one_name(result.kernels, has_full_names=has_full_names)
    variants = result.variants.to_pylist()
    labels = [row["variant"] for row in variants]
    # What came out, and then what it is made of, where the sentence has a part for each. It begins
    # with two of the labels, which may have any signs.
    text = clean(result.verdict)
    ends = sorted(text.find(name) + len(name) for name in map(clean, labels) if name in text)
    verdict: tuple[str, ...] = (text,)
    if match := _PARTS.search(text, max(ends[:2], default=0)):
        parts = text[match.end() :]
        # The name of a kernel stays as it is.
        further = capital(parts) if _WORD.match(parts) else parts
        verdict = f"{text[: match.start()].rstrip('.')}.", further
    shown = figures(result)
    shown[1:1] = _side_by_side(result, has_full_names=has_full_names)
    return html(
        Document(
            title=f"{clean(', '.join(labels))} - gpuprof",
            heading=clean(f"Compared: {', '.join(labels)}; baseline {result.baseline}"),
            verdict=verdict,
            figures=tuple(shown),
            tables=(
                grid_table("overview", figures_grid(result, has_columns=True), "Variants"),
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
    names = [labels[row["variant"]] for row in rows]
    by_clock = EXPOSED in result.outcomes.column("basis").to_pylist()
    clock = [_clock(result, rows, labels)] if by_clock else []
    per = "" if rows[0]["step_ns"] is None else " of one step"
    shown = [
        (
            times(rows, names),
            "variants",
            f"Where each variant's GPU time{per} goes",
            "Sums over all devices: how much work of each kind there was, not how long it took.",
        ),
        (
            bytes_per_step(rows, names),
            "bytes",
            "What each variant copies between devices in a step",
            "Bytes; what only gradients need apart from all others.",
        ),
    ]
    stacks = [figure(name, title, note, [bars]) for bars, name, title, note in shown if bars.parts]
    return [*clock, *_waterfalls(result, labels), *stacks]


def _side_by_side(result: Comparison, *, has_full_names: bool) -> Iterator[Figure]:
    """A typical step of the baseline above one of a candidate; none where times are unknown."""
    labels = {label: clean(shown) for label, shown in shown_labels(result).items()}
    data = side_by_side(result, labels, has_full_names=has_full_names)
    if data is None:
        return
    first, *further = (candidate["label"] for candidate in data["candidates"])
    compared_with = "each candidate" if further else first
    left_out = max(side["left_out"] for side in (data["baseline"], *data["candidates"]))
    # For ``--from``.
    starts = [
        f"{side['label']} at {format_instant(side['origin'])}"
        for side in [data["baseline"], *data["candidates"]][:3]
    ]
    caption = (
        f"One axis from the start of each; a lane for each stream, a colour for each name."
        f"{_MARKED}"
        + f" Nearest to the median: the step of {listed(starts)}." * (result.unit == STEP)
        + f" The shortest {left_out:,} operations are left out." * bool(left_out)
        + f" Shown: those of {data['left_out'] + len(data['candidates'])} that differ most."
        * bool(data["left_out"])
    )
    subject = "A typical step" if result.unit == STEP else "The recording"
    title = f"{subject} of {data['baseline']['label']} above that of {compared_with}"
    data |= {
        "of_largest": "What differs most",
        "of_none": "No kernel, copy or pause differs by more than it varies.",
    }
    yield Figure("side-by-side", title, caption, "operations", data)


def _clock(result: Comparison, variants: list[Row], labels: Mapping[str, str]) -> Figure:
    """What each variant's busiest device does in the time that the verdict is of.

    The parts are those of the split; none where they are unknown.
    """
    measured = "A step" if result.unit == STEP else "The whole time"
    rows = [row for row in result.split.to_pylist() if row["basis"] == EXPOSED]
    parts: dict[str, dict[Look, float | None]] = {}
    for row in rows:
        sides = {row["variant"]: row["candidate_ns"]}
        if row["variant"] == rows[0]["variant"]:
            sides[result.baseline] = row["baseline_ns"]
        for variant, part_ns in sides.items():
            of_variant = parts.setdefault(variant, dict.fromkeys(_CLOCK_PARTS.values(), 0))
            look = _CLOCK_PARTS.get(row["part_group"], _COPIES)
            of_variant[look] = (of_variant[look] or 0) + part_ns
    bars = stacked(
        [labels[row["variant"]] for row in variants],
        [[*parts.get(r["variant"], {_OF_UNKNOWN: clock_ns(r)}).items()] for r in variants],
        [clock_ns(row) for row in variants],
    )
    caption = (
        "Where activities overlap, time counts as compute first, then as communication, then as"
        " copies. The rest is idle."
    )
    title = f"{measured} by the clock, on each variant's busiest device"
    return figure("clock", title, caption, [bars])


def _waterfalls(result: Comparison, labels: Mapping[str, str]) -> Iterator[Figure]:
    """From the baseline to each candidate, a bar per part of the difference, on one axis."""
    split = waterfall.by_candidate_basis(result.split).to_pylist()
    by_variant = {v: list(rows) for v, rows in groupby(split, key=lambda row: row["variant"])}
    large = {
        variant
        for variant, rows in by_variant.items()
        if max(abs(row["difference_ns"]) for row in rows)
        >= _LEAST_SHARE * sum(row["baseline_ns"] for row in rows)
    }
    drawn = [row for row in split if row["variant"] in large]
    panels = waterfall.bars(drawn, result.baseline, labels)
    count, baseline = result.outcomes.num_rows, labels[result.baseline]
    few = f" One of the {waterfall.MOST} that differ most of {count}." * (count > waterfall.MOST)
    for number, variant in enumerate(by_variant):
        name, title = f"waterfall-{number}", f"From {baseline} to {labels[variant]}"
        if variant not in panels:
            title += f": no part differs by 1 % of the time of {baseline}"
            yield Figure(name, title, "Too little to draw.", table="split")
            continue
        panel = panels[variant]
        note = f"; {panel.note}" if panel.note else ""
        cut = " Totals are cut at the strokes." if panel.first else ""
        caption = f"Per {result.unit}: {panel.label}{note}.{few}{cut}"
        yield figure(name, title, caption, [panel], "split")
