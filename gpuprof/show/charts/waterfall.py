"""From the baseline to each candidate, part by part: what the difference is made of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress, groupby
from typing import Final

import pyarrow as pa

from gpuprof.base.labels import label
from gpuprof.base.units import say_ns, say_signed_ns
from gpuprof.show import COMPARISON, Row
from gpuprof.show.cells import clean, without_common_ends
from gpuprof.show.charts.figure import (
    HTOD,
    KERNELS,
    PEER,
    Bars,
    Chart,
    Look,
    Part,
    Picture,
    Results,
)

_TOTAL: Final = replace(KERNELS, name="total", kind="total")
_SLOWER: Final = replace(PEER, name="takes longer", kind="worse")
_FASTER: Final = replace(HTOD, name="takes less", kind="better")
# What the times of a basis are, and a remark on them.
_BASES: Final = {
    "exposed": (
        "time of each side's busiest device",
        "time hidden behind kernels does not count",
    ),
    "sums": ("sums over all devices, which measure work and not elapsed time", ""),
    "kernels": ("sums of kernels over all devices", "copy times are not known"),
}
# Parts that make less than this share of the greatest difference are one step.
_SMALL: Final = 0.01
_CUT_FROM: Final = 4
# Of several candidates, so many parts are told apart, the same and in one order for all.
_MOST_PARTS: Final = 4
MOST: Final = 6
_ROOM: Final = 0.5


def picture(results: Results) -> Picture:
    """The rows of `split` on the better of its bases, with the baseline's name in each."""
    split = results.table("split")
    rows = by_candidate_basis(split)
    candidates = len(set(split.column("variant").to_pylist()))
    few = f"of {candidates} candidates the {MOST} that differ most" * (candidates > MOST)
    variants = rows.column("variant").to_pylist()
    names = without_common_ends([results.baseline, *variants])
    table = rows.append_column("baseline", pa.array([results.baseline] * len(rows), pa.string()))
    panels = [*bars(rows.to_pylist(), results.baseline, names).values()]
    # One axis for all, below the last.
    shared = [replace(panel, label="", note="") for panel in panels[:-1]]
    last = [replace(p, note="; ".join(filter(None, (p.note, few)))) for p in panels[-1:]]
    return Picture(results.headline, table, [*shared, *last])


def by_candidate_basis(split: pa.Table) -> pa.Table:
    """Each candidate's rows on the first of its bases: exposed times where they are known.

    Of many candidates those that differ most: more pictures are not looked at.
    """
    rows = split.to_pylist()
    chosen = {row["variant"]: row["basis"] for row in reversed(rows)}
    is_chosen = [chosen[row["variant"]] == row["basis"] for row in rows]
    differences: Counter[str] = Counter()
    for row in compress(rows, is_chosen):
        differences[row["variant"]] += row["difference_ns"]
    largest = sorted(differences, key=lambda variant: -abs(differences[variant]))[:MOST]
    shown = [
        is_own and row["variant"] in largest for row, is_own in zip(rows, is_chosen, strict=True)
    ]
    return split.filter(pa.array(shown, pa.bool_()))


def bars(rows: Sequence[Row], baseline: str, names: Mapping[str, str]) -> dict[str, Bars]:
    """A panel per candidate, all on one axis, which begins at 0 or where they begin to differ.

    Args:
        rows: Those of `by_candidate_basis`.
        baseline: What all are compared with.
        names: What each variant is called.
    """
    by_variant = {key: list(of) for key, of in groupby(rows, key=lambda row: row["variant"])}
    # Each candidate counts as much, so that what remains of none is longer than what is named.
    shares = Counter[str]()
    for of_variant in by_variant.values():
        whole = sum(abs(row["difference_ns"]) for row in of_variant) or 1
        shares.update({row["part"]: abs(row["difference_ns"]) / whole for row in of_variant})
    order = [part for part, _ in shares.most_common()]
    told_apart = order if len(by_variant) == 1 else order[:_MOST_PARTS]
    steps_of = {
        variant: _steps(parts, (names[baseline], names[variant]), told_apart)
        for variant, parts in by_variant.items()
    }
    ends = [end for steps in steps_of.values() for *_, end in steps]
    low, high = min(ends, default=0), max(ends, default=0)
    # Totals would dwarf the differences of all panels.
    first = low - _ROOM * (high - low) if low > _CUT_FROM * (high - low) > 0 else 0.0
    cut, panels = f"the axis begins at {say_ns(first)}" if first else "", {}
    for variant, steps in steps_of.items():
        basis = by_variant[variant][0]["basis"]
        quantity, remark = _BASES.get(basis, (basis, ""))
        labels, parts, figures = [], [], []
        for place, (name, look, start, end) in enumerate(steps):
            figures.append(say_ns(end) if look is _TOTAL else say_signed_ns(round(end - start)))
            labels.append(clean(name))
            parts.append(Part(place, look, start, end, clean(f"{name}: {figures[-1]}")))
        looks, note = (_TOTAL, _SLOWER, _FASTER), "; ".join(filter(None, (remark, cut)))
        panels[variant] = Bars(
            *(labels, parts, looks, figures, quantity, note), first=first, last=high
        )
    return panels


def _steps(
    rows: Sequence[Row], names: tuple[str, str], told_apart: Sequence[str]
) -> list[tuple[str, Look, float, float]]:
    """Name, look, start and end of each bar from a baseline to a candidate."""
    baseline, candidate = names
    at = sum(row["baseline_ns"] for row in rows)
    steps = [(baseline, _TOTAL, 0.0, at)]
    least = _SMALL * max((abs(row["difference_ns"]) for row in rows), default=0)
    shown = [
        row
        for row in rows
        if row["part"] in told_apart and row["difference_ns"] and abs(row["difference_ns"]) >= least
    ]
    shown.sort(key=lambda row: told_apart.index(row["part"]))
    rest_ns = sum(row["difference_ns"] for row in rows) - sum(row["difference_ns"] for row in shown)
    parts = [(label(row["part"]), row["difference_ns"]) for row in shown]
    for name, difference in [*parts, *([("everything else", rest_ns)] if rest_ns else [])]:
        steps.append((name, _SLOWER if difference > 0 else _FASTER, at, at + difference))
        at += difference
    return [*steps, (candidate, _TOTAL, 0.0, at)]


CHART: Final = Chart(
    "waterfall",
    "What the difference of each candidate to the baseline is made of",
    COMPARISON,
    ("split",),
    picture,
)
